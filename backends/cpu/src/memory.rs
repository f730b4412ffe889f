//! Host memory as device memory: huge pages where the system gives them, copies and fills.

use crate::parallel::Parallel;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_hal::kit::host_device::memory_info;
use thalweg_hal::{Error, Result};

/// Size and alignment of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// Copies and fills are split into pieces of this many bytes when they are large.
const PIECE: usize = 1 << 20;

/// Memory reserved by one device, against which it may not reserve more than the machine has.
#[derive(Debug)]
pub struct Account {
    reserved: AtomicU64,
    total: u64,
}

impl Account {
    /// An account with nothing reserved of the machine's memory.
    pub fn open() -> Result<Account> {
        Ok(Account {
            reserved: AtomicU64::new(0),
            total: memory_info()?.total,
        })
    }
}

/// A range of host addresses.
pub struct Chunk {
    base: NonNull<u8>,
    // Length and account of what is unmapped on drop; none for imported memory.
    mapped: Option<(usize, Arc<Account>)>,
}

// SAFETY: plain memory; the streams order all accesses to it.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// Maps `bytes` bytes, aligned to a huge page. Pages are taken from the system when they are first touched.
    pub fn map(bytes: u64, account: &Arc<Account>) -> Result<Chunk> {
        let full = || {
            Error::out_of_memory(format!(
                "{bytes} B more than {} B exceed the machine's {} B",
                account.reserved.load(Ordering::Relaxed),
                account.total
            ))
        };
        let taken = account.reserved.fetch_add(bytes, Ordering::Relaxed);
        let chunk = if taken.checked_add(bytes).is_none_or(|sum| sum > account.total) {
            Err(full())
        } else {
            usize::try_from(bytes).map_err(|_| full()).and_then(map_aligned)
        };
        match chunk {
            Ok(base) => Ok(Chunk {
                base,
                mapped: Some((bytes as usize, Arc::clone(account))),
            }),
            Err(error) => {
                account.reserved.fetch_sub(bytes, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Memory that somebody else owns.
    pub fn import(base: NonNull<u8>) -> Chunk {
        Chunk { base, mapped: None }
    }

    /// The first address.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some((bytes, account)) = &self.mapped {
            // SAFETY: `map_aligned` mapped exactly this range, and nothing points into it any more.
            unsafe { libc::munmap(self.base.as_ptr().cast(), *bytes) };
            account.reserved.fetch_sub(*bytes as u64, Ordering::Relaxed);
        }
    }
}

fn map_aligned(bytes: usize) -> Result<NonNull<u8>> {
    let refused = || {
        let cause = std::io::Error::last_os_error();
        Error::out_of_memory(format!("the system maps no {bytes} B more: {cause}"))
    };
    let padded = bytes.checked_add(HUGE_PAGE).ok_or_else(refused)?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh anonymous mapping touches no memory of ours.
    let raw = unsafe { libc::mmap(std::ptr::null_mut(), padded, protection, flags, -1, 0) };
    if raw == libc::MAP_FAILED {
        return Err(refused());
    }
    let start = raw as usize;
    let aligned = start.next_multiple_of(HUGE_PAGE);
    let end = (aligned + bytes).next_multiple_of(4096);
    // SAFETY: both ends lie inside the mapping and outside the part that is kept.
    unsafe {
        if aligned > start {
            libc::munmap(raw, aligned - start);
        }
        if start + padded > end {
            libc::munmap(end as *mut libc::c_void, start + padded - end);
        }
        #[cfg(target_os = "linux")]
        libc::madvise(aligned as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE);
    }
    NonNull::new(aligned as *mut u8).ok_or_else(refused)
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
    fn chunks_are_aligned_zeroed_and_counted() {
        let account = Arc::new(Account::open().unwrap());
        let chunk = Chunk::map(3 << 20, &account).unwrap();
        assert_eq!(chunk.base() as usize % HUGE_PAGE, 0);
        // SAFETY: the chunk has these bytes.
        unsafe {
            chunk.base().add((3 << 20) - 1).write(7);
            assert_eq!(chunk.base().add((3 << 20) - 1).read(), 7);
        }
        assert_eq!(account.reserved.load(Ordering::Relaxed), 3 << 20);
        assert!(Chunk::map(account.total, &account).is_err());
        assert!(Chunk::map(u64::MAX, &account).is_err());
        drop(chunk);
        assert_eq!(account.reserved.load(Ordering::Relaxed), 0);
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
