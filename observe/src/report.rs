//! The summary as a table for people.

use crate::derive::Summary;
use crate::view::ops::OpRow;
use crate::view::steps::StepRow;
use std::fmt::{self, Display};
use std::str::FromStr;

/// What the ops are sorted by; the largest comes first, names in the order of the alphabet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Own time on devices.
    #[default]
    Device,
    /// Own time on the host.
    Host,
    /// How often it ran.
    Calls,
    /// Mean time of a call on devices.
    Mean,
    /// Longest call on devices.
    Max,
    /// Scope and name.
    Name,
}

impl Sort {
    /// Each, with its name.
    pub const ALL: [(&str, Sort); 6] = [
        ("device", Sort::Device),
        ("host", Sort::Host),
        ("calls", Sort::Calls),
        ("mean", Sort::Mean),
        ("max", Sort::Max),
        ("name", Sort::Name),
    ];

    fn apply(self, rows: &mut [&OpRow]) {
        let key = |row: &OpRow| match self {
            Sort::Device => row.device.own,
            Sort::Host => row.host.own,
            Sort::Calls => row.calls,
            Sort::Mean => row.device.mean,
            Sort::Max => row.device.max,
            Sort::Name => 0,
        };
        rows.sort_by(|a, b| match self {
            Sort::Device | Sort::Host | Sort::Calls | Sort::Mean | Sort::Max => key(b).cmp(&key(a)),
            Sort::Name => (&a.scope, &a.name, &a.line).cmp(&(&b.scope, &b.name, &b.line)),
        });
    }
}

impl FromStr for Sort {
    type Err = String;

    fn from_str(text: &str) -> Result<Sort, String> {
        let found = Sort::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, sort)| *sort).ok_or_else(|| {
            let names: Vec<&str> = Sort::ALL.iter().map(|(name, _)| *name).collect();
            format!("sort by one of {}", names.join(", "))
        })
    }
}

/// A summary as text: steps, ops, memory, and what is missing.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    summary: &'a Summary,
    sort: Sort,
    top: usize,
}

impl<'a> Report<'a> {
    /// The first `top` ops in the order of `sort`.
    pub fn new(summary: &'a Summary, sort: Sort, top: usize) -> Report<'a> {
        Report { summary, sort, top }
    }

    fn ops(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<&OpRow> = self.summary.ops.iter().collect();
        if rows.is_empty() {
            return writeln!(f, "no op was recorded");
        }
        self.sort.apply(&mut rows);
        let head = ["op", "calls", "device ms", "share", "mean µs", "host ms", "where"].map(String::from);
        let mut cells = vec![head];
        cells.extend(rows.iter().take(self.top).map(|row| cells_of(row)));
        table(&cells, f)?;
        let hidden = rows.len().saturating_sub(self.top);
        if hidden > 0 {
            let rest =
                (rows.iter().skip(self.top)).fold(0_u64, |sum, row| sum.saturating_add(row.device.own));
            writeln!(
                f,
                "… {hidden} more ops with {} ms; `--top` shows more",
                millis(rest, 3)
            )?;
        }
        if rows.iter().take(self.top).any(|row| row.estimated) {
            writeln!(f, "~ ops that run in one kernel share its time by estimated cost")?;
        }
        Ok(())
    }

    fn metrics(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.summary.metrics {
            write!(f, "metric  {} {}: ", shown(&row.device), row.metric)?;
            let mark = if row.estimated { "~" } else { "" };
            match &row.value {
                Ok(parts) => {
                    let part = |(name, value): &(&str, f64)| format!("{mark}{:.1} % {name}", value * 100.0);
                    writeln!(f, "{}", parts.iter().map(part).collect::<Vec<_>>().join(", "))?;
                }
                Err(why) => writeln!(f, "unavailable: {}", shown(why))?,
            }
        }
        Ok(())
    }

    fn memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for peak in &self.summary.memory {
            let step = peak
                .step
                .map_or_else(String::new, |step| format!(" at step {step}"));
            let owners: Vec<String> = (peak.owners.iter().take(3))
                .map(|owner| {
                    let line = if owner.line.is_empty() {
                        String::new()
                    } else {
                        format!(" ({})", shown(&owner.line))
                    };
                    format!("{} {}{line}", shown(&owner.name), bytes(owner.bytes))
                })
                .collect();
            let more = if peak.owners.len() > 3 { ", …" } else { "" };
            writeln!(
                f,
                "memory  peak {} of {}{step}: {}{more}",
                bytes(peak.bytes),
                shown(&peak.device),
                owners.join(", ")
            )?;
        }
        Ok(())
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        steps(&self.summary.steps, f)?;
        self.ops(f)?;
        self.memory(f)?;
        self.metrics(f)?;
        for note in &self.summary.notes {
            writeln!(f, "note    {}", shown(note))?;
        }
        Ok(())
    }
}

