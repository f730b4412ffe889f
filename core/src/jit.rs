//! Functions that are traced once and run as one compiled graph.

#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
mod call;
mod donating;

use crate::exec::{self, Traced};
use crate::graph::Graph;
use crate::record::recording::SpanKind;
use crate::record::{name, parts, span};
use crate::tensor::tag::OpTag;
use crate::tensor::{Repr, Tensor};
use crate::tree::{Arguments, Function, Tree};
use crate::value::Value;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Compiled graphs that a function keeps unless it is told otherwise.
const CACHE_LIMIT: usize = 64;

/// A function that compiles `function`: the first call for arguments of some dtypes, shapes and strides runs it on tensors without
/// values, which records its ops; these become one graph, which is fused, compiled and kept. Later calls run the graph.
///
/// So `function` must do the same each time: what it prints or counts happens once, tensors that it captures keep the values that
/// they have at the first call, and it cannot look at values. It may depend on shapes and dtypes.
///
/// Captured tensors are constants: beside a matrix, the device may keep a packed copy, one for all graphs that read it alike, until the
/// last of these goes.
///
/// The parameters' types must be written out, as trees by reference: `|x: &Tensor| …`, `|(w, b): &(Tensor, Tensor), x: &Tensor| …`.
///
/// ```
/// use thalweg::{Context, Tensor, jit};
/// let cx = Context::new("cpu")?;
/// let energy = jit(|x: &Tensor| ((x - 1.0) * (x - 1.0) * 0.5).sum());
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 4.0], 3, &cx);
/// assert_eq!(energy.call(&x).item::<f32>()?, 5.0);
/// assert_eq!(energy.call(&(&x + 1.0)).item::<f32>()?, 10.5);
/// assert_eq!(energy.cache_len(), 1);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub fn jit<F, A>(function: F) -> Jit<F, A>
where
    A: Arguments,
    F: Function<A>,
{
    Jit {
        function,
        name: name::of_function(std::any::type_name::<F>()),
        cache: Mutex::default(),
        arguments: PhantomData,
    }
}

/// A compiled function; see [`jit`]. It may be called from several threads.
pub struct Jit<F, A>
where
    A: Arguments,
    F: Function<A>,
{
    function: F,
    name: &'static str,
    cache: Mutex<Cache<F::Output>>,
    arguments: PhantomData<fn(&A)>,
}

struct Cache<O> {
    limit: usize,
    // Used last comes first.
    entries: Vec<Arc<Entry<O>>>,
}

impl<O> Default for Cache<O> {
    fn default() -> Cache<O> {
        Cache {
            limit: CACHE_LIMIT,
            entries: Vec::new(),
        }
    }
}

impl<O> Cache<O> {
    /// What was compiled for these arguments; it is used last from now on.
    #[inline]
    fn find(&mut self, hash: u64, structure: &[u64], leaves: &[&Tensor]) -> Option<Arc<Entry<O>>> {
        let at = self
            .entries
            .iter()
            .position(|entry| entry.traced.hash() == hash && entry.is_for(structure, leaves))?;
        if at > 0 {
            self.entries[..=at].rotate_right(1);
        }
        Some(Arc::clone(&self.entries[0]))
    }
}

struct Entry<O> {
    structure: Box<[u64]>,
    traced: Traced,
    // Its tensors stand for the outputs, in order.
    output: O,
}

impl<O> Entry<O> {
    #[inline]
    fn is_for(&self, structure: &[u64], leaves: &[&Tensor]) -> bool {
        // Mostly there is none; a library's comparison of no bytes may still look at the address, which takes long where
        // nothing lies there.
        self.structure.len() == structure.len()
            && (structure.is_empty() || *self.structure == *structure)
            && self.traced.fits(leaves)
    }
}

impl<O: Tree> Entry<O> {
    fn run(&self, leaves: &Leaves<'_>, tag: OpTag) -> O {
        match self.traced.run_only(leaves) {
            Some(value) => self.output(value.map(|value| [value]), tag),
            None => self.output(self.traced.run(leaves), tag),
        }
    }

    /// What a run made, in the form of the output.
    fn output(&self, values: Result<impl IntoIterator<Item = Value>>, tag: OpTag) -> O {
        match values {
            Ok(values) => {
                let mut values = values.into_iter();
                // There is a value for every tensor of the output.
                self.output.map(&mut |output| match values.next() {
                    Some(value) => Tensor::from_value(value),
                    None => output.clone(),
                })
            }
            Err(error) => {
                let failed = Tensor::of_error(tag, error, Some(self.traced.context()));
                self.output.map(&mut |_| failed.clone())
            }
        }
    }
}

