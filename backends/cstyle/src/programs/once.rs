//! What a backend compiles a kernel's variants into, each once.

use crate::Variant;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use thalweg_hal::{Error, Result, Status};

/// A value that whoever asks first makes, while others that want it wait. Whether it was made or cannot be is kept; what failed
/// for want of memory, a device or time is tried again.
#[derive(Debug)]
pub struct Once<T> {
    kept: OnceLock<Result<T>>,
    making: Mutex<()>,
}

impl<T> Default for Once<T> {
    fn default() -> Once<T> {
        Once {
            kept: OnceLock::new(),
            making: Mutex::new(()),
        }
    }
}

/// Whether an error would be the same another time.
fn lasts(error: &Error) -> bool {
    matches!(
        error.status,
        Status::CompileFailed | Status::Unsupported | Status::InvalidArgument
    )
}

impl<T> Once<T> {
    /// The value, made by `make` where there is none.
    ///
    /// # Errors
    /// What `make` failed with, now or, where that lasts, before.
    pub fn get(&self, make: impl FnOnce() -> Result<T>) -> Result<&T> {
        if let Some(kept) = self.kept.get() {
            return kept.as_ref().map_err(Clone::clone);
        }
        // The lock guards nothing: after a panic of `make` the next one tries.
        let _alone = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = self.kept.get() {
            return kept.as_ref().map_err(Clone::clone);
        }
        match make() {
            Err(error) if !lasts(&error) => Err(error),
            made => self.kept.get_or_init(|| made).as_ref().map_err(Clone::clone),
        }
    }
}

type List<T> = Vec<(Variant, Arc<Once<T>>)>;

/// The programs of a kernel by their variants. A kernel has few; a look through them costs less than a hash.
#[derive(Debug)]
pub struct Variants<T>(RwLock<List<T>>);

impl<T> Default for Variants<T> {
    fn default() -> Variants<T> {
        Variants(RwLock::default())
    }
}

impl<T> Variants<T> {
    /// How many variants were asked for.
    pub fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether none was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The variant that was asked for as number `at`, from 0.
    pub fn nth(&self, at: usize) -> Option<Variant> {
        let list = self.0.read().unwrap_or_else(PoisonError::into_inner);
        list.get(at).map(|(variant, _)| variant.clone())
    }
}

impl<T: Clone> Variants<T> {
    /// The program of a variant, built by `build` where there is none; see [`Once`].
    ///
    /// # Errors
    /// Those of [`Once::get`].
    pub fn get(&self, variant: &Variant, build: impl FnOnce() -> Result<T>) -> Result<T> {
        let known = |list: &List<T>| {
            let found = list.iter().find(|(key, _)| key == variant);
            found.map(|(_, program)| Arc::clone(program))
        };
        let program = known(&self.0.read().unwrap_or_else(PoisonError::into_inner));
        let program = program.unwrap_or_else(|| {
            let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
            known(&list).unwrap_or_else(|| {
                let program = Arc::<Once<T>>::default();
                list.push((variant.clone(), Arc::clone(&program)));
                program
            })
        });
        program.get(build).cloned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_tried_again() {
        let once = Once::default();
        assert_eq!(
            once.get(|| Err(Error::out_of_memory("full"))).unwrap_err().status,
            Status::OutOfMemory
        );
        assert_eq!(once.get(|| Ok(7)).unwrap(), &7);
        assert_eq!(once.get(|| Ok(8)).unwrap(), &7);
    }

    #[test]
    fn what_lasts_is_kept() {
        let once = Once::default();
        for error in [Error::compile_failed("line 1"), Error::out_of_memory("full")] {
            let found = once.get(|| Err::<u32, _>(error)).unwrap_err();
            assert_eq!(found.status, Status::CompileFailed);
        }
    }
}
