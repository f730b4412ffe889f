//! Parts of a network by name, and which one the code of this thread is in.

use super::text;
use parking_lot::RwLock;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Number of a scope's path in this process; the same path has the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ScopeId(u32);

/// The scope that all code is in.
const ROOT: &str = "Default";
/// In front of the scopes whose gradients are computed.
const GRADIENTS: &str = "Gradients";
/// The scope of what changes parameters.
const UPDATE: &str = "Update";

#[derive(Default)]
struct Scopes {
    // The number of a path is its place and 1.
    paths: Vec<Arc<str>>,
    known: HashMap<Arc<str>, ScopeId>,
    children: HashMap<(ScopeId, Arc<str>), ScopeId>,
    gradients: HashMap<ScopeId, ScopeId>,
}

static SCOPES: LazyLock<RwLock<Scopes>> = LazyLock::new(|| {
    let mut scopes = Scopes::default();
    scopes.add(ROOT);
    RwLock::new(scopes)
});

thread_local! {
    static CURRENT: Cell<ScopeId> = const { Cell::new(ScopeId::ROOT) };
}

impl Scopes {
    fn add(&mut self, path: &str) -> ScopeId {
        if let Some(&id) = self.known.get(path) {
            return id;
        }
        let path: Arc<str> = path.into();
        self.paths.push(Arc::clone(&path));
        let id = ScopeId(self.paths.len() as u32);
        self.known.insert(path, id);
        id
    }

    fn path(&self, id: ScopeId) -> Arc<str> {
        let at = (id.0 as usize).wrapping_sub(1);
        self.paths.get(at).cloned().unwrap_or_else(|| "".into())
    }
}

impl ScopeId {
    /// Of work that was not named.
    pub(crate) const NONE: ScopeId = ScopeId(0);
    /// `Default`.
    pub(crate) const ROOT: ScopeId = ScopeId(1);

    /// The scope of this path.
    pub(crate) fn of(path: &str) -> ScopeId {
        if path.is_empty() {
            return ScopeId::NONE;
        }
        if let Some(&id) = SCOPES.read().known.get(path) {
            return id;
        }
        SCOPES.write().add(path)
    }

    /// `Default/conv1`; empty for none.
    pub(crate) fn path(self) -> Arc<str> {
        SCOPES.read().path(self)
    }

    /// The scope below this one by a name, whose points are slashes: `layers.0` is two.
    pub(crate) fn child(self, name: &str) -> ScopeId {
        if name.is_empty() {
            return self;
        }
        let of = if self == ScopeId::NONE {
            ScopeId::ROOT
        } else {
            self
        };
        let key = (of, Arc::<str>::from(name));
        if let Some(&id) = SCOPES.read().children.get(&key) {
            return id;
        }
        let mut scopes = SCOPES.write();
        let path = format!("{}/{}", scopes.path(of), name.replace('.', "/"));
        let id = scopes.add(&path);
        scopes.children.insert(key, id);
        id
    }

    /// The scope of the gradients of what this one computes.
    pub(crate) fn gradients(self) -> ScopeId {
        let of = if self == ScopeId::NONE {
            ScopeId::ROOT
        } else {
            self
        };
        if let Some(&id) = SCOPES.read().gradients.get(&of) {
            return id;
        }
        let mut scopes = SCOPES.write();
        let path = format!("{GRADIENTS}/{}", scopes.path(of));
        let id = scopes.add(&path);
        scopes.gradients.insert(of, id);
        id
    }

    /// Whether it is a scope of gradients.
    pub(crate) fn is_gradients(self) -> bool {
        self.path()
            .strip_prefix(GRADIENTS)
            .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether it is a scope of what changes parameters.
    pub(crate) fn is_update(self) -> bool {
        let path = self.path();
        path.strip_prefix(UPDATE)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The scope of what changes the parameter by a name; of all that changes parameters for the empty one.
    pub(crate) fn update(name: &str) -> ScopeId {
        ScopeId::of(UPDATE).child(name)
    }

    /// As a number; 0 for none.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// The number of its path among all texts.
    pub(crate) fn text(self) -> u32 {
        text::intern(&self.path())
    }
}

/// The scope that code of this thread is in.
pub(crate) fn current() -> ScopeId {
    CURRENT.get()
}

/// While it lives, code of this thread is in a scope. Dropping it, also by a panic, ends that.
#[derive(Debug)]
pub(crate) struct Entered {
    outer: ScopeId,
    // A scope ends on the thread that it began on.
    _not_send: std::marker::PhantomData<*const ()>,
}

/// Enters a scope.
pub(crate) fn enter(scope: ScopeId) -> Entered {
    Entered {
        outer: CURRENT.replace(scope),
        _not_send: std::marker::PhantomData,
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_number_however_it_is_reached() {
        let layer = ScopeId::ROOT.child("layers.0");
        assert_eq!(&*layer.path(), "Default/layers/0");
        assert_eq!(layer, ScopeId::ROOT.child("layers").child("0"));
        assert_eq!(layer, ScopeId::of("Default/layers/0"));
        assert_eq!(layer.child(""), layer);
        assert_eq!(&*layer.gradients().path(), "Gradients/Default/layers/0");
        assert_eq!(layer.gradients(), ScopeId::of("Gradients/Default/layers/0"));
        assert_eq!(ScopeId::NONE.child("a"), ScopeId::ROOT.child("a"));
        assert_eq!(&*ScopeId::NONE.path(), "");
    }

    #[test]
    fn scopes_nest_and_end_by_a_panic() {
        let outer = enter(ScopeId::ROOT.child("outer"));
        let panicked = std::panic::catch_unwind(|| {
            let _inner = enter(current().child("inner"));
            assert_eq!(&*current().path(), "Default/outer/inner");
            panic!("inside");
        });
        assert!(panicked.is_err());
        assert_eq!(&*current().path(), "Default/outer");
        drop(outer);
        assert_eq!(current(), ScopeId::ROOT);
    }
}
