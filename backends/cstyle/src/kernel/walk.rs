//! Loops over a space: long runs for one work-item, or steps of a whole group.

use crate::body::Reduction;
use crate::scalar;
use crate::write::{Point, Writer};
use thalweg_hal::ir::Node;

/// Who walks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Walker {
    /// One work-item takes every point from `begin` to `end`.
    Item,
    /// Work-item `t` of `T` takes every `T`th piece.
    Team { item: &'static str, count: &'static str },
}

/// What is done at every point.
pub(super) struct Work<'a> {
    /// Element-level nodes in order, stores among them.
    pub(super) nodes: &'a [usize],
    pub(super) reductions: &'a [Reduction],
}

impl Writer<'_> {
    /// Whether accumulators of a walk have a lane each.
    pub(super) fn laned(&self) -> bool {
        self.variant.lanes > 1
    }

    /// Walks from `begin` to `end`; both are multiples of the lanes but for the end of the space.
    pub(super) fn walk(&mut self, walker: Walker, begin: &str, end: &str, work: &Work<'_>) {
        let last = self.variant.inner as usize - 1;
        match walker {
            Walker::Item if last == 0 => self.run(begin, end, "0", work),
            Walker::Item => {
                self.open(format!("for (idx i = {begin}; i < {end};)"));
                self.line(format!("const idx q = i / e{last};"));
                self.line(format!("const idx first = i - q * e{last};"));
                self.line(format!("const idx left = {end} - i;"));
                self.line(format!(
                    "const idx stop = left < e{last} - first ? first + left : e{last};"
                ));
                self.decode("q", last, work);
                self.line("const idx row = i - first;");
                self.run("first", "stop", "row", work);
                self.line("i += stop - first;");
                self.close();
            }
            Walker::Team { item, count } => self.steps(item, count, begin, end, work),
        }
    }

    /// Splits `from` into the indices before axis `last` and sums their offsets.
    pub(super) fn decode(&mut self, from: &str, last: usize, work: &Work<'_>) {
        self.line(format!("idx rest = {from};"));
        for axis in (1..last).rev() {
            self.line(format!("const idx d{axis} = rest % e{axis};"));
            self.line(format!("rest /= e{axis};"));
        }
        self.line("const idx d0 = rest;");
        for p in self.reached(work) {
            let mut sum: Vec<String> = (0..last).map(|axis| format!("d{axis} * s{p}_{axis}")).collect();
            if self.variant.outer > 0 {
                sum.insert(0, format!("q{p}"));
            }
            self.line(format!("const idx u{p} = {};", sum.join(" + ")));
        }
    }

    /// Parameters that a walk reaches and that move with it.
    fn reached(&self, work: &Work<'_>) -> Vec<usize> {
        let mut reached: Vec<usize> = (work.nodes.iter())
            .filter_map(|&i| match self.body.kernel.nodes[i] {
                Node::Load { param } | Node::LoadAt { param, .. } | Node::Store { param, .. } => {
                    Some(param as usize)
                }
                _ => None,
            })
            .filter(|&p| self.moves(p))
            .collect();
        reached.sort_unstable();
        reached.dedup();
        reached
    }

    /// A run along the last axis by one work-item. `row` is the index of the run's axis in the whole space.
    fn run(&mut self, begin: &str, end: &str, row: &str, work: &Work<'_>) {
        let lanes = self.variant.lanes;
        if !self.laned() {
            if work.reductions.is_empty() {
                self.line("TL_PARALLEL");
            }
            self.open(format!("for (idx j = {begin}; j < {end}; ++j)"));
            self.point(&Point::at("j"), row, "", work);
            self.close();
            return;
        }
        self.line(format!("idx j = {begin};"));
        self.open(format!("for (; j + {lanes} <= {end}; j += {lanes})"));
        self.line("TL_PARALLEL");
        self.open(format!("for (i32 v = 0; v < {lanes}; ++v)"));
        self.line("const idx k = j + v;");
        self.point(&Point::at("k"), row, "[v]", work);
        self.close();
        self.close();
        self.open(format!("for (; j < {end}; ++j)"));
        self.point(&Point::at("j"), row, "[0]", work);
        self.close();
    }

    fn steps(&mut self, item: &str, count: &str, begin: &str, end: &str, work: &Work<'_>) {
        let (lanes, last) = (self.variant.lanes, self.variant.inner as usize - 1);
        if !self.laned() {
            self.open(format!("for (idx i = {begin} + {item}; i < {end}; i += {count})"));
            if last == 0 {
                self.point(&Point::at("i"), "0", "", work);
            } else {
                self.line(format!("const idx q = i / e{last};"));
                self.line(format!("const idx j = i - q * e{last};"));
                self.decode("q", last, work);
                self.line("const idx row = i - j;");
                self.point(&Point::at("j"), "row", "", work);
            }
            self.close();
            return;
        }
        self.line(format!("const idx packs = ({end} - {begin}) / {lanes};"));
        self.open(format!("for (idx pack = {item}; pack < packs; pack += {count})"));
        self.line(format!("const idx i = {begin} + pack * {lanes};"));
        let row = if last == 0 {
            self.line("const idx j = i;");
            "0"
        } else {
            self.line(format!("const idx q = i / e{last};"));
            self.line(format!("const idx j = i - q * e{last};"));
            self.decode("q", last, work);
            self.line("const idx row = i - j;");
            "row"
        };
        self.pack(row, work);
        self.close();
        if last == 0 {
            self.open(format!(
                "for (idx j = {begin} + packs * {lanes} + {item}; j < {end}; j += {count})"
            ));
            self.point(&Point::at("j"), "0", "[0]", work);
            self.close();
        }
    }

    /// As many neighbouring points as there are lanes, with 16-byte accesses.
    fn pack(&mut self, row: &str, work: &Work<'_>) {
        let lanes = self.variant.lanes;
        let start = Point::at("j");
        let pairs = self.is_cuda() && self.has_halves(work);
        let [loads, stores] = self.packed(work);
        for &p in &loads {
            let at = format!("p{p} + {}", self.offset(p, Some(&start)));
            if pairs && self.is_half(p) {
                self.line(format!("u32 x{p}[{}];", lanes / 2));
                self.line(format!("TL_LOAD({}, x{p}, (const u32 *)({at}));", lanes / 2));
            } else {
                let memory = scalar::memory(self.body.kernel.params[p].dtype);
                self.line(format!("{memory} x{p}[{lanes}];"));
                self.line(format!("TL_LOAD({lanes}, x{p}, {at});"));
            }
        }
        for &p in &stores {
            if pairs && self.is_half(p) {
                self.line(format!("u32 y{p}[{}];", lanes / 2));
            } else {
                let memory = scalar::memory(self.body.kernel.params[p].dtype);
                self.line(format!("{memory} y{p}[{lanes}];"));
            }
        }
        if pairs {
            self.pairs(row, work);
        } else {
            self.line("TL_UNROLL");
            self.open(format!("for (i32 v = 0; v < {lanes}; ++v)"));
            self.line("const idx k = j + v;");
            let point = Point {
                lane: Some("v"),
                ..Point::at("k")
            };
            self.point(&point, row, "[v]", work);
            self.close();
        }
        for &p in &stores {
            let at = format!("p{p} + {}", self.offset(p, Some(&start)));
            self.line(if pairs && self.is_half(p) {
                format!("TL_STORE({}, (u32 *)({at}), y{p});", lanes / 2)
            } else {
                format!("TL_STORE({lanes}, {at}, y{p});")
            });
        }
    }

    /// Parameters that a walk loads and stores in packs.
    pub(super) fn packed(&self, work: &Work<'_>) -> [Vec<usize>; 2] {
        let [mut loads, mut stores] = [Vec::new(), Vec::new()];
        for &i in work.nodes {
            match self.body.kernel.nodes[i] {
                Node::Load { param } if self.packs(param as usize) => loads.push(param as usize),
                Node::Store { param, .. } if self.packs(param as usize) => stores.push(param as usize),
                _ => {}
            }
        }
        loads.sort_unstable();
        loads.dedup();
        [loads, stores]
    }

    /// Everything that is done at one point.
    pub(super) fn point(&mut self, point: &Point<'_>, row: &str, lane: &str, work: &Work<'_>) {
        for &i in work.nodes {
            self.node(i, Some(point));
        }
        self.reduce(point, row, lane, work.reductions);
    }

    /// Takes the values at a point into the accumulators of a lane.
    pub(super) fn reduce(&mut self, point: &Point<'_>, row: &str, lane: &str, reductions: &[Reduction]) {
        for reduction in reductions {
            self.within(reduction.node, |writer| writer.take(point, row, lane, reduction));
        }
    }

    fn take(&mut self, point: &Point<'_>, row: &str, lane: &str, reduction: &Reduction) {
        let last = point.last;
        let Reduction {
            node, op, arg, dtype, ..
        } = reduction;
        let (best, value) = (format!("a{node}{lane}"), self.name_of('n', *arg, Some(point)));
        match &reduction.beats {
            Some(beats) => {
                let index = if row == "0" {
                    last.to_owned()
                } else {
                    format!("{row} + {last}")
                };
                let line = format!("TL_NEXT({beats}, {best}, j{node}{lane}, {value}, {index})");
                self.line(line);
            }
            None => {
                let sum = scalar::combined(*op, *dtype, &best, &value);
                self.line(format!("{best} = {sum};"));
            }
        }
    }

    /// The walk of a map.
    pub(super) fn map(&mut self) {
        let live: Vec<usize> = (0..self.body.live.len()).filter(|&i| self.body.live[i]).collect();
        let (row, nodes): (Vec<usize>, Vec<usize>) = live.into_iter().partition(|&i| !self.at_points(i));
        row.into_iter().for_each(|i| self.node(i, None));
        let work = Work {
            nodes: &nodes,
            reductions: &[],
        };
        if self.target.cpu && self.laned() {
            self.tiles_of_rows(&work);
        } else if self.target.cpu {
            self.line("const idx begin = (idx)TL_GROUP * length;");
            self.line("const idx end = total - begin < length ? total : begin + length;");
            self.walk(Walker::Item, "begin", "end", &work);
        } else {
            let group = self.variant.group;
            self.line(format!("const idx item = (idx)TL_GROUP * {group} + TL_ITEM;"));
            self.line(format!("const idx items = (idx)TL_GROUPS * {group};"));
            let walker = Walker::Team {
                item: "item",
                count: "items",
            };
            self.walk(walker, "0", "total", &work);
        }
    }

    /// A map whose inputs lie across: short pieces of neighbouring rows, so that a line of an input that is read down a
    /// column is still in a cache for the next row. `length` counts rows here.
    fn tiles_of_rows(&mut self, work: &Work<'_>) {
        let (tile, last) = (self.variant.lanes, self.variant.inner as usize - 1);
        self.line(format!("const idx lines = total / e{last};"));
        self.line("const idx begin = (idx)TL_GROUP * length;");
        self.line("const idx end = lines - begin < length ? lines : begin + length;");
        self.open(format!("for (idx first = 0; first < e{last}; first += {tile})"));
        self.line(format!(
            "const idx stop = e{last} - first < {tile} ? e{last} : first + {tile};"
        ));
        self.open("for (idx q = begin; q < end; ++q)");
        self.decode("q", last, work);
        self.line("TL_PARALLEL");
        self.open("for (idx j = first; j < stop; ++j)");
        self.point(&Point::at("j"), "0", "", work);
        self.close();
        self.close();
        self.close();
    }
}
