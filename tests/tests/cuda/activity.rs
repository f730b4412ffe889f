//! Profiles that CUPTI tells of, over the stand-in for it: exact times, graphs node by node, what is lost, and what it refuses.

use super::profile::graph;
use super::programs::{branches, counts};
use super::{alone, cuda, device, double, operands, run, standin};
use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;
use thalweg::hal::{
    Buffer, Device, DeviceOptions, Profile, ProfileFlag, ProfileKind, ProfileKinds, ProfileRecord, Stream,
};
use thalweg::host::set_config;
use thalweg::{Context, DType, Tensor, jit};
use thalweg_hal::clock::now;

/// It stays open, since what it was told is forgotten when it is closed.
fn library() -> &'static libloading::Library {
    static LIBRARY: OnceLock<libloading::Library> = OnceLock::new();
    // SAFETY: the stand-in for CUPTI.
    LIBRARY.get_or_init(|| unsafe { libloading::Library::new(standin().join("libcupti.so.13")).unwrap() })
}

/// Calls a function of the stand-in with one number.
fn tell(function: &[u8], value: usize) {
    // SAFETY: the functions have this type.
    unsafe { library().get::<unsafe extern "C" fn(usize)>(function).unwrap()(value) }
}

/// Lets a function of CUPTI return a code from now on.
fn refuse(function: &CStr, code: u32) {
    // SAFETY: the function has this type, and the text lives through the call.
    unsafe {
        let refuse = library().get::<unsafe extern "C" fn(*const c_char, u32)>(b"standin_cupti_refuse");
        refuse.unwrap()(function.as_ptr(), code);
    }
}

/// How much of CUPTI is in use: its client and four kinds of records.
fn active() -> i32 {
    // SAFETY: the function has this type.
    unsafe { library().get::<unsafe extern "C" fn() -> i32>(b"standin_cupti_active").unwrap()() }
}

fn drained(profile: &Profile) -> (Vec<ProfileRecord>, u64) {
    let mut records = Vec::new();
    let lost = profile.drain(&mut records).unwrap();
    records.sort_by_key(|record| record.start_ns);
    (records, lost)
}

fn is_exact(records: &[ProfileRecord]) -> bool {
    records.iter().all(|record| record.flags == ProfileFlag::Exact.bit())
}

/// Why times are not exact, as the device says it.
fn why(device: &Device) -> String {
    device.hardware_counters().unwrap_err().to_string()
}

#[test]
fn work_has_times_of_its_own() {
    let device = device(13);
    let stream = Stream::new(&device).unwrap();
    let (x, y) = operands(&device, &stream);
    let kernel = double(&device, "good");
    run(&stream, &kernel, "before", &x, &y).unwrap();
    let profile = device.profile_start(ProfileKinds::WORK, 1000).unwrap();
    let begun = now();
    device.correlate(1);
    x.fill(&stream, 1.0_f32).unwrap();
    device.correlate(2);
    run(&stream, &kernel, "double", &x, &y).unwrap();
    device.correlate(3);
    assert_eq!(y.download::<f32>(&stream).unwrap(), [2.0; 8]);
    // More than a piece of a copy through pinned memory holds.
    device.correlate(4);
    let many = vec![1.0_f32; 3 << 20];
    let _many = Buffer::from_slice(&stream, &many).unwrap();
    device.correlate(0);
    stream.synchronize().unwrap();
    let ended = now();
    let (records, lost) = drained(&profile);
    assert!(lost == 0 && is_exact(&records), "{lost} lost: {records:?}");
    let found: Vec<_> = (records.iter())
        .map(|record| (record.correlation, record.kind, record.bytes, record.command))
        .collect();
    let (fill, launch, copy) = (
        ProfileKind::Fill as u32,
        ProfileKind::Launch as u32,
        ProfileKind::Copy as u32,
    );
    let whole = 4 * many.len() as u64;
    let expected = [
        (1, fill, 32, 0),
        (2, launch, 0, 0),
        (3, copy, 32, 0),
        (4, copy, whole, 0),
        (4, copy, 0, 1),
        (4, copy, 0, 2),
    ];
    assert_eq!(found, expected);
    let mut last = begun;
    for record in &records {
        assert_eq!((record.stream, record.packet), (stream.handle(), u32::MAX));
        assert!(begun <= record.queued_ns && record.queued_ns <= record.start_ns, "{record:?}");
        assert!(last <= record.start_ns && record.start_ns <= record.end_ns, "{record:?}");
        last = record.end_ns;
    }
    assert!(last <= ended, "ended {} ns before its last record", last - ended);
}

