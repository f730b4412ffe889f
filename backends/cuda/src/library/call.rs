//! Calls of cuBLASLt.

use super::Handle;
use super::shape::{Matrix, Shape};
use crate::api::driver::{DevicePtr, RawStream};
use crate::api::lt::{Choice, Lt, RawDesc, RawLayout, RawPreference};
use crate::device::CudaDevice;
use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as DescKey,
    cublasLtMatmulPreferenceAttributes_t as PreferenceKey, cublasLtMatrixLayoutAttribute_t as LayoutKey,
    cudaDataType_t as Data,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;
use thalweg_hal::backend::Launch;
use thalweg_hal::library::Matmul;
use thalweg_hal::{DType, Error, Result};

/// Most bytes of scratch memory of a product; what the library's makers advise for the largest devices.
const WORKSPACE: u64 = 32 << 20;

/// Numbers that scale products, in the type of the sum.
#[repr(align(8))]
struct Factors {
    one: [u8; 8],
    zero: [u8; 8],
}

/// By shape; none where the library has no way for it.
type Plans = HashMap<Shape, Option<Arc<Plan>>>;

/// A product of matrices that cuBLASLt computes where a launch's strides allow it.
pub(crate) struct Product {
    handle: Arc<Handle>,
    compute: Compute,
    scale: Data,
    operand: Data,
    output: Data,
    bytes: (u64, u64),
    factors: Factors,
    plans: Mutex<Plans>,
}

fn data(dtype: DType) -> Option<Data> {
    Some(match dtype {
        DType::F64 => Data::CUDA_R_64F,
        DType::F32 => Data::CUDA_R_32F,
        DType::F16 => Data::CUDA_R_16F,
        DType::BF16 => Data::CUDA_R_16BF,
        DType::I8 => Data::CUDA_R_8I,
        DType::I32 => Data::CUDA_R_32I,
        DType::U8 | DType::I16 | DType::U16 | DType::U32 | DType::I64 | DType::U64 | DType::Bool => {
            return None;
        }
    })
}

impl Product {
    /// The product, if the library has its dtypes. It takes no epilogue: a map follows instead. So a product keeps the bits that it has
    /// on its own, whatever is added to it and in whatever strides, and is never one of our kernels for an epilogue's sake, which
    /// have no tensor cores.
    pub(crate) fn new(handle: &Arc<Handle>, op: &Matmul) -> Option<Product> {
        if op.epilogue.is_some() {
            return None;
        }
        let single = if handle.tf32 {
            Compute::CUBLAS_COMPUTE_32F_FAST_TF32
        } else {
            Compute::CUBLAS_COMPUTE_32F
        };
        let (compute, scale, one) = match (op.dtype, op.accumulate, op.output) {
            (DType::F32, DType::F32, DType::F32) => (single, Data::CUDA_R_32F, 0x3f80_0000_u64),
            (DType::F16 | DType::BF16, DType::F32, out) if out == op.dtype || out == DType::F32 => {
                (Compute::CUBLAS_COMPUTE_32F, Data::CUDA_R_32F, 0x3f80_0000)
            }
            (DType::F64, DType::F64, DType::F64) => (
                Compute::CUBLAS_COMPUTE_64F,
                Data::CUDA_R_64F,
                0x3ff0_0000_0000_0000,
            ),
            (DType::I8, DType::I32, DType::I32) => (Compute::CUBLAS_COMPUTE_32I, Data::CUDA_R_32I, 1),
            _ => return None,
        };
        Some(Product {
            handle: Arc::clone(handle),
            compute,
            scale,
            operand: data(op.dtype)?,
            output: data(op.output)?,
            bytes: (op.dtype.size() as u64, op.output.size() as u64),
            factors: Factors {
                one: one.to_le_bytes(),
                zero: [0; 8],
            },
            plans: Mutex::default(),
        })
    }

