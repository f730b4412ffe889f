//! The acceptance cases on the CPU backend, whole; and on the reference backend, with fewer chunks.

use thalweg::hal::{Backend, Runtime};
use thalweg::loader::{LoaderOptions, Registry};
use thalweg_conformance::acceptance::{self, Outcome};

const CPU: &str = "cpu";

/// A runtime of its own, which has used nothing yet.
fn runtime() -> Runtime {
    Runtime::new(Registry::new(LoaderOptions::default()))
}

fn cpu() -> Backend {
    runtime().backend(CPU).unwrap()
}

#[track_caller]
fn met(outcome: Outcome) {
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn a1_allocated_and_peak() {
    met(acceptance::a1(&cpu()));
}

#[test]
fn a2_a3_figures_and_summary() {
    met(acceptance::a2_and_a3(&cpu()));
}

#[test]
fn a4_size_column() {
    met(acceptance::a4());
}

#[test]
fn a5_is_initialized() {
    met(acceptance::a5(&runtime(), CPU));
}

#[test]
fn a6_wrong_questions() {
    met(acceptance::a6(&runtime(), CPU));
}

#[test]
fn a9_energy_of_ones() {
    met(acceptance::a9(&cpu(), 100));
}

#[test]
fn a10_numpy_sequence() {
    met(acceptance::a10());
}

#[test]
fn a11_energy_of_the_sequence() {
    met(acceptance::a11(&cpu(), 100));
}

#[test]
fn a12_out_of_memory_and_on() {
    met(acceptance::a12(&cpu(), 100));
}

#[test]
fn a18_stream_scopes() {
    met(acceptance::a18(&cpu()));
}

#[test]
fn a20_events_10000_times() {
    met(acceptance::a20(&cpu(), 10_000));
}
