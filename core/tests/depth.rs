//! Graphs that are long or deep: no recursion along them, no memory that grows with their square, and no text of a few lines that
//! stands for more work than any machine does.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg::graph::{Body, Control, Graph, Op, Type};
use thalweg::tensor::tag::OpTag;
use thalweg::{Context, DType, Mode, Shape, Tensor, jit};

fn recorded() -> Context {
    Context::builder()
        .device_target("cpu")
        .mode(Mode::Graph)
        .build()
        .unwrap()
}

/// Runs on a stack of 512 KiB, as threads of servers have.
fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(body)
        .unwrap()
        .join()
        .unwrap();
}

const VIEWS: usize = 20_000;

fn shorter(x: &Tensor) -> Tensor {
    (0..VIEWS).fold(x.clone(), |x, _| x.index(1..))
}

#[test]
fn chains_of_views_need_no_stack() {
    on_a_small_stack(|| {
        let cx = recorded();
        let numbers: Vec<i64> = (0..VIEWS as i64 + 3).collect();
        let last = &numbers[VIEWS..];
        let x = Tensor::from_slice(&numbers, numbers.len(), &cx);
        assert_eq!(shorter(&x).to_vec::<i64>().unwrap(), last);
        assert_eq!(jit(shorter).call(&x).to_vec::<i64>().unwrap(), last);
        // Inside a kernel, and with an expression that looks through them.
        let twice = (shorter(&x) * 2 + shorter(&(&x + 1))).to_vec::<i64>().unwrap();
        let wanted: Vec<i64> = last.iter().map(|x| 3 * x + 1).collect();
        assert_eq!(twice, wanted);
        // Reshapes of what lies apart are no views: each needs a buffer.
        let mut y = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], &cx);
        for _ in 0..VIEWS / 20 {
            y = y.transpose(0, 1).reshape([2, 3]);
        }
        let mut at = [0, 1, 2, 3, 4, 5];
        for _ in 0..VIEWS / 20 {
            at = [at[0], at[3], at[1], at[4], at[2], at[5]];
        }
        assert_eq!(y.to_vec::<f32>().unwrap(), at.map(|at| at as f32 + 1.0));
    });
}

#[test]
fn views_that_are_all_held_are_walked_once() {
    on_a_small_stack(|| {
        let cx = recorded();
        let x = Tensor::from_slice(&(0..VIEWS as i64 + 3).collect::<Vec<_>>(), VIEWS + 3, &cx);
        let mut held = vec![x];
        for at in 0..VIEWS {
            held.push(held[at].index(1..));
        }
        let begun = Instant::now();
        assert_eq!(
            held[VIEWS].to_vec::<i64>().unwrap(),
            [VIEWS as i64, VIEWS as i64 + 1, VIEWS as i64 + 2]
        );
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        assert_eq!(held[VIEWS / 2].item_at(0), VIEWS as i64 / 2);
    });
}

trait ItemAt {
    fn item_at(&self, at: usize) -> i64;
}

impl ItemAt for Tensor {
    fn item_at(&self, at: usize) -> i64 {
        self.to_vec::<i64>().unwrap()[at]
    }
}

/// Most memory that this process has had, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let number: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    number << 10
}

/// A row of bits for each op was 1.2 GiB for 100,000 of them.
#[test]
fn a_hundred_thousand_recorded_ops_need_memory_for_each_of_them() {
    const OPS: i64 = 100_000;
    on_a_small_stack(|| {
        let cx = recorded();
        let before = peak();
        let mut x = Tensor::from_slice(&[0_i64, 1], 2, &cx);
        for at in 0..OPS {
            x += at % 3;
        }
        let sum: i64 = (0..OPS).map(|at| at % 3).sum();
        assert_eq!(x.to_vec::<i64>().unwrap(), [sum, sum + 1]);
        let grown = peak() - before;
        assert!(grown < 700 << 20, "{} MiB", grown >> 20);
    });
}

/// `@0` has one op, and each further graph calls the one before twice.
fn doubling(levels: usize) -> String {
    let mut text = "graph @0\n%0: f32[2] = input\n%1: f32[2] = neg %0\nreturn %1\n".to_owned();
    for level in 1..=levels {
        let name = if level == levels {
            "main".to_owned()
        } else {
            format!("@{level}")
        };
        let before = level - 1;
        let _ = write!(
            text,
            "graph {name}\n%0: f32[2] = input\n%1: token = call %0 body=@{before}\n%2: f32[2] = result %1 index=0\n\
             %3: token = call %2 body=@{before}\n%4: f32[2] = result %3 index=0\nreturn %4\n"
        );
    }
    text
}

#[test]
fn a_text_that_unrolls_without_end_is_refused() {
    let x = Tensor::from_slice(&[1.0_f32, -2.0], 2, &Context::new("cpu").unwrap());
    let graph = Graph::parse(&doubling(6)).unwrap();
    assert_eq!(graph.call(&[x]).unwrap()[0].to_vec::<f32>().unwrap(), [1.0, -2.0]);
    for levels in [20, 31] {
        let error = Graph::parse(&doubling(levels)).unwrap_err().to_string();
        assert!(
            error.contains("nodes, each as often as it is named; at most 131072 are possible"),
            "{error}"
        );
    }
}

#[test]
fn graphs_in_graphs_have_a_depth() {
    let ty = Type::new(Shape::new(&[2]).unwrap(), DType::F32);
    let nested = |levels: usize| {
        let mut graph = Graph::new();
        let x = graph.input(ty);
        graph.output(x);
        for _ in 0..levels {
            let body = Body::new(std::mem::take(&mut graph));
            let x = graph.input(ty);
            let call = graph.push(Op::Control(Arc::new(Control::Call { body })), &[x], OpTag::NONE)?;
            let result = graph.push(Op::Result { index: 0, ty }, &[call], OpTag::NONE)?;
            graph.output(result);
        }
        Ok(graph)
    };
    let x = Tensor::from_slice(&[1.0_f32, -2.0], 2, &Context::new("cpu").unwrap());
    let called = nested(32).map_err(|refusal: thalweg::tensor::failure::Refusal| refusal.message);
    assert_eq!(
        called.unwrap().call(&[x]).unwrap()[0].to_vec::<f32>().unwrap(),
        [1.0, -2.0]
    );
    assert_eq!(
        nested(33).unwrap_err().message,
        "graphs lie in graphs more than 32 deep"
    );
}
