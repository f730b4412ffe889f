//! Dropout.

use crate::{Layer, Module, State, Training};
use thalweg::observe::parts;
use thalweg::random::Key;
use thalweg::{Context, Tensor};

/// Sets elements to 0 with probability `p` in training and divides the others by `1 - p` (Srivastava et al., JMLR 2014); otherwise
/// the output is the input.
///
/// The key of the next pass is state of the layer: it is saved with the network, and the same seed of the context gives the same
/// run.
///
/// ```
/// use thalweg::{Context, DType, Tensor};
/// use thalweg_nn::{Dropout, Layer, Module};
/// let cx = Context::new("cpu")?;
/// let mut layer = Dropout::new(0.5, &cx);
/// let x = Tensor::ones([1000], DType::F32, &cx);
/// let kept = layer.forward(&x).sum().item::<f32>()? / 2.0;
/// assert!((400.0..600.0).contains(&kept));
/// layer.set_training(false);
/// assert_eq!(layer.forward(&x).sum().item::<f32>()?, 1000.0);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Dropout {
    /// Probability of a 0.
    pub p: f64,
    key: State,
    training: Training,
}

impl Dropout {
    /// A layer that draws with the next key of the context.
    pub fn new(p: f64, cx: &Context) -> Dropout {
        Dropout {
            p,
            key: State::new(Tensor::scalar(cx.next_key(), cx)),
            training: Training::default(),
        }
    }

    /// The key of this pass, if there is anything to drop; the next one is another.
    #[track_caller]
    pub fn draw(&self) -> Option<Key> {
        if !self.training.0 || self.p == 0.0 {
            return None;
        }
        let _scope = parts::enter(self);
        let key = self.key.value();
        let drawn = Key::from_tensor(&key);
        self.key.set(&key + 1);
        Some(drawn)
    }
}

impl Layer for Dropout {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let _scope = parts::enter(self);
        match self.draw() {
            Some(key) => x.dropout(self.p, &key),
            None => x.clone(),
        }
    }
}
