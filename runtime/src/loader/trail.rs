//! The way from a file to a backend, step by step, for whoever wants to see it.

use serde::Serialize;
use std::fmt;
use std::path::Path;

/// The steps, in their order. Embedded backends start at [`Stage::Start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stage {
    /// Who may have put the file there, and its bytes.
    File,
    /// Whether it is a sound shared library for this machine.
    Elf,
    /// What it says of itself: name, version of the contract, what it needs.
    Manifest,
    /// Whether it was built with the structs of this program.
    Layout,
    /// Whether the folder's lock file allows it.
    Lock,
    /// The load in a child process.
    Trial,
    /// The load into this process.
    Open,
    /// Its entry function and the tables that it hands over.
    Start,
    /// A layer over its tables.
    Layer,
    /// The question for its devices.
    Devices,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Stage::File => "file",
            Stage::Elf => "ELF",
            Stage::Manifest => "manifest",
            Stage::Layout => "layout",
            Stage::Lock => "lock",
            Stage::Trial => "trial",
            Stage::Open => "dlopen",
            Stage::Start => "start",
            Stage::Layer => "layer",
            Stage::Devices => "devices",
        })
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Which.
    pub stage: Stage,
    /// What was found there; `None` where the way ended.
    pub found: Option<String>,
}

/// The steps so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trail(Vec<Step>);

impl Trail {
    /// Begins a step; without a later [`Trail::found`] it is where the way ended.
    pub(super) fn enter(&mut self, stage: Stage, path: Option<&Path>) {
        match path {
            Some(path) => tracing::debug!(%stage, path = %path.display(), "examining a backend"),
            None => tracing::debug!(%stage, "examining an embedded backend"),
        }
        self.0.push(Step { stage, found: None });
    }

    /// Ends the last step well.
    pub(super) fn found(&mut self, text: impl Into<String>) {
        if let Some(step) = self.0.last_mut() {
            step.found = Some(text.into());
        }
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_ends_where_nothing_was_found() {
        let mut trail = Trail::default();
        trail.found("nothing has begun");
        trail.enter(Stage::File, None);
        trail.found("12 bytes");
        trail.enter(Stage::Elf, None);
        let steps = trail.into_steps();
        assert_eq!(
            serde_json::to_string(&steps).unwrap(),
            r#"[{"stage":"file","found":"12 bytes"},{"stage":"elf","found":null}]"#
        );
        assert_eq!(format!("{:<8}|", Stage::Elf), "ELF     |");
    }
}
