//! Products for CUDA from tiles in shared memory, the next of which are under way while one is summed: halves on tensor cores, f32
//! by work-items.
//!
//! Packs of 16 bytes are copied without passing registers, several steps ahead. Other elements are loaded into registers before a
//! step is summed, and stored to the next step's tiles afterwards. Neither the extents of tiles nor the way of elements changes the
//! order in which an element is summed.

use super::write::Product;
use crate::variant::Step;
use crate::write::Writer;

/// How an operand comes to its tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Side {
    /// Whether neighbours along the depth lie together in the tile; neighbouring rows or columns otherwise.
    pub(super) along: bool,
    /// Whether packs of 16 bytes are copied at once, from memory where they lie together.
    pub(super) packs: bool,
}

/// A group's tiles.
pub(super) struct Tiles<'a> {
    pub(super) product: &'a Product<'a>,
    /// Rows, columns and depth.
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) part: Part,
    pub(super) sides: [Side; 2],
}

/// Rows and columns of the part of a tile that is summed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Halves by a warp on tensor cores.
    Warp(usize, usize),
    /// f32 by a work-item.
    Item(usize, usize),
}

impl Tiles<'_> {
    pub(super) fn items(&self) -> usize {
        match self.part {
            Part::Warp(m, n) => self.m / m * (self.n / n) * 32,
            Part::Item(m, n) => self.m / m * (self.n / n),
        }
    }

    /// Type of an element.
    pub(super) fn element(&self) -> &'static str {
        match self.part {
            Part::Warp(..) => "u16",
            Part::Item(..) => "f32",
        }
    }

    /// Elements in so many bytes.
    fn of_bytes(&self, bytes: usize) -> usize {
        match self.part {
            Part::Warp(..) => bytes / 2,
            Part::Item(..) => bytes / 4,
        }
    }

    /// Rows of the tile, or columns.
    fn lines(&self, side: usize) -> usize {
        [self.m, self.n][side]
    }

    /// The operands whose elements pass registers.
    fn through_registers(&self) -> impl Iterator<Item = usize> + use<> {
        let packs = self.sides.map(|side| side.packs);
        (0..2).filter(move |&side| !packs[side])
    }

    /// Steps that have tiles at a time, in the 48 KB that a program may have without asking. Elements that pass registers wait
    /// there for their step.
    fn stages(&self) -> usize {
        let most = self.of_bytes(48 * 1024) / ((self.m + self.n) * self.k);
        match self.through_registers().next() {
            None => most.clamp(2, 4),
            Some(_) => 2,
        }
    }

    /// Elements in the room of the sums that are brought to the result at once.
    fn slab(&self) -> usize {
        let (lines, pitch) = self.lines_of_sums();
        self.of_bytes(4 * lines * pitch)
    }

    /// Lines of sums that are brought to the result at once, and elements from one to the next.
    pub(super) fn lines_of_sums(&self) -> (usize, usize) {
        match self.part {
            // Rows that lanes store at once hit different banks.
            Part::Warp(m, _) => (self.m / m * 16, self.n + 8),
            Part::Item(m, _) => (self.m / m, self.n),
        }
    }

    /// Elements that an item copies at once, a pack or a word, and how often in a step.
    pub(super) fn copies(&self, side: usize) -> (usize, usize) {
        let width = self.of_bytes(if self.sides[side].packs { 16 } else { 4 });
        (width, (self.lines(side) * self.k / width).div_ceil(self.items()))
    }

    /// Where line `i` and point `l` are in an operand's tile of a stage.
    fn to(&self, side: usize, stage: &str) -> String {
        let pack = self.of_bytes(16);
        let placed = match self.sides[side].along {
            true => format!("tl_placed<{}, {pack}>(i, l)", self.k),
            false => format!("tl_placed<{}, {pack}>(l, i)", self.lines(side)),
        };
        let (all, first) = ((self.m + self.n) * self.k, side * self.m * self.k);
        format!("shared + {stage} * {all} + {first} + {placed}")
    }
}

/// Names of the operands.
const SIDES: [char; 2] = ['a', 'b'];

