//! Sums of tiles that are copied ahead: a step's products, and the way of sums to where the result lies.

use super::staged::Tiles;
use crate::write::Writer;

impl Writer<'_> {
    /// Adds a step's products on tensor cores.
    pub(super) fn multiply(&mut self, tiles: &Tiles<'_>, warp_m: usize, warp_n: usize) {
        let &Tiles { m, n, k, sides, .. } = tiles;
        let (rows, columns) = (warp_m / 16, warp_n / 8);
        self.line("TL_UNROLL");
        self.open(format!("for (i32 l = 0; l < {k}; l += 16)"));
        self.line(format!("u32 va[{rows}][4], vb[{}][2][2];", columns / 2));
        self.line("TL_UNROLL");
        self.line(format!(
            "for (i32 r = 0; r < {rows}; ++r) tl_left<{m}, {k}, {}>(va[r], ta, low + r * 16, l);",
            sides[0].along
        ));
        self.line("TL_UNROLL");
        self.line(format!(
            "for (i32 c = 0; c < {}; ++c) tl_right<{n}, {k}, {}>(vb[c], tb, side + c * 16, l);",
            columns / 2,
            sides[1].along
        ));
        self.line("TL_UNROLL");
        self.open(format!("for (i32 r = 0; r < {rows}; ++r)"));
        self.line("TL_UNROLL");
        self.line(format!(
            "for (i32 c = 0; c < {columns}; ++c) tl_mma_{}(*(f32 (*)[4])&sums[r][c * 4], va[r], vb[c / 2][c % 2]);", tiles.product.left
        ));
        self.close();
        self.close();
    }

    /// Adds a step's products by each work-item, from packs along the depth or along rows and columns as these lie.
    pub(super) fn multiply_plainly(&mut self, tiles: &Tiles<'_>, item_m: usize, item_n: usize) {
        let &Tiles { m, n, k, sides, .. } = tiles;
        self.line("TL_UNROLL");
        self.open(format!("for (i32 l = 0; l < {k}; l += 4)"));
        self.line(format!("f32 va[{item_m}][4], vb[4][{item_n}];"));
        for (side, [lines, count], [name, at]) in
            [(0, [m, item_m], ["va", "y"]), (1, [n, item_n], ["vb", "x"])]
        {
            let across = lines / count;
            let tile = ["ta", "tb"][side];
            self.line("TL_UNROLL");
            if sides[side].along {
                self.open(format!("for (i32 r = 0; r < {count}; ++r)"));
                self.line("f32 pack[4];");
                self.line(format!(
                    "TL_LOAD(4, pack, {tile} + (tl_placed<{k}, 4>({at} + r * {across}, l)));"
                ));
                self.line("TL_UNROLL");
                let to = if side == 0 { "va[r][e]" } else { "vb[e][r]" };
                self.line(format!("for (i32 e = 0; e < 4; ++e) {to} = pack[e];"));
                self.close();
            } else {
                self.open("for (i32 e = 0; e < 4; ++e)");
                self.line("TL_UNROLL");
                self.open(format!("for (i32 r = 0; r < {count}; r += 4)"));
                self.line("f32 pack[4];");
                self.line(format!(
                    "TL_LOAD(4, pack, {tile} + (tl_placed<{lines}, 4>(l + e, {at} * 4 + r * {across})));"
                ));
                self.line("TL_UNROLL");
                let to = if name == "va" {
                    "va[r + f][e]"
                } else {
                    "vb[e][r + f]"
                };
                self.line(format!("for (i32 f = 0; f < 4; ++f) {to} = pack[f];"));
                self.close();
                self.close();
            }
        }
        self.line("TL_UNROLL");
        self.open("for (i32 e = 0; e < 4; ++e)");
        self.line("TL_UNROLL");
        self.open(format!("for (i32 r = 0; r < {item_m}; ++r)"));
        self.line("TL_UNROLL");
        self.line(format!(
            "for (i32 c = 0; c < {item_n}; ++c) sums[r][c] = tl_fma_f32(va[r][e], vb[e][c], sums[r][c]);"
        ));
        self.close();
        self.close();
        self.close();
    }

    /// Brings the sums through shared memory to work-items that stand side by side along the columns.
    pub(super) fn spread(&mut self, tiles: &Tiles<'_>, warp_m: usize, warp_n: usize) {
        let (_, pitch) = tiles.lines_of_sums();
        self.line("f32 *const slab = (f32 *)shared;");
        self.line("TL_UNROLL");
        self.open(format!("for (i32 r = 0; r < {}; ++r)", warp_m / 16));
        self.line("TL_BARRIER;");
        self.line("TL_UNROLL");
        self.open(format!("for (i32 c = 0; c < {}; ++c)", warp_n / 8));
        self.line(format!(
            "f32 *const to = slab + (low / {warp_m} * 16 + lane / 4) * {pitch} + side + c * 8 + lane % 4 * 2;"
        ));
        self.line("TL_STORE(2, to, sums[r] + c * 4);");
        self.line(format!("TL_STORE(2, to + {}, sums[r] + c * 4 + 2);", 8 * pitch));
        self.close();
        self.finish_slab(tiles, &format!("v / 16 * {warp_m} + r * 16 + v % 16"));
    }

    /// The same of sums that work-items have.
    pub(super) fn spread_plainly(&mut self, tiles: &Tiles<'_>, item_m: usize, item_n: usize) {
        let &Tiles { m, n, sides, .. } = tiles;
        let place = |along: bool, at: &str, index: &str, across: usize| match along {
            true => format!("{at} + {index} * {across}"),
            false => format!("{at} * 4 + {index} % 4 + {index} / 4 * {}", 4 * across),
        };
        self.line("f32 *const slab = shared;");
        self.line("TL_UNROLL");
        self.open(format!("for (i32 r = 0; r < {item_m}; ++r)"));
        self.line("TL_BARRIER;");
        self.line("TL_UNROLL");
        let column = place(sides[1].along, "x", "c", n / item_n);
        self.line(format!(
            "for (i32 c = 0; c < {item_n}; ++c) slab[y * {n} + {column}] = sums[r][c];"
        ));
        let row = place(sides[0].along, "v", "r", m / item_m);
        self.finish_slab(tiles, &row);
    }

    /// What becomes of sums in shared memory; `row` is the row of line `v`.
    fn finish_slab(&mut self, tiles: &Tiles<'_>, row: &str) {
        let (n, (lines, pitch)) = (tiles.n, tiles.lines_of_sums());
        self.line("TL_BARRIER;");
        self.line(format!("const i32 u = TL_ITEM % {n};"));
        self.open(format!(
            "for (i32 v = TL_ITEM / {n}; v < {lines}; v += {})",
            tiles.items() / n
        ));
        self.line(format!("const idx i = top + ({row}), j = left + u;"));
        self.open("if (i < height && j < width)");
        let columns = self.column_indices(tiles.product, "u");
        self.finish_sum(tiles.product, &format!("slab[v * {pitch} + u]"), &columns);
        self.close();
        self.close();
        self.close();
        // The next tile comes to the same memory.
        self.line("TL_BARRIER;");
    }
}
