//! Two replays beside each other: what each packet writes on both, by op.

use super::list;
use crate::Outcome;
use crate::args::Replay;
use crate::text::{columns, count, line};
use std::collections::HashMap;
use std::error::Error;
use std::io::Write;
use thalweg_layers::captured::{Call, File, Handle, Packet};
use thalweg_layers::replay::{Difference, Player, Target, difference, flatten, tolerance};

/// Seed of the values of fresh memory: what no packet has written is the same on both.
const FRESH: u64 = 1;

/// One of the two.
struct Side<'f> {
    player: Player,
    file: &'f File,
    at: usize,
    kernels: HashMap<(u32, Handle), String>,
}

/// A packet that was done.
#[derive(Clone, Copy)]
struct Done<'f> {
    backend: u32,
    stream: Handle,
    packet: &'f Packet,
}

/// What is known of an op's packets.
#[derive(Default)]
struct Row {
    packets: usize,
    all: Difference,
    /// The first packet that is too far apart, from 1, and where it comes from.
    first: Option<(usize, String)>,
}

pub(super) fn run(args: &Replay, sides: [(&File, &Vec<Target>); 2], out: &mut dyn Write) -> Outcome {
    let flat = [flatten(sides[0].0)?, flatten(sides[1].0)?];
    let mut one = Side::new(&flat[0], sides[0].1)?;
    let mut two = Side::new(&flat[1], sides[1].1)?;
    let mut rows: HashMap<(String, String), Row> = HashMap::new();
    let mut steps = 0;
    loop {
        let (first, second) = match (one.next()?, two.next()?) {
            (Some(first), Some(second)) => (first, second),
            (None, None) => break,
            (Some(_), None) | (None, Some(_)) => {
                return Err(format!(
                    "one capture ends after {}, the other goes on",
                    count(steps, "packet")
                )
                .into());
            }
        };
        steps += 1;
        let name = list::name(first.packet, first.backend, &one.kernels);
        let key = (first.packet.tag.op.clone(), name);
        let row = rows.entry(key).or_default();
        row.packets += 1;
        let far = compare((&one, first), (&two, second), args.tolerance, row)
            .map_err(|error| format!("packet {steps}: {error}"))?;
        if far && row.first.is_none() {
            row.first = Some((steps, list::origin(&first.packet.tag)));
        }
    }
    one.player.finish()?;
    two.player.finish()?;
    let wrong = rows.values().filter(|row| row.first.is_some()).count();
    for row in table(rows) {
        writeln!(out, "{row}")?;
    }
    match wrong {
        0 => writeln!(
            out,
            "{} done twice, no op is too far apart",
            count(steps, "packet")
        )?,
        wrong => writeln!(
            out,
            "{} done twice, {} too far apart",
            count(steps, "packet"),
            count(wrong, "op")
        )?,
    }
    Ok(wrong == 0)
}

impl<'f> Side<'f> {
    fn new(file: &'f File, targets: &[Target]) -> Result<Side<'f>, Box<dyn Error>> {
        Ok(Side {
            player: Player::new(file, targets, FRESH)?,
            file,
            at: 0,
            kernels: list::kernels(file),
        })
    }

    /// Goes on until a packet was done.
    fn next(&mut self) -> Result<Option<Done<'f>>, Box<dyn Error>> {
        while let Some(record) = self.file.records.get(self.at) {
            super::played(&mut self.player, self.at, self.file)?;
            self.at += 1;
            if let Call::Submit(submission) = &record.call
                && let [packet] = &submission.packets[..]
            {
                self.player.wait(record.backend, submission.stream)?;
                return Ok(Some(Done {
                    backend: record.backend,
                    stream: submission.stream,
                    packet,
                }));
            }
        }
        Ok(None)
    }
}

/// Compares what a packet has written on both, and whether that is too far apart. Then the second has what the first has, so that
/// the next op is judged by itself.
fn compare(
    (one, first): (&Side<'_>, Done<'_>),
    (two, second): (&Side<'_>, Done<'_>),
    asked: Option<f64>,
    row: &mut Row,
) -> Result<bool, Box<dyn Error>> {
    let written = one.player.outputs(first.backend, first.packet)?;
    let expected = two.player.outputs(second.backend, second.packet)?;
    if written.len() != expected.len() {
        return Err("the captures do other work from here on".into());
    }
    let mut far = false;
    for (output, other) in written.iter().zip(&expected) {
        let places = ((first.backend, first.stream), (second.backend, second.stream));
        let mine = one.player.read(places.0, output)?;
        let theirs = two.player.read(places.1, other)?;
        let found = match output.dtype == other.dtype {
            true => difference(output.dtype, &theirs, &mine),
            false => None,
        };
        let found = found.ok_or("the captures write other dtypes or numbers of elements from here on")?;
        row.all.elements += found.elements;
        row.all.differ += found.differ;
        row.all.worst = row.all.worst.max(found.worst);
        far |= found.worst > asked.unwrap_or_else(|| tolerance(output.dtype));
        if found.differ > 0 {
            two.player.write(places.1, other, &mine)?;
        }
    }
    Ok(far)
}

fn table(rows: HashMap<(String, String), Row>) -> Vec<String> {
    let mut sorted: Vec<_> = rows.into_iter().collect();
    let order = |row: &Row| {
        (
            row.first.as_ref().map_or(usize::MAX, |(step, _)| *step),
            row.all.differ == 0,
        )
    };
    sorted.sort_by(|a, b| order(&a.1).cmp(&order(&b.1)).then_with(|| a.0.cmp(&b.0)));
    let mut lines = vec![
        [
            "op",
            "kernel",
            "packets",
            "elements",
            "differ",
            "worst",
            "first too far apart",
        ]
        .map(String::from),
    ];
    lines.extend(sorted.into_iter().map(|((op, kernel), row)| {
        [
            line(&op),
            line(&kernel),
            row.packets.to_string(),
            row.all.elements.to_string(),
            row.all.differ.to_string(),
            format!("{:.1e}", row.all.worst),
            row.first.map_or_else(String::new, |(step, origin)| {
                line(&format!("packet {step}, {origin}"))
            }),
        ]
    }));
    columns(&lines)
}
