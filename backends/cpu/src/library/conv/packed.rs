//! Constant weights, packed once for all runs.

use super::forward::{self, Channels, winograd};
use super::geometry::{Axis, Pass};
use super::words::{ConvKernels, by_word};
use super::{ConvKernel, Direction, Launch};
use crate::exec::Args;
use crate::library::Wanted;
use crate::library::gemm::Stored;

/// First word of the key of packed weights.
const TAG: u64 = u64::from_le_bytes(*b"conv wgt");

impl ConvKernel {
    /// The packed weights, where a launch like this would read them. What they hold follows from extents and strides of the
    /// weights alone; whether a launch reads them, it decides itself.
    pub(in crate::library) fn wanted(&self, args: &Args<'_>) -> Option<Wanted> {
        let result = &args.extents[..3 + self.op.spatial as usize];
        if self.direction != Direction::Forward || result.contains(&0) {
            return None;
        }
        let launch = self.launch(args)?;
        if self.product(&launch).is_some() {
            return None;
        }
        let (kind, width, bytes) = by_word!(self, &launch, kernels => form(&kernels, &launch)?, return None);
        let (sizes, w) = (&launch.sizes, &launch.weights);
        let counts = [kind, width, sizes.groups, sizes.rows, sizes.channels];
        let strides = [w.group, w.row, w.channel];
        let key = std::iter::once(TAG)
            .chain(counts.into_iter().chain(w.extents).map(|count| count as u64))
            .chain(strides.into_iter().chain(w.taps).map(|stride| stride as u64));
        Some(Wanted {
            operand: 1,
            bytes: bytes as u64,
            key: key.collect(),
        })
    }

    /// Packs the weights.
    ///
    /// # Safety
    /// The weights are readable, and the form's bytes are written by no one else.
    pub(in crate::library) unsafe fn prepare(&self, args: &Args<'_>, to: *mut u8) {
        let Some(launch) = self.launch(args) else { return };
        // SAFETY: the caller vouches for it.
        by_word!(self, &launch, kernels => unsafe { pack(&kernels, &launch, to) }, ());
    }
}

/// Positions of a transformed tile along an axis, or 0 or 1 for an order of weights as they are, then rows of a packed tile, and bytes of all. `None` where
/// the launch would not read them, or where accumulators are larger than elements, which would cost more memory than the packing is worth;
/// that of pairs is worth it.
fn form<T: Stored>(kernels: &ConvKernels<T>, launch: &Launch) -> Option<(usize, usize, usize)> {
    if !T::DIRECT && kernels.pairs.is_none() {
        return None;
    }
    let pass = pass(launch);
    let (sizes, extents) = (kernels.sizes(&launch.sizes), launch.weights.extents);
    let (kind, width, len) = match winograd::form(kernels, &sizes, &pass) {
        Some(form) if pass.uses_all(extents) => {
            let width = forward::packed_rows(kernels, sizes.rows);
            (form.positions, width, winograd::packed_len(kernels, form, &sizes))
        }
        Some(_) => return None,
        None => {
            let (x, y) = (&launch.gathered, &launch.rows);
            let channels = Channels::new(kernels, [x.channel, x.spatial[2]], [y.row, y.spatial[2]]);
            let width = forward::reads_packed(kernels, &sizes, &pass, extents, channels)?;
            // Of lanes, those of an operand that is read where it lies have an order of their own.
            let kind = kernels.bytes.is_some_and(|bytes| bytes.is_beside).into();
            (kind, width, forward::packed_len(kernels, &sizes, extents, width))
        }
    };
    Some((kind, width, len * size_of::<T::Acc>()))
}

fn pass(launch: &Launch) -> Pass {
    Pass {
        axes: launch.windows.map(|window| Axis::forward(&window)),
    }
}

unsafe fn pack<T: Stored>(kernels: &ConvKernels<T>, launch: &Launch, to: *mut u8) {
    let (sizes, weights) = (kernels.sizes(&launch.sizes), launch.weights.cast::<T>());
    // SAFETY: the caller vouches for the weights and for the form's bytes, which are those of `form`.
    unsafe {
        match winograd::form(kernels, &sizes, &pass(launch)) {
            Some(form) => winograd::pack_all(kernels, form, &sizes, &weights, to.cast()),
            None => forward::pack_all(kernels, &sizes, &weights, to.cast()),
        }
    }
}
