//! Calls of cuBLASLt.

use super::Handle;
use super::after::{After, Biased, Later};
use super::epilogue::adds;
use super::shape::{Matrix, Shape};
use crate::api::driver::{DevicePtr, RawStream};
use crate::api::lt::{Choice, Lt, RawDesc, RawLayout, RawPreference};
use crate::device::CudaDevice;
use crate::launch::{self, Prepared};
use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as DescKey,
    cublasLtMatmulPreferenceAttributes_t as PreferenceKey, cublasLtMatrixLayoutAttribute_t as LayoutKey,
    cudaDataType_t as Data,
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};
use thalweg_hal::backend::{Bound, Launch};
use thalweg_hal::library::Matmul;
use thalweg_hal::{DType, Error, Result};

/// Most bytes of scratch memory of a product; what the library's makers advise for the largest devices.
pub(super) const WORKSPACE: u64 = 32 << 20;

/// The first architecture whose tensor cores take floats of eight bits: compute capability 8.9.
const F8_SM: u32 = 89;

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
    pub(super) handle: Arc<Handle>,
    compute: Compute,
    scale: Data,
    operand: Data,
    pub(super) output: Data,
    /// Whether something is added to the sums.
    adds: bool,
    bytes: (u64, u64),
    /// Whether operands are floats of eight bits, which the library takes in fewer shapes.
    f8: bool,
    factors: Factors,
    plans: Mutex<Plans>,
}

fn data(dtype: DType) -> Option<Data> {
    Some(match dtype {
        DType::F64 => Data::CUDA_R_64F,
        DType::F32 => Data::CUDA_R_32F,
        DType::F16 => Data::CUDA_R_16F,
        DType::BF16 => Data::CUDA_R_16BF,
        DType::F8E4M3 => Data::CUDA_R_8F_E4M3,
        DType::I8 => Data::CUDA_R_8I,
        DType::I32 => Data::CUDA_R_32I,
        // The library has no product of two f8e5m2.
        DType::F8E5M2
        | DType::U8
        | DType::I16
        | DType::U16
        | DType::U32
        | DType::I64
        | DType::U64
        | DType::Bool => return None,
    })
}

impl Product {
    /// The product, if the library has its dtypes, and its epilogue is none or one that adds to the sums what eager code adds to
    /// them: where a product is rounded first, the epilogue stays apart.
    pub(crate) fn new(handle: &Arc<Handle>, op: &Matmul) -> Option<Product> {
        let [dtype, other] = op.operands;
        let same = dtype == op.accumulate && op.accumulate == op.output;
        if dtype != other || (op.epilogue.as_ref()).is_some_and(|epilogue| !same || !adds(epilogue)) {
            return None;
        }
        let single = if handle.tf32 {
            Compute::CUBLAS_COMPUTE_32F_FAST_TF32
        } else {
            Compute::CUBLAS_COMPUTE_32F
        };
        let (compute, scale, one) = match (dtype, op.accumulate, op.output) {
            (DType::F32, DType::F32, DType::F32) => (single, Data::CUDA_R_32F, 0x3f80_0000_u64),
            (DType::F16 | DType::BF16, DType::F32, out) if out == dtype || out == DType::F32 => {
                (Compute::CUBLAS_COMPUTE_32F, Data::CUDA_R_32F, 0x3f80_0000)
            }
            (DType::F8E4M3, DType::F32, DType::F32 | DType::F16 | DType::BF16) if handle.sm >= F8_SM => {
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
            operand: data(dtype)?,
            output: data(op.output)?,
            adds: op.epilogue.is_some(),
            bytes: (dtype.size() as u64, op.output.size() as u64),
            f8: dtype.is_storage(),
            factors: Factors {
                one: one.to_le_bytes(),
                zero: [0; 8],
            },
            plans: Mutex::default(),
        })
    }

