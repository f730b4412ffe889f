//! The result of a run, as rows and as text.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// See [`Verdict::Passed`](super::Verdict::Passed).
    Passed,
    /// See [`Verdict::Failed`](super::Verdict::Failed).
    Failed(String),
    /// See [`Verdict::Unsupported`](super::Verdict::Unsupported).
    Unsupported(String),
    /// On the backend's list of exceptions, with the reason that it gives.
    Ignored(String),
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Its group.
    pub group: String,
    /// Its name in the group.
    pub name: String,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// How long it took.
    pub milliseconds: u64,
}

/// What the small operations cost: medians in nanoseconds, `None` where the backend does not offer them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Launch of an empty kernel on an idle stream.
    pub launch: Option<f64>,
    /// One kernel of a program of 256 empty ones.
    pub program: Option<f64>,
    /// From work on one stream to work on another that waits for its event, while both are awake.
    pub handoff: Option<f64>,
    /// One allocation and its free.
    pub allocation: Option<f64>,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The backend's file, or its name when it is embedded.
    pub subject: String,
    /// Version of the contract, as `1.0`.
    pub contract: String,
    /// The cases, in the order they ran.
    pub rows: Vec<Row>,
    /// What the small operations cost, when it was measured.
    pub latency: Option<Latency>,
}

/// Counts of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts<'a> {
    group: &'a str,
    passed: usize,
    failed: usize,
    unsupported: usize,
    ignored: usize,
}

impl Report {
    /// The rows that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Row> {
        self.rows
            .iter()
            .filter(|row| matches!(row.outcome, Outcome::Failed(_)))
    }

    /// Whether nothing failed.
    pub fn is_conformant(&self) -> bool {
        self.failed().next().is_none()
    }

    fn counts(&self) -> Vec<Counts<'_>> {
        let mut groups: Vec<Counts<'_>> = Vec::new();
        for row in &self.rows {
            let at = groups.iter().position(|group| group.group == row.group);
            let at = at.unwrap_or_else(|| {
                groups.push(Counts {
                    group: &row.group,
                    ..Counts::default()
                });
                groups.len() - 1
            });
            let counts = &mut groups[at];
            match row.outcome {
                Outcome::Passed => counts.passed += 1,
                Outcome::Failed(_) => counts.failed += 1,
                Outcome::Unsupported(_) => counts.unsupported += 1,
                Outcome::Ignored(_) => counts.ignored += 1,
            }
        }
        groups
    }

    /// Each reason of a group's rows once, with the number of rows and the first one's name.
    fn reasons(&self, group: &str, reason: fn(&Outcome) -> Option<&str>) -> Vec<(&str, usize, &str)> {
        let mut reasons: Vec<(&str, usize, &str)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.group == group) {
            let Some(text) = reason(&row.outcome) else {
                continue;
            };
            match reasons.iter_mut().find(|(known, ..)| *known == text) {
                Some((_, count, _)) => *count += 1,
                None => reasons.push((text, 1, &row.name)),
            }
        }
        reasons
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ns: f64| {
            if ns < 995.0 {
                format!("{ns:.0} ns")
            } else {
                format!("{:.1} µs", ns / 1000.0)
            }
        };
        let figures = [
            ("launch", self.launch, ""),
            ("program", self.program, " a kernel"),
            ("hand-off", self.handoff, ""),
            ("allocation", self.allocation, ""),
        ];
        let shown = figures
            .iter()
            .filter_map(|(name, ns, unit)| ns.map(|ns| format!("{name} {}{unit}", time(ns))));
        f.write_str(&shown.collect::<Vec<_>>().join(", "))
    }
}

fn failed(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Failed(reason) => Some(reason),
        _ => None,
    }
}

fn unsupported(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Unsupported(reason) => Some(reason),
        _ => None,
    }
}

fn ignored(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Ignored(reason) => Some(reason),
        _ => None,
    }
}

/// Failures that a group shows in full; the rest is counted.
const SHOWN: usize = 10;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "conformance of {} (thalweg-hal {})",
            self.subject, self.contract
        )?;
        let groups = self.counts();
        let width = groups
            .iter()
            .map(|group| group.group.len())
            .max()
            .unwrap_or(0)
            .max(11);
        for counts in groups {
            write!(f, "{:width$} {:5} passed", counts.group, counts.passed)?;
            for (count, what) in [
                (counts.failed, "failed"),
                (counts.unsupported, "unsupported"),
                (counts.ignored, "ignored"),
            ] {
                if count > 0 {
                    write!(f, "  {count} {what}")?;
                }
            }
            writeln!(f)?;
            let reasons = self.reasons(counts.group, failed);
            for (reason, count, name) in reasons.iter().take(SHOWN) {
                let more = if *count > 1 {
                    format!(" and {} more", count - 1)
                } else {
                    String::new()
                };
                let reason = reason.replace('\n', "\n      ");
                writeln!(f, "    failed: {reason} ({}/{name}{more})", counts.group)?;
            }
            if reasons.len() > SHOWN {
                writeln!(f, "    and {} more failures", reasons.len() - SHOWN)?;
            }
            for (reason, count, _) in self.reasons(counts.group, unsupported) {
                writeln!(f, "    {count} unsupported: {reason}")?;
            }
            for (reason, count, _) in self.reasons(counts.group, ignored) {
                writeln!(f, "    {count} ignored: {reason}")?;
            }
        }
        if let Some(latency) = &self.latency {
            writeln!(f, "{:width$} {latency}", "latency")?;
        }
        match self.failed().count() {
            0 => writeln!(f, "conformant"),
            failed => writeln!(f, "not conformant: {failed} failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text() {
        let row = |group: &str, name: &str, outcome| Row {
            group: group.into(),
            name: name.into(),
            outcome,
            milliseconds: 1,
        };
        let report = Report {
            subject: "libthalweg_acme.so".into(),
            contract: "1.0".into(),
            rows: vec![
                row("memory", "sizes", Outcome::Passed),
                row("streams", "order", Outcome::Passed),
                row(
                    "streams",
                    "foreign_event",
                    Outcome::Failed("it is accepted".into()),
                ),
                row("kernels", "a", Outcome::Unsupported("no f16".into())),
                row("kernels", "b", Outcome::Unsupported("no f16".into())),
                row("kernels", "c", Outcome::Ignored("driver 5.1 rounds down".into())),
            ],
            latency: Some(Latency {
                launch: Some(117.6),
                program: None,
                handoff: Some(912.0),
                allocation: Some(1480.0),
            }),
        };
        let text = "\
conformance of libthalweg_acme.so (thalweg-hal 2.0)
memory          1 passed
streams         1 passed  1 failed
    failed: it is accepted (streams/foreign_event)
kernels         0 passed  2 unsupported  1 ignored
    2 unsupported: no f16
    1 ignored: driver 5.1 rounds down
latency     launch 118 ns, hand-off 912 ns, allocation 1.5 µs
not conformant: 1 failed
";
        assert_eq!(report.to_string(), text);
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains(r#""name":"foreign_event","outcome":"failed","reason":"it is accepted""#));
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }
}
