//! Waits for work, and who is told how they end.

use super::device::Device;
use super::error::{Error, Result};
use super::tag::Tag;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::{Arc, Weak};

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The work of a stream, by its handle.
    Stream(u64),
    /// The last work of a stream, which ends.
    End(u64),
    /// All work of the device.
    Device,
}

/// Who is told of every wait for work of a device that may report an error of that work, on the thread that waits. A backend reports
/// an error once, to whoever waits next; with this, a layer above remembers it for everybody else.
///
/// ```
/// use std::sync::{Arc, Mutex, Weak};
/// use thalweg_runtime::hal::{self, Waited, Waits};
/// #[derive(Default)]
/// struct Failed(Mutex<Vec<Waited>>);
/// impl Waits for Failed {
///     fn begin(&self, _: Waited) -> u64 {
///         0
///     }
///     fn end(&self, waited: Waited, _: u64, error: Option<&hal::Error>) {
///         self.0.lock().unwrap().extend(error.map(|_| waited));
///     }
/// }
/// let (device, failed) = (hal::device("cpu")?, Arc::new(Failed::default()));
/// let watching: Arc<dyn Waits> = failed.clone();
/// device.tell_waits(Arc::downgrade(&watching));
/// let stream = device.create_stream()?;
/// stream.callback(|| panic!("it fails"))?;
/// assert!(stream.synchronize().is_err() && device.synchronize().is_ok());
/// assert_eq!(*failed.0.lock().unwrap(), [Waited::Stream(stream.handle())]);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
pub trait Waits: Send + Sync {
    /// A wait begins. The number comes back with its end.
    fn begin(&self, waited: Waited) -> u64;

    /// The wait of this number is over, with the error that it reports.
    fn end(&self, waited: Waited, number: u64, error: Option<&Error>);
}

/// Who is told of a device's waits.
#[derive(Default)]
pub(super) struct Watch(Mutex<Vec<Weak<dyn Waits>>>);

impl Device {
    /// Tells `waits` too of every wait that begins from now on, as long as it lives.
    pub fn tell_waits(&self, waits: Weak<dyn Waits>) {
        let mut told = self.watch().0.lock();
        told.retain(|waits| waits.strong_count() > 0);
        told.push(waits);
    }

    /// Waits for all work of all streams.
    ///
    /// # Errors
    /// The first error that sticks to one of the streams, once, with the op that the user wrote.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        let tag = Tag::new("synchronize");
        self.waited(Waited::Device, || {
            // SAFETY: plain call of a table.
            let code = unsafe { (self.tables().device.synchronize)(self.context(), self.handle()) };
            self.check(code, &tag)
        })
    }

    /// Waits, and tells who is to be told.
    pub(super) fn waited(&self, waited: Waited, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        let living = |waits: &Weak<dyn Waits>| Some((waits.upgrade()?, 0));
        let mut told: SmallVec<[(Arc<dyn Waits>, u64); 1]> =
            self.watch().0.lock().iter().filter_map(living).collect();
        for (waits, number) in &mut told {
            *number = waits.begin(waited);
        }
        let result = wait();
        for (waits, number) in &told {
            waits.end(waited, *number, result.as_ref().err());
        }
        result
    }
}
