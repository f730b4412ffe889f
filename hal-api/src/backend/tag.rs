//! Where work comes from.

use crate::status::Str;
use crate::tables;
use std::fmt;

/// Where work comes from; borrowed for the duration of a call and read only when needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tag<'a>(Option<&'a tables::Tag>);

impl<'a> Tag<'a> {
    /// No tag.
    pub const NONE: Tag<'static> = Tag(None);

    /// Wraps the ABI form.
    ///
    /// # Safety
    /// The texts stay valid for `'a`.
    pub const unsafe fn new(raw: Option<&'a tables::Tag>) -> Tag<'a> {
        Tag(raw)
    }

    /// The op that the user wrote.
    pub fn op(self) -> &'a str {
        // SAFETY: `new` asks for valid texts.
        self.0.and_then(|raw| unsafe { raw.op.get() }.ok()).unwrap_or("")
    }

    /// A copy of the texts.
    pub fn to_owned(self) -> OwnedTag {
        let mut owned = OwnedTag::default();
        owned.assign(self);
        owned
    }
}

/// Whether a file of source is the standard library's. Who calls a function that was given as a value, such as `map(Tensor::relu)`, is
/// that: its lines say nothing about the program.
///
/// ```
/// use thalweg_hal::backend::is_standard_library;
/// assert!(is_standard_library("/rustc/59807616e1fa/library/core/src/ops/function.rs"));
/// assert!(!is_standard_library("src/main.rs"));
/// ```
pub fn is_standard_library(file: &str) -> bool {
    // As it is built with Rust, and from sources that were installed beside it.
    file.starts_with("/rustc/") || file.contains("/lib/rustlib/src/rust/library/")
}

/// A [`Tag`] that outlives the call.
#[derive(Clone, Debug, Default)]
pub struct OwnedTag {
    op: String,
    file: String,
    line: u32,
    node: u32,
}

impl fmt::Display for OwnedTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.op.is_empty() {
            "unnamed work"
        } else {
            &self.op
        })?;
        if self.line > 0 && !is_standard_library(&self.file) {
            write!(f, " at {}:{}", self.file, self.line)
        } else {
            Ok(())
        }
    }
}

impl OwnedTag {
    /// Becomes a copy of `tag`, in the memory that it has.
    pub fn assign(&mut self, tag: Tag<'_>) {
        // SAFETY: `Tag::new` asks for valid texts.
        let file = tag.0.and_then(|raw| unsafe { raw.file.get() }.ok());
        self.op.clear();
        self.op.push_str(tag.op());
        self.file.clear();
        self.file.push_str(file.unwrap_or(""));
        (self.line, self.node) = tag.0.map_or((0, 0), |raw| (raw.line, raw.node));
    }

    /// The ABI form; it borrows the texts without a lifetime.
    pub fn raw(&self) -> tables::Tag {
        tables::Tag {
            op: Str::new(&self.op),
            file: Str::new(&self.file),
            line: self.line,
            node: self.node,
        }
    }
}
