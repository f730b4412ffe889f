//! Dense short rows, turned a block at a time.
//!
//! Where a block of rows is walked element by element and a row is short, element `j` of all rows stands in memory at steps of a row.
//! Such parameters get a sheet in the frame with the block transposed: inputs are turned before the first phase, outputs after
//! the last. Phases then read and write whole vectors.

use super::frame::Frame;
use super::launch::{Launch, SHORT_ROW};
use super::plan::{Along, Plan, Step};
use super::transpose::transpose;
use smallvec::SmallVec;

/// A parameter that has a sheet.
#[derive(Clone, Copy)]
pub(super) struct Turned {
    pub(super) param: usize,
    pub(super) written: bool,
    /// Bytes of an element.
    size: usize,
    /// Elements from a row to the next in memory.
    step: isize,
    /// Bytes from the first sheet to this one.
    offset: usize,
}

/// The sheets of a launch.
#[derive(Default)]
pub(super) struct Sheets {
    pub(super) list: SmallVec<[Turned; 4]>,
    /// Bytes of all of them.
    pub(super) bytes: usize,
}

/// Whether phases of a plan read (or write) elements of a parameter where they stand.
fn walks(plan: &Plan, p: usize, written: bool) -> bool {
    let mut elements = plan.phases.iter().flat_map(|phase| &phase.element);
    elements.any(|step| match *step {
        Step::Load { param, .. } => !written && param as usize == p,
        Step::Store { param, .. } => written && param as usize == p,
        Step::Loop { .. }
        | Step::LoadAt { .. }
        | Step::Index { .. }
        | Step::Rand { .. }
        | Step::Aim { .. }
        | Step::Reduce { .. } => false,
    })
}

impl Sheets {
    /// The parameters of a launch that get one.
    pub(super) fn of(launch: &Launch<'_>) -> Sheets {
        let mut sheets = Sheets::default();
        let (plan, lanes, other) = (launch.plan, &launch.lanes, &launch.other);
        let length = other.total;
        let short =
            plan.along == Along::Outer && !plan.phases.is_empty() && (2..=SHORT_ROW).contains(&length);
        if !short || lanes.rank != 1 || other.rank != 1 {
            return sheets;
        }
        for p in 0..launch.args.args.len() {
            let step = lanes.of(p)[0] as isize;
            if other.of(p)[0] != 1 || step.unsigned_abs() < length as usize {
                continue;
            }
            for written in [false, true] {
                if walks(plan, p, written) {
                    let size = usize::from(launch.sizes[p]);
                    sheets.list.push(Turned {
                        param: p,
                        written,
                        size,
                        step,
                        offset: sheets.bytes,
                    });
                    let bytes = launch.block * length as usize * size;
                    sheets.bytes += bytes.next_multiple_of(crate::prefetch::LINE);
                }
            }
        }
        sheets
    }
}

impl Frame<'_> {
    fn sheet(&self, turned: &Turned) -> *mut u8 {
        self.sheets.wrapping_add(turned.offset)
    }

    /// Turns the `n` rows of every input, or of every output back. Parameters point at the block's first element.
    pub(super) fn turn(&mut self, n: usize, written: bool) {
        let launch = self.launch;
        let length = launch.other.total as usize;
        for turned in launch
            .sheets
            .list
            .iter()
            .filter(|turned| turned.written == written)
        {
            // SAFETY: the caller of the launch vouches for the rows of the block, and a sheet has room for them.
            unsafe {
                let rows = (*self.at.add(turned.param), turned.step);
                let sheet = (self.sheet(turned), n as isize);
                if written {
                    transpose(turned.size, rows, (sheet.0, sheet.1), n, length);
                } else {
                    transpose(turned.size, sheet, (rows.0, rows.1), length, n);
                }
            }
        }
    }

    /// Points the parameters that have sheets at element `j` of the block's `n` rows.
    pub(super) fn point_at_sheets(&mut self, j: usize, n: usize) {
        for turned in &self.launch.sheets.list {
            // SAFETY: the table has every parameter.
            unsafe { *self.at.add(turned.param) = self.sheet(turned).wrapping_add(j * n * turned.size) };
        }
    }
}
