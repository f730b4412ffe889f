//! Random words.

use crate::check_eq;
use crate::kit::{Case, Check};
use crate::rig::run::{Argument, Job};
use crate::rig::values::{Random, from_bytes};
use crate::rig::{Device, Subject};
use thalweg_hal::DType;
use thalweg_hal::interpreter::scalar::random_word;
use thalweg_hal::ir::{Access, Kernel, Level, Node, Role};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("kernels", "rand.known_answer", known_answer),
        Case::new("kernels", "rand.any_key_and_counter", any),
        Case::new("kernels", "rand.consecutive", consecutive),
    ]
}

fn kernel() -> Kernel {
    let mut kernel = Kernel::new("rand", 1, 0);
    let keys = kernel.param(DType::U64, Role::In, Level::Row, Access::Contiguous);
    let counters = kernel.param(DType::U64, Role::In, Level::Row, Access::Contiguous);
    let output = kernel.param(DType::U32, Role::Out, Level::Row, Access::Contiguous);
    let (key, counter) = (kernel.load(keys), kernel.load(counters));
    let word = kernel.push(Node::Rand { key, counter });
    kernel.store(output, word);
    kernel
}

fn words(subject: &Subject, keys: &[u64], counters: &[u64]) -> Result<Vec<u64>, crate::kit::Stop> {
    let job = Job {
        kernel: kernel(),
        extents: vec![keys.len() as u64],
        arguments: vec![
            Argument::of(DType::U64, keys),
            Argument::of(DType::U64, counters),
            Argument::room(DType::U32, keys.len()),
        ],
        scalars: Vec::new(),
    };
    let found = job.run(&Device::open(subject)?)?;
    Ok(from_bytes(DType::U32, &found[2]))
}

fn known_answer(subject: &Subject) -> Check {
    let found = words(subject, &[0; 4], &[0, 1, 2, 3])?;
    check_eq!(
        found,
        vec![0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        "the first four words for the key 0"
    );
    Ok(())
}

fn any(subject: &Subject) -> Check {
    let mut random = Random::new(77);
    let mut keys: Vec<u64> = (0..500).map(|_| random.bits()).collect();
    let mut counters: Vec<u64> = (0..500).map(|i| random.bits() >> (i % 64)).collect();
    keys.extend([u64::MAX; 8]);
    counters.extend((0..8).map(|i| u64::MAX - i));
    for ((found, key), counter) in words(subject, &keys, &counters)?
        .into_iter()
        .zip(keys)
        .zip(counters)
    {
        check_eq!(
            found,
            u64::from(random_word(key, counter)),
            "the word {counter:#x} for the key {key:#x}"
        );
    }
    Ok(())
}

/// Counters that are an axis' index, as initialisers and dropout use them.
fn consecutive(subject: &Subject) -> Check {
    const COUNT: usize = 3001;
    let mut kernel = Kernel::new("rand", 1, 0);
    let output = kernel.param(DType::U32, Role::Out, Level::Row, Access::Contiguous);
    let key = kernel.scalar(DType::U64);
    let base = kernel.scalar(DType::U64);
    let index = kernel.push(Node::Index { axis: 0 });
    let index = kernel.cast(DType::U64, index);
    let counter = kernel.op(thalweg_hal::ir::ScalarOp::Add, &[base, index]);
    let word = kernel.push(Node::Rand { key, counter });
    kernel.store(output, word);
    for base in [0, 1, 6, (1 << 34) - 1500] {
        let job = Job {
            kernel: kernel.clone(),
            extents: vec![COUNT as u64],
            arguments: vec![Argument::room(DType::U32, COUNT)],
            scalars: vec![0x1234_5678_9abc_def0, base],
        };
        let found = job.run(&Device::open(subject)?)?;
        for (i, word) in (base..).zip(from_bytes(DType::U32, &found[0])) {
            check_eq!(
                word,
                u64::from(random_word(0x1234_5678_9abc_def0, i)),
                "the word {i}"
            );
        }
    }
    Ok(())
}
