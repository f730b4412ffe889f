//! Layer A on the test double.

use super::ir::{Access, Level, Role, ScalarOp};
use super::testing::{self, BROKEN, backend, device};
use super::*;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Tests that break every device do not run beside tests that need one.
static ALONE: Mutex<()> = Mutex::new(());

fn binary(name: &str, op: ScalarOp) -> ir::Kernel {
    let mut kernel = ir::Kernel::new(name, 1, 0);
    let params = [Role::In, Role::In, Role::Out]
        .map(|role| kernel.param(DType::F32, role, Level::Row, Access::Contiguous));
    let (a, b) = (kernel.load(params[0]), kernel.load(params[1]));
    let value = kernel.op(op, &[a, b]);
    kernel.store(params[2], value);
    kernel
}

#[test]
fn properties_and_errors_of_devices() {
    let backend = backend();
    assert_eq!(
        (backend.name(), backend.info().version.as_str()),
        ("double", "1.2.3")
    );
    assert_eq!(backend.device_count().unwrap(), 3);
    let properties = backend.device_properties(1).unwrap();
    assert_eq!(
        (properties.name.as_str(), properties.kind),
        ("double 1", Kind::Accelerator)
    );
    assert_eq!(properties.priorities, -1..=2);
    assert!(properties.capabilities.has(Capability::Map) && !properties.capabilities.has(Capability::F64));
    assert_eq!(
        backend.device_properties(3).unwrap_err().status(),
        Status::InvalidArgument
    );
    backend.availability(0).unwrap();
    let error = backend.open(&DeviceOptions::new(1)).unwrap_err();
    assert_eq!(
        (error.status(), error.target(), error.op()),
        (Status::Unavailable, "double:1", "open")
    );
    let text = error.to_string();
    assert!(
        text.starts_with("open: device 1 is switched off; switch it on (unavailable)\n"),
        "{text}"
    );
    assert!(text.contains("thalweg doctor"), "{text}");
    let device = device();
    assert_eq!(
        device.query(PropertyKey::L1Cache).unwrap_err().status(),
        Status::Unsupported
    );
    device.status().unwrap();
}

#[test]
fn launches_copies_and_fills_in_order() {
    let _alone = ALONE.lock();
    let device = device();
    let stream = Stream::with_priority(&device, 2).unwrap();
    let add = Kernel::compile(&device, &binary("add", ScalarOp::Add)).unwrap();
    let a = Buffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0]).unwrap();
    let out = device.alloc(12).unwrap();
    stream
        .launch(&Launch::new(&add, &[3], &[a.arg(), a.arg(), out.arg()]))
        .unwrap();
    drop(add);
    assert_eq!(out.download::<f32>(&stream).unwrap(), [2.0, 4.0, 6.0]);
    assert_eq!(out.download_at::<f32>(&stream, 4, 1).unwrap(), [4.0]);
    out.upload_at(&stream, 8, &[9.0_f32]).unwrap();
    let copy = Copy::new(Place::buffer(&out, 0), Place::buffer(&out, 8), 4);
    let fill = Fill::new(&out, 5.0_f32).range(4, 4);
    stream.submit(&[copy.into(), fill.into()]).unwrap();
    assert_eq!(out.download::<f32>(&stream).unwrap(), [9.0, 5.0, 9.0]);
    let grid = Buffer::from_slice(&stream, &[1_u8, 2, 3, 4, 5, 6]).unwrap();
    let column = device.alloc(2).unwrap();
    let copy = Copy::new(
        Place::buffer(&column, 0).pitch(1),
        Place::buffer(&grid, 1).pitch(3),
        1,
    )
    .rows(2);
    stream.copy(&copy).unwrap();
    assert_eq!(column.download::<u8>(&stream).unwrap(), [2, 5]);
    out.fill(&stream, 1.5_f32).unwrap();
    assert_eq!(out.download::<f32>(&stream).unwrap(), [1.5; 3]);
}

