//! In which order several operands of an Einstein sum are contracted.

use super::equation::Label;

/// Most operands whose orders are all compared: 3ⁿ splits.
const MAX_SEARCHED: usize = 8;

/// A tree of contractions in pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// One operand.
    Term(usize),
    /// The product of two.
    Pair(Box<Split>, Box<Split>),
}

impl Split {
    fn pair(left: Split, right: Split) -> Split {
        Split::Pair(Box::new(left), Box::new(right))
    }

    /// The labels of all operands in the tree.
    pub(super) fn labels<'a>(&self, operands: impl Iterator<Item = &'a [Label]> + Clone) -> Vec<Label> {
        match self {
            Split::Term(at) => operands.clone().nth(*at).unwrap_or(&[]).to_vec(),
            Split::Pair(left, right) => [left.labels(operands.clone()), right.labels(operands)].concat(),
        }
    }
}

/// Labels as a set of bits.
fn set(labels: &[Label]) -> [u128; 2] {
    labels.iter().fold([0; 2], |mut set, &label| {
        set[usize::from(label >> 7)] |= 1 << (label & 127);
        set
    })
}

fn or(a: [u128; 2], b: [u128; 2]) -> [u128; 2] {
    [a[0] | b[0], a[1] | b[1]]
}

fn and(a: [u128; 2], b: [u128; 2]) -> [u128; 2] {
    [a[0] & b[0], a[1] & b[1]]
}

fn points(labels: [u128; 2], extents: &[usize]) -> f64 {
    (0..256)
        .filter(|&label| labels[label >> 7] >> (label & 127) & 1 == 1)
        .map(|label| extents[label] as f64)
        .product()
}

/// The tree with the fewest multiplications over all trees (by dynamic programming over sets of operands); from the first to
/// the last where there are too many to compare.
pub(super) fn order(operands: &[Vec<Label>], output: &[Label], extents: &[usize]) -> Split {
    let count = operands.len();
    if count > MAX_SEARCHED {
        return (1..count).fold(Split::Term(0), |tree, at| Split::pair(tree, Split::Term(at)));
    }
    let own: Vec<[u128; 2]> = operands.iter().map(|labels| set(labels)).collect();
    let all = |members: usize| {
        (0..count)
            .filter(|at| members >> at & 1 == 1)
            .fold([0; 2], |labels, at| or(labels, own[at]))
    };
    let whole = (1 << count) - 1;
    let mut best: Vec<Option<(f64, Split)>> = vec![None; whole + 1];
    for members in 1_usize..=whole {
        if members.is_power_of_two() {
            best[members] = Some((0.0, Split::Term(members.trailing_zeros() as usize)));
            continue;
        }
        let result = |part: usize| and(all(part), or(set(output), all(whole & !part)));
        let mut left = (members - 1) & members;
        while left > 0 {
            let right = members & !left;
            // Each split once: the lowest operand is on the left.
            if left.trailing_zeros() < right.trailing_zeros()
                && let (Some((l_cost, l)), Some((r_cost, r))) = (&best[left], &best[right])
            {
                let cost = l_cost + r_cost + points(or(result(left), result(right)), extents);
                if best[members].as_ref().is_none_or(|(known, _)| cost < *known) {
                    best[members] = Some((cost, Split::pair(l.clone(), r.clone())));
                }
            }
            left = (left - 1) & members;
        }
    }
    best.pop().flatten().map_or(Split::Term(0), |(_, tree)| tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_product_comes_first() {
        let operands = [b"ij".to_vec(), b"jk".to_vec(), b"kl".to_vec()];
        let mut extents = vec![1; 256];
        let mut with = |extent: [usize; 4]| {
            for (label, extent) in b"ijkl".iter().zip(extent) {
                extents[usize::from(*label)] = extent;
            }
            order(&operands, b"il", &extents)
        };
        let (a, b, c) = (Split::Term(0), Split::Term(1), Split::Term(2));
        let left = Split::pair(Split::pair(a.clone(), b.clone()), c.clone());
        let right = Split::pair(a, Split::pair(b, c));
        assert_eq!(with([2, 100, 100, 100]), left);
        assert_eq!(with([100, 100, 100, 2]), right);
    }
}
