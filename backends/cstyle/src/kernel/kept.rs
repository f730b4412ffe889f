//! Rows whose elements stay in registers between their walks: what one walk loads or computes, later ones take.

use super::walk::Work;
use crate::body::{Body, Reduction};
use crate::scalar;
use crate::write::{Point, Writer};
use thalweg_hal::DType;
use thalweg_hal::ir::{Level, Node};

/// Packs that a work-item walks of a row, at most.
pub(super) const PACKS: u64 = 4;
/// Bytes of registers that a work-item keeps, at most.
const MOST_BYTES: usize = 192;

/// What each walk of a row computes, keeps for later ones, and takes from earlier ones: one for each stage of reductions, and that of
/// the stores.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    walks: Vec<Walk>,
    /// Bytes that are kept of an element.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Walk {
    nodes: Vec<usize>,
    kept: Vec<usize>,
    taken: Vec<usize>,
}

impl Kept {
    pub(crate) fn of(body: &Body) -> Kept {
        let element = |i: usize| body.info.levels[i] == Level::Element;
        let mut kept = Kept::default();
        let mut walk_of: Vec<Option<usize>> = vec![None; body.live.len()];
        for stage in 0..=body.depth() {
            let roots = match stage < body.depth() {
                true => body.reductions(stage).iter().map(|of| of.arg).collect(),
                false => body.stores(Level::Element),
            };
            let nodes = body.closure(&roots, |i| element(i) && walk_of[i].is_none());
            let args = nodes.iter().flat_map(|&i| body.kernel.nodes[i].args());
            let mut taken: Vec<usize> = (args.map(|arg| arg.index()).chain(roots))
                .filter(|&i| element(i) && walk_of[i].is_some())
                .collect();
            taken.sort_unstable();
            taken.dedup();
            for &i in &taken {
                let Some(from) = walk_of[i].map(|from| &mut kept.walks[from]) else {
                    continue;
                };
                if !from.kept.contains(&i) {
                    from.kept.push(i);
                    kept.bytes += body.info.dtypes[i].map_or(0, |dtype| dtype.size().max(4));
                }
            }
            for &i in &nodes {
                // An index is nearer than a register.
                if !matches!(body.kernel.nodes[i], Node::Index { .. }) {
                    walk_of[i] = Some(kept.walks.len());
                }
            }
            kept.walks.push(Walk {
                nodes,
                kept: Vec::new(),
                taken,
            });
        }
        kept
    }

    /// Whether there is something to keep, and registers for it.
    pub(super) fn pays(&self, lanes: u8) -> bool {
        let bytes = self.bytes * PACKS as usize * usize::from(lanes);
        (1..=MOST_BYTES).contains(&bytes)
    }
}

/// Type of a value that is kept; stores have none.
fn register(body: &Body, node: usize) -> &'static str {
    scalar::register(body.info.dtypes[node].unwrap_or(DType::Bool))
}

impl Writer<'_> {
    /// The walk of a stage, or the one of the stores.
    pub(super) fn walk_kept(&mut self, stage: u32, reductions: &[Reduction]) {
        let body = self.body;
        let walk = &body.kept.walks[stage as usize];
        let lanes = self.variant.lanes;
        for &i in &walk.kept {
            let register = register(body, i);
            self.line(format!("{register} h{i}[{PACKS}][{lanes}];"));
        }
        self.open("");
        let work = Work {
            nodes: &walk.nodes,
            reductions,
        };
        let [loads, stores] = self.packed(&work);
        for &p in &loads {
            let memory = scalar::memory(body.kernel.params[p].dtype);
            self.line(format!("{memory} x{p}[{PACKS}][{lanes}];"));
        }
        if !loads.is_empty() {
            // All loads are under way before the first is waited for.
            self.each_pack();
            for &p in &loads {
                let at = self.offset(p, Some(&Point::at("j")));
                self.line(format!("TL_LOAD({lanes}, x{p}[t], p{p} + {at});"));
            }
            self.close();
            self.close();
        }
        self.each_pack();
        for &p in &stores {
            let memory = scalar::memory(body.kernel.params[p].dtype);
            self.line(format!("{memory} y{p}[{lanes}];"));
        }
        self.line("TL_UNROLL");
        self.open(format!("for (i32 v = 0; v < {lanes}; ++v)"));
        self.line("const idx k = j + v;");
        for &i in &walk.taken {
            let register = register(body, i);
            self.line(format!("const {register} n{i} = h{i}[t][v];"));
        }
        let point = Point {
            lane: Some("v"),
            pack: "[t]",
            ..Point::at("k")
        };
        self.point(&point, "0", "[v]", &work);
        for &i in &walk.kept {
            self.line(format!("h{i}[t][v] = n{i};"));
        }
        self.close();
        for &p in &stores {
            let at = self.offset(p, Some(&Point::at("j")));
            self.line(format!("TL_STORE({lanes}, p{p} + {at}, y{p});"));
        }
        self.close();
        self.close();
        self.close();
    }

    /// Opens the loop over an item's packs, and what is done where a pack is within the row.
    fn each_pack(&mut self) {
        let lanes = self.variant.lanes;
        self.line("TL_UNROLL");
        self.open(format!("for (i32 t = 0; t < {PACKS}; ++t)"));
        self.line(format!("const idx j = (TL_ITEM + t * TL_ITEMS) * {lanes};"));
        self.open("if (j < total)");
    }
}
