//! What the search for backends found: devices, and what cannot be used.

use std::path::PathBuf;
use thalweg::hal::{Backend, Device, DeviceOptions, DeviceProperties, Error, MemoryInfo};
use thalweg::loader::{self, Candidate, Examined, Outcome};

/// A device that can be used.
pub(crate) struct Found {
    /// As `cpu:0`.
    pub(crate) target: String,
    pub(crate) ordinal: u32,
    pub(crate) properties: DeviceProperties,
    /// `None` where the driver does not say.
    pub(crate) memory: Option<MemoryInfo>,
    pub(crate) backend: &'static loader::Backend,
}

/// Something that was found or looked for and cannot be used.
pub(crate) struct Unusable {
    /// A target, a device as `acme:1`, or [`Candidate::FOLDER`].
    pub(crate) target: String,
    pub(crate) path: Option<PathBuf>,
    pub(crate) outcome: Outcome,
}

impl Unusable {
    /// Whether it is there and something is wrong with it: neither absent nor merely second.
    pub(crate) fn is_broken(&self) -> bool {
        self.path.is_some() && !matches!(self.outcome, Outcome::Shadowed { .. })
    }
}

/// Devices, in the order of precedence of their backends, and all the rest.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) devices: Vec<Found>,
    pub(crate) unusable: Vec<Unusable>,
}

impl Survey {
    /// Asks each candidate for its devices. Opens them: only an open one knows its free memory, and only what can be opened
    /// can be used.
    pub(crate) fn of(candidates: impl Iterator<Item = Examined>) -> Survey {
        let mut survey = Survey::default();
        for candidate in candidates {
            survey.add(&candidate);
        }
        survey
    }

    pub(crate) fn add(&mut self, examined: &Examined) {
        let Candidate {
            target,
            path,
            outcome,
            ..
        } = &examined.candidate;
        let unusable = |target: &str, outcome: Outcome| Unusable {
            target: target.into(),
            path: path.clone(),
            outcome,
        };
        let (Outcome::Loaded { .. }, Some(loaded)) = (outcome, examined.backend) else {
            self.unusable.push(unusable(target, outcome.clone()));
            return;
        };
        let backend = Backend::of(loaded).and_then(|backend| Ok((backend.device_count()?, backend)));
        let (count, backend) = match backend {
            Ok(found) => found,
            Err(error) => {
                self.unusable.push(unusable(target, not_available(&error)));
                return;
            }
        };
        for ordinal in 0..count {
            match device(&backend, loaded, ordinal) {
                Ok(found) => self.devices.push(found),
                Err(error) => {
                    let target = format!("{target}:{ordinal}");
                    self.unusable.push(unusable(&target, not_available(&error)));
                }
            }
        }
    }
}

fn device(backend: &Backend, loaded: &'static loader::Backend, ordinal: u32) -> Result<Found, Error> {
    backend.availability(ordinal)?;
    let properties = backend.device_properties(ordinal)?;
    let device: Device = backend.open(&DeviceOptions::new(ordinal))?;
    Ok(Found {
        target: device.target().to_owned(),
        ordinal,
        properties,
        memory: device.mem_get_info().ok(),
        backend: loaded,
    })
}

fn not_available(error: &Error) -> Outcome {
    let reason = match error {
        Error::Call(call) => call.message.clone(),
        other => other.to_string(),
    };
    Outcome::NotAvailable { reason }
}
