//! Maps along lines of neighbours as machine code: what is different for each row or column stands still along one, or moves with it.

use super::Args;
use super::launch::{FETCH, SPLIT, STREAM, tasks};
use super::program::Program;
use super::space::full_strides;
use crate::codegen::{Map, Rows};
use crate::isa::Isa;
use crate::parallel::Parallel;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::OnceLock;
use thalweg_hal::ir::{Access, Kernel, Role};

/// Neighbours that a call of machine code is worth.
const LEAST: u64 = 16;
/// Most elements of a call.
const MOST: u64 = 16 << 10;
/// Neighbours for which a call of a line alone is worth its while.
const LONG: u64 = 512;

/// Machine code for a map along lines, made when it first runs.
#[derive(Default)]
pub(super) struct Lines {
    /// And the parameters that move along a line in the first launch, a bit each. Launches of other strides run the loops.
    made: OnceLock<Option<(u64, Map)>>,
    /// Code for many short lines, with the parameters that move along a line and those that never do.
    rows: OnceLock<Option<([u64; 2], Rows)>>,
}

impl Lines {
    fn rows(&self, kernel: &Kernel, isa: Isa, [moving, single]: [u64; 2]) -> Option<&Rows> {
        let made = self.rows.get_or_init(|| {
            let kernel = Rows::laid(kernel, moving, single);
            let info = kernel.verify().ok()?;
            Some(([moving, single], Rows::of_map(&kernel, &info, isa)?))
        });
        let of = made.as_ref().filter(|(of, _)| *of == [moving, single]);
        of.map(|(_, rows)| rows)
    }

    fn along(&self, kernel: &Kernel, isa: Isa, moving: u64) -> Option<&Map> {
        let made = self.made.get_or_init(|| {
            let mut kernel = kernel.clone();
            for (p, param) in kernel.params.iter_mut().enumerate() {
                param.access = match moving >> p & 1 {
                    1 => Access::Contiguous,
                    _ => Access::Broadcast,
                };
            }
            let info = kernel.verify().ok()?;
            Some((moving, Map::new(&kernel, &info, isa)?))
        });
        made.as_ref().filter(|(of, _)| *of == moving).map(|(_, map)| map)
    }

    /// Runs a map whose parameters all move by one element along the last axes or stand still there; whether it did.
    pub(super) fn run(&self, program: &Program, isa: Isa, args: &Args<'_>, parallel: &dyn Parallel) -> bool {
        let kernel = &program.kernel;
        let (extents, params) = (args.extents, kernel.params.len());
        let Some(last) = extents.iter().rposition(|&extent| extent != 1) else {
            return false;
        };
        if kernel.inner != 0 || params > 64 || extents.contains(&0) || matches!(self.made.get(), Some(None)) {
            return false;
        }
        let full = full_strides(kernel, args);
        let stride = |p: usize, axis: usize| full[p * extents.len() + axis];
        let mut moving = 0_u64;
        for (p, param) in kernel.params.iter().enumerate() {
            match (stride(p, last), param.role) {
                (0, Role::In) => {}
                (1, _) => moving |= 1 << p,
                _ => return false,
            }
        }
        // The axes along which a line goes on, and its length.
        let (mut outer, mut length) = (extents.len(), 1);
        while outer > 0 {
            let axis = outer - 1;
            let goes_on = |p: usize| stride(p, axis) == (moving >> p & 1) as i64 * length as i64;
            if extents[axis] != 1 && !(0..params).all(goes_on) {
                break;
            }
            length *= extents[axis];
            outer -= 1;
        }
        let rows: u64 = extents[..outer].iter().product();
        let total = rows * length;
        let size = |p: usize| kernel.params[p].dtype.size() as u64;
        let streams = |p: usize| kernel.params[p].role == Role::Out && total * size(p) >= STREAM;
        // A single line is not split.
        let whole = rows == 1 && parallel.threads() > 1 && program.cost(extents) >= SPLIT;
        if length < LEAST || whole || (0..params).any(streams) {
            return false;
        }
        let Some(map) = self.along(kernel, isa, moving) else {
            return false;
        };
        let fetch = (0..params).any(|p| moving >> p & 1 == 1 && total * size(p) >= FETCH);
        let pieces = length.div_ceil(MOST);
        let line = |addresses: &[*mut u8]| {
            for start in (0..pieces).map(|piece| piece * MOST) {
                let n = (length - start).min(MOST);
                let address = |p: usize| {
                    let moved = (moving >> p & 1) * start * size(p);
                    addresses[p].wrapping_add(moved as usize)
                };
                // SAFETY: the caller of the launch vouches for the parameters and scalars; what does not move is single along a line.
                unsafe { map.run(n as usize, params, address, args.scalars, (fetch, false)) };
            }
        };
        let bytes = |p: usize, axis: usize| stride(p, axis) as isize * size(p) as isize;
        // Lines at equal distances, and bytes from one to the next.
        let (mut together, mut steps): (u64, SmallVec<[isize; 16]>) = (1, SmallVec::from_elem(0, params));
        for axis in (0..outer).rev().filter(|&axis| extents[axis] != 1) {
            if together == 1 {
                steps = (0..params).map(|p| bytes(p, axis)).collect();
            } else if (0..params).any(|p| bytes(p, axis) != steps[p] * together as isize) {
                break;
            }
            together *= extents[axis];
        }
        let still = |p: &usize| moving >> p & 1 == 0 && (0..outer).all(|axis| bytes(*p, axis) == 0);
        let single = (0..params).filter(still).fold(0, |all, p| all | 1 << p);
        let short = (length < LONG && together > 1).then(|| self.rows(kernel, isa, [moving, single]));
        let short = short.flatten();
        // One line after the other.
        let lines = |rows: Range<u64>| {
            let mut row = rows.start;
            while row < rows.end {
                let some = (together - row % together).min(rows.end - row);
                let mut addresses: SmallVec<[*mut u8; 16]> = args.args.iter().map(|arg| arg.ptr).collect();
                let mut left = row;
                for axis in (0..outer).rev() {
                    let index = left % extents[axis];
                    left /= extents[axis];
                    for (p, address) in addresses.iter_mut().enumerate() {
                        *address = address.wrapping_offset(index as isize * bytes(p, axis));
                    }
                }
                row += some;
                if let Some(code) = short {
                    let each = (some as usize, length as usize);
                    // SAFETY: the caller of the launch vouches for the parameters and scalars. What does not move is single along a
                    // line, and code for maps keeps nothing and asks for nothing.
                    unsafe { code.run(each, &mut addresses, &steps, args.scalars, false) };
                    continue;
                }
                for _ in 0..some {
                    line(&addresses);
                    for (address, step) in addresses.iter_mut().zip(&steps) {
                        *address = address.wrapping_offset(*step);
                    }
                }
            }
        };
        if parallel.threads() == 1 || rows == 1 || program.cost(extents) < SPLIT {
            lines(0..rows);
        } else {
            let tasks = tasks(total, parallel.threads()).min(rows);
            let at = |t: u64| rows * t / tasks;
            parallel.run(tasks as usize, &|t| lines(at(t as u64)..at(t as u64 + 1)));
        }
        true
    }

    /// Whether there is machine code.
    #[cfg(test)]
    pub(super) fn is_made(&self) -> bool {
        matches!(self.made.get(), Some(Some(_)))
    }
}
