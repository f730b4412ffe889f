//! Every op against stored values of PyTorch (`tests/data/ops`), eagerly, recorded and compiled, with gradients.
#![allow(clippy::unwrap_used, reason = "a test")]

mod case;
mod dispatch;
mod judge;
mod values;

use case::Case;
use judge::{Subject, judge};
use thalweg::{Context, DType, Mode};

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Runs the cases of a file and reports all that fail.
#[track_caller]
fn run(file: &str, subject: &Subject) {
    let cases = Case::read(file);
    let mut failures = Vec::new();
    let mut judged = 0;
    for (at, case) in cases.iter().enumerate() {
        for dtype in FLOATS.into_iter().filter(|&dtype| case.is_for(dtype)) {
            judged += 1;
            if let Err(failure) = judge(case, dtype, subject) {
                failures.push(format!(
                    "case {at} of {file}.txt, {dtype}: {}\n    {failure}",
                    case.header
                ));
            }
        }
    }
    assert!(judged > 0, "no cases in {file}");
    assert!(
        failures.is_empty(),
        "{} of {judged} fail\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn on_cpu(file: &str) {
    let subject = Subject {
        eager: Context::new("cpu").unwrap(),
        recorded: Context::new("cpu").unwrap(),
        gradients: true,
    };
    subject.recorded.set_mode(Mode::Graph);
    run(file, &subject);
}

/// The interpreter is slow: it runs without gradients.
fn on_reference(file: &str) {
    let subject = Subject {
        eager: Context::new("reference").unwrap(),
        recorded: Context::new("reference").unwrap(),
        gradients: false,
    };
    subject.recorded.set_mode(Mode::Graph);
    run(file, &subject);
}

macro_rules! files {
    ($($name:ident)*) => {
        mod cpu { $(#[test] fn $name() { super::on_cpu(stringify!($name)); })* }
        mod reference { $(#[test] fn $name() { super::on_reference(stringify!($name)); })* }
    };
}

files! { attention binary convolution indexed linalg loss norm pool reduction shape unary }
