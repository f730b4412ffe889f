use super::*;
use std::sync::mpsc;
use std::thread;

fn error() -> hal::Error {
    hal::device("cpu").unwrap().alloc(u64::MAX).unwrap_err()
}

/// A clock, and so many streams that it knows.
fn known<const N: usize>() -> (Epochs, [Lane; N]) {
    let (device, epochs) = (hal::device("cpu").unwrap(), Epochs::default());
    let lanes = [(); N].map(|()| {
        let stream = Stream::new(&device).unwrap();
        epochs.know(&stream);
        Lane::new(stream)
    });
    (epochs, lanes)
}

/// A wait, and how it ends.
fn wait(epochs: &Epochs, waited: Waited, error: Option<&hal::Error>) {
    epochs.end_wait(waited, epochs.begin_wait(waited), error);
}

#[test]
fn a_failure_is_of_what_was_written_since_the_last_good_wait_and_what_read_it() {
    let (epochs, [failing, reader, second, alone]) = known();
    let refused = |lane: &Lane, epoch| epochs.failure(lane, epoch, epoch).is_some();
    let old = epochs.now();
    wait(&epochs, Waited::Device, None);
    let new = epochs.now();
    reader.wait_for(&failing, new, &epochs).unwrap();
    second.wait_for(&reader, epochs.now(), &epochs).unwrap();
    let last = epochs.now();
    assert!(!epochs.has_failures());
    wait(&epochs, Waited::Stream(failing.stream.handle()), Some(&error()));
    assert!(epochs.has_failures());
    for lane in [&failing, &reader, &second] {
        assert!(!refused(lane, old));
        assert!(refused(lane, last));
        assert!(!refused(lane, epochs.now()));
    }
    assert!(refused(&failing, new));
    assert!(!refused(&alone, new) && !refused(&alone, last));
    // What took part of its values before and part after.
    assert!(epochs.failure(&failing, old, epochs.now()).is_some());
    assert!(epochs.failure(&failing, epochs.now(), epochs.now()).is_none());
}

/// Nobody knows how the two met, so the failure is of both.
#[test]
fn a_wait_that_was_told_nothing_returns_behind_one_that_was() {
    let (epochs, [lane]) = known();
    let (stream, written) = (Waited::Stream(lane.stream.handle()), epochs.now());
    let (told, other) = (epochs.begin_wait(Waited::Device), epochs.begin_wait(stream));
    let (tell, ended) = mpsc::channel();
    thread::scope(|scope| {
        let (epochs, lane) = (&epochs, &lane);
        scope.spawn(move || {
            epochs.end_wait(stream, other, None);
            tell.send(epochs.failure(lane, written, written).is_some())
                .unwrap();
        });
        assert!(ended.recv_timeout(Duration::from_millis(50)).is_err());
        epochs.end_wait(Waited::Device, told, Some(&error()));
        assert!(ended.recv().unwrap());
    });
}

#[test]
fn a_wait_does_not_wait_for_those_of_other_streams_or_that_began_later() {
    let (epochs, [lane, other]) = known();
    let stream = Waited::Stream(lane.stream.handle());
    let _elsewhere = epochs.begin_wait(Waited::Stream(other.stream.handle()));
    let first = epochs.begin_wait(stream);
    epochs.end_wait(stream, first, None);
    let _later = epochs.begin_wait(stream);
}

#[test]
fn failures_become_few_and_none_is_forgotten() {
    let (epochs, [lane, quiet]) = known();
    let first = epochs.now();
    wait(&epochs, Waited::Stream(quiet.stream.handle()), Some(&error()));
    for _ in 0..MOST + 10 {
        wait(&epochs, Waited::Stream(lane.stream.handle()), Some(&error()));
    }
    assert!(epochs.state.lock().failures.len() <= MOST);
    for lane in [&lane, &quiet] {
        assert!(epochs.failure(lane, first, first).is_some());
    }
    assert!(epochs.failure(&lane, epochs.now(), epochs.now()).is_none());
}

#[test]
fn a_stream_that_ended_is_forgotten_unless_it_failed() {
    let (epochs, [well, badly]) = known();
    let handles = [well.stream.handle(), badly.stream.handle()];
    assert!(handles.iter().all(|&stream| epochs.matters(stream)));
    wait(&epochs, Waited::End(handles[0]), None);
    wait(&epochs, Waited::End(handles[1]), Some(&error()));
    assert_eq!(handles.map(|stream| epochs.matters(stream)), [false, true]);
}
