//! Graphs as functions.

use super::jit;
use crate::control::replay;
use crate::error::{Error, Result};
use crate::graph::{Graph, Type};
use crate::tensor::Tensor;
use crate::tensor::failure::{Failure, Refusal};
use crate::tensor::tag::OpTag;

impl Graph {
    /// The results for `arguments`, one for each input, compiled for this call. While a function is traced the graph becomes a part
    /// of it, so `jit(|x: &Vec<Tensor>| …graph.call(x)…)` compiles once; gradients flow through it.
    ///
    /// ```
    /// use thalweg::{Context, Tensor, graph::Graph};
    /// let cx = Context::new("cpu")?;
    /// let graph = Graph::parse("graph main\n%0: i32[2] = input\n%1: i32[2] = mul %0 %0\nreturn %1")?;
    /// let squares = graph.call(&[Tensor::from_slice(&[3, 4], 2, &cx)])?;
    /// assert_eq!(squares[0].to_vec::<i32>()?, [9, 16]);
    /// let error = graph.call(&[Tensor::from_slice(&[3.0_f32], 1, &cx)]).unwrap_err();
    /// assert!(error.to_string().starts_with("graph: argument 0 is f32[1], the input is i32[2]"));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// Another number of arguments, or of other types; the first error that an argument carries; of compilation or of the device.
    #[track_caller]
    pub fn call(&self, arguments: &[Tensor]) -> Result<Vec<Tensor>> {
        let tag = OpTag::uncounted("graph");
        let refuse = |text: String| {
            let device = arguments.iter().find_map(|argument| argument.context());
            Failure::tagged(Refusal::new(text), tag, device.map(|context| context.device()))
        };
        let inputs: Vec<Type> = self.inputs().iter().map(|&input| self.node(input).ty).collect();
        if inputs.len() != arguments.len() {
            let text = format!("{} arguments for {} inputs", arguments.len(), inputs.len());
            return Err(refuse(text).into());
        }
        for (at, (argument, wanted)) in arguments.iter().zip(inputs).enumerate() {
            let given = argument.ty().map_err(|failure| Error::from(failure.clone()))?;
            if given != wanted {
                let text = format!("argument {at} is {given}, the input is {wanted}");
                return Err(refuse(text).into());
            }
        }
        let run = jit(|arguments: &Vec<Tensor>| replay(self, arguments));
        let results = run.call(&arguments.to_vec());
        results.into_iter().map(Tensor::ok).collect()
    }
}
