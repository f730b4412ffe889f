//! Programs on the embedded CPU backend.

use super::arena::Arena;
use super::executable::{Arg, Executable};
use crate::context::Context;
use crate::graph::{Op, Type};
use crate::hal::ir::{Access, Kernel, Level, Role, ScalarOp};
use crate::hal::{Backend, DType, DeviceOptions, Stream};
use crate::lower::{Argument, Launch, Local, Output, Program, Scalar, Slot, Source, Step};
use crate::random::Key;
use crate::tensor::layout::Layout;
use crate::tensor::shape::Shape;
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, apply};
use std::sync::Arc;

fn context() -> Context {
    Context::new("cpu").unwrap()
}

fn argument(slot: Slot) -> Argument {
    Argument {
        slot,
        offset: 0,
        strides: None,
        gather: (0, 0),
    }
}

/// `to = from * scalar 1`, over `len` elements of f32.
fn scale(from: Slot, to: Slot, len: u64) -> Step {
    let mut kernel = Kernel::new("scale", 1, 0);
    let x = kernel.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let y = kernel.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let (x, factor) = (kernel.load(x), kernel.scalar(DType::F32));
    let scaled = kernel.op(ScalarOp::Mul, &[x, factor]);
    kernel.store(y, scaled);
    Step::Launch {
        source: Arc::new(Source::Kernel(kernel)),
        launch: Launch {
            extents: vec![len],
            arguments: vec![argument(from), argument(to)],
            scalars: vec![Scalar::Argument(1)],
        },
        tag: OpTag::new("scale"),
    }
}

/// Scales input 0 by scalar 1 `times` times through temporaries; the second output is the input reversed.
fn chain(times: u32, len: usize) -> Program {
    let mut from = Slot::Input(0);
    let steps = (0..times).map(|at| {
        let step = scale(from, Slot::Local(at), len as u64);
        from = Slot::Local(at);
        step
    });
    let ty = Type::new(Shape::of(&[len]), DType::F32);
    Program {
        steps: steps.collect(),
        stored: Vec::new(),
        origins: Vec::new(),
        locals: vec![
            Local {
                bytes: 4 * len as u64
            };
            times as usize
        ],
        outputs: vec![
            Output {
                slot: Slot::Local(times - 1),
                layout: Layout::contiguous(ty.shape),
                ty,
                tag: OpTag::NONE,
            },
            Output {
                slot: Slot::Input(0),
                layout: Layout::strided(ty.shape, &[-1], len as u64 - 1),
                ty,
                tag: OpTag::NONE,
            },
        ],
    }
}

fn run(program: &Program, context: &Context, x: &Tensor, factor: f32) -> Vec<Tensor> {
    let engine = context.engine();
    let args = [
        super::executable::arg(x),
        Arg::Scalar(u64::from(factor.to_bits())),
    ];
    let executable = Executable::compile(engine, program).unwrap();
    let values = executable
        .run(context, engine.scoped_lane().as_ref(), &args, None)
        .unwrap();
    values.into_iter().map(Tensor::from_value).collect()
}

#[test]
fn a_program_keeps_temporaries_in_one_arena_and_outputs_apart() {
    let cx = context();
    let data: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let x = Tensor::from_slice(&data, 1000, &cx);
    let program = chain(7, 1000);
    assert_eq!(Arena::plan(&program).bytes, 2 * 4096);
    let outputs = run(&program, &cx, &x, 2.0);
    let scaled: Vec<f32> = data.iter().map(|x| x * 128.0).collect();
    let reversed: Vec<f32> = data.iter().rev().copied().collect();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), scaled);
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), reversed);
}

#[test]
fn equal_sources_are_compiled_once() {
    let cx = context();
    let Step::Launch { source, .. } = scale(Slot::Input(0), Slot::Local(0), 8) else {
        panic!()
    };
    let Step::Launch { source: same, .. } = scale(Slot::Input(3), Slot::Local(1), 9) else {
        panic!()
    };
    assert!(!Arc::ptr_eq(&source, &same));
    let kernels = [cx.engine().kernel(&source), cx.engine().kernel(&same)].map(Result::unwrap);
    assert!(Arc::ptr_eq(&kernels[0], &kernels[1]));
}

#[test]
fn contexts_of_a_device_share_its_engine_and_nothing_keeps_it_open() {
    let cx = context();
    let other = Context::on(cx.device().clone());
    assert!(Arc::ptr_eq(cx.engine(), other.engine()));
    let device = crate::hal::runtime()
        .backend("cpu")
        .unwrap()
        .open(&DeviceOptions::new(0))
        .unwrap();
    let engine = {
        let cx = Context::on(device.clone());
        let x = Tensor::full([64], 1.0_f32, &cx);
        assert_eq!(
            run(&chain(2, 64), &cx, &x, 3.0)[0].to_vec::<f32>().unwrap(),
            [9.0; 64]
        );
        Arc::downgrade(cx.engine())
    };
    assert_eq!(engine.strong_count(), 0);
}

