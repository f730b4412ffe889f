//! Backends that break the contract in one place each, and the cases that notice; older and newer ones that keep it.
#![allow(clippy::unwrap_used, reason = "a test")]

mod double;

use double::Double;
use std::sync::Arc;
use std::time::Duration;
use thalweg::Tensor;
use thalweg::hal::{Backend, DeviceOptions, Graph};
use thalweg_conformance::kit::matches;
use thalweg_conformance::{Case, Kit, Outcome, Report, Subject, cases};
use thalweg_hal::Status;
use thalweg_hal::tables::*;

fn run(subject: Subject, pattern: &str) -> Report {
    let kit = Kit::new()
        .only(pattern)
        .deadline(Duration::from_secs(5))
        .measure(false);
    assert!(!kit.is_empty(), "no case fits {pattern}");
    kit.run(&Arc::new(subject), |_| {})
}

/// The named cases fail.
#[track_caller]
fn caught(double: Double, pattern: &str, expected: &[&str]) {
    let report = run(double.subject("double"), pattern);
    let failed: Vec<String> = report
        .failed()
        .map(|row| format!("{}/{}", row.group, row.name))
        .collect();
    for case in expected {
        assert!(
            failed.iter().any(|path| matches(case, path)),
            "{case} has not failed\n{report}"
        );
    }
}

unsafe extern "C" fn done_event(_: Context, _: *const EventWaitArgs) -> i32 {
    0
}

unsafe extern "C" fn done_stream(_: Context, _: u64) -> i32 {
    0
}

unsafe extern "C" fn does_not_wait(_: Context, _: *const WaitEventArgs) -> i32 {
    0
}

unsafe extern "C" fn always_idle(_: Context, _: u64, out: *mut u32) -> i32 {
    // SAFETY: the caller's pointer; null is not looked for, which is a fault of its own.
    unsafe { out.write(1) };
    0
}

unsafe extern "C" fn hangs(_: Context, _: u64) -> i32 {
    loop {
        std::thread::park();
    }
}

unsafe extern "C" fn keeps(_: Context, _: u64) -> i32 {
    0
}

unsafe extern "C" fn launches_nothing(_: Context, _: u64, _: *const Launch, _: *const Tag) -> i32 {
    0
}

unsafe extern "C" fn unknown_code(_: Context, _: u64) -> i32 {
    4711
}

unsafe extern "C" fn no_text(_: Context, _: *mut u8, _: usize) -> usize {
    0
}

unsafe extern "C" fn supports_nothing(_: Context, _: *const CompileArgs) -> i32 {
    Status::Unsupported as i32
}

unsafe extern "C" fn forgets(_: Context, _: *const ProgramRebindArgs) -> i32 {
    0
}

#[test]
fn a_wait_that_does_not_wait() {
    caught(
        Double::new().change(|table: &mut EventTable| table.wait = done_event),
        "events/*",
        &["events/timeout", "events/stale_event"],
    );
}

#[test]
fn a_stream_that_does_not_wait_for_events() {
    caught(
        Double::new().change(|table: &mut StreamTable| table.wait_event = does_not_wait),
        "events/*",
        &[
            "events/destroyed_while_waited_for",
            "events/a_waiter_keeps_the_record_it_saw",
        ],
    );
}

#[test]
fn a_synchronize_that_does_not_wait() {
    let double = || Double::new().change(|table: &mut StreamTable| table.synchronize = done_stream);
    // Other cases would give memory back that copies still use.
    for case in ["streams/callback_error_sticks_once", "streams/stale_stream"] {
        caught(double(), case, &[case]);
    }
}

#[test]
fn a_query_that_is_always_true() {
    caught(
        Double::new().change(|table: &mut StreamTable| table.query = always_idle),
        "streams/*",
        &[
            "streams/blocked_callback_does_not_block_the_caller",
            "streams/long_work_does_not_block_the_caller",
        ],
    );
}

#[test]
fn a_free_that_keeps() {
    caught(
        Double::new().change(|table: &mut MemoryTable| table.free = keeps),
        "memory/*",
        &[
            "memory/double_free",
            "memory/figures_add_up",
            "memory/handles_are_not_used_again",
            "memory/trim",
        ],
    );
}

