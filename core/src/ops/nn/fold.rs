//! Windows as columns and back, and shuffles between channels and space.

use super::spatial::{MAX_SPATIAL, PerAxis};
use super::windows::{along, padded_bits, taken, windows};
use crate::graph::Type;
use crate::ops::checked::{checked, checked_in, composite_of, summed};
use crate::ops::precision::Class;
use crate::options;
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;

/// Which windows [`Tensor::unfold2d`] and [`Tensor::fold2d`] see: next to each other, without padding and dilation, unless
/// said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FoldOptions {
    size: PerAxis,
    stride: PerAxis,
    padding: PerAxis,
    dilation: PerAxis,
}

options! { FoldOptions {
    /// Elements from one window to the next.
    stride: impl Into<PerAxis>,
    /// Zeros on both sides of space.
    padding: impl Into<PerAxis>,
    /// Elements from one place of a window to the next.
    dilation: impl Into<PerAxis>,
} }

impl FoldOptions {
    /// Windows of `size` places per spatial axis.
    pub fn new(size: impl Into<PerAxis>) -> FoldOptions {
        FoldOptions {
            size: size.into(),
            stride: 1.into(),
            padding: 0.into(),
            dilation: 1.into(),
        }
    }

    fn grid(&self, space: [usize; 2]) -> Result<Grid, Refusal> {
        let size = self.size.positive(2, "window")?;
        let stride = self.stride.positive(2, "stride")?;
        let dilation = self.dilation.positive(2, "dilation")?;
        let padding = self.padding.of(2, "padding")?;
        let mut out = [0; 2];
        for axis in 0..2 {
            let span = dilation[axis] * (size[axis] - 1) + 1;
            let extent = space[axis] + 2 * padding[axis];
            if extent < span {
                return Err(Refusal::new(format!(
                    "windows span {span} elements, the padded space has {extent}"
                )));
            }
            out[axis] = (extent - span) / stride[axis] + 1;
        }
        Ok(Grid {
            size,
            stride,
            dilation,
            padding,
            out,
        })
    }
}

#[derive(Clone, Copy)]
struct Grid {
    size: [usize; MAX_SPATIAL],
    stride: [usize; MAX_SPATIAL],
    dilation: [usize; MAX_SPATIAL],
    padding: [usize; MAX_SPATIAL],
    out: [usize; 2],
}

impl Tensor {
    /// The windows of an image as columns (im2col): x `[n, c, h, w]` to `[n, c·kh·kw, windows]`, windows row-major. PyTorch's
    /// `nn.functional.unfold`.
    #[must_use]
    #[track_caller]
    pub fn unfold2d(&self, options: FoldOptions) -> Tensor {
        let tag = OpTag::new("unfold2d");
        checked(tag, [self], [], |[ty], []| {
            let [n, c, h, w] = image(ty)?;
            let grid = options.grid([h, w])?;
            let [top, left] = [grid.padding[0], grid.padding[1]];
            let padded = Shape::checked(&[n, c, h + 2 * top, w + 2 * left])?;
            let [rows, columns] = [grid.size[0], grid.size[1]];
            let out = Shape::checked(&[n, c * rows * columns, grid.out[0] * grid.out[1]])?;
            Ok(composite_of("unfold2d", &options, [self], [], tag, |[x], []| {
                let x = padded_bits(x, &[0, 0, top, left], &padded, 0, tag);
                let x = windows(&x, 2, rows, grid.stride[0], grid.dilation[0], tag);
                let x = windows(&x, 3, columns, grid.stride[1], grid.dilation[1], tag);
                x.permute([0, 1, 4, 5, 2, 3]).reshape(out)
            }))
        })
    }

    /// The sum of columns into an image of `space` (col2im): x `[n, c·kh·kw, windows]` to `[n, c, h, w]`, the gradient of
    /// [`Tensor::unfold2d`]. f16 and bf16 sum in f32. PyTorch's `nn.functional.fold`.
    #[must_use]
    #[track_caller]
    pub fn fold2d(&self, space: [usize; 2], options: FoldOptions) -> Tensor {
        let tag = OpTag::new("fold2d");
        checked_in(Class::Other, tag, [self], |[this], [ty]| {
            let grid = options.grid(space)?;
            let places = grid.size[0] * grid.size[1];
            let [n, rows, columns] = *ty.shape else {
                return Err(Refusal::new(format!(
                    "columns {}: they are [n, c·places, windows]",
                    ty.shape
                )));
            };
            if rows % places != 0 || columns != grid.out[0] * grid.out[1] {
                return Err(Refusal::new(format!(
                    "columns {}: windows of {places} places fit {} times into {space:?}",
                    ty.shape,
                    grid.out[0] * grid.out[1]
                )));
            }
            let shape = [
                n,
                rows / places,
                grid.size[0],
                grid.size[1],
                grid.out[0],
                grid.out[1],
            ];
            Ok(composite_of(
                "fold2d",
                &(options, space),
                [this],
                [],
                tag,
                |[x], []| {
                    let mut x = x.reshape(shape);
                    for (axis, &extent) in space.iter().enumerate() {
                        // [n, c, places, .., windows, ..]: each element of space looks for its window, once for every place.
                        let rank = 6 - axis;
                        let place = along(&x, rank, 2, grid.size[axis], tag) * grid.dilation[axis] as i64;
                        let from = along(&x, rank, 4, extent, tag) + grid.padding[axis] as i64 - place;
                        let stride = grid.stride[axis] as i64;
                        let index = from
                            .remainder(stride)
                            .eq(0)
                            .where_cond(from.div_floor(stride), -1);
                        x = summed(&taken(&x, 4, &index, tag), Axes::one(2), ty.dtype, tag);
                    }
                    x.reshape([n, rows / places, space[0], space[1]])
                },
            ))
        })
    }
}

fn image(ty: Type) -> Result<[usize; 4], Refusal> {
    <[usize; 4]>::try_from(&*ty.shape)
        .map_err(|_| Refusal::new(format!("image {}: it is [n, c, h, w]", ty.shape)))
}
