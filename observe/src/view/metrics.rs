//! What was measured of the hardware beside times, where the profile was asked for it.

use crate::error::Result;
use crate::known::Known;
use crate::pass::{Instant, View};
use crate::work::Work;
use std::collections::BTreeMap;
use thalweg::observe::Metric;
use thalweg::observe::recording::{CommandKind, TextId};

/// The beginning of marks that say what was asked for, and what cannot be measured.
const MARK: &str = "ai_core_metrics ";
/// Stretches of time that are kept apart, since later ones may fill the gaps between them.
const APART: usize = 4096;

/// A metric of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricRow {
    /// Rank of the process.
    pub rank: u32,
    /// `cpu:0`.
    pub device: String,
    /// Which.
    pub metric: Metric,
    /// Its parts with their names, 0 to 1, or why there are none.
    pub value: std::result::Result<Vec<(&'static str, f64)>, String>,
    /// Whether counts of operations and bytes, or times, are estimates.
    pub estimated: bool,
}

/// The most that a device was seen to do in a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peaks {
    flops: Option<f64>,
    bytes: Option<f64>,
}

impl Peaks {
    /// Takes a counter: `cpu:0 peak flop/s`.
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        let known = value.is_finite() && value > 0.0;
        let value = known.then_some(value);
        if name.ends_with(" peak flop/s") {
            self.flops = value;
        } else if name.ends_with(" peak byte/s") {
            self.bytes = value;
        }
    }

    /// What parts of the peaks some work in nanoseconds is.
    pub(crate) fn parts(self, flops: u64, bytes: u64, time: u64) -> (Option<f64>, Option<f64>) {
        let part = |count: u64, peak: Option<f64>| {
            let peak = peak.filter(|_| count > 0 && time > 0)?;
            Some(count as f64 * 1e9 / time as f64 / peak)
        };
        (part(flops, self.flops), part(bytes, self.bytes))
    }
}

/// Time in which something ran.
#[derive(Default)]
struct Busy {
    // Apart from each other, in order.
    open: Vec<(u64, u64)>,
    closed: u64,
    floor: u64,
}

impl Busy {
    fn add(&mut self, start: u64, end: u64) {
        let (start, end) = (start.max(self.floor), end.max(self.floor));
        let from = self.open.partition_point(|one| one.1 < start);
        let until = self.open.partition_point(|one| one.0 <= end).max(from);
        let meets = &self.open[from..until];
        let start = meets.first().map_or(start, |one| one.0.min(start));
        let end = meets.last().map_or(end, |one| one.1.max(end));
        self.open.splice(from..until, [(start, end)]);
        if self.open.len() > APART {
            for (start, end) in self.open.drain(..APART / 2) {
                self.closed += end - start;
                self.floor = end;
            }
        }
    }

    fn time(&self) -> u64 {
        self.closed + self.open.iter().map(|(start, end)| end - start).sum::<u64>()
    }
}

/// What is known of a device.
#[derive(Default)]
struct Device {
    asked: Option<Metric>,
    unavailable: Option<String>,
    peaks: Peaks,
    counters: BTreeMap<String, f64>,
    kernels: Busy,
    all: Busy,
    begun: Option<u64>,
    ended: u64,
    flops: u64,
    bytes: u64,
    inexact: bool,
}

/// Reads marks, counters and commands.
#[derive(Default)]
pub(crate) struct Metrics {
    // Of this recording, by target.
    devices: BTreeMap<String, Device>,
    targets: BTreeMap<u32, String>,
    rows: Vec<MetricRow>,
}

impl Metrics {
    pub(crate) fn finish(self) -> Vec<MetricRow> {
        self.rows
    }
}

impl Device {
    fn value(&self, metric: Metric) -> std::result::Result<Vec<(&'static str, f64)>, String> {
        if let Some(why) = &self.unavailable {
            return Err(why.clone());
        }
        let span = self.begun.map_or(0, |begun| self.ended.saturating_sub(begun));
        if span == 0 {
            return Err("nothing ran on the device".to_owned());
        }
        let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let (kernels, all) = (self.kernels.time(), self.all.time());
        let counted = |name: &str| match self.counters.get(name) {
            Some(value) => Ok(*value),
            None => Err(format!("the processor does not count {name}")),
        };
        let (flops, bytes) = self.peaks.parts(self.flops, self.bytes, all);
        let unknown = || "the kernels' operations and bytes are not known".to_owned();
        Ok(match metric {
            Metric::PipeUtilization => vec![
                ("compute", ratio(kernels, span)),
                ("copy", ratio(all - kernels.min(all), span)),
                ("wait", 1.0 - ratio(all, span)),
            ],
            Metric::ArithmeticUtilization => vec![("of its peak", flops.ok_or_else(unknown)?)],
            Metric::Memory => vec![("of its peak", bytes.ok_or_else(unknown)?)],
            Metric::MemoryL0 => {
                let (reads, misses) = (counted("first cache reads")?, counted("first cache misses")?);
                vec![("of reads are served", 1.0 - (misses / reads.max(1.0)).min(1.0))]
            }
            Metric::ResourceConflictRatio => {
                let (stalled, cycles) = (counted("stalled cycles")?, counted("cycles")?);
                vec![("of cycles are stalled", (stalled / cycles.max(1.0)).min(1.0))]
            }
        })
    }

