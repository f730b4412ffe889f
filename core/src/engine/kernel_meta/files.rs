//! The files of one program of a kernel.

use super::{Told, extension, text};
use crate::error::KernelMetaError;
use crate::hal::{Kernel, KernelPart};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use thalweg_hal::kit::file;

/// Longest name of a kernel in the name of a file.
const NAME_BYTES: usize = 80;

/// A file that was written, or why there is none.
fn said(written: &Result<String, String>) -> Value {
    match written {
        Ok(name) => json!({ "file": name }),
        Err(why) => json!({ "none": why }),
    }
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), KernelMetaError> {
    let path = folder.join(name);
    // What is there already is not written again: ranks and processes share the folder.
    if std::fs::read(&path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    file::replace(&path, |file| file.write_all(bytes)).map_err(|error: std::io::Error| KernelMetaError {
        path,
        error: Arc::new(error),
    })
}

/// An object as a file of text.
fn pretty(value: &Value) -> String {
    // A value of JSON is always text.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

impl Told<'_> {
    /// What the names of its files begin with. The same kernel has the same name in every run.
    pub(super) fn base(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = self.source.name().chars().map(plain).take(NAME_BYTES).collect();
        let device = self.target.replace(':', "");
        let plain = if self.level.optimises() {
            ""
        } else {
            "_unoptimised"
        };
        format!("{name}_{:016x}_{device}_{}{plain}", self.hash(), self.program)
    }

    /// Writes the files that the level has.
    pub(super) fn write(&self, folder: &Path, kernel: &Kernel) -> Result<(), KernelMetaError> {
        let base = self.base();
        let not_at = |what: &str| Err(format!("op_debug_level {} has no {what}", self.level));
        let source = match self.level.has_source() {
            false => not_at("source"),
            true => match text(kernel, self.program, KernelPart::Source) {
                Ok(source) => {
                    let name = format!("{base}.{}", extension(&self.facts));
                    write(folder, &name, source.as_bytes())?;
                    Ok(name)
                }
                Err(why) => Err(why.to_string()),
            },
        };
        let binary = match kernel.inspect(self.program, KernelPart::Binary) {
            Ok(binary) => {
                let name = format!("{base}.bin");
                write(folder, &name, &binary)?;
                Ok(name)
            }
            Err(why) => Err(why.to_string()),
        };
        let lines = match (self.level.has_lines(), &source) {
            (false, _) => not_at("lines"),
            (true, Err(why)) => Err(why.clone()),
            (true, Ok(of)) => {
                let name = format!("{base}_loc.json");
                let lines = text(kernel, self.program, KernelPart::Lines).unwrap_or_default();
                write(folder, &name, pretty(&self.lines(of, &lines)).as_bytes())?;
                Ok(name)
            }
        };
        let compute = match self.level.has_compute() {
            false => not_at("IR"),
            true => {
                let name = format!("{base}_compute.json");
                write(folder, &name, pretty(&self.compute()).as_bytes())?;
                Ok(name)
            }
        };
        let mut about = self.about();
        about["source"] = said(&source);
        about["lines"] = said(&lines);
        about["binary"] = said(&binary);
        about["compute"] = said(&compute);
        if let Ok(log) = text(kernel, self.program, KernelPart::Log)
            && !log.is_empty()
        {
            about["log"] = Value::String(log);
        }
        write(folder, &format!("{base}.json"), pretty(&about).as_bytes())
    }
}
