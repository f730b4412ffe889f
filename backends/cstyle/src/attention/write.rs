//! The source of attentions.

use super::{AttentionWords, Form, Tile, matrix};
use crate::variant::Step;
use crate::write::{Outline, Writer, vector_of};
use crate::{Source, scalar};
use thalweg_hal::DType;
use thalweg_hal::library::Attention;

/// Rows that a work-item of a CPU has in registers at a time.
const AT_ONCE: u32 = 8;

/// The source of an attention.
pub(crate) fn source(writer: Writer<'_>, op: &Attention, form: Form) -> Source {
    if let Some(matrix) = form.matrix {
        return matrix::source(writer, op, form, matrix);
    }
    let tile = Tile::planned(op.accumulate, writer.target, form);
    writer.program(
        Outline::of(AttentionWords::declarations()),
        |writer| writer.attention_head(op, tile),
        |writer, _| writer.attention(op),
    )
}

impl Writer<'_> {
    /// Types, constants and functions.
    fn attention_head(&mut self, op: &Attention, tile: Tile) {
        self.attention_types(op);
        let accumulate = op.accumulate;
        let along = |p: usize| u32::from(self.variant.steps[p] == Step::Unit);
        let v_along = u32::from(self.variant.row_steps[2] == Step::Unit);
        let Tile {
            rows,
            columns,
            keys,
            depth,
            across,
            down,
        } = tile;
        let items = across * down;
        let mut constants = vec![
            ("CAUSAL", u32::from(op.causal)),
            ("ROWS", rows),
            ("COLUMNS", columns),
            ("KEYS", keys),
            ("DEPTH", depth),
        ];
        if self.target.cpu {
            // 64 bytes: the longest vectors.
            constants.extend([("LANES", 64 / accumulate.size() as u32), ("AT_ONCE", AT_ONCE)]);
        } else {
            constants.extend([
                ("Q_ALONG", along(0)),
                ("K_ALONG", along(1)),
                ("V_ALONG", v_along),
                ("ACROSS", across),
                ("DOWN", down),
                ("SHARE", items / rows),
                ("OWN_ROWS", rows / down),
                ("OWN_KEYS", keys / across),
                ("OWN_COLUMNS", columns / across),
                // What work-items hand each other goes through the tile of queries.
                ("LEFT", (depth * (rows + 1)).max(2 * items)),
                ("RIGHT", depth * (keys.max(columns) + 1)),
            ]);
        }
        self.constants(&constants);
        self.attention_functions(op);
        if self.target.cpu {
            let vector = format!("{}{}", vector_of(accumulate), 64 / accumulate.size());
            self.line(format!("typedef {vector} tl_vector;"));
            self.raw(include_str!("product.cl"));
        } else {
            self.line(format!(
                "TL_FN tl_sum tl_add_product(const tl_sum a, const tl_sum b, const tl_sum c) {{ return tl_fma_{accumulate}(a, b, c); }}"
            ));
        }
    }

    /// `TL_` and a name, for numbers that a program is compiled for.
    pub(super) fn constants(&mut self, constants: &[(&str, u32)]) {
        let constants: Vec<String> = (constants.iter())
            .map(|(name, value)| format!("TL_{name} = {value}"))
            .collect();
        self.line(format!("enum {{ {} }};", constants.join(", ")));
    }

    /// Types of elements, sums and the mask.
    pub(super) fn attention_types(&mut self, op: &Attention) {
        let (dtype, accumulate) = (op.dtype, op.accumulate);
        let (memory, sum) = (scalar::memory(dtype), scalar::register(accumulate));
        let mask = if op.mask == Some(accumulate) { sum } else { "u8" };
        for (name, of) in [("in", memory), ("sum", sum), ("mask", mask)] {
            self.line(format!("typedef {of} tl_{name};"));
        }
    }

    /// Functions of them.
    pub(super) fn attention_functions(&mut self, op: &Attention) {
        let (dtype, accumulate) = (op.dtype, op.accumulate);
        let wide = scalar::cast(dtype, accumulate, &scalar::loaded(dtype, "element"));
        let narrow = scalar::stored(dtype, &scalar::cast(accumulate, dtype, "value"));
        let masked = match op.mask {
            None => "score".to_owned(),
            Some(DType::Bool) => format!("*at != 0 ? score : {}", hidden(accumulate)),
            Some(_) => "score + *at".to_owned(),
        };
        for (returns, function, value) in [
            ("tl_sum", "wide(const tl_in element)", wide),
            ("tl_in", "narrow(const tl_sum value)", narrow),
            (
                "tl_sum",
                "masked(const tl_sum score, TL_GLOBAL const tl_mask *const at)",
                masked,
            ),
            (
                "tl_sum",
                "power(const tl_sum value)",
                format!("tl_exp_{accumulate}(value)"),
            ),
        ] {
            self.line(format!("TL_FN {returns} tl_{function} {{ return {value}; }}"));
        }
    }

    /// Extents, strides and scalars.
    pub(super) fn attention_steps(&mut self, op: &Attention) {
        let batch = op.batch as usize;
        let params = self.body.kernel.params.len();
        let out = params - 1;
        let strided = |unit: Step, name: String| if unit == Step::Unit { "1".to_owned() } else { name };
        let along = |p: usize| strided(self.variant.steps[p], format!("s{p}_1"));
        let columns = |p: usize| strided(self.variant.row_steps[p], format!("t{p}_{}", batch + 1));
        let (mask_row, mask_step) = match op.mask {
            Some(_) => (format!("t3_{batch}"), "s3_0".to_owned()),
            None => ("0".to_owned(), "0".to_owned()),
        };
        let steps = [
            ("q", format!("t0_{batch}"), along(0)),
            ("k", "s1_0".to_owned(), along(1)),
            ("v", "s2_0".to_owned(), columns(2)),
            ("mask", mask_row, mask_step),
            ("out", format!("t{out}_{batch}"), columns(out)),
        ];
        self.line("const idx queries = height, keys = total, depth = e1;");
        for (name, row, step) in steps {
            self.line(format!("const idx {name}_row = {row}, {name}_step = {step};"));
        }
        self.line(format!("const tl_sum hidden = {};", hidden(op.accumulate)));
        let scale = scalar::of_bits(op.accumulate, "c0");
        self.line(format!("const tl_sum scale = {scale};"));
    }

    fn attention(&mut self, op: &Attention) {
        self.attention_steps(op);
        self.line("const idx strips = (width + TL_COLUMNS - 1) / TL_COLUMNS;");
        self.raw(if self.target.cpu {
            include_str!("item_memory.h")
        } else {
            include_str!("group_memory.h")
        });
        self.units(true, "rows * chunks * strips");
        self.line("const idx which = unit / strips;");
        self.line("const idx left = (unit - which * strips) * TL_COLUMNS;");
        self.line("const idx r = which / chunks;");
        // The longest of causal tiles first.
        let tile = match op.causal {
            true => "(r + 1) * chunks - 1 - which",
            false => "which - r * chunks",
        };
        self.line(format!("const idx top = ({tile}) * length;"));
        self.attention_operands(op);
        self.raw(if self.target.cpu {
            include_str!("item.h")
        } else {
            include_str!("group.h")
        });
        self.close();
    }

    /// Where the operands of head `r` begin.
    pub(super) fn attention_operands(&mut self, op: &Attention) {
        let batch = op.batch as usize;
        let params = self.body.kernel.params.len();
        let out = params - 1;
        let all: Vec<usize> = (0..params).collect();
        self.batch_row(batch, &all);
        for (name, p) in [("q", 0), ("k", 1), ("v", 2)] {
            self.line(format!("TL_GLOBAL const tl_in *const {name} = p{p} + q{p};"));
        }
        let mask = match op.mask {
            Some(_) => "p3 + q3",
            None => "0",
        };
        self.line(format!("TL_GLOBAL const tl_mask *const mask = {mask};"));
        self.line(format!("TL_GLOBAL tl_in *const out = p{out} + q{out};"));
    }
}

/// The score of a key that a query does not see.
fn hidden(accumulate: DType) -> String {
    let bits = match accumulate {
        DType::F64 => f64::NEG_INFINITY.to_bits(),
        _ => f32::NEG_INFINITY.to_bits().into(),
    };
    scalar::constant(accumulate, bits)
}
