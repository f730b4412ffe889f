//! A value for each thread that asks.

use std::cell::Cell;
use thread_local::ThreadLocal;

/// What of a thread's life is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// It has not asked yet.
    New,
    Running,
    /// Destructors of its thread-local values run: its number may be another thread's already.
    Ending,
}

/// Notes the end of the thread that it belongs to.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        LIFE.set(Life::Ending);
    }
}

thread_local! {
    static LIFE: Cell<Life> = const { Cell::new(Life::New) };
    static END: End = const { End };
}

/// A value for each thread, all of which end with this one.
pub(crate) struct PerThread<T: Send>(ThreadLocal<T>);

impl<T: Send> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread(ThreadLocal::new())
    }
}

impl<T: Send> PerThread<T> {
    /// This thread's value, made by its first call; `None` in destructors of thread-local values, at the very end of a thread.
    #[inline]
    pub(crate) fn get_or_try<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Option<&T>, E> {
        match LIFE.get() {
            Life::Running => self.0.get_or_try(make).map(Some),
            Life::New => self.begin(make).map(Some),
            Life::Ending => Ok(None),
        }
    }

    #[cold]
    fn begin<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let value = self.0.get_or_try(make)?;
        // Destructors run from the last to the first: this end is known before the thread's number is given back.
        if END.try_with(|_| ()).is_ok() {
            LIFE.set(Life::Running);
        }
        Ok(value)
    }
}

impl<T: Send + Default> PerThread<T> {
    /// This thread's value, or `None` as in [`PerThread::get_or_try`].
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        let value = self.get_or_try(|| Ok::<T, std::convert::Infallible>(T::default()));
        value.unwrap_or_else(|never| match never {})
    }
}
