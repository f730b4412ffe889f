//! The text form and calls of graphs.

use super::{ConvAttributes, Graph, NodeId, Op, ScatterMode, Type};
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::lower::tests::random;
use crate::random::Mt19937;
use crate::tensor::shape::{Axes, Shape};
use crate::tensor::tag::OpTag;
use crate::{Context, Tensor, cond, fori_loop, grad, jit, while_loop};
use proptest::prelude::*;

/// Numbers for the inputs of a graph of floats.
fn arguments(graph: &Graph, cx: &Context) -> Vec<Tensor> {
    let mut generator = Mt19937::new(7);
    let mut tensor = |&input: &NodeId| {
        let Type { shape, dtype } = graph.node(input).ty;
        let data: Vec<f64> = (0..shape.elements()).map(|_| generator.random() - 0.5).collect();
        Tensor::from_slice(&data, shape, cx).cast(dtype)
    };
    graph.inputs().iter().map(&mut tensor).collect()
}

fn bits(tensors: &[Tensor]) -> Vec<Vec<u64>> {
    let bits = |tensor: &Tensor| {
        let numbers = tensor.cast(DType::F64).to_vec::<f64>().unwrap();
        numbers.into_iter().map(f64::to_bits).collect()
    };
    tensors.iter().map(bits).collect()
}

#[track_caller]
fn same_after_parsing(graph: &Graph, cx: &Context) {
    let text = graph.to_text();
    let parsed = Graph::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(parsed.to_text(), text);
    let same = parsed.nodes().iter().zip(graph.nodes());
    assert!(
        same.clone()
            .all(|(a, b)| a.op == b.op && a.inputs == b.inputs && a.ty == b.ty),
        "{text}"
    );
    let arguments = arguments(graph, cx);
    let (one, other) = (graph.call(&arguments).unwrap(), parsed.call(&arguments).unwrap());
    assert_eq!(bits(&one), bits(&other), "{text}");
}

#[test]
fn random_graphs_are_their_texts() {
    let cx = Context::new("cpu").unwrap();
    for seed in 0..random::cases(150) {
        if let Some(graph) = random::graph(seed) {
            same_after_parsing(&graph, &cx);
        }
    }
}

#[test]
fn loops_branches_and_gradients_are_their_texts() {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[1.0_f32, 0.5, 2.0], 3, &cx);
    let f = |x: &Tensor| {
        let inner = |x: &Tensor| fori_loop(0..12, x.clone(), |i, x| x.tanh() + i * 0.125);
        let x = while_loop(|x: &Tensor| x.sum().lt(50.0), |x| &x * 1.5 + inner(&x), x.clone());
        cond(&x.sum().gt(60.0), |x: &Tensor| x.sqrt(), |x: &Tensor| x.exp(), &x).sum()
    };
    for graph in [
        jit(f).graph(&x).unwrap(),
        jit(|x: &Tensor| grad(f).call(x)).graph(&x).unwrap(),
    ] {
        let text = graph.to_text();
        for op in ["repeat", "while", "cond"] {
            assert!(text.contains(op), "{op}\n{text}");
        }
        assert!(text.contains("graph @0"));
        same_after_parsing(&graph, &cx);
        let dot = graph.to_dot();
        assert_eq!(dot.matches('{').count(), dot.matches('}').count());
        assert!(dot.contains("subgraph cluster_1") && dot.contains("while_loop"));
    }
}