    /// A launch that has results, planned; `None` where the library does not take its strides.
    pub(crate) fn prepare(self: &Arc<Self>, launch: &Launch<'_, CudaDevice>) -> Result<Option<Call>> {
        let ([first, second, added @ .., out], Some((_, space))) =
            (launch.bindings, launch.extents.split_last())
        else {
            return Ok(None);
        };
        if added.len() != usize::from(self.adds) {
            return Ok(None);
        }
        // What is summed depends neither on what is added to it nor on where it goes: it is the product that lies in memory of its
        // own.
        let own = without_gaps(space);
        let Some(mut shape) = Shape::new(launch.extents, first.strides, second.strides, &own) else {
            return Ok(None);
        };
        let at = |bound: &Bound<'_, CudaDevice>| bound.region.chunk.at(bound.region.offset);
        let (a, b, d) = (at(first), at(second), at(out));
        let (a, b) = if shape.swapped { (b, a) } else { (a, b) };
        shape.alignment = 1 << (a | b).trailing_zeros().min(4);
        if u64::from(shape.alignment) < self.bytes.0.max(self.bytes.1)
            || self.f8 && !shape.fits_f8(self.bytes.1)
        {
            return Ok(None);
        }
        let Some(plan) = self.plan(&shape)? else {
            return Ok(None);
        };
        let mut axes = space.iter().zip(out.strides).zip(&own);
        let lies_so = d.is_multiple_of(16) && axes.all(|((&extent, a), b)| extent == 1 || a == b);
        let in_scratch = !lies_so || added.iter().any(|x| at(x) == d);
        let after = After::new(self, &plan, &shape, launch, in_scratch.then_some(&own[..]))?;
        let bytes = space.iter().product::<u64>() * self.bytes.1;
        Ok(Some(Call {
            product: Arc::clone(self),
            room: u64::from(in_scratch) * bytes.next_multiple_of(256),
            plan,
            a,
            b,
            d,
            after,
        }))
    }

    fn plan(&self, shape: &Shape) -> Result<Option<Arc<Plan>>> {
        if let Some(known) = self.plans.lock().get(shape) {
            return Ok(known.clone());
        }
        self.handle.context.enter()?;
        let plan = Plan::new(self, shape)?.map(Arc::new);
        Ok(self.plans.lock().entry(*shape).or_insert(plan).clone())
    }
}

/// Strides of memory without gaps.
fn without_gaps(space: &[u64]) -> SmallVec<[i64; 8]> {
    let mut strides = SmallVec::from_elem(1, space.len());
    for axis in (1..space.len()).rev() {
        strides[axis - 1] = strides[axis] * space[axis] as i64;
    }
    strides
}

/// A description of products.
pub(super) struct Desc {
    pub(super) raw: RawDesc,
    api: &'static Lt,
}

impl Drop for Desc {
    fn drop(&mut self) {
        // SAFETY: owned; calls keep what they need.
        unsafe { (self.api.desc_destroy)(self.raw) };
    }
}

impl Desc {
    /// The description of products of a shape.
    pub(super) fn new(product: &Product, shape: &Shape) -> Result<Desc> {
        let (api, mut raw) = (product.handle.api, RawDesc(std::ptr::null_mut()));
        // SAFETY: plain call.
        let code = unsafe { (api.desc_create)(&raw mut raw, product.compute, product.scale) };
        Lt::check("cublasLtMatmulDescCreate", code)?;
        let desc = Desc { raw, api };
        let turn = |matrix: &Matrix| u32::from(matrix.transposed);
        desc.set(DescKey::CUBLASLT_MATMUL_DESC_TRANSA, &turn(&shape.a))?;
        desc.set(DescKey::CUBLASLT_MATMUL_DESC_TRANSB, &turn(&shape.b))?;
        Ok(desc)
    }

    /// Sets an attribute, whose type is `T`.
    pub(super) fn set<T>(&self, key: DescKey, value: &T) -> Result<()> {
        Lt::check("cublasLtMatmulDescSetAttribute", self.put(key, value))
    }

    /// The same, with the library's code.
    pub(super) fn put<T>(&self, key: DescKey, value: &T) -> u32 {
        // SAFETY: a value of the attribute's size.
        unsafe { (self.api.desc_set)(self.raw, key, std::ptr::from_ref(value).cast(), size_of::<T>()) }
    }
}

