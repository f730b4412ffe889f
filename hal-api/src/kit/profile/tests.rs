use super::*;
use crate::clock::now;
use crate::status::Status;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const LAUNCH: u64 = ProfileKind::Launch.bit();

fn drained(recorder: &Recorder) -> (Vec<ProfileRecord>, u64) {
    let mut records = Vec::new();
    let (written, lost) = recorder.drain(usize::MAX, |record| records.push(record));
    assert_eq!(written, records.len());
    (records, lost)
}

fn record(recorder: &Recorder, packet: u32) {
    let submission = recorder.submission(1).unwrap().of_packet(packet, 9);
    recorder.record(&submission, Command::LAUNCH, submission.queued, ticks());
}

#[test]
fn records_are_what_was_measured() {
    let recorder = Recorder::new();
    recorder.start(LAUNCH | ProfileKind::Copy.bit(), 10).unwrap();
    correlate(5);
    let before = now();
    let submission = recorder.submission(3).unwrap().of_packet(7, 8);
    std::thread::sleep(Duration::from_millis(1));
    let start = ticks();
    std::thread::sleep(Duration::from_millis(2));
    let copy = Command {
        kind: ProfileKind::Copy,
        bytes: 40,
        index: 2,
    };
    recorder.record(&submission, copy, start, ticks());
    recorder.record(&submission, Command::CALLBACK, start, ticks());
    let after = now();
    correlate(0);
    let (records, lost) = drained(&recorder);
    let [record] = records[..] else {
        panic!("{records:?}")
    };
    assert_eq!(lost, 0);
    assert_eq!((record.correlation, record.stream, record.object), (5, 3, 0));
    assert_eq!((record.bytes, record.packet, record.command), (40, 7, 2));
    assert_eq!((record.kind, record.row), (ProfileKind::Copy as u32, row()));
    assert_eq!(record.flags, ProfileFlag::Exact.bit());
    assert!(before < record.queued_ns + 1_000 && record.end_ns < after + 1_000);
    assert!(record.start_ns - record.queued_ns >= 900_000);
    assert!(record.end_ns - record.start_ns >= 1_900_000);
}

#[test]
fn a_full_ring_drops_and_counts() {
    for capacity in [1, 7, 64, 1000] {
        let recorder = Recorder::new();
        recorder.start(LAUNCH, capacity).unwrap();
        for round in 0..3 {
            (0..capacity as u32 + 5).for_each(|packet| record(&recorder, packet));
            let (records, lost) = drained(&recorder);
            let mut packets: Vec<u64> = records.iter().map(|record| record.packet.into()).collect();
            packets.sort_unstable();
            // The first ones are kept.
            assert_eq!(packets, (0..capacity).collect::<Vec<_>>(), "round {round}");
            assert_eq!(lost, 5, "round {round} of {capacity}");
            assert_eq!(drained(&recorder), (vec![], 0));
        }
    }
}

#[test]
fn a_drain_takes_as_many_as_fit() {
    let recorder = Recorder::new();
    recorder.start(LAUNCH, 1000).unwrap();
    (0..100).for_each(|packet| record(&recorder, packet));
    let mut packets = Vec::new();
    for most in [0, 1, 30, 2, 60] {
        let before = packets.len();
        let (written, _) = recorder.drain(most, |record| packets.push(record.packet));
        assert_eq!((written, packets.len() - before), (most, most));
    }
    assert_eq!(recorder.drain(60, |record| packets.push(record.packet)), (7, 0));
    packets.sort_unstable();
    assert_eq!(packets, (0..100).collect::<Vec<u32>>());
}

#[test]
fn a_drained_chunk_that_its_thread_still_has_gives_nothing() {
    let recorder = Recorder::new();
    recorder.start(LAUNCH, 1000).unwrap();
    record(&recorder, 3);
    assert_eq!(drained(&recorder).0.len(), 1);
    assert_eq!(drained(&recorder), (vec![], 0));
    record(&recorder, 4);
    assert_eq!(drained(&recorder).0.len(), 1);
}