    /// A launch, planned; `None` where the library does not take its strides.
    pub(crate) fn prepare(self: &Arc<Self>, launch: &Launch<'_, CudaDevice>) -> Result<Option<Call>> {
        let [first, second, out] = launch.bindings else {
            return Ok(None);
        };
        let strides = (first.strides, second.strides, out.strides);
        let Some(mut shape) = Shape::new(launch.extents, strides.0, strides.1, strides.2) else {
            return Ok(None);
        };
        let at =
            |bound: &thalweg_hal::backend::Bound<'_, CudaDevice>| bound.region.chunk.at(bound.region.offset);
        let (a, b, d) = (at(first), at(second), at(out));
        let (a, b) = if shape.swapped { (b, a) } else { (a, b) };
        let lowest = (a | b | d).trailing_zeros().min(4);
        shape.alignment = 1 << lowest;
        if u64::from(shape.alignment) < self.bytes.0.max(self.bytes.1) {
            return Ok(None);
        }
        let known = self.plans.lock().get(&shape).cloned();
        let plan = match known {
            Some(plan) => plan,
            None => {
                self.handle.context.enter()?;
                let plan = Plan::new(self, &shape)?.map(Arc::new);
                self.plans.lock().entry(shape).or_insert(plan).clone()
            }
        };
        Ok(plan.map(|plan| Call {
            product: Arc::clone(self),
            plan,
            a,
            b,
            d,
        }))
    }
}

/// How products of one shape are computed.
struct Plan {
    desc: RawDesc,
    layouts: [RawLayout; 3],
    choice: Choice,
    api: &'static Lt,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: owned; calls keep what they need.
        unsafe {
            for layout in self.layouts.iter().filter(|layout| !layout.0.is_null()) {
                (self.api.layout_destroy)(*layout);
            }
            (self.api.desc_destroy)(self.desc);
        }
    }
}

struct Preference(RawPreference, &'static Lt);

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: owned.
        unsafe { (self.1.preference_destroy)(self.0) };
    }
}

impl Plan {
    /// Asks the library how; the context is current.
    fn new(product: &Product, shape: &Shape) -> Result<Option<Plan>> {
        let api = product.handle.api;
        let mut desc = RawDesc(std::ptr::null_mut());
        // SAFETY: plain call.
        let code = unsafe { (api.desc_create)(&raw mut desc, product.compute, product.scale) };
        Lt::check("cublasLtMatmulDescCreate", code)?;
        let mut plan = Plan {
            desc,
            layouts: [RawLayout(std::ptr::null_mut()); 3],
            choice: Choice::NONE,
            api,
        };
        let turn = |matrix: &Matrix| u32::from(matrix.transposed);
        plan.set_desc(DescKey::CUBLASLT_MATMUL_DESC_TRANSA, &turn(&shape.a))?;
        plan.set_desc(DescKey::CUBLASLT_MATMUL_DESC_TRANSB, &turn(&shape.b))?;
        let matrices = [
            (&shape.a, product.operand),
            (&shape.b, product.operand),
            (&shape.d, product.output),
        ];
        for (index, (matrix, data)) in matrices.into_iter().enumerate() {
            plan.layouts[index] = plan.layout(matrix, data, shape.count)?;
        }
        plan.choice = match plan.choose(product, shape.alignment)? {
            Some(choice) => choice,
            None => return Ok(None),
        };
        Ok(Some(plan))
    }

    fn set_desc<T>(&self, key: DescKey, value: &T) -> Result<()> {
        // SAFETY: a value of the attribute's size.
        let code =
            unsafe { (self.api.desc_set)(self.desc, key, std::ptr::from_ref(value).cast(), size_of::<T>()) };
        Lt::check("cublasLtMatmulDescSetAttribute", code)
    }

