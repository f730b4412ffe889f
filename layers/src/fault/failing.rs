//! Work that fails after it was accepted. Its text is left before the backend hears of the failure, so that whoever waits, on any
//! thread, finds both.

use super::calls::host_work;
use super::{Fault, State};
use crate::layer::{Answer, Place};
use std::ffi::c_void;
use thalweg_hal::{Error, Status};

/// A function of the program, and its data.
pub(super) type Function = (unsafe extern "C" fn(*mut c_void) -> i32, *mut c_void);

/// What a callback of the layer needs.
struct Failing {
    place: &'static Place<Fault>,
    stream: u64,
    text: String,
    /// What runs first.
    function: Option<Function>,
}

unsafe extern "C" fn fails(data: *mut c_void) -> i32 {
    // SAFETY: `fail` has made it, and it is called once.
    let own = unsafe { Box::from_raw(data.cast::<Failing>()) };
    if let Some((function, data)) = own.function {
        // SAFETY: the program vouches for function and data.
        unsafe { function(data) };
    }
    own.place.layer.state.lock().note(own.stream, own.text);
    Status::LaunchFailed as i32
}

/// Makes a stream fail behind what was submitted, after a function of the program if there is one.
pub(super) fn fail(
    place: &'static Place<Fault>,
    stream: u64,
    text: String,
    function: Option<Function>,
) -> Answer {
    let own = Box::into_raw(Box::new(Failing {
        place,
        stream,
        text,
        function,
    }));
    // SAFETY: the function takes what it was made for.
    let answer = unsafe { host_work(place, stream, fails, own.cast()) };
    if answer.is_err() {
        // SAFETY: what is below has refused, so it never calls the function.
        drop(unsafe { Box::from_raw(own) });
    }
    answer
}

impl State {
    fn note(&mut self, stream: u64, text: String) {
        self.failures += 1;
        let texts = self.sticking.entry(stream).or_default();
        texts.push((self.failures, text));
    }

    /// The text that a wait tells which ended badly, if the failure was made. `noted` is how many there were when it began. Texts from
    /// before then go with it, and so they do where nobody else waits, because the backend tells the first failure only.
    fn told(&mut self, streams: &[u64], noted: u64, failed: bool) -> Option<String> {
        let texts = |state: &State| -> Vec<(u64, String)> {
            let of = |stream: &u64| state.sticking.get(stream).into_iter().flatten().cloned();
            streams.iter().flat_map(of).collect()
        };
        let first = texts(self).into_iter().min().filter(|_| failed);
        let told = first.as_ref().map(|(number, _)| *number);
        if failed || self.waiting == 0 {
            for stream in streams {
                if let Some(texts) = self.sticking.get_mut(stream) {
                    texts.retain(|(number, _)| *number > noted && Some(*number) != told);
                }
            }
            self.sticking.retain(|_, texts| !texts.is_empty());
        }
        first.map(|(_, text)| text)
    }
}

/// Waits in what is below. The code, and the failure that was made and is told now.
pub(super) fn waited(
    place: &Place<Fault>,
    streams: impl FnOnce(&State) -> Vec<u64>,
    wait: impl FnOnce() -> i32,
) -> (i32, Option<Error>) {
    let noted = {
        let mut state = place.layer.state.lock();
        state.waiting += 1;
        state.failures
    };
    let code = wait();
    let mut state = place.layer.state.lock();
    state.waiting -= 1;
    let streams = streams(&state);
    let text = state.told(&streams, noted, code != 0);
    (code, text.map(Error::launch_failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_is_told_and_older_ones_go_with_it() {
        let mut state = State::default();
        state.note(1, "a".into());
        state.note(2, "b".into());
        state.note(1, "c".into());
        assert_eq!(state.told(&[1, 2], 3, true).as_deref(), Some("a"));
        assert_eq!(state.told(&[1, 2], 3, true), None);
    }

    /// Another thread waited beside this one and heard of nothing: the text stays for who hears of the failure.
    #[test]
    fn a_wait_that_ended_well_takes_no_text_from_another() {
        let mut state = State::default();
        state.note(1, "a".into());
        state.waiting = 1;
        assert_eq!(state.told(&[1], 1, false), None);
        state.waiting = 0;
        assert_eq!(state.told(&[1], 0, true).as_deref(), Some("a"));
        // What the backend did not tell is old when somebody waits alone.
        state.note(1, "b".into());
        assert_eq!(state.told(&[1], 2, false), None);
        assert!(state.sticking.is_empty());
    }
}
