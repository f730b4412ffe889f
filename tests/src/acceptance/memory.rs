//! Memory figures and their table.

use super::{Outcome, apply, binary, equal};
use thalweg::hal::ir::ScalarOp;
use thalweg::hal::statistics::{size_in_unit, to_map};
use thalweg::hal::{Backend, Buffer, DeviceOptions};

const SUMMARY: &str = "\
|=============================================|
|               Memory summary                |
|=============================================|
| Metric               | Data                 |
|---------------------------------------------|
| Reserved memory      |   1024 MB            |
|---------------------------------------------|
| Allocated memory     |   4096 B             |
|---------------------------------------------|
| Idle memory          |   1023 MB            |
|---------------------------------------------|
| Eager free memory    |      0 B             |
|---------------------------------------------|
| Max reserved memory  |   1024 MB            |
|---------------------------------------------|
| Max allocated memory |   8192 B             |
|=============================================|
";

/// Two 1×2 f32, their sum, and the sum dropped.
///
/// # Errors
/// What differs.
pub fn a1(backend: &Backend) -> Outcome {
    let device = backend.open(&DeviceOptions::new(0))?;
    let stream = device.default_stream()?;
    let add = binary(&device, "add", ScalarOp::Add)?;
    let a = Buffer::from_slice(&stream, &[1.0_f32, 2.0])?;
    let b = Buffer::from_slice(&stream, &[3.0_f32, 4.0])?;
    let sum = apply(&stream, &add, &a, &b)?;
    equal("1×2 sum", sum.download::<f32>(&stream)?, vec![4.0, 6.0])?;
    drop(sum);
    device.synchronize()?;
    let stats = device.memory_stats()?;
    equal("allocated", stats.allocated, 1024)?;
    equal("max allocated", stats.max_allocated, 1536)
}

/// 1000 f32, `a + a`, the result dropped: the figures, and their table byte for byte.
///
/// # Errors
/// What differs.
pub fn a2_and_a3(backend: &Backend) -> Outcome {
    let device = backend.open(&DeviceOptions::new(0))?;
    let stream = device.default_stream()?;
    let add = binary(&device, "add", ScalarOp::Add)?;
    let a = Buffer::from_slice(&stream, &[0.5_f32; 1000])?;
    let sum = apply(&stream, &add, &a, &a)?;
    equal("a + a", sum.download::<f32>(&stream)?, vec![1.0; 1000])?;
    drop(sum);
    device.synchronize()?;
    let stats = to_map(&device.memory_stats()?);
    for (name, expected) in [
        ("total_allocated_memory", 4096),
        ("max_allocated_memory", 8192),
        ("total_reserved_memory", 1 << 30),
        ("max_reserved_memory", 1 << 30),
        ("total_idle_memory", (1 << 30) - 4096),
        ("total_eager_free_memory", 0),
    ] {
        equal(name, stats.get(name).copied(), Some(expected))?;
    }
    equal("the summary", device.memory_summary()?.as_str(), SUMMARY)?;
    equal("length of the summary", SUMMARY.len(), 816)
}

/// The size column of the table.
///
/// # Errors
/// What differs.
pub fn a4() -> Outcome {
    for (bytes, expected) in [
        (786_431, (786_431, "B")),
        (786_432, (768, "KB")),
        (1 << 30, (1024, "MB")),
    ] {
        equal(&format!("{bytes} B"), size_in_unit(bytes), expected)?;
    }
    Ok(())
}
