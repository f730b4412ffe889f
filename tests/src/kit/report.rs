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

/// The rows of one group, as a report shows them.
#[derive(Clone, Debug, Default)]
pub struct Group<'a> {
    name: &'a str,
    rows: Vec<&'a Row>,
    width: usize,
}

impl<'a> Group<'a> {
    /// The group `name` with these rows; names of a report are padded to `width`.
    pub fn new(name: &'a str, rows: Vec<&'a Row>, width: usize) -> Group<'a> {
        Group { name, rows, width }
    }

    fn count(&self, is: fn(&Outcome) -> bool) -> usize {
        self.rows.iter().filter(|row| is(&row.outcome)).count()
    }

    /// Each reason once, with the number of rows and the first one's name.
    fn reasons(&self, reason: fn(&Outcome) -> Option<&str>) -> Vec<(&'a str, usize, &'a str)> {
        let mut reasons: Vec<(&str, usize, &str)> = Vec::new();
        for &row in &self.rows {
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

/// The width of a report's names, for [`Group::new`] and [`Report::ending`].
pub fn width<'a>(names: impl IntoIterator<Item = &'a str>) -> usize {
    names.into_iter().map(str::len).max().unwrap_or(0).max(11)
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

    /// The first line: what was judged, by which contract.
    pub fn heading(subject: &str, contract: &str) -> String {
        format!("conformance of {subject} (thalweg-hal {contract})\n")
    }

    /// The groups in the order of their first rows.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let width = width(self.rows.iter().map(|row| row.group.as_str()));
        let mut groups: Vec<Group<'_>> = Vec::new();
        for row in &self.rows {
            match groups.iter_mut().find(|group| group.name == row.group) {
                Some(group) => group.rows.push(row),
                None => groups.push(Group::new(&row.group, vec![row], width)),
            }
        }
        groups
    }

    /// The lines behind the groups: latencies and the verdict.
    pub fn ending(&self, width: usize) -> String {
        let latency = self.latency.as_ref();
        let latency = latency.map_or_else(String::new, |figures| format!("{:width$} {figures}\n", "latency"));
        match self.failed().count() {
            0 => format!("{latency}conformant\n"),
            failed => format!("{latency}not conformant: {failed} failed\n"),
        }
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

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, width) = (self.name, self.width);
        let passed = self.count(|outcome| matches!(outcome, Outcome::Passed));
        write!(f, "{name:width$} {passed:5} passed")?;
        for (count, what) in [
            (self.count(|outcome| failed(outcome).is_some()), "failed"),
            (
                self.count(|outcome| unsupported(outcome).is_some()),
                "unsupported",
            ),
            (self.count(|outcome| ignored(outcome).is_some()), "ignored"),
        ] {
            if count > 0 {
                write!(f, "  {count} {what}")?;
            }
        }
        writeln!(f)?;
        let reasons = self.reasons(failed);
        for (reason, count, first) in reasons.iter().take(SHOWN) {
            let more = if *count > 1 {
                format!(" and {} more", count - 1)
            } else {
                String::new()
            };
            let reason = reason.replace('\n', "\n      ");
            writeln!(f, "    failed: {reason} ({name}/{first}{more})")?;
        }
        if reasons.len() > SHOWN {
            writeln!(f, "    and {} more failures", reasons.len() - SHOWN)?;
        }
        for (reason, count, _) in self.reasons(unsupported) {
            writeln!(f, "    {count} unsupported: {reason}")?;
        }
        for (reason, count, _) in self.reasons(ignored) {
            writeln!(f, "    {count} ignored: {reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Report::heading(&self.subject, &self.contract))?;
        let groups = self.groups();
        for group in &groups {
            write!(f, "{group}")?;
        }
        f.write_str(&self.ending(width(groups.iter().map(|group| group.name))))
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
            contract: "2.0".into(),
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
