//! Allocation and the pool's figures.

use crate::kit::{Case, Check};
use crate::rig::device::BLOCK;
use crate::rig::values::Random;
use crate::rig::{Device, Raw, Subject};
use crate::{check, check_eq};
use std::collections::HashSet;
use thalweg_hal::tables::{MemoryInfo, MemoryStatistics};
use thalweg_hal::{Result, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("memory", name, run);
    vec![
        case("sizes", sizes),
        case("zero_bytes", zero_bytes),
        case("figures_of_an_addition", figures_of_an_addition),
        case("figures_add_up", figures_add_up),
        case("peaks", peaks),
        case("block_size", block_size),
        case("larger_than_a_block", larger_than_a_block),
        case("odd_block_sizes", odd_block_sizes),
        case("nothing_is_reserved_at_first", nothing_at_first),
        case("double_free", double_free),
        case("handles_are_not_used_again", handles),
        case("buffers_do_not_overlap", distinct),
        case("info", info),
        case("devices_are_apart", devices_are_apart),
    ]
}

const GRANULE: u64 = 512;

fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(GRANULE)
}

fn sizes(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let mut allocated = 0;
    let mut buffers = Vec::new();
    for bytes in [
        1,
        2,
        511,
        512,
        513,
        1023,
        1024,
        4095,
        4097,
        65536,
        100_003,
        1 << 20,
    ] {
        let buffer = device.alloc(bytes)?;
        allocated += rounded(bytes);
        check_eq!(device.size(buffer)?, bytes, "size of a buffer");
        check_eq!(
            device.statistics()?.allocated,
            allocated,
            "allocated after {bytes} bytes more"
        );
        buffers.push((buffer, bytes));
    }
    for (buffer, bytes) in buffers {
        device.free(buffer)?;
        allocated -= rounded(bytes);
        check_eq!(
            device.statistics()?.allocated,
            allocated,
            "allocated after a free of {bytes} bytes"
        );
    }
    Ok(())
}

fn zero_bytes(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (a, b) = (device.alloc(0)?, device.alloc(0)?);
    check!(
        a != b && a != 0 && b != 0,
        "two buffers of no bytes have the handles {a:#x} and {b:#x}"
    );
    check_eq!(device.size(a)?, 0, "size of a buffer of no bytes");
    let stream = device.stream()?;
    device.fill_byte(stream, a, 0, 1)?;
    let status = device.fill_byte(stream, a, 1, 1).map_err(|error| error.status);
    check_eq!(
        status,
        Err(Status::OutOfBounds),
        "a fill of one byte of a buffer of none"
    );
    device.free(a)?;
    device.free(b)?;
    check_eq!(device.statistics()?.live, 0, "live buffers after both were freed");
    Ok(())
}

/// A1: two 1×2 f32 tensors and their sum, which is dropped.
fn figures_of_an_addition(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (_a, _b) = (device.alloc(8)?, device.alloc(8)?);
    let sum = device.alloc(8)?;
    device.free(sum)?;
    let figures = device.statistics()?;
    check_eq!(figures.allocated, 1024, "allocated");
    check_eq!(figures.max_allocated, 1536, "max_allocated");
    check_eq!(figures.eager_free, 0, "eager_free");
    Ok(())
}

pub(super) fn consistent(device: &Device) -> Result<MemoryStatistics, crate::kit::Stop> {
    let figures = device.statistics()?;
    let MemoryStatistics {
        reserved,
        allocated,
        idle,
        eager_free,
        ..
    } = figures;
    check_eq!(
        allocated + idle + eager_free,
        reserved,
        "allocated + idle + eager_free of {figures:?}"
    );
    check!(
        allocated.is_multiple_of(GRANULE),
        "allocated is {allocated}, not a multiple of {GRANULE}"
    );
    check!(
        figures.max_reserved >= reserved,
        "the peak of reserved is below it: {figures:?}"
    );
    check!(
        figures.max_allocated >= allocated,
        "the peak of allocated is below it: {figures:?}"
    );
    check!(
        figures.largest_free <= idle,
        "the largest free block is larger than all that is idle: {figures:?}"
    );
    check_eq!(
        figures.allocations - figures.frees,
        figures.live,
        "allocations less frees of {figures:?}"
    );
    Ok(figures)
}

