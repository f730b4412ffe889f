//! Which lanes and registers are compared when, known before anything runs.
//!
//! `N` registers of sorted columns hold the key of row `r` and column `c` as key `c * N + r` of all: a number whose low bits are those
//! of `r`. A merge of two runs of columns compares keys whose numbers differ in one bit, for each bit of the run from the highest one
//! on. Where that bit is one of the register's number, registers are compared. Where it is one of the lane's number, it changes places
//! first with a bit of the register's number that is not needed for longest.

use super::vector::{Shuffle, Vector};
use std::marker::PhantomData;

/// Steps of the longest plan.
pub(super) const MOST: usize = 48;

/// What is done with each two registers whose numbers differ in `partner`.
#[derive(Clone, Copy)]
enum Kind {
    /// Nothing is.
    End,
    /// The one whose number lacks the bit `slot` takes the less keys.
    Compare,
    /// The bit `slot` of the register's number and the bit `at` of the lane's change places.
    Swap,
}

#[derive(Clone, Copy)]
pub(super) struct Step {
    kind: Kind,
    pub(super) slot: usize,
    pub(super) partner: usize,
    at: usize,
    /// Bits of the lane's number that are turned in registers that have the bit `slot` afterwards.
    turned: usize,
    /// Bits of the register's number, which has one of them where the bit that comes from the lane is turned.
    back: usize,
}

impl Step {
    /// Whether the register of this number changes places with its partner.
    pub(super) const fn turns_back(self, register: usize) -> bool {
        register & self.back != 0
    }
}

struct Plan {
    steps: [Step; MOST],
    /// For each bit of the number of a row of sorted keys, the bit of the register's number.
    rows: [usize; 8],
}

/// The plan for `N` registers, of which there are four at least.
pub(super) struct Planned<V, const N: usize>(PhantomData<V>);

impl<V: Vector, const N: usize> Planned<V, N> {
    const PLAN: Plan = plan(N.ilog2() as usize, V::LANES.ilog2() as usize);

    /// The register that has a row of keys in the end.
    pub(super) const fn register(row: usize) -> usize {
        let (mut register, mut bit) = (0, 0);
        while bit < N.ilog2() {
            register |= (row >> bit & 1) << Self::PLAN.rows[bit as usize];
            bit += 1;
        }
        register
    }
}

/// A step of the plan.
pub(super) struct At<V, const N: usize, const STEP: usize>(PhantomData<V>);

impl<V: Vector, const N: usize, const STEP: usize> At<V, N, STEP> {
    pub(super) const STEP: Step = Planned::<V, N>::PLAN.steps[STEP];
    pub(super) const IS_THERE: bool = !matches!(Self::STEP.kind, Kind::End);
    /// Whether registers are compared; lanes are swapped otherwise.
    pub(super) const COMPARES: bool = matches!(Self::STEP.kind, Kind::Compare);
}

impl<V: Vector, const N: usize, const STEP: usize> Shuffle for At<V, N, STEP> {
    const AT: usize = Self::STEP.at;
    const TURNED: usize = Self::STEP.turned;
}

/// The plan for numbers of `rows` bits of a register and `columns` bits of a lane.
///
/// The second run of a merge has to be read backwards, so all bits below that which tells the runs apart are turned in it: bits of the
/// register's number by the choice of the partner, those of the lane's by the swap that brings the bit. Each of them comes to the
/// register's number during the merge, and is turned back by the choice of the register.
const fn plan(rows: usize, columns: usize) -> Plan {
    let none = Step {
        kind: Kind::End,
        slot: 0,
        partner: 0,
        at: 0,
        turned: 0,
        back: 0,
    };
    let bits = rows + columns;
    let (mut steps, mut count) = ([none; MOST], 0);
    // Bits of the register's number come first.
    let mut places = [0, 1, 2, 3, 4, 5, 6, 7];
    let mut turned = [false; 8];
    let mut top = rows;
    // After the last merge, the bits of a register's number are brought home.
    while top <= bits {
        let last = top + 1 >= bits;
        let home = top == bits;
        let (mut left, end) = if home { (bits, columns) } else { (top + 1, 0) };
        while left > end {
            left -= 1;
            let bit = left;
            if places[bit] >= rows {
                let (mut victim, mut longest, mut other) = (bits, 0, 0);
                while other < bits {
                    if places[other] < rows && other != top {
                        let wait = match () {
                            () if home => (other < columns) as usize,
                            () if other < bit => bit - other,
                            () if last && other >= columns => bit + 1,
                            () if last => 2 * bits,
                            () => bit + 1 + top + 1 - other,
                        };
                        if wait > longest {
                            (victim, longest) = (other, wait);
                        }
                    }
                    other += 1;
                }
                let (slot, at) = (places[victim], places[bit] - rows);
                (places[victim], places[bit]) = (places[bit], slot);
                let mut step = Step {
                    kind: Kind::Swap,
                    slot,
                    partner: 1 << slot,
                    at,
                    ..none
                };
                if bit == top {
                    let mut lower = 0;
                    while lower < top {
                        turned[lower] = places[lower] >= rows;
                        if turned[lower] {
                            step.turned |= 1 << (places[lower] - rows);
                        }
                        lower += 1;
                    }
                } else if turned[bit] {
                    step.back = 1 << places[top];
                    turned[bit] = false;
                }
                steps[count] = step;
                count += 1;
            }
            if !home {
                let slot = places[bit];
                steps[count] = Step {
                    kind: Kind::Compare,
                    slot,
                    partner: if bit == top { (1 << rows) - 1 } else { 1 << slot },
                    ..none
                };
                count += 1;
            }
        }
        top += 1;
    }
    // Columns may stand in any order at first. Theirs is the one by which bits of the lane's number end in order.
    let mut lanes = [0; 8];
    let mut bit = 0;
    while bit < columns {
        lanes[places[bit] - rows] = bit;
        bit += 1;
    }
    let mut at = 0;
    while at < count {
        steps[at].at = lanes[steps[at].at];
        let (mut bit, mut turned) = (0, 0);
        while bit < columns {
            turned |= (steps[at].turned >> bit & 1) << lanes[bit];
            bit += 1;
        }
        steps[at].turned = turned;
        at += 1;
    }
    let (mut of_rows, mut bit) = ([0; 8], columns);
    while bit < bits {
        of_rows[bit - columns] = places[bit];
        bit += 1;
    }
    Plan { steps, rows: of_rows }
}