/// How products of one shape are computed.
pub(super) struct Plan {
    desc: Desc,
    pub(super) layouts: [RawLayout; 3],
    pub(super) choice: Choice,
    /// The same with a bias, from the first launch that has one.
    pub(super) biased: OnceLock<Option<Arc<Biased>>>,
    api: &'static Lt,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: owned; calls keep what they need.
        unsafe {
            for layout in self.layouts.iter().filter(|layout| !layout.0.is_null()) {
                (self.api.layout_destroy)(*layout);
            }
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
        let mut plan = Plan {
            desc: Desc::new(product, shape)?,
            layouts: [RawLayout(std::ptr::null_mut()); 3],
            choice: Choice::NONE,
            biased: OnceLock::new(),
            api: product.handle.api,
        };
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
            let (handle, desc) = (product.handle.raw, self.desc.raw);
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
    /// Bytes at the start of the scratch memory that the product is written to; 0 where it is written to `d`.
    room: u64,
    after: After,
}

impl Call {
    /// Bytes of scratch memory.
    pub(crate) fn scratch_bytes(&self) -> u64 {
        let then = match &self.after {
            After::Map(map) => map.plan.scratch_bytes,
            After::Bias(biased, _, later) => later.scratch_bytes().max(biased.workspace as u64),
            After::Nothing => 0,
        };
        self.room + (self.plan.choice.workspace as u64).max(then)
    }

    /// What the nodes of a graph depend on besides addresses. Whoever compares two of them holds the product.
    pub(crate) fn form(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.plan) as usize, self.after.form())
    }

    /// Queues the product and what follows it; the context is current.
    ///
    /// # Safety
    /// The operands live until the stream has passed it, and `scratch` is memory of its size that nobody else uses.
    pub(crate) unsafe fn queue(&self, stream: RawStream, scratch: DevicePtr) -> Result<()> {
        let (context, free) = (&self.product.handle.context, scratch + self.room);
        let d = if self.room > 0 { scratch } else { self.d };
        // SAFETY: the caller vouches for the memory.
        let product =
            |desc: &Desc, workspace| unsafe { self.queue_product(desc, stream, d, (free, workspace)) };
        let alone = || self.judge(product(&self.plan.desc, self.plan.choice.workspace));
        let then = |map: &Prepared| {
            let moved = (self.room > 0).then(|| {
                let mut other = map.clone();
                other.buffers[0] = d;
                other
            });
            let own = (map.plan.scratch_bytes > 0).then_some(free);
            let check = |call: &str, code| context.check(call, code);
            let map = moved.as_ref().unwrap_or(map);
            // SAFETY: as above; the product does not use its scratch memory any more.
            unsafe { launch::queue_on(map, context.api, stream, own, check) }
        };
        match &self.after {
            After::Nothing => alone(),
            After::Map(map) => alone().and_then(|()| then(map)),
            After::Bias(biased, bias, later) => {
                if let Some(code) = biased.with(*bias, |desc| product(desc, biased.workspace)) {
                    return self.judge(code);
                }
                let map = Later::clone(later).prepare()?;
                alone()?;
                map.as_ref().map_or(Ok(()), then)
            }
        }
    }

    fn judge(&self, code: u32) -> Result<()> {
        self.product.handle.context.alive()?;
        Lt::check("cublasLtMatmul", code)
            .map_err(|error| Error::new(error.status, format!("matmul: {error}")))
    }

    /// The library's code.
    ///
    /// # Safety
    /// As [`Call::queue`], with an output.
    unsafe fn queue_product(
        &self,
        desc: &Desc,
        stream: RawStream,
        d: DevicePtr,
        (workspace, bytes): (DevicePtr, usize),
    ) -> u32 {
        let (product, plan) = (&self.product, &self.plan);
        let [of_a, of_b, of_d] = plan.layouts;
        // SAFETY: the caller vouches for the memory; factors are in the host's, as by default.
        unsafe {
            (plan.api.matmul)(
                product.handle.raw,
                desc.raw,
                product.factors.one.as_ptr().cast(),
                self.a,
                of_a,
                self.b,
                of_b,
                product.factors.zero.as_ptr().cast(),
                d,
                of_d,
                d,
                of_d,
                &raw const plan.choice.algo,
                workspace,
                bytes,
                stream,
            )
        }
    }
}
