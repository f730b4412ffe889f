//! Profiles of small programs, read from their files.

mod faults;
mod file;
mod memory;
mod names;

use super::recording::{CommandKind, MemoryKind, SpanKind};
use super::{Metric, Profile, ProfileError, Schedule};
use crate::context::{Context, Mode};
use crate::error::Error;
use crate::tensor::Tensor;
use crate::{DType, cond, fori_loop, grad, jit, scan, value_and_grad, while_loop};
use file::Recording;
use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A process has one profile at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}

fn rank(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("rank_0")
}

/// What a program does while it is profiled.
fn profiled(cx: &Context, run: impl FnOnce()) -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let profile = Profile::to(folder.path()).memory(true).start(cx).unwrap();
    run();
    profile.finish().unwrap();
    let recording = Recording::read(&rank(&folder));
    assert!(recording.is_ended && recording.cut.is_none());
    assert_eq!(recording.lost, 0);
    recording
}

fn numbers(cx: &Context) -> Tensor {
    Tensor::from_slice(&[0.5_f32, 1.0, 2.0, 4.0, 8.0, 16.0], [2, 3], cx)
}

#[test]
fn an_eager_op_is_a_call_a_run_and_a_command() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let line = line!() + 3;
    let recording = profiled(&cx, || {
        for _ in 0..3 {
            assert_eq!(*x.exp().shape().unwrap(), [2, 3]);
        }
    });
    let start = recording.start.as_ref().unwrap();
    assert_eq!((start.pid, start.rank), (std::process::id(), 0));
    assert!(start.settings.contains("memory=on\n"), "{}", start.settings);
    assert_eq!(
        recording.called(),
        ["Default/exp-op1", "Default/exp-op2", "Default/exp-op3"]
    );
    for op in &recording.ops {
        let (file, at) = recording.line(op.place);
        assert_eq!(
            (Path::new(&file).file_name(), at),
            (Path::new("tests.rs").file_name(), line)
        );
        assert_eq!(recording.text(op.operands), "f32[2,3]");
    }
    let [device] = &recording.devices[..] else {
        panic!("{:?}", recording.devices)
    };
    assert_eq!(
        (recording.text(device.target), device.unmeasured),
        ("cpu:0".into(), 0)
    );
    assert_eq!(recording.runs.len(), 3);
    for (run, op) in recording.runs.iter().zip(&recording.ops) {
        assert_eq!((run.place, run.call), (op.place, op.call));
        assert!(op.start <= run.start && run.end <= op.end);
        let program = &recording.programs[&run.program];
        let [node] = &program.nodes[..] else {
            panic!("{program:?}")
        };
        assert_eq!(recording.text(node.kernel), "exp");
        assert_eq!((node.flops, node.bytes), (6, 48));
        let commands: Vec<_> = (recording.commands.iter())
            .filter(|command| command.correlation == run.correlation)
            .collect();
        let [command] = commands[..] else {
            panic!("{commands:?}")
        };
        assert_eq!(
            (command.kind, command.node, command.exact),
            (CommandKind::Launch, 0, true)
        );
        // To a microsecond, which two clocks may be apart.
        assert!(run.start <= command.start + 1000 && start.time <= command.start);
        let made: Vec<_> = (recording.memory.iter())
            .filter(|memory| memory.kind == MemoryKind::Alloc && memory.correlation == run.correlation)
            .collect();
        assert_eq!(made.len(), 1, "{made:?}");
    }
}

#[test]
fn nothing_is_recorded_before_and_after() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let before = x.exp();
    let recording = profiled(&cx, || drop(x.sin()));
    let after = before.cos();
    assert_eq!(*after.shape().unwrap(), [2, 3]);
    assert_eq!(recording.called(), ["Default/sin-op1"]);
    // The thread does not look any more.
    assert!(crate::record::calls::is_plain());
}

