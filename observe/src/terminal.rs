//! A run in a terminal: steps and figures as curves, and the table of ops.

use crate::error::Result;
use crate::find;
use crate::known::Known;
use crate::pass::{self, View};
use crate::plot::Plot;
use crate::report::{Report, Sort, shown};
use crate::survey::Survey;
use crate::{Summary, derive};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::Path;
use thalweg::observe::recording::TextId;

/// Ops that are listed.
const OPS: usize = 20;

/// What a run did, for a terminal.
///
/// ```no_run
/// use thalweg_observe::Terminal;
///
/// print!("{}", Terminal::read("out".as_ref())?);
/// # Ok::<(), thalweg_observe::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Terminal {
    summary: Summary,
    /// Seconds and values of each of the user's figures.
    figures: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Terminal {
    /// Reads the recordings in `folder`.
    ///
    /// # Errors
    /// A folder without a recording, or one that cannot be read.
    pub fn read(folder: &Path) -> Result<Terminal> {
        let recordings = find::recordings(folder)?;
        let summary = derive(&recordings, None)?;
        let mut figures = Figures::default();
        for path in &recordings {
            let survey = Survey::of(path)?;
            pass::run(&survey, survey.start.unix, &mut [&mut figures])?;
        }
        Ok(Terminal {
            summary,
            figures: figures.of,
        })
    }
}

#[derive(Default)]
struct Figures {
    of: BTreeMap<String, Vec<(f64, f64)>>,
}

impl View for Figures {
    fn counter(&mut self, known: &Known<'_>, time: u64, name: TextId, value: f64) -> Result<()> {
        let rank = match known.rank() {
            0 => String::new(),
            rank => format!(" (rank {rank})"),
        };
        let name = format!("{}{rank}", known.text(name));
        let values = self.of.entry(name).or_default();
        values.push((known.time(time) as f64 / 1e9, value));
        Ok(())
    }
}

impl Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<(f64, f64)> = (self.summary.steps.iter())
            .map(|row| (row.step as f64, row.time() as f64 / 1e6))
            .collect();
        if steps.len() > 1 {
            let plot = Plot {
                title: "time of a step",
                unit: "ms",
                along: "step",
                points: &steps,
            };
            writeln!(f, "{plot}")?;
        }
        for (name, points) in &self.figures {
            let plot = Plot {
                title: &shown(name),
                unit: "",
                along: "s",
                points,
            };
            writeln!(f, "{plot}")?;
        }
        Report::new(&self.summary, Sort::Device, OPS).fmt(f)
    }
}
