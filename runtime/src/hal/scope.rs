//! The current stream of a thread.

use super::device::Device;
use super::error::Result;
use super::stream::Stream;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

thread_local! {
    static SCOPES: RefCell<Vec<(u64, Stream)>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// While it lives, a stream is the current one of its device on this thread. Dropping it, also by a panic, makes the outer
/// one current again.
#[must_use = "the stream is current only while the scope lives"]
#[derive(Debug)]
pub struct StreamScope {
    id: Option<u64>,
    // A scope ends on the thread that it began on.
    _not_send: PhantomData<*const ()>,
}

impl Drop for StreamScope {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        // A thread at its very end has no scopes any more.
        let ended = SCOPES.try_with(|scopes| {
            let mut scopes = scopes.borrow_mut();
            let at = scopes.iter().rposition(|(scope, _)| *scope == id);
            at.map(|at| scopes.remove(at))
        });
        // The stream may end here, which must not happen while the list is borrowed.
        drop(ended);
    }
}

/// Makes `stream` current on this thread; `None` changes nothing. In destructors of thread-local values, at the very end of a thread,
/// the default stream stays the current one.
///
/// ```
/// # fn main() -> thalweg_runtime::Result<()> {
/// use thalweg_runtime::hal::{Stream, current_stream, device, stream_scope};
/// let device = device("cpu")?;
/// let side = Stream::new(&device)?;
/// {
///     let _on = stream_scope(Some(&side));
///     assert_eq!(current_stream("cpu")?, side);
/// }
/// assert_eq!(current_stream("cpu")?, device.default_stream()?);
/// # Ok(())
/// # }
/// ```
pub fn stream_scope(stream: Option<&Stream>) -> StreamScope {
    let id = stream.map(|stream| {
        let id = NEXT.replace(NEXT.get() + 1);
        let _ = SCOPES.try_with(|scopes| scopes.borrow_mut().push((id, stream.clone())));
        id
    });
    StreamScope {
        id,
        _not_send: PhantomData,
    }
}

impl Stream {
    /// Makes this stream current on this thread while the scope lives.
    pub fn enter(&self) -> StreamScope {
        stream_scope(Some(self))
    }
}

impl Device {
    /// What `read` makes of the stream of the innermost scope on this thread that is one of this device's; `None` outside of
    /// any. Makes no clone of the stream.
    #[inline]
    pub fn scoped<R>(&self, read: impl FnOnce(&Stream) -> R) -> Option<R> {
        let scoped = SCOPES.try_with(|scopes| {
            let scopes = scopes.borrow();
            let mine = |(_, stream): &&(u64, Stream)| stream.device() == self;
            scopes.iter().rev().find(mine).map(|(_, stream)| read(stream))
        });
        scoped.ok().flatten()
    }

    /// The stream of the innermost scope on this thread that is one of this device's, or the default stream.
    ///
    /// # Errors
    /// As [`Device::default_stream`].
    pub fn current_stream(&self) -> Result<Stream> {
        match self.scoped(Stream::clone) {
            Some(stream) => Ok(stream),
            None => self.default_stream(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::hal::testing::device;
    use crate::hal::{Stream, stream_scope};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn scopes_nest_and_end_by_a_panic() {
        let device = device();
        let (outer, inner) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
        let current = || device.current_stream().unwrap();
        let default = device.default_stream().unwrap();
        let nothing = stream_scope(None);
        assert_eq!(current(), default);
        let on = outer.enter();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _on = inner.enter();
            let _none = stream_scope(None);
            assert_eq!(current(), inner);
            panic!("inside");
        }));
        assert!(panicked.is_err());
        assert_eq!(current(), outer);
        std::thread::scope(|threads| threads.spawn(|| assert_eq!(current(), default)).join()).unwrap();
        let above = inner.enter();
        drop(on);
        assert_eq!(current(), inner);
        drop(above);
        assert_eq!(current(), default);
        drop(nothing);
    }

    #[test]
    fn scopes_of_other_devices_do_not_matter() {
        let (one, other) = (device(), device());
        let stream = Stream::new(&one).unwrap();
        let _on = stream.enter();
        let _other = other.create_stream().unwrap().enter();
        assert_eq!(one.current_stream().unwrap(), stream);
    }
}
