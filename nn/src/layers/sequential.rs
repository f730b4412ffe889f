//! Layers one after the other.

use crate::module::hash;
use crate::{Layer, Module, Part, Visitor, VisitorMut};
use std::any::TypeId;
use std::fmt;
use thalweg::observe::parts;
use thalweg::{Tensor, Tree};

/// A layer of any type.
pub struct BoxedLayer(Box<dyn AnyLayer>);

/// What a boxed layer can do.
trait AnyLayer: Send + Sync {
    fn forward_any(&self, x: &Tensor) -> Tensor;
    fn boxed(&self) -> BoxedLayer;
    fn visit_any<'a>(&'a self, visitor: &mut Visitor<'_, 'a>);
    fn visit_mut_any(&mut self, visitor: &mut VisitorMut<'_>);
    fn type_bits(&self) -> u64;
    fn type_name(&self) -> &'static str;
}

impl<L: Layer + Send + Sync + 'static> AnyLayer for L {
    #[track_caller]
    fn forward_any(&self, x: &Tensor) -> Tensor {
        Layer::forward(self, x)
    }

    fn boxed(&self) -> BoxedLayer {
        BoxedLayer(Box::new(self.clone()))
    }

    fn visit_any<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.note(self);
        Module::visit(self, visitor);
    }

    fn visit_mut_any(&mut self, visitor: &mut VisitorMut<'_>) {
        Module::visit_mut(self, visitor);
    }

    fn type_bits(&self) -> u64 {
        hash(TypeId::of::<L>())
    }

    fn type_name(&self) -> &'static str {
        std::any::type_name::<L>()
    }
}

impl BoxedLayer {
    /// Boxes a layer.
    pub fn new(layer: impl Layer + Send + Sync + 'static) -> BoxedLayer {
        BoxedLayer(Box::new(layer))
    }
}

impl Clone for BoxedLayer {
    fn clone(&self) -> BoxedLayer {
        self.0.boxed()
    }
}

impl fmt::Debug for BoxedLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.type_name().rsplit("::").next().unwrap_or_default())
    }
}

impl Module for BoxedLayer {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        // Layers of different types may have equal parts.
        visitor.leaf(Part::Setting(self.0.type_bits()));
        self.0.visit_any(visitor);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        self.0.visit_mut_any(visitor);
    }
}

impl Tree for BoxedLayer {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        crate::module::visit_tensors(self, each);
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> BoxedLayer {
        crate::module::map_tensors(self, each)
    }

    fn structure(&self, into: &mut Vec<u64>) {
        crate::module::structure(self, into);
    }
}

impl Layer for BoxedLayer {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        self.0.forward_any(x)
    }
}

/// Layers of any types, one after the other.
///
/// ```
/// use thalweg::Context;
/// use thalweg_nn::{Dense, Relu, Sequential};
/// let cx = Context::new("cpu")?;
/// let net = Sequential::new().then(Dense::new(784, 512, &cx)?).then(Relu).then(Dense::new(512, 10, &cx)?);
/// assert_eq!(net.layers.len(), 3);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Default, Module)]
pub struct Sequential {
    /// The layers in order.
    pub layers: Vec<BoxedLayer>,
}

impl Sequential {
    /// No layer: the output is the input.
    pub fn new() -> Sequential {
        Sequential::default()
    }

    /// Adds a layer behind the others.
    #[must_use]
    pub fn then(mut self, layer: impl Layer + Send + Sync + 'static) -> Sequential {
        self.layers.push(BoxedLayer::new(layer));
        self
    }

    /// The layers one after the other. Each has a name here, since layers without size have no address of their own.
    #[track_caller]
    fn chain(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for (at, layer) in self.layers.iter().enumerate() {
            let _scope = parts::child_of(layer.0.type_name(), || format!("layers.{at}"));
            x = layer.forward(&x);
        }
        x
    }
}

impl Layer for Sequential {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        if parts::is_stranger(self) {
            // The network itself: its parts are named by where they lie in it.
            let noted = || Module::visit(self, &mut Visitor::new(&mut |_, _| {}));
            return parts::with(noted, || self.chain(x));
        }
        let _scope = parts::enter(self);
        self.chain(x)
    }
}
