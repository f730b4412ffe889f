//! Moving elements between channels and space.

use crate::graph::Type;
use crate::ops::checked::{checked, composite_of};
use crate::tensor::Tensor;
use crate::tensor::failure::Refusal;
use crate::tensor::tag::OpTag;

impl Tensor {
    /// `[.., c·r², h, w]` to `[.., c, h·r, w·r]`: each square of r × r pixels comes from the r² channels of one. Shi et al.,
    /// Real-Time Single Image and Video Super-Resolution (2016).
    #[must_use]
    #[track_caller]
    pub fn pixel_shuffle(&self, factor: usize) -> Tensor {
        let tag = OpTag::new("pixel_shuffle");
        checked(tag, [self], [], |[ty], []| {
            let (n, [c, h, w], front) = image(ty)?;
            if factor == 0 || !c.is_multiple_of(factor * factor) {
                return Err(Refusal::new(format!("{c} channels by squares of {factor}")));
            }
            let out = [&*front, &[c / (factor * factor), h * factor, w * factor]].concat();
            Ok(composite_of(
                "pixel_shuffle",
                &factor,
                [self],
                [],
                tag,
                |[x], []| {
                    x.reshape([n, c / (factor * factor), factor, factor, h, w])
                        .permute([0, 1, 4, 2, 5, 3])
                        .reshape(&out)
                },
            ))
        })
    }

    /// `[.., c, h·r, w·r]` to `[.., c·r², h, w]`: the inverse of [`Tensor::pixel_shuffle`].
    #[must_use]
    #[track_caller]
    pub fn pixel_unshuffle(&self, factor: usize) -> Tensor {
        let tag = OpTag::new("pixel_unshuffle");
        checked(tag, [self], [], |[ty], []| {
            let (n, [c, h, w], front) = image(ty)?;
            if factor == 0 || !h.is_multiple_of(factor) || !w.is_multiple_of(factor) {
                return Err(Refusal::new(format!("{h} × {w} pixels in squares of {factor}")));
            }
            let out = [&*front, &[c * factor * factor, h / factor, w / factor]].concat();
            Ok(composite_of(
                "pixel_unshuffle",
                &factor,
                [self],
                [],
                tag,
                |[x], []| {
                    x.reshape([n, c, h / factor, factor, w / factor, factor])
                        .permute([0, 1, 3, 5, 2, 4])
                        .reshape(&out)
                },
            ))
        })
    }

    /// The channels of `[n, g·k, space..]` in the order of the transposed `[g, k]`. Zhang et al., ShuffleNet (2017).
    #[must_use]
    #[track_caller]
    pub fn channel_shuffle(&self, groups: usize) -> Tensor {
        let tag = OpTag::new("channel_shuffle");
        checked(tag, [self], [], |[ty], []| {
            let shape = ty.shape;
            if shape.len() < 2 || groups == 0 || !shape[1].is_multiple_of(groups) {
                return Err(Refusal::new(format!("channels of {shape} in {groups} groups")));
            }
            let space: usize = shape[2..].iter().product();
            Ok(composite_of(
                "channel_shuffle",
                &groups,
                [self],
                [],
                tag,
                |[x], []| {
                    x.reshape([shape[0], groups, shape[1] / groups, space])
                        .transpose(1, 2)
                        .reshape(shape)
                },
            ))
        })
    }
}

/// The product of the axes in front of channels and space, these, and the axes in front.
fn image(ty: Type) -> Result<(usize, [usize; 3], Vec<usize>), Refusal> {
    let Some((front, &image)) = ty.shape.split_last_chunk::<3>() else {
        return Err(Refusal::new(format!(
            "{} is no image; it is channels, height, width",
            ty.shape
        )));
    };
    Ok((front.iter().product(), image, front.to_vec()))
}
