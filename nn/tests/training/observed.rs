//! What a profile of a training says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use thalweg::observe::recording::{Place, Reader, Record, Span, SpanKind};
use thalweg::observe::{self, Profile};
use thalweg::ops::{ConvOptions, PoolOptions};
use thalweg::{Context, Mode, Tensor, jit};
use thalweg_nn::data::{Loader, Rows, Samples};
use thalweg_nn::optim::Adam;
use thalweg_nn::{Conv2d, Dense, Flatten, Layer, MaxPool2d, Model, Module, Relu, Sequential, Trained, loss};

/// A network as its users write it: nothing in it says a name.
#[derive(Clone, Module)]
struct Net {
    first: Conv2d,
    body: Sequential,
    heads: Vec<Dense>,
}

impl Layer for Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.body.forward(&self.first.forward(x).relu());
        self.heads[1].forward(&self.heads[0].forward(&x).tanh())
    }
}

fn net(cx: &Context) -> Net {
    let pool = MaxPool2d {
        options: PoolOptions::new(2),
    };
    Net {
        first: Conv2d::new(1, 3, [3, 3], ConvOptions::new(), cx).unwrap(),
        body: Sequential::new()
            .then(Conv2d::new(3, 2, [3, 3], ConvOptions::new(), cx).unwrap())
            .then(Relu)
            .then(pool)
            .then(Relu)
            .then(Flatten),
        heads: vec![Dense::new(8, 5, cx).unwrap(), Dense::new(5, 2, cx).unwrap()],
    }
}

fn context(mode: Mode) -> Context {
    let cx = Context::new("cpu").unwrap();
    cx.set_seed(3);
    cx.set_mode(mode);
    cx
}

fn data() -> Loader {
    let x: Vec<f32> = (0..6 * 64).map(|at| (at as f32 * 0.37).sin()).collect();
    let y: Vec<f32> = (0..12).map(|at| at as f32 * 0.1).collect();
    let (x, y) = (Rows::new(x, &[1, 8, 8]).unwrap(), Rows::new(y, &[2]).unwrap());
    Loader::new(Samples::new(x, y).unwrap(), 2)
}

fn model(cx: &Context) -> Model<Net> {
    Model::new(net(cx), loss::mse, Adam::new(0.01), cx).validate(data())
}

/// What a file says.
#[derive(Default)]
struct Told {
    texts: BTreeMap<u32, String>,
    places: BTreeMap<u32, Place>,
    /// Names of calls on the host.
    called: BTreeSet<String>,
    /// Names of what programs computed.
    computed: BTreeSet<String>,
    spans: Vec<Span>,
    ended: bool,
}

impl Told {
    fn read(folder: &Path) -> Told {
        let file = std::fs::File::open(folder.join("rank_0/recording.tw")).unwrap();
        let mut told = Told::default();
        for record in Reader::new(std::io::BufReader::new(file)).unwrap() {
            match record {
                Record::Text { id, text } => drop(told.texts.insert(id, text)),
                Record::Place(place) => drop(told.places.insert(place.id, place)),
                Record::Op(op) => drop(told.called.insert(told.name(op.place, op.call))),
                Record::Program(program) => {
                    let parts = program.nodes.iter().flat_map(|node| &node.parts);
                    let names: Vec<String> = parts.map(|part| told.name(part.place, part.call)).collect();
                    told.computed.extend(names);
                }
                Record::Span(span) => told.spans.push(span),
                Record::Lost { count, .. } => panic!("{count} are lost"),
                Record::End { .. } => told.ended = true,
                Record::Start(_)
                | Record::Thread { .. }
                | Record::Device(_)
                | Record::Stream { .. }
                | Record::Run(_)
                | Record::Command(_)
                | Record::Memory(_)
                | Record::Mark { .. }
                | Record::Counter { .. } => {}
                Record::Failure { text, .. } => panic!("{}", told.texts[&text]),
            }
        }
        assert!(told.ended);
        told
    }

    /// The name of a call; empty for what no call is known of.
    fn name(&self, place: u32, call: u32) -> String {
        let Some(place) = self.places.get(&place) else {
            return String::new();
        };
        let text = |id: u32| self.texts.get(&id).map_or("", String::as_str);
        match call {
            0 => format!("{}/{}", text(place.scope), text(place.op)),
            call => format!("{}/{}-op{call}", text(place.scope), text(place.op)),
        }
    }

    fn spans(&self, kind: SpanKind) -> Vec<u64> {
        let mut spans: Vec<&Span> = self.spans.iter().filter(|span| span.kind == kind).collect();
        spans.sort_by_key(|span| span.start);
        spans.iter().map(|span| span.number).collect()
    }
}

/// A training of two epochs, profiled from its begin or after the first.
fn trained(mode: Mode, late: bool) -> (Told, BTreeMap<String, Vec<f32>>) {
    let cx = context(mode);
    let folder = tempfile::tempdir().unwrap();
    let mut model = model(&cx);
    if late {
        model.train(1, &data(), ()).unwrap();
    }
    let profile = Profile::to(folder.path()).memory(true).start(&cx).unwrap();
    if !late {
        model.train(1, &data(), ()).unwrap();
    }
    model.train(1, &data(), ()).unwrap();
    profile.finish().unwrap();
    let weights = model.named().into_iter();
    let weights = weights
        .map(|(path, value)| (path, value.to_vec::<f32>().unwrap()))
        .collect();
    (Told::read(folder.path()), weights)
}