thread_local! {
    /// Memory for the structure of a call.
    static STRUCTURE: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// The tensors of a call.
type Leaves<'a> = SmallVec<[&'a Tensor; 8]>;

impl<F, A> fmt::Debug for Jit<F, A>
where
    A: Arguments,
    F: Function<A>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jit({} compiled)", self.cache_len())
    }
}

impl<F, A> Jit<F, A>
where
    A: Arguments,
    F: Function<A>,
{
    /// The result for `arguments`: `&x` for a function of one argument, `(&x, &y)` of two.
    ///
    /// While another function is traced, and for tensors that gradients are wanted for, this is a plain call.
    ///
    /// # Errors
    /// The tensors of the result carry the first error: of the function for these arguments, of compilation, or of the device.
    #[track_caller]
    pub fn call(&self, arguments: A::Given<'_>) -> F::Output {
        let tag = OpTag::uncounted("jit");
        let mut leaves = Leaves::new();
        A::visit(&arguments, &mut |tensor| leaves.push(tensor));
        let mut lazy = false;
        if exec::tracing() || leaves.iter().any(|leaf| is_inlined(leaf, &mut lazy)) {
            return self.apply(&A::map(&arguments, &mut Tensor::clone));
        }
        if lazy {
            let evaluated: Vec<Tensor> = leaves.iter().map(|leaf| exec::evaluated(leaf, tag)).collect();
            if evaluated.iter().any(|leaf| matches!(leaf.repr, Repr::Failed(_))) {
                let mut evaluated = evaluated.into_iter();
                let arguments = A::map(&arguments, &mut |tensor| {
                    evaluated.next().unwrap_or_else(|| tensor.clone())
                });
                return self.apply(&arguments);
            }
            return self.run(&arguments, &evaluated.iter().collect(), tag);
        }
        self.run(&arguments, &leaves, tag)
    }

    /// The function's result; its modules know their names in it.
    fn apply(&self, arguments: &A) -> F::Output {
        parts::with(
            || A::visit(&arguments.given(), &mut |_| {}),
            || self.function.call(arguments),
        )
    }

    fn run(&self, arguments: &A::Given<'_>, leaves: &Leaves<'_>, tag: OpTag) -> F::Output {
        match self.found(arguments, leaves, tag) {
            Ok(entry) => entry.run(leaves, tag),
            Err(output) => output,
        }
    }

    /// What was compiled for these arguments, or the result that carries the error.
    #[inline]
    fn found(
        &self,
        arguments: &A::Given<'_>,
        leaves: &Leaves<'_>,
        tag: OpTag,
    ) -> Result<Arc<Entry<F::Output>>, F::Output> {
        // A thread at its very end has no memory to use again.
        let mut structure = STRUCTURE.try_with(Cell::take).unwrap_or_default();
        structure.clear();
        A::structure(arguments, &mut structure);
        let entry = self.entry(arguments, leaves, &structure, tag);
        let _ = STRUCTURE.try_with(|kept| kept.set(structure));
        entry
    }

    /// What was compiled for these arguments, by this call where none did before.
    #[inline]
    fn entry(
        &self,
        arguments: &A::Given<'_>,
        leaves: &Leaves<'_>,
        structure: &[u64],
        tag: OpTag,
    ) -> Result<Arc<Entry<F::Output>>, F::Output> {
        // That of the last call fits most often, which needs no hash.
        if let Some(last) = self.cache.lock().entries.first()
            && last.is_for(structure, leaves)
        {
            return Ok(Arc::clone(last));
        }
        let hash = exec::hash_of(leaves);
        let found = self.cache.lock().find(hash, structure, leaves);
        match found {
            Some(entry) => Ok(entry),
            None => self.compile(arguments, leaves, hash, structure, tag),
        }
    }

    /// Traces and compiles; a function whose result carries an error gives that result.
    #[cold]
    fn compile(
        &self,
        arguments: &A::Given<'_>,
        leaves: &Leaves<'_>,
        hash: u64,
        structure: &[u64],
        tag: OpTag,
    ) -> Result<Arc<Entry<F::Output>>, F::Output> {
        let name = self.name;
        let (id, output, effects) = {
            let _span = span::begin(SpanKind::Trace, name, 0);
            self.trace(arguments, leaves)
        };
        let mut outputs = Leaves::new();
        output.visit(&mut |tensor| outputs.push(tensor));
        // What was traced means nothing outside; so the first error stands for the rest.
        let own = |tensor: &Tensor| matches!(tensor.repr, Repr::Failed(_));
        if let Some(&failed) = outputs.iter().find(|output| own(output)) {
            return Err(output.map(&mut |tensor| {
                if own(tensor) {
                    tensor.clone()
                } else {
                    failed.clone()
                }
            }));
        }
        let traced = match Traced::compile(id, leaves, (&outputs, &effects), hash, (name, tag)) {
            Ok(traced) => traced,
            Err(error) => {
                let failed = Tensor::of_error(tag, error, leaves.iter().find_map(|leaf| leaf.context()));
                return Err(output.map(&mut |_| failed.clone()));
            }
        };
        let entry = Arc::new(Entry {
            structure: structure.into(),
            traced,
            output: output.map(&mut |_| exec::stand_in()),
        });
        let mut cache = self.cache.lock();
        // Another thread may have compiled the same in the meantime.
        if let Some(first) = cache.find(hash, &entry.structure, leaves) {
            drop(cache);
            return Ok(first);
        }
        let from = cache.limit.saturating_sub(1).min(cache.entries.len());
        let old = cache.entries.split_off(from);
        if cache.limit > 0 {
            cache.entries.insert(0, Arc::clone(&entry));
        }
        drop(cache);
        drop(old);
        Ok(entry)
    }

    /// The id of the trace, the function's result on placeholders, and what it does beside.
    fn trace(&self, arguments: &A::Given<'_>, leaves: &Leaves<'_>) -> (u64, F::Output, Vec<Tensor>) {
        exec::trace(|id| {
            let mut placeholders = leaves
                .iter()
                .zip(0..)
                .map(|(leaf, number)| exec::placeholder_for(leaf, number, id));
            let arguments = A::map(arguments, &mut |tensor| {
                placeholders.next().unwrap_or_else(|| tensor.clone())
            });
            (id, self.apply(&arguments), exec::take_effects())
        })
    }

    /// The graph that a call with `arguments` runs, before it is lowered. Its inputs are the tensors of the arguments, then those
    /// that the function captured.
    ///
    /// # Errors
    /// The first error of the function for these arguments.
    #[track_caller]
    pub fn graph(&self, arguments: A::Given<'_>) -> Result<Graph> {
        let tag = OpTag::uncounted("jit");
        let mut leaves = Leaves::new();
        A::visit(&arguments, &mut |tensor| leaves.push(tensor));
        for leaf in &leaves {
            leaf.shape()?;
        }
        let (id, output, effects) = self.trace(&arguments, &leaves);
        let mut outputs = Leaves::new();
        output.visit(&mut |tensor| outputs.push(tensor));
        for output in &outputs {
            if let Repr::Failed(failure) = &output.repr {
                return Err(Error::Tensor(Arc::clone(failure)));
            }
        }
        exec::graph_of(id, &leaves, (&outputs, &effects), tag)
    }

    /// Its name in profiles, in place of that of the function: `networks::step` for one and its closures.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Number of compiled graphs that are kept.
    pub fn cache_len(&self) -> usize {
        self.cache.lock().entries.len()
    }

    /// Keeps at most `limit` compiled graphs, 64 unless changed; those that were not used for longest go.
    #[must_use]
    pub fn cache_limit(self, limit: usize) -> Self {
        let old = {
            let mut cache = self.cache.lock();
            cache.limit = limit;
            let from = limit.min(cache.entries.len());
            cache.entries.split_off(from)
        };
        drop(old);
        self
    }

    /// Forgets all compiled graphs, and the captured tensors that they hold.
    pub fn clear(&self) {
        let old = std::mem::take(&mut self.cache.lock().entries);
        drop(old);
    }
}

/// Whether a call with this tensor must be a plain one; notes in `lazy` a tensor that must be evaluated first.
#[inline]
fn is_inlined(leaf: &Tensor, lazy: &mut bool) -> bool {
    match &leaf.repr {
        Repr::Value(_) | Repr::Constant(_) => leaf.history.is_some(),
        Repr::Lazy(recorded) => {
            *lazy = true;
            leaf.history.is_some() || recorded.trace != 0
        }
        Repr::Failed(_) => true,
    }
}
