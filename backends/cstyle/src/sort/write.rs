//! The source of sorts.

use super::{FEW, Form, OWN, Section, SortWords, digit_bits, short};
use crate::words::Declaration;
use crate::write::{Outline, Writer};
use crate::{Source, scalar};
use thalweg_hal::DType;
use thalweg_hal::library::Sort;
use thalweg_hal::narrow::float_bits;

impl Section {
    fn declaration(self) -> Declaration {
        match self {
            Section::Totals => Declaration::scratch("u32", "totals"),
            Section::Counts => Declaration::scratch("u32", "counts"),
            Section::Numbers => Declaration::scratch("u32", "numbers"),
            Section::Elements => Declaration::scratch("tl_bits", "elements"),
        }
    }
}

/// The source of a sort.
pub(crate) fn source(writer: Writer<'_>, op: &Sort, Form { long }: Form) -> Source {
    let mut own = SortWords::declarations();
    if long {
        own.extend(Section::ALL.map(Section::declaration));
    }
    let outline = Outline {
        last: long.then(|| Declaration::of("i32", "round")),
        scratch: long,
        entries: if long { 3 } else { 1 },
        ..Outline::of(own)
    };
    writer.program(
        outline,
        |writer| writer.sort_head(op),
        |writer, pass| writer.sort(long, pass),
    )
}

/// Infinity of a float.
fn infinity(dtype: DType) -> Option<u64> {
    (dtype.is_float() && !dtype.is_storage()).then(|| float_bits(dtype, f64::INFINITY))
}

