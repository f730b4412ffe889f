//! Products from tiles in local memory, and what all products share.

use super::Writer;
use crate::MatmulConfig;
use crate::product::Roles;
use crate::scalar;
use crate::variant::Step;
use thalweg_hal::DType;
use thalweg_hal::ir::Level;

/// The parts of a product's definition.
pub(super) struct Product<'a> {
    pub(super) roles: &'a Roles,
    /// The node that sums.
    pub(super) sum: usize,
    /// Dtype of the operands and of the sum.
    pub(super) operand: DType,
    pub(super) accumulate: DType,
    /// Whether sums are cut into pieces.
    pub(super) split: bool,
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

impl Writer<'_> {
    pub(super) fn write_product(&mut self, product: &Product<'_>, config: MatmulConfig, pass: u32) {
        if product.split {
            let sum = accumulator(product.accumulate);
            self.text
                .line(format!("TL_GLOBAL {sum} *const z = (TL_GLOBAL {sum} *)scratch;"));
        }
        if pass > 0 {
            self.fold_pieces(product);
            return;
        }
        match config {
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
        }
    }

    /// The parts of a definition; a verified one has a sum.
    pub(super) fn product<'r>(&self, roles: &'r Roles, split: bool) -> Option<Product<'r>> {
        let sum = self.body.reductions(0).into_iter().next()?;
        Some(Product {
            roles,
            sum: sum.node,
            operand: self.body.kernel.params[roles.left].dtype,
            accumulate: sum.dtype,
            split,
        })
    }

    /// The loop over tiles of all matrices, and each tile's first row and column, its matrix, and its piece of the depth.
    pub(super) fn tiles(&mut self, product: &Product<'_>, m: usize, n: usize) {
        self.text
            .line(format!("const idx down = (height + {}) / {m};", m - 1));
        self.text
            .line(format!("const idx across = (width + {}) / {n};", n - 1));
        if product.split {
            self.text.line("const idx units = rows * down * across * chunks;");
            self.text
                .open("for (idx unit = (idx)TL_GROUP; unit < units; unit += (idx)TL_GROUPS)");
            self.text.line("const idx tile = unit / chunks;");
            self.text.line("const idx piece = unit - tile * chunks;");
            self.text.line("const idx begin = piece * length;");
            self.text
                .line("const idx end = total - begin < length ? total : begin + length;");
        } else {
            self.text.line("const idx tiles = rows * down * across;");
            self.text
                .open("for (idx tile = (idx)TL_GROUP; tile < tiles; tile += (idx)TL_GROUPS)");
        }
        self.text.line("const idx strip = tile / down;");
        self.text
            .line(format!("const idx top = (tile - strip * down) * {m};"));
        self.text.line("idx matrix = strip / across;");
        self.text
            .line(format!("const idx left = (strip - matrix * across) * {n};"));
        self.matrix(product);
    }

    /// The indices of `matrix` along the batch axes, and every parameter's offset of it.
    fn matrix(&mut self, product: &Product<'_>) {
        let batch = &product.roles.batch;
        if product.split {
            self.text.line("const idx which = matrix;");
        }
        for axis in batch.iter().skip(1).rev() {
            self.text.line(format!("const idx r{axis} = matrix % o{axis};"));
            self.text.line(format!("matrix /= o{axis};"));
        }
        if let Some(axis) = batch.first() {
            self.text.line(format!("const idx r{axis} = matrix;"));
        }
        for p in (0..self.body.touched.len()).filter(|&p| self.body.touched[p]) {
            let mut sum: Vec<String> = batch
                .iter()
                .map(|axis| format!("r{axis} * t{p}_{axis}"))
                .collect();
            if sum.is_empty() {
                sum.push("0".into());
            }
            self.text.line(format!("const idx m{p} = {};", sum.join(" + ")));
        }
    }

    /// An operand's element as a value of the accumulator's dtype.
    pub(super) fn operand(&self, product: &Product<'_>, at: &str) -> String {
        let value = scalar::loaded(product.operand, at);
        let value = scalar::cast(product.operand, product.accumulate, &value);
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
            self.text.line(format!(
                "z[((which * chunks + piece) * height + i) * width + j] = {sum};"
            ));
        } else {
            self.epilogue(product, sum, columns);
        }
    }

    /// What becomes of the sum at row `i`, and its store.
    fn epilogue(&mut self, product: &Product<'_>, sum: &str, columns: &[String]) {
        let roles = product.roles;
        self.text.line(format!("const idx r{} = i;", roles.row));
        for (axis, index) in roles.columns.iter().zip(columns) {
            self.text.line(format!("const idx r{axis} = {index};"));
        }
        for p in (2..self.body.touched.len()).filter(|&p| self.body.touched[p]) {
            let along: Vec<String> = (roles.columns.iter())
                .map(|axis| format!("r{axis} * t{p}_{axis}"))
                .collect();
            let row = roles.row;
            let line = format!("const idx q{p} = m{p} + i * t{p}_{row} + {};", along.join(" + "));
            self.text.line(line);
        }
        let register = scalar::register(product.accumulate);
        self.text
            .line(format!("const {register} n{} = ({register}){sum};", product.sum));
        // What the definition computes of a row's index on its way to an operand is no part of what becomes of the sum.
        let body = self.body;
        let row = |i: usize| body.info.levels[i] == Level::Row;
        for i in body.closure(&body.stores(Level::Row), row) {
            self.node(i, None);
        }
    }

    /// The pass that adds the pieces of each sum, in their order.
    fn fold_pieces(&mut self, product: &Product<'_>) {
        self.text.line("const idx points = rows * height * width;");
        if self.target.cpu {
            self.text
                .line("const idx run = (points + (idx)TL_GROUPS - 1) / (idx)TL_GROUPS;");
            self.text.line("const idx from = (idx)TL_GROUP * run;");
            self.text
                .line("const idx to = points - from < run ? points : from + run;");
            self.text.open("for (idx point = from; point < to; ++point)");
        } else {
            let group = self.variant.group;
            self.text.open(format!(
                "for (idx point = (idx)TL_GROUP * {group} + TL_ITEM; point < points; point += (idx)TL_GROUPS * {group})"
            ));
        }
        self.text.line("idx matrix = point / (height * width);");
        self.text
            .line("const idx place = point - matrix * (height * width);");
        self.text.line("const idx i = place / width;");
        self.text.line("const idx j = place - i * width;");
        self.matrix(product);
        let columns = &product.roles.columns;
        let mut indices = vec!["j".to_owned()];
        if columns.len() > 1 {
            self.text.line("idx column = j;");
            for axis in columns.iter().skip(1).rev() {
                self.text.line(format!("const idx x{axis} = column % o{axis};"));
                self.text.line(format!("column /= o{axis};"));
            }
            indices = vec!["column".to_owned()];
            indices.extend(columns.iter().skip(1).map(|axis| format!("x{axis}")));
        }
        self.text
            .line(format!("{} sum = 0;", accumulator(product.accumulate)));
        self.text.line(
            "for (idx c = 0; c < chunks; ++c) sum += z[((which * chunks + c) * height + i) * width + j];",
        );
        self.epilogue(product, "sum", &indices);
        self.text.close();
    }

    fn tiled(&mut self, product: &Product<'_>, [m, n, k, item_m, item_n]: [usize; 5]) {
        let (items, roles) = (self.variant.group, product.roles);
        let (row, p) = (roles.row, roles.left);
        let (across, down) = (n / item_n, m / item_m);
        let sum = accumulator(product.accumulate);
        // One more column, so that writes down a column hit different banks.
        self.text.line(format!("TL_LOCAL {sum} ta[{}];", k * (m + 1)));
        self.text.line(format!("TL_LOCAL {sum} tb[{}];", k * (n + 1)));
        self.text.line(format!(
            "const i32 x = TL_ITEM % {across}, y = TL_ITEM / {across};"
        ));
        self.table(product, n, k, "TL_LOCAL ");
        self.tiles(product, m, n);
        self.columns(product, n, Some(items));
        self.text.line(format!("{sum} sums[{item_m}][{item_n}];"));
        let each = |text: &mut super::Text, inner: &str| {
            text.line("TL_UNROLL");
            text.open(format!("for (i32 r = 0; r < {item_m}; ++r)"));
            text.line("TL_UNROLL");
            text.line(format!("for (i32 c = 0; c < {item_n}; ++c) {inner}"));
            text.close();
        };
        each(&mut self.text, "sums[r][c] = 0;");
        let [begin, end] = product.ends();
        self.text
            .open(format!("for (idx first = {begin}; first < {end}; first += {k})"));
        if roles.taps.is_some() {
            self.depths(product, k, &k.to_string(), Some(items));
            self.text.line("TL_BARRIER;");
        }
        let along = self.along_left(product, "first + ", "l");
        let a = self.operand(product, &format!("p{p}[m{p} + (top + i) * t{p}_{row} + {along}]"));
        let lies_along = self.variant.steps[p] == Step::Unit;
        self.open_stage(["height", "top", end], [m, k], items, lies_along);
        self.text
            .line(format!("ta[l * {} + i] = inside ? {a} : 0;", m + 1));
        self.text.close();
        let p = roles.right;
        let lies_along = roles.taps.is_none() && self.variant.steps[p] != Step::Unit;
        self.open_stage(["width", "left", end], [n, k], items, lies_along);
        let (hit, at) = match &roles.taps {
            Some(taps) => {
                let (hit, at) = self.tap(product, taps, "i", "l");
                (format!("inside && {hit}"), at)
            }
            None => {
                let column = roles.columns[0];
                let at = format!("p{p}[m{p} + (left + i) * t{p}_{column} + (first + l) * s{p}_0]");
                ("inside".to_owned(), at)
            }
        };
        let b = self.operand(product, &at);
        self.text
            .line(format!("tb[l * {} + i] = {hit} ? {b} : 0;", n + 1));
        self.text.close();
        self.text.line("TL_BARRIER;");
        self.text.line("TL_UNROLL");
        self.text.open(format!("for (i32 l = 0; l < {k}; ++l)"));
        self.text.line(format!("{sum} va[{item_m}], vb[{item_n}];"));
        self.text.line("TL_UNROLL");
        let line = format!(
            "for (i32 r = 0; r < {item_m}; ++r) va[r] = ta[l * {} + y + r * {down}];",
            m + 1
        );
        self.text.line(line);
        self.text.line("TL_UNROLL");
        let line = format!(
            "for (i32 c = 0; c < {item_n}; ++c) vb[c] = tb[l * {} + x + c * {across}];",
            n + 1
        );
        self.text.line(line);
        let step = match product.accumulate {
            DType::F32 | DType::F64 => {
                format!(
                    "sums[r][c] = tl_fma_{}(va[r], vb[c], sums[r][c]);",
                    product.accumulate
                )
            }
            _ => "sums[r][c] += va[r] * vb[c];".to_owned(),
        };
        each(&mut self.text, &step);
        self.text.close();
        self.text.line("TL_BARRIER;");
        self.text.close();
        self.text.line("TL_UNROLL");
        self.text.open(format!("for (i32 r = 0; r < {item_m}; ++r)"));
        self.text.line("TL_UNROLL");
        self.text.open(format!("for (i32 c = 0; c < {item_n}; ++c)"));
        self.text.line(format!(
            "const idx i = top + y + r * {down}, j = left + x + c * {across};"
        ));
        self.text.open("if (i < height && j < width)");
        let columns = self.column_indices(product, &format!("x + c * {across}"));
        self.finish_sum(product, "sums[r][c]", &columns);
        self.text.close();
        self.text.close();
        self.text.close();
        self.text.close();
    }

    /// Opens the loop that copies a tile of `size` lines of `k` elements to local memory: line `i`, point `l` of the step, and
    /// whether they lie inside. `along`: neighbours along the depth lie together in memory.
    fn open_stage(
        &mut self,
        [extent, first, end]: [&str; 3],
        [size, k]: [usize; 2],
        items: u16,
        along: bool,
    ) {
        self.text
            .open(format!("for (i32 s = TL_ITEM; s < {}; s += {items})", size * k));
        self.text.line(if along {
            format!("const i32 i = s / {k}, l = s % {k};")
        } else {
            format!("const i32 i = s % {size}, l = s / {size};")
        });
        self.text.line(format!(
            "const bool inside = {first} + i < {extent} && first + l < {end};"
        ));
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
