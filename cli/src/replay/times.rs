//! How long the work of a capture takes.

use super::{list, played};
use crate::Outcome;
use crate::args::Replay;
use crate::text::{columns, count, line};
use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};
use thalweg_layers::captured::{Call, File};
use thalweg_layers::replay::{Player, Target, flatten};

/// Whether a call is work, and not the making or the end of what works.
fn is_work(call: &Call) -> bool {
    matches!(
        call,
        Call::Alloc(_)
            | Call::Free(_)
            | Call::RecordEvent(_)
            | Call::WaitEvent(_)
            | Call::AwaitEvent(_)
            | Call::SynchronizeStream(_)
            | Call::SynchronizeDevice(_)
            | Call::Submit(_)
            | Call::Rebind(_)
            | Call::Run(_)
    )
}

/// The least times of packets by kernel.
#[derive(Default)]
struct Kernel {
    launches: usize,
    total: Duration,
}

pub(super) fn run(args: &Replay, file: &File, targets: &[Target], out: &mut dyn Write) -> Outcome {
    let mut least = Duration::MAX;
    for _ in 0..args.times.get() {
        least = least.min(whole(file, targets)?);
    }
    let flat = flatten(file)?;
    let mut packets: Vec<Duration> = Vec::new();
    for _ in 0..args.times.get() {
        let times = each(&flat, targets)?;
        packets = match packets.is_empty() {
            true => times,
            false => packets.iter().zip(&times).map(|(a, b)| *a.min(b)).collect(),
        };
    }
    writeln!(
        out,
        "all work takes {}; {} one by one take {}",
        time(least),
        count(packets.len(), "packet"),
        time(packets.iter().sum())
    )?;
    for row in table(&flat, &packets) {
        writeln!(out, "{row}")?;
    }
    Ok(true)
}

/// The work as it was captured.
fn whole(file: &File, targets: &[Target]) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut player = Player::new(file, targets, 0)?;
    let mut total = Duration::ZERO;
    for (at, record) in file.records.iter().enumerate() {
        let begun = Instant::now();
        played(&mut player, at, file)?;
        if is_work(&record.call) {
            total += begun.elapsed();
        }
    }
    let begun = Instant::now();
    player.finish()?;
    Ok(total + begun.elapsed())
}

/// Each packet on its own, waited for.
fn each(flat: &File, targets: &[Target]) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let mut player = Player::new(flat, targets, 0)?;
    let mut times = Vec::new();
    for (at, record) in flat.records.iter().enumerate() {
        let Call::Submit(submission) = &record.call else {
            played(&mut player, at, flat)?;
            continue;
        };
        player.wait(record.backend, submission.stream)?;
        let begun = Instant::now();
        played(&mut player, at, flat)?;
        player.wait(record.backend, submission.stream)?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

fn table(flat: &File, times: &[Duration]) -> Vec<String> {
    let names = list::kernels(flat);
    let mut kernels: HashMap<String, Kernel> = HashMap::new();
    for ((record, packet), &time) in flat.packets().zip(times) {
        let kernel = kernels
            .entry(list::name(packet, record.backend, &names))
            .or_default();
        kernel.launches += 1;
        kernel.total += time;
    }
    let mut sorted: Vec<_> = kernels.into_iter().collect();
    sorted.sort_by(|a, b| (b.1.total, &a.0).cmp(&(a.1.total, &b.0)));
    let all: Duration = times.iter().sum();
    let mut rows = vec![["kernel", "packets", "total", "mean", "share"].map(String::from)];
    rows.extend(sorted.iter().map(|(name, kernel)| {
        let share = 100.0 * kernel.total.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
        [
            line(name),
            kernel.launches.to_string(),
            time(kernel.total),
            time(kernel.total / kernel.launches.max(1) as u32),
            format!("{share:.1} %"),
        ]
    }));
    columns(&rows)
}

fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1e3 {
        format!("{micros:.1} us")
    } else if micros < 1e6 {
        format!("{:.2} ms", micros / 1e3)
    } else {
        format!("{:.2} s", micros / 1e6)
    }
}
