//! Every piece of work on a device: `kernels.csv`.

use crate::error::Result;
use crate::known::Known;
use crate::out::{Cell, Maybe, Micros, Out};
use crate::pass::View;
use crate::view::metrics::Peaks;
use crate::work::{Owner, Share, Work};
use std::collections::HashMap;
use std::path::Path;
use thalweg::observe::recording::{PlaceId, TextId};

/// What the text of a command's ops depends on: program, node, op and call of the run.
pub(crate) type Origin = (u32, u32, PlaceId, u32);

pub(crate) fn origin(work: &Work<'_>) -> Origin {
    let (place, call) = work.run.map_or((0, 0), |run| (run.run.place, run.run.call));
    (work.program, work.command.node, place, call)
}

/// Texts that are kept; then all are made again.
pub(crate) const KEPT: usize = 1 << 16;

/// Each op of a command and its line: `Default/conv1/conv2d-op3`, with a share that is estimated `… ~62 %`.
pub(crate) fn ops_of(known: &Known<'_>, work: &Work<'_>) -> Vec<(String, String)> {
    let text = |owner: Owner, call: u32| match owner {
        Owner::Place(place) => {
            let line = known.places.get(&place).map(|place| known.source(place));
            (known.call_name(place, call), line.unwrap_or_default())
        }
        Owner::Program(_) | Owner::Kind(_) => (String::new(), String::new()),
    };
    // The text is kept for all commands of the node, so it says costs, not times.
    let parts = work.node.map_or(&[][..], |node| &node.parts);
    let costs: u64 = parts.iter().map(|part| u64::from(part.cost)).sum();
    let share = |(at, share): (usize, &Share)| {
        let (mut name, line) = text(share.owner, share.call);
        if share.estimated {
            let (part, whole) = match parts.get(at) {
                Some(part) if costs > 0 => (u64::from(part.cost), costs),
                Some(_) => (1, parts.len() as u64),
                None => (share.time, work.time().max(1)),
            };
            name = format!("{name} ~{:.0} %", part as f64 * 100.0 / whole as f64);
        }
        (name, line)
    };
    (work.shares.iter().enumerate().map(share))
        .filter(|(name, _)| !name.is_empty())
        .collect()
}

/// Writes `kernels.csv`.
pub(crate) struct Kernels {
    out: Out,
    /// Kind, kernel, shape, ops and estimates as cells.
    texts: HashMap<Origin, String>,
    devices: HashMap<u32, String>,
    streams: HashMap<u32, String>,
    peaks: Peaks,
}

impl Kernels {
    pub(crate) fn new(folder: &Path) -> Result<Kernels> {
        let mut out = Out::new(folder, "kernels.csv")?;
        out.write(format_args!(
            "rank,step,device,stream,row,queued_us,start_us,duration_us,exact,kernel,shape,ops,flops,bytes,flops_of_peak,bytes_of_peak\n"
        ))?;
        Ok(Kernels {
            out,
            texts: HashMap::new(),
            devices: HashMap::new(),
            streams: HashMap::new(),
            peaks: Peaks::default(),
        })
    }

    pub(crate) fn finish(mut self, lost: u64) -> Result<()> {
        super::ops::note_lost(&mut self.out, lost)?;
        self.out.finish().map(drop)
    }
}

fn texts(known: &Known<'_>, work: &Work<'_>) -> String {
    let names: Vec<String> = ops_of(known, work).into_iter().map(|(name, _)| name).collect();
    let shape = work.node.map_or("", |node| known.text(node.shape));
    let figures = work.node.map_or_else(
        || ",".to_owned(),
        |node| format!("{},{}", node.flops, node.bytes.max(work.command.bytes)),
    );
    format!(
        "{},{},{},{figures},",
        Cell(work.name(known)),
        Cell(shape),
        Cell(&names.join("; ")),
    )
}

impl View for Kernels {
    fn recording(&mut self, _: &Known<'_>) -> Result<()> {
        self.texts.clear();
        self.devices.clear();
        self.streams.clear();
        Ok(())
    }

    fn command(&mut self, known: &Known<'_>, work: &Work<'_>) -> Result<()> {
        let command = work.command;
        let device = known.device_of(command.stream);
        let target = (self.devices.entry(device)).or_insert_with(|| Cell(&known.target(device)).to_string());
        let stream = (self.streams.entry(command.stream))
            .or_insert_with(|| Cell(&known.stream_name(command.stream)).to_string());
        let queued = (command.queued != 0).then(|| Micros(known.time(command.queued)));
        self.out.write(format_args!(
            "{},{},{target},{stream},{},{},{},{},{},",
            known.rank(),
            Maybe(known.step_number(work.step)),
            command.row,
            Maybe(queued),
            Micros(known.time(command.start)),
            Micros(work.time()),
            if command.exact { "yes" } else { "no" },
        ))?;
        if work.node.is_none() {
            let names = ops_of(known, work).into_iter().map(|(name, _)| name);
            let names = names.collect::<Vec<_>>().join("; ");
            let name = work.name(known);
            return self.out.write(format_args!(
                "{},,{},0,{},,\n",
                Cell(name),
                Cell(&names),
                command.bytes
            ));
        }
        if self.texts.len() >= KEPT {
            self.texts.clear();
        }
        let text = self
            .texts
            .entry(origin(work))
            .or_insert_with(|| texts(known, work));
        self.out.bytes(text.as_bytes())?;
        let (flops, bytes) = match work.node {
            Some(node) if command.nth == 0 => (node.flops, node.bytes.max(command.bytes)),
            Some(_) | None => (0, 0),
        };
        let (flops, bytes) = self.peaks.parts(flops, bytes, work.time());
        self.out
            .write(format_args!("{:.4},{:.4}\n", Maybe(flops), Maybe(bytes)))
    }

    fn counter(&mut self, known: &Known<'_>, _: u64, name: TextId, value: f64) -> Result<()> {
        self.peaks.add(known.text(name), value);
        Ok(())
    }
}
