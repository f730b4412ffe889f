//! What was taken and given back, and whose it was.

use crate::known::Known;
use crate::page::columns::{Heap, Place, number};
use crate::view::memory::{Taker, taker_name};
use foldhash::HashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use thalweg::observe::recording::{Memory, MemoryKind};

/// The memory of a device.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeviceMemory {
    /// The group of the device's rows in the timeline.
    group: String,
    rank: u32,
    device: String,
    owners: Vec<Owner>,
    count: usize,
    /// Three numbers an event: nanoseconds since the one before, four times the owner plus the kind, bytes.
    events: Place,
}

/// Who took memory.
#[derive(Clone, Debug, Serialize)]
struct Owner {
    name: String,
    line: String,
}

#[derive(Debug, Default)]
struct Device {
    events: Vec<Event>,
    owners: Vec<Owner>,
    known: HashMap<Taker, u32>,
    /// Owners by name and line: programs of one function are one owner.
    named: HashMap<(String, String), u32>,
    live: HashMap<u64, u32>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    time: u64,
    kind: MemoryKind,
    owner: u32,
    bytes: u64,
}

/// The memory of a recording's devices.
#[derive(Debug, Default)]
pub(crate) struct DeviceMemories {
    devices: BTreeMap<u32, Device>,
}

impl DeviceMemories {
    pub(crate) fn add(&mut self, known: &Known<'_>, memory: &Memory) {
        let device = self.devices.entry(memory.device).or_default();
        let run = known.runs.get(memory.correlation);
        let taker = run.map_or((0, 0), |run| (run.run.place, run.run.program));
        let owner = match memory.kind {
            MemoryKind::Free => device.live.remove(&memory.buffer),
            MemoryKind::Alloc | MemoryKind::Reserve | MemoryKind::Release => None,
        };
        let owner = owner.unwrap_or_else(|| {
            *device.known.entry(taker).or_insert_with(|| {
                let name = taker_name(known, taker);
                *device.named.entry(name.clone()).or_insert_with(|| {
                    let (name, line) = name;
                    device.owners.push(Owner { name, line });
                    device.owners.len() as u32 - 1
                })
            })
        });
        if memory.kind == MemoryKind::Alloc {
            device.live.insert(memory.buffer, owner);
        }
        device.events.push(Event {
            time: known.time(memory.time),
            kind: memory.kind,
            owner,
            bytes: memory.bytes,
        });
    }

    /// `group` names the rows of a device.
    pub(crate) fn put(
        self,
        known: &Known<'_>,
        group: impl Fn(&str) -> String,
        heap: &mut Heap,
    ) -> Vec<DeviceMemory> {
        let put = |(id, mut device): (u32, Device)| {
            device.events.sort_by_key(|event| event.time);
            let (mut bytes, mut last) = (Vec::new(), 0);
            for event in &device.events {
                let kind = match event.kind {
                    MemoryKind::Alloc => 0,
                    MemoryKind::Free => 1,
                    MemoryKind::Reserve => 2,
                    MemoryKind::Release => 3,
                };
                number(&mut bytes, event.time - last);
                number(&mut bytes, u64::from(event.owner) * 4 + kind);
                number(&mut bytes, event.bytes);
                last = event.time;
            }
            let device_name = known.target(id);
            DeviceMemory {
                group: group(&device_name),
                rank: known.rank(),
                device: device_name,
                owners: device.owners,
                count: device.events.len(),
                events: heap.put(&bytes),
            }
        };
        self.devices.into_iter().map(put).collect()
    }
}
