//! Matrix products from tiles in local memory.

use super::Writer;
use crate::MatmulConfig;
use crate::plan::Step;
use crate::scalar;
use thalweg_hal::DType;
use thalweg_hal::ir::{Level, Node};

/// The parts of a product's definition.
pub(super) struct Product {
    /// The node that sums.
    pub(super) sum: usize,
    /// Dtype of the operands and of the sum.
    pub(super) operand: DType,
    pub(super) accumulate: DType,
}

impl Writer<'_> {
    pub(super) fn matmul(&mut self, config: MatmulConfig) {
        let Some(product) = self.product() else { return };
        match config {
            MatmulConfig::Tiled {
                m,
                n,
                k,
                item_m,
                item_n,
            } => self.tiled(&product, [m, n, k, item_m, item_n].map(usize::from)),
            MatmulConfig::Panel { m, n, k, item_m } => {
                self.panel(&product, [m, n, k, item_m].map(usize::from));
            }
        }
    }

    /// The definition's sum; a verified definition has one.
    fn product(&self) -> Option<Product> {
        let sum = self.body.reductions(0).into_iter().next()?;
        Some(Product {
            sum: sum.node,
            operand: self.body.kernel.params[0].dtype,
            accumulate: sum.dtype,
        })
    }

    /// The loop over tiles of all matrices, and each tile's first row and column and its matrix.
    pub(super) fn tiles(&mut self, m: usize, n: usize) {
        self.text
            .line(format!("const idx down = (height + {}) / {m};", m - 1));
        self.text
            .line(format!("const idx across = (width + {}) / {n};", n - 1));
        self.text.line("const idx tiles = rows * down * across;");
        self.text
            .open("for (idx tile = (idx)TL_GROUP; tile < tiles; tile += (idx)TL_GROUPS)");
        self.text.line("const idx strip = tile / down;");
        self.text
            .line(format!("const idx top = (tile - strip * down) * {m};"));
        self.text.line("idx matrix = strip / across;");
        self.text
            .line(format!("const idx left = (strip - matrix * across) * {n};"));
        let batch = self.variant.outer as usize - 2;
        for axis in (1..batch).rev() {
            self.text.line(format!("const idx r{axis} = matrix % o{axis};"));
            self.text.line(format!("matrix /= o{axis};"));
        }
        if batch > 0 {
            self.text.line("const idx r0 = matrix;");
        }
        for p in (0..self.body.touched.len()).filter(|&p| self.body.touched[p]) {
            let mut sum: Vec<String> = (0..batch).map(|axis| format!("r{axis} * t{p}_{axis}")).collect();
            if sum.is_empty() {
                sum.push("0".into());
            }
            self.text.line(format!("const idx m{p} = {};", sum.join(" + ")));
        }
    }

    /// An operand's element as a value of the accumulator's dtype.
    pub(super) fn operand(&self, product: &Product, at: &str) -> String {
        let value = scalar::loaded(product.operand, at);
        let value = scalar::cast(product.operand, product.accumulate, &value);
        format!("({})({value})", accumulator(product.accumulate))
    }

    /// What becomes of the sum at row `i` and column `j`, and its store.
    pub(super) fn epilogue(&mut self, product: &Product, sum: &str) {
        let outer = self.variant.outer as usize;
        self.text.line(format!("const idx r{} = i;", outer - 2));
        self.text.line(format!("const idx r{} = j;", outer - 1));
        for p in (2..self.body.touched.len()).filter(|&p| self.body.touched[p]) {
            let line = format!(
                "const idx q{p} = m{p} + i * t{p}_{} + j * t{p}_{};",
                outer - 2,
                outer - 1
            );
            self.text.line(line);
        }
        let register = scalar::register(product.accumulate);
        self.text
            .line(format!("const {register} n{} = ({register}){sum};", product.sum));
        for i in 0..self.body.live.len() {
            if self.body.live[i] && self.body.info.levels[i] == Level::Row {
                debug_assert!(!matches!(self.body.kernel.nodes[i], Node::Reduce { .. }) || i == product.sum);
                self.node(i, None);
            }
        }
    }

    fn tiled(&mut self, product: &Product, [m, n, k, item_m, item_n]: [usize; 5]) {
        let (outer, items) = (self.variant.outer as usize, self.variant.group);
        let (row, column) = (outer - 2, outer - 1);
        let (across, down) = (n / item_n, m / item_m);
        let sum = accumulator(product.accumulate);
        // One more column, so that writes down a column hit different banks.
        self.text.line(format!("TL_LOCAL {sum} ta[{}];", k * (m + 1)));
        self.text.line(format!("TL_LOCAL {sum} tb[{}];", k * (n + 1)));
        self.text.line(format!(
            "const i32 x = TL_ITEM % {across}, y = TL_ITEM / {across};"
        ));
        self.tiles(m, n);
        self.text.line(format!("{sum} sums[{item_m}][{item_n}];"));
        let each = |text: &mut super::Text, inner: &str| {
            text.line("TL_UNROLL");
            text.open(format!("for (i32 r = 0; r < {item_m}; ++r)"));
            text.line("TL_UNROLL");
            text.line(format!("for (i32 c = 0; c < {item_n}; ++c) {inner}"));
            text.close();
        };
        each(&mut self.text, "sums[r][c] = 0;");
        self.text
            .open(format!("for (idx first = 0; first < total; first += {k})"));
        let a = format!("p0[m0 + (top + i) * t0_{row} + (first + l) * s0_0]");
        let a = self.operand(product, &a);
        self.stage_tile(
            ["ta", "height", "top", &a],
            [m, k],
            items,
            self.variant.steps[0] == Step::Unit,
        );
        let b = format!("p1[m1 + (left + i) * t1_{column} + (first + l) * s1_0]");
        let b = self.operand(product, &b);
        self.stage_tile(
            ["tb", "width", "left", &b],
            [n, k],
            items,
            self.variant.steps[1] != Step::Unit,
        );
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
        self.epilogue(product, "sums[r][c]");
        self.text.close();
        self.text.close();
        self.text.close();
        self.text.close();
    }

    /// Copies a tile of `size` lines of `k` elements to local memory, zeros beyond the edges. `along`: neighbours along k lie
    /// together in memory.
    fn stage_tile(
        &mut self,
        [to, extent, first, element]: [&str; 4],
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
            "const bool inside = {first} + i < {extent} && first + l < total;"
        ));
        self.text
            .line(format!("{to}[l * {} + i] = inside ? {element} : 0;", size + 1));
        self.text.close();
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