#[test]
fn a_launch_that_does_nothing() {
    caught(
        Double::new().change(|table: &mut StreamTable| table.launch = launches_nothing),
        "kernels/*.i32*",
        &[
            "kernels/scalar.add.i32.contiguous",
            "kernels/scalar.add.i32.gather",
            "kernels/cast.i32.f32",
            "kernels/reduce.sum.i32.rows",
        ],
    );
}

#[test]
fn a_status_of_nobody() {
    caught(
        Double::new().change(|table: &mut MemoryTable| table.free = unknown_code),
        "memory/*",
        &["memory/zero_bytes"],
    );
}

#[test]
fn errors_without_a_text() {
    caught(
        Double::new().change(|table: &mut CoreTable| table.last_error = no_text),
        "errors/*",
        &[
            "errors/null_memory",
            "errors/handles_buffer",
            "errors/launch_counts",
        ],
    );
}

#[test]
fn a_change_that_is_forgotten() {
    caught(
        Double::new().change(|table: &mut ProgramTable| table.rebind = forgets),
        "programs/*",
        &["programs/rebind", "programs/rebind_refused"],
    );
}

unsafe extern "C" fn deaf(_: Context, _: u64) -> i32 {
    0
}

#[test]
fn work_that_loses_its_correlation() {
    caught(
        Double::new().change(|table: &mut ProfileTable| table.correlate = deaf),
        "profile/*",
        &[
            "profile/work_of_a_stream",
            "profile/every_node_once",
            "profile/correlation_by_thread",
        ],
    );
}

#[test]
fn a_profile_that_does_not_end() {
    caught(
        Double::new().change(|table: &mut ProfileTable| table.stop = deaf),
        "profile/*",
        &[
            "profile/stale",
            "profile/stop_without_start",
            "profile/unknown_device",
        ],
    );
}

/// A profile has no more to say than that nothing was lost.
unsafe extern "C" fn drains_nothing(_: Context, args: *const ProfileDrainArgs) -> i32 {
    // SAFETY: the kit passes valid arguments, or null, which it asks to be refused.
    unsafe {
        let Some(args) = args.as_ref() else {
            return Status::InvalidArgument as i32;
        };
        args.written.write(0);
        args.lost.write(0);
    }
    0
}

#[test]
fn records_that_are_lost_in_silence() {
    caught(
        Double::new().change(|table: &mut ProfileTable| table.drain = drains_nothing),
        "profile/*",
        &[
            "profile/lost",
            "profile/every_node_once",
            "profile/kinds",
            "profile/buffers",
        ],
    );
}

#[test]
fn a_plugin_without_profiles_conforms() {
    let report = run(
        Double::new().without(TableId::Profile).subject("double"),
        "profile/*",
    );
    assert!(report.is_conformant(), "{report}");
    assert!(
        (report.rows.iter()).all(|row| matches!(row.outcome, Outcome::Unsupported(_))),
        "{report}"
    );
}

/// A call that never comes back costs its case the deadline, and the cases after it run.
#[test]
fn a_hang() {
    let double = Double::new().change(|table: &mut StreamTable| table.destroy = hangs);
    let kit = Kit::new()
        .only("streams/*_waits")
        .deadline(Duration::from_millis(300))
        .measure(false);
    let report = kit.run(&Arc::new(double.subject("double")), |_| {});
    let failed: Vec<_> = report
        .failed()
        .map(|row| (row.name.as_str(), row.outcome.clone()))
        .collect();
    assert_eq!(
        failed,
        [("destroy_waits", Outcome::Failed("not done within 300ms".into()))]
    );
    assert_eq!(report.rows.len(), 2);
}

#[test]
fn a_panic_in_a_case() {
    let kit = Kit::of(vec![
        Case::new("mine", "panics", |_| panic!("on purpose")),
        Case::new("mine", "passes", |_| Ok(())),
    ])
    .measure(false);
    let report = kit.run(&Arc::new(Double::new().subject("double")), |_| {});
    let outcomes: Vec<_> = report.rows.iter().map(|row| row.outcome.clone()).collect();
    assert_eq!(
        outcomes,
        [
            Outcome::Failed("the case panicked: on purpose".into()),
            Outcome::Passed
        ]
    );
}