    fn is_estimated(&self, metric: Metric) -> bool {
        match metric {
            Metric::ArithmeticUtilization | Metric::Memory => true,
            Metric::PipeUtilization => self.inexact,
            Metric::MemoryL0 | Metric::ResourceConflictRatio => false,
        }
    }
}

impl View for Metrics {
    fn command(&mut self, known: &Known<'_>, work: &Work<'_>) -> Result<()> {
        let number = known.device_of(work.command.stream);
        let target = self.targets.entry(number).or_insert_with(|| known.target(number));
        if !self.devices.contains_key(target) {
            self.devices.insert(target.clone(), Device::default());
        }
        let Some(device) = self.devices.get_mut(target) else {
            return Ok(());
        };
        let command = work.command;
        let (start, end) = (command.start, command.end.max(command.start));
        match command.kind {
            CommandKind::Launch => {
                device.kernels.add(start, end);
                device.all.add(start, end);
            }
            CommandKind::Copy | CommandKind::Fill => device.all.add(start, end),
            // Nothing runs meanwhile.
            CommandKind::Wait | CommandKind::Callback => return Ok(()),
        }
        device.begun = Some(device.begun.map_or(start, |begun| begun.min(start)));
        device.ended = device.ended.max(end);
        device.inexact |= !command.exact;
        for share in work.shares {
            device.flops = device.flops.saturating_add(share.flops);
            device.bytes = device.bytes.saturating_add(share.bytes);
        }
        Ok(())
    }

    fn instant(&mut self, known: &Known<'_>, instant: &Instant) -> Result<()> {
        let Some(mark) = known.text(instant.text).strip_prefix(MARK) else {
            return Ok(());
        };
        let mut words = mark.splitn(3, ' ');
        let (Some(what), Some(target)) = (words.next(), words.next()) else {
            return Ok(());
        };
        let device = self.devices.entry(target.to_owned()).or_default();
        match Metric::of_name(what) {
            Some(metric) => device.asked = Some(metric),
            None => device.unavailable = words.next().map(str::to_owned),
        }
        Ok(())
    }

    fn counter(&mut self, known: &Known<'_>, _: u64, name: TextId, value: f64) -> Result<()> {
        let name = known.text(name);
        if let Some((target, what)) = name.split_once(' ')
            && let Some(device) = self.devices.get_mut(target)
        {
            device.peaks.add(name, value);
            device.counters.insert(what.to_owned(), value);
        }
        Ok(())
    }

    fn recorded(&mut self, known: &Known<'_>) -> Result<()> {
        self.targets.clear();
        for (target, device) in std::mem::take(&mut self.devices) {
            if let Some(metric) = device.asked {
                self.rows.push(MetricRow {
                    rank: known.rank(),
                    device: target,
                    metric,
                    value: device.value(metric),
                    estimated: device.is_estimated(metric),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_once() {
        let mut busy = Busy::default();
        for (start, end) in [(10, 20), (30, 40), (15, 35), (50, 60), (41, 42), (12, 13), (60, 70)] {
            busy.add(start, end);
        }
        assert_eq!(busy.time(), 30 + 1 + 20);
        let mut busy = Busy::default();
        for at in 0..3 * APART as u64 {
            busy.add(10 * at, 10 * at + 3);
        }
        assert_eq!(busy.time(), 9 * APART as u64);
        assert!(busy.open.len() <= APART);
    }

    #[test]
    fn peaks_are_parts_of_what_was_seen() {
        let mut peaks = Peaks::default();
        assert_eq!(peaks.parts(100, 100, 100), (None, None));
        peaks.add("cpu:0 peak flop/s", 4e9);
        peaks.add("cpu:0 peak byte/s", f64::NAN);
        assert_eq!(peaks.parts(100, 100, 100), (Some(0.25), None));
        assert_eq!(peaks.parts(0, 100, 0), (None, None));
    }
}
