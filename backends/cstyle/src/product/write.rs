//! What all products share: loops over tiles, what becomes of a sum, and the pass that adds pieces.

use super::staged::{Part, Tiles};
use super::{Form, MatmulConfig, ProductWords, Roles, Taps};
use crate::variant::Step;
use crate::write::{Outline, Writer};
use crate::{Source, scalar};
use thalweg_hal::ir::Level;
use thalweg_hal::{DType, Error, Result};

/// The parts of a product's definition.
pub(super) struct Product<'a> {
    pub(super) roles: &'a Roles,
    /// The node that sums.
    pub(super) sum: usize,
    /// Dtypes of the operands, as the roles name them, and of the sum.
    pub(super) left: DType,
    pub(super) right: DType,
    pub(super) accumulate: DType,
    /// Whether sums are cut into pieces.
    pub(super) split: bool,
    /// Whether places are divided.
    pub(super) divides: bool,
    /// Whether each tap has a bit, where tiles are copied ahead.
    pub(super) bits: bool,
}

impl Product<'_> {
    /// First and one past the last point of the depth that a group sums.
    pub(super) fn ends(&self) -> [&'static str; 2] {
        if self.split {
            ["begin", "end"]
        } else {
            ["0", "total"]
        }
    }
}

/// The source of a product.
pub(crate) fn source(writer: Writer<'_>, roles: &Roles, form: Form) -> Result<Source> {
    // A verified definition has a sum.
    let sum = writer.body.reductions(0).into_iter().next();
    let sum = sum.ok_or_else(|| Error::internal("the definition of a product sums nothing"))?;
    let product = Product {
        roles,
        sum: sum.node,
        left: writer.body.kernel.params[roles.left].dtype,
        right: writer.body.kernel.params[roles.right].dtype,
        accumulate: sum.dtype,
        split: form.split,
        divides: form.divides,
        bits: form.bits,
    };
    let mut own = ProductWords::declarations();
    own.extend(Taps::declarations(form.spatial));
    let matrix = matches!(
        form.config,
        MatmulConfig::Matrix { .. } | MatmulConfig::Buffered { .. }
    );
    let outline = Outline {
        scratch: form.split,
        entries: 1 + u32::from(form.split),
        matrices: matrix,
        ..Outline::of(own)
    };
    Ok(writer.program(
        outline,
        |writer| {
            if matrix {
                writer.raw(include_str!("staged.cu"));
            }
        },
        |writer, pass| writer.product(&product, form, pass),
    ))
}