/// A step of a small network, with a composite, a gradient and an update.
fn step(x: &Tensor, w: &Tensor) -> (Tensor, Tensor) {
    crate::observe::restart_calls();
    let loss = |w: &Tensor| {
        let hidden = {
            let _scope = crate::observe::scope("hidden.first");
            x.matmul(w).relu()
        };
        let _scope = crate::observe::scope("head");
        let lost = hidden.log_softmax(-1).mean();
        (lost.clone(), lost)
    };
    let ((loss, _), slope) = value_and_grad(loss).call(w);
    let _scope = super::update_scope("w");
    (loss, w - slope * 0.1)
}

#[test]
fn names_are_the_same_in_every_mode() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let w = Tensor::from_slice(&[0.1_f32, -0.2, 0.3, -0.4, 0.5, -0.6], [3, 2], &cx);
    let eager = profiled(&cx, || drop(step(&x, &w)));
    let mut called = eager.called();
    called.sort();
    called.dedup();
    for wanted in [
        "Default/hidden/first/matmul-op1",
        "Default/hidden/first/relu-op2",
        "Default/head/log_softmax-op3",
        "Default/head/mean-op4",
        "Gradients/Default/hidden/first/matmul-op1",
        "Gradients/Default/hidden/first/relu-op2",
        "Gradients/Default/head/log_softmax-op3",
        "Update/w/mul-op5",
        "Update/w/sub-op6",
    ] {
        assert!(
            called.iter().any(|name| name == wanted),
            "{wanted} is not in {called:#?}"
        );
    }
    // Traced before the profile begins.
    let compiled = jit(|x: &Tensor, w: &Tensor| step(x, w));
    let one = compiled.call((&x, &w));
    let traced = profiled(&cx, || drop(compiled.call((&x, &w))));
    assert_eq!(traced.called(), [""; 0]);
    assert_eq!(traced.runs.len(), 1);
    let recorded_cx = Context::new("cpu").unwrap();
    recorded_cx.set_mode(Mode::Graph);
    let (x, w) = (x.to(&recorded_cx), w.to(&recorded_cx));
    let (x, w) = (in_context(&x, &recorded_cx), in_context(&w, &recorded_cx));
    let read = |(loss, w): (Tensor, Tensor)| (loss.to_vec::<f32>().unwrap(), w.to_vec::<f32>().unwrap());
    let unnamed = read(step(&x, &w));
    let mut bits = None;
    let recorded = profiled(&cx, || bits = Some(read(step(&x, &w))));
    assert_eq!(bits, Some(read(one)));
    assert_eq!(bits, Some(unnamed));
    // Compiled graphs have no part for what costs nothing: a constant, a view, a product by one.
    let all = eager.computed();
    for (mode, other) in [("traced", &traced), ("recorded", &recorded)] {
        let names = other.computed();
        let unknown: Vec<_> = (names.iter())
            .filter(|name| !all.contains(name) && !called.contains(name) && !name.ends_with("/to_vec"))
            .collect();
        assert!(unknown.is_empty(), "{mode}: {unknown:#?} are not in {all:#?}");
        let missing: Vec<_> = (called.iter()).filter(|name| !names.contains(name)).collect();
        assert!(missing.len() <= 1, "{mode}: {missing:#?} are not in {names:#?}");
    }
}

/// The same values in a context of the same device.
fn in_context(tensor: &Tensor, cx: &Context) -> Tensor {
    let shape = tensor.shape().unwrap();
    Tensor::from_vec(tensor.to_vec::<f32>().unwrap(), shape, cx)
}

#[test]
fn each_turn_of_a_loop_has_the_same_names() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let recording = profiled(&cx, || {
        let looped = fori_loop(0..3, x.clone(), |_, x| x.sqrt());
        let looped = while_loop(|x: &Tensor| x.max().lt(1.0e3), |x| x.exp(), looped);
        let (looped, _) = scan(
            |sum: Tensor, row: Tensor| (sum + row, ()),
            looped.select(0, 0),
            &x,
        );
        let more = looped.max().gt(0.0);
        let _ = cond(&more, |x: &Tensor| x.sin(), |x: &Tensor| x.cos(), &looped);
    });
    let called = recording.called();
    let count = |name: &str| called.iter().filter(|called| *called == name).count();
    assert_eq!(count("Default/sqrt-op1"), 3, "{called:#?}");
    // The condition is asked once more than the body runs.
    let (asked, done) = (count("Default/max-op2"), count("Default/exp-op4"));
    assert_eq!((asked, done > 0), (done + 1, true), "{called:#?}");
}

