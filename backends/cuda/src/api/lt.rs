//! The library of matrix products, cuBLASLt. It is optional.

use super::driver::RawStream;
use super::library::{Search, functions, opaque};
use cudarc::cublaslt::sys;
use std::ffi::c_void;
use thalweg_hal::{Error, Result};

opaque! {
    /// `cublasLtHandle_t`.
    RawHandle;
    /// `cublasLtMatmulDesc_t`.
    RawDesc;
    /// `cublasLtMatrixLayout_t`.
    RawLayout;
    /// `cublasLtMatmulPreference_t`.
    RawPreference;
}

type Out<T> = *mut T;
type Code = u32;

/// `cublasLtMatmulHeuristicResult_t`, with its code as a number.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Choice {
    /// How the product is computed.
    pub(crate) algo: sys::cublasLtMatmulAlgo_t,
    /// Bytes of scratch memory.
    pub(crate) workspace: usize,
    state: Code,
    waves: f32,
    reserved: [i32; 4],
}

const _: () = assert!(size_of::<Choice>() == size_of::<sys::cublasLtMatmulHeuristicResult_t>());

impl Choice {
    /// No choice.
    pub(crate) const NONE: Choice = Choice {
        algo: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
        workspace: 0,
        state: 0,
        waves: 0.0,
        reserved: [0; 4],
    };

    /// Whether it can be used.
    pub(crate) fn is_usable(&self) -> bool {
        self.state == 0
    }
}

functions! {
    /// The functions of cuBLASLt.
    Lt:
    create = "cublasLtCreate"(Out<RawHandle>) -> Code;
    destroy = "cublasLtDestroy"(RawHandle) -> Code;
    desc_create = "cublasLtMatmulDescCreate"(Out<RawDesc>, sys::cublasComputeType_t, sys::cudaDataType_t) -> Code;
    desc_set = "cublasLtMatmulDescSetAttribute"
        (RawDesc, sys::cublasLtMatmulDescAttributes_t, *const c_void, usize) -> Code;
    desc_destroy = "cublasLtMatmulDescDestroy"(RawDesc) -> Code;
    layout_create = "cublasLtMatrixLayoutCreate"(Out<RawLayout>, sys::cudaDataType_t, u64, u64, i64) -> Code;
    layout_set = "cublasLtMatrixLayoutSetAttribute"
        (RawLayout, sys::cublasLtMatrixLayoutAttribute_t, *const c_void, usize) -> Code;
    layout_destroy = "cublasLtMatrixLayoutDestroy"(RawLayout) -> Code;
    preference_create = "cublasLtMatmulPreferenceCreate"(Out<RawPreference>) -> Code;
    preference_set = "cublasLtMatmulPreferenceSetAttribute"
        (RawPreference, sys::cublasLtMatmulPreferenceAttributes_t, *const c_void, usize) -> Code;
    preference_destroy = "cublasLtMatmulPreferenceDestroy"(RawPreference) -> Code;
    heuristic = "cublasLtMatmulAlgoGetHeuristic"
        (RawHandle, RawDesc, RawLayout, RawLayout, RawLayout, RawLayout, RawPreference, i32, Out<Choice>, Out<i32>)
        -> Code;
    #[optional]
    algo_check = "cublasLtMatmulAlgoCheck"
        (RawHandle, RawDesc, RawLayout, RawLayout, RawLayout, RawLayout, *const sys::cublasLtMatmulAlgo_t, Out<Choice>)
        -> Code;
    #[optional]
    algo_config = "cublasLtMatmulAlgoConfigGetAttribute"
        (*const sys::cublasLtMatmulAlgo_t, sys::cublasLtMatmulAlgoConfigAttributes_t, *mut c_void, usize, Out<usize>)
        -> Code;
    matmul = "cublasLtMatmul"
        (RawHandle, RawDesc, *const c_void, u64, RawLayout, u64, RawLayout, *const c_void, u64, RawLayout, u64, RawLayout,
         *const sys::cublasLtMatmulAlgo_t, u64, usize, RawStream) -> Code;
}

impl Lt {
    /// Whether an algorithm is known to sum in one piece.
    pub(crate) fn is_whole(&self, algo: &sys::cublasLtMatmulAlgo_t) -> bool {
        use sys::cublasLtMatmulAlgoConfigAttributes_t as Key;
        let Some(config) = self.algo_config else {
            return false;
        };
        let read = |key| {
            let (mut value, mut written) = (0_u32, 0);
            // SAFETY: both attributes have four bytes.
            let code = unsafe { config(algo, key, (&raw mut value).cast(), 4, &raw mut written) };
            (code == 0 && written == 4).then_some(value)
        };
        let none = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_NONE as u32;
        read(Key::CUBLASLT_ALGO_CONFIG_SPLITK_NUM).is_some_and(|pieces| pieces <= 1)
            && read(Key::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) == Some(none)
    }

    /// Opens cuBLASLt for a driver of this version.
    pub(crate) fn open(search: &Search, driver: i32) -> Result<&'static Lt> {
        let names: &[&str] = if driver >= 13_000 {
            &["libcublasLt.so.13", "libcublasLt.so.12"]
        } else {
            &["libcublasLt.so.12"]
        };
        let (library, name) = search.open(names, "matrix products take kernels of our own")?;
        Ok(Box::leak(Box::new(Lt::resolve(library, &name)?)))
    }

    /// An error unless `code` is success.
    pub(crate) fn check(call: &str, code: u32) -> Result<()> {
        if code == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS as u32 {
            return Ok(());
        }
        let message = format!("{call} returned the status {code}");
        Err(
            if code == sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED as u32 {
                Error::out_of_memory(message)
            } else {
                Error::launch_failed(message)
            },
        )
    }
}
