//! Random programs over matrices of one shape.

use crate::Result;
use thalweg::hal::Stream;
use thalweg::random::Mt19937;
use thalweg::{Context, DType, Tensor, jit};

/// Random numbers that are the same for the same seed.
pub(crate) struct Dice(Mt19937);

impl Dice {
    pub(crate) fn new(seed: u32) -> Dice {
        Dice(Mt19937::new(seed))
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.next_u32() as usize % end
    }

    pub(crate) fn seed(&mut self) -> u32 {
        self.0.next_u32()
    }
}

/// An op on earlier values.
#[derive(Clone, Copy, Debug)]
struct Line {
    op: usize,
    x: usize,
    y: usize,
}

/// Two arguments, then lines. The last value is the result.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    side: usize,
    arguments: Vec<f64>,
    lines: Vec<Line>,
}

const OPS: usize = 16;

/// Values stay within -1 and 1, so that errors of rounding stay small.
fn apply(line: Line, values: &[Tensor], side: usize) -> Tensor {
    let (x, y) = (&values[line.x], &values[line.y]);
    match line.op {
        0 => (x + y) * 0.5,
        1 => (x - y) * 0.5,
        2 => x * y,
        3 => x.maximum(y),
        4 => x.matmul(y) * (1.0 / side as f64),
        5 => x.tanh(),
        6 => x.sin(),
        7 => x.relu(),
        8 => x.softmax(1),
        9 => x.sigmoid(),
        10 => x.square(),
        11 => x.cumsum(0) * (1.0 / side as f64),
        12 => x.abs(),
        13 => x.t(),
        14 => x * 0.5 - x.sum_axes(1).unsqueeze(1) * (0.5 / side as f64),
        _ => -x,
    }
}

impl Program {
    pub(crate) fn new(dice: &mut Dice) -> Program {
        let side = match dice.below(16) {
            // Large enough for several threads.
            0 => 150,
            _ => 1 + dice.below(32),
        };
        let count = 2 + dice.below(24);
        let line = |at: usize, dice: &mut Dice| Line {
            op: dice.below(OPS),
            x: (at + 2).saturating_sub(1 + dice.below(4)),
            y: dice.below(at + 2),
        };
        let lines = (0..count).map(|at| line(at, dice)).collect();
        let arguments = (0..2 * side * side)
            .map(|_| dice.below(2001) as f64 / 1000.0 - 1.0)
            .collect();
        Program {
            side,
            arguments,
            lines,
        }
    }

    /// Ops of a run.
    pub(crate) fn ops(&self) -> u64 {
        self.lines.len() as u64
    }

    fn arguments(&self, cx: &Context, dtype: DType) -> Vec<Tensor> {
        self.arguments
            .chunks(self.side * self.side)
            .map(|part| Tensor::from_slice(part, [self.side, self.side], cx).cast(dtype))
            .collect()
    }

    /// The last value, each line on the stream of its turn.
    fn run(&self, mut values: Vec<Tensor>, streams: &[Stream]) -> Tensor {
        for (at, &line) in self.lines.iter().enumerate() {
            let _on = (!streams.is_empty()).then(|| streams[at % streams.len()].enter());
            let value = apply(line, &values, self.side);
            values.push(value);
        }
        values.swap_remove(values.len() - 1)
    }

    /// Op by op, as the mode of the context says.
    pub(crate) fn result(&self, cx: &Context, dtype: DType) -> Result<Vec<f64>> {
        self.result_on(cx, dtype, &[])
    }

    /// As [`result`](Program::result), with lines on several streams.
    pub(crate) fn result_on(&self, cx: &Context, dtype: DType, streams: &[Stream]) -> Result<Vec<f64>> {
        read(&self.run(self.arguments(cx, dtype), streams))
    }

    /// As one compiled function.
    pub(crate) fn compiled(&self, cx: &Context, dtype: DType) -> Result<Vec<f64>> {
        let function = jit(|arguments: &Vec<Tensor>| self.run(arguments.clone(), &[]));
        read(&function.call(&self.arguments(cx, dtype)))
    }
}

fn read(value: &Tensor) -> Result<Vec<f64>> {
    Ok(value.cast(DType::F64).to_vec::<f64>()?)
}
