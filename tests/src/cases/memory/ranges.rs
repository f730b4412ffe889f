//! What the pool's blocks are made of.

use super::reuse::freed_in_use;
use crate::kit::{Case, Check, Stop};
use crate::rig::values::Random;
use crate::rig::{Device, Subject};
use crate::{check, check_eq};
use std::collections::BTreeMap;
use thalweg_hal::tables::{MemoryRange, MemoryUse};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("memory", name, run);
    vec![
        case("ranges_make_up_the_blocks", make_up_the_blocks),
        case("ranges_that_a_stream_uses", that_a_stream_uses),
        case("ranges_beyond_the_capacity", beyond_the_capacity),
    ]
}

const MOST: usize = 4096;

/// The ranges by buffer, whose sums are the pool's figures.
fn buffers(device: &Device) -> Result<BTreeMap<u64, MemoryRange>, Stop> {
    let (ranges, len) = device.ranges(MOST)?;
    check_eq!(ranges.len(), len, "ranges with room for {MOST}");
    let mut sums = BTreeMap::from(MemoryUse::ALL.map(|(usage, _)| (usage as u32, 0)));
    let mut blocks: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for range in ranges {
        let (end, bytes) = blocks.entry(range.block).or_insert((0, range.block_bytes));
        check_eq!(range.offset, *end, "offset of {range:?}, which follows others");
        check_eq!(range.block_bytes, *bytes, "block_bytes of {range:?}");
        check_eq!(range.reserved, 0, "reserved of {range:?}");
        check!(range.bytes > 0, "{range:?} is empty");
        *end += range.bytes;
        let Some(sum) = sums.get_mut(&range.usage) else {
            return Err(Stop::Failed(format!("{range:?} has no use of the contract")));
        };
        *sum += range.bytes;
        check_eq!(
            range.buffer != 0,
            range.usage == MemoryUse::Allocated as u32,
            "whether a buffer lies in {range:?}"
        );
        if range.buffer != 0 {
            check!(
                found.insert(range.buffer, range).is_none(),
                "{range:?} comes twice"
            );
        }
    }
    for (block, (end, bytes)) in blocks {
        check_eq!(end, bytes, "bytes of all ranges of block {block}");
    }
    let figures = device.statistics()?;
    for (usage, wanted) in [
        (MemoryUse::Allocated, figures.allocated),
        (MemoryUse::Idle, figures.idle),
        (MemoryUse::EagerFree, figures.eager_free),
    ] {
        check_eq!(sums[&(usage as u32)], wanted, "bytes that are {}", usage.name());
    }
    Ok(found)
}

fn make_up_the_blocks(subject: &Subject) -> Check {
    let device = Device::limited(subject, 0, 1 << 20)?;
    check_eq!(
        device.ranges(MOST)?.1,
        0,
        "ranges of a device that was just opened"
    );
    let mut random = Random::new(23);
    let mut live = BTreeMap::new();
    for step in 0..300 {
        if live.len() < 5 || random.below(3) > 0 {
            let bytes = 1 + random.below(if step % 50 == 0 { 3 << 20 } else { 6000 });
            live.insert(device.alloc(bytes)?, bytes);
        }
        if live.len() > 40 || (live.len() > 5 && random.below(3) == 0) {
            let at = random.below(live.len() as u64) as usize;
            if let Some(&buffer) = live.keys().nth(at) {
                device.free(buffer)?;
                live.remove(&buffer);
            }
        }
        let found = buffers(&device)?;
        check!(
            found.keys().eq(live.keys()),
            "the buffers of the ranges are not those that live in step {step}"
        );
        for (buffer, range) in found {
            check!(
                range.bytes >= live[&buffer],
                "{range:?} is shorter than its buffer"
            );
        }
    }
    Ok(())
}

fn that_a_stream_uses(subject: &Subject) -> Check {
    let device = Device::limited(subject, 0, 1 << 20)?;
    let held = device.stream()?;
    let (kept, freed) = (device.alloc(1000)?, device.alloc(2000)?);
    let gate = freed_in_use(&device, held, freed)?;
    let meanwhile = buffers(&device)?;
    gate.open();
    device.join(held)?;
    check!(
        meanwhile.keys().eq([&kept]),
        "{meanwhile:?} while a stream uses a range"
    );
    check!(
        buffers(&device)?.keys().eq([&kept]),
        "the buffers after the stream has passed"
    );
    Ok(())
}

fn beyond_the_capacity(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    for _ in 0..3 {
        device.alloc(100)?;
    }
    let (all, len) = device.ranges(MOST)?;
    check!(len >= 3, "{len} ranges of three buffers");
    check_eq!(device.ranges(0)?, (Vec::new(), len), "with room for none");
    check_eq!(device.ranges(2)?, (all[..2].to_vec(), len), "with room for two");
    Ok(())
}
