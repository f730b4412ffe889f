//! The JSON form of `thalweg devices`. Its fields keep their names and meanings; cli/README.md documents them.

use crate::found::{Found, Survey, Unusable};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use thalweg::hal::{Capabilities, Capability};
use thalweg::loader::{ABI, Outcome};

/// Grows when a field changes its meaning or goes, not when one is added.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    thalweg: &'a str,
    abi: String,
    devices: Vec<Device<'a>>,
    unusable: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Device<'a> {
    target: &'a str,
    ordinal: u32,
    name: &'a str,
    kind: &'a str,
    arch: &'a str,
    id: &'a str,
    compute_units: u32,
    memory_total: u64,
    memory_free: Option<u64>,
    capabilities: Vec<String>,
    backend: Backend<'a>,
}

#[derive(Serialize)]
struct Backend<'a> {
    name: &'a str,
    version: &'a str,
    driver: &'a str,
    embedded: bool,
    path: Option<String>,
    layers: &'a [String],
}

#[derive(Serialize)]
struct Row<'a> {
    target: &'a str,
    path: Option<String>,
    outcome: &'a str,
    reason: String,
}

pub(super) fn write(survey: &Survey, out: &mut dyn Write) -> io::Result<()> {
    let document = Document {
        schema: SCHEMA,
        thalweg: env!("CARGO_PKG_VERSION"),
        abi: ABI.to_string(),
        devices: survey.devices.iter().map(device).collect(),
        unusable: survey.unusable.iter().map(row).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn names(capabilities: Capabilities) -> Vec<String> {
    let all = Capability::ALL.into_iter();
    all.filter(|(capability, _)| capabilities.has(*capability))
        .map(|(_, name)| name.replace(' ', "_"))
        .collect()
}

fn device(found: &Found) -> Device<'_> {
    let properties = &found.properties;
    Device {
        target: &found.target,
        ordinal: found.ordinal,
        name: &properties.name,
        kind: properties.kind.name(),
        arch: &properties.arch,
        id: &properties.id,
        compute_units: properties.compute_units,
        memory_total: found
            .memory
            .map_or(properties.total_memory, |memory| memory.total),
        memory_free: found.memory.map(|memory| memory.free),
        capabilities: names(properties.capabilities),
        backend: Backend {
            name: found.backend.name(),
            version: found.backend.version(),
            driver: found.backend.driver(),
            embedded: found.backend.path().is_none(),
            path: found.backend.path().map(text),
            layers: found.backend.layers(),
        },
    }
}

fn row(unusable: &Unusable) -> Row<'_> {
    let (outcome, reason) = match &unusable.outcome {
        Outcome::NotAvailable { reason } => ("not_available", reason.clone()),
        Outcome::Refused { reason } => ("refused", reason.clone()),
        Outcome::Shadowed { by } => ("shadowed", format!("{by} comes first")),
        other => ("unknown", other.to_string()),
    };
    Row {
        target: super::shown(&unusable.target),
        path: unusable.path.as_deref().map(text),
        outcome,
        reason,
    }
}
