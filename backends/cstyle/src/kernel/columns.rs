//! Row kernels whose rows lie across: neighbouring rows side by side, so that what is read together lies together. The
//! values of a row are combined in the order of the other forms.

use super::walk::Work;
use crate::body::Reduction;
use crate::write::{Point, Writer};
use thalweg_hal::ir::{Level, Node};

impl Writer<'_> {
    pub(super) fn rows_side_by_side(&mut self, side: u16) {
        let last = usize::from(self.variant.outer) - 1;
        let extent = if last == 0 {
            "rows".to_owned()
        } else {
            format!("o{last}")
        };
        self.line(format!("const idx strips = ({extent} + {}) / {side};", side - 1));
        let units = if last == 0 {
            "strips".to_owned()
        } else {
            format!("rows / {extent} * strips")
        };
        self.line(format!("const idx units = {units};"));
        self.units(false, "units");
        self.line("const idx line = unit / strips;");
        self.line(format!("const idx r{last} = (unit - line * strips) * {side};"));
        self.line(format!(
            "const i32 count = (i32)({extent} - r{last} < {side} ? {extent} - r{last} : {side});"
        ));
        self.row_indices("line", last);
        self.row_offsets();
        self.line("const idx begin = 0;");
        self.line("const idx end = total;");
        for stage in 0..self.body.depth() {
            let reductions = self.body.reductions(stage);
            let lanes = u32::from(self.variant.lanes);
            reductions
                .iter()
                .for_each(|of| self.accumulator_lanes(of, lanes * u32::from(side)));
            let roots: Vec<usize> = reductions.iter().map(|reduction| reduction.arg).collect();
            self.walk_rows(&roots, &reductions, side);
            self.fold_lanes(&reductions, side.into());
        }
        let elements = self.body.stores(Level::Element);
        if !elements.is_empty() {
            self.walk_rows(&elements, &[], side);
        }
        let rows = self.body.stores(Level::Row);
        if !rows.is_empty() {
            self.line("TL_PARALLEL");
            self.open("for (i32 v = 0; v < count; ++v)");
            self.row_values(&rows, None);
            self.close();
        }
        self.close();
    }

    /// Walks the inner space once: every point of it for all rows.
    fn walk_rows(&mut self, roots: &[usize], reductions: &[Reduction], side: u16) {
        let last = usize::from(self.variant.inner) - 1;
        let nodes = self.body.closure(roots, |i| self.at_points(i));
        let work = Work {
            nodes: &nodes,
            reductions,
        };
        self.open("");
        let (begin, end, row) = if last == 0 {
            ("begin", "end", "0")
        } else {
            self.open(format!("for (idx q = 0; q < end / e{last}; ++q)"));
            self.decode("q", last, &work);
            self.line(format!("const idx row = q * e{last};"));
            self.line(format!("const idx stop = e{last};"));
            ("0", "stop", "row")
        };
        let lanes = self.variant.lanes;
        self.line(format!("idx j = {begin};"));
        if self.laned() && !reductions.is_empty() {
            self.open(format!("for (; j + {lanes} <= {end}; j += {lanes})"));
            self.open(format!("for (i32 lane = 0; lane < {lanes}; ++lane)"));
            self.line("const idx k = j + lane;");
            self.rows_at_point("k", row, &format!("[lane * {side} + v]"), roots, reductions);
            self.close();
            self.close();
        }
        self.open(format!("for (; j < {end}; ++j)"));
        self.rows_at_point("j", row, "[v]", roots, reductions);
        self.close();
        if last > 0 {
            self.close();
        }
        self.close();
    }

    fn rows_at_point(
        &mut self,
        last: &str,
        row: &str,
        lane: &str,
        roots: &[usize],
        reductions: &[Reduction],
    ) {
        self.line("TL_PARALLEL");
        self.open("for (i32 v = 0; v < count; ++v)");
        self.row_values(roots, Some(&Point::at(last)));
        self.reduce(&Point::at(last), row, lane, reductions);
        self.close();
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
        let all = self.all_reductions().into_iter();
        for reduction in all.filter(|reduction| needed.contains(&reduction.node)) {
            let node = reduction.node;
            self.line(match &reduction.beats {
                Some(_) => format!("const i64 n{node} = j{node}[v];"),
                None => format!("const {} n{node} = a{node}[v];", reduction.register()),
            });
        }
        for i in nodes {
            let at = point.filter(|_| self.at_points(i));
            self.node(i, at);
        }
    }
}
