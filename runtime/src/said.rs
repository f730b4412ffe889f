//! What a backend says of itself, within bounds: a wrong number must cost neither time nor memory, and no text may end a line.

use std::ops::RangeInclusive;
use thalweg_hal::tables::Context;

/// Most devices of a backend.
const MAX_DEVICES: u32 = 4096;
/// Most bytes of an error's text.
const MAX_TEXT: usize = 64 << 10;

/// A text that is padded with zeros.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A number of devices, or what is wrong with it.
pub(crate) fn count(devices: u32) -> Result<u32, String> {
    match devices <= MAX_DEVICES {
        true => Ok(devices),
        false => Err(format!(
            "it says that it has {devices} devices; at most {MAX_DEVICES} are believed"
        )),
    }
}

/// Priorities of streams from lowest to highest; both numbers where they come the other way round.
pub(crate) fn priorities(low: i32, high: i32) -> RangeInclusive<i32> {
    low.min(high)..=low.max(high)
}

/// The text of the last error of this thread; `None` where there is none.
///
/// # Safety
/// `function` is the [`last_error`](thalweg_hal::tables::CoreTable::last_error) of the backend with this context.
pub(crate) unsafe fn last_error(
    function: unsafe extern "C" fn(Context, *mut u8, usize) -> usize,
    context: Context,
) -> Option<String> {
    let mut text = vec![0_u8; 512];
    // SAFETY: the caller vouches for it; the buffer has the capacity that is passed.
    let mut len = unsafe { function(context, text.as_mut_ptr(), text.len()) };
    if len > text.len() {
        // Once more with room for it; a text that has grown meanwhile, or is longer than any, loses its end.
        text.resize(len.min(MAX_TEXT), 0);
        // SAFETY: as above.
        len = unsafe { function(context, text.as_mut_ptr(), text.len()) };
    }
    text.truncate(len);
    let text = String::from_utf8_lossy(&text).into_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }

    unsafe extern "C" fn always_longer(_: Context, buffer: *mut u8, capacity: usize) -> usize {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the buffer has this capacity.
        unsafe { buffer.write_bytes(b'x', capacity) };
        capacity + 1
    }

    unsafe extern "C" fn endless(_: Context, _: *mut u8, _: usize) -> usize {
        usize::MAX
    }

    unsafe extern "C" fn long(_: Context, buffer: *mut u8, capacity: usize) -> usize {
        let text = "long ".repeat(200);
        // SAFETY: the buffer has this capacity.
        unsafe { buffer.copy_from(text.as_ptr(), text.len().min(capacity)) };
        text.len()
    }

    unsafe extern "C" fn nothing(_: Context, _: *mut u8, _: usize) -> usize {
        0
    }

    #[test]
    fn texts_without_an_end_are_cut() {
        let of = |function| {
            // SAFETY: the function keeps to the buffer.
            unsafe { last_error(function, std::ptr::null_mut()) }
        };
        assert_eq!(of(always_longer).unwrap().len(), 513);
        assert_eq!(CALLS.get(), 2);
        assert_eq!(of(endless).unwrap().len(), MAX_TEXT);
        assert_eq!(of(long).unwrap(), "long ".repeat(200));
        assert_eq!(of(nothing), None);
    }

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(count(8), Ok(8));
        assert!(count(u32::MAX).is_err());
        assert_eq!(priorities(-1, 2), -1..=2);
        assert_eq!(priorities(i32::MAX, i32::MIN), i32::MIN..=i32::MAX);
    }
}