#[test]
fn sessions_do_not_mix() {
    let recorder = Recorder::new();
    assert!(!recorder.stop());
    assert_eq!(drained(&recorder), (vec![], 0));
    recorder.start(LAUNCH, 10).unwrap();
    assert_eq!(
        recorder.start(LAUNCH, 10).unwrap_err().status,
        Status::InvalidArgument
    );
    let (early, late) = (recorder.submission(1).unwrap(), recorder.submission(1).unwrap());
    recorder.record(&early, Command::LAUNCH, early.queued, ticks());
    assert!(recorder.stop() && recorder.submission(1).is_none());
    // Submitted before the end, done after it.
    recorder.record(&late, Command::LAUNCH, late.queued, ticks());
    assert_eq!(drained(&recorder).0.len(), 2);
    recorder.start(LAUNCH, 10).unwrap();
    recorder.record(&late, Command::LAUNCH, late.queued, ticks());
    record(&recorder, 4);
    let (records, _) = drained(&recorder);
    assert_eq!(
        records.iter().map(|record| record.packet).collect::<Vec<_>>(),
        [4]
    );
}

#[test]
fn wrong_arguments_are_refused() {
    let recorder = Recorder::new();
    for (kinds, capacity) in [(0, 10), (1, 10), (1 << 40, 10), (LAUNCH, 0)] {
        let error = recorder.start(kinds, capacity).unwrap_err();
        assert_eq!(error.status, Status::InvalidArgument, "{kinds:#x} {capacity}");
    }
    assert!(!recorder.stop());
}

#[test]
fn a_profile_of_memory_records_no_work() {
    let recorder = Recorder::new();
    recorder.memory(ProfileKind::Alloc, 0, 1, 512);
    recorder.start(ProfileKind::Alloc.bit(), 10).unwrap();
    assert!(recorder.submission(1).is_none());
    recorder.memory(ProfileKind::Alloc, 4, 3, 512);
    recorder.memory(ProfileKind::Free, 4, 3, 512);
    let (records, _) = drained(&recorder);
    let [record] = records[..] else {
        panic!("{records:?}")
    };
    assert_eq!((record.kind, record.stream, record.object), (6, 4, 3));
    assert_eq!((record.bytes, record.packet), (512, u32::MAX));
    assert!(record.queued_ns == record.start_ns && record.start_ns == record.end_ns);
}

#[test]
fn clocks_of_devices_are_turned() {
    let recorder = Recorder::new();
    recorder.start(LAUNCH, 10).unwrap();
    let (submission, time) = (recorder.submission(1).unwrap(), now());
    recorder.add_moment(1_000, time);
    recorder.add_moment(2_000, time + 2_000_000);
    let times = (1_100, 1_500);
    recorder.record_device(&submission, Command::LAUNCH, times, ProfileFlag::Exact);
    let (records, _) = drained(&recorder);
    let found = (records[0].start_ns, records[0].end_ns);
    assert_eq!(found, (time + 200_000, time + 1_000_000));
}

#[test]
fn times_of_devices_are_kept_in_order() {
    let recorder = Recorder::new();
    recorder.start(LAUNCH, 10).unwrap();
    let time = now();
    let submission = recorder.submission(1).unwrap();
    let bracketed = ProfileFlag::Bracketed;
    recorder.record_device(
        &submission,
        Command::LAUNCH,
        (time - 500, time + 9_000_000),
        bracketed,
    );
    let (records, _) = drained(&recorder);
    assert!(records[0].queued_ns <= records[0].start_ns);
    assert_eq!(
        (records[0].end_ns, records[0].flags),
        (time + 9_000_000, bracketed.bit())
    );
    assert_eq!(records[0].row, 0);
}

#[test]
fn every_record_of_many_threads_is_drained_or_lost() {
    const EACH: u64 = 20_000;
    let recorder = Recorder::new();
    recorder.start(LAUNCH, 500).unwrap();
    let done = AtomicBool::new(false);
    let (mut found, mut lost) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8_u32)
            .map(|writer| {
                let recorder = &recorder;
                scope.spawn(move || (0..EACH as u32).for_each(|n| record(recorder, writer << 16 | n)))
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut out = (Vec::new(), 0);
            while !done.load(Ordering::Relaxed) {
                let (records, lost) = drained(&recorder);
                out.0.extend(records);
                out.1 += lost;
            }
            out
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        (found, lost) = reader.join().unwrap();
    });
    let (rest, more) = drained(&recorder);
    found.extend(rest);
    lost += more;
    assert_eq!(found.len() as u64 + lost, 8 * EACH);
    let mut packets: Vec<u32> = found.iter().map(|record| record.packet).collect();
    packets.sort_unstable();
    packets.dedup();
    assert_eq!(packets.len(), found.len(), "a record came twice");
    assert!(found.iter().all(|record| record.start_ns <= record.end_ns));
    // All of the room came back.
    (0..500).for_each(|packet| record(&recorder, packet));
    assert_eq!(drained(&recorder).1, 0);
}
