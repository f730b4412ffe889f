//! Values that are noted by name, also inside of training steps.

use super::record;
use std::cell::RefCell;
use std::sync::Arc;
use thalweg::{Tensor, Tree, observe};

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar,
    Image,
    Tensor,
    Histogram,
}

/// A value by name.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) tag: Arc<str>,
    pub(crate) value: Tensor,
}

/// What a step noted. In a compiled step the values are results of its graph, while names and kinds are the same in each.
#[derive(Clone, Default)]
pub(crate) struct Noted {
    pub(crate) entries: Vec<Entry>,
    /// The first name that was noted where there are no values.
    pub(crate) lost: Option<Arc<str>>,
}

impl Noted {
    /// Whether nothing was noted.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.lost.is_none()
    }
}

impl Tree for Noted {
    fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Tensor)) {
        self.entries.iter().for_each(|entry| each(&entry.value));
    }

    fn map(&self, each: &mut dyn FnMut(&Tensor) -> Tensor) -> Noted {
        let mut mapped = self.clone();
        (mapped.entries.iter_mut()).for_each(|entry| entry.value = each(&entry.value));
        mapped
    }
}

/// Whether a step collects what is noted in it, and what else it gives. Compiled steps that do are others than those that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) notes: bool,
    /// Whether it gives the norms of its gradients.
    pub(crate) norms: bool,
}

impl Tree for Asked {
    fn visit<'a>(&'a self, _: &mut dyn FnMut(&'a Tensor)) {}

    fn map(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Asked {
        *self
    }

    fn structure(&self, into: &mut Vec<u64>) {
        into.push(u64::from(self.notes) | u64::from(self.norms) << 1);
    }
}

/// Where what this thread notes goes.
enum Way {
    /// To the record of the thread.
    Record,
    /// Nowhere: steps that are not collected, evaluation, prediction.
    Nowhere,
    /// Into the results of the step that runs or is traced here.
    Step { trace: u64, noted: Noted },
}

thread_local! {
    static WAY: RefCell<Way> = const { RefCell::new(Way::Record) };
}

/// Goes back to the way before, also by a panic.
struct Restore(Option<Way>);

impl Restore {
    fn enter(way: Way) -> Restore {
        Restore(Some(WAY.with(|now| now.replace(way))))
    }

    fn leave(mut self) -> Way {
        let before = self.0.take().unwrap_or(Way::Record);
        WAY.with(|now| now.replace(before))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            WAY.with(|now| now.replace(before));
        }
    }
}

/// Runs `body`, in which nothing is noted.
pub(crate) fn muted<R>(body: impl FnOnce() -> R) -> R {
    let _restore = Restore::enter(Way::Nowhere);
    body()
}

/// Runs `body`, and returns what was noted in it where that is asked for.
pub(crate) fn during<R>(asked: Asked, body: impl FnOnce() -> R) -> (R, Noted) {
    if !asked.notes {
        return (muted(body), Noted::default());
    }
    let step = Restore::enter(Way::Step {
        trace: observe::trace_number(),
        noted: Noted::default(),
    });
    let result = body();
    match step.leave() {
        Way::Step { noted, .. } => (result, noted),
        Way::Record | Way::Nowhere => (result, Noted::default()),
    }
}

/// Notes a value by name.
pub(crate) fn note(kind: Kind, tag: &str, value: &Tensor) {
    let to_record = WAY.with(|way| match &mut *way.borrow_mut() {
        Way::Nowhere => false,
        Way::Record => true,
        Way::Step { trace, noted } => {
            // The values of a loop's body and the like do not exist outside of it.
            if *trace == observe::trace_number() {
                noted.entries.push(Entry {
                    kind,
                    tag: tag.into(),
                    value: value.detach(),
                });
            } else {
                noted.lost.get_or_insert_with(|| tag.into());
            }
            false
        }
    });
    if to_record {
        record::note(Entry {
            kind,
            tag: tag.into(),
            value: value.detach(),
        });
    }
}
