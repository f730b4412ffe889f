//! The CPU at each instruction set that this machine has, with other numbers of threads: the stored values, and the same bits at all of
//! them.

use crate::case::Case;
use crate::judge::{Subject, judge};
use crate::{FLOATS, plugins};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use thalweg::hal::{DeviceOptions, Runtime, Status};
use thalweg::host::set_config;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg::ops::ConvOptions;
use thalweg::parallel::Pool;
use thalweg::{Context, DType, Device, Mode, Tensor, grad};

/// Instruction sets, the least first, each with a number of threads that cuts work in another way.
pub(crate) const ISAS: [(&str, usize); 3] = [("baseline", 1), ("avx2", 2), ("avx512", 61)];

/// The CPU at an instruction set, with a word for `cpu.amx_bf16`.
fn opened(isa: &str, amx_bf16: &str) -> thalweg::hal::Result<Device> {
    // Settings are the process's, and read when a device is opened.
    static SETTINGS: Mutex<()> = Mutex::new(());
    let _alone = SETTINGS.lock();
    let settings = [("cpu.isa", isa), ("cpu.amx_bf16", amx_bf16)];
    settings
        .iter()
        .for_each(|(key, value)| set_config(key, Some(value)));
    let runtime = Runtime::new(Registry::new(LoaderOptions::default()));
    let opened = runtime.backend("cpu").unwrap().open(&DeviceOptions::new(0));
    settings.iter().for_each(|(key, _)| set_config(key, None));
    opened
}