fn figures_add_up(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let mut random = Random::new(11);
    let (mut live, mut allocated, mut peak, mut allocations) = (Vec::new(), 0, 0, 0);
    for step in 0..2000 {
        if live.len() < 5 || random.below(3) > 0 {
            let bytes = 1 + random.below(if step % 50 == 0 { 1 << 19 } else { 6000 });
            live.push((device.alloc(bytes)?, bytes));
            allocations += 1;
            allocated += rounded(bytes);
            peak = peak.max(allocated);
        }
        if live.len() > 40 || (live.len() > 5 && random.below(3) == 0) {
            let (buffer, bytes) = live.swap_remove(random.below(live.len() as u64) as usize);
            device.free(buffer)?;
            allocated -= rounded(bytes);
        }
        let figures = consistent(&device)?;
        check_eq!(figures.allocated, allocated, "allocated in step {step}");
        check_eq!(figures.max_allocated, peak, "max_allocated in step {step}");
        check_eq!(figures.live, live.len() as u64, "live in step {step}");
        check_eq!(figures.allocations, allocations, "allocations in step {step}");
    }
    for (buffer, _) in live {
        device.free(buffer)?;
    }
    let figures = consistent(&device)?;
    check_eq!(
        (figures.allocated, figures.live),
        (0, 0),
        "allocated and live after all was freed"
    );
    check_eq!(figures.idle, figures.reserved, "idle after all was freed");
    Ok(())
}

fn reset_peaks(device: &Device) -> Result<()> {
    let raw = device.raw();
    // SAFETY: plain call.
    raw.status(unsafe { (raw.tables.memory.reset_peaks)(raw.context, device.handle()) })
}

fn peaks(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (a, b) = (device.alloc(5000)?, device.alloc(10_000)?);
    device.free(b)?;
    check_eq!(
        device.statistics()?.max_allocated,
        rounded(5000) + rounded(10_000),
        "the peak"
    );
    reset_peaks(&device)?;
    let figures = device.statistics()?;
    check_eq!(figures.max_allocated, rounded(5000), "the peak after a reset");
    check_eq!(
        figures.max_reserved,
        figures.reserved,
        "the peak of reserved after a reset"
    );
    check_eq!(
        figures.allocations,
        2,
        "a reset of peaks must leave counters alone; allocations"
    );
    device.free(a)?;
    check_eq!(
        device.statistics()?.max_allocated,
        rounded(5000),
        "the peak after a free"
    );
    Ok(())
}

fn block_size(subject: &Subject) -> Check {
    for block in [1 << 20, 3 << 20] {
        let device = Device::limited(subject, 0, block)?;
        let first = device.alloc(100)?;
        let figures = consistent(&device)?;
        check_eq!(
            figures.reserved,
            block,
            "reserved after the first small buffer, with blocks of {block}"
        );
        check_eq!(figures.reserves, 1, "reserves after the first small buffer");
        check_eq!(
            figures.largest_free,
            block - GRANULE,
            "largest_free after the first small buffer"
        );
        let _second = device.alloc(block)?;
        check_eq!(
            device.statistics()?.reserved,
            2 * block,
            "reserved after a buffer as large as a block"
        );
        device.free(first)?;
    }
    Ok(())
}

fn larger_than_a_block(subject: &Subject) -> Check {
    let device = Device::limited(subject, 0, 1 << 20)?;
    let bytes = (5 << 20) + 3;
    let buffer = device.alloc(bytes)?;
    let figures = consistent(&device)?;
    check_eq!(device.size(buffer)?, bytes, "size");
    check_eq!(figures.allocated, rounded(bytes), "allocated");
    let stream = device.stream()?;
    device.fill_byte(stream, buffer, bytes, 0x5a)?;
    check!(
        device.download(stream, buffer, bytes)?.iter().all(|&b| b == 0x5a),
        "a buffer larger than a block does not hold what it was filled with"
    );
    Ok(())
}

