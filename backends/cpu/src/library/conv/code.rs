//! The tiles of convolutions as machine code, written once for a process, kind of sums and instruction set.

pub(super) mod beside;
pub(super) mod lines;
mod outer;
pub(super) mod points;
mod steps;

use super::beside::Beside;
use super::lines::Lines;
use super::points::Points;
use super::steps::StepFn;
use super::tile::{ASK_BYTES, ASK_LINES, ASK_TERMS, Ahead, OuterFn, TapArgs, TapFn, Tiles};
use crate::codegen::assembler::{
    AT_LEAST, Assembler, EQUAL, Extra, LESS, Label, RAX, RCX, RDI, RDX, RSI, Rm, UNEQUAL,
};
use crate::codegen::opcodes::{LOAD, STORE, XOR};
use crate::isa::Isa;
use crate::library::gemm::MXCSR_FLUSHING;
use crate::library::gemm::code::{Entry, FLUSHING, Sum, USUAL, assembler, control, keep, runs};
use outer::outer;
use std::mem::offset_of;
use std::sync::OnceLock;

/// Terms between two tests of a loop.
const UNROLL: i32 = ASK_TERMS as i32;
/// Registers of weights that are asked for ahead of time: constant weights come from memory.
const AHEAD: i32 = 64;

/// The first instructions of the kernels that [`Tiles`] names.
#[derive(Clone, Copy)]
struct Kernels {
    wide: &'static [Entry],
    high: &'static [Entry],
    rows: [&'static [Entry]; 2],
    steps: [&'static [Entry]; 3],
    /// For `index + 1` taps of a line, with narrow and with wide registers.
    outer: [&'static [Entry]; 2],
}

/// By instruction set and sum.
static KERNELS: [[OnceLock<Option<Kernels>>; Sum::ALL.len()]; 2] =
    [const { [const { OnceLock::new() }; Sum::ALL.len()] }; 2];

/// The tiles with machine code, where the system lets memory be executed. Sums of four bytes multiply unsigned x by signed weights, or
/// the other way round where they are swapped.
pub(super) fn tiles<S>(compiled: Tiles<S>, sum: Sum, isa: Isa) -> Option<Tiles<S>> {
    debug_assert_eq!(size_of::<S>(), 1 << sum.shift());
    if !runs(isa) || !sum.exists(isa) {
        return None;
    }
    let wide = isa == Isa::Avx512;
    let kernels = KERNELS[usize::from(wide)][sum as usize].get_or_init(|| {
        let mut asm = assembler(wide);
        if sum == Sum::Flushed {
            asm.code.extend(MXCSR_FLUSHING.to_le_bytes());
        }
        let mut of_taps = |count: usize, vectors: i32, form: Form| -> Vec<usize> {
            let mut one = |rows: i32| taps(&mut asm, sum, rows, vectors, form);
            (1..=count as i32).map(&mut one).collect()
        };
        let of_taps = [
            of_taps(compiled.wide.1.len(), 4, Form::Positions),
            of_taps(compiled.high.1.len(), 2, Form::Positions),
            of_taps(compiled.rows[0].1.len(), 1, Form::Rows),
            of_taps(compiled.rows[1].1.len(), 2, Form::Rows),
        ];
        let [one, two, _] = compiled.steps.map(<[_]>::len);
        let of_steps = [(1, one), (2, two), (4, if wide { two } else { 0 })].map(|(vectors, most)| {
            let mut one = |places| steps::steps(&mut asm, sum, places, vectors);
            (1..=most).map(&mut one).collect::<Vec<usize>>()
        });
        let outer = compiled.outer.map(|(lanes, lines, _)| -> Vec<usize> {
            asm.half = wide && lanes * size_of::<S>() == 32;
            (lines.iter().zip(1..))
                .map(|(&lines, taps)| outer(&mut asm, sum, lines as i32, taps))
                .collect()
        });
        let starts = of_taps.iter().chain(&of_steps).chain(&outer);
        let entries = keep(&asm.code, starts.clone().flatten().copied())?;
        let mut left: &'static [Entry] = entries.leak();
        let mut next = starts.map(|starts| {
            let (entries, rest) = left.split_at(starts.len());
            left = rest;
            entries
        });
        let [wide, high, a, b, one, two, four, small, large] =
            std::array::from_fn(|_| next.next().unwrap_or_default());
        Some(Kernels {
            wide,
            high,
            rows: [a, b],
            steps: [one, two, four],
            outer: [small, large],
        })
    });
    let kernels = kernels.as_ref()?;
    // Of sums that flush, there are kernels over taps alone.
    let further = (sum != Sum::Flushed).then_some((sum, isa));
    // SAFETY: the entries are functions of these types, which read nothing of `S` but its size.
    unsafe {
        let of_taps =
            |entries: &'static [Entry]| std::mem::transmute::<&'static [Entry], &'static [TapFn<S>]>(entries);
        Some(Tiles {
            wide: (compiled.wide.0, of_taps(kernels.wide)),
            high: (compiled.high.0, of_taps(kernels.high)),
            rows: std::array::from_fn(|i| (compiled.rows[i].0, of_taps(kernels.rows[i]))),
            steps: kernels
                .steps
                .map(|entries| std::mem::transmute::<&'static [Entry], &'static [StepFn<S>]>(entries)),
            points: Points(further),
            outer: std::array::from_fn(|i| {
                let (lanes, lines, _) = compiled.outer[i];
                let entries = kernels.outer[i];
                let functions = std::mem::transmute::<&'static [Entry], &'static [OuterFn<S>]>(entries);
                (lanes, lines, functions)
            }),
            beside: Beside {
                code: further,
                ..compiled.beside
            },
            lines: compiled.lines.map(|lines| Lines {
                code: further,
                ..lines
            }),
            ..compiled
        })
    }
}

/// What the registers of a tile run along.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Places of a plane; weights are spread.
    Positions,
    /// Rows of the result; elements of the plane are spread.
    Rows,
}

/// Writes kernels of one kind of sums.
struct Writer<'a> {
    asm: &'a mut Assembler,
    sum: Sum,
}

impl Writer<'_> {
    /// Bytes of a lane.
    fn lane(&self) -> i32 {
        1 << self.sum.shift()
    }

