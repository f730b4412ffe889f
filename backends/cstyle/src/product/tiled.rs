//! Products from tiles in local memory.

use super::write::{Product, accumulator};
use crate::variant::Step;
use crate::write::{Text, Writer};
use thalweg_hal::DType;

impl Writer<'_> {
    pub(super) fn tiled(&mut self, product: &Product<'_>, [m, n, k, item_m, item_n]: [usize; 5]) {
        let (items, roles) = (self.variant.group, product.roles);
        let (row, p) = (roles.row, roles.left);
        let (across, down) = (n / item_n, m / item_m);
        let sum = accumulator(product.accumulate);
        // One more column, so that writes down a column hit different banks.
        self.line(format!("TL_LOCAL {sum} ta[{}];", k * (m + 1)));
        self.line(format!("TL_LOCAL {sum} tb[{}];", k * (n + 1)));
        self.line(format!(
            "const i32 x = TL_ITEM % {across}, y = TL_ITEM / {across};"
        ));
        self.table(product, n, k, "TL_LOCAL ");
        self.tiles(product, m, n);
        self.columns(product, n, Some(items));
        self.line(format!("{sum} sums[{item_m}][{item_n}];"));
        let each = |text: &mut Text, inner: &str| {
            text.line("TL_UNROLL");
            text.open(format!("for (i32 r = 0; r < {item_m}; ++r)"));
            text.line("TL_UNROLL");
            text.line(format!("for (i32 c = 0; c < {item_n}; ++c) {inner}"));
            text.close();
        };
        each(&mut self.text, "sums[r][c] = 0;");
        let [begin, end] = product.ends();
        self.open(format!("for (idx first = {begin}; first < {end}; first += {k})"));
        if roles.taps.is_some() {
            self.depths(product, k, &k.to_string(), Some(items));
            self.line("TL_BARRIER;");
        }
        let along = self.along_left(product, "first + ", "l");
        let a = self.operand(
            product,
            product.left,
            &format!("p{p}[m{p} + (top + i) * t{p}_{row} + {along}]"),
        );
        let lies_along = self.variant.steps[p] == Step::Unit;
        self.open_stage(["height", "top", end], [m, k], items, lies_along);
        self.line(format!("ta[l * {} + i] = inside ? {a} : 0;", m + 1));
        self.close();
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
        let b = self.operand(product, product.right, &at);
        self.line(format!("tb[l * {} + i] = {hit} ? {b} : 0;", n + 1));
        self.close();
        self.line("TL_BARRIER;");
        self.line("TL_UNROLL");
        self.open(format!("for (i32 l = 0; l < {k}; ++l)"));
        self.line(format!("{sum} va[{item_m}], vb[{item_n}];"));
        self.line("TL_UNROLL");
        let line = format!(
            "for (i32 r = 0; r < {item_m}; ++r) va[r] = ta[l * {} + y + r * {down}];",
            m + 1
        );
        self.line(line);
        self.line("TL_UNROLL");
        let line = format!(
            "for (i32 c = 0; c < {item_n}; ++c) vb[c] = tb[l * {} + x + c * {across}];",
            n + 1
        );
        self.line(line);
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
        self.close();
        self.line("TL_BARRIER;");
        self.close();
        self.line("TL_UNROLL");
        self.open(format!("for (i32 r = 0; r < {item_m}; ++r)"));
        self.line("TL_UNROLL");
        self.open(format!("for (i32 c = 0; c < {item_n}; ++c)"));
        self.line(format!(
            "const idx i = top + y + r * {down}, j = left + x + c * {across};"
        ));
        self.open("if (i < height && j < width)");
        let columns = self.column_indices(product, &format!("x + c * {across}"));
        self.finish_sum(product, "sums[r][c]", &columns);
        self.close();
        self.close();
        self.close();
        self.close();
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
        self.open(format!("for (i32 s = TL_ITEM; s < {}; s += {items})", size * k));
        self.line(if along {
            format!("const i32 i = s / {k}, l = s % {k};")
        } else {
            format!("const i32 i = s % {size}, l = s / {size};")
        });
        self.line(format!(
            "const bool inside = {first} + i < {extent} && first + l < {end};"
        ));
    }
}
