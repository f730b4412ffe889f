//! Whether this process was made by a fork: then the threads of its parent are not there, and what they had locked stays locked.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The number of this process, on a page that the system wipes in the child of a fork. Before the first look, and where there are no
/// such pages, it is [`UNKNOWN`].
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::from_ref(&UNKNOWN).cast_mut());
static UNKNOWN: AtomicU64 = AtomicU64::new(0);
/// The next number. A child goes on where its parent was.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The word that [`WORD`] points to; 0 for a process that has no number yet.
#[inline(always)]
fn word() -> &'static AtomicU64 {
    // SAFETY: a static, or a page that stays mapped.
    unsafe { &*WORD.load(Ordering::Acquire) }
}

/// A number that is the same as long as a process lives, and another in the children that it forks.
#[inline]
pub fn generation() -> u64 {
    match word().load(Ordering::Acquire) {
        0 => first(),
        known => known,
    }
}

/// Whether a number that [`generation`] gave is that of this process, and not of a parent.
#[inline(always)]
pub fn is_current(number: u64) -> bool {
    word().load(Ordering::Acquire) == number || generation() == number
}

/// The number of a process that looks for the first time, or for the first time since its fork.
#[cold]
fn first() -> u64 {
    if std::ptr::eq(word(), &raw const UNKNOWN) {
        let Some(page) = wiped_page() else {
            // Without such pages the process has its number, which costs a call of the system each time.
            return u64::from(std::process::id()) << 32;
        };
        let unknown = std::ptr::from_ref(&UNKNOWN).cast_mut();
        // Another thread's page does as well; this one then stays mapped and unused.
        let _ = WORD.compare_exchange(unknown, page, Ordering::AcqRel, Ordering::Acquire);
    }
    let number = GENERATION.fetch_add(1, Ordering::Relaxed);
    match word().compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => number,
        // Another thread was first.
        Err(known) => known,
    }
}

#[cfg(target_os = "linux")]
fn wiped_page() -> Option<*mut AtomicU64> {
    const SIZE: usize = 4096;
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a mapping of its own, which is used or left alone.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), SIZE, protection, flags, -1, 0);
        let wiped = page != libc::MAP_FAILED && libc::madvise(page, SIZE, libc::MADV_WIPEONFORK) == 0;
        wiped.then(|| page.cast())
    }
}

#[cfg(not(target_os = "linux"))]
fn wiped_page() -> Option<*mut AtomicU64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forks; the child ends with 0 if `body` holds there.
    fn in_child(body: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only looks at memory and ends.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(!body())),
                child => {
                    let mut status = 0;
                    libc::waitpid(child, &raw mut status, 0) == child && status == 0
                }
            }
        }
    }

    #[test]
    fn children_and_grandchildren_have_numbers_of_their_own() {
        let own = generation();
        assert_eq!(generation(), own);
        let differs = in_child(|| {
            let child = generation();
            child != own && generation() == child && in_child(|| generation() != child && generation() != own)
        });
        assert!(differs);
        assert_eq!(generation(), own);
    }
}
