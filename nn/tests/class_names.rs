//! `reserve_class_name_in_scope` is the process's, so its test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use thalweg::observe::recording::{Place, Reader, Record};
use thalweg::observe::{self, Profile, parts};
use thalweg::{Context, DType, Mode, Tensor, jit};
use thalweg_nn::{Dense, Layer, Module, Relu, Sequential, Visitor};

#[derive(Clone, Module)]
struct Head {
    dense: Dense,
}

#[derive(Clone, Module)]
struct Net {
    first: Dense,
    body: Sequential,
    heads: Vec<Head>,
}

impl Layer for Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.body.forward(&self.first.forward(x).tanh());
        self.heads[1].dense.forward(&x)
    }
}

/// Names of calls, on the host and in programs.
fn names(folder: &Path) -> BTreeSet<String> {
    let file = std::fs::File::open(folder.join("rank_0/recording.tw")).unwrap();
    let (mut texts, mut places) = (BTreeMap::new(), BTreeMap::<u32, Place>::new());
    let mut calls = Vec::new();
    for record in Reader::new(std::io::BufReader::new(file)).unwrap() {
        match record {
            Record::Text { id, text } => drop(texts.insert(id, text)),
            Record::Place(place) => drop(places.insert(place.id, place)),
            Record::Op(op) => calls.push((op.place, op.call)),
            Record::Program(program) => {
                let parts = program.nodes.iter().flat_map(|node| &node.parts);
                calls.extend(parts.map(|part| (part.place, part.call)));
            }
            Record::Start(_)
            | Record::Thread { .. }
            | Record::Device(_)
            | Record::Stream { .. }
            | Record::Run(_)
            | Record::Command(_)
            | Record::Memory(_)
            | Record::Span(_)
            | Record::Mark { .. }
            | Record::Counter { .. }
            | Record::Failure { .. }
            | Record::Lost { .. }
            | Record::End { .. } => {}
        }
    }
    let name = |(place, call): (u32, u32)| {
        let place = places.get(&place)?;
        Some(format!(
            "{}/{}-op{call}",
            texts.get(&place.scope)?,
            texts.get(&place.op)?
        ))
    };
    calls.into_iter().filter_map(name).collect()
}

const WANTED: [&str; 5] = [
    "Default/first-Dense/linear-op1",
    "Default/tanh-op2",
    "Default/body-Sequential/layers/0-Dense/linear-op3",
    "Default/body-Sequential/layers/1-Relu/relu-op4",
    "Default/heads/1-Head/dense-Dense/linear-op5",
];

#[test]
fn names_of_parts_end_with_their_types_in_every_mode() {
    let context = |mode, reserve| {
        let builder = Context::builder().device_target("cpu").mode(mode);
        builder.reserve_class_name_in_scope(reserve).build().unwrap()
    };
    for mode in [Mode::Eager, Mode::Graph] {
        let cx = context(mode, true);
        let dense = || Dense::new(4, 4, &cx).unwrap();
        let net = Net {
            first: dense(),
            body: Sequential::new().then(dense()).then(Relu),
            heads: vec![Head { dense: dense() }, Head { dense: dense() }],
        };
        let x = Tensor::ones([2, 4], DType::F32, &cx);
        let folder = tempfile::tempdir().unwrap();
        let profile = Profile::to(folder.path()).start(&cx).unwrap();
        observe::restart_calls();
        let noted = || net.visit(&mut Visitor::new(&mut |_, _| {}));
        parts::with(noted, || net.forward(&x)).to_vec::<f32>().unwrap();
        profile.finish().unwrap();
        let told = names(folder.path());
        for wanted in WANTED {
            assert!(told.contains(wanted), "{mode:?}: {wanted} is not in {told:#?}");
        }
        let traced = || {
            let graph = jit(|net: &Net, x: &Tensor| net.forward(x))
                .graph((&net, &x))
                .unwrap();
            let names = graph.nodes().iter().map(|node| node.tag.name());
            names.collect::<BTreeSet<String>>()
        };
        let compiled = traced();
        for wanted in WANTED {
            assert!(
                compiled.contains(wanted),
                "{mode:?}: {wanted} is not in {compiled:#?}"
            );
        }
        context(mode, false);
        let plain = traced();
        assert!(plain.contains("Default/body/layers/1/relu-op4"), "{plain:#?}");
        assert!(!plain.iter().any(|name| name.contains("-Dense")), "{plain:#?}");
    }
}