impl Writer<'_> {
    pub(super) fn staged(&mut self, tiles: &Tiles<'_>) {
        let &Tiles { product, m, n, k, .. } = tiles;
        let (stages, element) = (tiles.stages(), tiles.element());
        let stage = (m + n) * k;
        self.line(format!(
            "TL_LOCAL __align__(16) {element} shared[{}];",
            (stages * stage).max(tiles.slab())
        ));
        match tiles.part {
            Part::Warp(warp_m, warp_n) => {
                let across = n / warp_n;
                self.line("const i32 lane = TL_ITEM % 32, warp = TL_ITEM / 32;");
                self.line(format!(
                    "const i32 low = warp / {across} * {warp_m}, side = warp % {across} * {warp_n};"
                ));
            }
            Part::Item(_, item_n) => self.line(format!(
                "const i32 x = TL_ITEM % {0}, y = TL_ITEM / {0};",
                n / item_n
            )),
        }
        self.declare_places(tiles);
        self.tiles(product, m, n);
        let [begin, end] = product.ends();
        self.line(format!("const idx steps = ({end} - {begin} + {}) / {k};", k - 1));
        self.column_places(tiles);
        self.declare_sums(tiles);
        let (taps, copies) = (
            product.roles.taps.is_some(),
            tiles.sides.iter().any(|side| side.packs),
        );
        if taps {
            self.depth_indices(begin);
            self.depth_places(tiles, "0", "0");
            self.line("TL_BARRIER;");
            self.own_columns(tiles);
        }
        for step in 0..stages - 1 {
            self.start(tiles, &step.to_string(), &step.to_string());
            if copies {
                self.line("tl_copies_commit();");
            }
        }
        self.put(tiles, "0");
        if taps {
            self.depth_places(tiles, "1", "1");
        }
        self.line(format!("i32 now = 0, then = {};", stages - 1));
        self.open("for (idx step = 0; step < steps; ++step)");
        if copies {
            self.line(format!("tl_copies_wait<{}>();", stages - 2));
        }
        // Past it, everybody has summed the step before, whose tiles the next copies are for.
        self.line("TL_BARRIER;");
        self.start(tiles, &format!("(step + {})", stages - 1), "then");
        if copies {
            self.line("tl_copies_commit();");
        }
        if taps {
            self.depth_places(tiles, "(step + 2)", "(step & 1)");
        }
        self.line(format!(
            "const {element} *const ta = shared + now * {stage}, *const tb = ta + {};",
            m * k
        ));
        match tiles.part {
            Part::Warp(m, n) => self.multiply(tiles, m, n),
            Part::Item(m, n) => self.multiply_plainly(tiles, m, n),
        }
        self.put(tiles, "then");
        for which in ["now", "then"] {
            self.line(format!("{which} = {which} == {} ? 0 : {which} + 1;", stages - 1));
        }
        self.close();
        match tiles.part {
            Part::Warp(m, n) => self.spread(tiles, m, n),
            Part::Item(m, n) => self.spread_plainly(tiles, m, n),
        }
        self.close();
    }

    /// Declares an item's sums, and what it has loaded of a step.
    fn declare_sums(&mut self, tiles: &Tiles<'_>) {
        let (rows, columns) = match tiles.part {
            Part::Warp(m, n) => (m / 16, n / 8 * 4),
            Part::Item(m, n) => (m, n),
        };
        self.line(format!("f32 sums[{rows}][{columns}];"));
        self.line("TL_UNROLL");
        self.open(format!("for (i32 r = 0; r < {rows}; ++r)"));
        self.line("TL_UNROLL");
        self.line(format!("for (i32 c = 0; c < {columns}; ++c) sums[r][c] = 0;"));
        self.close();
        for side in tiles.through_registers() {
            let (width, count) = tiles.copies(side);
            let element = tiles.element();
            self.line(format!("{element} kept_{}[{count}][{width}];", SIDES[side]));
        }
    }

    /// Starts the copies to the tiles of a step, and loads what passes registers. `stage` are the step's tiles.
    fn start(&mut self, tiles: &Tiles<'_>, step: &str, stage: &str) {
        let (product, element) = (tiles.product, tiles.element());
        let (roles, [begin, _]) = (product.roles, product.ends());
        self.open(format!("if ({step} < steps)"));
        self.line(format!("const idx first = {begin} + {step} * {};", tiles.k));
        for side in (0..2).filter(|&side| tiles.sides[side].packs) {
            self.open_copies(tiles, side);
            let (inside, at) = self.element(tiles, side, step, ["i", "l"]);
            self.line(format!("const bool inside = {inside};"));
            let (p, to) = ([roles.left, roles.right][side], tiles.to(side, stage));
            self.line(format!("tl_copy_16({to}, p{p} + (inside ? {at} : 0), inside);"));
            self.close();
        }
        for side in tiles.through_registers() {
            if side == 1 && roles.taps.is_some() {
                self.load_taps(tiles, step);
                continue;
            }
            let p = [roles.left, roles.right][side];
            self.open_copies(tiles, side);
            let next = if tiles.sides[side].along {
                ["i", "l + 1"]
            } else {
                ["i + 1", "l"]
            };
            for (part, place) in [["i", "l"], next]
                .into_iter()
                .enumerate()
                .take(tiles.copies(side).0)
            {
                let (inside, at) = self.element(tiles, side, step, place);
                self.line(format!(
                    "kept_{}[q][{part}] = {inside} ? p{p}[{at}] : ({element})0;",
                    SIDES[side]
                ));
            }
            self.close();
        }
        self.close();
    }

    /// Opens the loop over an item's copies of a step.
    pub(super) fn open_copies(&mut self, tiles: &Tiles<'_>, side: usize) {
        let (width, count) = tiles.copies(side);
        let along = tiles.sides[side].along;
        let across = if along { tiles.k } else { tiles.lines(side) } / width;
        let [slow, fast] = if along { ["i", "l"] } else { ["l", "i"] };
        let (all, items) = (tiles.lines(side) * tiles.k / width, tiles.items());
        let mut next = String::new();
        if all < items {
            self.open(format!("if (TL_ITEM < {all})"));
        } else {
            self.line("TL_UNROLL");
            self.open(format!("for (i32 q = 0; q < {count}; ++q)"));
            next = format!(" + q * {}", items / across);
        }
        self.line(format!(
            "const i32 {slow} = TL_ITEM / {across}{next}, {fast} = TL_ITEM % {across} * {width};"
        ));
    }

    /// Whether line `i` and point `l` of a step are inside an operand that is not reached by taps, and the element's offset.
    fn element(&mut self, tiles: &Tiles<'_>, side: usize, step: &str, [i, l]: [&str; 2]) -> (String, String) {
        let product = tiles.product;
        let (roles, [_, end]) = (product.roles, product.ends());
        if side == 1 {
            let (p, column) = (roles.right, roles.columns[0]);
            return (
                format!("left + {i} < width && first + {l} < {end}"),
                format!("m{p} + (left + {i}) * t{p}_{column} + (first + {l}) * s{p}_0"),
            );
        }
        let (p, row) = (roles.left, roles.row);
        let along = if roles.taps.is_some() && self.variant.steps[p] != Step::Unit {
            self.left_along_taps(tiles, step, l)
        } else {
            self.along_left(product, "first + ", l)
        };
        (
            format!("top + {i} < height && first + {l} < {end}"),
            format!("m{p} + (top + {i}) * t{p}_{row} + {along}"),
        )
    }

    /// Stores what was loaded to the tiles of a stage.
    fn put(&mut self, tiles: &Tiles<'_>, stage: &str) {
        for side in tiles.through_registers() {
            self.open_copies(tiles, side);
            let (name, to) = (SIDES[side], tiles.to(side, stage));
            self.line(match tiles.copies(side).0 {
                2 => format!("*(u32 *)({to}) = kept_{name}[q][0] | (u32)kept_{name}[q][1] << 16;"),
                _ => format!("*({to}) = kept_{name}[q][0];"),
            });
            self.close();
        }
    }
}
