//! Matrix products for CPUs: one work-item a tile, packed panels of the second operand, sums in vectors.

use super::write::{Product, accumulator};
use crate::scalar;
use crate::variant::Step;
use crate::write::{Writer, vector_of};
use thalweg_hal::DType;

impl Writer<'_> {
    pub(super) fn panel(&mut self, product: &Product<'_>, [m, n, k, item_m]: [usize; 4]) {
        let roles = product.roles;
        let row = roles.row;
        let sum = accumulator(product.accumulate);
        // 64 bytes: the longest vectors.
        let width = 64 / product.accumulate.size();
        let vector = format!("{}{width}", vector_of(product.accumulate));
        let vectors = n / width;
        self.line(format!("{vector} packed[{}];", k * vectors));
        self.line(format!("{vector} sums[{}];", m * vectors));
        self.table(product, n, k, "");
        self.tiles(product, m, n);
        self.columns(product, n, None);
        self.line(format!(
            "const idx bottom = height - top < {m} ? height - top : {m};"
        ));
        self.line(format!(
            "for (idx s = 0; s < (bottom + {}) / {item_m} * {}; ++s) sums[s] = 0;",
            item_m - 1,
            item_m * vectors
        ));
        let [begin, end] = product.ends();
        self.open(format!("for (idx first = {begin}; first < {end}; first += {k})"));
        self.line(format!(
            "const idx depth = {end} - first < {k} ? {end} - first : {k};"
        ));
        match &roles.taps {
            Some(taps) => {
                self.depths(product, k, "(i32)depth", None);
                self.open("for (i32 l = 0; l < (i32)depth; ++l)");
                self.line(format!("{sum} *const to = ({sum} *)&packed[l * {vectors}];"));
                self.line("TL_PARALLEL");
                self.open(format!("for (i32 j = 0; j < {n}; ++j)"));
                let (hit, at) = self.tap(product, taps, "j", "l");
                let b = self.operand(product, product.right, &at);
                self.line(format!("to[j] = {hit} ? {b} : 0;"));
                self.close();
                self.close();
            }
            None => self.pack_columns(product, n, vectors),
        }
        let p = roles.left;
        let pointer = format!("TL_GLOBAL const {} *const", scalar::memory(product.left));
        let from = match &roles.taps {
            _ if self.variant.steps[p] == Step::Unit => " + first".to_owned(),
            Some(_) => String::new(),
            None => format!(" + first * s{p}_0"),
        };
        self.open(format!("for (idx part = 0; part < bottom; part += {item_m})"));
        for r in 0..item_m {
            // Rows beyond the edge repeat the last one; nobody reads their sums.
            let line = format!("const idx i{r} = top + part + {r} < height ? top + part + {r} : height - 1;");
            self.line(line);
            self.line(format!(
                "{pointer} a{r} = p{p} + (m{p} + i{r} * t{p}_{row}{from});"
            ));
            for v in 0..vectors {
                self.line(format!(
                    "{vector} v{r}_{v} = sums[(part + {r}) * {vectors} + {v}];"
                ));
            }
        }
        self.open("for (idx l = 0; l < depth; ++l)");
        for v in 0..vectors {
            self.line(format!("const {vector} b{v} = packed[l * {vectors} + {v}];"));
        }
        let along = self.along_left(product, "", "l");
        for r in 0..item_m {
            let a = self.operand(product, product.left, &format!("a{r}[{along}]"));
            self.line(format!("const {vector} x{r} = ({vector})({a});"));
            for v in 0..vectors {
                self.line(match product.accumulate {
                    DType::F32 | DType::F64 => format!("v{r}_{v} = fma(x{r}, b{v}, v{r}_{v});"),
                    _ => format!("v{r}_{v} += x{r} * b{v};"),
                });
            }
        }
        self.close();
        for r in 0..item_m {
            for v in 0..vectors {
                self.line(format!("sums[(part + {r}) * {vectors} + {v}] = v{r}_{v};"));
            }
        }
        self.close();
        self.close();

        self.line(format!(
            "const idx right = width - left < {n} ? width - left : {n};"
        ));
        self.open("for (idx di = 0; di < bottom; ++di)");
        self.line(format!(
            "const {sum} *const line = (const {sum} *)&sums[di * {vectors}];"
        ));
        self.line("TL_PARALLEL");
        self.open("for (idx dj = 0; dj < right; ++dj)");
        self.line("const idx i = top + di, j = left + dj;");
        let columns = self.column_indices(product, "dj");
        self.finish_sum(product, "line[dj]", &columns);
        self.close();
        self.close();
        self.close();
    }

    /// Packs a step of the second operand of a matrix product.
    fn pack_columns(&mut self, product: &Product<'_>, n: usize, vectors: usize) {
        let (p, column) = (product.roles.right, product.roles.columns[0]);
        let sum = accumulator(product.accumulate);
        let pointer = format!("TL_GLOBAL const {} *const", scalar::memory(product.right));
        let at = if self.variant.steps[p] == Step::Unit {
            "from[j]".to_owned()
        } else {
            format!("from[j * t{p}_{column}]")
        };
        let b = self.operand(product, product.right, &at);
        self.open("for (idx l = 0; l < depth; ++l)");
        self.line(format!(
            "{pointer} from = p{p} + (m{p} + left * t{p}_{column} + (first + l) * s{p}_0);"
        ));
        self.line(format!("{sum} *const to = ({sum} *)&packed[l * {vectors}];"));
        self.line(format!(
            "const i32 inside = width - left < {n} ? width - left : {n};"
        ));
        self.open(format!("if (inside == {n})"));
        self.line("TL_PARALLEL");
        self.line(format!("for (i32 j = 0; j < {n}; ++j) to[j] = {b};"));
        self.close();
        self.open("else");
        self.line(format!("for (i32 j = 0; j < inside; ++j) to[j] = {b};"));
        self.line(format!("for (i32 j = inside; j < {n}; ++j) to[j] = 0;"));
        self.close();
        self.close();
    }
}
