//! Convolutions in tiles that are copied ahead: where columns and points are, as records that a load adds.
//!
//! A record is an offset in the gathered operand and a place along each spatial axis. Where places are divided, what is left of
//! each follows. Where a filter has few taps, a column has one bit for each tap that is inside instead, and a point the bit of its
//! tap. The records of points end in the left operand's offset where that is no index.

use super::Taps;
use super::staged::Tiles;
use super::taps::FAR;
use super::write::Product;
use crate::variant::Step;
use crate::write::Writer;

/// Most taps that have a bit each.
pub(super) const BITS: u64 = 31;

impl Product<'_> {
    /// Entries of a record.
    fn entries(&self) -> usize {
        let spatial = self.roles.taps.as_ref().map_or(0, |taps| taps.spatial);
        match self.bits {
            true => 2,
            false => 1 + spatial * (1 + usize::from(self.divides)),
        }
    }
}

/// Size of a record in whole loads.
fn padded(entries: usize) -> usize {
    entries.next_power_of_two().max(2)
}

impl Writer<'_> {
    /// The left operand's offset along the depth at point `l` of a step.
    pub(super) fn left_along_taps(&self, tiles: &Tiles<'_>, step: &str, l: &str) -> String {
        let (record, at) = self.depth_record(tiles.product);
        format!("depths[(({step} & 1) * {} + {l}) * {record} + {at}]", tiles.k)
    }

    /// Size of a point's record, and where the left operand's offset is in it.
    fn depth_record(&self, product: &Product<'_>) -> (usize, usize) {
        let entries = product.entries();
        let offset = self.variant.steps[product.roles.left] != Step::Unit;
        (padded(entries + usize::from(offset)), entries)
    }

    /// Declares the records, and how far a step of the depth moves each of its indices.
    pub(super) fn declare_places(&mut self, tiles: &Tiles<'_>) {
        let product = tiles.product;
        let Some(taps) = &product.roles.taps else { return };
        let (n, k) = (tiles.n, tiles.k);
        self.space(product, taps);
        for axis in &product.roles.columns {
            self.line(format!("TL_LOCAL idx cr{axis}[{n}];"));
        }
        let (column, (depth, _)) = (padded(product.entries()), self.depth_record(product));
        self.line(format!("TL_LOCAL __align__(16) idx places[{}];", n * column));
        self.line(format!("TL_LOCAL __align__(16) idx depths[{}];", 2 * k * depth));
        self.line(format!("idx rest = {k};"));
        for axis in (1..self.variant.inner).rev() {
            // No point is walked where an axis has none.
            self.line(format!("const idx d{axis} = rest % (e{axis} > 0 ? e{axis} : 1);"));
            self.line(format!("rest /= e{axis} > 0 ? e{axis} : 1;"));
        }
        self.line("const idx d0 = rest;");
    }

    /// Writes the records of the columns of a tile.
    pub(super) fn column_places(&mut self, tiles: &Tiles<'_>) {
        let product = tiles.product;
        let Some(taps) = &product.roles.taps else { return };
        let (columns, p) = (&product.roles.columns, product.roles.right);
        let axes = product.roles.column_axes();
        let record = padded(product.entries());
        let items = self.variant.group;
        self.count(&axes, "left", "j", &tiles.n.to_string(), Some(items), |writer| {
            writer.line("const bool past = left + j >= width;");
            for axis in columns {
                writer.line(format!("cr{axis}[j] = x{axis};"));
            }
            for a in 0..taps.spatial {
                writer.line(format!("const idx place{a} = x{} * fc{a} + fs{a};", 3 + a));
            }
            let first = columns[0];
            let offset = writer.write_places(
                product,
                taps,
                ["places", "j"],
                record,
                &format!("x{first} * t{p}_{first}"),
            );
            if product.bits {
                writer.bits(product, taps);
                writer.line(format!("places[j * {record} + 1] = past ? 0 : bits;"));
            }
            writer.line(format!("places[j * {record}] = {offset};"));
        });
    }

    /// A bit for each tap whose place is inside.
    fn bits(&mut self, product: &Product<'_>, taps: &Taps) {
        self.line("idx bits = 0, bit = 1;");
        for a in 0..taps.spatial {
            self.open(format!("for (idx tap{a} = 0; tap{a} < e{}; ++tap{a})", 1 + a));
            self.line(format!("const idx at{a} = place{a} + tap{a} * fd{a};"));
            let above = if a == 0 {
                String::new()
            } else {
                format!("in{} & ", a - 1)
            };
            let inside = if product.divides {
                format!("(at{a} >= 0) & (at{a} / by{a} < h{a}) & (at{a} % by{a} == 0)")
            } else {
                format!("(at{a} >= 0) & (at{a} < h{a})")
            };
            self.line(format!("const bool in{a} = {above}{inside};"));
        }
        self.line(format!("if (in{}) bits |= bit;", taps.spatial - 1));
        self.line("bit <<= 1;");
        (0..taps.spatial).for_each(|_| self.close());
    }

    /// The indices of the first point of a tile that an item keeps the records of.
    pub(super) fn depth_indices(&mut self, begin: &str) {
        let inner = self.variant.inner as usize;
        self.line(format!("idx y0 = {begin} + TL_ITEM;"));
        for axis in (1..inner).rev() {
            self.line(format!("idx y{axis} = y0 % (e{axis} > 0 ? e{axis} : 1);"));
            self.line(format!("y0 /= e{axis} > 0 ? e{axis} : 1;"));
        }
    }

    /// Writes the records of the points of a step, and goes on to the next. `slot` is which of the two tables that is.
    pub(super) fn depth_places(&mut self, tiles: &Tiles<'_>, step: &str, slot: &str) {
        let product = tiles.product;
        let Some(taps) = &product.roles.taps else { return };
        let ([begin, end], inner) = (product.ends(), self.variant.inner as usize);
        let (left, right, k) = (product.roles.left, product.roles.right, tiles.k);
        let (record, at) = self.depth_record(product);
        self.open(format!("if (TL_ITEM < {k})"));
        self.line(format!("const i32 l = (i32){slot} * {k} + TL_ITEM;"));
        self.line(format!(
            "const bool past = {begin} + {step} * {k} + TL_ITEM >= {end};"
        ));
        for a in 0..taps.spatial {
            self.line(format!("const idx place{a} = y{} * fd{a};", 1 + a));
        }
        let offset = self.write_places(
            product,
            taps,
            ["depths", "l"],
            record,
            &format!("y0 * s{right}_0"),
        );
        if product.bits {
            let tap =
                (1..taps.spatial).fold("y1".to_owned(), |tap, a| format!("({tap}) * e{0} + y{0}", 1 + a));
            self.line(format!(
                "depths[l * {record} + 1] = past ? 0 : (idx)1 << ({tap});"
            ));
        }
        self.line(format!("depths[l * {record}] = {offset};"));
        if self.variant.steps[left] != Step::Unit {
            let sum: Vec<String> = (0..inner)
                .map(|axis| format!("y{axis} * s{left}_{axis}"))
                .collect();
            self.line(format!("depths[l * {record} + {at}] = {};", sum.join(" + ")));
        }
        for axis in (1..inner).rev() {
            self.line(format!("y{axis} += d{axis};"));
            self.open(format!("if (y{axis} >= e{axis})"));
            self.line(format!("y{axis} -= e{axis};"));
            self.line(format!("++y{};", axis - 1));
            self.close();
        }
        self.line("y0 += d0;");
        self.close();
    }

    /// Writes the places of a record; returns its offset.
    fn write_places(
        &mut self,
        product: &Product<'_>,
        taps: &Taps,
        [table, index]: [&str; 2],
        record: usize,
        offset: &str,
    ) -> String {
        let r = taps.spatial;
        let far = FAR[usize::from(self.variant.wide)];
        let mut offset = offset.to_owned();
        for a in 0..r {
            let mut whole = format!("place{a}");
            if product.divides {
                self.line(format!(
                    "const idx whole{a} = (place{a} - (place{a} < 0 ? by{a} - 1 : 0)) / by{a};"
                ));
                whole = format!("whole{a}");
            }
            if product.bits {
                // Where a tap is inside, what is left of the two places is nothing or the divisor.
                let carry = match (product.divides, table) {
                    (true, "depths") => format!(" + (whole{a} * by{a} != place{a})"),
                    _ => String::new(),
                };
                offset.push_str(&format!(" + ({whole}{carry}) * w{a}"));
                continue;
            }
            if product.divides {
                self.line(format!(
                    "{table}[{index} * {record} + {}] = place{a} - whole{a} * by{a};",
                    1 + r + a
                ));
            } else {
                offset.push_str(&format!(" + place{a} * w{a}"));
            }
            self.line(format!(
                "{table}[{index} * {record} + {}] = past ? -1 - ((idx)1 << {far}) : {whole};",
                1 + a
            ));
        }
        offset
    }

    /// Keeps the records of an item's columns, where these stay the same.
    pub(super) fn own_columns(&mut self, tiles: &Tiles<'_>) {
        let product = tiles.product;
        if product.roles.taps.is_none() || tiles.sides[1].along {
            return;
        }
        let record = padded(product.entries());
        let (word, _) = tiles.copies(1);
        self.line(format!("idx column[{word}][{record}];"));
        self.line("TL_UNROLL");
        self.open(format!("for (i32 h = 0; h < {word}; ++h)"));
        let own = format!("TL_ITEM % {} * {word} + h", tiles.n / word);
        self.load_record("column[h]", "places", record, &own);
        self.close();
    }

    fn load_record(&mut self, to: &str, table: &str, record: usize, index: &str) {
        let step = record.min(4);
        for at in (0..record).step_by(step) {
            self.line(format!(
                "TL_LOAD({step}, {to} + {at}, {table} + ({index}) * {record} + {at});"
            ));
        }
    }

    /// Loads the right operand's elements of a step.
    pub(super) fn load_taps(&mut self, tiles: &Tiles<'_>, step: &str) {
        let product = tiles.product;
        let Some(taps) = &product.roles.taps else { return };
        let (along, k, p) = (tiles.sides[1].along, tiles.k, product.roles.right);
        let (column, (depth, _)) = (padded(product.entries()), self.depth_record(product));
        let ((word, _), element) = (tiles.copies(1), tiles.element());
        let table = format!("(i32)({step} & 1) * {k}");
        if along {
            self.line(format!("idx point[{word}][{depth}];"));
            self.line("TL_UNROLL");
            self.open(format!("for (i32 h = 0; h < {word}; ++h)"));
            let own = format!("{table} + TL_ITEM % {} * {word} + h", k / word);
            self.load_record("point[h]", "depths", depth, &own);
            self.close();
        }
        self.open_copies(tiles, 1);
        if along {
            self.line(format!("idx column[{column}];"));
            self.load_record("column", "places", column, "i");
        } else {
            self.line(format!("idx point[{depth}];"));
            self.load_record("point", "depths", depth, &format!("{table} + l"));
        }
        self.line("TL_UNROLL");
        self.open(format!("for (i32 h = 0; h < {word}; ++h)"));
        let [c, l] = if along {
            ["column", "point[h]"]
        } else {
            ["column[h]", "point"]
        };
        let at = format!("m{p} + {c}[0] + {l}[0]");
        let (hit, at) = match product.bits {
            true => (format!("({c}[1] & {l}[1]) != 0"), at),
            false => self.inside(product, taps, [c, l], at),
        };
        self.line(format!("kept_b[q][h] = {hit} ? p{p}[{at}] : ({element})0;"));
        self.close();
        self.close();
    }

    /// Whether the places of a column and a point add to one inside, and its offset.
    fn inside(
        &mut self,
        product: &Product<'_>,
        taps: &Taps,
        [c, l]: [&str; 2],
        mut at: String,
    ) -> (String, String) {
        let unsigned = if self.variant.wide { "u64" } else { "u32" };
        let r = taps.spatial;
        let mut hits = Vec::new();
        for a in 0..r {
            let place = format!("({unsigned}){c}[{0}] + ({unsigned}){l}[{0}]", 1 + a);
            if product.divides {
                self.line(format!("const idx v{a} = {c}[{0}] + {l}[{0}];", 1 + r + a));
                self.line(format!("const {unsigned} u{a} = {place} + (v{a} != 0);"));
                hits.push(format!("((v{a} == 0) | (v{a} == by{a}))"));
                at.push_str(&format!(" + (idx)u{a} * w{a}"));
            } else {
                self.line(format!("const {unsigned} u{a} = {place};"));
            }
            hits.push(format!("(u{a} < ({unsigned})h{a})"));
        }
        (hits.join(" & "), at)
    }
}
