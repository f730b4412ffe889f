//! Tensors in structures, and functions of them: what [`grad`](crate::grad()), `jit` and loops take and return.

use crate::tensor::Tensor;
use std::collections::BTreeMap;

/// Tensors in a structure: a tensor, a tuple, an array, a `Vec`, an `Option`, a `BTreeMap` of such, or a type that lists its own.
///
/// ```
/// use thalweg::{Tensor, Tree};
/// struct Linear { weight: Tensor, bias: Tensor }
/// impl Tree for Linear {
///     fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
///         each(&self.weight);
///         each(&self.bias);
///     }
///     fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
///         Linear { weight: each(&self.weight), bias: each(&self.bias) }
///     }
/// }
/// ```
pub trait Tree: Sized {
    /// Calls `each` with every tensor, always in the same order.
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor));

    /// The same structure with every tensor replaced, in the order of [`visit`](Tree::visit).
    #[must_use]
    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;

    /// Appends what tells this structure from others of its type that the number of tensors does not: lengths of parts, and
    /// settings that a function may depend on. What was traced for one structure serves equal ones.
    fn structure(&self, into: &mut Vec<u64>) {
        let _ = into;
    }
}

impl Tree for Tensor {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        each(self);
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
        each(self)
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        self.iter().for_each(|part| part.visit(each));
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Vec<T> {
        self.iter().map(|part| part.map(each)).collect()
    }

    fn structure(&self, into: &mut Vec<u64>) {
        into.push(self.len() as u64);
        self.iter().for_each(|part| part.structure(into));
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        self.iter().for_each(|part| part.visit(each));
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> [T; N] {
        std::array::from_fn(|i| self[i].map(each))
    }

    fn structure(&self, into: &mut Vec<u64>) {
        self.iter().for_each(|part| part.structure(into));
    }
}

impl<T: Tree> Tree for Option<T> {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        if let Some(part) = self {
            part.visit(each);
        }
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<T> {
        self.as_ref().map(|part| part.map(each))
    }

    fn structure(&self, into: &mut Vec<u64>) {
        into.push(u64::from(self.is_some()));
        if let Some(part) = self {
            part.structure(into);
        }
    }
}

impl<T: Tree> Tree for BTreeMap<String, T> {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        self.values().for_each(|part| part.visit(each));
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter()
            .map(|(key, part)| (key.clone(), part.map(each)))
            .collect()
    }

    fn structure(&self, into: &mut Vec<u64>) {
        into.push(self.len() as u64);
        for (key, part) in self {
            into.push(key.len() as u64);
            into.extend(key.bytes().map(u64::from));
            part.structure(into);
        }
    }
}

/// The arguments of a [`Function`]: a tuple of trees.
pub trait Arguments: Sized {
    /// How a caller gives them: `&x` for one, `(&x, &y)` for two.
    type Given<'a>
    where
        Self: 'a;

    /// Calls `each` with every tensor of every argument.
    fn visit<'a>(given: &Self::Given<'a>, each: &mut dyn FnMut(&'a Tensor));

    /// The arguments with every tensor replaced, in the order of [`visit`](Arguments::visit).
    fn map(given: &Self::Given<'_>, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;

    /// As [`Tree::structure`].
    fn structure(given: &Self::Given<'_>, into: &mut Vec<u64>);

    /// The form in which a caller gives them.
    fn given(&self) -> Self::Given<'_>;

    /// How a caller gives them to be replaced: `&mut x` for one, `(&mut x, &mut y)` for two.
    type Taken<'a>
    where
        Self: 'a;

    /// The same to be read.
    fn read<'t>(taken: &'t Self::Taken<'_>) -> Self::Given<'t>
    where
        Self: 't;

    /// Leaves others in their places.
    fn replace(taken: &mut Self::Taken<'_>, by: Self);
}

/// Arguments of which the first is told apart: gradients are taken by it.
pub trait FirstArgument: Arguments {
    /// Its type.
    type First: Tree;

    /// Number of tensors in the first argument, which [`Arguments::visit`] meets first.
    fn first<'g, 'a: 'g>(given: &'g Self::Given<'a>) -> &'a Self::First;
}

/// A function of one to four trees, all by reference. Closures are such: `|x: &Tensor| …`, `|(w, b): &(Tensor, Tensor), x: &Tensor| …`;
/// the types of the parameters must be written out.
pub trait Function<A: Arguments> {
    /// What it returns.
    type Output: Tree;

    /// Calls it.
    fn call(&self, arguments: &A) -> Self::Output;
}

macro_rules! tuples {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Tree),*> Tree for ($($name,)*) {
            fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
                $(self.$index.visit(each);)*
            }

            fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                ($(self.$index.map(each),)*)
            }

            fn structure(&self, into: &mut Vec<u64>) {
                $(self.$index.structure(into);)*
            }
        }
    };
}

