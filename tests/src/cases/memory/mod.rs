//! Memory: allocation, figures, copies, fills, reuse.

mod copies;
mod host;
mod limits;
mod pool;
mod ranges;
mod reuse;

use crate::kit::Case;

pub(super) fn cases() -> Vec<Case> {
    [
        pool::cases(),
        ranges::cases(),
        limits::cases(),
        copies::cases(),
        host::cases(),
        reuse::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