    fn load(&mut self, to: u8, from: Rm) {
        self.asm.lanes(LOAD, to, 0, from, false, self.asm.width());
    }

    fn store(&mut self, from: u8, to: Rm) {
        self.asm.lanes(STORE, from, 0, to, false, self.asm.width());
    }

    fn clear(&mut self, sum: u8) {
        self.asm.lanes(XOR, sum, sum, Rm::Reg(sum), false, 0);
    }

    fn spread(&mut self, to: u8, from: Rm) {
        let (code, long) = self.sum.broadcast(self.asm.wide);
        self.asm.lanes(code, to, 0, from, long, self.lane());
    }

    /// Spreads number `i` of a term into `spare` or, where that is not the register of products, into the next one in turn; which it is.
    fn spread_in_turn(&mut self, i: usize, spare: u8, from: Rm) -> u8 {
        let to = spare + u8::from(self.sum.product().is_none() && i % 2 == 1);
        self.spread(to, from);
        to
    }

    /// Whether a number in memory may be spread and multiplied by one instruction, whose last operand it is. An unsigned one is the first.
    fn spreads(&self) -> bool {
        self.asm.wide && self.sum.product().is_none() && self.sum != Sum::Fours
    }

    /// `to += w * x`, each on its side of an instruction that tells them apart.
    fn multiply_add_weight(&mut self, to: u8, w: u8, x: u8, spare: u8) {
        match self.sum {
            Sum::Fours => self.multiply_add(to, x, w, spare),
            _ => self.multiply_add(to, w, x, spare),
        }
    }

    /// `to += x * w`, the same the other way round.
    fn multiply_add_element(&mut self, to: u8, x: u8, w: u8, spare: u8) {
        match self.sum {
            Sum::FoursSwapped => self.multiply_add(to, w, x, spare),
            _ => self.multiply_add(to, x, w, spare),
        }
    }

    /// Adds to the sums of places, `vectors` of each, the products of their elements in memory and the weights of one channel. These are two
    /// vectors `offset` bytes behind an address, and those of a second panel `next` bytes behind them.
    fn add_places(&mut self, (weights, next): (u8, u8), offset: i32, vectors: usize, elements: &[Rm]) {
        let sums = elements.len() * vectors;
        let (column, spare) = (sums as u8, (sums + vectors) as u8);
        for vector in 0..vectors {
            let offset = offset + (vector % 2) as i32 * self.asm.width();
            let from = match vector {
                0 | 1 => Rm::Base {
                    base: weights,
                    offset,
                },
                _ => Rm::Index {
                    base: weights,
                    index: next,
                    shift: 0,
                    offset,
                },
            };
            self.load(column + vector as u8, from);
        }
        for (i, &from) in elements.iter().enumerate() {
            if vectors == 1 && self.spreads() {
                self.multiply_add_spread(i as u8, column, from);
                continue;
            }
            let factor = self.spread_in_turn(i, spare, from);
            for vector in 0..vectors {
                let to = (i * vectors + vector) as u8;
                self.multiply_add_element(to, factor, column + vector as u8, spare + 1);
            }
        }
    }