impl Tree for () {
    fn visit<'a>(&'a self, _: &mut dyn FnMut(&'a Tensor)) {}

    fn map(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) {}
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

macro_rules! functions {
    ($($name:ident $index:tt),+) => {
        impl<Fun, Out: Tree, $($name: Tree),+> Function<($($name,)+)> for Fun
        where
            Fun: Fn($(&$name),+) -> Out,
        {
            type Output = Out;

            fn call(&self, arguments: &($($name,)+)) -> Out {
                self($(&arguments.$index),+)
            }
        }
    };
}

functions!(A 0);
functions!(A 0, B 1);
functions!(A 0, B 1, C 2);
functions!(A 0, B 1, C 2, D 3);

impl<A: Tree> Arguments for (A,) {
    type Given<'a>
        = &'a A
    where
        Self: 'a;

    fn visit<'a>(given: &&'a A, each: &mut dyn FnMut(&'a Tensor)) {
        given.visit(each);
    }

    fn map(given: &&A, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        (given.map(each),)
    }

    fn structure(given: &&A, into: &mut Vec<u64>) {
        given.structure(into);
    }

    fn given(&self) -> &A {
        &self.0
    }

    type Taken<'a>
        = &'a mut A
    where
        Self: 'a;

    fn read<'t>(taken: &'t &mut A) -> &'t A
    where
        Self: 't,
    {
        taken
    }

    fn replace(taken: &mut &mut A, by: Self) {
        **taken = by.0;
    }
}

impl<A: Tree> FirstArgument for (A,) {
    type First = A;

    fn first<'g, 'a: 'g>(given: &'g &'a A) -> &'a A {
        given
    }
}

macro_rules! arguments {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Tree),+> Arguments for ($($name,)+) {
            type Given<'a> = ($(&'a $name,)+) where Self: 'a;

            fn visit<'a>(given: &($(&'a $name,)+), each: &mut dyn FnMut(&'a Tensor)) {
                $(given.$index.visit(each);)+
            }

            fn map(given: &($(&$name,)+), each: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                ($(given.$index.map(each),)+)
            }

            fn structure(given: &($(&$name,)+), into: &mut Vec<u64>) {
                $(given.$index.structure(into);)+
            }

            fn given(&self) -> ($(&$name,)+) {
                ($(&self.$index,)+)
            }

            type Taken<'a> = ($(&'a mut $name,)+) where Self: 'a;

            fn read<'t>(taken: &'t ($(&mut $name,)+)) -> ($(&'t $name,)+) where Self: 't {
                ($(&*taken.$index,)+)
            }

            fn replace(taken: &mut ($(&mut $name,)+), by: Self) {
                $(*taken.$index = by.$index;)+
            }
        }

        impl<$($name: Tree),+> FirstArgument for ($($name,)+) {
            type First = A;

            fn first<'g, 'a: 'g>(given: &'g ($(&'a $name,)+)) -> &'a A {
                given.0
            }
        }
    };
}

arguments!(A 0, B 1);
arguments!(A 0, B 1, C 2);
arguments!(A 0, B 1, C 2, D 3);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::DType;
    use crate::tensor::shape::Shape;

    struct Call<F>(F);

    impl<F> Call<F> {
        fn of<A: Arguments>(self, given: A::Given<'_>) -> F::Output
        where
            F: Function<A>,
        {
            let arguments = A::map(&given, &mut Tensor::clone);
            self.0.call(&arguments)
        }
    }

    fn leaf(bits: u64) -> Tensor {
        Tensor::constant(Shape::SCALAR, DType::I64, bits)
    }

    fn bits(tensor: &Tensor) -> Option<u64> {
        match &tensor.repr {
            crate::tensor::Repr::Constant(constant) => Some(constant.bits),
            _ => None,
        }
    }

    #[test]
    fn closures_are_functions_of_trees() {
        let (a, b) = (leaf(1), leaf(2));
        assert_eq!(bits(&Call(|x: &Tensor| x.clone()).of(&a)), Some(1));
        let second = |(_, y): &(Tensor, Tensor), z: &Vec<Tensor>| (y.clone(), z[0].clone());
        let result = Call(second).of((&(a.clone(), b), &vec![a]));
        assert_eq!((bits(&result.0), bits(&result.1)), (Some(2), Some(1)));
    }

    #[test]
    fn structures_differ_where_shapes_of_nesting_differ() {
        let key = |tree: &(Vec<Tensor>, Vec<Tensor>)| {
            let mut key = Vec::new();
            tree.structure(&mut key);
            key
        };
        let left = (vec![leaf(0), leaf(1)], vec![leaf(2)]);
        let right = (vec![leaf(0)], vec![leaf(1), leaf(2)]);
        assert_ne!(key(&left), key(&right));
        let mut order = Vec::new();
        let _ = left.map(&mut |tensor| {
            order.push(bits(tensor));
            tensor.clone()
        });
        assert_eq!(order, [Some(0), Some(1), Some(2)]);
    }
}
