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
        if self.line > 0 {
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
