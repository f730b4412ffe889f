//! What stands around a routine's statements: helpers, types, entries with their arguments, loops over units of work.

use super::{Text, Writer};
use crate::words::{self, Declaration};
use crate::{Dialect, Source, Target, scalar};
use thalweg_hal::ir::{Node, Role};

/// What the programs of a routine have besides a kernel's parameters.
pub(crate) struct Outline {
    /// The routine's own words.
    pub(crate) own: Vec<Declaration>,
    /// A word that has another value in each pass.
    pub(crate) last: Option<Declaration>,
    /// Whether entries take scratch memory.
    pub(crate) scratch: bool,
    /// Number of entries.
    pub(crate) entries: u32,
    /// Whether the statements call functions of `cuda_matrix.cu`.
    pub(crate) matrices: bool,
}

/// A name as C takes it.
fn sanitized(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(keep).collect()
}

/// The helpers of a dialect.
pub(crate) fn preamble(text: &mut Text, target: &Target, fp64: bool, philox: bool, matrices: bool) {
    match target.dialect {
        Dialect::OpenClC => {
            text.raw(include_str!("../prelude/opencl.cl"));
            text.raw(if target.cpu {
                include_str!("../prelude/opencl_f16.cl")
            } else {
                include_str!("../prelude/opencl_f16_native.cl")
            });
            if fp64 {
                text.raw(include_str!("../prelude/opencl_f64.cl"));
            }
        }
        Dialect::CudaC => {
            text.raw(include_str!("../prelude/cuda.cu"));
            text.raw(include_str!("../prelude/cuda_f16.cu"));
            if matrices {
                text.raw(include_str!("../prelude/cuda_matrix.cu"));
            }
        }
    }
    text.raw(&scalar::functions(target.dialect, fp64));
    text.raw(include_str!("../prelude/scalar.h"));
    if fp64 {
        text.raw(include_str!("../prelude/scalar_f64.h"));
    }
    if philox {
        text.raw(include_str!("../prelude/philox.h"));
    }
    text.line("/* end of helpers */");
}

impl Outline {
    /// One entry, without scratch memory.
    pub(crate) fn of(own: Vec<Declaration>) -> Outline {
        Outline {
            own,
            last: None,
            scratch: false,
            entries: 1,
            matrices: false,
        }
    }
}

