//! Dense short rows and windows, turned a block at a time.
//!
//! Where a block of rows is walked element by element and a row is short, element `j` of all rows stands in memory at steps of a row.
//! Such parameters get a sheet in the frame with the block transposed: inputs are turned before the first phase, outputs after
//! the last. Phases then read and write whole vectors. So it is with windows of two places along a line that lie next to each other: the
//! line is pairs of places.

use super::edges::places;
use super::frame::Frame;
use super::launch::{Launch, SHORT_ROW};
use super::pairs;
use super::plan::{Along, Plan, Step};
use super::transpose::transpose;
use super::windows::Windows;
use smallvec::SmallVec;

/// A parameter that has a sheet.
pub(super) struct Turned {
    pub(super) param: usize,
    pub(super) written: bool,
    /// Bytes of an element.
    size: usize,
    form: Form,
    /// Bytes from the first sheet to this one.
    offset: usize,
}

/// How the elements of a block lie in memory.
enum Form {
    /// Rows, and elements from each to the next.
    Rows(isize),
    /// Pairs of a window, and elements from the first pair to each.
    Pairs(Box<[i64]>),
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
        let (plan, length) = (launch.plan, launch.other.total);
        let short =
            plan.along == Along::Outer && !plan.phases.is_empty() && (2..=SHORT_ROW).contains(&length);
        if !short || Windows::of(launch, None).is_some() {
            return sheets;
        }
        for p in 0..launch.args.args.len() {
            for written in [false, true] {
                if !walks(plan, p, written) {
                    continue;
                }
                let Some(form) = Form::of(launch, p) else { continue };
                let size = usize::from(launch.sizes[p]);
                sheets.list.push(Turned {
                    param: p,
                    written,
                    size,
                    form,
                    offset: sheets.bytes,
                });
                let bytes = launch.block * length as usize * size;
                sheets.bytes += bytes.next_multiple_of(crate::prefetch::LINE);
            }
        }
        sheets
    }

    /// From a window's first pair to each, of a parameter that has pairs.
    pub(super) fn pairs(&self, p: usize, written: bool) -> Option<&[i64]> {
        let mut list = self.list.iter();
        let turned = list.find(|turned| turned.param == p && turned.written == written)?;
        match &turned.form {
            Form::Pairs(places) => Some(places),
            Form::Rows(_) => None,
        }
    }
}

impl Form {
    /// That of a parameter which suits a sheet.
    fn of(launch: &Launch<'_>, p: usize) -> Option<Form> {
        let (lanes, other) = (&launch.lanes, &launch.other);
        let (last, inner) = (lanes.rank - 1, other.rank - 1);
        let step = lanes.of(p)[last] as isize;
        if other.of(p)[inner] != 1 {
            return None;
        }
        if step == 2 && other.extents[inner] == 2 && launch.sizes[p] == 4 {
            let places = places(&other.extents[..inner], &other.of(p)[..inner]);
            return Some(Form::Pairs(places.into_vec().into_boxed_slice()));
        }
        (last == 0 && inner == 0 && step.unsigned_abs() >= other.total as usize).then_some(Form::Rows(step))
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
            // SAFETY: the caller of the launch vouches for the elements of the block, and a sheet has room for them.
            unsafe {
                let (start, sheet) = (*self.at.add(turned.param), self.sheet(turned));
                match &turned.form {
                    &Form::Rows(step) if written => {
                        transpose(turned.size, (start, step), (sheet, n as isize), n, length);
                    }
                    &Form::Rows(step) => {
                        transpose(turned.size, (sheet, n as isize), (start, step), length, n);
                    }
                    Form::Pairs(places) => self.turn_pairs(turned, (start.cast(), sheet.cast()), places, n),
                }
            }
        }
    }

    /// Turns windows. `start` is the parameter's first element in memory.
    ///
    /// # Safety
    /// The elements of the block are there, and the sheet has room for them.
    unsafe fn turn_pairs(
        &self,
        turned: &Turned,
        (start, sheet): (*mut u32, *mut u32),
        places: &[i64],
        n: usize,
    ) {
        let isa = self.plan.isa;
        self.shape(n).sheets(turned.param, |first, lines, offset| {
            for (pair, &place) in places.iter().enumerate() {
                let start = start.wrapping_offset(offset as isize + place as isize);
                let half = |odd: usize| sheet.wrapping_add((2 * pair + odd) * n + first);
                // SAFETY: the caller's promise.
                unsafe {
                    if turned.written {
                        pairs::join(isa, start, [half(0).cast_const(), half(1).cast_const()], lines);
                    } else {
                        pairs::split(isa, [half(0), half(1)], start, lines);
                    }
                }
            }
        });
    }

    /// The sheet of an input, if it has one.
    pub(super) fn sheet_of(&self, p: usize) -> Option<*mut u8> {
        let mut list = self.launch.sheets.list.iter();
        list.find(|turned| turned.param == p && !turned.written)
            .map(|turned| self.sheet(turned))
    }

    /// Points the parameters that have sheets at element `j` of the block's `n` rows.
    pub(super) fn point_at_sheets(&mut self, j: usize, n: usize) {
        for turned in &self.launch.sheets.list {
            // SAFETY: the table has every parameter.
            unsafe { *self.at.add(turned.param) = self.sheet(turned).wrapping_add(j * n * turned.size) };
        }
    }
}
