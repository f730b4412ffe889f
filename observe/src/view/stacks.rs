//! Where time goes, by the parts of the network: `stacks.collapsed` and `speedscope.json`.

use crate::error::Result;
use crate::known::Known;
use crate::out::{Out, json};
use crate::pass::View;
use crate::work::{Owner, Work, kind_name};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use thalweg::observe::recording::{Op, PlaceId};

/// Nanoseconds by stack. The first frame is `device cpu:0` or `host`.
#[derive(Default)]
pub(crate) struct Stacks {
    times: BTreeMap<Vec<String>, u64>,
    /// Those of this recording: device, owner and kernel.
    device: HashMap<(u32, Owner, u32, u32), u64>,
    host: HashMap<PlaceId, u64>,
}

impl Stacks {
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let mut out = Out::new(folder, "stacks.collapsed")?;
        for (frames, time) in &self.times {
            let frames: Vec<String> = frames.iter().map(|frame| plain(frame)).collect();
            out.write(format_args!("{} {time}\n", frames.join(";")))?;
        }
        out.finish()?;
        self.speedscope(folder)
    }

    fn speedscope(&self, folder: &Path) -> Result<()> {
        let mut frames: Vec<&str> = Vec::new();
        let mut at: HashMap<&str, usize> = HashMap::new();
        // By the first frame: stacks of numbers, and their times.
        let mut profiles: BTreeMap<&str, Vec<(Vec<usize>, u64)>> = BTreeMap::new();
        for (stack, time) in &self.times {
            let Some((root, rest)) = stack.split_first() else {
                continue;
            };
            let mut number = |frame| {
                *at.entry(frame).or_insert_with(|| {
                    frames.push(frame);
                    frames.len() - 1
                })
            };
            let numbers = rest.iter().map(|frame| number(frame.as_str())).collect();
            profiles.entry(root).or_default().push((numbers, *time));
        }
        if profiles.is_empty() {
            // A file without a profile is refused.
            profiles.insert("nothing was recorded", Vec::new());
        }
        let mut out = Out::new(folder, "speedscope.json")?;
        out.write(format_args!(
            "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"thalweg {}\",\
             \"activeProfileIndex\":0,\"shared\":{{\"frames\":[",
            env!("CARGO_PKG_VERSION")
        ))?;
        for (at, frame) in frames.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            out.write(format_args!("{comma}\n{{\"name\":{}}}", json(frame)))?;
        }
        out.write(format_args!("\n]}},\"profiles\":["))?;
        for (at, (root, samples)) in profiles.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let total: u64 = samples.iter().fold(0, |sum, (_, time)| sum.saturating_add(*time));
            let stacks: Vec<&Vec<usize>> = samples.iter().map(|(stack, _)| stack).collect();
            let weights: Vec<u64> = samples.iter().map(|(_, time)| *time).collect();
            out.write(format_args!(
                "{comma}\n{{\"type\":\"sampled\",\"name\":{},\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":{total},\
                 \"samples\":{stacks:?},\"weights\":{weights:?}}}",
                json(root),
            ))?;
        }
        out.write(format_args!("\n]}}\n"))?;
        out.finish().map(drop)
    }
}

/// A frame of the collapsed form, in which `;` separates frames and a line ends a stack.
fn plain(frame: &str) -> String {
    frame.replace(';', ",").replace(['\n', '\r'], " ")
}

/// The parts of the network, then the op with its line.
fn frames(known: &Known<'_>, owner: Owner) -> Vec<String> {
    match owner {
        Owner::Place(place) => {
            let Some(place) = known.places.get(&place) else {
                return vec!["unknown".to_owned()];
            };
            let scope = known.text(place.scope).split('/').filter(|part| !part.is_empty());
            let mut frames: Vec<String> = scope.map(str::to_owned).collect();
            let (op, line) = (known.text(place.op), known.source(place));
            frames.push(if line.is_empty() {
                op.to_owned()
            } else {
                format!("{op} ({line})")
            });
            frames
        }
        Owner::Program(program) => {
            let name = known
                .programs
                .get(&program)
                .map_or("", |one| known.text(one.name));
            vec![if name.is_empty() { "function" } else { name }.to_owned()]
        }
        Owner::Kind(_) => Vec::new(),
    }
}

impl View for Stacks {
    fn op(&mut self, _: &Known<'_>, op: &Op, own: u64) -> Result<()> {
        let time = self.host.entry(op.place).or_default();
        *time = time.saturating_add(own);
        Ok(())
    }

    fn command(&mut self, known: &Known<'_>, work: &Work<'_>) -> Result<()> {
        let device = known.device_of(work.command.stream);
        for share in work.shares {
            let kernel = match work.node {
                Some(_) => (work.program, work.command.node),
                None => (0, 0),
            };
            let key = (device, share.owner, kernel.0, kernel.1);
            let time = self.device.entry(key).or_default();
            *time = time.saturating_add(share.time);
        }
        Ok(())
    }

    fn recorded(&mut self, known: &Known<'_>) -> Result<()> {
        let rank = known.rank();
        for ((device, owner, program, node), time) in std::mem::take(&mut self.device) {
            let mut stack = vec![format!("device {}, rank {rank}", known.target(device))];
            stack.extend(frames(known, owner));
            let kernel = known.node(program, node).map(|node| known.text(node.kernel));
            match (kernel, owner) {
                (Some(kernel), _) if !kernel.is_empty() => stack.push(kernel.to_owned()),
                (_, Owner::Kind(kind)) => stack.push(kind_name(kind).to_owned()),
                (Some(_) | None, Owner::Place(_) | Owner::Program(_)) => {}
            }
            let sum = self.times.entry(stack).or_default();
            *sum = sum.saturating_add(time);
        }
        for (place, time) in std::mem::take(&mut self.host) {
            let mut stack = vec![format!("host, rank {rank}")];
            stack.extend(frames(known, Owner::Place(place)));
            let sum = self.times.entry(stack).or_default();
            *sum = sum.saturating_add(time);
        }
        Ok(())
    }
}
