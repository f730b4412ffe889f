//! Arguments of calls of the tables: pointers that are asked whether they can be used.

use crate::status::{Error, Result};

/// Borrows an argument struct.
///
/// # Errors
/// `InvalidArgument`.
///
/// # Safety
/// `ptr` is null or valid for `'a`.
#[inline]
pub unsafe fn arg<'a, T>(ptr: *const T) -> Result<&'a T> {
    if !ptr.is_aligned() {
        return Err(Error::invalid_argument("an argument pointer is not aligned"));
    }
    // SAFETY: aligned, and the caller vouches for the rest.
    unsafe { ptr.as_ref() }.ok_or_else(|| Error::invalid_argument("an argument pointer is null"))
}

/// Borrows an argument struct that may be left out.
///
/// # Errors
/// `InvalidArgument`.
///
/// # Safety
/// `ptr` is null or valid for `'a`.
#[inline]
pub unsafe fn optional<'a, T>(ptr: *const T) -> Result<Option<&'a T>> {
    if ptr.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller vouches for it.
    unsafe { arg(ptr) }.map(Some)
}

/// Borrows an array argument.
///
/// # Errors
/// `InvalidArgument`.
///
/// # Safety
/// `ptr` is null or points to `len` values that are valid for `'a`.
#[inline]
pub unsafe fn array<'a, T>(ptr: *const T, len: usize) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if ptr.is_null() || !ptr.is_aligned() || len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Error::invalid_argument(format!(
            "an array of {len} is null, not aligned or too long"
        )));
    }
    // SAFETY: not null, aligned, of a possible length; the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(ptr, len) })
}

/// Writes a result.
///
/// # Errors
/// `InvalidArgument`.
///
/// # Safety
/// `out` is null or valid for writing.
#[inline]
pub unsafe fn put<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() || !out.is_aligned() {
        return Err(Error::invalid_argument("the out pointer is null or not aligned"));
    }
    // SAFETY: not null, aligned, and the caller vouches for the rest.
    unsafe { out.write(value) };
    Ok(())
}

/// Refuses a null out pointer before anything is created that would be lost.
///
/// # Errors
/// `InvalidArgument`.
#[inline]
pub fn writable<T>(out: *mut T) -> Result<()> {
    if out.is_null() || !out.is_aligned() {
        return Err(Error::invalid_argument("the out pointer is null or not aligned"));
    }
    Ok(())
}