/// Every op that is no loop and no branch, once.
fn all_ops() -> Graph {
    let mut graph = Graph::new();
    let shape = Shape::of;
    let mut push = |op: Op, inputs: &[NodeId]| graph_push(&mut graph, op, inputs);
    let x = push(Op::Input(0), &[]);
    let at = push(
        Op::Index {
            axis: 1,
            shape: shape(&[2, 4, 6]),
        },
        &[],
    );
    push(
        Op::Indices {
            axis: 1,
            low: -4,
            high: 4,
            except: Some(-100),
        },
        &[at],
    );
    for op in ScalarOp::ALL
        .iter()
        .filter(|op| op.accepts().takes(DType::F32) && **op != ScalarOp::Select)
    {
        push(Op::Map(*op), &vec![x; op.arity()]);
    }
    let truth = push(Op::Map(ScalarOp::Lt), &[x, x]);
    push(Op::Map(ScalarOp::Select), &[truth, x, x]);
    for (dtype, bits) in [
        (DType::F64, f64::MIN_POSITIVE.to_bits() | 1),
        (DType::F32, 0x7fc0_1234),
        (DType::F32, u64::from((-0.0_f32).to_bits())),
        (DType::F32, u64::from(0.1_f32.to_bits())),
        (DType::F16, 0x3555),
        (DType::BF16, 0xff80),
        (DType::I8, 0x80),
        (DType::I64, u64::MAX),
        (DType::U64, u64::MAX),
        (DType::Bool, 1),
    ] {
        push(
            Op::Full {
                dtype,
                bits,
                shape: shape(&[1, 0]),
            },
            &[],
        );
    }
    let key = push(Op::Cast(DType::U64), &[at]);
    push(Op::Rand, &[key, key]);
    for &op in ReduceOp::ALL {
        push(
            Op::Reduce {
                op,
                axes: [0, 2].into_iter().collect(),
            },
            &[x],
        );
    }
    push(
        Op::Reduce {
            op: ReduceOp::Sum,
            axes: Axes::all(3),
        },
        &[x],
    );
    push(Op::Permute([2, 0, 1].into_iter().collect()), &[x]);
    push(Op::Expand(shape(&[3, 2, 4, 6])), &[x]);
    push(Op::Reshape(shape(&[48])), &[x]);
    let step = [1, -1, 2].into_iter().collect();
    push(
        Op::Slice {
            start: shape(&[0, 3, 1]),
            step,
            shape: shape(&[1, 4, 2]),
        },
        &[x],
    );
    push(
        Op::Window {
            axis: 2,
            size: 2,
            step: 1,
            dilation: 3,
        },
        &[x],
    );
    push(
        Op::Pad {
            low: shape(&[0, 1, 0]),
            shape: shape(&[2, 6, 6]),
            bits: 0x3f80_0000,
        },
        &[x],
    );
    push(Op::Concat { axis: 0 }, &[x, x, x]);
    push(Op::Gather { axis: 1 }, &[x, at]);
    for mode in ScatterMode::ALL {
        push(Op::Scatter { axis: 1, mode }, &[x, at, x]);
    }
    let turned = push(Op::Permute([0, 2, 1].into_iter().collect()), &[x]);
    push(
        Op::Matmul {
            accumulate: DType::F32,
            output: DType::F32,
        },
        &[x, turned],
    );
    let attention = |causal| Op::Attention {
        causal,
        scale: 0.1_f64.to_bits(),
    };
    push(attention(true), &[x, x, x]);
    let seen = push(
        Op::Full {
            dtype: DType::Bool,
            bits: 1,
            shape: shape(&[2, 4, 4]),
        },
        &[],
    );
    push(attention(false), &[x, x, x, seen]);
    let conv = ConvAttributes {
        groups: 2,
        stride: [2, 1, 1],
        dilation: [1; 3],
        low: [1, 0, 0],
        high: [0; 3],
        fast: false,
    };
    let w = push(
        Op::Full {
            dtype: DType::F32,
            bits: 0x3f00_0000,
            shape: shape(&[6, 2, 3]),
        },
        &[],
    );
    let y = push(Op::Conv(conv), &[x, w]);
    push(Op::ConvGradInput(conv, shape(&[2, 4, 6])), &[y, w]);
    let fast = ConvAttributes { fast: true, ..conv };
    push(Op::Conv(fast), &[x, w]);
    push(Op::ConvGradInput(fast, shape(&[2, 4, 6])), &[y, w]);
    push(Op::ConvGradWeight(conv, shape(&[6, 2, 3])), &[x, y]);
    push(
        Op::Scan {
            op: ReduceOp::Max,
            axis: 2,
            reverse: true,
        },
        &[x],
    );
    push(
        Op::ArgSort {
            axis: 0,
            descending: true,
            count: 1,
        },
        &[x],
    );
    push(
        Op::Sort {
            axis: 1,
            descending: true,
        },
        &[x],
    );
    for at in 0..graph.nodes().len() as u32 {
        graph.output(NodeId(at));
    }
    graph
}

#[track_caller]
fn graph_push(graph: &mut Graph, op: Op, inputs: &[NodeId]) -> NodeId {
    match op {
        Op::Input(_) => graph.input(Type::new(Shape::of(&[2, 4, 6]), DType::F32)),
        op => graph.push(op, inputs, OpTag::NONE).unwrap(),
    }
}