#[test]
fn what_the_abi_cannot_carry_is_checked_here() {
    let _alone = ALONE.lock();
    let (device, other) = (device(), device());
    let stream = Stream::new(&device).unwrap();
    let add = Kernel::compile(&device, &binary("add", ScalarOp::Add)).unwrap();
    let a = device.alloc(16).unwrap();
    let foreign = other.alloc(16).unwrap();
    let status = |args: &[Arg<'_>]| {
        let error = stream.launch(&Launch::new(&add, &[4], args)).unwrap_err();
        assert!(error.op() == "add" && error.target() == "double:0", "{error}");
        assert!(error.to_string().contains("hal/tests.rs:"), "{error}");
        error.status()
    };
    assert_eq!(status(&[a.arg(), a.arg()]), Status::InvalidArgument);
    assert_eq!(status(&[a.arg(), foreign.arg(), a.arg()]), Status::InvalidHandle);
    assert_eq!(
        status(&[a.arg().strides(&[1, 1]), a.arg(), a.arg()]),
        Status::InvalidArgument
    );
    assert_eq!(
        status(&[a.arg(), a.arg(), a.arg().offset(4)]),
        Status::OutOfBounds
    );
    let launch = Launch::new(&add, &[4], &[]);
    assert_eq!(
        other
            .default_stream()
            .unwrap()
            .launch(&launch)
            .unwrap_err()
            .status(),
        Status::InvalidHandle
    );
    let event = Event::new(&other).unwrap();
    assert_eq!(
        stream.wait_event(&event).unwrap_err().status(),
        Status::InvalidHandle
    );
    assert_eq!(
        stream.record_event(&event).unwrap_err().status(),
        Status::InvalidHandle
    );
    let copy = Copy::new(Place::buffer(&foreign, 0), Place::buffer(&a, 0), 4);
    assert_eq!(stream.copy(&copy).unwrap_err().status(), Status::InvalidHandle);
    assert_eq!(
        a.download_at::<f32>(&stream, 8, 3).unwrap_err().status(),
        Status::OutOfBounds
    );
    assert_eq!(
        a.download_at::<f32>(&stream, u64::MAX, 3).unwrap_err().status(),
        Status::OutOfBounds
    );
    assert_eq!(
        a.upload(&stream, &[0_u8; 17]).unwrap_err().status(),
        Status::OutOfBounds
    );
    assert_eq!(
        Stream::with_priority(&device, 3).unwrap_err().status(),
        Status::InvalidArgument
    );
}

#[test]
fn failed_work_is_reported_once_with_the_users_op_and_place() {
    let _alone = ALONE.lock();
    let device = device();
    let stream = Stream::new(&device).unwrap();
    let mul = Kernel::compile(&device, &binary("mul", ScalarOp::Mul)).unwrap();
    let a = device.alloc(4).unwrap();
    BROKEN.store(true, Ordering::Relaxed);
    let tag = Tag::new("square").node(7);
    let line = tag.location().unwrap().line();
    stream
        .launch(&Launch::new(&mul, &[1], &[a.arg(), a.arg(), a.arg()]).tag(tag))
        .unwrap();
    let error = stream.synchronize().unwrap_err();
    BROKEN.store(false, Ordering::Relaxed);
    assert_eq!(error.status(), Status::LaunchFailed);
    let text = error.to_string();
    assert!(
        text.contains(&format!("square at {}:{line}: the device is broken", file!())),
        "{text}"
    );
    stream.synchronize().unwrap();
}

#[test]
fn events_order_streams_and_take_time() {
    let _alone = ALONE.lock();
    let device = device();
    let (s1, s2) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
    let (start, end) = (
        Event::with_timing(&device).unwrap(),
        Event::with_timing(&device).unwrap(),
    );
    let (release, gate) = channel::<()>();
    let done = Arc::new(AtomicBool::new(false));
    start.record(&s1).unwrap();
    s1.callback(move || assert!(gate.recv().is_err())).unwrap();
    s1.record_event(&end).unwrap();
    end.wait(&s2).unwrap();
    let (seen, set) = (Arc::clone(&done), Arc::clone(&done));
    s2.callback(move || set.store(true, Ordering::Release)).unwrap();
    assert!(!s1.query().unwrap() && !s2.query().unwrap() && !end.query().unwrap());
    assert_eq!(
        end.wait_timeout(Duration::from_millis(1)).unwrap_err().status(),
        Status::Timeout
    );
    assert_eq!(
        start.elapsed_ns(&end).unwrap_err().status(),
        Status::InvalidArgument
    );
    assert!(!seen.load(Ordering::Acquire));
    drop(release);
    s2.synchronize().unwrap();
    assert!(seen.load(Ordering::Acquire) && end.query().unwrap());
    // Its queue ends behind the event.
    s1.synchronize().unwrap();
    assert!(s1.query().unwrap());
    assert!(start.elapsed_ns(&end).unwrap() >= 1_000_000);
    assert!(start.elapsed_time(&end).unwrap() >= 1.0);
    s2.wait_stream(&s1).unwrap();
    assert_eq!(
        Event::new(&device)
            .unwrap()
            .elapsed_ns(&end)
            .unwrap_err()
            .status(),
        Status::Unsupported
    );
}