    /// `to += a * b`, with b spread from memory.
    fn multiply_add_spread(&mut self, to: u8, a: u8, b: Rm) {
        let extra = Extra {
            long: self.sum.is_long(),
            unit: self.lane(),
            each: true,
            ..Extra::default()
        };
        self.asm.vector(self.sum.code(), to, a, b, extra);
    }

    /// `to += a * b`; `spare` is overwritten where that takes two instructions.
    fn multiply_add(&mut self, to: u8, a: u8, b: u8, spare: u8) {
        let (sum, long) = (self.sum, self.sum.is_long());
        match sum.product() {
            None => self.asm.lanes(sum.code(), to, a, Rm::Reg(b), long, 0),
            Some(product) => {
                self.asm.lanes(product, spare, a, Rm::Reg(b), long, 0);
                self.asm.lanes(sum.code(), to, to, Rm::Reg(spare), long, 0);
            }
        }
    }
}

/// Offset of a field of the arguments.
macro_rules! arg {
    ($args:ident, $field:ident) => {
        Rm::Base {
            base: RDI,
            offset: offset_of!($args<f32>, $field) as i32,
        }
    };
}
use arg;

fn of_ahead(field: usize) -> Rm {
    Rm::Base {
        base: RDI,
        offset: (offset_of!(TapArgs<f32>, ahead) + field) as i32,
    }
}

