//! Products of few rows, and one token of a decoder as Llama (Touvron et al., 2023), which consists of them.

use super::Survey;
use std::cell::RefCell;
use thalweg::ops::AttentionOptions;
use thalweg::{Context, DType, Result, Tensor, jit};
use thalweg_nn::{Dense, Layer as _, QuantizedDense};

const WIDTH: usize = 512;
const HEADS: usize = 8;
const KEPT_HEADS: usize = 2;
const HEAD: usize = WIDTH / HEADS;
const INNER: usize = 1376;
const LAYERS: usize = 8;
const WORDS: usize = 32000;
const POSITIONS: usize = 1024;
const EPSILON: f64 = 1e-5;

/// Keys and values, each `[KEPT_HEADS, 1, POSITIONS, HEAD]`, for each layer.
type Kept = Vec<[Tensor; 2]>;

/// Its weights, and what positions are turned by.
struct Decoder {
    words: Tensor,
    turns: [Tensor; 2],
    places: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    scores: Tensor,
}

/// Matrices are `[outputs, inputs]`.
struct Layer {
    norms: [Tensor; 2],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

fn numbers(shape: &[usize], dtype: DType, cx: &Context) -> Tensor {
    ((Tensor::rand(shape, DType::F32, cx) - 0.5) * 0.05).cast(dtype)
}

impl Decoder {
    /// With random weights.
    fn new(dtype: DType, cx: &Context) -> Decoder {
        let new = |shape: &[usize]| numbers(shape, dtype, cx);
        let kept = KEPT_HEADS * HEAD;
        let layer = || Layer {
            norms: [new(&[WIDTH]), new(&[WIDTH])],
            query: new(&[WIDTH, WIDTH]),
            key: new(&[kept, WIDTH]),
            value: new(&[kept, WIDTH]),
            output: new(&[WIDTH, WIDTH]),
            gate: new(&[INNER, WIDTH]),
            up: new(&[INNER, WIDTH]),
            down: new(&[WIDTH, INNER]),
        };
        Decoder {
            words: new(&[WORDS, WIDTH]),
            turns: [new(&[POSITIONS, HEAD]), new(&[POSITIONS, HEAD])],
            places: Tensor::arange(0, POSITIONS as i64, 1, cx),
            layers: (0..LAYERS).map(|_| layer()).collect(),
            norm: new(&[WIDTH]),
            scores: new(&[WORDS, WIDTH]),
        }
    }

    /// Keys and values of as many tokens as it has positions.
    fn kept(dtype: DType, cx: &Context) -> Kept {
        let new = || numbers(&[KEPT_HEADS, 1, POSITIONS, HEAD], dtype, cx);
        (0..LAYERS).map(|_| [new(), new()]).collect()
    }

    /// The scores of the words after a word at a position, each i64 `[1]`, and what is kept then.
    fn step(&self, word: &Tensor, position: &Tensor, kept: &Kept) -> (Tensor, Kept) {
        let turns = [0, 1].map(|i| self.turns[i].index_select(0, position));
        let turned = |x: &Tensor| {
            let (low, high) = (
                x.narrow(-1, 0, HEAD / 2),
                x.narrow(-1, (HEAD / 2) as i64, HEAD / 2),
            );
            x * &turns[0] + Tensor::concat(&[&-high, &low], -1) * &turns[1]
        };
        let seen = &self.places.le(position);
        let mut x = self.words.embedding(word, None);
        let mut now = Vec::new();
        for (layer, [keys, values]) in self.layers.iter().zip(kept) {
            let y = x.rms_norm([WIDTH], Some(&layer.norms[0]), EPSILON);
            let heads =
                |weights: &Tensor, group: usize| y.matmul(&weights.t()).reshape([KEPT_HEADS, group, 1, HEAD]);
            let keys = keys.index_copy(2, position, &turned(&heads(&layer.key, 1)));
            let values = values.index_copy(2, position, &heads(&layer.value, 1));
            let query = turned(&heads(&layer.query, HEADS / KEPT_HEADS));
            let options = AttentionOptions::new().mask(seen);
            let heads = query.scaled_dot_product_attention(&keys, &values, options);
            x = &x + heads.reshape([1, WIDTH]).matmul(&layer.output.t());
            let y = x.rms_norm([WIDTH], Some(&layer.norms[1]), EPSILON);
            let inner = y.matmul(&layer.gate.t()).silu() * y.matmul(&layer.up.t());
            x = &x + inner.matmul(&layer.down.t());
            now.push([keys, values]);
        }
        let x = x.rms_norm([WIDTH], Some(&self.norm), EPSILON);
        (x.matmul(&self.scores.t()), now)
    }
}

impl Survey {
    /// Products of few rows, and what consists of them.
    pub(super) fn thin(&self) -> Result<()> {
        for (name, dtype) in [("", DType::F32), ("bf16_", DType::BF16), ("f16_", DType::F16)] {
            let w = &self.random(&[2048, 2048]).cast(dtype);
            for rows in [1, 2, 8] {
                let x = &w.narrow(0, 0, rows);
                self.time(&format!("{name}rows_{rows}"), || x.matmul(w))?;
                self.time(&format!("{name}rows_{rows}_linear"), || x.matmul(&w.t()))?;
            }
        }
        let named = [1, 2, 8].map(|rows| (rows, format!("i8_rows_{rows}_linear")));
        if named.iter().any(|(_, name)| name.contains(&self.filter)) {
            let layer = QuantizedDense::dynamic(&Dense::new(2048, 2048, &self.cx)?)?;
            for (rows, name) in named {
                let x = self.random(&[rows, 2048]);
                self.time(&name, || layer.forward(&x))?;
            }
        }
        for (name, dtype) in [("decoder", DType::F32), ("bf16_decoder", DType::BF16)] {
            if !name.contains(&self.filter) {
                continue;
            }
            let (decoder, kept) = (Decoder::new(dtype, &self.cx), Decoder::kept(dtype, &self.cx));
            let [word, position] = [7, 900].map(|i: i64| Tensor::from_slice(&[i], 1, &self.cx));
            let step =
                jit(|word: &Tensor, position: &Tensor, kept: &Kept| decoder.step(word, position, kept));
            self.time(name, || decoder.step(&word, &position, &kept).0)?;
            self.time(&format!("{name}_jit"), || step.call((&word, &position, &kept)).0)?;
            // The only one that holds them.
            let held = RefCell::new(kept);
            self.time(&format!("{name}_donating"), || {
                let kept = &mut *held.borrow_mut();
                let (scores, next) = step.call_donating((&mut word.clone(), &mut position.clone(), kept));
                *kept = next;
                scores
            })?;
        }
        Ok(())
    }
}
