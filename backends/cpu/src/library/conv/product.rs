//! Convolutions of one tap: products of matrices, whose columns are neighbouring places.
//!
//! Each sum is one chain over the channels, as in every other form, if one block of k has them all.

use super::forward::Finished;
use super::geometry::{AXES, Block, Window};
use super::{ConvKernel, Direction, Launch, finish};
use crate::exec::Args;
use crate::library::epilogue::row_major;
use crate::library::gemm::{KC, Signs};
use crate::library::matmul::{After, MatDType, MatMut, MatRef, Problem, matmul};
use crate::parallel::Parallel;
use std::ops::Range;

/// Fewest places of a sample: with fewer, those that fill up the last registers cost more than the other forms lose.
const LEAST: usize = 128;

/// A product for each sample or each group.
pub(super) struct Product {
    dtype: MatDType,
    problem: Problem,
    a: MatRef,
    b: MatRef,
    result: MatMut,
    form: Form,
    /// Places of a sample along each axis.
    counts: [usize; AXES],
}

/// What the batches of a product are; rows are channels, columns places.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Samples,
    /// Those of one sample.
    Groups,
}

impl ConvKernel {
    /// The product that a launch is, if it is one and that is the fastest form.
    pub(super) fn product(&self, launch: &Launch) -> Option<Product> {
        let (sizes, counts) = (&launch.sizes, launch.windows.map(|window| window.output));
        let (x, w, y) = (&launch.gathered, &launch.weights, &launch.rows);
        let is_plain = |window: &Window| {
            window.taps == 1 && window.stride == 1 && window.padding == 0 && window.input == window.output
        };
        let suits = self.direction != Direction::GradWeight
            && launch.windows.iter().all(is_plain)
            && (1..=KC).contains(&sizes.channels)
            && sizes.rows > 1;
        if !suits {
            return None;
        }
        let places = counts.iter().product::<usize>();
        if places < LEAST || !(follow(counts, x.spatial, 1) && follow(counts, y.spatial, 1)) {
            return None;
        }
        let form = match (sizes.samples, sizes.groups) {
            (1, _) => Form::Groups,
            (_, 1) => Form::Samples,
            _ => return None,
        };
        let batch = match form {
            Form::Samples => sizes.samples,
            Form::Groups => sizes.groups,
        };
        let by_sample = form == Form::Samples;
        let of = |ptr: *const u8, batch_stride, row_stride, col_stride| MatRef {
            ptr,
            batch_stride,
            row_stride,
            col_stride,
            packed: std::ptr::null(),
        };
        let w_batch = if by_sample { 0 } else { w.group };
        let x_batch = if by_sample { x.sample } else { x.group };
        let dtype = match self.dtype {
            // The weights come first here.
            MatDType::Bytes(of) => MatDType::Bytes(Signs { a: of.b, b: of.a }),
            of @ (MatDType::F32 | MatDType::F64 | MatDType::I32 | MatDType::I64) => of,
            of @ (MatDType::F16 | MatDType::Bf16) => of,
            _ => return None,
        };
        Some(Product {
            dtype,
            problem: Problem {
                batch,
                m: sizes.rows,
                n: places,
                k: sizes.channels,
            },
            a: of(w.ptr, w_batch, w.row, w.channel),
            b: of(x.ptr, x_batch, x.channel, 1),
            result: MatMut {
                ptr: y.ptr,
                batch_stride: if by_sample { y.sample } else { y.group },
                row_stride: y.row,
                col_stride: 1,
            },
            form,
            counts,
        })
    }

    /// Computes the product.
    ///
    /// # Safety
    /// The product is that of the launch with these arguments, which the caller vouches for.
    pub(super) unsafe fn multiply(&self, product: &Product, args: &Args<'_>, parallel: &dyn Parallel) {
        let spatial = self.op.spatial as usize;
        let result = &args.extents[..3 + spatial];
        let (strides, scalars) = (row_major(result), &args.scalars[2 * spatial..]);
        let [_, _, further @ .., out] = args.args else {
            return;
        };
        // SAFETY: the caller vouches for the operands.
        let bound =
            (self.epilogue.as_ref()).map(|map| unsafe { map.bind(result, &strides, *out, further, scalars) });
        let blockwise = bound.as_ref().filter(|bound| !bound.is_whole());
        let &Product { form, counts, .. } = product;
        let done = |batch: usize, rows: Range<usize>, columns: Range<usize>| {
            let (sample, group) = match form {
                Form::Samples => (batch, 0),
                Form::Groups => (0, batch),
            };
            for block in blocks(counts, columns) {
                let done = Finished {
                    sample,
                    groups: group..group + 1,
                    rows: rows.clone(),
                    block,
                };
                finish(blockwise, spatial, &done);
            }
        };
        // SAFETY: the caller's contract.
        unsafe {
            matmul(
                (self.isa, self.codegen),
                product.dtype,
                &product.problem,
                product.a,
                product.b,
                product.result,
                parallel,
                if blockwise.is_some() {
                    After::Block(&done)
                } else {
                    After::Nothing
                },
            );
            if let Some(bound) = bound.as_ref().filter(|_| blockwise.is_none()) {
                bound.all(parallel);
            }
        }
    }
}

/// Whether places with these strides follow one another in memory, so many elements apart.
pub(super) fn follow(counts: [usize; AXES], strides: [isize; AXES], mut next: isize) -> bool {
    counts.iter().zip(strides).rev().all(|(&count, stride)| {
        let follows = count == 1 || stride == next;
        next *= count as isize;
        follows
    })
}

/// Places in their order, as blocks of whole lines, of a part of one, or of whole planes.
fn blocks([_, lines, line]: [usize; AXES], places: Range<usize>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut at = places.start;
    while at < places.end {
        let place = [at / (lines * line), at / line % lines, at % line];
        let left = places.end - at;
        let size = match place {
            [_, 0, 0] if left >= lines * line => [left / (lines * line), lines, line],
            [_, first, 0] if left >= line => [1, (left / line).min(lines - first), line],
            [_, _, first] => [1, 1, left.min(line - first)],
        };
        blocks.push(Block { at: place, size });
        at += size.iter().product::<usize>();
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::{blocks, follow};

    #[test]
    fn blocks_cover_the_places_in_order() {
        let counts = [3, 4, 5];
        for start in 0..60 {
            for end in start..=60 {
                let mut next = start;
                for block in blocks(counts, start..end) {
                    let [i, j, k] = block.size;
                    for index in 0..i * j * k {
                        let place = [index / (j * k), index / k % j, index % k];
                        let [a, b, c] = std::array::from_fn(|axis| block.at[axis] + place[axis]);
                        assert!(b < 4 && c < 5);
                        assert_eq!(a * 20 + b * 5 + c, next);
                        next += 1;
                    }
                }
                assert_eq!(next, end);
            }
        }
    }

    #[test]
    fn lines_with_gaps_do_not_follow() {
        assert!(
            follow([1, 7, 9], [0, 9, 1], 1)
                && follow([2, 7, 9], [63, 9, 1], 1)
                && follow([2, 1, 9], [9, 5, 1], 1)
        );
        assert!(
            !follow([1, 7, 9], [0, 10, 1], 1)
                && !follow([2, 7, 9], [64, 9, 1], 1)
                && !follow([1, 7, 9], [0, 18, 2], 1)
        );
    }
}