#[test]
fn graphs_are_traced_node_by_node() {
    let device = device(14);
    let stream = Stream::new(&device).unwrap();
    let (graph, [_x, y]) = graph(&device, &stream);
    let runs = |times: i32| {
        let before = counts(14);
        for _ in 0..times {
            graph.launch(&stream).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(y.download::<f32>(&stream).unwrap(), [2.0; 8]);
        let after = counts(14);
        (after.graphs - before.graphs, after.instantiated - before.instantiated)
    };
    assert_eq!(runs(3), (3, 1));
    for made_anew in [1, 0] {
        let mut profile = device.profile_start(ProfileKinds::WORK, 1000).unwrap();
        device.correlate(5);
        assert_eq!(runs(3), (3, made_anew));
        device.correlate(0);
        profile.stop().unwrap();
        assert_eq!(runs(1), (1, 0));
        let (records, lost) = drained(&profile);
        let launches: Vec<&ProfileRecord> = (records.iter())
            .filter(|record| record.kind == ProfileKind::Launch as u32)
            .collect();
        let mut packets: Vec<u32> = launches.iter().map(|record| record.packet).collect();
        packets.sort_unstable();
        assert_eq!((packets, lost), (vec![0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], 0));
        for record in launches {
            assert_eq!(
                (record.correlation, record.stream, record.command),
                (5, stream.handle(), 0)
            );
            assert!(record.flags == ProfileFlag::Exact.bit() && record.object != 0);
        }
        assert_eq!(active(), 0);
    }
}

/// Products, which are graphs inside of graphs, reductions of several passes, and fills.
#[test]
fn each_node_of_a_function_is_told_once_a_run() {
    let device = device(15);
    let cx = Context::on(device.clone());
    let numbers = |shape: &[usize]| Tensor::arange(0, shape.iter().product::<usize>() as i64, 1, &cx);
    let x = numbers(&[16, 16]).cast(DType::F32).reshape([16, 16]) * 0.01;
    let long = numbers(&[20_000]).cast(DType::F32) * 1e-4;
    let traced = jit(branches);
    let values = |outputs: Vec<Tensor>| -> Vec<f64> {
        (outputs.iter()).flat_map(|output| output.cast(DType::F64).to_vec::<f64>().unwrap()).collect()
    };
    let before = values(traced.call((&x, &long)));
    let mut profile = device.profile_start(ProfileKinds::WORK, 100_000).unwrap();
    let graphs = counts(15).graphs;
    for run in 1..=4 {
        device.correlate(run);
        let outputs = traced.call((&x, &long));
        device.correlate(100);
        assert_eq!(values(outputs), before);
    }
    device.correlate(0);
    assert_eq!(counts(15).graphs - graphs, 4);
    device.synchronize().unwrap();
    profile.stop().unwrap();
    let (records, lost) = drained(&profile);
    assert!(lost == 0 && is_exact(&records));
    let mut seen = HashMap::<u64, Vec<(u32, u32, u32)>>::new();
    for record in &records {
        if (1..=4).contains(&record.correlation) && record.packet != u32::MAX {
            let part = (record.packet, record.command, record.kind);
            seen.entry(record.correlation).or_default().push(part);
        }
    }
    assert_eq!(seen.len(), 4);
    seen.values_mut().for_each(|parts| parts.sort_unstable());
    let first = &seen[&1];
    assert!(first.len() > 10, "{first:?}");
    for pair in first.windows(2) {
        // Commands of a node count from 0, and no node is left out.
        let ((packet, command, _), (next, nth, _)) = (pair[0], pair[1]);
        assert!((next == packet && nth == command + 1) || (next > packet && nth == 0), "{first:?}");
    }
    assert!(seen.values().all(|parts| parts == first), "{seen:?}");
}

#[test]
fn what_cupti_drops_is_lost() {
    let device = device(13);
    let stream = Stream::new(&device).unwrap();
    let (x, _y) = operands(&device, &stream);
    let profile = device.profile_start(ProfileKinds::WORK, 1000).unwrap();
    tell(b"standin_cupti_drop", 3);
    for _ in 0..10 {
        x.fill(&stream, 1.0_f32).unwrap();
    }
    stream.synchronize().unwrap();
    let (records, lost) = drained(&profile);
    assert_eq!((records.len(), lost), (7, 3));
    assert_eq!(drained(&profile), (Vec::new(), 0));
    // Buffers that nobody takes out are full at some time, and come back by themselves: more than one holds.
    for _ in 0..5000 {
        x.fill(&stream, 1.0_f32).unwrap();
    }
    stream.synchronize().unwrap();
    let (records, lost) = drained(&profile);
    assert_eq!(records.len() as u64 + lost, 5000);
    assert_eq!(records.len(), 1000);
}

/// A library that tells of other nodes than its records name.
#[test]
fn nodes_that_nobody_knows_are_lost_and_come_one_by_one_later() {
    let device = device(12);
    let stream = Stream::new(&device).unwrap();
    let (graph, _operands) = graph(&device, &stream);
    let mut profile = device.profile_start(ProfileKinds::WORK, 1000).unwrap();
    tell(b"standin_cupti_unannounced", 1);
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let (records, lost) = drained(&profile);
    assert_eq!((records.len(), lost), (0, 4));
    let before = counts(12).graphs;
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    tell(b"standin_cupti_unannounced", 0);
    assert_eq!(counts(12).graphs, before, "a graph again");
    let (records, lost) = drained(&profile);
    assert_eq!((records.len(), lost), (4, 0));
    assert!(is_exact(&records));
    profile.stop().unwrap();
}

#[test]
fn work_that_runs_when_a_profile_ends_is_recorded_and_then_the_tracing_ends() {
    let device = device(13);
    let stream = Stream::new(&device).unwrap();
    let (x, _y) = operands(&device, &stream);
    stream.synchronize().unwrap();
    let mut profile = device.profile_start(ProfileKinds::WORK, 1000).unwrap();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    stream
        .callback(move || {
            let _ = gate.recv();
        })
        .unwrap();
    x.fill(&stream, 1.0_f32).unwrap();
    profile.stop().unwrap();
    x.fill(&stream, 2.0_f32).unwrap();
    assert_eq!(active(), 5, "one client, four kinds");
    release.send(()).unwrap();
    stream.synchronize().unwrap();
    let (records, lost) = drained(&profile);
    let kinds: Vec<u32> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [ProfileKind::Callback as u32, ProfileKind::Fill as u32]);
    assert_eq!((lost, active()), (0, 0));
}

