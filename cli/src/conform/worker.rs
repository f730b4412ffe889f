//! The process that runs cases. It writes one JSON line for what it loaded, one for each case, and one at the end; all else
//! on its standard output is the backend's.

use super::{ignores, load};
use crate::Outcome;
use crate::args::Conform;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::sync::Arc;
use thalweg_conformance::{Case, Kit, Latency, Row, Subject};

/// A line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    Loaded {
        subject: String,
        contract: String,
    },
    Row(Row),
    Latency(Option<Latency>),
    /// Why nothing could be loaded.
    Error(String),
}

/// Marks the program's own lines.
pub(super) const MARK: &str = "\u{1e}thalweg ";

pub(super) fn run(args: &Conform, cases: Vec<Case>, out: &mut dyn Write) -> Outcome {
    let mut send = |message: &Message| -> Result<(), Box<dyn std::error::Error>> {
        // A backend may have left a line of its own without an end.
        writeln!(out, "\n{MARK}{}", serde_json::to_string(message)?)?;
        Ok(out.flush()?)
    };
    let prepared = load(args)
        .and_then(|(backend, oracle)| Ok((subject(backend, oracle)?, ignores(args, backend.name())?)));
    let (subject, ignores) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            send(&Message::Error(error.to_string()))?;
            return Ok(false);
        }
    };
    let contract = thalweg::loader::ABI.to_string();
    send(&Message::Loaded {
        subject: subject.name().into(),
        contract,
    })?;
    let kit = Kit::of(cases).ignores(ignores).measure(args.filter.is_none());
    let mut failure = None;
    let report = kit.run(&Arc::new(subject), |row| {
        if failure.is_none() {
            failure = send(&Message::Row(row.clone())).err();
        }
    });
    failure.map_or(Ok(()), Err)?;
    send(&Message::Latency(report.latency))?;
    // Threads of cases that hang are left behind, and a backend's end is not judged here.
    std::process::exit(0)
}

fn subject(
    backend: &'static thalweg::loader::Backend,
    oracle: Option<&'static thalweg::loader::Backend>,
) -> Result<Subject, Box<dyn std::error::Error>> {
    let subject = Subject::of(backend)?;
    Ok(match oracle {
        Some(oracle) => subject.with_oracle(&Subject::of(oracle)?),
        None => subject,
    })
}