#[test]
fn a_panic_in_a_callback_sticks_to_the_stream() {
    let _alone = ALONE.lock();
    let stream = device().create_stream().unwrap();
    stream.callback(|| panic!("no")).unwrap();
    assert_eq!(stream.synchronize().unwrap_err().status(), Status::LaunchFailed);
    // The callback owns the last reference to another stream and its device.
    let other = device().create_stream().unwrap();
    stream.callback(move || drop(other)).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn graphs_run_and_take_other_buffers() {
    let _alone = ALONE.lock();
    let device = device();
    let stream = Stream::new(&device).unwrap();
    let mul = Kernel::compile(&device, &binary("mul", ScalarOp::Mul)).unwrap();
    let (a, b) = (
        Buffer::from_slice(&stream, &[3.0_f32]).unwrap(),
        device.alloc(4).unwrap(),
    );
    let square = [a.arg(), a.arg(), b.arg()];
    let (first, again) = (Launch::new(&mul, &[1], &square), [b.arg(), b.arg(), b.arg()]);
    let second = Launch::new(&mul, &[1], &again);
    let mut graph = Graph::new(&device, &[Node::new(first, &[]), Node::new(second, &[0])]).unwrap();
    graph.launch(&stream).unwrap();
    assert_eq!(b.download::<f32>(&stream).unwrap(), [81.0]);
    let other = Buffer::from_slice(&stream, &[9.0_f32, 2.0]).unwrap();
    graph.rebind(&a, &other, 4).unwrap();
    graph.launch(&stream).unwrap();
    assert_eq!(
        (b.download::<f32>(&stream).unwrap(), graph.len()),
        (vec![16.0], 2)
    );
    let refused = |result: super::Result<()>| result.unwrap_err().status();
    assert_eq!(refused(graph.rebind(&a, &b, 0)), Status::InvalidArgument);
    assert_eq!(refused(graph.rebind(&b, &other, 8)), Status::OutOfBounds);
    assert_eq!(refused(graph.rebind(&b, &other, 4)), Status::Overlap);
    let far = testing::backend().open(&DeviceOptions::new(2)).unwrap();
    let far = far.alloc(4).unwrap();
    assert_eq!(refused(graph.rebind(&other, &far, 0)), Status::InvalidHandle);
    graph.launch(&stream).unwrap();
    drop(other);
    assert_eq!(graph.launch(&stream).unwrap_err().status(), Status::InvalidHandle);
    let late = [Node::new(first, &[1]), Node::new(second, &[])];
    assert_eq!(
        Graph::new(&device, &late).unwrap_err().status(),
        Status::InvalidArgument
    );
}

#[test]
fn memory_is_counted_imported_mapped_and_limited() {
    let _alone = ALONE.lock();
    let device = testing::backend()
        .open(&DeviceOptions::new(0).memory_limit(1 << 20).block_size(1 << 16))
        .unwrap();
    let stream = device.default_stream().unwrap();
    assert!(stream.is_default() && stream == device.default_stream().unwrap());
    let a = Buffer::import_vec(&device, vec![1_i32, 2, 3]).unwrap();
    assert_eq!(a.download::<i32>(&stream).unwrap(), [1, 2, 3]);
    // SAFETY: the stream is idle, and the buffer has 12 bytes.
    assert_eq!(unsafe { a.map().unwrap().cast::<i32>().add(2).read() }, 3);
    let b = device.alloc(1000).unwrap();
    assert_eq!((b.size(), device.memory_stats().unwrap().allocated), (1000, 1024));
    drop(b);
    let stats = device.memory_stats().unwrap();
    assert_eq!(
        (stats.allocated, stats.max_allocated, stats.reserved),
        (0, 1024, 1 << 16)
    );
    device.reset_peak_memory_stats().unwrap();
    assert_eq!(device.memory_stats().unwrap().max_allocated, 0);
    assert!(
        device
            .memory_summary()
            .unwrap()
            .contains("| Reserved memory      |  65536 B             |")
    );
    assert_eq!(device.empty_cache().unwrap(), 1 << 16);
    let error = stream.alloc(2 << 20, Tag::new("energy")).unwrap_err();
    let Error::OutOfMemory(oom) = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (oom.device_id, oom.op.as_str(), oom.bytes, oom.stats.limit),
        (0, "energy", 2 << 20, 1 << 20)
    );
    assert_eq!(oom.stats.out_of_memory, 1);
    let text = error.to_string();
    let first = "energy: out of memory on double:0: 2097152 B asked for, limit 1048576 B; the pool holds 0 B reserved, \
                 0 B allocated, 0 B in its largest free block\n";
    assert!(text.starts_with(first), "{text}");
    device.set_memory_limit(0).unwrap();
    stream.alloc(2 << 20, Tag::new("energy")).unwrap();
    let info = device.mem_get_info().unwrap();
    assert!(info.free > 0 && info.free <= info.total);
}

