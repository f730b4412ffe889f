//! Initial values of parameters.
//!
//! They are drawn on the host from the context's key ([`Context::next_key`]), so that they are the same on every device.

use thalweg::hal::Status;
use thalweg::random::Mt19937;
use thalweg::{Context, Error, Result, Shape, Tensor};

/// How the elements of a parameter are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Init {
    /// One number everywhere.
    Constant(f64),
    /// Between two numbers, all equally likely.
    Uniform(f64, f64),
    /// Mean and standard deviation.
    Normal(f64, f64),
    /// Mean and standard deviation, drawn again beyond two deviations.
    TruncatedNormal(f64, f64),
    /// Uniform with variance `2 / (fan_in + fan_out)` (Glorot and Bengio, AISTATS 2010).
    XavierUniform,
    /// Normal with that variance.
    XavierNormal,
    /// Uniform with variance `2 / fan_in` (He et al., ICCV 2015).
    KaimingUniform,
    /// Normal with that variance.
    KaimingNormal,
    /// Uniform within `1 / sqrt(fan_in)` either way, as PyTorch draws weights and biases of its layers.
    FanIn,
    /// Normal with variance `1 / fan_in` (LeCun et al., 1998).
    LecunNormal,
    /// A random orthogonal matrix of the rows, or of the columns where there are more rows (Saxe et al., ICLR 2014).
    Orthogonal,
}

/// How many inputs an output has, and how many outputs an input has: weights are `[out, in, taps..]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fans {
    /// Inputs of one output.
    pub fan_in: usize,
    /// Outputs of one input.
    pub fan_out: usize,
}

impl Fans {
    /// The fans of a weight of this shape.
    pub fn of(shape: &Shape) -> Fans {
        let taps: usize = shape.iter().skip(2).product();
        let at = |axis: usize| shape.get(axis).copied().unwrap_or(1) * taps;
        match shape.len() {
            0 | 1 => Fans {
                fan_in: at(0),
                fan_out: at(0),
            },
            _ => Fans {
                fan_in: at(1),
                fan_out: at(0),
            },
        }
    }
}

impl Init {
    /// An f32 tensor of this shape.
    ///
    /// # Errors
    /// A shape of too many axes; memory does not suffice.
    pub fn tensor(self, shape: &[usize], cx: &Context) -> Result<Tensor> {
        let shape = Shape::new(shape)?;
        self.with_fans(&shape, Fans::of(&shape), cx)
    }

    /// As [`Init::tensor`], with other fans than the shape's own: those of the weight that a bias belongs to.
    ///
    /// # Errors
    /// As [`Init::tensor`].
    pub fn with_fans(self, shape: &Shape, fans: Fans, cx: &Context) -> Result<Tensor> {
        let key = cx.next_key();
        let mut draw = Draw(Mt19937::from_key(&[key as u32, (key >> 32) as u32]));
        let count = shape.elements();
        // A shape that no memory holds is an error and not the end of the process.
        (Vec::<f32>::new().try_reserve_exact(count)).map_err(|failure| {
            let message = format!("{count} elements on the host: {failure}");
            Error::backend(Status::OutOfMemory, message).in_op("init")
        })?;
        let fan_in = fans.fan_in.max(1) as f64;
        let both = (fans.fan_in + fans.fan_out).max(1) as f64;
        let bound = |variance: f64| (3.0 * variance).sqrt();
        let data: Vec<f32> = match self {
            Init::Constant(value) => vec![value as f32; count],
            Init::Uniform(low, high) => draw.uniform(count, low, high),
            Init::Normal(mean, deviation) => draw.normal(count, mean, deviation, f64::INFINITY),
            Init::TruncatedNormal(mean, deviation) => draw.normal(count, mean, deviation, 2.0),
            Init::XavierUniform => draw.uniform(count, -bound(2.0 / both), bound(2.0 / both)),
            Init::XavierNormal => draw.normal(count, 0.0, (2.0 / both).sqrt(), f64::INFINITY),
            Init::KaimingUniform => draw.uniform(count, -bound(2.0 / fan_in), bound(2.0 / fan_in)),
            Init::KaimingNormal => draw.normal(count, 0.0, (2.0 / fan_in).sqrt(), f64::INFINITY),
            Init::FanIn => draw.uniform(count, -(1.0 / fan_in).sqrt(), (1.0 / fan_in).sqrt()),
            Init::LecunNormal => draw.normal(count, 0.0, (1.0 / fan_in).sqrt(), f64::INFINITY),
            Init::Orthogonal => draw.orthogonal(shape),
        };
        Tensor::from_vec(data, *shape, cx).ok()
    }
}

