//! What steps keep for the next one, besides the network.

use super::Rules;
use crate::module::{self, Module};
use std::collections::HashMap;
use thalweg::{Context, DType, Tensor, Tree};

/// What the rules of a step keep, of the parameters that training changes, in the order of [`module::trainable`].
#[derive(Clone)]
pub(crate) struct Kept {
    /// How often each was updated, i64 `[parameters]`.
    pub(crate) steps: Tensor,
    /// What each one's optimizer keeps.
    pub(crate) slots: Vec<Vec<Tensor>>,
    /// The state of the loss scale.
    pub(crate) scale: Option<Tensor>,
}

impl Tree for Kept {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        each(&self.steps);
        self.slots.visit(each);
        self.scale.visit(each);
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Kept {
        Kept {
            steps: each(&self.steps),
            slots: self.slots.map(each),
            scale: Tree::map(&self.scale, each),
        }
    }

    fn structure(&self, into: &mut Vec<u64>) {
        self.slots.structure(into);
        self.scale.structure(into);
    }
}

impl Kept {
    /// Counts and slots of zeros, and the loss scale at its start.
    pub(crate) fn start<N: Module>(rules: &Rules, net: &N, cx: &Context) -> Kept {
        let slots = |(path, value): (String, Tensor)| {
            // Each in memory of its own, which a step may write.
            let slot = |_| match value.dtype() {
                Ok(dtype) => value.zeros_like().cast(wide(dtype)),
                Err(_) => value.clone(),
            };
            (0..rules.optimizer_of(&path).slots()).map(slot).collect()
        };
        let slots: Vec<Vec<Tensor>> = module::trainable_named(net).into_iter().map(slots).collect();
        Kept {
            steps: Tensor::zeros(slots.len(), DType::I64, cx),
            slots,
            scale: rules.scale.map(|scale| scale.state(cx)),
        }
    }

    /// What is kept for `net`, of this for the parameters `before`: all that was kept under a path that `goes_on` picks, where
    /// slots fit in number, shapes and dtypes; others start.
    pub(crate) fn carried<N: Module>(
        &self,
        before: &[String],
        goes_on: impl Fn(&str) -> bool,
        (rules, net, cx): (&Rules, &N, &Context),
    ) -> Kept {
        let mut kept = Kept::start(rules, net, cx);
        kept.scale.clone_from(&self.scale);
        let places: HashMap<&str, usize> = before.iter().map(String::as_str).zip(0..).collect();
        let mut from = Vec::new();
        for (path, slots) in module::trainable_paths(net).iter().zip(&mut kept.slots) {
            let place = places.get(path.as_str()).copied();
            let place = place.filter(|&at| goes_on(path) && alike(&self.slots[at], slots));
            if let Some(at) = place {
                slots.clone_from(&self.slots[at]);
            }
            // Behind the counts that there are comes one of 0.
            from.push(place.unwrap_or(before.len()) as i64);
        }
        if !from.is_empty() {
            let steps = Tensor::concat(&[&self.steps, &Tensor::zeros(1, DType::I64, cx)], 0);
            kept.steps = steps.index_select(0, &Tensor::from_slice(&from, from.len(), cx));
        }
        kept
    }
}

/// The dtype that parameters of `dtype` are updated in: their own, or f32 for what is narrower.
pub(crate) fn wide(dtype: DType) -> DType {
    dtype.facts().computed
}

/// Whether the tensors are as many, of the same shapes and dtypes.
fn alike(these: &[Tensor], those: &[Tensor]) -> bool {
    let same = |(a, b): (&Tensor, &Tensor)| match (a.shape(), b.shape(), a.dtype(), b.dtype()) {
        (Ok(shape), Ok(other), Ok(dtype), Ok(another)) => shape == other && dtype == another,
        _ => false,
    };
    these.len() == those.len() && these.iter().zip(those).all(same)
}
