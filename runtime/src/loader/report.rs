//! What became of each file and folder that was looked at.

use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// The targets that users expect to hear about even where nothing of theirs is installed.
pub const WELL_KNOWN: [&str; 3] = ["cpu", "cuda", "opencl"];

/// One row of the report: a plugin file, a folder, the embedded backend, or a target without any of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// The target it is for; [`Candidate::FOLDER`] for a whole folder.
    pub target: String,
    /// The file or folder, `None` for what is embedded or absent.
    pub path: Option<PathBuf>,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// More lines for whoever looks into it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub detail: Vec<String>,
}

/// What became of a candidate. `Display` is the row's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// In use.
    Loaded {
        /// The plugin's version.
        version: String,
    },
    /// Sound, but this machine lacks something it needs.
    NotAvailable {
        /// What, and what to do.
        reason: String,
    },
    /// Not loaded, or not any further, as something is wrong with it.
    Refused {
        /// What, and what to do.
        reason: String,
    },
    /// Another one of the same name came first.
    Shadowed {
        /// The file that did, or `embedded`.
        by: String,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Loaded { version } => write!(f, "loaded: {version}"),
            Outcome::NotAvailable { reason } => write!(f, "not available: {reason}"),
            Outcome::Refused { reason } => write!(f, "refused: {reason}"),
            Outcome::Shadowed { by } => write!(f, "not used: {by} comes first"),
        }
    }
}

impl Candidate {
    /// Stands for the target where the row is about a folder.
    pub const FOLDER: &str = "-";

    /// A row that says why `path` is not used.
    pub fn refused(target: impl Into<String>, path: &Path, reason: impl Into<String>) -> Candidate {
        Candidate {
            target: target.into(),
            path: Some(path.to_path_buf()),
            outcome: Outcome::Refused {
                reason: reason.into(),
            },
            detail: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_and_serialises_flat() {
        let row = Candidate::refused("acme", Path::new("/opt/libthalweg_acme.so"), "the file is empty");
        assert_eq!(row.outcome.to_string(), "refused: the file is empty");
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"target":"acme","path":"/opt/libthalweg_acme.so","outcome":"refused","reason":"the file is empty"}"#
        );
    }
}
