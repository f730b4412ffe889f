//! A run in a terminal: steps, figures and scalars as curves, and the table of ops.

use crate::error::{Error, Result};
use crate::find;
use crate::known::Known;
use crate::pass::{self, View};
use crate::plot::Plot;
use crate::report::{Report, Sort, shown};
use crate::summaries::{self, Budget, Summaries};
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
    /// `None` where the folder has summaries alone.
    summary: Option<Summary>,
    /// Seconds and values of each of the user's figures.
    figures: BTreeMap<String, Vec<(f64, f64)>>,
    /// Steps and values of each scalar, by tag and run.
    scalars: BTreeMap<(String, String), Vec<(f64, f64)>>,
    /// What cannot be shown of summaries.
    notes: Vec<String>,
}

impl Terminal {
    /// Reads the recordings and summaries in `folder`.
    ///
    /// # Errors
    /// A folder with neither, or one that cannot be read.
    pub fn read(folder: &Path) -> Result<Terminal> {
        let found = summaries::folders(folder)?;
        let recordings = match find::recordings(folder) {
            Ok(recordings) => recordings,
            Err(Error::NoRecording { .. }) if !found.is_empty() => Vec::new(),
            Err(Error::NoRecording { path }) => return Err(Error::Nothing { path }),
            Err(error) => return Err(error),
        };
        let mut figures = Figures::default();
        for path in &recordings {
            let survey = Survey::of(path)?;
            pass::run(&survey, survey.start.unix, &mut [&mut figures])?;
        }
        let (mut scalars, mut notes) = (BTreeMap::new(), Vec::new());
        for folder in &found {
            let all = Summaries::read(folder, Budget::of(found.len()));
            for (tag, points) in all.scalars {
                let points = points.iter().map(|point| (point.step as f64, point.value));
                scalars.insert((tag, folder.name.clone()), points.collect());
            }
            notes.extend(all.notes);
        }
        Ok(Terminal {
            summary: match recordings.is_empty() {
                true => None,
                false => Some(derive(&recordings, None)?),
            },
            figures: figures.of,
            scalars,
            notes,
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

impl Terminal {
    fn steps(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<(f64, f64)> = (self.summary.iter().flat_map(|summary| &summary.steps))
            .map(|row| (row.step as f64, row.time() as f64 / 1e6))
            .collect();
        if steps.len() < 2 {
            return Ok(());
        }
        let plot = Plot {
            title: "time of a step",
            unit: "ms",
            along: "step",
            points: &steps,
        };
        writeln!(f, "{plot}")
    }
}

/// A curve of numbers that users named.
fn curve(f: &mut fmt::Formatter<'_>, title: &str, along: &str, points: &[(f64, f64)]) -> fmt::Result {
    let plot = Plot {
        title: &shown(title),
        unit: "",
        along,
        points,
    };
    writeln!(f, "{plot}")
}

impl Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "{}", shown(note))?;
        }
        self.steps(f)?;
        for (name, points) in &self.figures {
            curve(f, name, "s", points)?;
        }
        for ((tag, run), points) in &self.scalars {
            let title = match run.as_str() {
                "" => tag.clone(),
                run => format!("{tag} ({run})"),
            };
            curve(f, &title, "step", points)?;
        }
        match &self.summary {
            Some(summary) => Report::new(summary, Sort::Device, OPS).fmt(f),
            None if self.scalars.is_empty() => {
                writeln!(f, "no recording and no scalar; `thalweg view` shows the rest")
            }
            None => Ok(()),
        }
    }
}
