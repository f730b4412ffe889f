//! Configurations of matrix products and convolutions.

use crate::{Dialect, Target};
use thalweg_hal::{Error, Result};

/// Tiles of a matrix product, or of a convolution as one. The order in which an element is summed follows from the extents,
/// so results do not depend on the configuration.
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
    pub(super) fn group(self) -> u32 {
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

    /// Rows and columns of a tile.
    pub(super) fn tile(self) -> (u64, u64) {
        match self {
            MatmulConfig::Tiled { m, n, .. } | MatmulConfig::Panel { m, n, .. } => (m.into(), n.into()),
        }
    }
}
