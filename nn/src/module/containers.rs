//! Settings, and collections of modules, as modules.

use super::{Module, Part, Visitor, VisitorMut};
use std::hash::{DefaultHasher, Hash, Hasher};
use thalweg::ops::{ConvOptions, ConvTransposeOptions, PoolOptions};

macro_rules! settings {
    ($($type:ty: |$value:ident| $bits:expr;)*) => { $(
        impl Module for $type {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
                let $value = *self;
                visitor.leaf(Part::Setting($bits));
            }

            fn visit_mut(&mut self, _: &mut VisitorMut<'_>) {}
        }
    )* };
}

settings! {
    bool: |value| u64::from(value);
    usize: |value| value as u64;
    u64: |value| value;
    u32: |value| u64::from(value);
    i64: |value| value as u64;
    i32: |value| value as u64;
    f64: |value| value.to_bits();
    f32: |value| u64::from(value.to_bits());
    ConvOptions: |value| hash(value);
    ConvTransposeOptions: |value| hash(value);
    PoolOptions: |value| hash(value);
}

/// The bits of a [`Part::Setting`] that tell values apart.
///
/// ```
/// use thalweg_nn::module::hash;
/// assert_eq!(hash("reflect"), hash("reflect"));
/// assert_ne!(hash("reflect"), hash("zeros"));
/// ```
pub fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl<T: Module> Module for Option<T> {
    fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
        visitor.leaf(Part::Setting(u64::from(self.is_some())));
        if let Some(part) = self {
            visitor.note(part);
            part.visit(visitor);
        }
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        if let Some(part) = self {
            part.visit_mut(visitor);
        }
    }
}

/// Parts under their numbers.
macro_rules! numbered {
    ($([$($parameter:tt)*] $type:ty;)*) => { $(
        impl<T: Module, $($parameter)*> Module for $type {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
                visitor.leaf(Part::Setting(self.len() as u64));
                for (at, part) in self.iter().enumerate() {
                    visitor.child(&at.to_string(), part);
                }
            }

            fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
                for (at, part) in self.iter_mut().enumerate() {
                    visitor.child(&at.to_string(), part);
                }
            }
        }
    )* };
}

numbered! {
    [] Vec<T>;
    [const N: usize] [T; N];
}

macro_rules! tuples {
    ($($($name:ident $at:tt),+;)*) => { $(
        impl<$($name: Module),+> Module for ($($name,)+) {
            fn visit<'a>(&'a self, visitor: &mut Visitor<'_, 'a>) {
                $(visitor.child(stringify!($at), &self.$at);)+
            }

            fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
                $(visitor.child(stringify!($at), &mut self.$at);)+
            }
        }
    )* };
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
}