/// How long steps took, and the parts of the middle one.
fn steps(rows: &[StepRow], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut by_time: Vec<&StepRow> = rows.iter().collect();
    by_time.sort_by_key(|row| row.time());
    let (Some(middle), Some(longest)) = (by_time.get(by_time.len() / 2), by_time.last()) else {
        return Ok(());
    };
    if rows.len() > 1 {
        let sum: u128 = rows.iter().map(|row| u128::from(row.time())).sum();
        writeln!(
            f,
            "{} steps  mean {} ms, longest {} ms (step {}); the middle one:",
            rows.len(),
            millis((sum / rows.len() as u128) as u64, 2),
            millis(longest.time(), 2),
            longest.step
        )?;
    }
    write!(f, "step {}  {} ms ", middle.step, millis(middle.time(), 2))?;
    let parts = [
        ("data", middle.data),
        ("forward", middle.forward),
        ("backward", middle.backward),
        ("update", middle.update),
        ("communication", middle.communication),
        ("other", middle.other),
        ("idle", middle.idle),
    ];
    for (name, time) in parts.iter().filter(|(_, time)| *time > 0) {
        write!(f, "  {name} {}", millis(*time, 2))?;
    }
    writeln!(f)
}

fn cells_of(row: &OpRow) -> [String; 7] {
    let mark = if row.estimated { "~" } else { "" };
    let slash = if row.scope.is_empty() { "" } else { "/" };
    let time = |time: u64, text: String| if time == 0 { "-".to_owned() } else { text };
    [
        shown(&format!("{}{slash}{}", row.scope, row.name)),
        row.calls.to_string(),
        time(row.device.own, format!("{mark}{}", millis(row.device.own, 3))),
        time(row.device.own, format!("{:.1} %", row.share * 100.0)),
        time(
            row.device.mean,
            format!("{mark}{:.1}", row.device.mean as f64 / 1e3),
        ),
        time(row.host.own, millis(row.host.own, 3)),
        shown(&row.line),
    ]
}

/// Columns two spaces apart: the first and the last to the left, numbers to the right.
fn table(rows: &[[String; 7]], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let width = |column: usize| {
        (rows.iter().map(|row| row[column].chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    for row in rows {
        let cells: Vec<String> = (row.iter().zip(widths).enumerate())
            .map(|(at, (cell, width))| match at {
                0 | 6 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        writeln!(f, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// Nanoseconds as milliseconds.
fn millis(time: u64, decimals: usize) -> String {
    format!("{:.decimals$}", time as f64 / 1e6)
}

/// Bytes as a person reads them: `12.2 MB`.
fn bytes(count: u64) -> String {
    let (mut size, mut unit) = (count as f64, "B");
    for next in ["kB", "MB", "GB", "TB"] {
        if size < 1000.0 {
            break;
        }
        (size, unit) = (size / 1000.0, next);
    }
    if unit == "B" {
        format!("{count} B")
    } else {
        format!("{size:.1} {unit}")
    }
}

/// A text of a recording on one line: nothing in it may steer the terminal.
pub(crate) fn shown(text: &str) -> String {
    (text.chars())
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
