//! Fork-join of the host, as the executor and the library ops see it.

/// Fork-join of the host.
pub trait Parallel: Sync {
    /// Most threads that [`Parallel::run`] uses, the caller among them.
    fn threads(&self) -> usize;

    /// Runs `body(i)` for every `i` in `0..n` on up to `threads()` threads and returns when all are done.
    fn run(&self, n: usize, body: &(dyn Fn(usize) + Sync));
}

/// The calling thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, n: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..n).for_each(body);
    }
}

/// As many threads, one after the other: work is cut as for them.
#[cfg(test)]
pub(crate) struct Turns(pub(crate) usize);

#[cfg(test)]
impl Parallel for Turns {
    fn threads(&self) -> usize {
        self.0
    }

    fn run(&self, n: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..n).for_each(body);
    }
}
