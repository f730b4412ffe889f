//! Profiles by events: programs node by node while one runs, and devices that break meanwhile.

use super::programs::counts;
use super::{device, double, operands, run, standin};
use thalweg::hal::{
    Buffer, Device, Graph, Launch, Node, ProfileFlag, ProfileKind, ProfileKinds, Status, Stream,
};
use thalweg::host::set_config;

/// A device whose CUPTI is not asked.
fn by_events(ordinal: u32) -> Device {
    standin();
    set_config("cuda.cupti", Some("off"));
    let device = device(ordinal);
    set_config("cuda.cupti", None);
    device
}

/// A program of four launches.
pub(super) fn graph(device: &Device, stream: &Stream) -> (Graph, [Buffer; 2]) {
    let (x, y) = operands(device, stream);
    let kernel = double(device, "good");
    let arguments = [x.arg(), y.arg()];
    let launch = Launch::new(&kernel, &[8], &arguments);
    (Graph::new(device, &[Node::new(launch, &[]); 4]).unwrap(), [x, y])
}

#[test]
fn a_program_runs_node_by_node_while_a_profile_runs() {
    let device = by_events(10);
    let stream = Stream::new(&device).unwrap();
    let (graph, [_x, y]) = graph(&device, &stream);
    let runs = |times: i32| {
        let before = counts(10);
        for _ in 0..times {
            graph.launch(&stream).unwrap();
        }
        stream.synchronize().unwrap();
        assert_eq!(y.download::<f32>(&stream).unwrap(), [2.0; 8]);
        counts(10).graphs - before.graphs
    };
    assert_eq!(runs(3), 3);
    let mut profile = device.profile_start(ProfileKinds::WORK, 1000).unwrap();
    device.correlate(5);
    assert_eq!(runs(3), 0);
    profile.stop().unwrap();
    assert_eq!(runs(3), 3);
    let mut records = Vec::new();
    assert_eq!(profile.drain(&mut records).unwrap(), 0);
    device.correlate(0);
    let launches = records
        .iter()
        .filter(|record| record.kind == ProfileKind::Launch as u32);
    let mut packets: Vec<u32> = launches.clone().map(|record| record.packet).collect();
    packets.sort_unstable();
    assert_eq!(packets, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    for record in launches {
        assert_eq!((record.correlation, record.stream), (5, stream.handle()));
        assert_eq!(record.flags, ProfileFlag::Bracketed.bit());
        assert!(record.start_ns < record.end_ns);
    }
}

/// Times between drains that are far apart: the driver tells distances as 32-bit floats, which are fine enough for a second.
#[test]
fn times_stay_on_the_hosts_clock() {
    let device = by_events(11);
    let stream = Stream::new(&device).unwrap();
    let (x, _) = operands(&device, &stream);
    x.fill(&stream, 1.0_f32).unwrap();
    stream.synchronize().unwrap();
    let profile = device.profile_start(ProfileKinds::WORK, 10_000).unwrap();
    let mut moments = Vec::new();
    for _ in 0..25 {
        let before = thalweg_hal::clock::now();
        x.fill(&stream, 1.0_f32).unwrap();
        stream.synchronize().unwrap();
        moments.push((before, thalweg_hal::clock::now()));
        std::thread::sleep(std::time::Duration::from_millis(60));
    }
    let mut records = Vec::new();
    assert_eq!(profile.drain(&mut records).unwrap(), 0);
    records.sort_by_key(|record| record.start_ns);
    assert_eq!(records.len(), moments.len());
    for (record, (before, after)) in records.iter().zip(moments) {
        const APART: u64 = 200_000;
        assert!(before < record.start_ns + APART, "{record:?} after {before}");
        assert!(record.end_ns < after + APART, "{record:?} before {after}");
    }
}

#[test]
fn a_device_breaks_while_a_profile_runs() {
    let device = by_events(12);
    let stream = Stream::new(&device).unwrap();
    let (x, y) = operands(&device, &stream);
    let broken = double(&device, "fault_ecc");
    let profile = device.profile_start(ProfileKinds::WORK, 1000).unwrap();
    x.fill(&stream, 1.0_f32).unwrap();
    stream.synchronize().unwrap();
    let mut records = Vec::new();
    assert_eq!(profile.drain(&mut records).unwrap(), 0);
    assert_eq!(records.len(), 1);
    let submitted = run(&stream, &broken, "broken", &x, &y);
    assert!(submitted.and_then(|()| stream.synchronize()).is_err());
    assert_eq!(device.status().unwrap_err().status(), Status::DeviceLost);
    // What was recorded can be taken all the same.
    assert_eq!(profile.drain(&mut records).unwrap(), 0);
}
