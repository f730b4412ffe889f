//! Results in the memory of arguments, on the embedded CPU backend.

use crate::control::replay;
use crate::graph::NodeId;
use crate::hal::{Backend, DeviceOptions, Stream};
use crate::lower::tests::random::{cases, graph};
use crate::tensor::Repr;
use crate::{Context, DType, Error, Tensor, jit};

fn context() -> Context {
    Context::new("cpu").unwrap()
}

/// A device of its own with so many bytes.
fn limited(bytes: u64) -> Context {
    let backend: Backend = crate::hal::runtime().backend("cpu").unwrap();
    let options = DeviceOptions::new(0).memory_limit(bytes).block_size(1 << 20);
    Context::on(backend.open(&options).unwrap())
}

fn vector(data: &[f32], cx: &Context) -> Tensor {
    Tensor::from_slice(data, data.len(), cx)
}

/// The handle of the memory that a tensor lies in.
fn memory(tensor: &Tensor) -> u64 {
    match &tensor.repr {
        Repr::Value(value) => value.storage.buffer.handle(),
        _ => panic!("it is no value"),
    }
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    let values = tensor.to_vec::<f32>().unwrap();
    values.into_iter().map(f32::to_bits).collect()
}

/// A step of Adam (Kingma & Ba, 2015) for a line through points.
fn adam(state: &[Tensor; 3], x: &Tensor, y: &Tensor) -> [Tensor; 3] {
    let [w, m, v] = state;
    let grad = x.t().matmul(&(x.matmul(w) - y));
    let m = m * 0.9 + &grad * 0.1;
    let v = v * 0.999 + grad.square() * 0.001;
    [w - &m * 0.01 / (v.sqrt() + 1e-8), m, v]
}

