//! What is there, and what is initialised.

use super::{Failure, Outcome, apply, binary, equal, expect};
use thalweg::hal::ir::ScalarOp;
use thalweg::hal::{Buffer, Runtime};
use thalweg::random::Mt19937;
use thalweg::runtime;

/// `is_initialized` of a target of a runtime that has not used it yet.
///
/// # Errors
/// What differs.
pub fn a5(runtime: &Runtime, target: &str) -> Outcome {
    equal(
        "is_initialized at the start",
        runtime.is_initialized(target)?,
        false,
    )?;
    let mut numbers = Mt19937::new(0);
    let host: Vec<f32> = (0..16).map(|_| numbers.random() as f32).collect();
    equal(
        "is_initialized beside host data",
        runtime.is_initialized(target)?,
        false,
    )?;
    let device = runtime.device(target)?;
    let stream = device.current_stream()?;
    let a = Buffer::from_slice(&stream, &host)?;
    let add = binary(&device, "add", ScalarOp::Add)?;
    apply(&stream, &add, &a, &a)?;
    equal(
        "is_initialized after an op",
        runtime.is_initialized(target)?,
        true,
    )
}

/// Questions about devices that do not exist, asked of a runtime that has not used the target yet.
///
/// # Errors
/// What differs.
pub fn a6(runtime: &Runtime, target: &str) -> Outcome {
    let count = runtime.device_count(target)?;
    expect(count > 0, || format!("{target} has no device"))?;
    for id in [-1, i64::from(count)] {
        match runtime.device_name(target, id) {
            Err(error @ runtime::Error::NoSuchDevice { .. }) => {
                let text = error.to_string();
                let range = match count {
                    1 => "the only one is 0".to_owned(),
                    _ => format!("valid are 0 to {}", count - 1),
                };
                let named = [format!("device {id}"), range, runtime.targets().join(", ")];
                let missing = named.iter().find(|part| !text.contains(*part));
                expect(missing.is_none(), || {
                    format!("`{text}` does not say `{missing:?}`")
                })?;
            }
            other => return Err(Failure(format!("device_name of device {id}: {other:?}"))),
        }
    }
    let unknown = [
        runtime.device_count("TPU").map(drop),
        runtime.device_name("TPU", 0).map(drop),
    ];
    for result in unknown {
        match result {
            Err(runtime::Error::NoSuchTarget { asked, found, .. }) => {
                equal("the target in the error", asked.as_str(), "TPU")?;
                equal("the targets in the error", found, runtime.targets())?;
            }
            other => return Err(Failure(format!("TPU: {other:?}"))),
        }
    }
    equal(
        "is_initialized after the questions",
        runtime.is_initialized(target)?,
        false,
    )
}
