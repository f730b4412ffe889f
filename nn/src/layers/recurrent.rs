//! Recurrent layers, unrolled over the positions of their input.

use crate::init::Init;
use crate::{Layer, Module, Parameter};
use thalweg::observe::parts;
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

/// Runs `step` over the positions of x `[b, positions, ..]` and stacks what it returns to `[b, positions, hidden]`.
fn unroll(x: &Tensor, step: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
    let Ok(shape) = x.shape() else { return x.clone() };
    if shape.len() != 3 {
        // Refused: it says which axes there are.
        return x.permute([0, 1, 2]);
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

/// Part `at` of gates that lie beside each other.
fn part(gates: &Tensor, at: usize, hidden: usize) -> Tensor {
    gates.narrow(-1, (at * hidden) as i64, hidden)
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

    /// Outputs, and output and memory `[b, hidden]` behind the last position, for x that follows on such a state; none is zeros.
    ///
    /// ```
    /// use thalweg::{Context, DType, Tensor};
    /// use thalweg_nn::{Layer, Lstm};
    /// let cx = Context::new("cpu")?;
    /// let lstm = Lstm::new(3, 4, &cx)?;
    /// let x = Tensor::randn([2, 6, 3], DType::F32, &cx);
    /// let (_, state) = lstm.run(&x.narrow(1, 0, 4), None);
    /// let (rest, _) = lstm.run(&x.narrow(1, 4, 2), Some(&state));
    /// assert_eq!(rest.to_vec::<f32>()?, lstm.forward(&x).narrow(1, 4, 2).to_vec::<f32>()?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn run(&self, x: &Tensor, state: Option<&(Tensor, Tensor)>) -> (Tensor, (Tensor, Tensor)) {
        let _scope = parts::enter(self);
        let (cell, hidden) = (&self.cell, self.hidden);
        let bias = cell.input_bias.value() + cell.hidden_bias.value();
        let zeros = || (initial(x, hidden), initial(x, hidden));
        let (mut h, mut c) = state.cloned().unwrap_or_else(zeros);
        let outputs = unroll(&x.linear(&cell.input_weight, &bias), &mut |x| {
            let gates = x + h.linear(&cell.hidden_weight, None);
            let gate = |at| part(&gates, at, hidden);
            c = gate(1).sigmoid() * &c + gate(0).sigmoid() * gate(2).tanh();
            h = gate(3).sigmoid() * c.tanh();
            h.clone()
        });
        (outputs, (h, c))
    }
}

impl Layer for Lstm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.run(x, None).0
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

    /// Outputs, and the state `[b, hidden]` behind the last position, for x that follows on such a state; none is zeros.
    #[track_caller]
    pub fn run(&self, x: &Tensor, state: Option<&Tensor>) -> (Tensor, Tensor) {
        let _scope = parts::enter(self);
        let (cell, hidden) = (&self.cell, self.hidden);
        let mut h = state.cloned().unwrap_or_else(|| initial(x, hidden));
        let inputs = x.linear(&cell.input_weight, cell.input_bias.value());
        let outputs = unroll(&inputs, &mut |x| {
            let from_h = h.linear(&cell.hidden_weight, cell.hidden_bias.value());
            let both = |at| part(x, at, hidden) + part(&from_h, at, hidden);
            let (reset, update) = (both(0).sigmoid(), both(1).sigmoid());
            let new = (part(x, 2, hidden) + reset * part(&from_h, 2, hidden)).tanh();
            h = (1.0 - &update) * new + update * &h;
            h.clone()
        });
        (outputs, h)
    }
}

impl Layer for Gru {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.run(x, None).0
    }
}
