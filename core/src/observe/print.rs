//! Printing tensors, and calling closures with them, wherever they are computed.

use crate::control::effect;
use crate::error::tag::OpTag;
use crate::exec::effects::Inspector;
use crate::graph::{Callback, Control, Printed};
use crate::tensor::{Repr, Tensor};
use std::fmt;
use std::sync::Arc;

/// What [`print`](fn@print) shows, in order.
#[derive(Debug, Default)]
pub struct Prints {
    items: Vec<Printed>,
    operands: Vec<Tensor>,
}

impl Prints {
    fn text(&mut self, text: &str) {
        self.items.push(Printed::Text(text.into()));
    }

    fn tensor(&mut self, tensor: &Tensor) {
        if let Repr::Failed(_) = tensor.repr {
            return self.text(&format!("{tensor:?}"));
        }
        self.items.push(Printed::Operand);
        self.operands.push(tensor.clone());
    }

    /// The same texts, and why the tensors cannot be shown.
    fn failed(self, why: &Tensor) -> Prints {
        let mut texts = Prints::default();
        let is_text = |item: &Printed| matches!(item, Printed::Text(_));
        texts.items = self.items.into_iter().filter(is_text).collect();
        texts.text(&format!("{why:?}"));
        texts
    }
}

/// What [`print`](fn@print) takes: texts, numbers, tensors, and references, tuples and slices of such.
pub trait Print {
    /// Adds what is shown.
    fn add(&self, to: &mut Prints);
}

impl Print for Tensor {
    fn add(&self, to: &mut Prints) {
        to.tensor(self);
    }
}

impl Print for str {
    fn add(&self, to: &mut Prints) {
        to.text(self);
    }
}

impl<T: Print + ?Sized> Print for &T {
    fn add(&self, to: &mut Prints) {
        (**self).add(to);
    }
}

impl<T: Print> Print for [T] {
    fn add(&self, to: &mut Prints) {
        self.iter().for_each(|item| item.add(to));
    }
}

impl<T: Print, const N: usize> Print for [T; N] {
    fn add(&self, to: &mut Prints) {
        self.as_slice().add(to);
    }
}

impl<T: Print> Print for Vec<T> {
    fn add(&self, to: &mut Prints) {
        self.as_slice().add(to);
    }
}

macro_rules! texts {
    ($($type:ty),*) => { $(
        impl Print for $type {
            fn add(&self, to: &mut Prints) {
                to.text(&self.to_string());
            }
        }
    )* };
}

texts!(
    String,
    fmt::Arguments<'_>,
    bool,
    i32,
    i64,
    u32,
    u64,
    usize,
    f32,
    f64
);

macro_rules! tuples {
    ($($($name:ident $at:tt),+;)*) => { $(
        impl<$($name: Print),+> Print for ($($name,)+) {
            fn add(&self, to: &mut Prints) {
                $(self.$at.add(to);)+
            }
        }
    )* };
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

/// Prints texts and tensors, each on lines of its own: tensors whole, as `Debug` shows smaller ones.
///
/// Eager and recorded code prints at once. In a function that is traced, such as by [`jit`](crate::jit()), it becomes a part of the
/// function, which prints whenever it runs. A loop prints in each turn, a branch when it is taken, and gradients print nothing once
/// more. Prints come in the order of calls. They stay where nobody uses what they show. A print waits for the tensors, so that it is
/// done when the call of the function returns. Texts are those of the trace.
///
/// They go to the screen, or into the file of the option [`print_file_path`](crate::context::ContextBuilder::print_file_path).
///
/// ```
/// use thalweg::{Context, DType, Tensor, jit, observe::print};
/// let cx = Context::new("cpu")?;
/// let double = jit(|x: &Tensor| {
///     let y = x + x;
///     print(("x and its double:", x, &y));
///     y
/// });
/// double.call(&Tensor::ones([2, 1], DType::I32, &cx)).to_vec::<i32>()?;
/// // x and its double:
/// // Tensor(shape=[2, 1], dtype=Int32, value=
/// // [[1]
/// //  [1]])
/// // Tensor(shape=[2, 1], dtype=Int32, value=
/// // [[2]
/// //  [2]])
/// # Ok::<(), thalweg::Error>(())
/// ```
#[track_caller]
pub fn print(shown: impl Print) {
    let tag = OpTag::uncounted("print");
    let mut prints = Prints::default();
    shown.add(&mut prints);
    if let Err(failed) = prints.run(tag) {
        // Texts alone need nothing that can fail.
        let _ = prints.failed(&failed).run(tag);
    }
}

impl Prints {
    fn run(&self, tag: OpTag) -> Result<(), Tensor> {
        let items = self.items.clone();
        effect::run(&Arc::new(Control::Print { items }), &self.operands, tag)
    }
}

impl Tensor {
    /// The same tensor; `look` is called with its value, now or whenever the function runs that is traced. An error of `look` becomes
    /// that of the result, and in a compiled function that of all its results, with the line of this call.
    ///
    /// It is called as often and in the order as [`print`](fn@print) prints. What it computes is not recorded, counted or differentiated.
    ///
    /// ```
    /// use thalweg::{Context, Tensor, jit};
    /// let cx = Context::new("cpu")?;
    /// let energy = jit(|x: &Tensor| {
    ///     let squares = x.square().inspect(|squares: &Tensor| match squares.max().item::<f32>()? > 100.0 {
    ///         true => Err("a velocity is above 10".into()),
    ///         false => Ok(()),
    ///     });
    ///     squares.sum()
    /// });
    /// assert_eq!(energy.call(&Tensor::from_slice(&[3.0_f32, 4.0], 2, &cx)).item::<f32>()?, 25.0);
    /// let error = energy.call(&Tensor::from_slice(&[3.0_f32, 40.0], 2, &cx)).item::<f32>().unwrap_err();
    /// assert!(error.to_string().starts_with("inspect: a velocity is above 10\n  at "));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[must_use = "the result carries the error of the closure"]
    #[track_caller]
    pub fn inspect<F>(&self, look: F) -> Tensor
    where
        F: Fn(&Tensor) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    {
        let tag = OpTag::uncounted("inspect");
        let look: Inspector = Box::new(move |value| look(value).map_err(|error| error.to_string()));
        let callback = Callback::new(look);
        let operand = std::slice::from_ref(self);
        match effect::run(&Arc::new(Control::Inspect { callback }), operand, tag) {
            Ok(()) => self.clone(),
            Err(failed) => failed,
        }
    }
}
