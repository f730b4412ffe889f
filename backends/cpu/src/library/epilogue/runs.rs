//! An epilogue along lines of neighbours as machine code. What is the same for every line is computed once for all of them.

use super::{offset, stride};
use crate::codegen::{Map, Rows};
use crate::exec::Arg;
use crate::isa::Isa;
use smallvec::{SmallVec, smallvec};
use std::sync::OnceLock;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Cost, Kernel, Level, Node, NodeId, Role};

/// Neighbours that a line must have.
const LEAST: usize = 4;
/// Elements of short lines that are taken together, and how many times as many there must be: what stands still from line to line is
/// repeated for them.
const TOGETHER: usize = 512;
const OFTEN: usize = 4;
/// Most parameters, of which a set has a bit each.
const MOST: usize = 64;
/// Ways for which there is code. Launches of others run the program.
const WAYS: usize = 4;

/// How the parameters of a launch lie, in sets of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ways {
    /// By one element along the neighbours. The others stand still there.
    moving: u64,
    /// Of these, the ones that are the same for every line.
    columns: u64,
    /// The same everywhere.
    single: u64,
}

fn has(set: u64, param: usize) -> bool {
    set >> param & 1 == 1
}

/// Machine code for the ways in which parameters of the first launches lie.
pub(super) struct Runs {
    kernel: Kernel,
    isa: Isa,
    /// Whether machine code may be made.
    codegen: bool,
    made: [OnceLock<(Ways, Option<Code>)>; WAYS],
}

struct Code {
    rows: Rows,
    columns: Option<Columns>,
}

/// What the columns alone decide: its values follow the parameters of the rows.
struct Columns {
    map: Map,
    /// Inputs, and values that are computed.
    inputs: usize,
    values: usize,
}

/// The code with what one launch needs.
pub(super) struct Along<'a> {
    code: &'a Code,
    moving: u64,
    /// Axes with more than one element; neighbours lie along the last.
    order: SmallVec<[usize; 8]>,
    /// Strides and number of the columns.
    columns: (&'a [i64], usize),
    /// Values of the columns. Whoever binds the launch computes them: threads that waited for one another would sleep.
    values: Vec<f32>,
}

impl Runs {
    pub(super) fn new(kernel: &Kernel, isa: Isa, codegen: bool) -> Runs {
        Runs {
            kernel: kernel.clone(),
            isa,
            codegen,
            made: [const { OnceLock::new() }; WAYS],
        }
    }

    /// The code for a launch over `extents`, whose result and further inputs are `places`.
    ///
    /// # Safety
    /// The inputs are readable at every index of the launch, which has these scalars.
    pub(super) unsafe fn along<'a>(
        &'a self,
        extents: &[u64],
        places: &[Arg<'a>],
        scalars: &[u64],
    ) -> Option<Along<'a>> {
        let mut order: SmallVec<[usize; 8]> = (0..extents.len()).filter(|&axis| extents[axis] != 1).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(stride(&places[0], axis).unsigned_abs()));
        let &last = order.last()?;
        if places.len() >= MOST {
            return None;
        }
        let mut ways = Ways {
            moving: 0,
            columns: 0,
            single: 0,
        };
        for (at, place) in places.iter().enumerate() {
            match stride(place, last) {
                0 if order.iter().all(|&axis| stride(place, axis) == 0) => ways.single |= 1 << at,
                0 => {}
                1 => ways.moving |= 1 << at,
                _ => return None,
            }
        }
        if !has(ways.moving, 0) {
            return None;
        }
        // The first parameter of columns says along which axes they go.
        let mut columns: (&[i64], usize) = (&[], 0);
        for (at, place) in places.iter().enumerate().filter(|&(at, _)| has(ways.moving, at)) {
            let same = order
                .iter()
                .all(|&axis| stride(place, axis) == columns.0.get(axis).copied().unwrap_or(0));
            match self::columns(extents, &order, place) {
                Some(count) if columns.1 == 0 => columns = (place.strides, count),
                Some(_) if same => {}
                _ => continue,
            }
            ways.columns |= 1 << at;
        }
        let code = self.code(ways)?;
        // SAFETY: the caller vouches for the parameters, and the first of columns says how many there are.
        let values = code
            .columns
            .as_ref()
            .map(|of| unsafe { of.values(columns.1, places, scalars) });
        Some(Along {
            code,
            moving: ways.moving,
            order,
            columns,
            values: values.unwrap_or_default(),
        })
    }

    fn code(&self, ways: Ways) -> Option<&Code> {
        if !self.codegen {
            return None;
        }
        let make = || (ways, Code::new(&self.kernel, ways, self.isa));
        let mut made = self.made.iter().map(|made| made.get_or_init(make));
        let (_, code) = made.find(|(of, _)| *of == ways)?;
        code.as_ref()
    }
}

