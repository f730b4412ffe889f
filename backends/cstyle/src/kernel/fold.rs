//! Accumulators combined: two of them, the lanes of a work-item, the work-items of a group.

use crate::body::Reduction;
use crate::scalar;
use crate::write::Writer;

impl Writer<'_> {
    /// Combines one accumulator with another: `(value, index)` into `(best, at)`.
    pub(super) fn merge(&mut self, reduction: &Reduction, [best, at, value, index]: [&str; 4]) {
        let Reduction { op, dtype, .. } = reduction;
        self.within(reduction.node, |writer| match &reduction.beats {
            Some(beats) => writer.line(format!("TL_MERGE({beats}, {best}, {at}, {value}, {index})")),
            None => {
                let sum = scalar::combined(*op, *dtype, best, value);
                writer.line(format!("{best} = {sum};"));
            }
        });
    }

    /// Declares an accumulator with `size` lanes.
    pub(super) fn accumulator_lanes(&mut self, reduction: &Reduction, size: u32) {
        let node = reduction.node;
        let (register, identity) = (reduction.register(), reduction.identity());
        self.line(format!("{register} a{node}[{size}];"));
        self.line(format!(
            "for (i32 v = 0; v < {size}; ++v) a{node}[v] = {identity};"
        ));
        if reduction.beats.is_some() {
            self.line(format!("i64 j{node}[{size}];"));
            self.line(format!("for (i32 v = 0; v < {size}; ++v) j{node}[v] = -1;"));
        }
    }

    /// Halves the lanes until one is left; a lane has a value for each of `side` rows.
    pub(super) fn fold_lanes(&mut self, reductions: &[Reduction], side: u32) {
        let mut half = u32::from(self.variant.lanes) / 2;
        while half > 0 {
            let reach = half * side;
            self.open(format!("for (i32 v = 0; v < {reach}; ++v)"));
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
            self.close();
            half /= 2;
        }
    }

    /// Combines the accumulators `a{node}{lane}` of a group; [`Writer::folded`] names the results.
    pub(super) fn fold_group(&mut self, reductions: &[Reduction], lane: &str) {
        if self.warps() > 0 {
            self.fold_warps(reductions, lane);
            return;
        }
        for reduction in reductions {
            let node = reduction.node;
            self.line(format!("l{node}[TL_ITEM] = a{node}{lane};"));
            if reduction.beats.is_some() {
                self.line(format!("m{node}[TL_ITEM] = j{node}{lane};"));
            }
        }
        self.line("TL_BARRIER;");
        let half = self.variant.group / 2;
        self.open(format!("for (i32 reach = {half}; reach > 0; reach /= 2)"));
        self.open("if (TL_ITEM < reach)");
        for reduction in reductions {
            let (l, m) = (format!("l{}", reduction.node), format!("m{}", reduction.node));
            let names = [
                format!("{l}[TL_ITEM]"),
                format!("{m}[TL_ITEM]"),
                format!("{l}[TL_ITEM + reach]"),
                format!("{m}[TL_ITEM + reach]"),
            ];
            self.merge(reduction, names.each_ref().map(String::as_str));
        }
        self.close();
        self.line("TL_BARRIER;");
        self.close();
    }

    /// Warps of a group where values can be shifted within a warp; 0 elsewhere.
    pub(super) fn warps(&self) -> u16 {
        if self.is_cuda() {
            self.variant.group / 32
        } else {
            0
        }
    }

    /// Halves within warps by shifts; then every work-item combines the warps' results in their order.
    fn fold_warps(&mut self, reductions: &[Reduction], lane: &str) {
        let own = |node: usize| [format!("a{node}{lane}"), format!("j{node}{lane}")];
        self.line("TL_UNROLL");
        self.open("for (i32 reach = 16; reach > 0; reach /= 2)");
        for reduction in reductions {
            let node = reduction.node;
            let register = reduction.register();
            let [best, at] = own(node);
            let line = format!("const {register} next{node} = TL_SHIFT({register}, {best}, reach);");
            self.line(line);
            let index = format!("index{node}");
            if reduction.beats.is_some() {
                self.line(format!("const i64 {index} = TL_SHIFT(i64, {at}, reach);"));
            }
            self.merge(reduction, [&best, &at, &format!("next{node}"), &index]);
        }
        self.close();
        self.open("if (TL_ITEM % 32 == 0)");
        for reduction in reductions {
            let node = reduction.node;
            let [best, at] = own(node);
            self.line(format!("l{node}[TL_ITEM / 32] = {best};"));
            if reduction.beats.is_some() {
                self.line(format!("m{node}[TL_ITEM / 32] = {at};"));
            }
        }
        self.close();
        self.line("TL_BARRIER;");
        let warps = self.warps();
        for reduction in reductions {
            let node = reduction.node;
            let [best, at] = own(node);
            self.line(format!("{best} = l{node}[0];"));
            if reduction.beats.is_some() {
                self.line(format!("{at} = m{node}[0];"));
            }
            self.open(format!("for (i32 warp = 1; warp < {warps}; ++warp)"));
            self.merge(
                reduction,
                [&best, &at, &format!("l{node}[warp]"), &format!("m{node}[warp]")],
            );
            self.close();
        }
    }

    /// Where the value and the index of a reduction are after they were combined.
    pub(super) fn folded(&self, node: usize, lane: &str, by_group: bool) -> (String, String) {
        if by_group && self.warps() == 0 {
            (format!("l{node}[0]"), format!("m{node}[0]"))
        } else {
            (format!("a{node}{lane}"), format!("j{node}{lane}"))
        }
    }
}
