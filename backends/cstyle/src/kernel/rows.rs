//! Row kernels: reductions stage by stage, by one work-item, one group, or several of them in several passes.

use super::walk::{Walker, Work};
use crate::body::Reduction;
use crate::scalar;
use crate::write::Writer;
use thalweg_hal::ir::{Level, Node};

/// A pass of a row that several walk: stage `pass`, or the stores after the last one.
type Pass = Option<u32>;

impl Writer<'_> {
    pub(super) fn rows(&mut self, by_group: bool, pass: Pass, kept: bool) {
        let depth = self.body.depth();
        if by_group {
            self.shared_memory();
        }
        if pass.is_some() {
            self.partials();
        }
        let pieces = match pass {
            Some(pass) if pass < depth || self.stores_elements() => "chunks",
            _ => "1",
        };
        let units = if pieces == "1" { "rows" } else { "rows * chunks" };
        self.units(by_group, units);
        if pieces == "1" {
            self.line("const idx r = unit;");
        } else {
            self.row_and_piece();
        }
        if pass.is_none() || pieces == "1" {
            self.line("const idx begin = 0;");
            self.line("const idx end = total;");
        } else {
            self.ends_of_piece();
        }
        if self.variant.outer > 0 {
            self.row_indices("r", self.variant.outer.into());
            self.row_offsets();
        }
        self.row_nodes(0);
        let last = pass.unwrap_or(depth);
        for stage in 0..last {
            match pass {
                None => self.stage(stage, by_group, kept),
                Some(_) => self.gather_partials(stage, by_group),
            }
            self.row_nodes(stage + 1);
        }
        match pass {
            Some(pass) if pass < depth => {
                self.stage(pass, by_group, false);
                self.save_partials(pass, by_group);
            }
            _ => self.stores(by_group, pieces != "1", kept),
        }
        self.close();
    }

    fn stores_elements(&self) -> bool {
        !self.body.stores(Level::Element).is_empty()
    }

    /// Every parameter's offset of the row.
    pub(super) fn row_offsets(&mut self) {
        let axes: Vec<usize> = (0..self.variant.outer.into()).collect();
        self.offsets('q', self.body.touched(), &axes);
    }

    /// Row-level nodes of one stage.
    fn row_nodes(&mut self, stage: u32) {
        for i in 0..self.body.live.len() {
            let row = self.body.live[i] && !self.at_points(i) && self.body.stages[i] == stage;
            if row && !matches!(self.body.kernel.nodes[i], Node::Store { .. }) {
                self.node(i, None);
            }
        }
    }

    fn walker(by_group: bool) -> Walker {
        if by_group {
            Walker::Team {
                item: "TL_ITEM",
                count: "TL_ITEMS",
            }
        } else {
            Walker::Item
        }
    }

    /// The walk that computes the reductions of a stage; declares their results.
    fn stage(&mut self, stage: u32, by_group: bool, kept: bool) {
        let reductions = self.body.reductions(stage);
        self.accumulators(&reductions);
        if kept {
            self.walk_kept(stage, &reductions);
        } else {
            let roots: Vec<usize> = reductions.iter().map(|r| r.arg).collect();
            self.walk_whole(&roots, &reductions, by_group);
        }
        if self.laned() {
            self.fold_lanes(&reductions, 1);
        }
        self.finish(&reductions, by_group);
    }

    /// A walk that loads and computes all that its roots need.
    fn walk_whole(&mut self, roots: &[usize], reductions: &[Reduction], by_group: bool) {
        let nodes = self.body.closure(roots, |i| self.at_points(i));
        let work = Work {
            nodes: &nodes,
            reductions,
        };
        self.open("");
        self.walk(Self::walker(by_group), "begin", "end", &work);
        self.close();
    }

    fn accumulators(&mut self, reductions: &[Reduction]) {
        for reduction in reductions {
            if self.laned() {
                self.accumulator_lanes(reduction, self.variant.lanes.into());
                continue;
            }
            let (node, register) = (reduction.node, reduction.register());
            self.line(format!("{register} a{node} = {};", reduction.identity()));
            if reduction.beats.is_some() {
                self.line(format!("i64 j{node} = -1;"));
            }
        }
    }

    /// From accumulators to row-level values, across the group where one walks a row.
    fn finish(&mut self, reductions: &[Reduction], by_group: bool) {
        let lane = if self.laned() { "[0]" } else { "" };
        if by_group {
            self.fold_group(reductions, lane);
        }
        for reduction in reductions {
            let node = reduction.node;
            let register = reduction.register();
            let (best, at) = self.folded(node, lane, by_group);
            if reduction.beats.is_some() {
                self.line(format!("const {register} b{node}_best = {best};"));
                self.line(format!("const i64 n{node} = {at};"));
            } else {
                self.line(format!("const {register} n{node} = {best};"));
            }
        }
        if by_group {
            // The next stage writes the same memory.
            self.line("TL_BARRIER;");
        }
    }

    pub(super) fn all_reductions(&self) -> Vec<Reduction> {
        (0..self.body.depth())
            .flat_map(|stage| self.body.reductions(stage))
            .collect()
    }

    fn shared_memory(&mut self) {
        let group = match self.warps() {
            0 => self.variant.group,
            warps => warps,
        };
        for reduction in self.all_reductions() {
            let node = reduction.node;
            self.line(format!("TL_LOCAL {} l{node}[{group}];", reduction.register()));
            if reduction.beats.is_some() {
                self.line(format!("TL_LOCAL i64 m{node}[{group}];"));
            }
        }
    }

    /// Names the places of partial results in scratch memory: one of 8 bytes a piece and value.
    fn partials(&mut self) {
        self.line("const i64 slot = (i64)rows * chunks * 8;");
        let mut slot = 0;
        for reduction in self.all_reductions() {
            let node = reduction.node;
            let mut place = |name: String, memory: &str| {
                let pointer = format!("TL_GLOBAL {memory} *");
                self.line(format!(
                    "{pointer}const {name} = ({pointer})(scratch + {slot} * slot);"
                ));
                slot += 1;
            };
            place(format!("z{node}"), partial(reduction.dtype));
            if reduction.beats.is_some() {
                place(format!("w{node}"), "i64");
            }
        }
    }

    fn save_partials(&mut self, stage: u32, by_group: bool) {
        if by_group {
            self.open("if (TL_ITEM == 0)");
        }
        for reduction in self.body.reductions(stage) {
            let node = reduction.node;
            let value = if reduction.beats.is_some() {
                format!("b{node}_best")
            } else {
                format!("n{node}")
            };
            self.line(format!("z{node}[unit] = ({}){value};", partial(reduction.dtype)));
            if reduction.beats.is_some() {
                self.line(format!("w{node}[unit] = n{node};"));
            }
        }
        if by_group {
            self.close();
        }
    }

    /// The results of a stage from the pieces of a row.
    fn gather_partials(&mut self, stage: u32, by_group: bool) {
        let reductions = self.body.reductions(stage);
        for reduction in &reductions {
            let node = reduction.node;
            let (register, identity) = (reduction.register(), reduction.identity());
            self.line(format!("{register} a{node}_all = {identity};"));
            if reduction.beats.is_some() {
                self.line(format!("i64 j{node}_all = -1;"));
            }
        }
        let (first, step) = if by_group {
            ("TL_ITEM".to_owned(), self.variant.group)
        } else {
            ("0".to_owned(), 1)
        };
        self.open(format!("for (idx c = {first}; c < chunks; c += {step})"));
        self.line("const idx at = r * chunks + c;");
        for reduction in &reductions {
            let node = reduction.node;
            let register = reduction.register();
            self.line(format!("const {register} value{node} = ({register})z{node}[at];"));
            if reduction.beats.is_some() {
                self.line(format!("const i64 index{node} = w{node}[at];"));
            }
            let names = [
                format!("a{node}_all"),
                format!("j{node}_all"),
                format!("value{node}"),
                format!("index{node}"),
            ];
            self.merge(reduction, names.each_ref().map(String::as_str));
        }
        self.close();
        if by_group {
            self.fold_group(&reductions, "_all");
        }
        for reduction in &reductions {
            let node = reduction.node;
            let (best, at) = self.folded(node, "_all", by_group);
            let (register, value) = if reduction.beats.is_some() {
                ("i64", at)
            } else {
                (reduction.register(), best)
            };
            self.line(format!("const {register} n{node} = {value};"));
        }
        if by_group {
            self.line("TL_BARRIER;");
        }
    }

    /// The stores, after everything was reduced.
    fn stores(&mut self, by_group: bool, in_pieces: bool, kept: bool) {
        let elements = self.body.stores(Level::Element);
        if !elements.is_empty() && kept {
            self.walk_kept(self.body.depth(), &[]);
        } else if !elements.is_empty() {
            self.walk_whole(&elements, &[], by_group);
        }
        let rows = self.body.stores(Level::Row);
        if rows.is_empty() {
            return;
        }
        if by_group && self.variant.in_place {
            // Others may not have read the input that is overwritten.
            self.line("TL_BARRIER;");
        }
        let mut only = Vec::new();
        if by_group {
            only.push("TL_ITEM == 0");
        }
        if in_pieces {
            only.push("piece == 0");
        }
        if only.is_empty() {
            only.push("true");
        }
        self.open(format!("if ({})", only.join(" && ")));
        rows.into_iter().for_each(|i| self.node(i, None));
        self.close();
    }
}

/// Type of a partial result in scratch memory.
fn partial(dtype: thalweg_hal::DType) -> &'static str {
    match scalar::register(dtype) {
        "bool" => "u8",
        register => register,
    }
}
