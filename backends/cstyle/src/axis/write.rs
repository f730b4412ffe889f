//! The source of scans and scatters.

use super::{AxisOp, AxisWords, Form};
use crate::write::{Outline, Writer};
use crate::{Source, scalar};
use thalweg_hal::library::{Scan, Scatter};

pub(crate) fn source(writer: Writer<'_>, op: &AxisOp, Form { split }: Form) -> Source {
    // The base of a scatter is copied first.
    let twice = split || matches!(op, AxisOp::Scatter(_));
    let outline = Outline {
        scratch: split,
        entries: 1 + u32::from(twice),
        ..Outline::of(AxisWords::declarations())
    };
    writer.program(
        outline,
        |_| {},
        |writer, pass| match op {
            AxisOp::Scan(op) => writer.scan(op, split, pass),
            AxisOp::Scatter(op) if pass == 0 => writer.copy_base(op),
            AxisOp::Scatter(op) => writer.scatter(op),
        },
    )
}

impl Writer<'_> {
    /// Pass 0 of a scan in pieces reduces each piece; the last one starts from what lies before.
    fn scan(&mut self, op: &Scan, split: bool, pass: u32) {
        let (register, last) = (scalar::register(op.accumulate), self.variant.outer - 1);
        let batch = op.batch as usize;
        let memory = match register {
            "bool" => "u8",
            register => register,
        };
        if split {
            self.line(format!(
                "TL_GLOBAL {memory} *const z = (TL_GLOBAL {memory} *)scratch;"
            ));
        }
        self.units(false, "rows * chunks");
        self.row_and_piece();
        self.ends_of_piece();
        self.batch_row(batch, &[0, 1]);
        let identity = scalar::identity(op.op, op.accumulate);
        self.line(format!("{register} sum = {identity};"));
        let combined = |value: &str| scalar::combined(op.op, op.accumulate, "sum", value);
        let reduces = split && pass == 0;
        if split && !reduces {
            let value = combined(&format!("({register})z[r * chunks + c]"));
            self.line(format!("for (idx c = 0; c < piece; ++c) sum = {value};"));
        }
        self.open("for (idx j = begin; j < end; ++j)");
        let value = scalar::loaded(op.dtype, "p0[q0 + j * s0_0]");
        let value = scalar::cast(op.dtype, op.accumulate, &value);
        self.line(format!("const {register} value = {value};"));
        let result = scalar::cast(op.accumulate, op.output, "sum");
        self.line(format!("const {register} next = {};", combined("value")));
        let store = |writer: &mut Self| {
            if !reduces {
                let output = scalar::register(op.output);
                writer.line(format!("const {output} result = {result};"));
                let element = scalar::stored(op.output, "result");
                writer.line(format!("p1[q1 + j * t1_{last}] = {element};"));
            }
        };
        if op.exclusive {
            store(self);
            self.line("sum = next;");
        } else {
            self.line("sum = next;");
            store(self);
        }
        self.close();
        if reduces {
            self.line(format!("z[unit] = ({memory})sum;"));
        }
        self.close();
    }

    fn copy_base(&mut self, op: &Scatter) {
        let (batch, last) = (op.batch as usize, self.variant.outer - 1);
        self.units(false, "rows * along");
        self.line("const idx r = unit / along;");
        self.line("const idx at = unit - r * along;");
        self.batch_row(batch, &[0, 3]);
        self.line(format!("p3[q3 + at * t3_{last}] = p0[q0 + at * t0_{last}];"));
        self.close();
    }

    fn scatter(&mut self, op: &Scatter) {
        let (register, last) = (scalar::register(op.dtype), self.variant.outer - 1);
        let batch = op.batch as usize;
        self.units(false, "rows");
        self.line("const idx r = unit;");
        self.batch_row(batch, &[1, 2, 3]);
        self.open("for (idx m = 0; m < total; ++m)");
        self.line("const i64 at = (i64)p2[q2 + m * s2_0];");
        self.line("if (at < 0 || at >= (i64)along) continue;");
        let value = scalar::loaded(op.dtype, "p1[q1 + m * gs1]");
        let zero = scalar::constant(op.dtype, 0);
        self.line("const bool inside = (u64)m < ge1;");
        self.line(format!("const {register} update = inside ? {value} : {zero};"));
        self.line(format!("const idx place = q3 + (idx)at * t3_{last};"));
        let result = match op.combine {
            None => "update".to_owned(),
            Some(op_) => {
                let old = scalar::loaded(op.dtype, "p3[place]");
                self.line(format!("const {register} old = {old};"));
                scalar::combined(op_, op.dtype, "old", "update")
            }
        };
        self.line(format!("const {register} result = {result};"));
        let element = scalar::stored(op.dtype, "result");
        self.line(format!("p3[place] = {element};"));
        self.close();
        self.close();
    }
}
