//! What was measured on a model of processor: a file of rows, a page, and a chart for each case.

use super::chart;
use crate::Result;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// One case, measured by one library in one turn, or the median of its turns.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) threads: u64,
    /// Library and version, or ours and the instruction set.
    pub(crate) who: String,
    pub(crate) ours: bool,
    /// Milliseconds.
    pub(crate) ms: f64,
    /// What the machine needs at least, in milliseconds; 0 where nothing is known.
    pub(crate) limit: f64,
}

impl Row {
    /// A row with `case`, `threads`, `ms` and perhaps `limit_ms`.
    pub(super) fn of(value: &Value, who: String, ours: bool) -> Result<Row> {
        let number = |key: &str| value[key].as_f64().ok_or_else(|| format!("no {key} in {value}"));
        Ok(Row {
            case: value["case"]
                .as_str()
                .ok_or_else(|| format!("no case in {value}"))?
                .to_owned(),
            threads: number("threads")? as u64,
            who,
            ours,
            ms: number("ms")?,
            limit: value["limit_ms"].as_f64().unwrap_or(0.0),
        })
    }
}

/// All rows of a model of processor.
pub(super) struct Results {
    folder: PathBuf,
    cpu: String,
    as_avx2: bool,
    rows: Vec<Row>,
    left_out: Vec<String>,
}

impl Results {
    /// Those that are kept.
    pub(super) fn read(folder: &Path, cpu: &str, as_avx2: bool) -> Result<Results> {
        let mut results = Results {
            folder: folder.to_owned(),
            cpu: match as_avx2 {
                true => format!("{cpu}-as-avx2"),
                false => cpu.to_owned(),
            },
            as_avx2,
            rows: Vec::new(),
            left_out: Vec::new(),
        };
        let path = results.path("json");
        if path.is_file() {
            let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
            for value in stored["rows"].as_array().into_iter().flatten() {
                let who = value["who"].as_str().unwrap_or_default().to_owned();
                let ours = value["ours"].as_bool().unwrap_or_default();
                results.rows.push(Row::of(value, who, ours)?);
            }
        }
        Ok(results)
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("perf-{}.{kind}", self.cpu))
    }

    /// Takes the medians of the turns in place of what is kept of the same cases.
    pub(super) fn take(&mut self, turns: Vec<Row>, left_out: Vec<String>) {
        self.rows
            .retain(|old| turns.iter().all(|row| row.case != old.case));
        let mut fresh: Vec<(Row, Vec<f64>)> = Vec::new();
        for row in turns {
            let same =
                |kept: &Row| (&kept.case, kept.threads, &kept.who) == (&row.case, row.threads, &row.who);
            match fresh.iter_mut().find(|(kept, _)| same(kept)) {
                Some((_, times)) => times.push(row.ms),
                None => fresh.push((row.clone(), vec![row.ms])),
            }
        }
        self.rows.extend(fresh.into_iter().map(|(row, times)| Row {
            ms: median(times),
            ..row
        }));
        self.left_out = left_out;
    }

    /// Cases and numbers of threads, in order.
    fn groups(&self) -> Vec<(&str, u64)> {
        let mut groups: Vec<_> = self
            .rows
            .iter()
            .map(|row| (row.case.as_str(), row.threads))
            .collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    fn of(&self, case: &str, threads: u64) -> Vec<&Row> {
        let of = |row: &&Row| row.case == case && row.threads == threads;
        let mut rows: Vec<&Row> = self.rows.iter().filter(of).collect();
        rows.sort_by(|a, b| a.ms.total_cmp(&b.ms).then_with(|| a.who.cmp(&b.who)));
        rows
    }

    /// Names of ours, in order.
    fn ours(&self) -> Vec<&str> {
        let mut ours: Vec<_> = (self.rows.iter().filter(|row| row.ours))
            .map(|row| row.who.as_str())
            .collect();
        ours.sort_unstable();
        ours.dedup();
        ours
    }

    /// The table: ours at each instruction set, the best peer, and its time over ours.
    pub(super) fn table(&self) -> String {
        let ours = self.ours();
        let mut text = String::from("| case | threads |");
        for who in &ours {
            let _ = write!(text, " {who}, ms | best / ours |");
        }
        text += " best peer | ms |\n|---|---|";
        text += &"---|---|".repeat(ours.len());
        text += "---|---|\n";
        let mut logs = vec![Vec::new(); ours.len()];
        for (case, threads) in self.groups() {
            let rows = self.of(case, threads);
            let best = rows.iter().find(|row| !row.ours);
            let _ = write!(text, "| {case} | {threads} |");
            for (who, logs) in ours.iter().zip(&mut logs) {
                match (rows.iter().find(|row| row.who == *who), best) {
                    (Some(row), Some(best)) => {
                        let ratio = best.ms / row.ms;
                        logs.push(ratio.ln());
                        let _ = write!(text, " {} | {ratio:.2} |", digits(row.ms));
                    }
                    (Some(row), None) => {
                        let _ = write!(text, " {} | |", digits(row.ms));
                    }
                    (None, _) => text += " | |",
                }
            }
            match best {
                Some(best) => {
                    let _ = writeln!(text, " {} | {} |", best.who, digits(best.ms));
                }
                None => text += " | |\n",
            }
        }
        text += "| **geometric mean** | |";
        for logs in &logs {
            match logs.len() {
                0 => text += " | |",
                count => {
                    let _ = write!(
                        text,
                        " | **{:.2}** |",
                        (logs.iter().sum::<f64>() / count as f64).exp()
                    );
                }
            }
        }
        text + " | |\n"
    }

    /// Writes the rows, the page and the charts.
    pub(super) fn write(&self) -> Result<()> {
        let rows: Vec<String> = (self.rows.iter())
            .map(|row| {
                let ms: f64 = format!("{:.4e}", row.ms).parse().unwrap_or(row.ms);
                let limit: f64 = format!("{:.4e}", row.limit).parse().unwrap_or(row.limit);
                json!({
                    "case": row.case, "threads": row.threads, "who": row.who, "ours": row.ours, "ms": ms, "limit_ms": limit,
                })
                .to_string()
            })
            .collect();
        let text = format!(
            "{{\"cpu\": {}, \"rows\": [\n{}\n]}}\n",
            json!(self.cpu),
            rows.join(",\n")
        );
        std::fs::write(self.path("json"), text)?;
        let charts = self.folder.join(format!("perf-{}", self.cpu));
        std::fs::create_dir_all(&charts)?;
        let mut cases: Vec<&str> = self.groups().iter().map(|(case, _)| *case).collect();
        cases.dedup();
        let mut pictures = String::new();
        for case in cases {
            let threads: Vec<u64> = (self.groups().into_iter().filter(|group| group.0 == case))
                .map(|group| group.1)
                .collect();
            let groups: Vec<_> = threads
                .into_iter()
                .map(|threads| (threads, self.of(case, threads)))
                .collect();
            std::fs::write(charts.join(format!("{case}.svg")), chart::draw(case, &groups))?;
            let _ = writeln!(pictures, "![{case}](perf-{}/{case}.svg)\n", self.cpu);
        }
        let mut missing = String::new();
        for line in &self.left_out {
            let _ = writeln!(missing, "- {line}");
        }
        if !missing.is_empty() {
            missing = format!("\nLeft out in the last run:\n\n{missing}");
        }
        let page = format!(
            "# Thalweg and its peers on {}\n\n\
             `cargo xtask perf` writes this page. Times are medians of turns in which everybody runs the same cases, one after the \
             other.\n\
             *best / ours* is the time of the fastest peer over ours: above 1 thalweg is faster. {}\n{missing}\n{}\n## Charts\n\nMilliseconds; shorter is faster. A line marks what the machine needs at least.\n\n{}",
            self.cpu,
            match self.as_avx2 {
                true =>
                    "Everybody sees a processor without AVX-512, AMX and VNNI (`--as-avx2`); caches, clock and memory are those of this one.",
                false => "The instruction set of peers is their own choice.",
            },
            self.table(),
            pictures.trim_end().to_owned() + "\n",
        );
        std::fs::write(self.path("md"), page)?;
        println!("{}", self.path("md").display());
        Ok(())
    }
}

pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    match times.len() % 2 {
        1 => times[middle],
        _ => (times[middle - 1] + times[middle]) / 2.0,
    }
}

/// Three digits.
pub(super) fn digits(ms: f64) -> String {
    let places = (2.0 - ms.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{ms:.places$}")
}

#[cfg(test)]
mod tests {
    use super::{Results, Row, digits};

    fn row(case: &str, who: &str, ours: bool, ms: f64) -> Row {
        Row {
            case: case.into(),
            threads: 1,
            who: who.into(),
            ours,
            ms,
            limit: 0.5,
        }
    }

    #[test]
    fn medians_replace_the_case_and_ratios_have_a_mean() {
        let folder = std::env::temp_dir().join(format!("thalweg-perf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut results = Results::read(&folder, "cpu", false).unwrap();
        results.take(
            vec![
                row("a", "thalweg avx2", true, 9.0),
                row("b", "thalweg avx2", true, 4.0),
            ],
            Vec::new(),
        );
        let turns = [3.0, 1.0, 2.0].map(|ms| row("a", "thalweg avx2", true, ms));
        let peers = [row("a", "numpy 2", false, 8.0), row("a", "torch 2", false, 9.0)];
        results.take(
            turns.into_iter().chain(peers).collect(),
            vec!["jax: not installed".into()],
        );
        results.write().unwrap();
        let kept = Results::read(&folder, "cpu", false).unwrap();
        let table = kept.table();
        assert!(
            table.contains("| a | 1 | 2.00 | 4.00 | numpy 2 | 8.00 |"),
            "{table}"
        );
        assert!(table.contains("| b | 1 | 4.00 | | | |"), "{table}");
        assert!(
            table.contains("| **geometric mean** | | | **4.00** | | |"),
            "{table}"
        );
        let page = std::fs::read_to_string(folder.join("perf-cpu.md")).unwrap();
        assert!(
            page.contains("- jax: not installed") && page.contains("(perf-cpu/a.svg)"),
            "{page}"
        );
        let chart = std::fs::read_to_string(folder.join("perf-cpu/a.svg")).unwrap();
        assert!(
            chart.contains("numpy 2") && chart.ends_with("</svg>\n"),
            "{chart}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(
            [0.001234, 0.5, 12.34, 123.4].map(digits),
            ["0.00123", "0.500", "12.3", "123"]
        );
    }
}
