//! The acceptance rows, whole: on the CPU backend, or on the target that `THALWEG_TEST_TARGET` names.

use std::sync::LazyLock;
use thalweg::hal::{Backend, Runtime};
use thalweg::loader::{LoaderOptions, Registry};
use thalweg_conformance::acceptance::{self, Failure, Outcome};

/// The backend's name. A number behind it does not matter: rows take the first device.
static TARGET: LazyLock<String> = LazyLock::new(|| {
    let target = std::env::var("THALWEG_TEST_TARGET").unwrap_or_else(|_| "cpu".into());
    target.split(':').next().unwrap_or_default().to_owned()
});

/// A runtime of its own, which has used nothing yet.
fn runtime() -> Runtime {
    Runtime::new(Registry::new(LoaderOptions::default()))
}

/// A row on the CPU backend.
#[track_caller]
fn on_cpu(row: impl Fn(&Backend) -> Outcome) {
    met(runtime()
        .backend(&TARGET)
        .map_err(Failure::from)
        .and_then(|cpu| row(&cpu)));
}

#[track_caller]
fn met(outcome: Outcome) {
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn a1_allocated_and_peak() {
    on_cpu(acceptance::a1);
}

#[test]
fn a2_a3_figures_and_summary() {
    on_cpu(acceptance::a2_and_a3);
}

#[test]
fn a4_size_column() {
    met(acceptance::a4());
}

#[test]
fn a5_is_initialized() {
    met(acceptance::a5(&runtime(), &TARGET));
}

#[test]
fn a6_wrong_questions() {
    met(acceptance::a6(&runtime(), &TARGET));
}

#[test]
fn a7_a8_loops_and_their_gradients() {
    met(runtime()
        .device(TARGET.as_str())
        .map_err(Failure::from)
        .and_then(|device| acceptance::a7_and_a8(&device)));
}

#[test]
fn a9_energy_of_ones() {
    on_cpu(|cpu| acceptance::a9(cpu, 100));
}

#[test]
fn a10_numpy_sequence() {
    met(acceptance::a10());
}

#[test]
fn a11_energy_of_the_sequence() {
    on_cpu(|cpu| acceptance::a11(cpu, 100));
}

#[test]
fn a12_out_of_memory_and_on() {
    on_cpu(|cpu| acceptance::a12(cpu, 100));
}

#[test]
fn a14_convolution() {
    met(runtime()
        .device(&TARGET)
        .map_err(Failure::from)
        .and_then(|device| acceptance::a14(&device)));
}

#[test]
fn a18_stream_scopes() {
    on_cpu(acceptance::a18);
}

#[test]
fn a20_events_10000_times() {
    on_cpu(|cpu| acceptance::a20(cpu, 10_000));
}