/// What a device says it does not support is counted, and does not fail.
#[test]
fn nothing_supported() {
    let double = Double::new().change(|table: &mut KernelTable| table.supports = supports_nothing);
    let report = run(double.subject("double"), "kernels/rows.*");
    assert!(report.is_conformant());
    assert!(
        report
            .rows
            .iter()
            .all(|row| matches!(row.outcome, Outcome::Unsupported(_))),
        "{report}"
    );
}

/// A plugin without kernels and programs: what it lacks reads as absent, and the rest works.
#[test]
fn an_older_plugin() {
    let double = Double::new().without(TableId::Kernel).without(TableId::Program);
    let api = double.api();
    // SAFETY: the double keeps the contract.
    let backend = unsafe { Backend::from_api(api) }.unwrap();
    assert!(backend.tables().kernel.is_none() && backend.tables().program.is_none());
    // SAFETY: as above.
    let subject = unsafe { Subject::new("older", api) }.ok().unwrap();
    let report = run(subject, "*");
    assert!(report.is_conformant(), "{report}");
    let unsupported = |group: &str| {
        let rows = report.rows.iter().filter(|row| row.group == group);
        rows.map(|row| matches!(row.outcome, Outcome::Unsupported(_)))
            .collect::<Vec<_>>()
    };
    for group in ["kernels", "library", "programs"] {
        assert!(
            unsupported(group).iter().all(|&unsupported| unsupported),
            "{group}: {report}"
        );
    }
    assert!(!unsupported("memory").contains(&true), "{report}");
}

/// Kernels without programs: what compiles for the device is refused in one line, and what moves memory works.
#[test]
fn kernels_without_programs() {
    let api = Double::new().without(TableId::Program).api();
    // SAFETY: the double keeps the contract.
    let backend = unsafe { Backend::from_api(api) }.unwrap();
    let device = backend.open(&DeviceOptions::new(0)).unwrap();
    let error = Graph::new(&device, &[]).unwrap_err();
    assert_eq!(error.status(), Status::Unsupported);
    assert!(error.to_string().contains("has no programs"), "{error}");
    let cx = thalweg::Context::on(device);
    let x = Tensor::from_slice(&[1.0_f32, 2.0], 2, &cx);
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    let error = (&x + &x).to_vec::<f32>().unwrap_err().to_string();
    let first = error.lines().next().unwrap();
    assert!(first.contains("has no programs"), "{error}");
}

/// A required table that is missing is an error that names it.
#[test]
fn a_plugin_without_memory() {
    let api = Double::new().without(TableId::Memory).api();
    // SAFETY: the double keeps the contract but for the missing table, which is the test.
    let error = unsafe { Backend::from_api(api) }.unwrap_err();
    assert_eq!(error.status(), Status::IncompatibleAbi);
    assert!(error.to_string().contains("`memory`"), "{error}");
    // SAFETY: as above.
    let error = unsafe { Subject::new("double", api) }.err().unwrap();
    assert_eq!(error.status, Status::IncompatibleAbi);
}

/// A plugin with a table and a version that this host does not know: they are never asked for, and the known ones work.
#[test]
fn a_newer_plugin() {
    let double = Double::new()
        .with_unknown(99, 1)
        .with_unknown(TableId::Memory as u32, 2)
        .with_unknown(TableId::Program as u32, 2);
    let api = BackendApi {
        abi: ABI_VERSION + 1,
        ..double.api()
    };
    // SAFETY: the double keeps the contract.
    let backend = unsafe { Backend::from_api(api) }.unwrap();
    assert!(backend.tables().program.is_some());
    // SAFETY: as above.
    let subject = || unsafe { Subject::new("newer", api) }.ok().unwrap();
    for pattern in ["core/*", "memory/*", "programs/*"] {
        let report = run(subject(), pattern);
        assert!(report.is_conformant(), "{report}");
    }
}

/// Of a plugin that claims the present version, unknown tables are a defect.
#[test]
fn tables_that_nobody_has_defined() {
    caught(
        Double::new().with_unknown(99, 1),
        "core/*",
        &["core/unknown_tables"],
    );
}

#[test]
fn names_are_unique() {
    let mut paths: Vec<String> = cases().iter().map(Case::path).collect();
    paths.sort();
    let count = paths.len();
    paths.dedup();
    assert_eq!(paths.len(), count);
}
