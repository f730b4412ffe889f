//! Whether this process was made by a fork: then the threads of its parent are not there, and what they had locked stays locked.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A word on a page that the system wipes in the child of a fork; null until the first look.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
static GENERATION: AtomicU64 = AtomicU64::new(1);

const WIPED: u32 = 0;
const KNOWN: u32 = 1;
const COUNTING: u32 = 2;

/// A number that is the same as long as a process lives, and another in the children that it forks.
#[inline]
pub fn generation() -> u64 {
    let word = WORD.load(Ordering::Acquire);
    // SAFETY: null or the word, which stays mapped.
    match unsafe { word.as_ref() } {
        Some(word) if word.load(Ordering::Acquire) == KNOWN => GENERATION.load(Ordering::Relaxed),
        Some(word) => count(word),
        None => first(),
    }
}

/// The generation of a process that looks for the first time since its fork.
#[cold]
fn count(word: &AtomicU32) -> u64 {
    let order = Ordering::AcqRel;
    if word
        .compare_exchange(WIPED, COUNTING, order, Ordering::Acquire)
        .is_ok()
    {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        word.store(KNOWN, Ordering::Release);
    }
    while word.load(Ordering::Acquire) != KNOWN {
        std::hint::spin_loop();
    }
    GENERATION.load(Ordering::Relaxed)
}

#[cold]
fn first() -> u64 {
    let Some(page) = wiped_page() else {
        // Without such pages the process has its number, which costs a call of the system each time.
        return u64::from(std::process::id()) << 32;
    };
    let null = std::ptr::null_mut();
    // SAFETY: the page is this function's own until it is published.
    unsafe { (*page).store(KNOWN, Ordering::Relaxed) };
    // Another thread's page does as well; this one then stays mapped and unused.
    let _ = WORD.compare_exchange(null, page, Ordering::AcqRel, Ordering::Acquire);
    generation()
}

#[cfg(target_os = "linux")]
fn wiped_page() -> Option<*mut AtomicU32> {
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
fn wiped_page() -> Option<*mut AtomicU32> {
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
