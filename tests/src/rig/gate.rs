//! Host callbacks, and one that holds a stream until it is told to let go.

use super::Device;
use crate::check;
use crate::kit::Stop;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg_hal::Result;
use thalweg_hal::tables::CallbackArgs;

type Body = Box<dyn FnOnce() -> i32 + Send>;

unsafe extern "C" fn run(data: *mut c_void) -> i32 {
    // SAFETY: `callback` passes a box that it gives up, and a callback is called once.
    let body = unsafe { Box::from_raw(data.cast::<Body>()) };
    body()
}

/// Submits a host callback; the number that it returns becomes the stream's error unless it is 0.
pub fn callback(device: &Device, stream: u64, body: impl FnOnce() -> i32 + Send + 'static) -> Result<()> {
    let body: Box<Body> = Box::new(Box::new(body));
    let raw = device.raw();
    let args = CallbackArgs {
        stream,
        function: Some(run),
        data: Box::into_raw(body).cast(),
    };
    // SAFETY: the arguments live through the call, the body until it is called.
    let result = raw.status(unsafe { (raw.tables.stream.callback)(raw.context, &raw const args) });
    if result.is_err() {
        // SAFETY: a callback that was refused is never called.
        drop(unsafe { Box::from_raw(args.data.cast::<Body>()) });
    }
    result
}

#[derive(Default)]
struct State {
    /// Whether the call that submits the callback is over.
    submitted: bool,
    /// Whether the callback ran inside that call.
    inside: bool,
    reached: bool,
    open: bool,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

/// Holds a stream at one point until it is opened or dropped. Declare it after the device, so that it is dropped before.
pub struct Gate(Shared);

fn set(shared: &Shared, change: impl FnOnce(&mut State)) {
    change(&mut shared.0.lock().unwrap_or_else(PoisonError::into_inner));
    shared.1.notify_all();
}

fn wait(shared: &Shared, timeout: Duration, done: impl Fn(&State) -> bool) -> bool {
    let end = Instant::now() + timeout;
    let mut state = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
    while !done(&state) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        state = shared
            .1
            .wait_timeout(state, left)
            .map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
    }
    true
}

/// A gate whose case has died must not hold a thread for ever.
const LONGEST: Duration = Duration::from_secs(120);

impl Gate {
    /// Holds `stream` from here on. Fails where callbacks run inside the call that submits them.
    pub fn new(device: &Device, stream: u64) -> Result<Gate, Stop> {
        let shared = Shared::default();
        let held = Arc::clone(&shared);
        let caller = std::thread::current().id();
        callback(device, stream, move || {
            set(&held, |state| {
                state.reached = true;
                // To wait here would be to wait for oneself.
                state.inside = !state.submitted && std::thread::current().id() == caller;
                state.open |= state.inside;
            });
            wait(&held, LONGEST, |state| state.open);
            0
        })?;
        let mut inside = false;
        set(&shared, |state| {
            state.submitted = true;
            inside = state.inside;
        });
        check!(
            !inside,
            "a host callback runs inside the call that submits it, which it may block"
        );
        Ok(Gate(shared))
    }

    /// Waits until the stream stands at the gate; whether it came within a few seconds.
    pub fn reached(&self) -> bool {
        wait(&self.0, Duration::from_secs(10), |state| state.reached)
    }

    /// Lets the stream go on.
    pub fn open(&self) {
        set(&self.0, |state| state.open = true);
    }

    /// Lets the stream go on after a while, from another thread.
    pub fn open_after(&self, delay: Duration) {
        let shared = Arc::clone(&self.0);
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            set(&shared, |state| state.open = true);
        });
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}