/// How many elements a parameter has that is dense along the last axes and stands still along the others, of which there are some.
fn columns(extents: &[u64], order: &[usize], place: &Arg<'_>) -> Option<usize> {
    let mut count = 1;
    let mut rest = order;
    while let [before @ .., axis] = rest
        && stride(place, *axis) == count
    {
        count *= extents[*axis] as i64;
        rest = before;
    }
    let still = !rest.is_empty() && rest.iter().all(|&axis| stride(place, axis) == 0);
    still.then_some(count as usize)
}

impl Code {
    fn new(kernel: &Kernel, ways: Ways, isa: Isa) -> Option<Code> {
        let mut rows = Rows::laid(kernel, ways.moving, ways.single);
        let columns = Columns::cut(&mut rows, ways, isa);
        let info = rows.verify().ok()?;
        Some(Code {
            rows: Rows::of_map(&rows, &info, isa)?,
            columns,
        })
    }
}

/// What a node depends on, besides numbers of the launch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Nothing,
    Columns,
    Rows,
}

/// What each node depends on.
fn dependences(kernel: &Kernel, ways: Ways) -> Vec<On> {
    let mut all: Vec<On> = Vec::with_capacity(kernel.nodes.len());
    for node in &kernel.nodes {
        let args = node.args().map(|arg| all[arg.index()]);
        let on = match *node {
            Node::Load { param } if has(ways.columns, param as usize) => On::Columns,
            Node::Load { param } if has(ways.single, param as usize) => On::Nothing,
            Node::Const { .. } | Node::Scalar { .. } => On::Nothing,
            Node::Op { .. } | Node::Cast { .. } => args.fold(On::Nothing, |on, arg| match (on, arg) {
                (On::Rows, _) | (_, On::Rows) => On::Rows,
                (On::Columns, _) | (_, On::Columns) => On::Columns,
                (On::Nothing, On::Nothing) => On::Nothing,
            }),
            _ => On::Rows,
        };
        all.push(on);
    }
    all
}

impl Columns {
    /// Takes what the columns decide out of a kernel, which reads its values from parameters of their own behind the others; `None`
    /// where that saves little.
    fn cut(rows: &mut Kernel, ways: Ways, isa: Isa) -> Option<Columns> {
        let info = rows.verify().ok()?;
        let mut on = dependences(rows, ways);
        let mut used = vec![false; on.len()];
        for i in (0..on.len()).rev() {
            // Values that the rows read are f32.
            if used[i] && on[i] == On::Columns && info.dtypes[i] != Some(DType::F32) {
                on[i] = On::Rows;
            }
            if on[i] == On::Rows {
                rows.nodes[i].args().for_each(|arg| used[arg.index()] = true);
            }
        }
        let costs = |i: usize| match rows.nodes[i] {
            Node::Op { op, .. } => op.cost() != Cost::Step,
            _ => false,
        };
        if !(0..on.len()).any(|i| on[i] == On::Columns && costs(i)) {
            return None;
        }
        let inputs = rows.params.len() - 1;
        let mut columns = rows.clone();
        columns.params.truncate(inputs);
        (columns.outer, columns.inner) = (1, 0);
        for (at, param) in columns.params.iter_mut().enumerate() {
            param.level = Level::Row;
            param.access = match has(ways.columns, at) {
                true => Access::Contiguous,
                false => Access::Broadcast,
            };
        }
        for node in &mut columns.nodes {
            if matches!(node, Node::Store { .. }) {
                // Nothing needs it.
                *node = Node::Const {
                    dtype: DType::F32,
                    bits: 0,
                };
            }
        }
        let mut values = 0;
        for i in 0..on.len() {
            if used[i] && on[i] == On::Columns && !matches!(rows.nodes[i], Node::Load { .. }) {
                let to = columns.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
                columns.store(to, NodeId(i as u32));
                let param = rows.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
                rows.nodes[i] = Node::Load { param };
                values += 1;
            }
        }
        let columns = columns.without_unused();
        *rows = rows.without_unused();
        let info = columns.verify().ok()?;
        Some(Columns {
            map: Map::new(&columns, &info, isa)?,
            inputs,
            values,
        })
    }
}