#[test]
fn devices_are_traced_apart() {
    let devices = [device(13), device(14)];
    let streams = devices.each_ref().map(|device| Stream::new(device).unwrap());
    let buffers = devices.each_ref().map(|device| device.alloc(64).unwrap());
    let fill = |at: usize| {
        buffers[at].fill(&streams[at], 1.0_f32).unwrap();
        streams[at].synchronize().unwrap();
    };
    let mut first = devices[0].profile_start(ProfileKinds::WORK, 100).unwrap();
    let second = devices[1].profile_start(ProfileKinds::WORK, 100).unwrap();
    fill(0);
    fill(1);
    first.stop().unwrap();
    fill(0);
    fill(1);
    // A third device, of which there is no profile.
    let other = device(15);
    let stream = Stream::new(&other).unwrap();
    other.alloc(64).unwrap().fill(&stream, 1.0_f32).unwrap();
    stream.synchronize().unwrap();
    assert_eq!((drained(&first).0.len(), drained(&second).0.len()), (1, 2));
    drop((first, second));
    assert_eq!(active(), 0);
}

/// Times of a program are those of events, node by node, and the device says why.
#[track_caller]
fn by_events(device: &Device, ordinal: i32, reason: &str) {
    let stream = Stream::new(device).unwrap();
    let (graph, _operands) = graph(device, &stream);
    let profile = device.profile_start(ProfileKinds::WORK, 1000).unwrap();
    let before = counts(ordinal).graphs;
    graph.launch(&stream).unwrap();
    stream.synchronize().unwrap();
    let (records, lost) = drained(&profile);
    assert_eq!((records.len(), lost, counts(ordinal).graphs), (4, 0, before));
    let bracketed = |record: &ProfileRecord| record.flags == ProfileFlag::Bracketed.bit();
    assert!(records.iter().all(bracketed), "{records:?}");
    let why = why(device);
    assert!(why.contains(reason), "`{reason}` is not in: {why}");
}