#[test]
fn streams_wait_for_what_others_write() {
    let cx = context();
    let (one, two) = (
        Stream::new(cx.device()).unwrap(),
        Stream::new(cx.device()).unwrap(),
    );
    let len = 300_000;
    let program = chain(1, len);
    for round in 0..50 {
        let x = {
            let _on = one.enter();
            Tensor::full([len], round as f32, &cx)
        };
        let y = {
            let _on = two.enter();
            run(&program, &cx, &x, 2.0).swap_remove(0)
        };
        let z = run(&program, &cx, &y, 3.0).swap_remove(0);
        drop((x, y));
        let _on = one.enter();
        let last = run(&program, &cx, &z, 5.0).swap_remove(0);
        drop(z);
        let expected = round as f32 * 30.0;
        assert!(
            last.to_vec::<f32>()
                .unwrap()
                .iter()
                .all(|&element| element == expected)
        );
    }
}

#[test]
fn memory_that_does_not_suffice_is_an_error_that_says_who_holds_it() {
    let backend: Backend = crate::hal::runtime().backend("cpu").unwrap();
    let options = DeviceOptions::new(0).memory_limit(64 << 20).block_size(4 << 20);
    let cx = Context::on(backend.open(&options).unwrap());
    let (line, held) = (line!(), Tensor::zeros([10 << 20], DType::F32, &cx));
    drop(Tensor::zeros([4 << 20], DType::F32, &cx));
    // The 16 MiB that were dropped are cached; they go back to the device for this.
    let _more = Tensor::zeros([5 << 20], DType::F32, &cx).ok().unwrap();
    let failed = Tensor::ones([1 << 20, 4], DType::F32, &cx);
    let later = apply(
        Op::Reshape(Shape::of(&[4 << 20])),
        &[&failed],
        OpTag::new("reshape"),
    );
    let error = later.to_vec::<f32>().unwrap_err();
    assert_eq!(error.status(), Some(crate::hal::Status::OutOfMemory));
    let text = error.to_string();
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("ones: out of memory on cpu:0: 16777216 B asked for, limit 67108864 B"),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "40960 KB in    1 of zeros at core/src/exec/tests.rs:{line}"
        )),
        "{text}"
    );
    drop(held);
    assert_eq!(
        Tensor::ones([4 << 20], DType::F32, &cx).to_vec::<f32>().unwrap()[1 << 20],
        1.0
    );
}

#[test]
fn numbers_come_back_as_they_went() {
    let cx = context();
    let bools = [true, false, true, true];
    assert_eq!(
        Tensor::from_slice(&bools, [2, 2], &cx).to_vec::<bool>().unwrap(),
        bools
    );
    assert_eq!(
        Tensor::from_vec(bools.to_vec(), 4, &cx).to_vec::<bool>().unwrap(),
        bools
    );
    let halves = [half::f16::from_f32(0.1), half::f16::NAN];
    let back = Tensor::from_slice(&halves, 2, &cx).to_vec::<half::f16>().unwrap();
    assert_eq!(
        back.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        halves.map(half::f16::to_bits)
    );
    let x = Tensor::from_vec((0..24_i64).collect(), [2, 3, 4], &cx);
    let turned = apply(
        Op::Permute([2_u8, 0, 1].as_slice().into()),
        &[&x],
        OpTag::new("permute"),
    );
    let expected: Vec<i64> = (0..24).map(|i| (i % 6) * 4 + i / 6).collect();
    assert_eq!(turned.to_vec::<i64>().unwrap(), expected);
    assert_eq!(turned.contiguous().to_vec::<i64>().unwrap(), expected);
    assert_eq!(Tensor::scalar(-3_i8, &cx).item::<i8>().unwrap(), -3);
    assert_eq!(Tensor::full([1, 1], true, &cx).to_scalar().unwrap(), 1.0);
    assert_eq!(
        Tensor::from_slice::<f32>(&[], [0, 3], &cx)
            .to_vec::<f32>()
            .unwrap(),
        [0.0; 0]
    );
    assert_eq!(x.zeros_like().to_vec::<i64>().unwrap(), [0; 24]);
    assert_eq!(x.full_like(0.5_f64).to_vec::<f64>().unwrap(), [0.5; 24]);
}

#[test]
fn wrong_shapes_and_dtypes_are_errors() {
    let cx = context();
    let text = |result: crate::Result<Vec<f32>>| result.unwrap_err().to_string();
    let x = Tensor::from_slice(&[1.0_f32; 5], [2, 3], &cx);
    let error = text(x.to_vec());
    assert!(
        error.starts_with("from_slice: 5 elements for the shape [2, 3], which has 6\n  at core/src"),
        "{error}"
    );
    let error = text(Tensor::ones([2], DType::I32, &cx).to_vec());
    assert!(error.starts_with("to_vec: the tensor is i32, not f32"), "{error}");
    let error = Tensor::ones([2], DType::I32, &cx)
        .item::<i32>()
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("item: the shape [2] has 2 elements, not one"),
        "{error}"
    );
}

