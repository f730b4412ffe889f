//! The words of a launch: 64-bit integers that say what its program was not compiled for.
//!
//! A routine's own words come first, then extents, offsets, strides and scalars. A word whose value is another in each pass
//! is the last. The plan pushes values and the source declares names, both in this order.

use crate::Launch;
use crate::body::Body;
use crate::operands::Operands;
use crate::scalar;
use crate::variant::{Form, Step, Variant, Words};
use thalweg_hal::ir::{Level, Role};

/// How the source declares a word: what stands before and behind its value.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub(crate) before: String,
    pub(crate) after: &'static str,
}

impl Declaration {
    /// A constant.
    pub(crate) fn of(kind: &str, name: &str) -> Declaration {
        Declaration {
            before: format!("const {kind} {name} = ({kind})"),
            after: ";",
        }
    }

    fn pointer(to: &str, name: &str, from: &str, bytes: &str) -> Declaration {
        Declaration {
            before: format!("{to}const {name} = ({to})({bytes}{from} + "),
            after: ");",
        }
    }

    /// A part of scratch memory, from the byte that the word says.
    pub(crate) fn scratch(of: &str, name: &str) -> Declaration {
        Declaration::pointer(&format!("TL_GLOBAL {of} *"), name, "scratch", "")
    }
}

/// A struct of a routine's own words, with their types in the source.
macro_rules! launch_words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $word:ident: $kind:ident,)* }) => {
        $(#[$doc])*
        struct $name { $($(#[$of])* $word: u64,)* }

        impl $name {
            /// In the order of [`Self::values`].
            fn declarations() -> Vec<crate::words::Declaration> {
                vec![$(crate::words::Declaration::of(stringify!($kind), stringify!($word)),)*]
            }

            fn values(&self) -> crate::Words {
                crate::Words::from_slice(&[$(self.$word,)*])
            }
        }
    };
}
pub(crate) use launch_words;

/// A word that says where operands lie or what a scalar is.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// Extent of an axis of rows. That of the first follows from the number of rows.
    Outer(usize),
    /// Extent of an axis of the space that is walked.
    Inner(usize),
    /// Bytes to the element at index 0.
    Offset(usize),
    /// Stride along an axis of rows.
    OuterStride(usize, usize),
    /// Stride along an axis of the space that is walked.
    InnerStride(usize, usize),
    GatherStride(usize),
    GatherExtent(usize),
    Scalar(usize),
}

/// Calls `visit` with every word of a variant but its routine's own, in order.
fn each(body: &Body, variant: &Variant, mut visit: impl FnMut(Word)) {
    let (outer, inner) = (variant.outer as usize, variant.inner as usize);
    (1..outer).for_each(|axis| visit(Word::Outer(axis)));
    (1..inner).for_each(|axis| visit(Word::Inner(axis)));
    for (p, param) in body.kernel.params.iter().enumerate() {
        if !body.touched[p] {
            continue;
        }
        visit(Word::Offset(p));
        (0..outer).for_each(|axis| visit(Word::OuterStride(p, axis)));
        if variant.is_map() || param.level == Level::Element {
            // The last stride is part of the variant where it is 0 or 1.
            let known = variant.steps[p] != Step::Any && !matches!(variant.form, Form::Product(_));
            (0..inner - usize::from(known)).for_each(|axis| visit(Word::InnerStride(p, axis)));
        }
        if body.gathered[p] {
            visit(Word::GatherStride(p));
            visit(Word::GatherExtent(p));
        }
    }
    (0..body.kernel.scalars.len()).for_each(|index| visit(Word::Scalar(index)));
}

/// Adds the values of the words that say where operands lie.
pub(crate) fn push(operands: &Operands<'_>, variant: &Variant, words: &mut Words) {
    let Operands {
        launch, outer, inner, ..
    } = operands;
    each(operands.body, variant, |word| {
        words.push(match word {
            Word::Outer(axis) => outer.extents[axis],
            Word::Inner(axis) => inner.extents[axis],
            Word::Offset(p) => launch.places[p].offset,
            Word::OuterStride(p, axis) => outer.stride(p, axis) as u64,
            Word::InnerStride(p, axis) => inner.stride(p, axis) as u64,
            Word::GatherStride(p) => launch.places[p].gather_stride as u64,
            Word::GatherExtent(p) => launch.places[p].gather_extent,
            Word::Scalar(index) => launch.scalars[index],
        });
    });
}

/// Sets the offsets and scalars among a plan's words to those of another launch.
pub(crate) fn replace(body: &Body, variant: &Variant, launch: &Launch<'_>, words: &mut [u64]) {
    let (mut count, last) = (0, usize::from(variant.has_rounds()));
    each(body, variant, |_| count += 1);
    let mut at = words.len() - count - last;
    each(body, variant, |word| {
        match word {
            Word::Offset(p) => words[at] = launch.places[p].offset,
            Word::Scalar(index) => words[at] = launch.scalars[index],
            Word::Outer(_)
            | Word::Inner(_)
            | Word::OuterStride(..)
            | Word::InnerStride(..)
            | Word::GatherStride(_)
            | Word::GatherExtent(_) => {}
        }
        at += 1;
    });
}

/// Adds their declarations.
pub(crate) fn declare(body: &Body, variant: &Variant, to: &mut Vec<Declaration>) {
    let index = |name: String| Declaration::of("idx", &name);
    each(body, variant, |word| {
        to.push(match word {
            Word::Outer(axis) => index(format!("o{axis}")),
            Word::Inner(axis) => index(format!("e{axis}")),
            Word::Offset(p) => {
                let param = &body.kernel.params[p];
                let constant = if param.role == Role::Out { "" } else { "const " };
                let pointer = format!("TL_GLOBAL {constant}{} *", scalar::memory(param.dtype));
                let bytes = format!("(TL_GLOBAL {constant}char *)");
                Declaration::pointer(&pointer, &format!("p{p}"), &format!("b{p}"), &bytes)
            }
            Word::OuterStride(p, axis) => index(format!("t{p}_{axis}")),
            Word::InnerStride(p, axis) => index(format!("s{p}_{axis}")),
            Word::GatherStride(p) => index(format!("gs{p}")),
            Word::GatherExtent(p) => Declaration::of("u64", &format!("ge{p}")),
            Word::Scalar(index) => Declaration::of("u64", &format!("c{index}")),
        });
    });
}