#[test]
fn stretches_points_and_figures_are_told() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let recording = profiled(&cx, || {
        let _range = super::range("read files");
        super::mark("half way");
        super::counter("files", 12.5);
        let x = numbers(&cx);
        // Shapes do not fit.
        let error = (&x + Tensor::zeros(7, DType::F32, &cx)).ok().unwrap_err();
        assert!(matches!(error, Error::Tensor(_)));
        assert_eq!(x.sum().item::<f32>().unwrap(), 31.5);
        let f = jit(|x: &Tensor| (x * x).sum());
        f.call(&x);
    });
    assert_eq!(recording.marks, ["half way"]);
    assert_eq!(recording.counters, [("files".to_owned(), 12.5)]);
    assert_eq!(recording.failures.len(), 1, "{:?}", recording.failures);
    assert!(
        recording.failures[0].starts_with("add: "),
        "{:?}",
        recording.failures
    );
    let names = |kind: SpanKind| -> Vec<String> {
        let spans = recording.spans.iter().filter(|span| span.kind == kind);
        spans.map(|span| recording.text(span.name)).collect()
    };
    assert_eq!(names(SpanKind::Range), ["read files"]);
    assert_eq!(names(SpanKind::Wait), ["item"]);
    assert_eq!(names(SpanKind::Trace).len(), 1);
    assert!(names(SpanKind::Trace)[0].contains("stretches_points_and_figures_are_told"));
    assert!(!names(SpanKind::Rewrite).is_empty() && !names(SpanKind::Lower).is_empty());
    let whole = recording
        .spans
        .iter()
        .find(|span| span.kind == SpanKind::Range)
        .unwrap();
    for span in &recording.spans {
        assert!(whole.start <= span.start && span.end <= whole.end, "{span:?}");
    }
    // A copy to the device and one back.
    let copies: Vec<u64> = (recording.commands.iter())
        .filter(|command| command.kind == CommandKind::Copy)
        .map(|command| command.bytes)
        .collect();
    assert!(copies.contains(&24) && copies.contains(&4), "{copies:?}");
}

#[test]
fn a_profile_ends_by_a_panic() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let x = numbers(&cx);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _profile = Profile::to(folder.path()).start(&cx).unwrap();
        drop(x.exp());
        panic!("inside");
    }));
    assert!(panicked.is_err());
    let recording = Recording::read(&rank(&folder));
    assert!(recording.is_ended);
    assert_eq!(recording.called(), ["Default/exp-op1"]);
}

#[test]
fn only_what_is_asked_for_is_recorded() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let folder = tempfile::tempdir().unwrap();
    let run = |kernels: bool, ops: bool| {
        let profile = Profile::to(folder.path())
            .kernels(kernels)
            .ops(ops)
            .start(&cx)
            .unwrap();
        drop(x.exp());
        profile.finish().unwrap();
        let recording = Recording::read(&rank(&folder));
        assert!(recording.memory.is_empty());
        (
            recording.ops.len(),
            recording.runs.len(),
            recording.commands.len(),
        )
    };
    assert_eq!(run(true, true), (1, 1, 1));
    assert_eq!(run(true, false), (0, 1, 1));
    assert_eq!(run(false, true), (1, 0, 0));
    assert_eq!(run(false, false), (0, 0, 0));
}