const WANTED: [&str; 13] = [
    "Default/first/conv2d-op1",
    "Default/relu-op2",
    "Default/body/layers/0/conv2d-op3",
    "Default/body/layers/1/relu-op4",
    "Default/body/layers/2/max_pool2d-op5",
    "Default/heads/0/linear-op8",
    "Default/tanh-op9",
    "Default/heads/1/linear-op10",
    "Gradients/Default/first/conv2d-op1",
    "Gradients/Default/body/layers/0/conv2d-op3",
    "Gradients/Default/heads/0/linear-op8",
    "Gradients/Default/heads/1/linear-op10",
    "Gradients/Default/loss/mse_loss-op11",
];

#[test]
fn layers_name_themselves_and_names_are_the_same_in_both_modes() {
    let (eager, of_eager) = trained(Mode::Eager, false);
    let (graph, of_graph) = trained(Mode::Graph, false);
    let (late, of_late) = trained(Mode::Graph, true);
    // Watching changes no bit.
    assert_eq!(of_graph, of_late);
    assert_eq!(of_eager, of_graph);
    let unwatched = {
        let mut model = model(&context(Mode::Graph));
        model.train(2, &data(), ()).unwrap();
        let weights = model.named().into_iter();
        weights
            .map(|(path, value)| (path, value.to_vec::<f32>().unwrap()))
            .collect()
    };
    assert_eq!(of_graph, unwatched);
    for (mode, names) in [
        ("eager", &eager.called),
        ("graph", &graph.computed),
        ("late", &late.computed),
    ] {
        for wanted in WANTED {
            assert!(names.contains(wanted), "{mode}: {wanted} is not in {names:#?}");
        }
        for parameter in [
            "first/weight",
            "first/bias",
            "body/layers/0/weight",
            "heads/1/bias",
        ] {
            let scope = format!("Update/{parameter}/");
            assert!(
                names.iter().any(|name| name.starts_with(&scope)),
                "{mode}: {scope}: {names:#?}"
            );
        }
    }
    // What a compiled step computes, the eager one calls by the same names.
    let of_step = |names: &BTreeSet<String>| -> BTreeSet<String> {
        let counted = names.iter().filter(|name| name.contains("-op"));
        counted.cloned().collect()
    };
    let unknown: Vec<String> = of_step(&graph.computed)
        .difference(&eager.called)
        .cloned()
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?} are not in {:#?}", eager.called);
}

#[test]
fn phases_of_a_training_are_told() {
    for mode in [Mode::Eager, Mode::Graph] {
        let (told, _) = trained(mode, false);
        assert_eq!(told.spans(SpanKind::Epoch), [1, 2]);
        assert_eq!(told.spans(SpanKind::Step), [1, 2, 3, 4, 5, 6]);
        assert_eq!(told.spans(SpanKind::Data).len(), 6);
        assert_eq!(told.spans(SpanKind::Evaluation).len(), 2);
        let phases = [SpanKind::Forward, SpanKind::Backward, SpanKind::Update];
        for kind in phases {
            // A compiled step says by its scopes what is what.
            let wanted = if mode == Mode::Eager { 6 } else { 0 };
            assert_eq!(told.spans(kind).len(), wanted, "{mode:?} {kind:?}");
        }
        let steps: Vec<&Span> = told
            .spans
            .iter()
            .filter(|span| span.kind == SpanKind::Step)
            .collect();
        for span in told.spans.iter().filter(|span| phases.contains(&span.kind)) {
            let inside = |step: &&&Span| step.start <= span.start && span.end <= step.end;
            assert_eq!(steps.iter().filter(inside).count(), 1, "{span:?}");
        }
    }
}

#[test]
fn a_checkpoint_is_a_span() {
    let cx = context(Mode::Graph);
    let folder = tempfile::tempdir().unwrap();
    let model = model(&cx);
    let profile = Profile::to(folder.path()).start(&cx).unwrap();
    model.save(&folder.path().join("model.safetensors")).unwrap();
    drop(profile);
    assert_eq!(Told::read(folder.path()).spans(SpanKind::Checkpoint).len(), 1);
}

#[test]
fn a_module_in_a_function_of_its_users_names_itself() {
    let cx = context(Mode::Eager);
    let x = Tensor::ones([2, 1, 8, 8], thalweg::DType::F32, &cx);
    // A sequence by itself is the network.
    let body = net(&cx).body;
    let hidden = Tensor::ones([2, 3, 6, 6], thalweg::DType::F32, &cx);
    let names = |graph: thalweg::graph::Graph| -> BTreeSet<String> {
        graph.nodes().iter().map(|node| node.tag.name()).collect()
    };
    let alone = names(jit(|x: &Tensor| body.forward(x)).graph(&hidden).unwrap());
    assert!(alone.contains("Default/layers/0/conv2d-op1"), "{alone:#?}");
    assert!(alone.contains("Default/layers/3/relu-op4"), "{alone:#?}");
    // A network as an argument.
    let net = net(&cx);
    let given = names(
        jit(|net: &Net, x: &Tensor| net.forward(x))
            .graph((&net, &x))
            .unwrap(),
    );
    assert!(given.contains("Default/first/conv2d-op1"), "{given:#?}");
    assert!(given.contains("Default/body/layers/0/conv2d-op3"), "{given:#?}");
    let scoped = jit(|net: &Net, x: &Tensor| {
        let _scope = observe::scope("teacher");
        net.forward(x)
    });
    let scoped = names(scoped.graph((&net, &x)).unwrap());
    assert!(scoped.contains("Default/teacher/relu-op2"), "{scoped:#?}");
}