fn odd_block_sizes(subject: &Subject) -> Check {
    for block in [1, 511, 513, 100_000, u64::MAX, u64::MAX - 511] {
        match Device::limited(subject, 0, block) {
            Ok(device) => {
                device.alloc(100)?;
                consistent(&device)?;
            }
            Err(crate::kit::Stop::Failed(why)) => {
                let typed =
                    why.contains(Status::InvalidArgument.name()) || why.contains(Status::OutOfMemory.name());
                check!(typed, "a device with blocks of {block} bytes: {why}");
            }
            Err(unsupported) => return Err(unsupported),
        }
    }
    Ok(())
}

fn nothing_at_first(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let figures = device.statistics()?;
    check_eq!(
        figures,
        MemoryStatistics::default(),
        "figures of a device that was just opened"
    );
    Ok(())
}

fn double_free(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let (buffer, other) = (device.alloc(100)?, device.alloc(100)?);
    let stream = device.stream()?;
    device.free(buffer)?;
    let results = [
        ("free", device.free(buffer).err()),
        ("size", device.size(buffer).err()),
        ("fill", device.fill_byte(stream, buffer, 1, 0).err()),
        ("map", device.map(buffer).err()),
    ];
    for (call, error) in results {
        let status = error.map(|error| error.status);
        let without_map = call == "map" && status == Some(Status::Unsupported);
        check!(
            without_map || status == Some(Status::InvalidHandle),
            "{call} of a freed buffer: {status:?}"
        );
    }
    check_eq!(device.statistics()?.frees, 1, "frees");
    check_eq!(device.size(other)?, 100, "size of the other buffer");
    Ok(())
}

fn handles(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let mut seen = HashSet::new();
    for _ in 0..5000 {
        let buffer = device.alloc(16)?;
        check!(buffer != 0, "a buffer has the handle 0");
        check!(seen.insert(buffer), "the handle {buffer:#x} was given out before");
        device.free(buffer)?;
    }
    for &buffer in &seen {
        let status = device.size(buffer).map_err(|error| error.status);
        check_eq!(
            status,
            Err(Status::InvalidHandle),
            "size of a buffer that was freed"
        );
    }
    Ok(())
}

fn distinct(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let stream = device.stream()?;
    let mut random = Random::new(5);
    let mut live: Vec<(u64, u64, u8)> = Vec::new();
    for step in 0..400_u64 {
        let bytes = 1 + random.below(20_000);
        let buffer = device.alloc(bytes)?;
        device.fill_byte(stream, buffer, bytes, step as u8)?;
        live.push((buffer, bytes, step as u8));
        if live.len() > 60 {
            let (buffer, bytes, value) = live.swap_remove(random.below(60) as usize);
            let found = device.download(stream, buffer, bytes)?;
            check!(
                found.iter().all(|&b| b == value),
                "a buffer holds what another was filled with"
            );
            device.free(buffer)?;
        }
    }
    for (buffer, bytes, value) in live {
        let found = device.download(stream, buffer, bytes)?;
        check!(
            found.iter().all(|&b| b == value),
            "a buffer holds what another was filled with"
        );
    }
    Ok(())
}

fn info(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let raw: Raw = device.raw();
    // SAFETY: the out pointer is writable.
    let info = raw.out(MemoryInfo::default(), |out| unsafe {
        (raw.tables.memory.info)(raw.context, device.handle(), out)
    })?;
    check!(info.total > 0, "the device has no memory");
    check!(
        info.free <= info.total,
        "{} bytes of {} are free",
        info.free,
        info.total
    );
    let total = device.properties().total_memory;
    check!(
        total == 0 || total >= BLOCK,
        "the properties say that the device has {total} bytes"
    );
    Ok(())
}

fn devices_are_apart(subject: &Subject) -> Check {
    let (a, b) = (Device::open(subject)?, Device::open(subject)?);
    check!(
        a.handle() != b.handle(),
        "opening a device twice gives one handle"
    );
    let buffer = a.alloc(1000)?;
    check_eq!(
        b.statistics()?,
        MemoryStatistics::default(),
        "figures of a device beside one that is used"
    );
    drop(b);
    check_eq!(a.size(buffer)?, 1000, "a buffer after another device was closed");
    Ok(())
}
