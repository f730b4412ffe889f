//! Configurations of matrix products and convolutions.

use super::staged::Side;
use crate::{Dialect, Target};
use thalweg_hal::library::LibraryOp;
use thalweg_hal::{DType, Error, Result};

/// Groups below which smaller tiles are taken: large GPUs have this many multiprocessors.
const FEW_GROUPS: u64 = 132;

/// Tiles of a matrix product, or of a convolution as one. The order in which an element is summed follows from the extents,
/// so results do not depend on the extents of tiles. Tensor cores round sums in their own way.
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
    /// For CUDA and f32: as `Tiled`, with the tiles of the next step under way while those of one are summed. Small results have
    /// tiles of half the size. Other dtypes take the first candidate that takes them.
    Buffered {
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
    /// For CUDA, operands of f16 or bf16 and sums of f32: a group computes up to `m` × `n` elements on tensor cores from tiles of
    /// depth `k`, a warp up to `warp_m` × `warp_n` of them. Small results have tiles of half the size. Other dtypes take the first
    /// candidate that takes them.
    Matrix {
        /// Rows of a group; a multiple of `warp_m`.
        m: u16,
        /// Columns of a group; a multiple of `warp_n`.
        n: u16,
        /// Depth of a step.
        k: u16,
        /// Rows of a warp.
        warp_m: u16,
        /// Columns of a warp.
        warp_n: u16,
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
        let matrix = |m, n, warp_m, warp_n| MatmulConfig::Matrix {
            m,
            n,
            k: 32,
            warp_m,
            warp_n,
        };
        let buffered = |m, n, k, item_m, item_n| MatmulConfig::Buffered {
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
                matrix(128, 128, 64, 64),
                buffered(128, 128, 16, 8, 8),
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

    /// What an op is computed with: this, or the first candidate that takes its dtypes.
    pub(crate) fn suited(self, op: &LibraryOp, target: &Target) -> Result<MatmulConfig> {
        self.check(target)?;
        let takes = |config: &MatmulConfig| match config {
            MatmulConfig::Matrix { .. } => [DType::F16, DType::BF16].iter().any(|&half| sums(op, half)),
            MatmulConfig::Buffered { .. } => sums(op, DType::F32),
            // More sums of eight bytes do not fit the registers of a work-item.
            MatmulConfig::Tiled { item_m, item_n, .. } => item_m * item_n <= 16 || !has_wide_sums(op),
            MatmulConfig::Panel { .. } => true,
        };
        let others = MatmulConfig::candidates(target);
        { [self].into_iter().chain(others) }
            .find(takes)
            .ok_or_else(|| Error::unsupported("no tile of a matrix product fits the device"))
    }

    /// Work-items of a group.
    pub(super) fn group(self) -> u32 {
        match self {
            MatmulConfig::Tiled {
                m, n, item_m, item_n, ..
            }
            | MatmulConfig::Buffered {
                m, n, item_m, item_n, ..
            } => u32::from(m / item_m.max(1)) * u32::from(n / item_n.max(1)),
            MatmulConfig::Panel { .. } => 1,
            MatmulConfig::Matrix {
                m, n, warp_m, warp_n, ..
            } => 32 * u32::from(m / warp_m.max(1)) * u32::from(n / warp_n.max(1)),
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
            MatmulConfig::Buffered {
                m,
                n,
                k,
                item_m,
                item_n,
            } => {
                let side = |all: u16, part: u16| [64, 128].contains(&all) && [4, 8].contains(&part);
                target.dialect == Dialect::CudaC
                    && side(m, item_m)
                    && side(n, item_n)
                    && [8, 16].contains(&k)
                    && [128, 256].contains(&self.group())
                    && self.group() <= target.max_group_size
            }
            MatmulConfig::Matrix {
                m,
                n,
                k,
                warp_m,
                warp_n,
            } => {
                let side = |all: u16, part: u16| {
                    [64, 128].contains(&all) && [32, 64].contains(&part) && all.is_multiple_of(part)
                };
                target.dialect == Dialect::CudaC
                    && side(m, warp_m)
                    && side(n, warp_n)
                    && [16, 32].contains(&k)
                    && [4, 8].contains(&(self.group() / 32))
                    && self.group() <= target.max_group_size
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
            MatmulConfig::Tiled { m, n, .. }
            | MatmulConfig::Panel { m, n, .. }
            | MatmulConfig::Buffered { m, n, .. }
            | MatmulConfig::Matrix { m, n, .. } => (m.into(), n.into()),
        }
    }

    /// Smaller tiles where there would be few groups or mostly empty ones: by the extents alone, and an element's sum is the same
    /// in each.
    pub(super) fn fitted(self, batch: u64, rows: u64, columns: u64, pieces: u64) -> MatmulConfig {
        let units = |m: u16, n: u16| {
            let tiles = rows.div_ceil(m.into()).saturating_mul(columns.div_ceil(n.into()));
            tiles.saturating_mul(batch).saturating_mul(pieces)
        };
        let shrunk = |mut m: u16, mut n: u16| {
            if rows <= 64 {
                m = m.min(64);
            }
            if columns <= 64 {
                n = n.min(64);
            }
            if units(m, n) < FEW_GROUPS {
                (m, n) = (m.min(64), n.min(64));
            }
            (m, n)
        };
        match self {
            MatmulConfig::Matrix {
                m,
                n,
                k,
                warp_m,
                warp_n,
            } => {
                let small = |all: u16, own: u16| if all == 64 { own.min(32) } else { own };
                let (m, n) = shrunk(m, n);
                MatmulConfig::Matrix {
                    m,
                    n,
                    k,
                    warp_m: small(m, warp_m),
                    warp_n: small(n, warp_n),
                }
            }
            MatmulConfig::Buffered {
                m,
                n,
                k,
                item_m,
                item_n,
            } => {
                let (m, n) = shrunk(m, n);
                MatmulConfig::Buffered {
                    m,
                    n,
                    k,
                    item_m,
                    item_n: if m == 64 && n == 64 { item_n.min(4) } else { item_n },
                }
            }
            MatmulConfig::Tiled { .. } | MatmulConfig::Panel { .. } => self,
        }
    }

    /// Fewer sums of a warp where elements pass registers, which these share, and shorter steps where both operands' do.
    pub(super) fn eased(self, sides: [Side; 2], taps: bool) -> MatmulConfig {
        match self {
            MatmulConfig::Matrix {
                m,
                n,
                k,
                warp_m,
                warp_n,
            } if sides.iter().any(|side| !side.packs) => {
                let short = taps && !sides[0].packs && !sides[1].along;
                MatmulConfig::Matrix {
                    m,
                    n,
                    k: if short { k.min(16) } else { k },
                    warp_m,
                    warp_n: warp_n.min(32),
                }
            }
            other => other,
        }
    }
}

/// Whether an op sums products of `dtype` in f32.
fn sums(op: &LibraryOp, dtype: DType) -> bool {
    dtypes(op).is_some_and(|(operands, accumulate)| operands == [dtype; 2] && accumulate == DType::F32)
}

/// Whether sums take eight bytes.
fn has_wide_sums(op: &LibraryOp) -> bool {
    dtypes(op).is_some_and(|(_, accumulate)| accumulate.size() == 8)
}

/// The dtypes of a product's operands and of its sums; `None` for other ops.
fn dtypes(op: &LibraryOp) -> Option<([DType; 2], DType)> {
    match op {
        LibraryOp::Matmul(op) => Some((op.operands, op.accumulate)),
        LibraryOp::Conv(op) | LibraryOp::ConvGradInput(op) | LibraryOp::ConvGradWeight(op) => {
            Some((op.operands, op.accumulate))
        }
        LibraryOp::Scatter(_) | LibraryOp::Scan(_) | LibraryOp::Sort(_) | LibraryOp::Attention(_) => None,
    }
}