#[test]
fn a_tensor_moves_to_another_device() {
    let cx = context();
    let backend = crate::hal::runtime().backend("cpu").unwrap();
    let other = Context::on(backend.open(&DeviceOptions::new(0)).unwrap());
    let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], 3, &cx);
    let y = x.to(&other);
    assert_eq!(y.context().unwrap().device(), other.device());
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
}

#[test]
fn ops_run_at_once_and_again_from_the_cache() {
    let cx = context();
    let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], 3, &cx);
    for factor in [2.0, 3.0, 4.0] {
        assert_eq!(
            (&x * factor + &x).to_vec::<f32>().unwrap(),
            [1.0, 2.0, 3.0].map(|x| x * factor as f32 + x)
        );
    }
    assert_eq!(cx.engine().local().try_borrow().unwrap().eager.len(), 2);
}

#[test]
fn every_order_of_axes_is_remembered() {
    let cx = context();
    let x = Tensor::from_vec((0..54).map(|n| n as f32).collect(), [3, 3, 3, 2], &cx);
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for _ in 0..2 {
        for [a, b, c] in orders {
            let turned = x.permute([a, b, c, 3]);
            let wanted: Vec<f32> = turned.to_vec::<f32>().unwrap().iter().map(|x| x + 1.0).collect();
            assert_eq!((&turned + 1.0).to_vec::<f32>().unwrap(), wanted);
        }
    }
    assert_eq!(
        cx.engine().local().try_borrow().unwrap().eager.len(),
        orders.len()
    );
}

#[test]
fn a_pair_takes_the_way_of_the_one_before_only_where_it_means_the_same() {
    let cx = context();
    let (x, y) = (
        Tensor::from_slice(&[7_i32, -7], 2, &cx),
        Tensor::from_slice(&[2_i32, 2], 2, &cx),
    );
    for _ in 0..2 {
        assert_eq!(x.div_floor(&y).to_vec::<i32>().unwrap(), [3, -4]);
        assert_eq!((&x / &y).to_vec::<f32>().unwrap(), [3.5, -3.5]);
        assert_eq!((&x / 2).to_vec::<f32>().unwrap(), [3.5, -3.5]);
        assert_eq!(x.maximum(&y).to_vec::<i32>().unwrap(), [7, 2]);
        assert_eq!(x.minimum(1.5).to_vec::<f32>().unwrap(), [1.5, -7.0]);
        let (x, y) = (x.cast(DType::F64), y.cast(DType::F64));
        assert_eq!((&x / &y).to_vec::<f64>().unwrap(), [3.5, -3.5]);
        assert_eq!((1.0 / &y).to_vec::<f64>().unwrap(), [0.5, 0.5]);
        assert_eq!(y.maximum(&x).to_vec::<f64>().unwrap(), [7.0, 2.0]);
        assert_eq!(y.minimum(0).to_vec::<f64>().unwrap(), [0.0, 0.0]);
    }
}

#[test]
fn a_thread_knows_the_stream_of_its_last_op() {
    let cx = context();
    let streams = [
        Stream::new(cx.device()).unwrap(),
        Stream::new(cx.device()).unwrap(),
    ];
    let x = Tensor::full([4], 2.0_f32, &cx);
    drop(&x + &x);
    for stream in streams.iter().cycle().take(4) {
        let _on = stream.enter();
        drop(&x + &x);
        let lane = cx.engine().last_lane().unwrap();
        assert_eq!(lane.stream.handle(), stream.handle());
    }
}

#[test]
fn recorded_ops_run_when_they_are_read() {
    let cx = context();
    let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0], 3, &cx);
    cx.set_mode(crate::Mode::Graph);
    for (round, factor) in [2.0_f32, 2.0, 3.0, 5.0].into_iter().enumerate() {
        let y = ((&x - 1.0) * factor).sum();
        assert_eq!(y.item::<f32>().unwrap(), 3.0 * factor, "round {round}");
    }
}

/// Where a device has a product but not with its epilogue, the product stays what it is on its own.
#[test]
fn products_of_halves_are_the_same_bits_in_every_mode() {
    let cx = context();
    let key = Key::new(3, &cx);
    let [first, second, third] = [0, 1, 2].map(|number| key.fold_in(number));
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let x = first.normal([80, 1500], dtype);
        let (w, b) = (second.normal([1500, 90], dtype), third.normal(90, dtype));
        let dense = |x: &Tensor| (x.matmul(&w) + &b).relu();
        let eager = dense(&x).cast(DType::F32).to_vec::<f32>().unwrap();
        let compiled = crate::jit(dense).call(&x);
        assert_eq!(
            compiled.cast(DType::F32).to_vec::<f32>().unwrap(),
            eager,
            "{dtype}"
        );
    }
}
