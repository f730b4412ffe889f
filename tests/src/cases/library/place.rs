//! How tensors of a case lie in memory.

use crate::rig::values::Random;

/// A tensor: its extents, and where its elements lie.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) extents: Vec<u64>,
    pub(super) strides: Vec<i64>,
    /// The element at index 0.
    pub(super) first: u64,
    /// Elements of the buffer.
    pub(super) len: u64,
}

impl Place {
    /// Axes in a random order, with gaps, and backwards where `flips` allows it.
    pub(super) fn random(extents: &[u64], flips: impl Fn(usize) -> bool, random: &mut Random) -> Place {
        let mut order: Vec<usize> = (0..extents.len()).collect();
        if random.below(2) == 0 {
            for i in 1..order.len() {
                order.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        let mut strides = vec![0; extents.len()];
        let (mut step, mut first) = (1 + (random.below(4) == 0) as i64, 0);
        for &axis in order.iter().rev() {
            strides[axis] = step;
            let extent = extents[axis].max(1) as i64;
            step *= extent;
            if random.below(4) == 0 {
                step += random.below(3) as i64;
            }
            if flips(axis) && random.below(4) == 0 {
                first += strides[axis] * (extent - 1);
                strides[axis] = -strides[axis];
            }
        }
        Place {
            extents: extents.to_vec(),
            strides,
            first: first as u64,
            len: step as u64,
        }
    }

    /// Where an element lies; axes that the index does not have are at 0.
    pub(super) fn at(&self, index: &[u64]) -> usize {
        let steps = index.iter().zip(&self.strides);
        (self.first as i64 + steps.map(|(&i, &stride)| i as i64 * stride).sum::<i64>()) as usize
    }

    /// Number of elements.
    pub(super) fn count(&self) -> u64 {
        self.extents.iter().product()
    }
}

/// Calls `visit` with each index of a row-major space.
pub(super) fn each(extents: &[u64], mut visit: impl FnMut(&[u64])) {
    if extents.contains(&0) {
        return;
    }
    let mut index = vec![0; extents.len()];
    loop {
        visit(&index);
        let Some(axis) = (0..extents.len()).rfind(|&axis| index[axis] + 1 < extents[axis]) else {
            return;
        };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}