#[test]
fn a_schedule_keeps_the_steps_that_it_names() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let folder = tempfile::tempdir().unwrap();
    let ready = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&ready);
    let schedule = Schedule {
        wait: 1,
        warmup: 1,
        active: 2,
        repeat: 2,
        skip_first: 1,
    };
    let mut profile = Profile::to(folder.path())
        .schedule(schedule)
        .on_trace_ready(move |folder| heard.lock().push(folder.to_owned()))
        .start(&cx)
        .unwrap();
    for step in 0..12 {
        drop(x.exp());
        super::mark(&format!("step {step}"));
        profile.step().unwrap();
    }
    drop(profile);
    let folders = [rank(&folder).join("cycle_1"), rank(&folder).join("cycle_2")];
    assert_eq!(*ready.lock(), folders);
    for (folder, steps) in folders.iter().zip([[3_u64, 4], [7, 8]]) {
        let recording = Recording::read(folder);
        assert!(recording.is_ended);
        assert_eq!(recording.marks, steps.map(|step| format!("step {step}")));
        assert_eq!(recording.called(), ["Default/exp-op1"; 2]);
        let spans = recording.spans.iter().filter(|span| span.kind == SpanKind::Step);
        let numbers: Vec<u64> = spans.map(|span| span.number).collect();
        assert_eq!(numbers, steps.map(|step| step + 1));
    }
    let profile = Profile::to(folder.path()).steps(2..=2).start(&cx);
    let mut profile = profile.unwrap();
    for step in 0..4 {
        super::mark(&format!("step {step}"));
        profile.step().unwrap();
    }
    drop(profile);
    assert_eq!(Recording::read(&rank(&folder)).marks, ["step 1"]);
}

#[test]
fn gradients_of_gradients_say_whose_they_are() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::scalar(2.0_f32, &cx);
    let recording = profiled(&cx, || {
        let _scope = super::scope("wave");
        let slope = grad(|x: &Tensor| x.sin() * x);
        let curve = grad(|x: &Tensor| slope.call(x)).call(&x);
        let wanted = 2.0 * 2.0_f32.cos() - 2.0 * 2.0_f32.sin();
        assert!((curve.item::<f32>().unwrap() - wanted).abs() < 1e-5);
    });
    let called = recording.called();
    for scope in [
        "Default/wave/sin-op",
        "Gradients/Default/wave/sin-op",
        "Gradients/Gradients/Default/wave/sin-op",
    ] {
        assert!(
            called.iter().any(|name| name.starts_with(scope)),
            "{scope}: {called:#?}"
        );
    }
}

/// What a profile is asked for is in its recording: figures, or why there are none.
#[test]
fn metrics_are_measured_or_unavailable() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    for metric in Metric::ALL {
        let folder = tempfile::tempdir().unwrap();
        let profile = Profile::to(folder.path()).metric(metric).start(&cx).unwrap();
        assert_eq!(x.exp().shape().unwrap().len(), 2);
        profile.finish().unwrap();
        let recording = Recording::read(&rank(&folder));
        assert!(recording.is_ended && recording.lost == 0);
        let target = cx.device().target();
        assert_eq!(recording.marks[0], format!("ai_core_metrics {metric} {target}"));
        let counters: Vec<&str> = recording.counters.iter().map(|(name, _)| name.as_str()).collect();
        let peak = |what: &str| vec![format!("{target} peak {what}")];
        match metric {
            Metric::PipeUtilization => assert_eq!(counters, [""; 0]),
            Metric::ArithmeticUtilization => assert_eq!(counters, peak("flop/s")),
            Metric::Memory => assert_eq!(counters, peak("byte/s")),
            Metric::MemoryL0 | Metric::ResourceConflictRatio => match recording.marks.get(1) {
                Some(why) => {
                    let begin = format!("ai_core_metrics unavailable {target} ");
                    assert!(
                        why.starts_with(&begin) && why.contains("no hardware counters of cycles: "),
                        "{why}"
                    );
                    assert_eq!(counters, [""; 0]);
                }
                None => assert!(counters[0].ends_with(" cycles") && recording.counters[0].1 > 0.0),
            },
        }
    }
}