impl Along<'_> {
    /// Applies it to a block, whose parameters are `args` and whose first element is `at`; whether it did. `size` says the bytes of an
    /// element.
    ///
    /// # Safety
    /// As [`super::Bound::block`].
    pub(super) unsafe fn block(
        &self,
        (at, extents): (&[u64], &[u64]),
        args: &[Arg<'_>],
        size: impl Fn(usize) -> usize,
        scalars: &[u64],
    ) -> bool {
        let inputs = &args[..args.len() - 1];
        // Axes along which a line goes on, and its length.
        let (mut rest, mut length) = (&self.order[..], 1);
        while let [before @ .., axis] = rest {
            let goes_on = |(at, arg): (usize, &Arg<'_>)| {
                let wanted = if has(self.moving, at) { length } else { 0 };
                stride(arg, *axis) == wanted
            };
            if extents[*axis] != 1 && !inputs.iter().enumerate().all(goes_on) {
                break;
            }
            length *= extents[*axis] as i64;
            rest = before;
        }
        if (length as usize) < LEAST {
            return false;
        }
        // Lines at equal distances.
        let (mut lines, mut steps): (u64, SmallVec<[i64; 8]>) = (1, smallvec![0; args.len()]);
        while let [before @ .., axis] = rest {
            let goes_on = |(arg, step): (&Arg<'_>, &i64)| stride(arg, *axis) == step * lines as i64;
            if lines == 1 {
                steps.clear();
                steps.extend(args.iter().map(|arg| stride(arg, *axis)));
            } else if extents[*axis] != 1 && !args.iter().zip(&steps).all(goes_on) {
                break;
            }
            lines *= extents[*axis];
            rest = before;
        }
        let mut steps: SmallVec<[isize; 16]> = steps
            .iter()
            .enumerate()
            .map(|(index, &step)| step as isize * size(index) as isize)
            .collect();
        let mut columns: SmallVec<[*mut u8; 4]> = SmallVec::new();
        if let Some(of) = &self.code.columns {
            let (strides, count) = self.columns;
            let first = self.values.as_ptr().wrapping_offset(offset(at, strides));
            columns.extend((0..of.values).map(|value| first.wrapping_add(value * count).cast_mut().cast()));
            steps.resize(steps.len() + columns.len(), 0);
        }
        let moves: SmallVec<[bool; 16]> = (0..steps.len())
            .map(|at| at + 1 >= args.len() || has(self.moving, at))
            .collect();
        let goes_on = |at: usize| {
            let size = if at < args.len() {
                size(at)
            } else {
                size_of::<f32>()
            };
            match (moves[at], steps[at]) {
                (false, step) => step == 0,
                (true, 0) => size == size_of::<f32>(),
                (true, step) => step == (length as usize * size).cast_signed(),
            }
        };
        let together = match TOGETHER / length as usize {
            some if some > 1 && lines as usize >= OFTEN * some && (0..steps.len()).all(goes_on) => some,
            _ => 1,
        };
        let mut index: SmallVec<[u64; 8]> = smallvec![0; extents.len()];
        for _ in 0..rest.iter().map(|&axis| extents[axis]).product::<u64>() {
            let mut addresses: SmallVec<[*mut u8; 16]> = (args.iter().enumerate())
                .map(|(p, arg)| {
                    let bytes = offset(&index, arg.strides) * size(p) as isize;
                    arg.ptr.wrapping_offset(bytes)
                })
                .collect();
            addresses.extend_from_slice(&columns);
            let mut steps = steps.clone();
            // SAFETY: the caller vouches for the block's elements of each parameter; those that do not move are single along a line.
            unsafe {
                let _repeated = Self::repeat(&moves, together, length as usize, &mut addresses, &mut steps);
                let each = |lines: usize| lines * length as usize;
                let (whole, left) = (lines as usize / together, lines as usize % together);
                let rows = &self.code.rows;
                rows.run((whole, each(together)), &mut addresses, &steps, scalars, false);
                if left > 0 {
                    rows.run((1, each(left)), &mut addresses, &steps, scalars, false);
                }
            }
            for &axis in rest.iter().rev() {
                index[axis] += 1;
                if index[axis] < extents[axis] {
                    break;
                }
                index[axis] = 0;
            }
        }
        true
    }
}

impl Along<'_> {
    /// Lets lines be as long as `together` of them: what moves and is the same in each is repeated, in memory that is returned.
    ///
    /// # Safety
    /// What does not move from line to line has `length` elements of 4 bytes.
    unsafe fn repeat(
        moves: &[bool],
        together: usize,
        length: usize,
        addresses: &mut [*mut u8],
        steps: &mut [isize],
    ) -> Vec<u32> {
        if together == 1 {
            return Vec::new();
        }
        let stands = |at: usize, steps: &[isize]| moves[at] && steps[at] == 0;
        let count = (0..steps.len()).filter(|&at| stands(at, steps)).count();
        let mut repeated: Vec<u32> = Vec::with_capacity(count * together * length);
        for at in 0..steps.len() {
            if stands(at, steps) {
                let start = repeated.len();
                // SAFETY: the caller's promise.
                let line = unsafe { std::slice::from_raw_parts(addresses[at].cast::<u32>(), length) };
                (0..together).for_each(|_| repeated.extend_from_slice(line));
                addresses[at] = repeated.as_mut_ptr().wrapping_add(start).cast();
            } else {
                steps[at] *= together.cast_signed();
            }
        }
        repeated
    }
}

impl Columns {
    /// Their values, one after the other for all columns.
    ///
    /// # Safety
    /// The parameters have so many columns, and there are the scalars of the kernel.
    unsafe fn values(&self, count: usize, places: &[Arg<'_>], scalars: &[u64]) -> Vec<f32> {
        let mut values = vec![0.0; count * self.values];
        let start = values.as_mut_ptr();
        let address = |p: usize| match p.checked_sub(self.inputs) {
            None => places[p].ptr,
            Some(value) => start.wrapping_add(value * count).cast(),
        };
        // SAFETY: the caller's promise; each value has room for all columns.
        unsafe {
            self.map
                .run(count, self.inputs + self.values, address, scalars, (false, false))
        };
        values
    }
}
