//! Host memory as device memory: huge pages where the system gives them, copies and fills.

use crate::parallel::Parallel;
use std::ptr::NonNull;
use std::sync::Arc;
use thalweg_hal::Result;
use thalweg_hal::kit::pages::{Account, Pages, Share};

/// Copies and fills are split into pieces of this many bytes when they are large.
const PIECE: usize = 1 << 20;

/// A range of host addresses.
pub struct Chunk {
    base: NonNull<u8>,
    // None for imported memory.
    _mapped: Option<(Pages, Share)>,
}

// SAFETY: plain memory; the streams order all accesses to it.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Maps `bytes` bytes, aligned to a huge page. Pages are taken from the system when they are first touched.
    pub fn map(bytes: u64, account: &Arc<Account>) -> Result<Chunk> {
        let share = account.take(bytes)?;
        let pages = Pages::map(bytes)?;
        Ok(Chunk {
            base: pages.base(),
            _mapped: Some((pages, share)),
        })
    }

    /// Memory that somebody else owns.
    pub fn import(base: NonNull<u8>) -> Chunk {
        Chunk { base, _mapped: None }
    }

    /// The first address.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

#[derive(Clone, Copy)]
struct Span(*mut u8);
// SAFETY: handed to pieces that touch disjoint ranges.
unsafe impl Sync for Span {}

impl Span {
    fn at(&self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }
}

/// Copies `rows` rows of `width` bytes.
///
/// # Safety
/// Both ranges are valid and do not overlap.
pub unsafe fn copy(
    dst: (*mut u8, usize),
    src: (*const u8, usize),
    width: usize,
    rows: usize,
    parallel: &dyn Parallel,
) {
    let (to, from) = (Span(dst.0), Span(src.0.cast_mut()));
    let contiguous = rows == 1 || (dst.1 == width && src.1 == width);
    let (width, rows, pitches) = if contiguous {
        (width * rows, 1, (0, 0))
    } else {
        (width, rows, (dst.1, src.1))
    };
    let pieces = width.div_ceil(PIECE);
    let piece = |index: usize| {
        let (row, column) = (index / pieces, index % pieces * PIECE);
        let len = PIECE.min(width - column);
        // SAFETY: the caller vouches for both ranges; pieces are disjoint.
        unsafe {
            let (to, from) = (to.at(row * pitches.0 + column), from.at(row * pitches.1 + column));
            std::ptr::copy_nonoverlapping(from.cast_const(), to, len);
        }
    };
    spread(pieces * rows, width * rows, &piece, parallel);
}

/// Fills `bytes` bytes, a multiple of `pattern_bytes`, with the pattern.
///
/// # Safety
/// The range is valid.
pub unsafe fn fill(
    dst: *mut u8,
    bytes: usize,
    pattern: [u8; 8],
    pattern_bytes: usize,
    parallel: &dyn Parallel,
) {
    let to = Span(dst);
    let piece = |index: usize| {
        let start = index * PIECE;
        let len = PIECE.min(bytes - start);
        // SAFETY: the caller vouches for the range; pieces are disjoint. A piece is a multiple of every pattern's size,
        // and the pattern comes repeated to 8 bytes.
        unsafe {
            let to = to.at(start);
            if pattern_bytes == 1 {
                to.write_bytes(pattern[0], len);
                return;
            }
            let (words, rest) = (len / 8, len % 8);
            for word in 0..words {
                to.add(word * 8).cast::<[u8; 8]>().write_unaligned(pattern);
            }
            std::ptr::copy_nonoverlapping(pattern.as_ptr(), to.add(words * 8), rest);
        }
    };
    spread(bytes.div_ceil(PIECE), bytes, &piece, parallel);
}

fn spread(pieces: usize, bytes: usize, piece: &(dyn Fn(usize) + Sync), parallel: &dyn Parallel) {
    if bytes <= PIECE {
        (0..pieces).for_each(piece);
    } else {
        parallel.run(pieces, piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::Serial;

    #[test]
    fn chunks_are_counted() {
        let account = Account::new(4 << 20);
        let chunk = Chunk::map(3 << 20, &account).unwrap();
        assert!(Chunk::map(2 << 20, &account).is_err());
        assert!(Chunk::map(u64::MAX, &account).is_err());
        drop(chunk);
        assert!(Chunk::map(4 << 20, &account).is_ok());
    }

    #[test]
    fn copies_and_fills() {
        let source: Vec<u8> = (0..5_000_000_u32).map(|i| i as u8 ^ (i >> 8) as u8).collect();
        let mut target = vec![0_u8; source.len()];
        // SAFETY: both vectors have these lengths.
        unsafe {
            copy(
                (target.as_mut_ptr(), 0),
                (source.as_ptr(), 0),
                source.len(),
                1,
                &Serial,
            )
        };
        assert_eq!(source, target);
        let mut target = vec![0_u8; 100];
        // SAFETY: 7 rows of 10 bytes, 12 and 20 bytes apart.
        unsafe { copy((target.as_mut_ptr(), 12), (source.as_ptr(), 20), 10, 7, &Serial) };
        for (row, (to, from)) in target.chunks(12).zip(source.chunks(20)).take(7).enumerate() {
            assert_eq!(to[..10], from[..10], "row {row}");
            assert!(to[10..].iter().all(|&byte| byte == 0));
        }
        let mut target = vec![0_u8; 3_000_004];
        // SAFETY: the vector has this length.
        unsafe {
            fill(
                target.as_mut_ptr(),
                target.len(),
                [1, 2, 3, 4, 1, 2, 3, 4],
                4,
                &Serial,
            )
        };
        assert!(
            target
                .iter()
                .enumerate()
                .all(|(i, &byte)| usize::from(byte) == i % 4 + 1)
        );
    }
}
