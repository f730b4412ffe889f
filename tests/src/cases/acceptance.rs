//! The acceptance rows that the HAL alone can run, at sizes that a slow backend can bear.

use crate::acceptance::{self, Outcome};
use crate::kit::{Case, Check, Stop};
use crate::rig::Subject;
use thalweg::hal::Backend;

pub(super) fn cases() -> Vec<Case> {
    let kernels = |name: &str, row: fn(&Backend) -> Outcome| {
        Case::new("acceptance", name, move |subject| {
            match subject.raw().tables.kernel {
                Some(_) => run(subject, row),
                None => Err(Stop::Unsupported("the backend has no table of kernels".into())),
            }
        })
    };
    vec![
        kernels("a1", acceptance::a1),
        kernels("a2_a3", acceptance::a2_and_a3),
        kernels("a9", |backend| acceptance::a9(backend, 1)),
        kernels("a11", |backend| acceptance::a11(backend, 1)),
        kernels("a12", |backend| acceptance::a12(backend, 1)),
        Case::new("acceptance", "a18", |subject| run(subject, acceptance::a18)),
        kernels("a20", |backend| acceptance::a20(backend, 1000)),
    ]
}

fn run(subject: &Subject, row: impl Fn(&Backend) -> Outcome) -> Check {
    // SAFETY: the subject's tables were filled by its entry function.
    let backend = unsafe { Backend::from_api(*subject.api()) };
    let backend = backend.map_err(|error| Stop::Failed(error.to_string()))?;
    row(&backend).map_err(|failure| Stop::Failed(failure.to_string()))
}
