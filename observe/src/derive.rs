//! From recordings to files and figures.

use crate::error::Result;
use crate::pass::{self, View};
use crate::survey::Survey;
use crate::view::kernels::Kernels;
use crate::view::memory::{MemoryPeak, MemoryView};
use crate::view::metrics::{MetricRow, Metrics};
use crate::view::ops::{self, OpRow, Ops};
use crate::view::stacks::Stacks;
use crate::view::steps::{self, StepRow, Steps};
use crate::view::timeline::Timeline;
use std::path::{Path, PathBuf};

/// What recordings say, in figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The ops, those with most device time first.
    pub ops: Vec<OpRow>,
    /// The steps of training in order, rank by rank.
    pub steps: Vec<StepRow>,
    /// When most memory was in use, of each rank and device.
    pub memory: Vec<MemoryPeak>,
    /// What was measured of the hardware, where that was asked for.
    pub metrics: Vec<MetricRow>,
    /// Commands that ran on devices.
    pub kernels: u64,
    /// Whole device time of the commands in nanoseconds.
    pub device_time: u64,
    /// Events that were not recorded, because a buffer was full.
    pub lost: u64,
    /// What a reader should know: what is missing, and why.
    pub notes: Vec<String>,
}

/// Reads `recordings` and writes every file into `folder`, which is made if there is none; without a folder it writes nothing.
///
/// Times in the files count from the begin of the first recording.
///
/// # Errors
/// A recording that cannot be read or is of another version; a file that cannot be written.
pub fn derive(recordings: &[PathBuf], folder: Option<&Path>) -> Result<Summary> {
    let surveys: Vec<Survey> = (recordings.iter())
        .map(|path| Survey::of(path))
        .collect::<Result<_>>()?;
    let origin = surveys.iter().map(|survey| survey.start.unix).min().unwrap_or(0);
    let lost = (surveys.iter().flat_map(|survey| survey.lost.values()))
        .fold(0_u64, |sum, count| sum.saturating_add(*count));

    let (mut ops, mut steps, mut stacks) = (Ops::default(), Steps::default(), Stacks::default());
    let (mut memory, mut metrics) = (MemoryView::new(folder)?, Metrics::default());
    let mut timeline = folder.map(Timeline::new).transpose()?;
    let mut kernels = folder.map(Kernels::new).transpose()?;
    for survey in &surveys {
        let mut views: Vec<&mut dyn View> = vec![&mut ops, &mut steps, &mut memory, &mut metrics];
        if folder.is_some() {
            views.push(&mut stacks);
        }
        views.extend(timeline.as_mut().map(|view| view as &mut dyn View));
        views.extend(kernels.as_mut().map(|view| view as &mut dyn View));
        pass::run(survey, origin, &mut views)?;
    }
    timeline.map(Timeline::finish).transpose()?;
    kernels.map(|view| view.finish(lost)).transpose()?;
    let summary = Summary {
        kernels: surveys.iter().map(|survey| survey.kernels).sum(),
        device_time: ops.device_time(),
        ops: ops.finish(),
        steps: steps.finish(),
        memory: memory.finish(lost)?,
        metrics: metrics.finish(),
        lost,
        notes: notes(&surveys),
    };
    if let Some(folder) = folder {
        ops::write_csv(&summary.ops, lost, folder)?;
        ops::write_json(&summary.ops, lost, folder)?;
        steps::write(&summary.steps, lost, folder)?;
        stacks.write(folder)?;
    }
    Ok(summary)
}

/// What is missing in the recordings, and why.
pub(crate) fn notes(surveys: &[Survey]) -> Vec<String> {
    let mut notes = Vec::new();
    for survey in surveys {
        let path = survey.path.display();
        match &survey.cut {
            Some(cut) => notes.push(format!("{path}: {cut}; `--repair` cuts it there")),
            None if !survey.ended => {
                notes.push(format!("{path}: the program ended before the recording did"));
            }
            None => {}
        }
        for (source, count) in &survey.lost {
            notes.push(format!(
                "{path}: {count} events of {source} are lost, because a buffer was full"
            ));
        }
        for (device, why) in &survey.unmeasured {
            notes.push(format!("{path}: {device} is not measured: {why}"));
        }
        for error in &survey.errors {
            notes.push(format!("{path}: while it was recorded: {error}"));
        }
    }
    notes
}
