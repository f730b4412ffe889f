//! Scans, in pieces where rows are few and long, and scatters.

use super::Writer;
use crate::axis::AxisOp;
use crate::scalar;
use thalweg_hal::library::{Scan, Scatter};

impl Writer<'_> {
    pub(super) fn along_axis(&mut self, op: &AxisOp, split: bool, pass: u32) {
        match op {
            AxisOp::Scan(op) => self.scan(op, split, pass),
            AxisOp::Scatter(_) if pass == 0 => self.copy_base(),
            AxisOp::Scatter(op) => self.scatter(op),
        }
    }

    /// Indices of row `r` along the axes before the last outer one, and the offsets of `params` there.
    pub(super) fn batch_row(&mut self, params: &[usize]) {
        self.row_along(usize::from(self.variant.outer) - 1, params);
    }

    /// Indices of row `r` along the first `batch` axes, and the offsets of `params` there.
    pub(super) fn row_along(&mut self, batch: usize, params: &[usize]) {
        if batch > 0 {
            self.text.line("idx row_rest = r;");
        }
        for axis in (1..batch).rev() {
            self.text.line(format!("const idx r{axis} = row_rest % o{axis};"));
            self.text.line(format!("row_rest /= o{axis};"));
        }
        if batch > 0 {
            self.text.line("const idx r0 = row_rest;");
        }
        for p in params {
            let mut sum: Vec<String> = (0..batch).map(|axis| format!("r{axis} * t{p}_{axis}")).collect();
            if sum.is_empty() {
                sum.push("0".into());
            }
            self.text.line(format!("const idx q{p} = {};", sum.join(" + ")));
        }
    }

    /// Pass 0 of a scan in pieces reduces each piece; the last one starts from what lies before.
    fn scan(&mut self, op: &Scan, split: bool, pass: u32) {
        let (register, last) = (scalar::register(op.accumulate), self.variant.outer - 1);
        let memory = match register {
            "bool" => "u8",
            register => register,
        };
        if split {
            self.text.line(format!(
                "TL_GLOBAL {memory} *const z = (TL_GLOBAL {memory} *)scratch;"
            ));
        }
        self.units(false, "rows * chunks");
        self.text.line("const idx r = unit / chunks;");
        self.text.line("const idx piece = unit - r * chunks;");
        self.text.line("const idx begin = piece * length;");
        self.text
            .line("const idx end = total - begin < length ? total : begin + length;");
        self.batch_row(&[0, 1]);
        let identity = scalar::identity(op.op, op.accumulate);
        self.text.line(format!("{register} sum = {identity};"));
        let combined = |value: &str| scalar::combined(op.op, op.accumulate, "sum", value);
        let reduces = split && pass == 0;
        if split && !reduces {
            let value = combined(&format!("({register})z[r * chunks + c]"));
            self.text
                .line(format!("for (idx c = 0; c < piece; ++c) sum = {value};"));
        }
        self.text.open("for (idx j = begin; j < end; ++j)");
        let value = scalar::loaded(op.dtype, "p0[q0 + j * s0_0]");
        let value = scalar::cast(op.dtype, op.accumulate, &value);
        self.text.line(format!("const {register} value = {value};"));
        let result = scalar::cast(op.accumulate, op.output, "sum");
        self.text
            .line(format!("const {register} next = {};", combined("value")));
        let store = |writer: &mut Self| {
            if !reduces {
                let output = scalar::register(op.output);
                writer.text.line(format!("const {output} result = {result};"));
                let element = scalar::stored(op.output, "result");
                writer.text.line(format!("p1[q1 + j * t1_{last}] = {element};"));
            }
        };
        if op.exclusive {
            store(self);
            self.text.line("sum = next;");
        } else {
            self.text.line("sum = next;");
            store(self);
        }
        self.text.close();
        if reduces {
            self.text.line(format!("z[unit] = ({memory})sum;"));
        }
        self.text.close();
    }

    fn copy_base(&mut self) {
        let last = self.variant.outer - 1;
        self.units(false, "rows * along");
        self.text.line("const idx r = unit / along;");
        self.text.line("const idx at = unit - r * along;");
        self.batch_row(&[0, 3]);
        self.text
            .line(format!("p3[q3 + at * t3_{last}] = p0[q0 + at * t0_{last}];"));
        self.text.close();
    }

    fn scatter(&mut self, op: &Scatter) {
        let (register, last) = (scalar::register(op.dtype), self.variant.outer - 1);
        self.units(false, "rows");
        self.text.line("const idx r = unit;");
        self.batch_row(&[1, 2, 3]);
        self.text.open("for (idx m = 0; m < total; ++m)");
        self.text.line("const i64 at = (i64)p2[q2 + m * s2_0];");
        self.text.line("if (at < 0 || at >= (i64)along) continue;");
        let value = scalar::loaded(op.dtype, "p1[q1 + m * gs1]");
        let zero = scalar::constant(op.dtype, 0);
        self.text.line("const bool inside = (u64)m < ge1;");
        self.text
            .line(format!("const {register} update = inside ? {value} : {zero};"));
        self.text
            .line(format!("const idx place = q3 + (idx)at * t3_{last};"));
        let result = match op.combine {
            None => "update".to_owned(),
            Some(op_) => {
                let old = scalar::loaded(op.dtype, "p3[place]");
                self.text.line(format!("const {register} old = {old};"));
                scalar::combined(op_, op.dtype, "old", "update")
            }
        };
        self.text.line(format!("const {register} result = {result};"));
        let element = scalar::stored(op.dtype, "result");
        self.text.line(format!("p3[place] = {element};"));
        self.text.close();
        self.text.close();
    }
}
