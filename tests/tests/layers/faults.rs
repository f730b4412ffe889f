//! Faults at every call of eager and compiled programs: a typed error that names the op, true figures, nothing leaked, and later
//! work is right.

use crate::plugins::tried::tried;
use crate::runtime;
use std::fmt::Write;
use thalweg::hal::{Backend, Buffer, Device, DeviceOptions, MemoryStats, Runtime, Status};
use thalweg::host::set_config;
use thalweg::{Context, Mode, Result, Tensor, jit};

/// The classes of faults that end in an error, with its status.
const KINDS: [(&str, Status); 4] = [
    ("alloc", Status::OutOfMemory),
    ("submit", Status::LaunchFailed),
    ("later", Status::LaunchFailed),
    ("compile", Status::CompileFailed),
];

/// Calls without a fault after which a program has been gone through.
const QUIET: u64 = 4;

/// A program, and the bits that it computes.
type Program = fn(&Context) -> Result<Vec<u32>>;

pub(crate) fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    Ok(tensor.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
}

pub(crate) fn ramp(shape: [usize; 2], cx: &Context) -> Tensor {
    let values = (0..shape[0] * shape[1])
        .map(|i| (i as f32 * 0.37).sin())
        .collect();
    Tensor::from_vec(values, shape, cx)
}

fn eager(cx: &Context) -> Result<Vec<u32>> {
    let (a, b) = (ramp([6, 5], cx), ramp([5, 4], cx));
    let c = a.matmul(&b).tanh();
    let d = (&c - c.sum()).softmax(1);
    let mut all = bits(&d)?;
    all.extend(bits(&(&a * 2.0).transpose(0, 1).sum())?);
    Ok(all)
}

fn compiled(cx: &Context) -> Result<Vec<u32>> {
    let layer = jit(|(x, w): &(Tensor, Tensor)| (x.matmul(w).relu() + 1.0).softmax(1));
    let (x, w) = (ramp([6, 5], cx), ramp([5, 4], cx));
    let mut all = bits(&layer.call(&(x.clone(), w.clone())))?;
    all.extend(bits(&layer.call(&(&x * 0.5, w)))?);
    Ok(all)
}

const PROGRAMS: [(&str, Program, Mode); 3] = [
    ("eager", eager, Mode::Eager),
    ("graph", eager, Mode::Graph),
    ("jit", compiled, Mode::Eager),
];

/// A fresh device under the rules.
pub(crate) fn open(backend: &Backend, rules: &str) -> Device {
    set_config("layer.fault", Some(rules));
    backend.open(&DeviceOptions::new(0)).unwrap()
}

/// What is in use when a program and its context are gone.
pub(crate) fn rest(device: &Device) -> (u64, u64, u64) {
    let MemoryStats {
        allocated,
        live,
        eager_free,
        ..
    } = device.memory_stats().unwrap();
    (allocated, live, eager_free)
}

/// Makes a call of a program fail, and looks at what is left. The number of faults that were seen.
fn strike(
    backend: &Backend,
    rules: &str,
    (name, program, mode): (&str, Program, Mode),
    clean: &[u32],
) -> Seen {
    let device = open(backend, rules);
    let cx = Context::on(device.clone());
    cx.set_mode(mode);
    let first = program(&cx);
    let seen = match &first {
        Ok(bits) => {
            assert_eq!(bits, clean, "{name} under {rules}");
            Seen::Nothing
        }
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.contains("made to fail by the layer fault"),
                "{name} under {rules}: {text}"
            );
            assert!(
                !text.contains("work: made to fail"),
                "{name} under {rules} names no op: {text}"
            );
            let kind = KINDS
                .iter()
                .find(|(kind, _)| text.contains(&format!("({kind}@")))
                .unwrap();
            assert_eq!(error.status(), Some(kind.1), "{name} under {rules}: {text}");
            Seen::Error
        }
    };
    drop(first);
    // Nothing fails from here on.
    drop(open(backend, ""));
    // Errors that stuck while the first one was on its way are told once.
    let _ = device.synchronize();
    assert_eq!(program(&cx).unwrap(), clean, "{name} again, after {rules}");
    drop(cx);
    device.synchronize().unwrap();
    assert_eq!(rest(&device), (0, 0, 0), "{name} after {rules}");
    seen
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Error,
}

/// Every call of every kind fails once, alone and with those that follow. The number of errors.
fn sweep(runtime: &Runtime, step: usize) -> usize {
    let backend = runtime.backend("cpu").unwrap();
    let mut errors = 0;
    for program in PROGRAMS {
        let cx = Context::on(open(&backend, ""));
        cx.set_mode(program.2);
        let clean = program.1(&cx).unwrap();
        for (kind, _) in KINDS {
            for burst in [1, 3] {
                let (mut quiet, mut number) = (0, 1);
                while quiet < QUIET {
                    let mut rules = String::new();
                    for at in number..number + burst {
                        write!(rules, "{kind}@{at},").unwrap();
                    }
                    let seen = strike(&backend, &rules, program, &clean);
                    errors += usize::from(seen == Seen::Error);
                    quiet = if seen == Seen::Error { 0 } else { quiet + 1 };
                    number += step as u64;
                }
            }
        }
    }
    errors
}

#[test]
fn some_calls_fail() {
    let errors = sweep(&runtime(&["fault"]), 3);
    assert!(errors >= 20, "{errors} errors");
    tried(errors);
}

