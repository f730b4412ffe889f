//! The bytes that work touches.

/// Bytes that a parameter touches, and how they lie apart where not every one of them is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: u64,
    /// The byte behind the last.
    pub(super) end: u64,
    pub(super) grid: Option<Box<Grid>>,
}

/// Elements at `offset + Σ index × stride` for each index below the extents. All in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) offset: u64,
    /// Bytes of an element.
    pub(super) size: u64,
    /// Extents and strides.
    pub(super) axes: Vec<(u64, i64)>,
}

/// Most elements that are compared one by one.
const MOST: u64 = 1 << 16;

impl Region {
    /// Every byte from `start` to `end`.
    pub(super) const fn dense(start: u64, end: u64) -> Region {
        Region {
            start,
            end,
            grid: None,
        }
    }

    /// The same bytes, `by` further on.
    pub(super) fn moved(&self, by: u64) -> Region {
        let grid = self.grid.as_deref().map(|grid| {
            Box::new(Grid {
                offset: grid.offset.wrapping_add(by),
                ..grid.clone()
            })
        });
        Region {
            start: self.start.wrapping_add(by),
            end: self.end.wrapping_add(by),
            grid,
        }
    }

    /// Whether two regions have a byte in common. Where that is too long to say, no.
    #[inline]
    pub(super) fn meets(&self, other: &Region) -> bool {
        self.start < other.end && other.start < self.end && self.shares(other)
    }

    fn shares(&self, other: &Region) -> bool {
        match (&self.grid, &other.grid) {
            (None, None) => true,
            (Some(grid), None) => grid.touches(other.start, other.end),
            (None, Some(grid)) => grid.touches(self.start, self.end),
            (Some(one), Some(two)) => match (one.starts(), two.starts()) {
                (Some(ones), Some(mut twos)) => {
                    twos.sort_unstable();
                    ones.iter().any(|&at| {
                        let first = twos.partition_point(|&other| other + two.size <= at);
                        twos.get(first).is_some_and(|&other| other < at + one.size)
                    })
                }
                _ => false,
            },
        }
    }

    /// Whether every byte of `other` is in this region.
    #[inline]
    pub(super) fn covers(&self, other: &Region) -> bool {
        self.start <= other.start && other.end <= self.end && (self.grid.is_none() || self == other)
    }
}

impl Grid {
    /// Where each element starts; `None` where there are too many.
    fn starts(&self) -> Option<Vec<u64>> {
        let count = (self.axes.iter()).try_fold(1_u64, |all, &(extent, _)| all.checked_mul(extent))?;
        if count > MOST {
            return None;
        }
        let mut starts = vec![self.offset];
        for &(extent, stride) in &self.axes {
            let before = std::mem::take(&mut starts);
            for index in 0..extent {
                let step = stride.wrapping_mul(index as i64);
                starts.extend(before.iter().map(|at| at.wrapping_add_signed(step)));
            }
        }
        Some(starts)
    }

    fn touches(&self, start: u64, end: u64) -> bool {
        self.starts()
            .is_some_and(|starts| starts.iter().any(|&at| at < end && start < at + self.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_two_streams_do_not_meet() {
        let column = |first: u64| Region {
            start: first * 4,
            end: first * 4 + 28 * 4,
            grid: Some(Box::new(Grid {
                offset: first * 4,
                size: 4,
                axes: vec![(8, 16)],
            })),
        };
        assert!(!column(0).meets(&column(1)) && column(0).meets(&column(0)));
        assert!(column(0).meets(&Region::dense(16, 20)) && !column(0).meets(&Region::dense(20, 32)));
        assert!(column(0).moved(4).meets(&column(1)));
        assert!(column(0).covers(&column(0)) && !column(0).covers(&Region::dense(0, 4)));
    }
}
