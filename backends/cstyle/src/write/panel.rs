//! Matrix products for CPUs: one work-item a tile, packed panels of the second operand, sums in vectors.

use super::Writer;
use super::matmul::{Product, accumulator};
use crate::plan::Step;
use crate::scalar;
use thalweg_hal::DType;

impl Writer<'_> {
    pub(super) fn panel(&mut self, product: &Product, [m, n, k, item_m]: [usize; 4]) {
        let outer = self.variant.outer as usize;
        let (row, column) = (outer - 2, outer - 1);
        let sum = accumulator(product.accumulate);
        // 64 bytes: the longest vectors.
        let width = 64 / product.accumulate.size();
        let vector = format!("{}{width}", vector_of(product.accumulate));
        let vectors = n / width;
        self.text.line(format!("{vector} packed[{}];", k * vectors));
        self.text.line(format!("{vector} sums[{}];", m * vectors));
        self.tiles(m, n);
        self.text
            .line(format!("for (i32 s = 0; s < {}; ++s) sums[s] = 0;", m * vectors));
        self.text.line(format!(
            "const idx bottom = height - top < {m} ? height - top : {m};"
        ));
        self.text
            .open(format!("for (idx first = 0; first < total; first += {k})"));
        self.text.line(format!(
            "const idx depth = total - first < {k} ? total - first : {k};"
        ));

        let memory = scalar::memory(product.operand);
        let pointer = format!("TL_GLOBAL const {memory} *const");
        let at = if self.variant.steps[1] == Step::Unit {
            "from[j]".to_owned()
        } else {
            format!("from[j * t1_{column}]")
        };
        let b = self.operand(product, &at);
        self.text.open("for (idx l = 0; l < depth; ++l)");
        self.text.line(format!(
            "{pointer} from = p1 + (m1 + left * t1_{column} + (first + l) * s1_0);"
        ));
        self.text
            .line(format!("{sum} *const to = ({sum} *)&packed[l * {vectors}];"));
        self.text.line(format!(
            "const i32 inside = width - left < {n} ? width - left : {n};"
        ));
        self.text.open(format!("if (inside == {n})"));
        self.text.line("TL_PARALLEL");
        self.text
            .line(format!("for (i32 j = 0; j < {n}; ++j) to[j] = {b};"));
        self.text.close();
        self.text.open("else");
        self.text
            .line(format!("for (i32 j = 0; j < inside; ++j) to[j] = {b};"));
        self.text
            .line(format!("for (i32 j = inside; j < {n}; ++j) to[j] = 0;"));
        self.text.close();
        self.text.close();

        self.text
            .open(format!("for (idx part = 0; part < bottom; part += {item_m})"));
        for r in 0..item_m {
            // Rows beyond the edge repeat the last one; nobody reads their sums.
            let line = format!("const idx i{r} = top + part + {r} < height ? top + part + {r} : height - 1;");
            self.text.line(line);
            self.text.line(format!(
                "{pointer} a{r} = p0 + (m0 + i{r} * t0_{row} + first * s0_0);"
            ));
            for v in 0..vectors {
                self.text.line(format!(
                    "{vector} v{r}_{v} = sums[(part + {r}) * {vectors} + {v}];"
                ));
            }
        }
        self.text.open("for (idx l = 0; l < depth; ++l)");
        for v in 0..vectors {
            self.text
                .line(format!("const {vector} b{v} = packed[l * {vectors} + {v}];"));
        }
        let along = if self.variant.steps[0] == Step::Unit {
            "l"
        } else {
            "l * s0_0"
        };
        for r in 0..item_m {
            let a = self.operand(product, &format!("a{r}[{along}]"));
            self.text.line(format!("const {vector} x{r} = ({vector})({a});"));
            for v in 0..vectors {
                self.text.line(match product.accumulate {
                    DType::F32 | DType::F64 => format!("v{r}_{v} = fma(x{r}, b{v}, v{r}_{v});"),
                    _ => format!("v{r}_{v} += x{r} * b{v};"),
                });
            }
        }
        self.text.close();
        for r in 0..item_m {
            for v in 0..vectors {
                self.text
                    .line(format!("sums[(part + {r}) * {vectors} + {v}] = v{r}_{v};"));
            }
        }
        self.text.close();
        self.text.close();

        self.text.line(format!(
            "const idx right = width - left < {n} ? width - left : {n};"
        ));
        self.text.open("for (idx di = 0; di < bottom; ++di)");
        self.text.line(format!(
            "const {sum} *const line = (const {sum} *)&sums[di * {vectors}];"
        ));
        self.text.line("TL_PARALLEL");
        self.text.open("for (idx dj = 0; dj < right; ++dj)");
        self.text.line("const idx i = top + di, j = left + dj;");
        self.epilogue(product, "line[dj]");
        self.text.close();
        self.text.close();
        self.text.close();
    }
}

/// OpenCL's name of the element of a vector of sums.
fn vector_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "double",
        DType::F32 => "float",
        DType::I64 | DType::U64 => "ulong",
        _ => "uint",
    }
}