/// Appends a kernel over taps for `count` numbers that are spread, each met by `vectors` vectors; the position of its first instruction.
fn taps(asm: &mut Assembler, sum: Sum, count: i32, vectors: i32, form: Form) -> usize {
    const A: u8 = RAX;
    const OFFSETS: u8 = RCX;
    const LEFT: u8 = RDX;
    const X: u8 = RSI;
    const OUT: u8 = 8;
    const AT: u8 = 9;
    const WEIGHTS: u8 = 10;
    const LINES: u8 = 11;
    // Both addresses follow from what counts the terms.
    const { assert!(ASK_BYTES == 32 * ASK_TERMS && ASK_BYTES == 64 * ASK_LINES && 2 * ASK_LINES == ASK_TERMS) };
    asm.align(64);
    let entry = asm.code.len();
    let mut w = Writer { asm, sum };
    let (width, lane) = (w.asm.width(), w.lane());
    let sums = (count * vectors) as u8;
    let (column, spare) = (sums, sums + vectors as u8);
    if sum == Sum::Flushed {
        control(w.asm, true, USUAL);
        control(w.asm, false, FLUSHING);
    }
    for (to, from) in [
        (A, arg!(TapArgs, a)),
        (OFFSETS, arg!(TapArgs, offsets)),
        (LEFT, arg!(TapArgs, terms)),
        (X, arg!(TapArgs, x)),
        (OUT, arg!(TapArgs, out)),
        (LINES, of_ahead(offset_of!(Ahead, lines))),
    ] {
        w.asm.plain(0x8b, to, from);
    }
    let of_out = |sum: u8| Rm::Base {
        base: OUT,
        offset: i32::from(sum) * width,
    };
    let (mut zero, mut begin) = <(Label, Label)>::default();
    w.asm.compare_byte(arg!(TapArgs, accumulate), 0);
    w.asm.jump_if(EQUAL, &mut zero);
    (0..sums).for_each(|sum| w.load(sum, of_out(sum)));
    w.asm.jump(&mut begin);
    w.asm.place(&mut zero);
    (0..sums).for_each(|sum| w.clear(sum));
    w.asm.place(&mut begin);
    if form != Form::Positions {
        w.asm.plain(0x8b, WEIGHTS, of_ahead(offset_of!(Ahead, weights)));
        w.asm.copy(AT, OFFSETS);
        w.asm.shift(AT, true, 3);
        w.asm.plain(0x2b, WEIGHTS, Rm::Reg(AT));
    }

    // One term, `step` terms behind the addresses.
    let term = |w: &mut Writer<'_>, step: i32| {
        let offset = 4 * step;
        w.asm.plain32(
            0x8b,
            AT,
            Rm::Base {
                base: OFFSETS,
                offset,
            },
        );
        let of_x = |offset: i32| Rm::Index {
            base: X,
            index: AT,
            shift: sum.shift(),
            offset,
        };
        let of_a = |offset: i32| Rm::Base { base: A, offset };
        for vector in 0..vectors {
            let to = column + vector as u8;
            match form {
                Form::Positions => w.load(to, of_x(vector * width)),
                Form::Rows => {
                    let offset = (step * vectors + vector) * width;
                    w.load(to, of_a(offset));
                    if vector * width % 64 == 0 {
                        w.asm.prefetch(of_a(offset + AHEAD * width));
                    }
                }
            }
        }
        // The lines that the next tile meets: with few rows loads are what bounds the loop, with more of them there is room.
        if form == Form::Positions && count > 4 {
            for vector in vectors..2 * vectors {
                w.asm.prefetch(of_x((vector + 1) * width - lane));
            }
        }
        for i in 0..count {
            let from = match form {
                Form::Positions => of_a((step * count + i) * lane),
                Form::Rows => of_x(i * lane),
            };
            if vectors == 1 && w.spreads() {
                w.multiply_add_spread(i as u8, column, from);
                continue;
            }
            let factor = w.spread_in_turn(i as usize, spare, from);
            for vector in 0..vectors {
                let to = (i * vectors + vector) as u8;
                let column = column + vector as u8;
                match form {
                    Form::Positions => w.multiply_add_weight(to, factor, column, spare + 1),
                    Form::Rows => w.multiply_add_element(to, factor, column, spare + 1),
                }
            }
        }
    };
    let advance = |w: &mut Writer<'_>, steps: i32| {
        let each = match form {
            Form::Positions => count * lane,
            Form::Rows => vectors * width,
        };
        w.asm.add(A, steps * each);
        w.asm.add(OFFSETS, 4 * steps);
    };
    // Loads alone: the ports of other instructions are those of the sums.
    let ask = |w: &mut Writer<'_>, line: i32| {
        let of_lines = Rm::Index {
            base: LINES,
            index: LEFT,
            shift: 2,
            offset: 8 * line,
        };
        w.asm.plain(0x8b, AT, of_lines);
        w.asm.prefetch_to_write(Rm::Base { base: AT, offset: 0 });
        if form != Form::Positions {
            w.asm.prefetch_second(Rm::Index {
                base: WEIGHTS,
                index: OFFSETS,
                shift: 3,
                offset: 64 * line,
            });
        }
    };
    let (mut asking, mut group, mut rest) = <(Label, Label, Label)>::default();
    let (mut single, mut done) = <(Label, Label)>::default();
    let left = Rm::Reg(LEFT);
    let quiet = of_ahead(offset_of!(Ahead, quiet));
    w.asm.small(5, left, UNROLL as i8);
    w.asm.jump_if(LESS, &mut rest);
    w.asm.plain(0x3b, LEFT, quiet);
    w.asm.jump_if(LESS, &mut group);
    for (asks, label) in [(true, &mut asking), (false, &mut group)] {
        w.asm.align(32);
        w.asm.place(label);
        for step in 0..UNROLL {
            term(&mut w, step);
            let terms = UNROLL / ASK_LINES as i32;
            if asks && step % terms == 0 {
                ask(&mut w, step / terms);
            }
        }
        advance(&mut w, UNROLL);
        w.asm.small(5, left, UNROLL as i8);
        if asks {
            w.asm.jump_if(LESS, &mut rest);
            w.asm.plain(0x3b, LEFT, quiet);
        }
        w.asm.jump_if(AT_LEAST, label);
    }
    w.asm.place(&mut rest);
    w.asm.small(0, left, UNROLL as i8);
    w.asm.jump_if(EQUAL, &mut done);
    w.asm.place(&mut single);
    term(&mut w, 0);
    advance(&mut w, 1);
    w.asm.small(5, left, 1);
    w.asm.jump_if(UNEQUAL, &mut single);
    w.asm.place(&mut done);
    (0..sums).for_each(|sum| w.store(sum, of_out(sum)));
    if w.sum == Sum::Flushed {
        control(w.asm, false, USUAL);
    }
    w.asm.vzeroupper();
    w.asm.ret();
    entry
}