/// The CPU at an instruction set, if this machine has it.
pub(crate) fn device(isa: &str) -> Option<Device> {
    match opened(isa, "auto") {
        Ok(device) => Some(device),
        Err(error) if error.status() == Status::Unsupported => {
            let text = error.to_string();
            assert!(
                text.contains("this processor lacks") && text.contains("baseline"),
                "{text}"
            );
            plugins::skip::skip("machine", text);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn subject(isa: &str) -> Option<Subject> {
    let device = device(isa)?;
    let subject = Subject {
        eager: Context::on(device.clone()),
        recorded: Context::on(device),
        gradients: true,
        takes: |_, _| true,
        nans: true,
    };
    subject.recorded.set_mode(Mode::Graph);
    Some(subject)
}

/// The bits of an element, with one pattern for all NaNs: which operand's sign a NaN has is the processor's choice, not the IR's.
fn one_nan(bits: u64, float: DType) -> u64 {
    // Bits of an element, and of its mantissa.
    let (width, mantissa) = match float {
        DType::F64 => (64, 52),
        DType::F32 => (32, 23),
        DType::BF16 => (16, 7),
        _ => (16, 10),
    };
    let infinity = (1_u64 << (width - 1)) - (1 << mantissa);
    let magnitude = bits & ((1 << (width - 1)) - 1);
    let fits = width == 64 || bits >> width == 0;
    if fits && magnitude > infinity {
        infinity + 1
    } else {
        bits
    }
}

/// Runs the cases of a file at each instruction set: results are those that are stored, and the bits of results and gradients are
/// the same, NaN for NaN.
#[track_caller]
pub(crate) fn on_each(file: &str) {
    let subjects: Vec<_> = (ISAS.iter())
        .filter_map(|&(isa, threads)| Some((isa, threads, subject(isa)?)))
        .collect();
    let mut failures = Vec::new();
    let mut whole = vec![DefaultHasher::new(); subjects.len()];
    for (at, case) in Case::read(file).iter().enumerate() {
        for dtype in FLOATS.into_iter().filter(|&dtype| case.is_for(dtype)) {
            let mut found: Vec<(&str, Vec<Vec<u64>>)> = Vec::new();
            for ((isa, threads, subject), whole) in subjects.iter().zip(&mut whole) {
                Pool::global().set_threads(*threads);
                match judge(case, dtype, subject) {
                    Ok(mut bits) => {
                        bits.iter_mut()
                            .flatten()
                            .for_each(|bits| *bits = one_nan(*bits, dtype));
                        bits.hash(whole);
                        found.push((isa, bits));
                    }
                    Err(failure) => failures.push(format!(
                        "case {at}, {dtype}, {isa}: {}\n    {failure}",
                        case.header
                    )),
                }
            }
            for pair in found.windows(2).filter(|pair| pair[0].1 != pair[1].1) {
                let [(one, bits), (two, others)] = pair else {
                    continue;
                };
                let each = bits.iter().flatten().zip(others.iter().flatten()).enumerate();
                let first = each.clone().find(|(_, (a, b))| a != b);
                failures.push(format!(
                    "case {at}, {dtype}: {one} and {two} differ, first at {first:x?}: {}",
                    case.header
                ));
            }
        }
    }
    let whole: Vec<u64> = whole.into_iter().map(|hasher| hasher.finish()).collect();
    let isas: Vec<_> = subjects.iter().map(|(isa, ..)| *isa).collect();
    assert!(isas.contains(&"baseline"), "{isas:?}");
    assert!(
        failures.is_empty() && whole.iter().all(|&hash| hash == whole[0]),
        "{file}, {isas:?}: {whole:x?}, {} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// A product of bf16 with three hundred terms.
fn product(device: Device, mode: Mode) -> Vec<f32> {
    let cx = Context::on(device);
    cx.set_mode(mode);
    let numbers = |n: usize| {
        (0..n)
            .map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0)
            .collect::<Vec<_>>()
    };
    let of =
        |shape: [usize; 2]| Tensor::from_slice(&numbers(shape[0] * shape[1]), shape, &cx).cast(DType::BF16);
    let found = of([40, 300]).matmul(&of([300, 70]));
    found.cast(DType::F32).to_vec().unwrap()
}

fn uses_amx(device: &Device) -> bool {
    device.properties().arch.contains(" amx_bf16")
}

/// Bits are those of a model in the backend's own tests; here the setting is obeyed, or refused by name.
#[test]
fn amx_for_bf16_is_in_use_or_an_error() {
    let refused = |error: &thalweg::hal::Error| {
        let text = error.to_string();
        assert_eq!(error.status(), Status::Unsupported, "{text}");
        text
    };
    let text = refused(&opened("baseline", "on").unwrap_err());
    assert!(
        text.contains("cpu.amx_bf16 is on") && text.contains("baseline"),
        "{text}"
    );
    match opened("avx512", "on") {
        Ok(device) => {
            assert!(uses_amx(&device));
            let plain = product(opened("baseline", "off").unwrap(), Mode::Eager);
            let found = product(device, Mode::Eager);
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 0.01 * b.abs() + 0.05;
            assert!(found.iter().zip(&plain).all(near));
            assert_ne!(found, plain);
        }
        Err(error) => plugins::skip::skip("machine", refused(&error)),
    }
}

/// By default products of bf16 use AMX where it is, in both modes. A named instruction set, and `off`, have the bits of all machines.
#[test]
fn bits_of_bf16_are_those_of_amx_or_of_a_named_set() {
    let plain = product(opened("baseline", "auto").unwrap(), Mode::Eager);
    let named = ISAS.map(|(isa, _)| (isa, "auto"));
    for (isa, word) in named.into_iter().chain([("best", "off")]) {
        let Ok(device) = opened(isa, word) else { continue };
        assert!(!uses_amx(&device), "{isa} {word}");
        for mode in [Mode::Eager, Mode::Graph] {
            assert!(product(device.clone(), mode) == plain, "{isa} {word} {mode:?}");
        }
    }
    let by_amx = opened("best", "on").ok();
    let device = opened("best", "auto").unwrap();
    assert_eq!(uses_amx(&device), by_amx.is_some());
    let expected = by_amx.map_or(plain, |device| product(device, Mode::Eager));
    for mode in [Mode::Eager, Mode::Graph] {
        assert!(product(device.clone(), mode) == expected, "{mode:?}");
    }
}

/// Convolutions of bf16 take channels in pairs, and so do their gradients by the input: odd channels, strides, groups.
#[test]
fn gradients_of_bf16_convolutions_have_the_same_bits() {
    let numbers = |shape: &[usize], step: f64, cx: &Context| {
        let count = shape.iter().product::<usize>() as i64;
        let numbers = Tensor::arange(0, count, 1, cx).cast(DType::F32) * step;
        numbers.sin().reshape(shape).cast(DType::BF16)
    };
    for (channels, rows, size, taps, stride, groups) in
        [(19, 7, 13, 3, 1, 1), (32, 33, 14, 3, 2, 1), (10, 6, 15, 5, 3, 2)]
    {
        let mut found: Vec<(&str, Vec<u32>)> = Vec::new();
        for (isa, _) in ISAS {
            let Some(cx) = device(isa).map(Context::on) else {
                continue;
            };
            let options = ConvOptions::new().padding(taps / 2).stride(stride).groups(groups);
            let x = numbers(&[2, channels, size, size], 0.71, &cx);
            let w = numbers(&[rows, channels / groups, taps, taps], 0.37, &cx);
            let slope = |dtype: DType| {
                let w = w.cast(dtype);
                let loss = |x: &Tensor| {
                    x.cast(dtype)
                        .conv2d(&w, None, options)
                        .cast(DType::F32)
                        .square()
                        .sum()
                };
                grad(loss).call(&x).cast(DType::F32)
            };
            let (pairs, exact) = (slope(DType::BF16), slope(DType::F32));
            let largest = |x: &Tensor| x.abs().max().item::<f32>().unwrap();
            let error = largest(&(&pairs - &exact)) / largest(&exact);
            assert!(error < 1.0 / 64.0, "{isa}: {error}");
            found.push((
                isa,
                pairs
                    .to_vec::<f32>()
                    .unwrap()
                    .into_iter()
                    .map(f32::to_bits)
                    .collect(),
            ));
        }
        for pair in found.windows(2) {
            assert!(
                pair[0].1 == pair[1].1,
                "{} and {} differ: {rows} of {channels}",
                pair[0].0,
                pair[1].0
            );
        }
    }
}
