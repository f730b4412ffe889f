//! Layers one after the other.

use crate::module::hash;
use crate::{Layer, Module, Part, Visitor, VisitorMut};
use std::any::TypeId;
use std::fmt;
use std::panic::Location;
use thalweg::observe::parts;
use thalweg::{Tensor, Tree};

/// A layer of any type. Its ops have the line that it was boxed at.
pub struct BoxedLayer {
    layer: Box<dyn AnyLayer>,
    line: &'static Location<'static>,
}

/// What a boxed layer can do.
trait AnyLayer: Send + Sync {
    fn forward_at(&self, line: &'static Location<'static>, x: &Tensor) -> Tensor;
    fn cloned(&self) -> Box<dyn AnyLayer>;
    fn visit_any<'a>(&'a self, visitor: &mut Visitor<'_, 'a>);
    fn visit_mut_any(&mut self, visitor: &mut VisitorMut<'_>);
    fn type_bits(&self) -> u64;
    fn type_name(&self) -> &'static str;
}

impl<L: Layer + Send + Sync + 'static> AnyLayer for L {
    #[track_caller]
    fn forward_at(&self, line: &'static Location<'static>, x: &Tensor) -> Tensor {
        let _line = parts::placed(line);
        Layer::forward(self, x)
    }

    fn cloned(&self) -> Box<dyn AnyLayer> {
        Box::new(self.clone())
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
    #[track_caller]
    pub fn new(layer: impl Layer + Send + Sync + 'static) -> BoxedLayer {
        BoxedLayer {
            layer: Box::new(layer),
            line: Location::caller(),
        }
    }
}

impl Clone for BoxedLayer {
    fn clone(&self) -> BoxedLayer {
        BoxedLayer {
            layer: self.layer.cloned(),
            line: self.line,
        }
    }
}

impl fmt::Debug for BoxedLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.layer.type_name().rsplit("::").next().unwrap_or_default())
    }
}

impl Module for BoxedLayer {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        // Layers of different types may have equal parts.
        visitor.leaf(Part::Setting(self.layer.type_bits()));
        self.layer.visit_any(visitor);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        self.layer.visit_mut_any(visitor);
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
        self.layer.forward_at(self.line, x)
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

    /// Adds a layer behind the others. Its ops have the caller's line, in errors and in profiles.
    #[must_use]
    #[track_caller]
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