impl Writer<'_> {
    /// Types, constants and functions.
    fn sort_head(&mut self, op: &Sort) {
        let size = op.dtype.size();
        let (order, suffix) = if size == 8 { ("u64", "ul") } else { ("u32", "u") };
        let bits = scalar::memory(self.body.kernel.params[0].dtype);
        let digit = digit_bits(op.dtype);
        let enums = [
            ("SHORT", short(self.target.cpu)),
            ("SHARE", short(self.target.cpu) / u64::from(self.variant.group)),
            ("OWN", OWN.into()),
            ("FEW", FEW),
            ("TILE", u64::from(OWN) * u64::from(self.variant.group)),
            ("DIGIT", digit.into()),
            ("DIGITS", 1 << digit),
        ];
        let enums: Vec<String> = enums.map(|(name, value)| format!("TL_{name} = {value}")).into();
        self.line(format!("typedef {bits} tl_bits;"));
        self.line(format!("typedef {order} tl_order;"));
        self.line(format!("enum {{ {} }};", enums.join(", ")));
        self.line("/* Orders elements: both zeros are one key, and NaN is the last in either direction. */");
        self.open("TL_FN tl_order tl_key(const tl_order bits, const tl_order flip)");
        match infinity(op.dtype) {
            None => self.line("return bits ^ flip;"),
            Some(infinity) => {
                let all = u64::MAX >> (64 - 8 * size);
                let (rest, top) = (all >> 1, all ^ (all >> 1));
                let number = |value: u64| format!("{value:#x}{suffix}");
                let [all, rest, top, infinity] = [all, rest, top, infinity].map(number);
                self.line(format!("const tl_order size = bits & {rest};"));
                self.line(format!(
                    "const tl_order up = size == 0 ? {top} : bits & {top} ? ~bits & {all} : bits | {top};"
                ));
                self.line(format!("return size > {infinity} ? {all} : up ^ flip;"));
            }
        }
        self.close();
        self.raw(include_str!("digit.h"));
        if !self.target.cpu {
            let (shared, count) = if self.is_cuda() {
                ("", "atomicAdd(at, 1u)")
            } else {
                ("__local", "atomic_inc(at)")
            };
            self.line("#undef TL_SHARED");
            self.line(format!("#define TL_SHARED {shared}"));
            self.line("#undef TL_COUNT");
            self.line(format!("#define TL_COUNT(at) {count}"));
            self.raw(include_str!("before.h"));
        }
    }

    /// An entry: the only one of short rows; the counts, their sums or the moves of long ones.
    fn sort(&mut self, long: bool, pass: u32) {
        let last = self.variant.outer - 1;
        for (name, p) in [("x_step", 0), ("value_step", 1), ("index_step", 2)] {
            self.line(format!("const idx {name} = t{p}_{last};"));
        }
        match (long, self.target.cpu, pass) {
            (false, true, _) => self.short_row(),
            (false, false, _) => self.short_rows(),
            (true, cpu, 1) => {
                if !cpu {
                    self.line("TL_LOCAL u32 sums[2 * TL_ITEMS];");
                    self.raw(include_str!("sums_few.h"));
                }
                self.units(true, if cpu { "rows" } else { "rows * TL_DIGITS" });
                self.raw(if cpu {
                    include_str!("sums_item.h")
                } else {
                    include_str!("sums_group.h")
                });
                self.close();
            }
            (true, cpu, pass) => self.pieces(cpu, pass == 2),
        }
    }

    /// A row by one work-item.
    fn short_row(&mut self) {
        self.raw(include_str!("short_item_memory.h"));
        self.units(true, "chunks");
        self.line("const idx r = unit;");
        self.batch_row(self.variant.outer as usize - 1, &[0, 1, 2]);
        self.raw(include_str!("short_item.h"));
        self.close();
    }

    /// As many rows as fit local memory, at least one, by a group.
    fn short_rows(&mut self) {
        self.line("TL_LOCAL tl_bits held[TL_SHORT];");
        self.line("TL_LOCAL u16 number[TL_SHORT];");
        self.units(true, "chunks");
        self.line("const i32 n = (i32)total;");
        self.line("const idx first = unit * length;");
        self.line("const i32 count = (i32)(rows - first < length ? rows - first : length) * n;");
        self.each_of_tile(&[0]);
        self.line("held[i] = p0[q0 + (idx)j * x_step];");
        self.line("number[i] = (u16)j;");
        self.close();
        self.line("TL_BARRIER;");
        self.raw(include_str!("short_group.h"));
        self.each_of_tile(&[1, 2]);
        self.line("p1[q1 + (idx)j * value_step] = held[i];");
        self.line("p2[q2 + (idx)j * index_step] = (i64)number[i];");
        self.close();
        self.line("TL_BARRIER;");
        self.close();
    }

    /// Opens a loop of a group over the elements of its tile.
    fn each_of_tile(&mut self, params: &[usize]) {
        self.open("for (i32 i = TL_ITEM; i < count; i += TL_ITEMS)");
        self.line("const i32 j = i % n;");
        self.line("const idx r = first + i / n;");
        self.batch_row(self.variant.outer as usize - 1, params);
    }

    /// A piece of a row, whose digits are counted, or whose elements are moved.
    fn pieces(&mut self, cpu: bool, moves: bool) {
        let memory: &[&str] = match (cpu, moves) {
            (true, _) => &["u32 count[TL_DIGITS];"],
            (false, false) => &["TL_LOCAL u32 count[TL_DIGITS];"],
            (false, true) => &[
                "TL_LOCAL u32 entry[TL_TILE + TL_TILE / 16];",
                "TL_LOCAL u16 rank[18 * TL_ITEMS];",
                "TL_LOCAL u32 sums[2 * TL_ITEMS];",
                "TL_LOCAL u32 first[TL_DIGITS];",
                "TL_LOCAL u16 start[TL_DIGITS];",
            ],
        };
        memory.iter().for_each(|line| self.line(line));
        self.units(true, "rows * chunks");
        self.row_and_piece();
        self.batch_row(
            self.variant.outer as usize - 1,
            if moves { &[0, 1, 2] } else { &[0, 1] },
        );
        self.raw(include_str!("source.h"));
        self.raw(match (cpu, moves) {
            (true, false) => include_str!("count_item.h"),
            (false, false) => include_str!("count_group.h"),
            (true, true) => include_str!("move_item.h"),
            (false, true) => include_str!("move_group.h"),
        });
        self.close();
    }
}
