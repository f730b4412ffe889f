//! Calls that give their arguments up.

use super::{Jit, Leaves, is_inlined};
use crate::exec;
use crate::tensor::failure::{Failure, Refusal};
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor};
use crate::tree::{Arguments, Function};
use crate::value::Value;
use std::sync::Arc;

impl<F, A> Jit<F, A>
where
    A: Arguments,
    F: Function<A>,
{
    /// As [`Jit::call`], for a state that a function takes and returns anew: parameters, the state of an optimizer, keys and values
    /// that a decoder keeps. Results are written into the memory of arguments, as far as nobody else holds a tensor of that memory
    /// and its last reader is what writes the result, or comes before that. So an update at an index touches what it writes alone,
    /// and old and new state do not stand side by side.
    ///
    /// Tensors of `arguments` whose memory holds a result carry an error afterwards. A tensor with a clone or a view elsewhere keeps
    /// its values, as do all tensors where the call fails, for example for want of memory. What fails on the device later is lost
    /// with the results.
    ///
    /// Which results lie where is decided by the first call, and anew by the second of two that can give up other arguments. On
    /// streams that a scope chose, and while values are watched or dumped, nothing is given up; nor in a function with loops,
    /// branches or prints.
    ///
    /// ```
    /// use thalweg::{Context, DType, Tensor, jit};
    /// let cx = Context::new("cpu")?;
    /// let keep = jit(|kept: &Tensor, at: &Tensor, row: &Tensor| kept.index_copy(0, at, row));
    /// let row = Tensor::from_slice(&[1.0_f32, 2.0], [1, 2], &cx);
    /// let mut kept = Tensor::zeros([3, 2], DType::F32, &cx);
    /// for position in 0..3 {
    ///     let mut at = Tensor::from_slice(&[position], 1, &cx);
    ///     kept = keep.call_donating((&mut kept, &mut at, &mut row.clone()));
    /// }
    /// assert_eq!(kept.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Jit::call`].
    #[track_caller]
    pub fn call_donating(&self, mut arguments: A::Taken<'_>) -> F::Output {
        let tag = OpTag::uncounted("jit");
        let how = form::<A>(&A::read(&arguments));
        match how {
            Form::Values => {}
            Form::Inlined => return self.apply(&A::map(&A::read(&arguments), &mut Tensor::clone)),
            Form::Recorded => {
                let evaluated = A::map(&A::read(&arguments), &mut |tensor| exec::evaluated(tensor, tag));
                // What failed may go well another time.
                if form::<A>(&evaluated.given()) != Form::Values {
                    return self.apply(&evaluated);
                }
                // What was recorded holds its value too; with it goes that hold.
                A::replace(&mut arguments, evaluated);
            }
        }
        let (output, kept) = self.donate(&A::read(&arguments), tag);
        if let Some(kept) = kept {
            A::replace(&mut arguments, kept);
        }
        output
    }

    /// The result for arguments that are values, and what is left of the arguments, where that is not all.
    fn donate(&self, given: &A::Given<'_>, tag: OpTag) -> (F::Output, Option<A>) {
        let mut leaves = Leaves::new();
        A::visit(given, &mut |tensor| leaves.push(tensor));
        let entry = match self.found(given, &leaves, tag) {
            Ok(entry) => entry,
            Err(output) => return (output, None),
        };
        let Some(donated) = entry.traced.run_donating(&leaves) else {
            return (entry.run(&leaves, tag), None);
        };
        let donated = match donated {
            Ok(donated) => donated,
            Err(error) => return (entry.output(Err::<[Value; 0], _>(error), tag), None),
        };
        let output = entry.output(Ok(donated.values), tag);
        let (lost, mut numbers) = (self.lost(&leaves, tag), 0..);
        let kept = A::map(given, &mut |tensor| {
            let number = numbers.next().unwrap_or(u32::MAX);
            match donated.given_up.binary_search(&number) {
                Ok(_) => lost.clone(),
                Err(_) => tensor.clone(),
            }
        });
        (output, Some(kept))
    }

    /// What stands for an argument that was given up.
    fn lost(&self, leaves: &Leaves<'_>, tag: OpTag) -> Tensor {
        let refusal = Refusal::new(format!(
            "a call of `{}` was given this argument, and a result lies in its memory; give it a clone of what is used later",
            self.name
        ));
        let device = leaves.iter().find_map(|leaf| leaf.context());
        let failure = Failure::tagged(refusal, tag, device.map(|context| context.device()));
        Tensor {
            repr: Repr::Failed(Arc::new(failure)),
            history: None,
        }
    }
}

/// How the tensors of arguments are there.
#[derive(PartialEq, Eq)]
enum Form {
    Values,
    /// Some are recorded and not run.
    Recorded,
    /// Another function is traced, gradients are wanted, or one carries an error.
    Inlined,
}

fn form<A: Arguments>(given: &A::Given<'_>) -> Form {
    let (mut lazy, mut inlined) = (false, exec::tracing());
    A::visit(given, &mut |tensor| inlined |= is_inlined(tensor, &mut lazy));
    match (inlined, lazy) {
        (true, _) => Form::Inlined,
        (false, true) => Form::Recorded,
        (false, false) => Form::Values,
    }
}

#[cfg(test)]
mod tests;
