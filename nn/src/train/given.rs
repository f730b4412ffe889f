//! What a step is given.

use super::Kept;
use crate::summary::noted::Asked;
use thalweg::{Tensor, Tree};

/// What a step is given: what it makes anew, and a batch.
#[derive(Clone)]
pub(crate) struct Given<N> {
    pub(crate) net: N,
    /// What its rules keep.
    pub(crate) kept: Kept,
    /// There while a step is done.
    pub(crate) fed: Option<Fed>,
    pub(crate) asked: Asked,
}

/// A batch, and how far a step goes.
#[derive(Clone)]
pub(crate) struct Fed {
    /// Each group's learning rate, `[groups]`.
    pub(crate) rates: Tensor,
    pub(crate) x: Tensor,
    pub(crate) y: Tensor,
}

impl<N: Tree> Tree for Given<N> {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        self.net.visit(each);
        self.kept.visit(each);
        Tree::visit(&self.fed, each);
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Given<N> {
        Given {
            net: self.net.map(each),
            kept: self.kept.map(each),
            fed: Tree::map(&self.fed, each),
            asked: self.asked,
        }
    }

    fn structure(&self, into: &mut Vec<u64>) {
        self.net.structure(into);
        self.kept.structure(into);
        self.fed.structure(into);
        self.asked.structure(into);
    }
}

impl Tree for Fed {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        [&self.rates, &self.x, &self.y].into_iter().for_each(each);
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Fed {
        let [rates, x, y] = [&self.rates, &self.x, &self.y].map(each);
        Fed { rates, x, y }
    }
}
