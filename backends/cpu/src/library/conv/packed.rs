//! Constant weights, packed once for all runs.

use super::forward;
use super::geometry::{Axis, Pass};
use super::tile::ConvElement;
use super::{ConvKernel, Direction, Launch, MatDType, Weights};
use crate::exec::Args;
use crate::library::Wanted;
use crate::library::gemm::Isa;

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
        let (width, bytes) = match self.dtype {
            MatDType::F32 => form::<f32>(&launch)?,
            MatDType::F64 => form::<f64>(&launch)?,
            // Wider accumulators would cost more memory than the packing is worth.
            _ => return None,
        };
        let (sizes, w) = (&launch.sizes, &launch.weights);
        let counts = [width, sizes.groups, sizes.rows, sizes.channels];
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
        unsafe {
            match self.dtype {
                MatDType::F32 => pack::<f32>(&launch, to),
                MatDType::F64 => pack::<f64>(&launch, to),
                _ => {}
            }
        }
    }
}

fn weights<T>(launch: &Launch) -> Weights<T> {
    let w = &launch.weights;
    Weights {
        ptr: w.ptr.cast(),
        group: w.group,
        row: w.row,
        channel: w.channel,
        taps: w.taps,
        extents: w.extents,
    }
}

/// Rows of a packed tile, and bytes of all; `None` where the launch would not read them.
fn form<T: ConvElement>(launch: &Launch) -> Option<(usize, usize)> {
    let pass = Pass {
        axes: launch.windows.map(|window| Axis::forward(&window)),
    };
    let kernels = T::conv(Isa::detect());
    let width = forward::reads_packed(&kernels, &launch.sizes, &pass, launch.weights.extents)?;
    let len = forward::packed_len(&launch.sizes, launch.weights.extents, width);
    Some((width, len * size_of::<T::Acc>()))
}

unsafe fn pack<T: ConvElement>(launch: &Launch, to: *mut u8) {
    // SAFETY: the caller vouches for the weights and for the form's bytes, which are those of `form`.
    unsafe {
        forward::pack_all(
            &T::conv(Isa::detect()),
            &launch.sizes,
            &weights::<T>(launch),
            to.cast(),
        )
    }
}