/// What fuzzing starts from.
#[test]
fn seeds_of_the_fuzz_target_are_graphs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/graph_text");
    let mut ops = String::new();
    for seed in std::fs::read_dir(folder).unwrap() {
        let path = seed.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let graph = Graph::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        ops += &graph.to_text();
    }
    for name in [
        "scatter",
        "conv_grad_weight",
        "argsort",
        "repeat",
        "while",
        "unwind",
        "cond",
        "call",
    ] {
        assert!(ops.contains(&format!(" = {name} ")), "no seed has {name}");
    }
}

#[test]
fn every_op_is_its_text() {
    same_after_parsing(&all_ops(), &Context::new("cpu").unwrap());
}

#[test]
fn bad_texts_are_refused_with_their_line() {
    let head = "graph main\n%0: f32[2,3] = input\n";
    for (text, error) in [
        ("", "there is no `graph main`"),
        ("graph main\n", "the text ends without `return`"),
        ("graph @1\n", "line 1: expected `graph main` or `graph @0`"),
        (
            "%1: f32[2,3] = exp %1\n",
            "line 3: `%1` is no node before this one",
        ),
        ("%2: f32[2,3] = exp %0\n", "line 3: expected `%1:`"),
        ("%1: f32[2,3] = sine %0\n", "line 3: there is no op `sine`"),
        ("%1: f32[3] = exp %0\n", "line 3: exp gives f32[2,3], not f32[3]"),
        ("%1: f99[3] = exp %0\n", "line 3: `f99[3]` is no type"),
        ("%1: f32[2,3] = add %0\n", "line 3: add: 1 operands, it takes 2"),
        (
            "%1: f32[2,3] = exp %0 axis=1\n",
            "line 3: exp has no attribute `axis=1`",
        ),
        ("%1: f32[2] = reduce_sum %0\n", "line 3: expected `axes=…`"),
        (
            "%1: f32[2] = reduce_sum %0 axes=[1,0]\n",
            "line 3: axes are numbers of axes in ascending order",
        ),
        (
            "%1: f32[2] = reduce_sum %0 axes=[7]\n",
            "line 3: reduce_sum: sum along [7]",
        ),
        (
            "%1: u8[] = full value=256\n",
            "line 3: `256` is not a constant of u8",
        ),
        (
            "%1: u8[] = full value=0x100\n",
            "line 3: value=0x100 is wider than u8",
        ),
        (
            "%1: token = cond %0 then=@0 otherwise=@0\n",
            "line 3: `@0` is no graph before this one",
        ),
        (
            "%1: f32[] = result %0 index=0\n",
            "line 3: %0 is no loop or branch",
        ),
        (
            "%1: f32[1,1] = window %0 axis=0 size=18446744073709551615 step=1 dilation=9\n",
            "line 3: window: [0, 3, 18446744073709551615] has too many elements",
        ),
        (
            "%1: f32[1,1] = slice %0 start=[0,0] step=[9223372036854775807,-9223372036854775808]\n",
            "the text ends without `return`",
        ),
        (
            "%1: f32[2,4] = slice %0 start=[0,0] step=[1,9223372036854775807]\n",
            "line 3: slice: elements",
        ),
        (
            "%1: f32[2,1152921504606846975] = exp %0\n",
            "line 3: [2, 1152921504606846975] has too many elements",
        ),
        ("return %0 %7\n", "line 3: `%7` is no node before this one"),
    ] {
        let whole = if text.starts_with('%') || text.starts_with("return") {
            format!("{head}{text}")
        } else {
            text.to_owned()
        };
        let got = Graph::parse(&whole).map(|graph| graph.to_text());
        let got = got.map_err(|error| error.to_string());
        assert!(
            got.as_ref().is_err_and(|got| got.starts_with(error)),
            "{whole}\n{got:?}\n{error}"
        );
    }
    let token = "graph @0\n%0: f32[] = input\nreturn %0\ngraph main\n%0: bool[] = input\n%1: f32[] = input\n\
        %2: token = cond %0 %1 then=@0 otherwise=@0\n";
    let bad = Graph::parse(&format!("{token}return %2\n"))
        .unwrap_err()
        .to_string();
    assert!(bad.starts_with("line 8: %2 is a token"), "{bad}");
    let bad = Graph::parse(&format!("{token}%3: f32[4] = result %2 index=0\n"))
        .unwrap_err()
        .to_string();
    assert!(bad.starts_with("line 8: result 0 is f32[], not f32[4]"), "{bad}");
    // The loop that the way back runs again is checked as well.
    let unwind = "graph @0\n%0: f32[] = input\nreturn %0\ngraph @1\n%0: f32[] = input\n%1: f32[] = input\n\
        %2: f32[] = mul %0 %1\nreturn %2\ngraph main\n%0: f32[] = input\n\
        %1: token = unwind %0 %0 condition=@0 body=@0 back=@1 carries=1 captured=0 sums=1\nreturn %0\n";
    let bad = Graph::parse(unwind).unwrap_err().to_string();
    assert!(bad.starts_with("line 11: unwind: its graphs do not fit"), "{bad}");
    let deep: String = (0..100)
        .map(|at| match at {
            0 => "graph @0\n%0: bool[] = input\nreturn %0\n".to_owned(),
            _ => format!(
                "graph @{at}\n%0: bool[] = input\n%1: token = call %0 body=@{0}\n\
                 %2: bool[] = result %1 index=0\nreturn %2\n",
                at - 1
            ),
        })
        .collect();
    let bad = Graph::parse(&deep).unwrap_err().to_string();
    assert!(bad.contains("graphs lie in graphs more than 32 deep"), "{bad}");
}

