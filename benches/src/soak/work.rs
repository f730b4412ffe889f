//! Kinds of work. Each draws what it does from a seed, and gives values that are the same in every turn.

use crate::Result;
use crate::program::{Dice, Program};
use crate::rig::{Rig, check, consistent, out_of_memory};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg::hal::{Status, Stream};
use thalweg::{Context, DType, Mode, Tensor};
use thalweg_nn::data::Column;
use thalweg_nn::optim::{Adam, Clip};
use thalweg_nn::{Dense, Dropout, Model, Relu, Sequential, Trained, loss};

/// A kind of work: what it runs on, the seed, a folder of its own.
pub(crate) type Work = fn(&Rig<'_>, &mut Dice, &Path) -> Result<Vec<u8>>;

pub(crate) const NAMES: [&str; 6] = ["programs", "training", "streams", "threads", "pressure", "loss"];

/// Every kind with its name.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Work)> {
    let works: [Work; 6] = [programs, training, streams, threads, pressure, device_lost];
    NAMES.into_iter().zip(works)
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn same(what: &str, found: &[f64], expected: &[f64], of: &Program) -> Result<()> {
    check(bytes(found) == bytes(expected), || {
        format!("{what} gave other bits: {of:?}")
    })
}

/// The same program eager, recorded and compiled.
fn programs(rig: &Rig<'_>, dice: &mut Dice, _: &Path) -> Result<Vec<u8>> {
    let program = Program::new(dice);
    let eager = rig.persist(|| program.result(&rig.context(Mode::Eager), DType::F32))?;
    let recorded = rig.persist(|| program.result(&rig.context(Mode::Graph), DType::F32))?;
    let compiled = rig.persist(|| program.compiled(&rig.context(Mode::Eager), DType::F32))?;
    same("the recorded program", &recorded, &eager, &program)?;
    same("the compiled program", &compiled, &eager, &program)?;
    rig.count(|tally| {
        tally.programs += 3;
        tally.ops += 3 * program.ops();
    });
    Ok(bytes(&eager))
}

/// Lines of a program on three streams in turn, events and callbacks between them.
fn streams(rig: &Rig<'_>, dice: &mut Dice, _: &Path) -> Result<Vec<u8>> {
    let program = Program::new(dice);
    let cx = rig.context(Mode::Eager);
    let alone = program.result(&cx, DType::F32)?;
    let streams = [(); 3].map(|()| Stream::new(&rig.device));
    let streams: Vec<Stream> = streams.into_iter().collect::<Result<_, _>>()?;
    let result = rig.persist(|| program.result_on(&cx, DType::F32, &streams))?;
    same("the program on three streams", &result, &alone, &program)?;
    let called = Arc::new(AtomicU64::new(0));
    for (at, stream) in streams.iter().enumerate() {
        let (called, before) = (Arc::clone(&called), at as u64);
        stream.callback(move || {
            // A stream waits for the one before it, so the numbers come in order.
            let _ = called.compare_exchange(before, before + 1, Ordering::SeqCst, Ordering::SeqCst);
        })?;
        if let Some(next) = streams.get(at + 1) {
            next.wait_stream(stream)?;
        }
    }
    streams[streams.len() - 1].synchronize()?;
    let called = called.load(Ordering::SeqCst);
    check(called == 3, || {
        format!("{called} of 3 callbacks were called in order")
    })?;
    rig.count(|tally| {
        tally.programs += 2;
        tally.ops += 2 * program.ops();
    });
    Ok(bytes(&result))
}

/// A program on each of four threads at once, which share a context.
fn threads(rig: &Rig<'_>, dice: &mut Dice, _: &Path) -> Result<Vec<u8>> {
    let all: Vec<Program> = (0..4).map(|_| Program::new(dice)).collect();
    let cx = rig.context(Mode::Eager);
    let alone: Vec<Vec<f64>> = all
        .iter()
        .map(|program| program.result(&cx, DType::F32))
        .collect::<Result<_>>()?;
    let at_once = rig.persist(|| {
        std::thread::scope(|scope| {
            let started: Vec<_> = all
                .iter()
                .map(|program| scope.spawn(|| program.result(&cx, DType::F32)))
                .collect();
            let joined = started.into_iter().map(|thread| {
                let ended = thread.join();
                ended.unwrap_or_else(|_| Err("a thread panicked".into()))
            });
            // All of them end before the first error is told.
            joined.collect::<Vec<_>>().into_iter().collect::<Result<Vec<_>>>()
        })
    })?;
    for ((program, found), expected) in all.iter().zip(&at_once).zip(&alone) {
        same("the program beside others", found, expected, program)?;
    }
    rig.count(|tally| {
        tally.programs += 8;
        tally.ops += 2 * all.iter().map(Program::ops).sum::<u64>();
    });
    Ok(at_once.iter().flat_map(|values| bytes(values)).collect())
}

const STEPS: usize = 3;
/// How often a step is tried while calls fail, before it is done without faults.
const TRIES: usize = 3;

fn model(cx: &Context) -> Result<Model<Sequential>> {
    let net = Sequential::new()
        .then(Dense::new(6, 16, cx)?)
        .then(Relu)
        .then(Dropout::new(0.1, cx))
        .then(Dense::new(16, 2, cx)?);
    Ok(Model::new(net, loss::mse, Adam::new(0.01), cx).clip(Clip::Norm(5.0)))
}

/// Names and bytes of all parameters and states.
fn weights(model: &Model<Sequential>) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for (name, tensor) in model.named() {
        all.extend(name.into_bytes());
        all.extend(Column::of(&tensor)?.to_le_bytes());
    }
    Ok(all)
}

