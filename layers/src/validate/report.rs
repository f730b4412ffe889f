//! Reports: what was found, whose fault it is, what to do about it.

use super::Validate;
use super::code::Code;
use super::site::SiteId;
use crate::layer::Stop;
use std::fmt;
use thalweg_hal::tables::LogLevel;
use thalweg_hal::{Error, Status};

/// Whose fault a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// The program, which made a wrong call.
    Program,
    /// The core, which writes the lists of packets that a call of a program's runs.
    Core,
    /// The backend.
    Plugin,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Program => "program",
            Fault::Core => "core",
            Fault::Plugin => "plugin",
        })
    }
}

/// A finding.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) code: Code,
    pub(super) fault: Fault,
    /// The class of the call's error.
    pub(super) status: Status,
    /// What, where, and what to do.
    pub(super) text: String,
    /// What was logged once is not logged again for the same sites.
    pub(super) sites: (SiteId, SiteId),
}

impl Report {
    /// A fault of the program.
    pub(super) fn program(code: Code, status: Status, text: impl Into<String>) -> Report {
        Report {
            code,
            fault: Fault::Program,
            status,
            text: text.into(),
            sites: (0, 0),
        }
    }

    /// A fault of the backend.
    pub(super) fn plugin(code: Code, text: impl Into<String>) -> Report {
        Report {
            fault: Fault::Plugin,
            ..Report::program(code, Status::Internal, text)
        }
    }

    /// At these sites.
    pub(super) fn at(self, first: SiteId, second: SiteId) -> Report {
        Report {
            sites: (first, second),
            ..self
        }
    }

    /// Of another's fault.
    pub(super) fn of(self, fault: Fault) -> Report {
        Report { fault, ..self }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.fault, self.text)
    }
}

impl Validate {
    /// What becomes of a call for which something was found: it fails, or goes on with a line in the log.
    pub(super) fn found(&self, report: Report) -> Result<(), Stop> {
        let options = self.state.lock().options;
        if !options.wants(report.code) {
            return Ok(());
        }
        if options.warn {
            self.log(LogLevel::Warn, &report);
            return Ok(());
        }
        Err(Error::new(report.status, report.to_string()).into())
    }

    /// As [`Validate::found`], where something may have been found.
    #[inline]
    pub(super) fn checked(&self, result: Result<(), Report>) -> Result<(), Stop> {
        match result {
            Ok(()) => Ok(()),
            Err(report) => self.found(report),
        }
    }

    /// Logs what is no answer to a call.
    pub(super) fn tell(&self, report: &Report) {
        let options = self.state.lock().options;
        if options.wants(report.code) {
            let level = if options.warn {
                LogLevel::Warn
            } else {
                LogLevel::Error
            };
            self.log(level, report);
        }
    }

    fn log(&self, level: LogLevel, report: &Report) {
        let new = self.state.lock().seen.insert((report.code, report.sites));
        if new {
            self.host.log(level, "validate", &report.to_string());
        }
    }
}
