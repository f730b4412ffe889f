//! Host memory for devices that use it in place, and the account that bounds it.

use crate::status::{Error, Result};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size and alignment of a huge page in bytes.
pub const HUGE_PAGE: usize = 2 << 20;

/// Bytes reserved by one device, against which it may not reserve more than it has: systems and drivers hand out more, and
/// fail when the memory is touched.
#[derive(Debug)]
pub struct Account {
    reserved: AtomicU64,
    total: u64,
}

impl Account {
    /// An account with nothing reserved of `total` bytes.
    pub fn new(total: u64) -> Arc<Account> {
        Arc::new(Account {
            reserved: AtomicU64::new(0),
            total,
        })
    }

    /// Takes `bytes` bytes until the share is dropped.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Status::OutOfMemory) when that many are not left.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Result<Share> {
        let fits = |reserved: u64| reserved.checked_add(bytes).filter(|&sum| sum <= self.total);
        match self
            .reserved
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
        {
            Ok(_) => Ok(Share {
                account: Arc::clone(self),
                bytes,
            }),
            Err(reserved) => Err(Error::out_of_memory(format!(
                "{bytes} B more than {reserved} B exceed the device's {} B",
                self.total
            ))),
        }
    }
}

/// Bytes of an [`Account`].
#[derive(Debug)]
pub struct Share {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.account.reserved.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Anonymous zeroed pages, huge where the system gives them; taken from the system when they are first touched.
#[derive(Debug)]
pub struct Pages {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain memory; whoever holds its address orders the accesses.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `bytes` bytes, aligned to [`HUGE_PAGE`].
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Status::OutOfMemory) when the system maps no more.
    pub fn map(bytes: u64) -> Result<Pages> {
        let refused = || {
            let cause = std::io::Error::last_os_error();
            Error::out_of_memory(format!("the system maps no {bytes} B more: {cause}"))
        };
        let bytes = usize::try_from(bytes).map_err(|_| refused())?;
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
        let base = NonNull::new(aligned as *mut u8).ok_or_else(refused)?;
        Ok(Pages { base, bytes })
    }

    /// The first address.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly this range is mapped, and nothing points into it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_hands_out_what_there_is() {
        let account = Account::new(1000);
        let first = account.take(600).unwrap();
        assert!(account.take(401).is_err() && account.take(u64::MAX).is_err());
        let second = account.take(400).unwrap();
        drop((first, second));
        account.take(1000).unwrap();
    }

    #[test]
    fn pages_are_aligned_zeroed_and_writable() {
        let pages = Pages::map(3 << 20).unwrap();
        assert_eq!(pages.base().as_ptr() as usize % HUGE_PAGE, 0);
        // SAFETY: the last byte of the mapping.
        unsafe {
            let last = pages.base().as_ptr().add((3 << 20) - 1);
            assert_eq!(last.read(), 0);
            last.write(7);
            assert_eq!(last.read(), 7);
        }
        assert!(Pages::map(u64::MAX).is_err());
    }
}
