//! Where work comes from, kept as a number.

use super::table::Fast;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use thalweg_hal::kit::args::optional;
use thalweg_hal::tables::Tag;

/// The number of a site; 0 where nothing is known.
pub(super) type SiteId = u32;

/// An op and the line that called it.
#[derive(Debug)]
struct Site {
    op: Box<str>,
    file: Box<str>,
    line: u32,
}

/// The sites that were seen.
#[derive(Debug, Default)]
pub(super) struct Sites {
    list: Vec<Site>,
    // By a hash of op, file and line.
    index: HashMap<u64, SiteId, BuildHasherDefault<Fast>>,
}

/// Most sites that are kept: a program that makes up names must not fill the memory.
const MOST: usize = 1 << 16;

impl Sites {
    /// The number of what a tag names.
    ///
    /// # Safety
    /// `tag` is null or valid.
    pub(super) unsafe fn of(&mut self, tag: *const Tag) -> SiteId {
        // SAFETY: the caller vouches for it.
        let Ok(Some(tag)) = (unsafe { optional(tag) }) else {
            return 0;
        };
        // SAFETY: as above.
        let (op, file) = unsafe {
            (
                tag.op.get().unwrap_or_default(),
                tag.file.get().unwrap_or_default(),
            )
        };
        if op.is_empty() && file.is_empty() {
            return 0;
        }
        self.number(op, file, tag.line)
    }

    fn number(&mut self, op: &str, file: &str, line: u32) -> SiteId {
        let mut key = hash(hash(u64::from(line), op.as_bytes()), file.as_bytes());
        while let Some(&number) = self.index.get(&key) {
            let site = &self.list[number as usize - 1];
            if *site.op == *op && *site.file == *file && site.line == line {
                return number;
            }
            key = key.wrapping_add(1);
        }
        if self.list.len() == MOST {
            return 0;
        }
        self.list.push(Site {
            op: op.into(),
            file: file.into(),
            line,
        });
        let number = self.list.len() as SiteId;
        self.index.insert(key, number);
        number
    }

    /// `matmul at src/net.rs:41`.
    pub(super) fn text(&self, site: SiteId) -> String {
        let Some(site) = site.checked_sub(1).and_then(|at| self.list.get(at as usize)) else {
            return "work without a tag".into();
        };
        let op = if site.op.is_empty() { "work" } else { &site.op };
        match site.file.is_empty() {
            true => op.to_owned(),
            false => format!("{op} at {}:{}", site.file, site.line),
        }
    }

    /// ` (made by matmul at src/net.rs:41)`, or nothing.
    pub(super) fn maker(&self, site: SiteId) -> String {
        match site {
            0 => String::new(),
            site => format!(" (made by {})", self.text(site)),
        }
    }
}

fn hash(start: u64, bytes: &[u8]) -> u64 {
    let mix = |state: u64, word: u64| (state.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    let mut chunks = bytes.chunks_exact(8);
    let mut state = mix(start, bytes.len() as u64);
    for chunk in &mut chunks {
        state = mix(state, u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
    }
    (chunks.remainder().iter()).fold(state, |state, &byte| mix(state, byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sites_have_one_number() {
        let mut sites = Sites::default();
        let first = sites.number("matmul", "src/net.rs", 41);
        assert_eq!(sites.number("matmul", "src/net.rs", 41), first);
        assert_ne!(sites.number("matmul", "src/net.rs", 42), first);
        assert_eq!(sites.text(first), "matmul at src/net.rs:41");
        assert_eq!(sites.text(0), "work without a tag");
    }
}
