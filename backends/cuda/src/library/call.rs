//! Calls of cuBLASLt.

use super::Handle;
use super::epilogue::adds_bias;
use super::shape::{Matrix, Shape};
use crate::api::driver::{DevicePtr, RawStream};
use crate::api::lt::{Choice, Lt, RawDesc, RawLayout, RawPreference};
use crate::device::CudaDevice;
use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtEpilogue_t as Epilogue,
    cublasLtMatmulDescAttributes_t as DescKey, cublasLtMatmulPreferenceAttributes_t as PreferenceKey,
    cublasLtMatrixLayoutAttribute_t as LayoutKey, cudaDataType_t as Data,
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

/// By shape and whether there is a bias; none where the library has no way for it.
type Plans = HashMap<(Shape, bool), Option<Arc<Plan>>>;

/// A product of matrices that cuBLASLt computes where a launch's strides allow it.
pub(crate) struct Product {
    handle: Arc<Handle>,
    compute: Compute,
    scale: Data,
    operand: Data,
    output: Data,
    bytes: (u64, u64),
    factors: Factors,
    bias: bool,
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
    /// Refuses an epilogue that would keep a product from the library: its tensor cores are worth more than what a map after it
    /// costs, and on its own the product is the library's, whose bits are not those of our kernel.
    ///
    /// # Errors
    /// `Unsupported` for such an op.
    pub(crate) fn takes_epilogue(handle: &Arc<Handle>, op: &Matmul) -> Result<()> {
        let alone = Matmul {
            epilogue: None,
            ..op.clone()
        };
        if Product::new(handle, op).is_some() || Product::new(handle, &alone).is_none() {
            return Ok(());
        }
        Err(Error::unsupported(
            "cuBLASLt computes this matmul, but without its epilogue; run that on its own",
        ))
    }

    /// The product, if the library has its dtypes and its epilogue.
    pub(crate) fn new(handle: &Arc<Handle>, op: &Matmul) -> Option<Product> {
        let output = match &op.epilogue {
            None => op.output,
            Some(epilogue) if adds_bias(epilogue) => epilogue.params.last()?.dtype,
            Some(_) => return None,
        };
        let single = if handle.tf32 {
            Compute::CUBLAS_COMPUTE_32F_FAST_TF32
        } else {
            Compute::CUBLAS_COMPUTE_32F
        };
        let (compute, scale, one) = match (op.dtype, op.accumulate, output) {
            (DType::F32, DType::F32, DType::F32) => (single, Data::CUDA_R_32F, 0x3f80_0000_u64),
            (DType::F16 | DType::BF16, DType::F32, out) if out == op.dtype || out == DType::F32 => {
                (Compute::CUBLAS_COMPUTE_32F, Data::CUDA_R_32F, 0x3f80_0000)
            }
            (DType::F64, DType::F64, DType::F64) => (
                Compute::CUBLAS_COMPUTE_64F,
                Data::CUDA_R_64F,
                0x3ff0_0000_0000_0000,
            ),
            (DType::I8, DType::I32, DType::I32) if op.epilogue.is_none() => {
                (Compute::CUBLAS_COMPUTE_32I, Data::CUDA_R_32I, 1)
            }
            _ => return None,
        };
        Some(Product {
            handle: Arc::clone(handle),
            compute,
            scale,
            operand: data(op.dtype)?,
            output: data(output)?,
            bytes: (op.dtype.size() as u64, output.size() as u64),
            factors: Factors {
                one: one.to_le_bytes(),
                zero: [0; 8],
            },
            bias: op.epilogue.is_some(),
            plans: Mutex::default(),
        })
    }

    /// A launch, planned; `None` where the library does not take its strides.
    pub(crate) fn prepare(self: &Arc<Self>, launch: &Launch<'_, CudaDevice>) -> Result<Option<Call>> {
        let [first, second, more @ .., out] = launch.bindings else {
            return Ok(None);
        };
        let strides = (first.strides, second.strides, out.strides);
        let Some(mut shape) = Shape::new(launch.extents, strides.0, strides.1, strides.2) else {
            return Ok(None);
        };
        let bias = match more {
            [] if !self.bias => None,
            [bias] if self.bias => match vector(bias.strides, shape.swapped) {
                true => Some(bias.region.chunk.at(bias.region.offset)),
                false => return Ok(None),
            },
            _ => return Ok(None),
        };
        let at =
            |bound: &thalweg_hal::backend::Bound<'_, CudaDevice>| bound.region.chunk.at(bound.region.offset);
        let (a, b, d) = (at(first), at(second), at(out));
        let (a, b) = if shape.swapped { (b, a) } else { (a, b) };
        let lowest = (a | b | d | bias.unwrap_or(0)).trailing_zeros().min(4);
        shape.alignment = 1 << lowest;
        if u64::from(shape.alignment) < self.bytes.0.max(self.bytes.1) {
            return Ok(None);
        }
        let key = (shape, bias.is_some());
        let known = self.plans.lock().get(&key).cloned();
        let plan = match known {
            Some(plan) => plan,
            None => {
                self.handle.context.enter()?;
                let plan = Plan::new(self, &shape, bias)?.map(Arc::new);
                self.plans.lock().entry(key).or_insert(plan).clone()
            }
        };
        Ok(plan.map(|plan| Call {
            product: Arc::clone(self),
            plan,
            a,
            b,
            d,
            bias,
        }))
    }
}

