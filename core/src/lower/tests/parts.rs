//! Steps over a batch that run part after part.

use super::judge::{ALL, Cpu, check, program};
use super::{Write, shape};
use crate::context::Context;
use crate::graph::{ConvAttributes, Graph, NodeId, Op, rewrite};
use crate::hal::ir::{ReduceOp, ScalarOp};
use crate::jit;
use crate::lower::{Bounds, Program, Slot, Step, in_parts};
use crate::ops::{ConvOptions, PoolOptions};
use crate::tensor::Tensor;

fn conv(w: &mut Write, x: NodeId, channels: usize) -> NodeId {
    let weights = w.input(&[channels, w.0.shape(x)[1], 3, 3]);
    let attributes = ConvAttributes {
        groups: 1,
        stride: [1; 3],
        dilation: [1; 3],
        low: [1; 3],
        high: [1; 3],
        fast: false,
    };
    w.op(Op::Conv(attributes), &[x, weights])
}

/// Three convolutions of four images, with something between the second and the third.
fn chain(between: impl Fn(&mut Write, NodeId) -> NodeId) -> Graph {
    let mut w = Write::default();
    let x = w.input(&[4, 3, 6, 6]);
    let x = conv(&mut w, x, 4);
    let x = conv(&mut w, x, 5);
    let x = between(&mut w, x);
    let x = conv(&mut w, x, 6);
    w.0.output(x);
    w.0
}

fn in_samples(graph: &Graph) -> [Program; 2] {
    check(graph);
    let whole = program(graph, Cpu::All);
    [whole.clone(), in_parts(whole, &ALL)]
}

/// The slots that a step touches.
fn slots(step: &Step) -> Vec<Slot> {
    match step {
        Step::Launch { launch, .. } => launch.arguments.iter().map(|argument| argument.slot).collect(),
        Step::Fill { slot, .. } => vec![*slot],
    }
}

#[test]
fn an_image_runs_through_all_steps_before_the_next() {
    let [whole, parts] = in_samples(&chain(|_, x| x));
    assert_eq!(whole.steps.len(), 3);
    assert_eq!(parts.steps.len(), 12);
    assert_eq!(parts.origins.len(), 12);
    let names = |program: &Program| -> Vec<String> {
        let name = |step: &Step| match step {
            Step::Launch { source, launch, .. } => format!("{} {:?}", source.name(), launch.extents),
            Step::Fill { .. } => "fill".into(),
        };
        program.steps.iter().map(name).collect()
    };
    let one = names(&parts)[..3].to_vec();
    assert!(one.iter().all(|name| name.starts_with("conv [1, ")), "{one:?}");
    assert_eq!(names(&parts), [&one[..]; 4].concat());
    // What is between the convolutions is a fourth of what it was, and of one image alone.
    for part in 0..4 {
        let made = slots(&parts.steps[3 * part]);
        let Some(&Slot::Local(local)) = made.last() else {
            panic!("{made:?}")
        };
        assert_eq!(parts.locals[local as usize].bytes, 4 * 36 * 4);
        let users = parts
            .steps
            .iter()
            .filter(|step| slots(step).contains(&Slot::Local(local)));
        assert_eq!(users.count(), 2);
    }
}