#[test]
fn a_graph_that_is_named_twice_is_written_once() {
    let mut text = "graph @0\n%0: bool[] = input\nreturn %0\n".to_owned();
    for at in 1..14 {
        let head = if at == 13 {
            "main".to_owned()
        } else {
            format!("@{at}")
        };
        text += &format!(
            "graph {head}\n%0: bool[] = input\n%1: token = cond %0 %0 then=@{0} otherwise=@{0}\n\
             %2: bool[] = result %1 index=0\nreturn %2\n",
            at - 1
        );
    }
    let graph = Graph::parse(&text).unwrap();
    assert_eq!(graph.to_text(), text);
    assert_eq!(graph.to_dot().matches("subgraph").count(), 13);
}

#[test]
fn a_slice_of_one_element_has_any_step() {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[1.0_f32, 2.0], [1, 2], &cx);
    for step in [i64::MIN, i64::MAX, -1] {
        let text = format!(
            "graph main\n%0: f32[1,2] = input\n%1: f32[1,2] = neg %0\n\
             %2: f32[1,2] = slice %0 start=[0,0] step=[{step},1]\n\
             %3: f32[1,2] = slice %1 start=[0,0] step=[{step},1]\n\
             %4: f32[1,2] = slice %3 start=[0,0] step=[{step},1]\nreturn %2 %4\n"
        );
        let results = Graph::parse(&text)
            .unwrap()
            .call(std::slice::from_ref(&x))
            .unwrap();
        assert_eq!(results[0].to_vec::<f32>().unwrap(), [1.0, 2.0], "{step}");
        assert_eq!(results[1].to_vec::<f32>().unwrap(), [-1.0, -2.0], "{step}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange(cuts in prop::collection::vec((any::<u16>(), 0_usize..6, "[%@=0-9a-z,\\[\\]: -]{0,4}"), 1..5)) {
        let mut text = all_ops().to_text();
        for (at, length, new) in cuts {
            let from = usize::from(at) % text.len();
            let to = (from + length).min(text.len());
            text.replace_range(from..to, &new);
        }
        if let Ok(graph) = Graph::parse(&text) {
            prop_assert_eq!(Graph::parse(&graph.to_text()).unwrap().to_text(), graph.to_text());
        }
    }
}

/// The texts of some graphs; with the variable set, printed for [`two_processes_write_the_same_bytes`].
fn texts() -> String {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::from_slice(&[1.0_f32, 0.5, 2.0, 3.0], [2, 2], &cx);
    let f = |x: &Tensor| {
        let y = fori_loop(0..20, x.clone(), |_, x| x.softmax(1).matmul(&x));
        (y.layer_norm(2, None, None, 1e-5).tanh() * 3.0).sum()
    };
    let (value, gradient) = (
        jit(f).graph(&x).unwrap(),
        jit(|x: &Tensor| grad(f).call(x)).graph(&x).unwrap(),
    );
    [
        value.to_text(),
        gradient.to_text(),
        gradient.to_dot(),
        super::rewrite(&gradient).to_text(),
    ]
    .concat()
}

#[test]
fn two_processes_write_the_same_bytes() {
    const CHILD: &str = "THALWEG_TEST_GRAPH_TEXT";
    if let Some(file) = std::env::var_os(CHILD) {
        std::fs::write(file, texts()).unwrap();
        return;
    }
    let here = texts();
    assert_eq!(here, texts());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "graph::tests::two_processes_write_the_same_bytes"])
        .env(CHILD, &file)
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.unwrap().success());
    assert_eq!(std::fs::read_to_string(file).unwrap(), here);
}