    fn layout(&self, matrix: &Matrix, data: Data, count: u64) -> Result<RawLayout> {
        let mut raw = RawLayout(std::ptr::null_mut());
        // SAFETY: plain call.
        let code =
            unsafe { (self.api.layout_create)(&raw mut raw, data, matrix.rows, matrix.columns, matrix.ld) };
        Lt::check("cublasLtMatrixLayoutCreate", code)?;
        let count = count as i32;
        // SAFETY: values of the attributes' sizes.
        let codes = unsafe {
            let (batch, offset) = (
                LayoutKey::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                LayoutKey::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
            );
            [
                (self.api.layout_set)(raw, batch, (&raw const count).cast(), 4),
                (self.api.layout_set)(raw, offset, (&raw const matrix.batch).cast(), 8),
            ]
        };
        for code in codes {
            if let Err(error) = Lt::check("cublasLtMatrixLayoutSetAttribute", code) {
                // SAFETY: made above, and in no plan.
                unsafe { (self.api.layout_destroy)(raw) };
                return Err(error);
            }
        }
        Ok(raw)
    }

    fn choose(&self, product: &Product, alignment: u32) -> Result<Option<Choice>> {
        let (api, mut raw) = (self.api, RawPreference(std::ptr::null_mut()));
        // SAFETY: plain call.
        Lt::check("cublasLtMatmulPreferenceCreate", unsafe {
            (api.preference_create)(&raw mut raw)
        })?;
        let preference = Preference(raw, api);
        let set = |key, value: *const c_void, bytes| {
            // SAFETY: a value of the attribute's size.
            let code = unsafe { (api.preference_set)(preference.0, key, value, bytes) };
            Lt::check("cublasLtMatmulPreferenceSetAttribute", code)
        };
        let (most, workspace) = (PreferenceKey::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, WORKSPACE);
        set(most, (&raw const workspace).cast(), 8)?;
        for key in [
            PreferenceKey::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            PreferenceKey::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            PreferenceKey::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            PreferenceKey::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            set(key, (&raw const alignment).cast(), 4)?;
        }
        let (mut choice, mut found) = (Choice::NONE, 0);
        let [a, b, d] = self.layouts;
        // SAFETY: room for one choice.
        let code = unsafe {
            let (handle, desc) = (product.handle.raw, self.desc);
            (api.heuristic)(
                handle,
                desc,
                a,
                b,
                d,
                d,
                preference.0,
                1,
                &raw mut choice,
                &raw mut found,
            )
        };
        // A refusal is an answer.
        Ok((code == 0 && found > 0 && choice.is_usable()).then_some(choice))
    }
}

/// A product with its addresses, whose owners vouch for them until the stream has passed it.
#[derive(Clone)]
pub(crate) struct Call {
    product: Arc<Product>,
    plan: Arc<Plan>,
    a: DevicePtr,
    b: DevicePtr,
    d: DevicePtr,
}

impl Call {
    /// Bytes of scratch memory.
    pub(crate) fn scratch_bytes(&self) -> u64 {
        self.plan.choice.workspace as u64
    }

    /// Queues the product; the context is current.
    ///
    /// # Safety
    /// The operands live until the stream has passed it, and `scratch` is memory of its size that nobody else uses.
    pub(crate) unsafe fn queue(&self, stream: RawStream, scratch: DevicePtr) -> Result<()> {
        let (product, plan) = (&self.product, &self.plan);
        let [a, b, d] = plan.layouts;
        // SAFETY: the caller vouches for the memory; factors are in the host's, as by default.
        let code = unsafe {
            (plan.api.matmul)(
                product.handle.raw,
                plan.desc,
                product.factors.one.as_ptr().cast(),
                self.a,
                a,
                self.b,
                b,
                product.factors.zero.as_ptr().cast(),
                self.d,
                d,
                self.d,
                d,
                &raw const plan.choice.algo,
                scratch,
                plan.choice.workspace,
                stream,
            )
        };
        product.handle.context.alive()?;
        Lt::check("cublasLtMatmul", code)
            .map_err(|error| Error::new(error.status, format!("matmul: {error}")))
    }
}