/// Whether a bias lies along the columns of cuBLASLt's output, without gaps and the same for every product of a batch.
fn vector(strides: &[i64], swapped: bool) -> bool {
    match strides {
        [batch @ .., down, right] => {
            let (along, across) = if swapped { (*right, *down) } else { (*down, *right) };
            along == 1 && across == 0 && batch.iter().all(|&stride| stride == 0)
        }
        _ => false,
    }
}

/// How products of one shape are computed.
struct Plan {
    // One thread at a time sets the address of a bias and calls.
    desc: Mutex<RawDesc>,
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
            (self.api.desc_destroy)(*self.desc.get_mut());
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
    fn new(product: &Product, shape: &Shape, bias: Option<DevicePtr>) -> Result<Option<Plan>> {
        let api = product.handle.api;
        let mut desc = RawDesc(std::ptr::null_mut());
        // SAFETY: plain call.
        let code = unsafe { (api.desc_create)(&raw mut desc, product.compute, product.scale) };
        Lt::check("cublasLtMatmulDescCreate", code)?;
        let mut plan = Plan {
            desc: Mutex::new(desc),
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
        // The sums of a product are the same bits with a bias and without where the library takes the same algorithm for both.
        let alone = plan.choose(product, shape.alignment)?;
        if let Some(bias) = bias {
            let epilogue = Epilogue::CUBLASLT_EPILOGUE_BIAS as u32;
            plan.set_desc(DescKey::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
            plan.set_desc(
                DescKey::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                &(product.output as u32),
            )?;
            plan.set_desc(DescKey::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        }
        let choice = match (alone, bias) {
            (Some(alone), Some(_)) => match plan.check(product, &alone) {
                Some(choice) => Some(choice),
                None => plan.choose(product, shape.alignment)?,
            },
            (alone, _) => alone,
        };
        plan.choice = match choice {
            Some(choice) => choice,
            None => return Ok(None),
        };
        Ok(Some(plan))
    }

    fn set_desc<T>(&self, key: DescKey, value: &T) -> Result<()> {
        let desc = *self.desc.lock();
        // SAFETY: a value of the attribute's size.
        let code =
            unsafe { (self.api.desc_set)(desc, key, std::ptr::from_ref(value).cast(), size_of::<T>()) };
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

    /// The same way for what the plan describes now, if the library takes it.
    fn check(&self, product: &Product, choice: &Choice) -> Option<Choice> {
        let ([a, b, d], mut checked) = (self.layouts, Choice::NONE);
        // SAFETY: what the plan and the choice own, and room for the answer.
        let code = unsafe {
            let (handle, desc) = (product.handle.raw, *self.desc.lock());
            (self.api.algo_check)(handle, desc, a, b, d, d, &raw const choice.algo, &raw mut checked)
        };
        let fits = code == 0 && checked.is_usable() && checked.workspace <= WORKSPACE as usize;
        // The answer is about the algorithm, which it does not repeat.
        checked.algo = choice.algo;
        fits.then_some(checked)
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
            let (handle, desc) = (product.handle.raw, *self.desc.lock());
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
    bias: Option<DevicePtr>,
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
        let desc = plan.desc.lock();
        if let Some(bias) = &self.bias {
            let key = DescKey::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
            // SAFETY: a value of the attribute's size.
            let code = unsafe { (plan.api.desc_set)(*desc, key, std::ptr::from_ref(bias).cast(), 8) };
            Lt::check("cublasLtMatmulDescSetAttribute", code)?;
        }
        let [a, b, d] = plan.layouts;
        // SAFETY: the caller vouches for the memory; factors are in the host's, as by default.
        let code = unsafe {
            (plan.api.matmul)(
                product.handle.raw,
                *desc,
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
