//! The process that runs cases. It reads orders from standard input, one a line: the number of a case, or [`LATENCY`]. It
//! writes one JSON line for what it loaded and one for each order; all else on its standard output is the backend's.

use super::{ignores, load};
use crate::Outcome;
use crate::args::Conform;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
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

/// The order to measure latencies.
pub(super) const LATENCY: &str = "latency";

/// Marks the program's own lines.
pub(super) const MARK: &str = "\u{1e}thalweg ";

pub(super) fn run(args: &Conform, cases: Vec<Case>, out: &mut dyn Write) -> Outcome {
    let mut send = |message: &Message| -> Result<(), Box<dyn std::error::Error>> {
        // A backend may have left a line of its own without an end.
        writeln!(out, "\n{MARK}{}", serde_json::to_string(message)?)?;
        Ok(out.flush()?)
    };
    let prepared = load(args).and_then(|backend| Ok((Subject::of(backend)?, ignores(args, backend.name())?)));
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
    let kit = Kit::of(cases).ignores(ignores);
    let mut session = kit.session(&Arc::new(subject));
    for order in std::io::stdin().lock().lines() {
        let order = order?;
        if order == LATENCY {
            send(&Message::Latency(session.latency()))?;
        } else {
            let row = order.parse().ok().and_then(|index| session.run(index));
            send(&Message::Row(
                row.ok_or_else(|| format!("no case has the number {order:?}"))?,
            ))?;
        }
    }
    // Threads of cases that hang are left behind, and a backend's end is not judged here.
    std::process::exit(0)
}
