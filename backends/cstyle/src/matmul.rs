//! Matrix products: configurations and how a launch is spread over tiles.

use crate::body::Body;
use crate::plan::{Form, Grid, NARROW, Plan, Step, Variant, Word, Words, words};
use crate::{Dialect, Launch, Target};
use smallvec::SmallVec;
use thalweg_hal::{Error, Result};

/// Tiles of a matrix product. Every element is summed in the order of `k`, so results do not depend on the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatmulConfig {
    /// A group computes `m` × `n` elements from tiles of depth `k` in local memory, a work-item `item_m` × `item_n` of them.
    Tiled {
        /// Rows of a group; a multiple of `item_m`.
        m: u16,
        /// Columns of a group; a multiple of `item_n`.
        n: u16,
        /// Depth of a step.
        k: u16,
        /// Rows of a work-item.
        item_m: u16,
        /// Columns of a work-item.
        item_n: u16,
    },
    /// For CPUs with OpenCL C: a work-item computes `m` × `n` elements, packs `k` × `n` of the second operand at a time, and
    /// keeps `item_m` × `n` sums in vectors.
    Panel {
        /// Rows of a work-item; a multiple of `item_m`.
        m: u16,
        /// Columns of a work-item; a multiple of 16.
        n: u16,
        /// Depth of a step.
        k: u16,
        /// Rows whose sums are in registers at a time.
        item_m: u16,
    },
}

impl MatmulConfig {
    /// Configurations worth trying on a target, the one to take untried first.
    pub fn candidates(target: &Target) -> Vec<MatmulConfig> {
        let panel = |m, n, k, item_m| MatmulConfig::Panel { m, n, k, item_m };
        let tiled = |m, n, k, item_m, item_n| MatmulConfig::Tiled {
            m,
            n,
            k,
            item_m,
            item_n,
        };
        let all = if target.cpu && target.dialect == Dialect::OpenClC {
            vec![
                panel(128, 32, 256, 8),
                panel(64, 32, 256, 8),
                panel(64, 48, 256, 8),
                panel(128, 64, 256, 6),
                panel(120, 32, 256, 12),
                panel(128, 16, 256, 8),
                panel(128, 32, 128, 4),
            ]
        } else {
            vec![
                tiled(64, 64, 16, 4, 4),
                tiled(128, 128, 16, 8, 8),
                tiled(128, 64, 16, 8, 4),
                tiled(64, 64, 8, 8, 8),
                tiled(32, 32, 16, 2, 2),
                tiled(16, 16, 16, 1, 1),
            ]
        };
        all.into_iter()
            .filter(|config| config.check(target).is_ok())
            .collect()
    }

    /// Work-items of a group.
    pub(crate) fn group(self) -> u32 {
        match self {
            MatmulConfig::Tiled {
                m, n, item_m, item_n, ..
            } => u32::from(m / item_m.max(1)) * u32::from(n / item_n.max(1)),
            MatmulConfig::Panel { .. } => 1,
        }
    }

    pub(crate) fn check(self, target: &Target) -> Result<()> {
        let fits = match self {
            MatmulConfig::Tiled {
                m,
                n,
                k,
                item_m,
                item_n,
            } => {
                let whole = |all: u16, part: u16| part > 0 && all > 0 && all.is_multiple_of(part);
                k > 0
                    && whole(m, item_m)
                    && whole(n, item_n)
                    && self.group() <= target.max_group_size
                    // Two tiles of 8-byte elements in the local memory that every device has.
                    && (u32::from(m) + 1 + u32::from(n)) * u32::from(k) * 8 <= 48 * 1024
            }
            MatmulConfig::Panel { m, n, k, item_m } => {
                target.dialect == Dialect::OpenClC
                    && k > 0
                    && item_m > 0
                    && m > 0
                    && m.is_multiple_of(item_m)
                    && n > 0
                    && n.is_multiple_of(16)
            }
        };
        if fits {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "matmul: {self:?} does not fit the device; take one of MatmulConfig::candidates"
        )))
    }

    fn tile(self) -> (u64, u64) {
        match self {
            MatmulConfig::Tiled { m, n, .. } | MatmulConfig::Panel { m, n, .. } => (m.into(), n.into()),
        }
    }
}

/// Most groups of a launch; a group that has done its tile takes another.
const MOST_GROUPS: u64 = 1 << 20;

/// How a matrix product runs; `body` is that of its definition.
pub(crate) fn plan(body: &Body, config: MatmulConfig, launch: &Launch<'_>) -> Result<Plan> {
    let (outer, all) = (body.outer(), launch.extents);
    let &[.., m, n, k] = all else {
        return Err(Error::invalid_argument("matmul: fewer than three extents"));
    };
    let batch: u64 = all[..outer - 2].iter().product();
    let strides = body.strides(launch);
    let stride = |p: usize, axis: usize| strides[p * all.len() + axis];
    let reach = |p: usize| {
        let along = |axis: usize| {
            u128::from(stride(p, axis).unsigned_abs()) * u128::from(all[axis].saturating_sub(1))
        };
        let place = &launch.places[p];
        let gather = if body.gathered[p] {
            u128::from(place.gather_stride.unsigned_abs()) * u128::from(place.gather_extent.saturating_sub(1))
        } else {
            0
        };
        (0..all.len()).map(along).sum::<u128>() + gather
    };
    let touched = (0..body.touched.len()).filter(|&p| body.touched[p]);
    let points = u128::from(batch) * (u128::from(m) * u128::from(n)).max(u128::from(k));
    let wide = touched.map(reach).max().unwrap_or(0).max(points) > u128::from(NARROW);
    let mut steps = SmallVec::from_elem(Step::Any, body.kernel.params.len());
    // Which way neighbouring work-items read an operand.
    if stride(0, outer) == 1 {
        steps[0] = Step::Unit;
    }
    if stride(1, outer - 1) == 1 {
        steps[1] = Step::Unit;
    }
    let variant = Variant {
        form: Form::Matmul(config),
        wide,
        in_place: body.in_place(launch),
        lanes: 1,
        group: config.group() as u16,
        outer: outer as u8,
        inner: 1,
        homes: (0..outer as u8).chain([0]).collect(),
        steps,
    };
    let mut values = Words::new();
    words(body, &variant, |word| {
        values.push(match word {
            Word::Rows => batch,
            Word::Total => k,
            Word::MatrixRows => m,
            Word::MatrixColumns => n,
            Word::Outer(axis) => all[axis],
            Word::Offset(p) => launch.places[p].offset,
            Word::OuterStride(p, axis) => stride(p, axis) as u64,
            Word::InnerStride(p, axis) => stride(p, outer + axis) as u64,
            Word::GatherStride(p) => launch.places[p].gather_stride as u64,
            Word::GatherExtent(p) => launch.places[p].gather_extent,
            Word::Scalar(index) => launch.scalars[index],
            // A matrix product has neither.
            Word::Chunks | Word::Length | Word::Inner(_) => 0,
        });
    });
    let (tile_m, tile_n) = config.tile();
    let tiles = batch * m.div_ceil(tile_m) * n.div_ceil(tile_n);
    let mut passes = SmallVec::new();
    if tiles > 0 {
        passes.push(Grid {
            groups: tiles.min(MOST_GROUPS),
            group_size: config.group(),
        });
    }
    Ok(Plan {
        variant,
        passes,
        scratch_bytes: 0,
        words: values,
    })
}