#[test]
fn what_cupti_refuses_is_measured_by_events() {
    const ALONE: &str = "THALWEG_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        return alone("activity::what_cupti_refuses_is_measured_by_events", ALONE);
    }
    let device = device(13);
    let calls = [
        (c"cuptiSubscribe", 39, "cuptiSubscribe returned CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)"),
        (c"cuptiActivityRegisterCallbacks", 1, "cuptiActivityRegisterCallbacks returned an unknown code (1)"),
        (c"cuptiActivityRegisterTimestampCallback", 15, "cuptiActivityRegisterTimestampCallback"),
        (c"cuptiEnableDomain", 2, "cuptiEnableDomain"),
        (c"cuptiEnableCallback", 2, "cuptiEnableCallback"),
        (c"cuptiActivityEnable", 35, "cuptiActivityEnable returned CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"),
    ];
    for (call, code, reason) in calls {
        refuse(call, code);
        by_events(&device, 13, reason);
        assert_eq!(active(), 0, "after {call:?} was refused");
        refuse(call, 0);
    }
    // The next profile asks again.
    let stream = Stream::new(&device).unwrap();
    let profile = device.profile_start(ProfileKinds::WORK, 100).unwrap();
    device.alloc(64).unwrap().fill(&stream, 1.0_f32).unwrap();
    stream.synchronize().unwrap();
    let (records, _) = drained(&profile);
    assert!(records.len() == 1 && is_exact(&records), "{records:?}");
    assert_eq!(why(&device).split_once(';'), None);
}

#[test]
fn without_cupti_work_is_measured_by_events() {
    const ALONE: &str = "THALWEG_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        return alone("activity::without_cupti_work_is_measured_by_events", ALONE);
    }
    set_config("cuda.cupti", Some("off"));
    by_events(&device(13), 13, "`cuda.cupti` is off");
    set_config("cuda.cupti", None);
    // A folder with all libraries but this.
    let folder = standin().with_file_name("cuda_without_cupti");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so.1", "libnvrtc.so.13"] {
        let link = folder.join(name);
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(standin().join(name), link).unwrap();
    }
    let cuda = cuda();
    set_config("cuda.libraries", folder.to_str());
    let device = cuda.open(&DeviceOptions::new(14)).unwrap();
    by_events(&device, 14, "libcupti.so.13 was not found in");
}

#[test]
fn an_old_cupti_is_not_used() {
    const VERSION: &str = "STANDIN_CUPTI";
    if std::env::var_os(VERSION).is_none() {
        return alone("activity::an_old_cupti_is_not_used", VERSION);
    }
    by_events(&device(13), 13, "libcupti.so.13 has the version 1, and 18, that of CUDA 12.0, or later is needed");
}

/// Threads submit while others start and stop profiles: nothing hangs, and each record is whole.
#[test]
fn threads_start_and_stop_at_random() {
    let device = device(13);
    let end = now() + 1_500_000_000;
    let work = || {
        let stream = Stream::new(&device).unwrap();
        let (graph, _operands) = graph(&device, &stream);
        let x = device.alloc(4096).unwrap();
        while now() < end {
            x.fill(&stream, 1.0_f32).unwrap();
            graph.launch(&stream).unwrap();
            stream.synchronize().unwrap();
        }
    };
    let profiles = |seed: u64| {
        let (mut state, mut all) = (seed, 0);
        while now() < end {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let Ok(mut profile) = device.profile_start(ProfileKinds::WORK, 4000) else {
                std::thread::yield_now();
                continue;
            };
            std::thread::sleep(std::time::Duration::from_micros(state >> 53));
            if state >> 40 & 1 == 0 {
                profile.stop().unwrap();
            }
            for record in drained(&profile).0 {
                assert!(record.queued_ns <= record.start_ns && record.start_ns <= record.end_ns);
                assert!(ProfileKind::from_code(record.kind).is_some() && record.reserved == 0);
                assert!(record.packet == u32::MAX || record.packet < 4, "{record:?}");
                all += 1;
            }
        }
        all
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let starters: Vec<_> = (0..4).map(|seed| scope.spawn(move || profiles(seed))).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let records: u64 = starters.into_iter().map(|starter| starter.join().unwrap()).sum();
        assert!(records > 0);
    });
}