/// Loops over programs while a seed picks calls to fail, until there were so many errors.
fn storm(wanted: usize, seed: u64) -> usize {
    let runtime = runtime(&["fault"]);
    let backend = runtime.backend("cpu").unwrap();
    let clean: Vec<Vec<u32>> = PROGRAMS
        .iter()
        .map(|(_, program, _)| program(&Context::on(open(&backend, ""))).unwrap())
        .collect();
    let device = open(
        &backend,
        &format!("seed={seed},every=12,kinds=alloc+submit+later+compile"),
    );
    let mut errors = 0;
    while errors < wanted {
        // A new context has no compiled programs, so that compiling fails again and again.
        let cx = Context::on(device.clone());
        for ((name, program, mode), clean) in PROGRAMS.iter().zip(&clean) {
            cx.set_mode(*mode);
            match program(&cx) {
                Ok(bits) => assert_eq!(&bits, clean, "{name} of seed {seed}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("made to fail by the layer fault"), "{text}");
                    assert!(!text.contains("work: made to fail"), "{text}");
                    errors += 1;
                }
            }
            // What stuck beside the first error is told here, once.
            while let Err(error) = device.synchronize() {
                assert!(
                    error.to_string().contains("made to fail by the layer fault"),
                    "{error}"
                );
            }
        }
        drop(cx);
        assert_eq!(rest(&device), (0, 0, 0), "after {errors} errors of seed {seed}");
    }
    errors
}

#[test]
fn a_storm_of_faults_leaves_nothing_behind() {
    let errors = storm(300, 11);
    assert!(errors >= 300);
    tried(errors);
}

#[test]
fn ten_thousand_faults() {
    let swept = sweep(&runtime(&["fault"]), 1);
    let stormed: usize = [1, 2, 3].into_iter().map(|seed| storm(4000, seed)).sum();
    println!("{swept} errors of a sweep, {stormed} of storms");
    assert!(swept + stormed >= 10_000);
    tried(swept + stormed);
}

/// What a failed read was to be written to goes as soon as the stream is idle.
#[test]
fn failed_reads_leave_no_memory_behind() {
    const READS: u64 = 300;
    let runtime = runtime(&["fault"]);
    let backend = runtime.backend("cpu").unwrap();
    let device = open(&backend, "");
    let stream = device.create_stream().unwrap();
    let buffer = Buffer::from_slice(&stream, &vec![7_u8; 1 << 20]).unwrap();
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
    };
    let _failing = open(&backend, "seed=1,every=1,kinds=later");
    let before = resident();
    for _ in 0..READS {
        let error = buffer.download::<u8>(&stream).unwrap_err();
        assert_eq!(error.status(), Status::LaunchFailed, "{error}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < READS / 3, "{grown} MiB");
    drop(open(&backend, ""));
    assert_eq!(buffer.download::<u8>(&stream).unwrap().len(), 1 << 20);
}

#[test]
fn a_lost_device_says_so_until_it_is_closed() {
    let runtime = runtime(&["fault"]);
    let backend = runtime.backend("cpu").unwrap();
    let device = open(&backend, "lost@4");
    let cx = Context::on(device.clone());
    let error = (0..8).find_map(|_| eager(&cx).err()).unwrap();
    assert_eq!(error.status(), Some(Status::DeviceLost), "{error}");
    for _ in 0..3 {
        let error = eager(&cx).unwrap_err();
        assert_eq!(error.status(), Some(Status::DeviceLost), "{error}");
    }
    assert_eq!(device.synchronize().unwrap_err().status(), Status::DeviceLost);
    drop((cx, device));
    let cx = Context::on(open(&backend, ""));
    assert!(eager(&cx).is_ok());
}

#[test]
fn what_comes_late_changes_no_bit() {
    let runtime = runtime(&["fault"]);
    let backend = runtime.backend("cpu").unwrap();
    let clean = eager(&Context::on(open(&backend, ""))).unwrap();
    for rules in ["slow@1,slow@2", "event@1,event@2"] {
        let begun = std::time::Instant::now();
        let device = open(&backend, rules);
        let cx = Context::on(device.clone());
        assert_eq!(eager(&cx).unwrap(), clean, "{rules}");
        if rules.starts_with("slow") {
            assert!(begun.elapsed().as_millis() >= 100, "{rules}");
        }
    }
}

#[test]
fn figures_near_their_end_do_not_panic() {
    let runtime = runtime(&["fault"]);
    let backend = runtime.backend("cpu").unwrap();
    let device = open(&backend, "statistics@1,statistics@2,statistics@3");
    assert_eq!(device.memory_stats().unwrap().frees, u64::MAX - 1);
    assert!(device.memory_summary().unwrap().contains("Memory summary"));
    assert!(device.memory_stats().unwrap().allocations > 0);
    assert_eq!(device.memory_stats().unwrap().live, 0);
}

#[test]
fn a_callback_that_fails_sticks_to_its_stream_once() {
    let runtime = runtime(&["fault"]);
    let backend = runtime.backend("cpu").unwrap();
    let device = open(&backend, "callback@1");
    let stream = device.create_stream().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    stream.callback(move || tell.send(()).unwrap()).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert_eq!(error.status(), Status::LaunchFailed);
    assert!(
        error
            .to_string()
            .contains("callback: made to fail by the layer fault (callback@1)"),
        "{error}"
    );
    told.recv().unwrap();
    stream.synchronize().unwrap();
}