struct Draw(Mt19937);

impl Draw {
    fn uniform(&mut self, count: usize, low: f64, high: f64) -> Vec<f32> {
        (0..count)
            .map(|_| (low + (high - low) * self.0.random()) as f32)
            .collect()
    }

    /// The polar method of Marsaglia (1964), without the second number.
    fn one_normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.0.random() - 1.0, 2.0 * self.0.random() - 1.0);
            let square = u * u + v * v;
            if square > 0.0 && square < 1.0 {
                return u * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }

    fn normal(&mut self, count: usize, mean: f64, deviation: f64, most: f64) -> Vec<f32> {
        let mut next = || loop {
            let value = self.one_normal();
            if value.abs() <= most {
                return (mean + deviation * value) as f32;
            }
        };
        (0..count).map(|_| next()).collect()
    }

    /// Gram-Schmidt, twice, on normal vectors.
    fn orthogonal(&mut self, shape: &Shape) -> Vec<f32> {
        let rows = shape.first().copied().unwrap_or(1);
        let columns = shape.elements() / rows.max(1);
        let (count, length) = (rows.min(columns), rows.max(columns));
        let mut vectors: Vec<Vec<f64>> = Vec::new();
        while vectors.len() < count {
            let mut vector: Vec<f64> = (0..length).map(|_| self.one_normal()).collect();
            for _ in 0..2 {
                for other in &vectors {
                    let along: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                    vector.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
                }
            }
            let norm = vector.iter().map(|a| a * a).sum::<f64>().sqrt();
            if norm > 1e-6 {
                vector.iter_mut().for_each(|a| *a /= norm);
                vectors.push(vector);
            }
        }
        let at = |row: usize, column: usize| {
            if rows <= columns {
                vectors[row][column]
            } else {
                vectors[column][row]
            }
        };
        (0..rows * columns)
            .map(|i| at(i / columns, i % columns) as f32)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_their_moments_and_repeat() {
        let cx = Context::new("cpu").unwrap();
        let draw = |init: Init| {
            cx.set_seed(7);
            init.tensor(&[200, 300], &cx).unwrap().to_vec::<f32>().unwrap()
        };
        let cases = [
            (Init::Normal(1.0, 0.5), 1.0, 0.25),
            (Init::Uniform(-1.0, 3.0), 1.0, 16.0 / 12.0),
            (Init::XavierUniform, 0.0, 2.0 / 500.0),
            (Init::KaimingNormal, 0.0, 2.0 / 300.0),
            (Init::FanIn, 0.0, 1.0 / 900.0),
            (Init::LecunNormal, 0.0, 1.0 / 300.0),
        ];
        for (init, mean, variance) in cases {
            let data = draw(init);
            let count = data.len() as f64;
            let got = data.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
            let spread = data.iter().map(|&v| (f64::from(v) - got).powi(2)).sum::<f64>() / count;
            assert!(
                (got - mean).abs() < 0.02 && (spread / variance - 1.0).abs() < 0.03,
                "{init:?} {got} {spread}"
            );
            assert_eq!(data, draw(init), "{init:?}");
        }
        let truncated = draw(Init::TruncatedNormal(0.0, 1.0));
        assert!(truncated.iter().all(|v| v.abs() <= 2.0) && truncated.iter().any(|v| v.abs() > 1.9));
    }

    #[test]
    fn a_shape_that_no_memory_holds_is_an_error() {
        let cx = Context::new("cpu").unwrap();
        for init in [Init::Constant(0.0), Init::FanIn, Init::Orthogonal] {
            let error = init.tensor(&[1 << 30, 1 << 29], &cx).unwrap_err();
            assert_eq!(error.status(), Some(Status::OutOfMemory), "{error}");
        }
    }

    #[test]
    fn orthogonal_rows_are_orthonormal() {
        let cx = Context::new("cpu").unwrap();
        for (rows, columns) in [(5, 9), (9, 5)] {
            let q = Init::Orthogonal
                .tensor(&[rows, columns], &cx)
                .unwrap()
                .to_vec::<f32>()
                .unwrap();
            let count = rows.min(columns);
            for a in 0..count {
                for b in 0..count {
                    let dot: f32 = (0..rows.max(columns))
                        .map(|i| {
                            if rows < columns {
                                q[a * columns + i] * q[b * columns + i]
                            } else {
                                q[i * columns + a] * q[i * columns + b]
                            }
                        })
                        .sum();
                    assert!((dot - f32::from(u8::from(a == b))).abs() < 1e-5);
                }
            }
        }
    }
}