#[test]
fn a_state_stays_where_it_lies_and_has_the_bits_of_plain_calls() {
    let cx = context();
    let (x, y) = (
        Tensor::rand([16, 8], DType::F32, &cx),
        Tensor::rand([16, 4], DType::F32, &cx),
    );
    let start = [0, 1, 2].map(|_| Tensor::zeros([8, 4], DType::F32, &cx));
    let step = jit(|state: &[Tensor; 3], x: &Tensor, y: &Tensor| adam(state, x, y));
    let mut plain = start.clone();
    let mut given = (start.map(|tensor| tensor + 0.0), x.clone(), y.clone());
    let places = given.0.each_ref().map(memory);
    for _ in 0..5 {
        plain = step.call((&plain, &x, &y));
        given.0 = step.call_donating((&mut given.0, &mut given.1, &mut given.2));
        assert_eq!(given.0.each_ref().map(memory), places);
        assert_eq!(given.0.each_ref().map(bits), plain.each_ref().map(bits));
    }
    // The batch is held here too.
    assert_eq!(given.1.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
}

#[test]
fn half_the_memory_is_enough() {
    let cx = limited(11 << 20);
    let scale = jit(|x: &Tensor, by: &Tensor| x * by);
    let fresh = || Tensor::full([1 << 20], 2.0_f32, &cx);
    let by = Tensor::scalar(0.5_f32, &cx);
    let mut given = (fresh(), by);
    // There is room for two of these.
    let other = fresh();
    assert!(scale.call((&given.0, &given.1)).ok().is_err());
    for halved in [1.0, 0.5, 0.25] {
        let result = scale.call_donating((&mut given.0, &mut given.1));
        given.0 = result.ok().unwrap();
        assert_eq!(given.0.narrow(0, 5, 1).item::<f32>().unwrap(), halved);
    }
    drop(other);
}

#[test]
fn what_somebody_else_holds_is_kept() {
    let cx = context();
    let double = jit(|x: &Tensor| x * 2.0);
    let mut given = (vector(&[1.0, 2.0], &cx),);
    for hold in [false, true, true, true, false, false, false] {
        let before = given.0.to_vec::<f32>().unwrap();
        let held = hold.then(|| given.0.narrow(0, 1, 1));
        let result = double.call_donating(&mut given.0);
        assert_eq!(
            result.to_vec::<f32>().unwrap(),
            before.iter().map(|x| x * 2.0).collect::<Vec<f32>>()
        );
        if let Some(held) = held {
            assert_eq!(held.item::<f32>().unwrap(), before[1]);
            assert_eq!(given.0.to_vec::<f32>().unwrap(), before);
        }
        given.0 = result;
    }
}

#[test]
fn an_argument_that_is_gone_says_where() {
    let cx = context();
    let double = jit(|x: &Tensor, unused: &Tensor| (x * 2.0, unused.clone())).named("double");
    let mut given = (vector(&[1.0, 2.0], &cx), vector(&[3.0], &cx));
    let (doubled, same) = double.call_donating((&mut given.0, &mut given.1));
    assert_eq!(doubled.to_vec::<f32>().unwrap(), [2.0, 4.0]);
    assert_eq!(same.to_vec::<f32>().unwrap(), given.1.to_vec::<f32>().unwrap());
    let error = (&given.0 + 1.0).to_vec::<f32>().unwrap_err();
    let first = error.to_string().lines().next().unwrap().to_owned();
    assert_eq!(
        first,
        "jit: a call of `double` was given this argument, and a result lies in its memory; give it a clone of what is used later"
    );
}

#[test]
fn a_scatter_writes_its_base_alone() {
    let cx = context();
    let keep = jit(|kept: &Tensor, at: &Tensor, rows: &Tensor| {
        let kept = kept.index_copy(1, at, rows);
        (kept.sum_axes(1), kept)
    });
    let mut expected = vec![0.0_f32; 2 * 5 * 3];
    let mut given = (
        Tensor::zeros([2, 5, 3], DType::F32, &cx),
        Tensor::from_slice(&[0_i64], 1, &cx),
        Tensor::zeros([2, 1, 3], DType::F32, &cx),
    );
    let place = memory(&given.0);
    for (step, at) in [3_usize, 0, 3, 4].into_iter().enumerate() {
        let rows: Vec<f32> = (0..6).map(|i| (i * (step + 2)) as f32).collect();
        for (i, &row) in rows.iter().enumerate() {
            expected[(i / 3 * 5 + at) * 3 + i % 3] = row;
        }
        given.1 = Tensor::from_slice(&[at as i64], 1, &cx);
        given.2 = Tensor::from_slice(&rows, [2, 1, 3], &cx);
        let (sums, kept) = keep.call_donating((&mut given.0, &mut given.1, &mut given.2));
        assert_eq!(memory(&kept), place);
        assert_eq!(kept.to_vec::<f32>().unwrap(), expected);
        let sum = |at: usize| (0..5).map(|row| expected[(at / 3 * 5 + row) * 3 + at % 3]).sum();
        assert_eq!(
            sums.to_vec::<f32>().unwrap(),
            (0..6).map(sum).collect::<Vec<f32>>()
        );
        given.0 = kept;
    }
}

#[test]
fn what_is_read_after_the_result_is_written_is_not_written() {
    let cx = context();
    // The sum along rows and what is reversed read elsewhere than they write.
    let f = jit(|x: &Tensor, y: &Tensor| {
        let flipped = x.flip([0]) + y;
        let total = x.matmul(&flipped);
        (flipped, total.relu(), y.t().exp())
    });
    let new = |seed: f32| {
        (Tensor::arange(0, 64, 1, &cx).cast(DType::F32) * seed)
            .sin()
            .reshape([8, 8])
    };
    for round in 0..4 {
        let (x, y) = (new(0.37 + round as f32), new(0.11));
        let plain = f.call((&x, &y));
        let mut given = (&x + 0.0, &y + 0.0);
        let donated = f.call_donating((&mut given.0, &mut given.1));
        assert_eq!(
            [&donated.0, &donated.1, &donated.2].map(bits),
            [&plain.0, &plain.1, &plain.2].map(bits)
        );
    }
}

#[test]
fn arguments_may_change_places() {
    let cx = context();
    let f = jit(|a: &Tensor, b: &Tensor, c: &Tensor| (a + 1.0, b * 2.0, c - 3.0));
    let mut given = (
        vector(&[1.0; 9], &cx),
        vector(&[2.0; 9], &cx),
        vector(&[3.0; 9], &cx),
    );
    let mut expected = [1.0_f32, 2.0, 3.0];
    for _ in 0..5 {
        let (a, b, c) = f.call_donating((&mut given.0, &mut given.1, &mut given.2));
        expected = [expected[0] + 1.0, expected[1] * 2.0, expected[2] - 3.0];
        for (tensor, &value) in [&a, &b, &c].into_iter().zip(&expected) {
            assert_eq!(tensor.to_vec::<f32>().unwrap(), [value; 9]);
        }
        given = (c, a, b);
        expected.rotate_right(1);
    }
}

#[test]
fn another_stream_may_still_read() {
    let cx = context();
    let f = jit(|x: &Tensor| x * 3.0);
    let stream = Stream::new(cx.device()).unwrap();
    let mut given = (Tensor::ones([1 << 16], DType::F32, &cx) + 0.0,);
    let mut value = 1.0_f32;
    for _ in 0..20 {
        let seen = {
            let _scope = stream.enter();
            // In a scope nothing is given up.
            let kept = f.call_donating(&mut given.0);
            assert!(given.0.shape().is_ok());
            (&given.0 + 0.0, kept)
        };
        let next = f.call_donating(&mut given.0);
        value *= 3.0;
        assert_eq!(seen.0.to_vec::<f32>().unwrap(), vec![value / 3.0; 1 << 16]);
        assert_eq!(seen.1.to_vec::<f32>().unwrap(), vec![value; 1 << 16]);
        assert_eq!(next.to_vec::<f32>().unwrap(), vec![value; 1 << 16]);
        given.0 = next;
        if value > 1e6 {
            given.0 = Tensor::ones([1 << 16], DType::F32, &cx) + 0.0;
            value = 1.0;
        }
    }
}

#[test]
fn where_memory_is_short_nothing_is_lost() {
    let cx = limited(4 << 20);
    let f = jit(|x: &Tensor| (x * 2.0, Tensor::concat(&[x; 64], 0)));
    let mut given = (vector(&[7.0; 1 << 15], &cx),);
    for _ in 0..3 {
        let (doubled, _) = f.call_donating(&mut given.0);
        let error = doubled.to_vec::<f32>().unwrap_err();
        assert!(
            matches!(error, Error::OutOfMemory(_)) || error.to_string().contains("memory"),
            "{error}"
        );
        assert_eq!(given.0.to_vec::<f32>().unwrap(), [7.0; 1 << 15]);
    }
}

#[test]
fn plain_forms_go_on() {
    let cx = context();
    let f = jit(|x: &Tensor| x * 2.0);
    // A scalar that is in no buffer, what a trace records, an error.
    let mut given = (Tensor::zeros((), DType::F32, &cx),);
    assert_eq!(f.call_donating(&mut given.0).item::<f32>().unwrap(), 0.0);
    let outer = jit(|x: &Tensor| f.call_donating(&mut x.clone()) + 1.0);
    assert_eq!(outer.call(&vector(&[4.0], &cx)).item::<f32>().unwrap(), 9.0);
    let mut given = (vector(&[1.0, 2.0], &cx).reshape([3]),);
    assert!(f.call_donating(&mut given.0).shape().is_err());
}

#[test]
fn random_graphs_have_the_bits_of_plain_calls() {
    let cx = context();
    let (mut donated, mut kept) = (0, 0);
    for seed in 0..cases(300) {
        let Some(graph) = graph(seed) else { continue };
        let f = jit(|arguments: &Vec<Tensor>| replay(&graph, arguments));
        let input = |(number, &input): (usize, &NodeId)| {
            let shape = *graph.shape(input);
            let numbers = Tensor::arange(0, shape.elements() as i64, 1, &cx).cast(DType::F32);
            (numbers * (0.7 + number as f64)).sin().reshape(&*shape)
        };
        let arguments: Vec<Tensor> = graph.inputs().iter().enumerate().map(input).collect();
        let plain = f.call(&arguments);
        // Twice, since the second run finds other memory bound.
        for _ in 0..2 {
            let mut given = (arguments.iter().map(|argument| argument + 0.0).collect(),);
            let results = f.call_donating(&mut given.0);
            for (plain, result) in plain.iter().zip(&results) {
                assert_eq!(bits(plain), bits(result), "seed {seed}");
            }
            let gone = given
                .0
                .iter()
                .filter(|argument| argument.shape().is_err())
                .count();
            donated += gone;
            kept += given.0.len() - gone;
        }
    }
    assert!(donated > 50 && kept > 50, "{donated} given up, {kept} kept");
}
