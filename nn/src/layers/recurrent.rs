//! Recurrent layers, unrolled over the positions of their input.

use crate::init::Init;
use crate::{Layer, Module, Parameter};
use thalweg::{Context, DType, Result, Tensor};

/// Weights of one recurrent layer with `gates` parts.
#[derive(Clone, Debug, Module)]
struct Cell {
    /// `[gates * hidden, inputs]`.
    input_weight: Parameter,
    /// `[gates * hidden, hidden]`.
    hidden_weight: Parameter,
    /// `[gates * hidden]`.
    input_bias: Parameter,
    /// `[gates * hidden]`.
    hidden_bias: Parameter,
}

impl Cell {
    fn new(gates: usize, inputs: usize, hidden: usize, cx: &Context) -> Result<Cell> {
        let bound = 1.0 / (hidden.max(1) as f64).sqrt();
        let draw = |shape: &[usize]| Init::Uniform(-bound, bound).tensor(shape, cx).map(Parameter::new);
        Ok(Cell {
            input_weight: draw(&[gates * hidden, inputs])?,
            hidden_weight: draw(&[gates * hidden, hidden])?,
            input_bias: draw(&[gates * hidden])?,
            hidden_bias: draw(&[gates * hidden])?,
        })
    }
}

/// Runs `step` over the positions of x `[b, positions, inputs]` and stacks what it returns to `[b, positions, hidden]`.
fn unroll(x: &Tensor, step: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
    let Ok(shape) = x.shape() else { return x.clone() };
    if shape.len() != 3 {
        // The product below says what is wrong with the shape.
        return step(x);
    }
    let outputs: Vec<Tensor> = (0..shape[1]).map(|at| step(&x.select(1, at as i64))).collect();
    let outputs: Vec<&Tensor> = outputs.iter().collect();
    Tensor::stack(&outputs, 1)
}

/// The state before the first position: zeros `[b, hidden]`.
fn initial(x: &Tensor, hidden: usize) -> Tensor {
    match (x.shape(), x.dtype(), x.context()) {
        (Ok(shape), Ok(dtype), Some(cx)) if !shape.is_empty() => Tensor::zeros([shape[0], hidden], dtype, cx),
        (_, _, Some(cx)) => Tensor::zeros([1, hidden], DType::F32, cx),
        _ => x.clone(),
    }
}

/// Long short-term memory (Hochreiter and Schmidhuber 1997; gates i, f, g, o as in PyTorch): `[b, positions, inputs]` to
/// `[b, positions, hidden]`.
#[derive(Clone, Debug, Module)]
pub struct Lstm {
    cell: Cell,
    /// Width of the state.
    pub hidden: usize,
}

impl Lstm {
    /// A layer with a state of width `hidden`.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(inputs: usize, hidden: usize, cx: &Context) -> Result<Lstm> {
        Ok(Lstm {
            cell: Cell::new(4, inputs, hidden, cx)?,
            hidden,
        })
    }
}

impl Layer for Lstm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let cell = &self.cell;
        let bias = cell.input_bias.value() + cell.hidden_bias.value();
        let (mut h, mut c) = (initial(x, self.hidden), initial(x, self.hidden));
        unroll(x, &mut |x| {
            let gates = x.linear(&cell.input_weight, &bias) + h.linear(&cell.hidden_weight, None);
            let gate = |at: usize| gates.narrow(-1, (at * self.hidden) as i64, self.hidden);
            let kept = gate(1).sigmoid() * &c;
            c = kept + gate(0).sigmoid() * gate(2).tanh();
            h = gate(3).sigmoid() * c.tanh();
            h.clone()
        })
    }
}

/// Gated recurrent unit (Cho et al., EMNLP 2014; gates r, z, n as in PyTorch): `[b, positions, inputs]` to
/// `[b, positions, hidden]`.
#[derive(Clone, Debug, Module)]
pub struct Gru {
    cell: Cell,
    /// Width of the state.
    pub hidden: usize,
}

impl Gru {
    /// A layer with a state of width `hidden`.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(inputs: usize, hidden: usize, cx: &Context) -> Result<Gru> {
        Ok(Gru {
            cell: Cell::new(3, inputs, hidden, cx)?,
            hidden,
        })
    }
}

impl Layer for Gru {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let cell = &self.cell;
        let mut h = initial(x, self.hidden);
        unroll(x, &mut |x| {
            let from_x = x.linear(&cell.input_weight, cell.input_bias.value());
            let from_h = h.linear(&cell.hidden_weight, cell.hidden_bias.value());
            let part = |of: &Tensor, at: usize| of.narrow(-1, (at * self.hidden) as i64, self.hidden);
            let reset = (part(&from_x, 0) + part(&from_h, 0)).sigmoid();
            let update = (part(&from_x, 1) + part(&from_h, 1)).sigmoid();
            let new = (part(&from_x, 2) + reset * part(&from_h, 2)).tanh();
            h = (1.0 - &update) * new + update * &h;
            h.clone()
        })
    }
}
