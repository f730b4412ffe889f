//! What follows a product's sums: a bias that the library adds, or a map that adds, or puts them where they go.

use super::call::{Desc, Plan, Product, WORKSPACE};
use super::shape::Shape;
use crate::api::driver::DevicePtr;
use crate::api::lt::Choice;
use crate::device::CudaDevice;
use crate::kernel::place;
use crate::launch::Prepared;
use cudarc::cublaslt::sys::{cublasLtEpilogue_t as Epilogue, cublasLtMatmulDescAttributes_t as DescKey};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use thalweg_cstyle::{Launch as Described, Place};
use thalweg_hal::backend::Launch;
use thalweg_hal::{Error, Result};

/// Multiples that a bias lies at: the library's kernels read it in vectors, and do not say of what length.
const BIAS_ALIGNMENT: u64 = 16;

/// What follows a product's sums.
#[derive(Clone)]
pub(super) enum After {
    Nothing,
    /// The library adds the bias at an address.
    Bias(Arc<Biased>, DevicePtr),
    /// A map over the product, which it may read from scratch memory.
    Map(Box<Prepared>),
}

/// A product's algorithm with a bias beside its sums.
pub(super) struct Biased {
    // One thread at a time sets the address of a bias and calls.
    desc: Mutex<Desc>,
    pub(super) workspace: usize,
}

impl Biased {
    /// The algorithm of `plan` with a bias; `None` where the library does not take that. The algorithm that it would choose for
    /// a bias may sum in another order, and is not asked for.
    fn new(product: &Product, plan: &Plan, shape: &Shape, bias: DevicePtr) -> Result<Option<Biased>> {
        let Some(algo_check) = product.handle.api.algo_check else {
            return Ok(None);
        };
        let desc = Desc::new(product, shape)?;
        let epilogue = Epilogue::CUBLASLT_EPILOGUE_BIAS as u32;
        desc.set(DescKey::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        let dtype = product.output as i32;
        desc.set(DescKey::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &dtype)?;
        desc.set(DescKey::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        let ([a, b, d], mut checked) = (plan.layouts, Choice::NONE);
        // SAFETY: what the plan and the description own, and room for the answer.
        let code = unsafe {
            let (handle, algo) = (product.handle.raw, &raw const plan.choice.algo);
            algo_check(handle, desc.raw, a, b, d, d, algo, &raw mut checked)
        };
        // A refusal is an answer.
        let fits = code == 0 && checked.is_usable() && checked.workspace as u64 <= WORKSPACE;
        Ok(fits.then(|| Biased {
            desc: Mutex::new(desc),
            workspace: checked.workspace,
        }))
    }

    /// The same, asked once a plan.
    fn of(product: &Product, plan: &Plan, shape: &Shape, bias: DevicePtr) -> Result<Option<Arc<Biased>>> {
        if let Some(known) = plan.biased.get() {
            return Ok(known.clone());
        }
        let found = Biased::new(product, plan, shape, bias)?.map(Arc::new);
        Ok(plan.biased.get_or_init(|| found).clone())
    }

    /// Calls `run` with the description of a product with this bias.
    pub(super) fn with<R>(&self, bias: DevicePtr, run: impl FnOnce(&Desc) -> Result<R>) -> Result<R> {
        let desc = self.desc.lock();
        desc.set(DescKey::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        run(&desc)
    }
}

/// Whether strides over `space` are those of a bias: an element for each row of the library's output, which it has in columns, and
/// the same for every column and every product of a batch.
fn is_bias(shape: &Shape, space: &[u64], strides: &[i64]) -> bool {
    let (Some((along, others)), Some((&columns, rest))) = (strides.split_last(), space.split_last()) else {
        return false;
    };
    let still = |(&stride, &extent): (&i64, &u64)| stride == 0 || extent == 1;
    shape.swapped && (*along == 1 || columns == 1) && others.iter().zip(rest).all(still)
}

impl After {
    /// What makes the launch's output of a product that lies there, or in scratch memory with these strides. The context is
    /// current.
    pub(super) fn new(
        product: &Product,
        plan: &Plan,
        shape: &Shape,
        launch: &Launch<'_, CudaDevice>,
        in_scratch: Option<&[i64]>,
    ) -> Result<After> {
        let ([_, _, rest @ ..], Some((_, space))) = (launch.bindings, launch.extents.split_last()) else {
            return Ok(After::Nothing);
        };
        let [added @ .., out] = rest else {
            return Ok(After::Nothing);
        };
        if in_scratch.is_none() {
            let [x] = added else { return Ok(After::Nothing) };
            let bias = x.region.chunk.at(x.region.offset);
            if bias.is_multiple_of(BIAS_ALIGNMENT)
                && is_bias(shape, space, x.strides)
                && let Some(biased) = Biased::of(product, plan, shape, bias)?
            {
                return Ok(After::Bias(biased, bias));
            }
        }
        let Some(map) = &launch.kernel.after_product else {
            return Err(Error::internal(
                "matmul: the library's product has no map for its results",
            ));
        };
        let sum = in_scratch.map_or_else(
            || place(out),
            |strides| Place {
                // No buffer of the device starts there, and scratch memory is aligned as buffers are.
                buffer: 0,
                offset: 0,
                strides,
                gather_stride: 0,
                gather_extent: 0,
            },
        );
        let places: SmallVec<[Place<'_>; 3]> = [sum].into_iter().chain(rest.iter().map(place)).collect();
        let planned = map.plan_at(&Described {
            extents: space,
            places: &places,
            scalars: &[],
        })?;
        let buffers = places.iter().map(|place| place.buffer).collect();
        let map = Prepared::planned(map, planned, buffers)?;
        Ok(map.map_or(After::Nothing, |map| After::Map(Box::new(map))))
    }
}