impl Writer<'_> {
    fn product(&mut self, product: &Product<'_>, form: Form, pass: u32) {
        if product.split {
            let sum = accumulator(product.accumulate);
            self.line(format!("TL_GLOBAL {sum} *const z = (TL_GLOBAL {sum} *)scratch;"));
        }
        if pass > 0 {
            self.fold_pieces(product);
            return;
        }
        let tiles = |extents: [u16; 3], part| {
            let [m, n, k] = extents.map(usize::from);
            let sides = form.sides;
            Tiles {
                product,
                m,
                n,
                k,
                part,
                sides,
            }
        };
        match form.config {
            MatmulConfig::Tiled {
                m,
                n,
                k,
                item_m,
                item_n,
            } => self.tiled(product, [m, n, k, item_m, item_n].map(usize::from)),
            MatmulConfig::Panel { m, n, k, item_m } => {
                self.panel(product, [m, n, k, item_m].map(usize::from));
            }
            MatmulConfig::Matrix {
                m,
                n,
                k,
                warp_m,
                warp_n,
            } => {
                let part = Part::Warp(warp_m.into(), warp_n.into());
                self.staged(&tiles([m, n, k], part));
            }
            MatmulConfig::Buffered {
                m,
                n,
                k,
                item_m,
                item_n,
            } => {
                let part = Part::Item(item_m.into(), item_n.into());
                self.staged(&tiles([m, n, k], part));
            }
        }
    }

    /// The loop over tiles of all matrices, and each tile's first row and column, its matrix, and its piece of the depth.
    pub(super) fn tiles(&mut self, product: &Product<'_>, m: usize, n: usize) {
        self.line(format!("const idx down = (height + {}) / {m};", m - 1));
        self.line(format!("const idx across = (width + {}) / {n};", n - 1));
        if product.split {
            self.line("const idx units = rows * down * across * chunks;");
            self.open("for (idx unit = (idx)TL_GROUP; unit < units; unit += (idx)TL_GROUPS)");
            self.line("const idx tile = unit / chunks;");
            self.line("const idx piece = unit - tile * chunks;");
            self.ends_of_piece();
        } else {
            self.line("const idx tiles = rows * down * across;");
            self.open("for (idx tile = (idx)TL_GROUP; tile < tiles; tile += (idx)TL_GROUPS)");
        }
        self.line("const idx strip = tile / down;");
        self.line(format!("const idx top = (tile - strip * down) * {m};"));
        self.line("idx matrix = strip / across;");
        self.line(format!("const idx left = (strip - matrix * across) * {n};"));
        self.matrix(product);
    }

    /// The indices of `matrix` along the batch axes, and every parameter's offset of it.
    fn matrix(&mut self, product: &Product<'_>) {
        let batch = &product.roles.batch;
        if product.split {
            self.line("const idx which = matrix;");
        }
        for axis in batch.iter().skip(1).rev() {
            self.line(format!("const idx r{axis} = matrix % o{axis};"));
            self.line(format!("matrix /= o{axis};"));
        }
        if let Some(axis) = batch.first() {
            self.line(format!("const idx r{axis} = matrix;"));
        }
        self.offsets('m', self.body.touched(), batch);
    }

    /// The element of an operand of `dtype` as a value of the accumulator's dtype.
    pub(super) fn operand(&self, product: &Product<'_>, dtype: DType, at: &str) -> String {
        let value = scalar::loaded(dtype, at);
        let value = scalar::cast(dtype, product.accumulate, &value);
        format!("({})({value})", accumulator(product.accumulate))
    }

    /// Offset of the left operand along the depth: of point `first + l`, which is point `l` of the step.
    pub(super) fn along_left(&self, product: &Product<'_>, first: &str, l: &str) -> String {
        let p = product.roles.left;
        if self.variant.steps[p] == Step::Unit {
            format!("{first}{l}")
        } else if product.roles.taps.is_some() {
            format!("la[{l}]")
        } else {
            format!("({first}{l}) * s{p}_0")
        }
    }

    /// Keeps the sum at row `i` and column `j` for the pass that adds pieces, or does what becomes of it. `columns` are the
    /// indices along the axes of the columns.
    pub(super) fn finish_sum(&mut self, product: &Product<'_>, sum: &str, columns: &[String]) {
        if product.split {
            self.line(format!(
                "z[((which * chunks + piece) * height + i) * width + j] = {sum};"
            ));
        } else {
            self.epilogue(product, sum, columns);
        }
    }

    /// What becomes of the sum at row `i`, and its store.
    fn epilogue(&mut self, product: &Product<'_>, sum: &str, columns: &[String]) {
        let roles = product.roles;
        self.line(format!("const idx r{} = i;", roles.row));
        for (axis, index) in roles.columns.iter().zip(columns) {
            self.line(format!("const idx r{axis} = {index};"));
        }
        for p in self.body.touched().filter(|&p| p >= 2) {
            let along: Vec<String> = (roles.columns.iter())
                .map(|axis| format!("r{axis} * t{p}_{axis}"))
                .collect();
            let row = roles.row;
            let line = format!("const idx q{p} = m{p} + i * t{p}_{row} + {};", along.join(" + "));
            self.line(line);
        }
        let register = scalar::register(product.accumulate);
        self.within(product.sum, |writer| {
            writer.line(format!("const {register} n{} = ({register}){sum};", product.sum));
        });
        // What the definition computes of a row's index on its way to an operand is no part of what becomes of the sum.
        let body = self.body;
        let row = |i: usize| body.info.levels[i] == Level::Row;
        for i in body.closure(&body.stores(Level::Row), row) {
            self.node(i, None);
        }
    }

    /// The pass that adds the pieces of each sum, in their order.
    fn fold_pieces(&mut self, product: &Product<'_>) {
        self.line("const idx points = rows * height * width;");
        if self.target.cpu {
            self.line("const idx run = (points + (idx)TL_GROUPS - 1) / (idx)TL_GROUPS;");
            self.line("const idx from = (idx)TL_GROUP * run;");
            self.line("const idx to = points - from < run ? points : from + run;");
            self.open("for (idx point = from; point < to; ++point)");
        } else {
            let group = self.variant.group;
            self.open(format!(
                "for (idx point = (idx)TL_GROUP * {group} + TL_ITEM; point < points; point += (idx)TL_GROUPS * {group})"
            ));
        }
        self.line("idx matrix = point / (height * width);");
        self.line("const idx place = point - matrix * (height * width);");
        self.line("const idx i = place / width;");
        self.line("const idx j = place - i * width;");
        self.matrix(product);
        let columns = &product.roles.columns;
        let mut indices = vec!["j".to_owned()];
        if columns.len() > 1 {
            self.line("idx column = j;");
            for axis in columns.iter().skip(1).rev() {
                self.line(format!("const idx x{axis} = column % o{axis};"));
                self.line(format!("column /= o{axis};"));
            }
            indices = vec!["column".to_owned()];
            indices.extend(columns.iter().skip(1).map(|axis| format!("x{axis}")));
        }
        self.line(format!("{} sum = 0;", accumulator(product.accumulate)));
        self.line(
            "for (idx c = 0; c < chunks; ++c) sum += z[((which * chunks + c) * height + i) * width + j];",
        );
        self.epilogue(product, "sum", &indices);
        self.close();
    }
}

/// Type that sums are kept in; unsigned, so that they wrap.
pub(super) fn accumulator(dtype: DType) -> &'static str {
    match dtype {
        DType::I32 => "u32",
        DType::I64 => "u64",
        _ => scalar::register(dtype),
    }
}
