//! What follows a product's sums: a bias that the library adds, or a map that adds, or puts them where they go.

use super::call::{Desc, Plan, Product, WORKSPACE};
use super::shape::Shape;
use crate::api::driver::DevicePtr;
use crate::api::lt::Choice;
use crate::device::CudaDevice;
use crate::kernel::{CudaKernel, place};
use crate::launch::{self, Buffers, Prepared};
use cudarc::cublaslt::sys::{
    cublasLtEpilogue_t as Epilogue, cublasLtMatmulDescAttributes_t as DescKey, cublasStatus_t as Status,
};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_cstyle::{Launch as Described, Place, Plan as Planned};
use thalweg_hal::backend::Launch;
use thalweg_hal::{Error, Result};

/// Multiples that a bias lies at: the library's kernels read it in vectors, and do not say of what length.
const BIAS_ALIGNMENT: u64 = 16;

/// What follows a product's sums.
#[derive(Clone)]
pub(super) enum After {
    Nothing,
    /// The library adds the bias at an address; the map does where it refuses to.
    Bias(Arc<Biased>, DevicePtr, Box<Later>),
    /// A map over the product, which it may read from scratch memory.
    Map(Box<Prepared>),
}

/// A map that is compiled where it is needed after all.
#[derive(Clone)]
pub(super) struct Later {
    map: Arc<CudaKernel>,
    plan: Planned,
    buffers: Buffers,
}

impl Later {
    /// Bytes of scratch memory.
    pub(super) fn scratch_bytes(&self) -> u64 {
        self.plan.scratch_bytes
    }

    /// The map, compiled; `None` when there is nothing to do.
    pub(super) fn prepare(self) -> Result<Option<Prepared>> {
        launch::prepare(&self.map, self.plan, self.buffers)
    }
}

/// A product's algorithm with a bias beside its sums.
pub(super) struct Biased {
    // One thread at a time sets the address of a bias and calls.
    desc: Mutex<Desc>,
    pub(super) workspace: usize,
    // The library has refused to queue it.
    refused: AtomicBool,
}

impl Biased {
    /// The algorithm of `plan` with a bias; `None` where the library does not take that, or need not add the bias last. The
    /// algorithm that it would choose for a bias may sum in another order, and is not asked for.
    fn new(product: &Product, plan: &Plan, shape: &Shape) -> Result<Option<Biased>> {
        let api = product.handle.api;
        let Some(algo_check) = api.algo_check.filter(|_| api.is_whole(&plan.choice.algo)) else {
            return Ok(None);
        };
        product.handle.context.enter()?;
        let desc = Desc::new(product, shape)?;
        let epilogue = Epilogue::CUBLASLT_EPILOGUE_BIAS as u32;
        // The library reads the alignment of every bias off this address.
        let asked = (desc.set(DescKey::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue))
            .and_then(|()| desc.set(DescKey::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &BIAS_ALIGNMENT));
        if asked.is_err() {
            return Ok(None);
        }
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
            refused: AtomicBool::new(false),
        }))
    }

    /// The same, asked once a plan.
    fn of(product: &Product, plan: &Plan, shape: &Shape) -> Result<Option<Arc<Biased>>> {
        let known = match plan.biased.get() {
            Some(known) => known,
            None => {
                let found = Biased::new(product, plan, shape)?.map(Arc::new);
                plan.biased.get_or_init(|| found)
            }
        };
        Ok(known.clone().filter(|biased| !biased.is_refused()))
    }

    fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// The code of `run`, which is called with the description of a product with this bias; `None` where the library does not
    /// take it, now or before.
    pub(super) fn with(&self, bias: DevicePtr, run: impl FnOnce(&Desc) -> u32) -> Option<u32> {
        if self.is_refused() {
            return None;
        }
        let desc = self.desc.lock();
        let code = match desc.put(DescKey::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias) {
            0 => run(&desc),
            code => code,
        };
        const REFUSED: [Status; 2] = [
            Status::CUBLAS_STATUS_NOT_SUPPORTED,
            Status::CUBLAS_STATUS_INVALID_VALUE,
        ];
        let refused = REFUSED.iter().any(|&status| status as u32 == code);
        self.refused.fetch_or(refused, Ordering::Relaxed);
        (!refused).then_some(code)
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
    /// What the nodes of a graph depend on.
    pub(super) fn form(&self) -> usize {
        match self {
            After::Nothing => 0,
            After::Bias(biased, ..) if biased.is_refused() => usize::MAX,
            After::Bias(..) => 1,
            After::Map(map) => 1 + map.plan.passes.len(),
        }
    }

    /// What makes the launch's output of a product that lies there, or in scratch memory with these strides.
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
        if in_scratch.is_none() && added.is_empty() {
            return Ok(After::Nothing);
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
        let plan_of_map = map.plan_at(&Described {
            extents: space,
            places: &places,
            scalars: &[],
        })?;
        let later = Later {
            map: Arc::clone(map),
            plan: plan_of_map,
            buffers: places.iter().map(|place| place.buffer).collect(),
        };
        if let (None, [x]) = (in_scratch, added) {
            let bias = x.region.chunk.at(x.region.offset);
            if bias.is_multiple_of(BIAS_ALIGNMENT)
                && is_bias(shape, space, x.strides)
                && let Some(biased) = Biased::of(product, plan, shape)?
            {
                return Ok(After::Bias(biased, bias, Box::new(later)));
            }
        }
        let map = later.prepare()?;
        Ok(map.map_or(After::Nothing, |map| After::Map(Box::new(map))))
    }
}
