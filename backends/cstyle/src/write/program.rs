//! What stands around the statements: helpers, types, entries and their arguments.

use super::Writer;
use crate::variant::{Form, Word, words};
use crate::{Dialect, Target, scalar};
use thalweg_hal::ir::{Node, Role};

/// Lines of source.
#[derive(Default)]
pub(crate) struct Text {
    text: String,
    depth: usize,
}

impl Text {
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if !line.starts_with('#') {
            (0..self.depth).for_each(|_| self.text.push_str("    "));
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A line that ends in `{`; the brace alone after an empty line.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        self.line(if line.is_empty() {
            "{".to_owned()
        } else {
            format!("{line} {{")
        });
        self.depth += 1;
    }

    pub(crate) fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    pub(crate) fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }
}

/// A name as C takes it.
pub(crate) fn sanitized(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(keep).collect()
}

/// The helpers of a dialect.
pub(crate) fn preamble(text: &mut Text, target: &Target, fp64: bool, philox: bool) {
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

impl Writer<'_> {
    fn word_count(&self) -> usize {
        let mut count = 0;
        words(self.body, self.variant, |_| count += 1);
        count
    }

    /// Whether pointers and words fit the device's limit on arguments.
    pub(super) fn words_by_value(&self) -> bool {
        let pointers = self.body.kernel.params.len() + 1;
        8 * (self.word_count() + pointers) <= self.target.argument_bytes as usize
    }

    pub(super) fn head(&mut self, by_value: bool) {
        let philox = self
            .body
            .kernel
            .nodes
            .iter()
            .any(|node| matches!(node, Node::Rand { .. }));
        preamble(&mut self.text, self.target, self.body.fp64, philox);
        self.text.line(format!("/* {} */", self.body.kernel.name));
        self.text.line(format!(
            "typedef {} idx;",
            if self.variant.wide { "i64" } else { "i32" }
        ));
        self.text
            .line(format!("enum {{ TL_ITEMS = {} }};", self.variant.group));
        if by_value {
            let count = self.word_count();
            self.text
                .line(format!("typedef struct {{ i64 at[{count}]; }} tl_words;"));
        }
    }

    /// Whether entries take scratch memory.
    pub(super) fn scratch(&self) -> bool {
        matches!(
            self.variant.form,
            Form::Rows { split: true, .. }
                | Form::Product { split: true, .. }
                | Form::Axis { split: true }
                | Form::Sort { long: true }
        )
    }

    /// Opens an entry and names its words.
    pub(super) fn open(&mut self, entry: &str, by_value: bool) {
        let restrict = self.restrict();
        let mut arguments = Vec::new();
        for (p, param) in self.body.kernel.params.iter().enumerate() {
            let constant = if param.role == Role::In { "const " } else { "" };
            let memory = scalar::memory(param.dtype);
            arguments.push(format!("TL_GLOBAL {constant}{memory} *{restrict} b{p}"));
        }
        if self.scratch() {
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
        self.text
            .open(format!("TL_KERNEL void{bound} {entry}({})", arguments.join(", ")));
        let mut lines = Vec::new();
        words(self.body, self.variant, |word| {
            let at = lines.len();
            let at = if by_value {
                format!("words.at[{at}]")
            } else {
                format!("words[{at}]")
            };
            lines.push(self.named(word, &at));
        });
        lines.into_iter().for_each(|line| self.text.line(line));
    }

    fn named(&self, word: Word, at: &str) -> String {
        match word {
            Word::Rows => format!("const idx rows = (idx){at};"),
            Word::Total => format!("const idx total = (idx){at};"),
            Word::Chunks => format!("const idx chunks = (idx){at};"),
            Word::Length => format!("const idx length = (idx){at};"),
            Word::Tap(part) => {
                let name = ["fc", "fd", "fs", "by"][part % 4];
                format!("const idx {name}{} = (idx){at};", part / 4)
            }
            Word::Along => format!("const idx along = (idx){at};"),
            Word::Flip => format!("const tl_order flip = (tl_order){at};"),
            Word::Room(room) => {
                let (name, of) = room.named();
                format!("TL_GLOBAL {of} *const {name} = (TL_GLOBAL {of} *)(scratch + {at});")
            }
            Word::Round => format!("const i32 round = (i32){at};"),
            Word::MatrixRows => format!("const idx height = (idx){at};"),
            Word::MatrixColumns => format!("const idx width = (idx){at};"),
            Word::Outer(axis) => format!("const idx o{axis} = (idx){at};"),
            Word::Inner(axis) => format!("const idx e{axis} = (idx){at};"),
            Word::Offset(p) => {
                let constant = if self.is_output(p) { "" } else { "const " };
                let memory = scalar::memory(self.body.kernel.params[p].dtype);
                let (pointer, bytes) = (
                    format!("TL_GLOBAL {constant}{memory} *"),
                    format!("TL_GLOBAL {constant}char *"),
                );
                format!("{pointer}const p{p} = ({pointer})(({bytes})b{p} + {at});")
            }
            Word::OuterStride(p, axis) => format!("const idx t{p}_{axis} = (idx){at};"),
            Word::InnerStride(p, axis) => format!("const idx s{p}_{axis} = (idx){at};"),
            Word::GatherStride(p) => format!("const idx gs{p} = (idx){at};"),
            Word::GatherExtent(p) => format!("const u64 ge{p} = (u64){at};"),
            Word::Scalar(index) => format!("const u64 c{index} = (u64){at};"),
        }
    }
}
