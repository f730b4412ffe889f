//! Row kernels: reductions stage by stage, by one work-item, one group, or several of them in several passes.

use super::Writer;
use super::walk::{Walker, Work};
use crate::body::Reduction;
use crate::scalar;
use thalweg_hal::ir::{Level, Node};

/// A pass of a row that several walk: stage `pass`, or the stores after the last one.
type Pass = Option<u32>;

impl Writer<'_> {
    pub(super) fn rows(&mut self, by_group: bool, pass: Pass) {
        let depth = self.body.depth();
        if by_group {
            self.shared_memory();
        }
        if self.scratch() {
            self.partials();
        }
        let pieces = match pass {
            Some(pass) if pass < depth || self.stores_elements() => "chunks",
            _ => "1",
        };
        let units = if pieces == "1" { "rows" } else { "rows * chunks" };
        self.units(by_group, units);
        if pieces == "1" {
            self.text.line("const idx r = unit;");
        } else {
            self.text.line("const idx r = unit / chunks;");
            self.text.line("const idx piece = unit - r * chunks;");
        }
        if pass.is_none() || pieces == "1" {
            self.text.line("const idx begin = 0;");
            self.text.line("const idx end = total;");
        } else {
            self.text.line("const idx begin = piece * length;");
            self.text
                .line("const idx end = total - begin < length ? total : begin + length;");
        }
        self.decode_row();
        self.row_nodes(0);
        let last = pass.unwrap_or(depth);
        for stage in 0..last {
            match pass {
                None => self.stage(stage, by_group),
                Some(_) => self.gather_partials(stage, by_group),
            }
            self.row_nodes(stage + 1);
        }
        match pass {
            Some(pass) if pass < depth => {
                self.stage(pass, by_group);
                self.save_partials(pass, by_group);
            }
            _ => self.stores(by_group, pieces != "1"),
        }
        self.text.close();
    }

    fn stores_elements(&self) -> bool {
        !self.body.stores(Level::Element).is_empty()
    }

    /// The loop over rows, or over pieces of them.
    pub(super) fn units(&mut self, by_group: bool, units: &str) {
        let group = self.variant.group;
        if self.target.cpu {
            // Runs of rows that lie together.
            self.text.line("const idx groups = (idx)TL_GROUPS;");
            self.text
                .line(format!("const idx run = ({units} + groups - 1) / groups;"));
            self.text.line("const idx from = (idx)TL_GROUP * run;");
            self.text.line(format!(
                "const idx to = {units} - from < run ? {units} : from + run;"
            ));
            self.text.open("for (idx unit = from; unit < to; ++unit)");
        } else if by_group {
            let line = format!("for (idx unit = (idx)TL_GROUP; unit < {units}; unit += (idx)TL_GROUPS)");
            self.text.open(line);
        } else {
            self.text
                .line(format!("const idx items = (idx)TL_GROUPS * {group};"));
            let first = format!("(idx)TL_GROUP * {group} + TL_ITEM");
            self.text
                .open(format!("for (idx unit = {first}; unit < {units}; unit += items)"));
        }
    }

    /// Indices along the axes of rows, and every parameter's offset of the row.
    fn decode_row(&mut self) {
        let outer = self.variant.outer as usize;
        if outer == 0 {
            return;
        }
        self.text.line("idx row_rest = r;");
        for axis in (1..outer).rev() {
            self.text.line(format!("const idx r{axis} = row_rest % o{axis};"));
            self.text.line(format!("row_rest /= o{axis};"));
        }
        self.text.line("const idx r0 = row_rest;");
        self.row_offsets();
    }

    /// Every parameter's offset of the row.
    pub(super) fn row_offsets(&mut self) {
        let outer = self.variant.outer as usize;
        for p in (0..self.body.touched.len()).filter(|&p| self.body.touched[p]) {
            let sum: Vec<String> = (0..outer).map(|axis| format!("r{axis} * t{p}_{axis}")).collect();
            self.text.line(format!("const idx q{p} = {};", sum.join(" + ")));
        }
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
    fn stage(&mut self, stage: u32, by_group: bool) {
        let reductions = self.body.reductions(stage);
        self.accumulators(&reductions);
        let roots: Vec<usize> = reductions.iter().map(|r| r.arg).collect();
        let nodes = self.body.closure(&roots, |i| self.at_points(i));
        let work = Work {
            nodes: &nodes,
            reductions: &reductions,
        };
        let walker = Self::walker(by_group);
        self.text.open("");
        self.walk(walker, "begin", "end", &work);
        self.text.close();
        if self.laned() {
            self.fold_lanes(&reductions);
        }
        self.finish(&reductions, by_group);
    }

    fn accumulators(&mut self, reductions: &[Reduction]) {
        let lanes = self.variant.lanes;
        for Reduction {
            node,
            op,
            dtype,
            beats,
            ..
        } in reductions
        {
            let (register, identity) = (scalar::register(*dtype), scalar::identity(*op, *dtype));
            if !self.laned() {
                self.text.line(format!("{register} a{node} = {identity};"));
                if beats.is_some() {
                    self.text.line(format!("i64 j{node} = -1;"));
                }
                continue;
            }
            self.text.line(format!("{register} a{node}[{lanes}];"));
            self.text.line(format!(
                "for (i32 v = 0; v < {lanes}; ++v) a{node}[v] = {identity};"
            ));
            if beats.is_some() {
                self.text.line(format!("i64 j{node}[{lanes}];"));
                self.text
                    .line(format!("for (i32 v = 0; v < {lanes}; ++v) j{node}[v] = -1;"));
            }
        }
    }

    /// From accumulators to row-level values, across the group where one walks a row.
    fn finish(&mut self, reductions: &[Reduction], by_group: bool) {
        let lane = if self.laned() { "[0]" } else { "" };
        if by_group {
            self.fold_group(reductions, lane);
        }
        for Reduction {
            node, dtype, beats, ..
        } in reductions
        {
            let register = scalar::register(*dtype);
            let (best, at) = self.folded(*node, lane, by_group);
            if beats.is_some() {
                self.text.line(format!("const {register} b{node}_best = {best};"));
                self.text.line(format!("const i64 n{node} = {at};"));
            } else {
                self.text.line(format!("const {register} n{node} = {best};"));
            }
        }
        if by_group {
            // The next stage writes the same memory.
            self.text.line("TL_BARRIER;");
        }
    }

    fn all_reductions(&self) -> Vec<Reduction> {
        (0..self.body.depth())
            .flat_map(|stage| self.body.reductions(stage))
            .collect()
    }

    fn shared_memory(&mut self) {
        let group = match self.warps() {
            0 => self.variant.group,
            warps => warps,
        };
        for Reduction {
            node, dtype, beats, ..
        } in self.all_reductions()
        {
            self.text
                .line(format!("TL_LOCAL {} l{node}[{group}];", scalar::register(dtype)));
            if beats.is_some() {
                self.text.line(format!("TL_LOCAL i64 m{node}[{group}];"));
            }
        }
    }

    /// Names the places of partial results in scratch memory: one of 8 bytes a piece and value.
    fn partials(&mut self) {
        self.text.line("const i64 slot = (i64)rows * chunks * 8;");
        let mut slot = 0;
        for Reduction {
            node, dtype, beats, ..
        } in self.all_reductions()
        {
            let mut place = |name: String, memory: &str| {
                let pointer = format!("TL_GLOBAL {memory} *");
                self.text.line(format!(
                    "{pointer}const {name} = ({pointer})(scratch + {slot} * slot);"
                ));
                slot += 1;
            };
            place(format!("z{node}"), partial(dtype));
            if beats.is_some() {
                place(format!("w{node}"), "i64");
            }
        }
    }

    fn save_partials(&mut self, stage: u32, by_group: bool) {
        if by_group {
            self.text.open("if (TL_ITEM == 0)");
        }
        for Reduction {
            node, dtype, beats, ..
        } in self.body.reductions(stage)
        {
            let value = if beats.is_some() {
                format!("b{node}_best")
            } else {
                format!("n{node}")
            };
            self.text
                .line(format!("z{node}[unit] = ({}){value};", partial(dtype)));
            if beats.is_some() {
                self.text.line(format!("w{node}[unit] = n{node};"));
            }
        }
        if by_group {
            self.text.close();
        }
    }

    /// The results of a stage from the pieces of a row.
    fn gather_partials(&mut self, stage: u32, by_group: bool) {
        let reductions = self.body.reductions(stage);
        for Reduction {
            node,
            op,
            dtype,
            beats,
            ..
        } in &reductions
        {
            let (register, identity) = (scalar::register(*dtype), scalar::identity(*op, *dtype));
            self.text.line(format!("{register} a{node}_all = {identity};"));
            if beats.is_some() {
                self.text.line(format!("i64 j{node}_all = -1;"));
            }
        }
        let (first, step) = if by_group {
            ("TL_ITEM".to_owned(), self.variant.group)
        } else {
            ("0".to_owned(), 1)
        };
        self.text
            .open(format!("for (idx c = {first}; c < chunks; c += {step})"));
        self.text.line("const idx at = r * chunks + c;");
        for reduction in &reductions {
            let Reduction {
                node, dtype, beats, ..
            } = reduction;
            let register = scalar::register(*dtype);
            self.text
                .line(format!("const {register} value{node} = ({register})z{node}[at];"));
            if beats.is_some() {
                self.text.line(format!("const i64 index{node} = w{node}[at];"));
            }
            let names = [
                format!("a{node}_all"),
                format!("j{node}_all"),
                format!("value{node}"),
                format!("index{node}"),
            ];
            self.merge(reduction, names.each_ref().map(String::as_str));
        }
        self.text.close();
        if by_group {
            self.fold_group(&reductions, "_all");
        }
        for Reduction {
            node, dtype, beats, ..
        } in &reductions
        {
            let (best, at) = self.folded(*node, "_all", by_group);
            let (register, value) = if beats.is_some() {
                ("i64", at)
            } else {
                (scalar::register(*dtype), best)
            };
            self.text.line(format!("const {register} n{node} = {value};"));
        }
        if by_group {
            self.text.line("TL_BARRIER;");
        }
    }

    /// The stores, after everything was reduced.
    fn stores(&mut self, by_group: bool, in_pieces: bool) {
        let elements = self.body.stores(Level::Element);
        if !elements.is_empty() {
            let nodes = self.body.closure(&elements, |i| self.at_points(i));
            let work = Work {
                nodes: &nodes,
                reductions: &[],
            };
            let walker = Self::walker(by_group);
            self.text.open("");
            self.walk(walker, "begin", "end", &work);
            self.text.close();
        }
        let rows = self.body.stores(Level::Row);
        if rows.is_empty() {
            return;
        }
        if by_group && self.variant.in_place {
            // Others may not have read the input that is overwritten.
            self.text.line("TL_BARRIER;");
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
        self.text.open(format!("if ({})", only.join(" && ")));
        rows.into_iter().for_each(|i| self.node(i, None));
        self.text.close();
    }
}

/// Type of a partial result in scratch memory.
fn partial(dtype: thalweg_hal::DType) -> &'static str {
    match scalar::register(dtype) {
        "bool" => "u8",
        register => register,
    }
}
