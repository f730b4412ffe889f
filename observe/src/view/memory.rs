//! Memory that was taken and given back: `memory.csv`, and what was in use at the peak.

use crate::error::Result;
use crate::known::Known;
use crate::out::{Cell, Maybe, Micros, Out};
use crate::pass::View;
use crate::survey::InUse;
use std::collections::HashMap;
use std::path::Path;
use thalweg::observe::recording::{Memory, MemoryKind};

/// The moment at which most memory of a device was in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryPeak {
    /// Rank of the process.
    pub rank: u32,
    /// The device: `cpu:0`.
    pub device: String,
    /// Bytes in use.
    pub bytes: u64,
    /// The step in which it was, if it was in one.
    pub step: Option<u64>,
    /// Whose the bytes were, most first.
    pub owners: Vec<MemoryOwner>,
}

/// Whose memory it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryOwner {
    /// `Default/conv1/conv2d`, or the name of a traced function.
    pub name: String,
    /// The user's line; may be empty.
    pub line: String,
    /// Bytes.
    pub bytes: u64,
}

/// Number of an owner: place and program of the run that took the memory.
pub(crate) type Taker = (u32, u32);

/// Writes `memory.csv`, and finds whose memory it was at the peaks.
pub(crate) struct MemoryView {
    out: Option<Out>,
    in_use: InUse,
    reserved: HashMap<u32, u64>,
    /// By device and buffer.
    live: HashMap<(u32, u64), (u64, Taker)>,
    records: u64,
    peaks: Vec<MemoryPeak>,
}

impl MemoryView {
    /// Writes the file if there is a folder for it.
    pub(crate) fn new(folder: Option<&Path>) -> Result<MemoryView> {
        let mut out = folder.map(|folder| Out::new(folder, "memory.csv")).transpose()?;
        if let Some(out) = &mut out {
            out.write(format_args!(
                "rank,step,time_us,device,event,buffer,bytes,in_use,reserved,op,line\n"
            ))?;
        }
        Ok(MemoryView {
            out,
            in_use: InUse::default(),
            reserved: HashMap::new(),
            live: HashMap::new(),
            records: 0,
            peaks: Vec::new(),
        })
    }

    pub(crate) fn finish(mut self, lost: u64) -> Result<Vec<MemoryPeak>> {
        if let Some(mut out) = self.out.take() {
            super::ops::note_lost(&mut out, lost)?;
            out.finish()?;
        }
        self.peaks
            .sort_by(|a, b| (a.rank, &a.device).cmp(&(b.rank, &b.device)));
        Ok(self.peaks)
    }

    fn peak(&mut self, known: &Known<'_>, memory: &Memory, bytes: u64) {
        let mut owners: HashMap<Taker, u64> = HashMap::new();
        let of_device = self
            .live
            .iter()
            .filter(|((device, _), _)| *device == memory.device);
        for (_, (bytes, taker)) in of_device {
            let sum = owners.entry(*taker).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        let mut owners: Vec<MemoryOwner> = (owners.into_iter())
            .map(|(taker, bytes)| {
                let (name, line) = taker_name(known, taker);
                MemoryOwner { name, line, bytes }
            })
            .collect();
        owners.sort_by(|a, b| (b.bytes, &a.name, &a.line).cmp(&(a.bytes, &b.name, &b.line)));
        self.peaks.push(MemoryPeak {
            rank: known.rank(),
            device: known.target(memory.device),
            bytes,
            step: known.step_number(known.survey.step_at(u32::MAX, memory.time)),
            owners,
        });
    }
}

/// What an owner is called, and the user's line.
pub(crate) fn taker_name(known: &Known<'_>, (place, program): Taker) -> (String, String) {
    if let Some(found) = known.places.get(&place) {
        return (known.call_name(place, 0), known.source(found));
    }
    let program = known.programs.get(&program).map(|one| known.text(one.name));
    let name = match program {
        Some("") => "function",
        Some(name) => name,
        None => "unknown",
    };
    (name.to_owned(), String::new())
}

impl View for MemoryView {
    fn recording(&mut self, _: &Known<'_>) -> Result<()> {
        self.in_use = InUse::default();
        self.reserved.clear();
        self.live.clear();
        self.records = 0;
        Ok(())
    }

    fn memory(&mut self, known: &Known<'_>, memory: &Memory) -> Result<()> {
        let run = known.runs.get(memory.correlation);
        let taker = run.map_or((0, 0), |run| (run.run.place, run.run.program));
        let buffer = (memory.device, memory.buffer);
        let reserved = self.reserved.entry(memory.device).or_default();
        let (event, taker) = match memory.kind {
            MemoryKind::Alloc => {
                self.live.insert(buffer, (memory.bytes, taker));
                ("alloc", taker)
            }
            MemoryKind::Free => {
                let owner = self.live.remove(&buffer);
                ("free", owner.map_or(taker, |(_, taker)| taker))
            }
            MemoryKind::Reserve => {
                *reserved = reserved.saturating_add(memory.bytes);
                ("reserve", taker)
            }
            MemoryKind::Release => {
                *reserved = reserved.saturating_sub(memory.bytes);
                ("release", taker)
            }
        };
        let reserved = *reserved;
        let in_use = self.in_use.after(memory);
        if let Some(out) = &mut self.out {
            let step = match run {
                Some(run) => run.step,
                None => known.survey.step_at(u32::MAX, memory.time),
            };
            let (name, line) = taker_name(known, taker);
            out.write(format_args!(
                "{},{},{},{},{event},{},{},{in_use},{reserved},{},{}\n",
                known.rank(),
                Maybe(known.step_number(step)),
                Micros(known.time(memory.time)),
                Cell(&known.target(memory.device)),
                memory.buffer,
                memory.bytes,
                Cell(&name),
                Cell(&line)
            ))?;
        }
        let peak = known.survey.peaks.get(&memory.device);
        if peak.is_some_and(|peak| peak.record == self.records && peak.bytes > 0) {
            self.peak(known, memory, in_use);
        }
        self.records += 1;
        Ok(())
    }
}