/// Steps, each made to fail first; then the model is saved, trained on, and loaded.
fn training(rig: &Rig<'_>, dice: &mut Dice, folder: &Path) -> Result<Vec<u8>> {
    let mode = [Mode::Eager, Mode::Graph][dice.below(2)];
    let cx = rig.context(mode);
    cx.set_seed(u64::from(dice.seed()));
    let mut draw = |count: usize| -> Vec<f32> {
        (0..count)
            .map(|_| dice.below(2001) as f32 / 1000.0 - 1.0)
            .collect()
    };
    let x = Tensor::from_vec(draw(8 * 6), [8, 6], &cx);
    let y = Tensor::from_vec(draw(8 * 2), [8, 2], &cx);
    let mut model = model(&cx)?;
    for _ in 0..STEPS {
        step(rig, &mut model, &x, &y, folder)?;
    }
    let path = folder.join("model.safetensors");
    model.save(&path)?;
    let (kept, file) = (weights(&model)?, std::fs::read(&path)?);
    step(rig, &mut model, &x, &y, folder)?;
    let after = weights(&model)?;
    let saved = rig.attempt(|| Ok(model.save(&path)?))?.is_some();
    check(saved || std::fs::read(&path)? == file, || {
        "a save that failed changed the file".into()
    })?;
    model.load(&path)?;
    let loaded = weights(&model)?;
    check(loaded == if saved { &after } else { &kept }[..], || {
        format!("a model that was loaded differs from the one that was saved (saved: {saved})")
    })?;
    let files = std::fs::read_dir(folder)?.count();
    check(files == 1, || format!("{files} files are left of one"))?;
    rig.count(|tally| tally.saves += 2);
    Ok(after)
}

/// A training step. One that fails leaves the weights as they were, and one that fails later leaves an error in their place, until what
/// was saved is loaded.
fn step(rig: &Rig<'_>, model: &mut Model<Sequential>, x: &Tensor, y: &Tensor, folder: &Path) -> Result<()> {
    rig.count(|tally| tally.steps += 1);
    if rig.injects() {
        let path = folder.join("before.safetensors");
        model.save(&path)?;
        let before = weights(model)?;
        let unchanged =
            |now: Vec<u8>| check(now == before, || "a step that failed changed the weights".into());
        let mut stepped = false;
        for _ in 0..TRIES {
            stepped = rig.attempt(|| Ok(model.train_step(x, y)?))?.is_some();
            match weights(model) {
                Ok(_) if stepped => break,
                Ok(now) => unchanged(now)?,
                Err(error) => {
                    rig.injected(&error.to_string())?;
                    stepped = false;
                    model.load(&path)?;
                    unchanged(weights(model)?)?;
                }
            }
        }
        std::fs::remove_file(&path)?;
        if stepped {
            return Ok(());
        }
    }
    model.train_step(x, y)?;
    Ok(())
}

/// Memory is taken until a limit refuses it.
fn pressure(rig: &Rig<'_>, dice: &mut Dice, _: &Path) -> Result<Vec<u8>> {
    let cx = rig.context(Mode::Eager);
    let limit = (4 + dice.below(12) as u64) << 20;
    rig.device.empty_cache()?;
    rig.device.set_memory_limit(limit)?;
    let (mut kept, mut taken) = (Vec::new(), 0);
    let refused = loop {
        let length = 1 + dice.below(1 << 18);
        let tensor = Tensor::zeros(length, DType::F32, &cx);
        match tensor.shape() {
            Ok(_) => kept.push(tensor),
            Err(error) => break error,
        }
        taken += 4 * length as u64;
        check(taken <= limit, || {
            format!("{taken} bytes were given under a limit of {limit}")
        })?;
    };
    check(out_of_memory(&refused), || {
        format!("a limit is told as: {refused}")
    })?;
    rig.device.synchronize()?;
    let stats = rig.device.memory_stats()?;
    consistent(&stats)?;
    let buffers = kept.len() as u64;
    check(
        stats.live == buffers && stats.allocated >= taken && stats.reserved <= limit,
        || format!("{buffers} buffers of {taken} bytes under a limit of {limit}: {stats:?}"),
    )?;
    drop(kept);
    rig.device.set_memory_limit(0)?;
    rig.count(|tally| {
        tally.refused += 1;
        tally.ops += buffers;
    });
    let program = Program::new(dice);
    let result = program.result(&cx, DType::F32)?;
    rig.count(|tally| {
        tally.programs += 1;
        tally.ops += program.ops();
    });
    Ok(bytes(&result))
}

/// A device that is lost says so until it is closed; a new one does the work.
fn device_lost(rig: &Rig<'_>, dice: &mut Dice, _: &Path) -> Result<Vec<u8>> {
    let program = Program::new(dice);
    let number = 1 + dice.below(program.ops() as usize);
    let result = program.result(&rig.context(Mode::Eager), DType::F32)?;
    if !rig.injects() {
        return Ok(bytes(&result));
    }
    let device = rig.set_faults(&format!("lost@{number}"))?;
    let cx = Context::on(device.clone());
    let lost = |error: thalweg::Error| {
        let status = error.status();
        check(status == Some(Status::DeviceLost), || {
            format!("a lost device is told as: {error}")
        })
    };
    for _ in 0..3 {
        match program.result(&cx, DType::F32) {
            Ok(found) => same("the program before the loss", &found, &result, &program)?,
            Err(error) => lost(*error.downcast::<thalweg::Error>()?)?,
        }
    }
    drop(cx);
    match device.synchronize() {
        Ok(()) => check(false, || format!("lost@{number} was not told: {program:?}"))?,
        Err(error) => lost(error.into())?,
    }
    drop(device);
    drop(rig.set_faults("")?);
    rig.count(|tally| tally.faults += 1);
    Ok(bytes(&result))
}