impl Writer<'_> {
    /// Writes a program: what `head` adds to the helpers, and for each entry the statements that `body` writes.
    pub(crate) fn program(
        mut self,
        outline: Outline,
        head: impl FnOnce(&mut Self),
        mut body: impl FnMut(&mut Self, u32),
    ) -> Source {
        let mut declarations = outline.own;
        words::declare(self.body, self.variant, &mut declarations);
        declarations.extend(outline.last);
        let pointers = self.body.kernel.params.len();
        // Pointers and words fit the device's limit on arguments.
        let by_value = 8 * (declarations.len() + pointers + 1) <= self.target.argument_bytes as usize;
        self.head(by_value.then_some(declarations.len()), outline.matrices);
        head(&mut self);
        let name = sanitized(&self.body.kernel.name);
        let entries: Vec<String> = (0..outline.entries)
            .map(|entry| format!("tl_{name}_{entry}"))
            .collect();
        for (number, entry) in (0..).zip(&entries) {
            self.open_entry(entry, outline.scratch, &declarations, by_value);
            body(&mut self, number);
            self.close();
        }
        let (text, lines) = self.text.finish();
        Source {
            text,
            lines,
            entries,
            pointers,
            words_by_value: by_value,
        }
    }

    /// Helpers and types; that of the words where they are an argument by value.
    fn head(&mut self, words: Option<usize>, matrices: bool) {
        let is_rand = |node: &Node| matches!(node, Node::Rand { .. });
        let philox = self.body.kernel.nodes.iter().any(is_rand);
        preamble(&mut self.text, self.target, self.body.fp64, philox, matrices);
        self.line(format!("/* {} */", self.body.kernel.name));
        let index = if self.variant.wide { "i64" } else { "i32" };
        self.line(format!("typedef {index} idx;"));
        self.line(format!("enum {{ TL_ITEMS = {} }};", self.variant.group));
        if let Some(count) = words {
            self.line(format!("typedef struct {{ i64 at[{count}]; }} tl_words;"));
        }
    }

    /// Opens an entry and names its words.
    fn open_entry(&mut self, entry: &str, scratch: bool, declarations: &[Declaration], by_value: bool) {
        let restrict = self.restrict();
        let mut arguments = Vec::new();
        for (p, param) in self.body.kernel.params.iter().enumerate() {
            let constant = if param.role == Role::In { "const " } else { "" };
            let memory = scalar::memory(param.dtype);
            arguments.push(format!("TL_GLOBAL {constant}{memory} *{restrict} b{p}"));
        }
        if scratch {
            arguments.push("TL_GLOBAL char *scratch".to_owned());
        }
        arguments.push(match (by_value, self.is_cuda()) {
            (true, false) => "const tl_words words".to_owned(),
            (true, true) => "const __grid_constant__ tl_words words".to_owned(),
            (false, _) => "TL_GLOBAL const i64 *words".to_owned(),
        });
        let bound = if self.is_cuda() {
            format!(" __launch_bounds__({})", self.variant.group)
        } else {
            String::new()
        };
        self.open(format!("TL_KERNEL void{bound} {entry}({})", arguments.join(", ")));
        for (at, Declaration { before, after }) in declarations.iter().enumerate() {
            let value = if by_value {
                format!("words.at[{at}]")
            } else {
                format!("words[{at}]")
            };
            self.line(format!("{before}{value}{after}"));
        }
    }

    /// The loop over rows, or over pieces of them.
    pub(crate) fn units(&mut self, by_group: bool, units: &str) {
        let group = self.variant.group;
        if self.target.cpu {
            // Runs of rows that lie together.
            self.line("const idx groups = (idx)TL_GROUPS;");
            self.line(format!("const idx run = ({units} + groups - 1) / groups;"));
            self.line("const idx from = (idx)TL_GROUP * run;");
            self.line(format!(
                "const idx to = {units} - from < run ? {units} : from + run;"
            ));
            self.open("for (idx unit = from; unit < to; ++unit)");
        } else if by_group {
            let line = format!("for (idx unit = (idx)TL_GROUP; unit < {units}; unit += (idx)TL_GROUPS)");
            self.open(line);
        } else {
            self.line(format!("const idx items = (idx)TL_GROUPS * {group};"));
            let first = format!("(idx)TL_GROUP * {group} + TL_ITEM");
            self.open(format!("for (idx unit = {first}; unit < {units}; unit += items)"));
        }
    }

    /// The row and the piece of it that a unit is.
    pub(crate) fn row_and_piece(&mut self) {
        self.line("const idx r = unit / chunks;");
        self.line("const idx piece = unit - r * chunks;");
    }

    /// Where a piece begins and ends.
    pub(crate) fn ends_of_piece(&mut self) {
        self.line("const idx begin = piece * length;");
        self.line("const idx end = total - begin < length ? total : begin + length;");
    }

    /// The indices of row `from` along the first `axes` axes.
    pub(crate) fn row_indices(&mut self, from: &str, axes: usize) {
        if axes == 0 {
            return;
        }
        self.line(format!("idx row_rest = {from};"));
        for axis in (1..axes).rev() {
            self.line(format!("const idx r{axis} = row_rest % o{axis};"));
            self.line(format!("row_rest /= o{axis};"));
        }
        self.line("const idx r0 = row_rest;");
    }

    /// Names the offset of each parameter at the indices along `axes`.
    pub(crate) fn offsets(&mut self, name: char, params: impl IntoIterator<Item = usize>, axes: &[usize]) {
        for p in params {
            let terms: Vec<String> = axes.iter().map(|axis| format!("r{axis} * t{p}_{axis}")).collect();
            let sum = if terms.is_empty() {
                "0".to_owned()
            } else {
                terms.join(" + ")
            };
            self.line(format!("const idx {name}{p} = {sum};"));
        }
    }

    /// Indices of row `r` along the first `batch` axes, and the offsets of `params` there.
    pub(crate) fn batch_row(&mut self, batch: usize, params: &[usize]) {
        self.row_indices("r", batch);
        let axes: Vec<usize> = (0..batch).collect();
        self.offsets('q', params.iter().copied(), &axes);
    }
}
