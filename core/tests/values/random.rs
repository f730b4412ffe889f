//! Random programs and watch lists, compared with eager values that nobody watched.

use super::{bits, taken, watch};
use std::collections::BTreeMap;
use thalweg::observe::{Port, Selector};
use thalweg::random::Mt19937;
use thalweg::{Context, Tensor, jit};

/// A line of a program: an op on earlier values.
#[derive(Clone, Copy, Debug)]
struct Line {
    op: u8,
    x: usize,
    y: usize,
}

/// A program over matrices of one shape: two arguments, then the lines.
struct Program {
    lines: Vec<Line>,
    outputs: Vec<usize>,
}

struct Dice(Mt19937);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0.next_u32() as usize % end
    }
}

const OPS: u8 = 16;

/// Whether a line moves nothing.
fn is_view(op: u8) -> bool {
    op == 14
}

fn is_binary(op: u8) -> bool {
    op < 5
}

fn apply(line: Line, values: &[Tensor]) -> Tensor {
    let (x, y) = (&values[line.x], &values[line.y]);
    match line.op {
        0 => x + y,
        1 => x - y,
        2 => x * y,
        3 => x.maximum(y),
        4 => x.matmul(y),
        5 => x.tanh(),
        6 => x.exp(),
        7 => x.relu(),
        8 => x.softmax(1),
        9 => x.sigmoid(),
        10 => x.square(),
        11 => x * 0.5,
        12 => x.cumsum(0),
        13 => x.abs(),
        14 => x.t(),
        _ => -x,
    }
}

impl Program {
    fn new(dice: &mut Dice) -> Program {
        let count = 2 + dice.below(24);
        let lines: Vec<Line> = (0..count)
            .map(|at| Line {
                op: dice.below(usize::from(OPS)) as u8,
                x: (at + 2).saturating_sub(1 + dice.below(4)),
                y: dice.below(at + 2),
            })
            .collect();
        let outputs = (0..1 + dice.below(2)).map(|_| 2 + dice.below(count)).collect();
        Program { lines, outputs }
    }

    /// All values: arguments and lines.
    fn run(&self, arguments: &[Tensor]) -> Vec<Tensor> {
        let mut values = arguments.to_vec();
        for &line in &self.lines {
            let value = apply(line, &values);
            values.push(value);
        }
        values
    }

    /// Which values the outputs need.
    fn live(&self) -> Vec<bool> {
        let mut live = vec![false; 2 + self.lines.len()];
        self.outputs.iter().for_each(|&output| live[output] = true);
        for (at, line) in self.lines.iter().enumerate().rev() {
            if live[at + 2] {
                live[line.x] = true;
                live[line.y] |= is_binary(line.op);
            }
        }
        live
    }
}

/// The number at the end of a name.
fn number(name: &str) -> usize {
    name.rsplit_once("-op").unwrap().1.parse().unwrap()
}

fn compare(programs: usize, seed: u32) {
    let cx = Context::new("cpu").unwrap();
    let mut dice = Dice(Mt19937::new(seed));
    for _ in 0..programs {
        let program = Program::new(&mut dice);
        let side = 1 + dice.below(9);
        let mut argument = || {
            let data: Vec<f32> = (0..side * side)
                .map(|_| dice.below(2000) as f32 / 1000.0 - 1.0)
                .collect();
            Tensor::from_slice(&data, [side, side], &cx)
        };
        let arguments = vec![argument(), argument()];
        let plain: Vec<Vec<u64>> = program.run(&arguments).iter().map(bits).collect();
        let compiled = jit(|arguments: &Vec<Tensor>| {
            let values = program.run(arguments);
            program
                .outputs
                .iter()
                .map(|&at| values[at].clone())
                .collect::<Vec<_>>()
        });
        let results = |outputs: Vec<Tensor>| outputs.iter().map(bits).collect::<Vec<_>>();
        let before = results(compiled.call(&arguments));
        let mask = dice.0.next_u32();
        let limit = [0, 500, 1 << 20][dice.below(3)];
        let listed = move |number: usize| mask >> (number % 32) & 1 == 1;
        let selector = Selector::by(move |call| listed(call.number as usize)).memory_limit(limit);
        let (watching, seen) = watch(&cx, selector);
        let watched = results(compiled.call(&arguments));
        drop(watching);
        let (delivered, after) = (taken(&seen), results(compiled.call(&arguments)));
        assert_eq!((&before, &before), (&watched, &after), "{:?}", program.lines);
        let by_number: BTreeMap<usize, &Vec<u64>> = (delivered.iter())
            .inspect(|seen| assert_eq!(seen.port, Port::Output(0)))
            .map(|seen| (number(&seen.name), &seen.bits))
            .collect();
        assert_eq!(by_number.len(), delivered.len(), "each once: {delivered:?}");
        let live = program.live();
        let wanted: BTreeMap<usize, &Vec<u64>> = (program.lines.iter().enumerate())
            .filter(|(at, line)| live[at + 2] && !is_view(line.op) && listed(at + 1))
            .map(|(at, _)| (at + 1, &plain[at + 2]))
            .collect();
        assert_eq!(by_number, wanted, "{:?}", program.lines);
    }
}

#[test]
fn watched_values_of_random_programs_are_the_eager_ones() {
    compare(300, 1);
}

#[test]
#[ignore = "takes minutes: `cargo nextest run -p thalweg --test values --run-ignored only`"]
fn watched_values_of_ten_thousand_random_programs_are_the_eager_ones() {
    compare(10_000, 2);
}