#[test]
fn objects_keep_their_device_open() {
    let _alone = ALONE.lock();
    let buffer = Buffer::from_slice(&device().default_stream().unwrap(), &[4_u64]).unwrap();
    let stream = buffer.device().default_stream().unwrap();
    assert_eq!(buffer.download::<u64>(&stream).unwrap(), [4]);
    let backend = buffer.device().backend().clone();
    backend.shutdown().unwrap();
    let error = buffer.download::<u64>(&stream).unwrap_err();
    assert_eq!(error.status(), Status::Unavailable);
}

#[test]
fn library_ops_are_asked_for_first() {
    let device = device();
    let matmul = library::LibraryOp::Matmul(library::Matmul {
        batch: 0,
        operands: [DType::F32; 2],
        accumulate: DType::F32,
        output: DType::F32,
        epilogue: None,
    });
    assert_eq!(
        Kernel::supports(&device, &matmul).unwrap_err().status(),
        Status::Unsupported
    );
    let definition = matmul.definition().unwrap();
    Kernel::supports(&device, &definition).unwrap();
    let kernel = Kernel::compile(&device, &definition).unwrap();
    assert_eq!((kernel.name(), kernel.axes()), ("matmul", &[3_u8, 3, 2][..]));
    let broken = ir::Kernel::new("no spaces", 1, 0);
    assert_eq!(
        Kernel::compile(&device, &broken).unwrap_err().status(),
        Status::CompileFailed
    );
}

#[test]
fn a_device_closes_with_its_last_object() {
    let _alone = ALONE.lock();
    // Every handle of a closed device is stale.
    let is_closed = |backend: &Backend, handle: u64| {
        // SAFETY: plain call of a table.
        unsafe { (backend.tables().device.status)(backend.context(), handle) == Status::InvalidHandle as i32 }
    };
    let device = device();
    let (backend, handle) = (device.backend().clone(), device.handle());
    let stream = Stream::new(&device).unwrap();
    let (first, second) = (device.alloc(4).unwrap(), device.alloc(1 << 20).unwrap());
    drop(device);
    drop(stream);
    assert!(!is_closed(&backend, handle));
    drop(first);
    let again = second.device().clone();
    let imported = Buffer::import_vec(&again, vec![1_u8]).unwrap();
    drop((second, again));
    assert!(!is_closed(&backend, handle));
    drop(imported);
    assert!(is_closed(&backend, handle));
}

#[test]
fn the_last_handle_and_the_last_buffer_may_go_at_once() {
    let _alone = ALONE.lock();
    let backend = backend();
    for _ in 0..300 {
        let device = backend.open(&DeviceOptions::new(0).block_size(1 << 16)).unwrap();
        let handle = device.handle();
        let buffers: Vec<Buffer> = (0..4).map(|_| device.alloc(100).unwrap()).collect();
        std::thread::scope(|threads| {
            for buffer in buffers {
                threads.spawn(move || {
                    let again = buffer.device().clone();
                    drop(buffer);
                    drop(again.alloc(100).unwrap());
                });
            }
            drop(device);
        });
        // SAFETY: plain call of a table.
        let code = unsafe { (backend.tables().device.status)(backend.context(), handle) };
        assert_eq!(code, Status::InvalidHandle as i32);
    }
}
