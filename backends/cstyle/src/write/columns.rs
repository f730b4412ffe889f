//! Row kernels whose rows lie across: neighbouring rows side by side, so that what is read together lies together. The
//! values of a row are combined in the order of the other forms.

use super::walk::Work;
use super::{Point, Writer};
use crate::body::Reduction;
use crate::scalar;
use thalweg_hal::ir::{Level, Node};

impl Writer<'_> {
    pub(super) fn rows_side_by_side(&mut self, side: u16) {
        let last = usize::from(self.variant.outer) - 1;
        let extent = if last == 0 {
            "rows".to_owned()
        } else {
            format!("o{last}")
        };
        self.text
            .line(format!("const idx strips = ({extent} + {}) / {side};", side - 1));
        let units = if last == 0 {
            "strips".to_owned()
        } else {
            format!("rows / {extent} * strips")
        };
        self.text.line(format!("const idx units = {units};"));
        self.units(false, "units");
        self.text.line("const idx line = unit / strips;");
        self.text
            .line(format!("const idx r{last} = (unit - line * strips) * {side};"));
        self.text.line(format!(
            "const i32 count = (i32)({extent} - r{last} < {side} ? {extent} - r{last} : {side});"
        ));
        if last > 0 {
            self.text.line("idx row_rest = line;");
        }
        for axis in (1..last).rev() {
            self.text.line(format!("const idx r{axis} = row_rest % o{axis};"));
            self.text.line(format!("row_rest /= o{axis};"));
        }
        if last > 0 {
            self.text.line("const idx r0 = row_rest;");
        }
        self.row_offsets();
        self.text.line("const idx begin = 0;");
        self.text.line("const idx end = total;");
        for stage in 0..self.body.depth() {
            let reductions = self.body.reductions(stage);
            self.accumulators_of_rows(&reductions, side);
            let roots: Vec<usize> = reductions.iter().map(|reduction| reduction.arg).collect();
            self.walk_rows(&roots, &reductions, side);
            self.fold_lanes_of_rows(&reductions, side);
        }
        let elements = self.body.stores(Level::Element);
        if !elements.is_empty() {
            self.walk_rows(&elements, &[], side);
        }
        let rows = self.body.stores(Level::Row);
        if !rows.is_empty() {
            self.text.line("TL_PARALLEL");
            self.text.open("for (i32 v = 0; v < count; ++v)");
            self.row_values(&rows, None);
            self.text.close();
        }
        self.text.close();
    }

    fn accumulators_of_rows(&mut self, reductions: &[Reduction], side: u16) {
        let size = u32::from(self.variant.lanes) * u32::from(side);
        for Reduction {
            node,
            op,
            dtype,
            beats,
            ..
        } in reductions
        {
            let (register, identity) = (scalar::register(*dtype), scalar::identity(*op, *dtype));
            self.text.line(format!("{register} a{node}[{size}];"));
            self.text.line(format!(
                "for (i32 v = 0; v < {size}; ++v) a{node}[v] = {identity};"
            ));
            if beats.is_some() {
                self.text.line(format!("i64 j{node}[{size}];"));
                self.text
                    .line(format!("for (i32 v = 0; v < {size}; ++v) j{node}[v] = -1;"));
            }
        }
    }

    /// Walks the inner space once: every point of it for all rows.
    fn walk_rows(&mut self, roots: &[usize], reductions: &[Reduction], side: u16) {
        let last = usize::from(self.variant.inner) - 1;
        let nodes = self.body.closure(roots, |i| self.at_points(i));
        let work = Work {
            nodes: &nodes,
            reductions,
        };
        self.text.open("");
        let (begin, end, row) = if last == 0 {
            ("begin", "end", "0")
        } else {
            self.text.open(format!("for (idx q = 0; q < end / e{last}; ++q)"));
            self.decode("q", last, &work);
            self.text.line(format!("const idx row = q * e{last};"));
            self.text.line(format!("const idx stop = e{last};"));
            ("0", "stop", "row")
        };
        let lanes = self.variant.lanes;
        self.text.line(format!("idx j = {begin};"));
        if self.laned() && !reductions.is_empty() {
            self.text
                .open(format!("for (; j + {lanes} <= {end}; j += {lanes})"));
            self.text
                .open(format!("for (i32 lane = 0; lane < {lanes}; ++lane)"));
            self.text.line("const idx k = j + lane;");
            self.rows_at_point("k", row, &format!("[lane * {side} + v]"), roots, reductions);
            self.text.close();
            self.text.close();
        }
        self.text.open(format!("for (; j < {end}; ++j)"));
        self.rows_at_point("j", row, "[v]", roots, reductions);
        self.text.close();
        if last > 0 {
            self.text.close();
        }
        self.text.close();
    }

    fn rows_at_point(
        &mut self,
        last: &str,
        row: &str,
        lane: &str,
        roots: &[usize],
        reductions: &[Reduction],
    ) {
        self.text.line("TL_PARALLEL");
        self.text.open("for (i32 v = 0; v < count; ++v)");
        self.row_values(roots, Some(&Point::at(last)));
        self.reduce(&Point::at(last), row, lane, reductions);
        self.text.close();
    }

    /// What `roots` need at a point of row `v`, or once for it: results of reductions, then values in their order.
    fn row_values(&mut self, roots: &[usize], point: Option<&Point<'_>>) {
        let is_reduce = |i: usize| matches!(self.body.kernel.nodes[i], Node::Reduce { .. });
        let nodes = self.body.closure(roots, |i| !is_reduce(i));
        let mut needed: Vec<usize> = nodes
            .iter()
            .flat_map(|&i| self.body.kernel.nodes[i].args())
            .map(|arg| arg.index())
            .chain(roots.iter().copied())
            .filter(|&i| is_reduce(i))
            .collect();
        needed.sort_unstable();
        needed.dedup();
        let all: Vec<Reduction> = (0..self.body.depth())
            .flat_map(|stage| self.body.reductions(stage))
            .filter(|reduction| needed.contains(&reduction.node))
            .collect();
        for Reduction {
            node, dtype, beats, ..
        } in &all
        {
            self.text.line(match beats {
                Some(_) => format!("const i64 n{node} = j{node}[v];"),
                None => format!("const {} n{node} = a{node}[v];", scalar::register(*dtype)),
            });
        }
        for i in nodes {
            let at = point.filter(|_| self.at_points(i));
            self.node(i, at);
        }
    }

    /// Halves the lanes until one is left, for all rows.
    fn fold_lanes_of_rows(&mut self, reductions: &[Reduction], side: u16) {
        let mut half = self.variant.lanes / 2;
        while half > 0 {
            let reach = u32::from(half) * u32::from(side);
            self.text.open(format!("for (i32 v = 0; v < {reach}; ++v)"));
            for reduction in reductions {
                let (a, j) = (format!("a{}", reduction.node), format!("j{}", reduction.node));
                let names = [
                    format!("{a}[v]"),
                    format!("{j}[v]"),
                    format!("{a}[v + {reach}]"),
                    format!("{j}[v + {reach}]"),
                ];
                self.merge(reduction, names.each_ref().map(String::as_str));
            }
            self.text.close();
            half /= 2;
        }
    }
}
