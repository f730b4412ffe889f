//! What a graph does beside computing: texts and values that it prints, and closures that it calls.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// A part of what [`Control::Print`](super::Control::Print) shows, on a line of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Printed {
    /// A text.
    Text(Arc<str>),
    /// The next operand.
    Operand,
}

/// A closure of the program. Two are equal when they are clones of one.
#[derive(Clone)]
pub struct Callback(Arc<dyn Any + Send + Sync>);

impl Callback {
    /// What is called; the crate knows its type where it calls it.
    pub(crate) fn new(called: impl Any + Send + Sync) -> Callback {
        Callback(Arc::new(called))
    }

    /// What is called, if it is of this type.
    pub(crate) fn called<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }
}

// What a panic of the closure leaves behind is seen by the closure alone.
impl UnwindSafe for Callback {}
impl RefUnwindSafe for Callback {}

impl PartialEq for Callback {
    fn eq(&self, other: &Callback) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Callback {}

impl Hash for Callback {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}
