//! What `thalweg conform` says while it runs: each group's lines when its last case ends, and on a terminal a bar.

use super::crew::{COMPUTE, Event};
use crate::text;
use std::io::{IsTerminal, Write};
use thalweg_conformance::kit::{Group, width};
use thalweg_conformance::{Case, Outcome, Report, Row};

/// Characters of the bar.
const BAR: usize = 24;

pub(super) struct Progress {
    groups: Vec<Part>,
    width: usize,
    jobs: usize,
    /// Whether the groups are written.
    text: bool,
    /// Whether there is a terminal to draw a bar on.
    bar: bool,
}

/// A group and what came of it so far.
struct Part {
    name: &'static str,
    cases: usize,
    rows: Vec<Row>,
}

impl Progress {
    pub(super) fn new(cases: &[Case], jobs: usize, text: bool) -> Progress {
        let mut groups: Vec<Part> = Vec::new();
        for case in cases {
            match groups.iter_mut().find(|part| part.name == case.group) {
                Some(part) => part.cases += 1,
                None => groups.push(Part {
                    name: case.group,
                    cases: 1,
                    rows: Vec::new(),
                }),
            }
        }
        Progress {
            width: width(groups.iter().map(|part| part.name)),
            groups,
            jobs,
            text,
            bar: std::io::stderr().is_terminal(),
        }
    }

    /// Takes in what happened. What is written is flushed, as the next group may take long.
    pub(super) fn take(&mut self, event: Event, out: &mut dyn Write) -> std::io::Result<()> {
        let row = match event {
            Event::Loaded(subject, contract) => {
                return self.write(&Report::heading(&subject, &contract), out);
            }
            Event::Row(row) => row,
        };
        let Some(part) = self.groups.iter_mut().find(|part| part.name == row.group) else {
            return Ok(());
        };
        let name = part.name;
        part.rows.push(row);
        if part.rows.len() == part.cases {
            let lines = Group::new(name, part.rows.iter().collect(), self.width).to_string();
            self.write(&lines, out)?;
        }
        if self.bar {
            eprint!("\r\x1b[K{}", self.line(name));
        }
        Ok(())
    }

    /// Takes the bar away.
    pub(super) fn hide(&self) {
        if self.bar {
            eprint!("\r\x1b[K");
        }
    }

    /// Writes what stands behind the groups.
    pub(super) fn end(&self, report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
        self.write(&report.ending(self.width), out)
    }

    fn write(&self, lines: &str, out: &mut dyn Write) -> std::io::Result<()> {
        if !self.text {
            return Ok(());
        }
        self.hide();
        for line in lines.lines() {
            writeln!(out, "{}", text::line(line))?;
        }
        out.flush()
    }

    /// The bar: what is done, and how long the rest may take.
    fn line(&self, group: &str) -> String {
        let rows = || self.groups.iter().flat_map(|part| &part.rows);
        let (done, all) = (
            rows().count(),
            self.groups.iter().map(|part| part.cases).sum::<usize>(),
        );
        let failed = rows()
            .filter(|row| matches!(row.outcome, Outcome::Failed(_)))
            .count();
        let full = done * BAR / all.max(1);
        let (full, rest) = ("#".repeat(full), ".".repeat(BAR - full));
        let left = duration(self.left());
        format!("[{full}{rest}] {done} of {all} cases, {failed} failed, {left} left: {group}")
    }

    /// Milliseconds that the rest takes if cases of a group take what those before them took, and those of a group that has not
    /// begun what all did.
    fn left(&self) -> u64 {
        let mean = |sum: u64, count: usize| sum as f64 / count.max(1) as f64;
        let sum = |part: &Part| part.rows.iter().map(|row| row.milliseconds).sum::<u64>();
        let (all, count) = self.groups.iter().fold((0, 0), |(all, count), part| {
            (all + sum(part), count + part.rows.len())
        });
        let of = |part: &Part| {
            let each = match part.rows.len() {
                0 => mean(all, count),
                count => mean(sum(part), count),
            };
            let beside = if COMPUTE.contains(&part.name) {
                self.jobs
            } else {
                1
            };
            each * (part.cases - part.rows.len()) as f64 / beside as f64
        };
        self.groups.iter().map(of).sum::<f64>() as u64
    }
}

/// `40 s`, `12 min`.
fn duration(milliseconds: u64) -> String {
    match milliseconds.div_ceil(1000) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_tells_done_failed_and_left() {
        let case = |group: &'static str, name: usize| Case::new(group, name.to_string(), |_| Ok(()));
        let cases: Vec<Case> = (0..4)
            .map(|name| case("memory", name))
            .chain((0..40).map(|name| case("kernels", name)))
            .collect();
        let mut progress = Progress {
            bar: false,
            ..Progress::new(&cases, 2, true)
        };
        let mut out = Vec::new();
        let row = |group: &str, outcome, milliseconds| {
            Event::Row(Row {
                group: group.into(),
                name: "x".into(),
                outcome,
                milliseconds,
            })
        };
        progress
            .take(Event::Loaded("acme".into(), "1.0".into()), &mut out)
            .unwrap();
        for _ in 0..3 {
            progress
                .take(row("memory", Outcome::Passed, 100), &mut out)
                .unwrap();
        }
        // One of memory and 40 of kernels, two at once, each as the three before.
        assert_eq!(
            progress.line("memory"),
            "[#.......................] 3 of 44 cases, 0 failed, 3 s left: memory"
        );
        assert_eq!(
            String::from_utf8(out.clone()).unwrap(),
            "conformance of acme (thalweg-hal 1.0)\n"
        );
        progress
            .take(row("memory", Outcome::Failed("no room".into()), 100), &mut out)
            .unwrap();
        for _ in 0..18 {
            progress
                .take(row("kernels", Outcome::Passed, 20_000), &mut out)
                .unwrap();
        }
        assert_eq!(
            progress.line("kernels"),
            "[############............] 22 of 44 cases, 1 failed, 4 min left: kernels"
        );
        assert_eq!(
            String::from_utf8(out)
                .unwrap()
                .lines()
                .skip(1)
                .collect::<Vec<_>>(),
            [
                "memory          3 passed  1 failed",
                "    failed: no room (memory/x)"
            ]
        );
    }
}
