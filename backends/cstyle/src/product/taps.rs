//! Convolutions as products: tables of the places that the columns of a tile and the points of a step name.

use super::write::Product;
use super::{Roles, Taps};
use crate::variant::Step;
use crate::write::Writer;

/// Bits of the distance of a column beyond the edge, with indices of 32 bits and of 64.
pub(super) const FAR: [u32; 2] = [30, 60];

impl Roles {
    /// Index and extent of each axis of the columns, as a source names them.
    pub(super) fn column_axes(&self) -> Vec<[String; 2]> {
        let named = |axis: &usize| [format!("x{axis}"), format!("o{axis}")];
        self.columns.iter().map(named).collect()
    }
}

impl Writer<'_> {
    /// Names the gathered operand's extents in space, and its strides.
    pub(super) fn space(&mut self, product: &Product<'_>, taps: &Taps) {
        let (r, p) = (taps.spatial, product.roles.right);
        for a in 0..r {
            self.line(format!(
                "const idx h{a} = (idx)c{a}, w{a} = (idx)c{} * gs{p};",
                r + a
            ));
        }
    }

    /// Declares the tables: for each column its indices, the offset of its channel or sample and its share of the places; for
    /// each point of a step likewise, and the left operand's offset where that is no index.
    pub(super) fn table(&mut self, product: &Product<'_>, n: usize, k: usize, space: &str) {
        let Some(taps) = &product.roles.taps else { return };
        let r = taps.spatial;
        self.space(product, taps);
        for axis in &product.roles.columns {
            self.line(format!("{space}idx cr{axis}[{n}];"));
        }
        self.line(format!("{space}idx cb[{n}];"));
        self.line(format!("{space}idx lb[{k}];"));
        for a in 0..r {
            self.line(format!("{space}idx cu{a}[{n}];"));
            self.line(format!("{space}idx lu{a}[{k}];"));
            if product.divides {
                self.line(format!("{space}idx cv{a}[{n}];"));
                self.line(format!("{space}idx lv{a}[{k}];"));
            }
        }
        if self.variant.steps[product.roles.left] != Step::Unit {
            self.line(format!("{space}idx la[{k}];"));
        }
    }

    /// Fills the tables of the columns of a tile. Columns beyond the edge are outside of every axis.
    pub(super) fn columns(&mut self, product: &Product<'_>, n: usize, team: Option<u16>) {
        let Some(taps) = &product.roles.taps else { return };
        let (columns, p) = (&product.roles.columns, product.roles.right);
        let axes = product.roles.column_axes();
        let far = FAR[usize::from(self.variant.wide)];
        if team.is_some() {
            // Others may not have stored the tile before.
            self.line("TL_BARRIER;");
        }
        self.count(&axes, "left", "j", &n.to_string(), team, |writer| {
            writer.line("const bool past = left + j >= width;");
            for axis in columns {
                writer.line(format!("cr{axis}[j] = x{axis};"));
            }
            let first = columns[0];
            writer.line(format!("cb[j] = x{first} * t{p}_{first};"));
            for a in 0..taps.spatial {
                writer.line(format!("const idx place{a} = x{} * fc{a} + fs{a};", 3 + a));
                let place = writer.divided(product, 'c', a, "j");
                writer.line(format!("cu{a}[j] = past ? -1 - ((idx)1 << {far}) : {place};"));
            }
        });
        if team.is_some() {
            self.line("TL_BARRIER;");
        }
    }

    /// Fills the tables of the points of a step that starts at `first`.
    pub(super) fn depths(&mut self, product: &Product<'_>, k: usize, count: &str, team: Option<u16>) {
        let Some(taps) = &product.roles.taps else { return };
        let inner = self.variant.inner as usize;
        let axes: Vec<[String; 2]> = (0..inner)
            .map(|axis| [format!("y{axis}"), format!("e{axis}")])
            .collect();
        let (left, right) = (product.roles.left, product.roles.right);
        let offsets = self.variant.steps[left] != Step::Unit;
        debug_assert!(k > 0);
        self.count(&axes, "first", "l", count, team, |writer| {
            writer.line(format!("lb[l] = y0 * s{right}_0;"));
            for a in 0..taps.spatial {
                writer.line(format!("const idx place{a} = y{} * fd{a};", 1 + a));
                let place = writer.divided(product, 'l', a, "l");
                writer.line(format!("lu{a}[l] = {place};"));
            }
            if offsets {
                let sum: Vec<String> = (0..inner)
                    .map(|axis| format!("y{axis} * s{left}_{axis}"))
                    .collect();
                writer.line(format!("la[l] = {};", sum.join(" + ")));
            }
        });
    }

    /// The indices along the columns' axes of column `j` of a tile.
    pub(super) fn column_indices(&self, product: &Product<'_>, j: &str) -> Vec<String> {
        match product.roles.taps {
            Some(_) => product
                .roles
                .columns
                .iter()
                .map(|axis| format!("cr{axis}[{j}]"))
                .collect(),
            None => vec!["j".to_owned()],
        }
    }

    /// Whether the place that column `j` and point `l` name is an element, and the element.
    pub(super) fn tap(&mut self, product: &Product<'_>, taps: &Taps, j: &str, l: &str) -> (String, String) {
        let p = product.roles.right;
        let (mut hits, mut at) = (Vec::new(), format!("m{p} + cb[{j}] + lb[{l}]"));
        for a in 0..taps.spatial {
            if product.divides {
                self.line(format!("const idx v{a} = cv{a}[{j}] + lv{a}[{l}];"));
                self.line(format!("const idx u{a} = cu{a}[{j}] + lu{a}[{l}] + (v{a} != 0);"));
                hits.push(format!("((v{a} == 0) | (v{a} == by{a}))"));
            } else {
                self.line(format!("const idx u{a} = cu{a}[{j}] + lu{a}[{l}];"));
            }
            hits.push(format!("(u{a} >= 0) & (u{a} < h{a})"));
            at.push_str(&format!(" + u{a} * w{a}"));
        }
        (format!("({})", hits.join(" & ")), format!("p{p}[{at}]"))
    }

    /// `place` over its divisor, rounded down; what is left goes into a table, so that the sum of two places needs no division.
    fn divided(&mut self, product: &Product<'_>, table: char, a: usize, index: &str) -> String {
        if !product.divides {
            return format!("place{a}");
        }
        self.line(format!(
            "const idx whole{a} = (place{a} - (place{a} < 0 ? by{a} - 1 : 0)) / by{a};"
        ));
        self.line(format!("{table}v{a}[{index}] = place{a} - whole{a} * by{a};"));
        format!("whole{a}")
    }

    /// Walks `count` points from `from` on, with their indices along `axes` (name and extent each, the slowest first): one
    /// after the other, or each by a work-item of a team.
    pub(super) fn count(
        &mut self,
        axes: &[[String; 2]],
        from: &str,
        index: &str,
        count: &str,
        team: Option<u16>,
        body: impl FnOnce(&mut Self),
    ) {
        let decode = |writer: &mut Self, from: &str| {
            writer.line(format!("idx rest = {from};"));
            for [name, extent] in axes.iter().skip(1).rev() {
                writer.line(format!("idx {name} = rest % {extent};"));
                writer.line(format!("rest /= {extent};"));
            }
            writer.line(format!("idx {} = rest;", axes[0][0]));
        };
        if let Some(items) = team {
            self.open(format!(
                "for (i32 {index} = TL_ITEM; {index} < {count}; {index} += {items})"
            ));
            decode(self, &format!("{from} + {index}"));
            body(self);
            self.close();
            return;
        }
        self.open("");
        decode(self, from);
        self.open(format!("for (i32 {index} = 0; {index} < {count}; ++{index})"));
        body(self);
        let mut carries = 0;
        for (at, [name, extent]) in axes.iter().enumerate().rev() {
            self.line(format!("++{name};"));
            if at > 0 {
                self.open(format!("if ({name} == {extent})"));
                self.line(format!("{name} = 0;"));
                carries += 1;
            }
        }
        (0..carries).for_each(|_| self.close());
        self.close();
        self.close();
    }
}