#[test]
fn samples_that_meet_are_not_parted() {
    let over_all = |w: &mut Write, x| {
        let wide = *w.0.shape(x);
        let axes = [0, 2, 3].into_iter().collect();
        let sum = w.op(
            Op::Reduce {
                op: ReduceOp::Sum,
                axes,
            },
            &[x],
        );
        let kept = w.op(Op::Reshape(shape(&[1, 5, 1, 1])), &[sum]);
        let wide = w.op(Op::Expand(wide), &[kept]);
        w.map(ScalarOp::Sub, &[x, wide])
    };
    let turned = |w: &mut Write, x| {
        let tail = w.op(
            Op::Slice {
                start: shape(&[1, 0, 0, 0]),
                step: [1, 1, 1, 1].into_iter().collect(),
                shape: shape(&[3, 5, 6, 6]),
            },
            &[x],
        );
        let head = w.op(
            Op::Slice {
                start: shape(&[0, 0, 0, 0]),
                step: [1, 1, 1, 1].into_iter().collect(),
                shape: shape(&[1, 5, 6, 6]),
            },
            &[x],
        );
        w.op(Op::Concat { axis: 0 }, &[tail, head])
    };
    let makers: [fn(&mut Write, NodeId) -> NodeId; 2] = [over_all, turned];
    for between in makers {
        let [whole, parts] = in_samples(&chain(between));
        // The convolutions in front run in parts, and what meets does not.
        let steps = whole.steps.len();
        assert!(parts.steps.len() >= steps + 6, "{parts:#?}");
        let meets =
            |step: &&Step| matches!(step, Step::Launch { source, .. } if !source.name().contains("conv"));
        assert_eq!(
            whole.steps.iter().filter(meets).count(),
            parts.steps.iter().filter(meets).count()
        );
    }
}

#[test]
fn small_buffers_and_great_weights_stay_whole() {
    let whole = program(&chain(|_, x| x), Cpu::All);
    let steps = |bounds: Bounds| in_parts(whole.clone(), &bounds).steps.len();
    let (least, part, again) = (4 * 4 * 36 * 4, 1500, 0);
    assert_eq!(steps(Bounds { least, part, again }), 6, "two parts of 1152 bytes");
    assert_eq!(
        steps(Bounds {
            part: 600,
            least,
            again
        }),
        12
    );
    assert_eq!(
        steps(Bounds {
            least: 1 << 20,
            part,
            again
        }),
        3
    );
    // Buffers of 5184 bytes between convolutions with weights of 2232.
    assert_eq!(
        steps(Bounds {
            again: 2,
            least,
            part: 600
        }),
        6
    );
    assert_eq!(
        steps(Bounds {
            again: 3,
            least,
            part: 600
        }),
        3
    );
    assert_eq!(steps(Bounds::CACHES), 3);
}

/// Buffers of 12 MiB in the bounds of caches, against ops one by one.
#[test]
fn parts_have_the_bits_of_ops_one_by_one() -> crate::Result<()> {
    let cx = Context::new("cpu")?;
    let numbers = |shape: &[usize]| {
        let count = shape.iter().product::<usize>();
        let data: Vec<f32> = (0..count)
            .map(|i| (i * 7919 % 1013) as f32 / 1013.0 - 0.5)
            .collect();
        Tensor::from_slice(&data, shape, &cx)
    };
    let (x, narrow, deep) = (
        numbers(&[8, 3, 112, 112]),
        numbers(&[32, 3, 3, 3]),
        numbers(&[32, 1, 3, 3]),
    );
    let (wide, bias) = (numbers(&[40, 32, 1, 1]), numbers(&[1, 32, 1, 1]));
    let net = |x: &Tensor| {
        let x = (x.conv2d(&narrow, None, ConvOptions::new().padding(1)) + &bias).tanh();
        let y = x
            .conv2d(&deep, None, ConvOptions::new().padding(1).groups(32))
            .relu();
        let y = &x + &y * y.mean_keepdims([2, 3]).sigmoid();
        let y = y
            .conv2d(&wide, None, ConvOptions::new())
            .max_pool2d(PoolOptions::new(2));
        y.softmax(1)
    };
    let whole = net(&x).to_vec::<f32>()?;
    let compiled = jit(net);
    let steps = program(&rewrite(&compiled.graph(&x)?), Cpu::All);
    assert!(in_parts(steps.clone(), &Bounds::CACHES).steps.len() > steps.steps.len());
    let parts = compiled.call(&x).to_vec::<f32>()?;
    assert!(whole.iter().zip(&parts).all(|(a, b)| a.to_bits() == b.to_bits()));
    Ok(())
}
