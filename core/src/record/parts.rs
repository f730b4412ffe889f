//! Which part of a network lies where, so that a layer that runs finds its own name.

use super::scope::{self, Entered, ScopeId};
use super::{calls, name, switch};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// A part: its address, and the name of its type, since the first field lies where its struct lies.
type Key = (usize, &'static str);

/// The parts of what a function was given.
struct Table {
    /// The scope that the function was called in.
    base: ScopeId,
    /// `None` for parts that cannot be told apart: those without size may share an address.
    parts: HashMap<Key, Option<ScopeId>>,
    /// Paths with the classes of their parts, where those are part of names.
    classed: HashMap<String, String>,
}

/// Whether names of parts end with their classes: `conv1-Conv2d`.
static CLASSES: AtomicBool = AtomicBool::new(false);

/// Whether names of parts end with their classes from now on.
pub(crate) fn reserve_classes(on: bool) {
    CLASSES.store(on, Ordering::Relaxed);
}

/// The name of a part whose type has this name.
pub(crate) fn with_class(part: String, type_name: &str) -> String {
    match name::of_part(type_name) {
        Some(class) if CLASSES.load(Ordering::Relaxed) => format!("{part}-{class}"),
        Some(_) | None => part,
    }
}

impl Table {
    /// The path of a part, of which each piece that was noted has its class.
    fn classed(&self, path: &str) -> String {
        match (self.classed.get(path), path.rsplit_once('.')) {
            (Some(known), _) => known.clone(),
            (None, Some((outer, last))) => format!("{}.{last}", self.classed(outer)),
            (None, None) => path.to_owned(),
        }
    }

    /// The scope of a part.
    fn scope(&mut self, path: &str, type_name: &str) -> ScopeId {
        if !CLASSES.load(Ordering::Relaxed) {
            return self.base.child(path);
        }
        let (outer, last) = path
            .rsplit_once('.')
            .map_or((None, path), |(outer, last)| (Some(outer), last));
        let last = with_class(last.to_owned(), type_name);
        let classed = match outer {
            Some(outer) => format!("{}.{last}", self.classed(outer)),
            None => last,
        };
        let scope = self.base.child(&classed);
        self.classed.insert(path.to_owned(), classed);
        scope
    }
}

thread_local! {
    // Innermost last.
    static TABLES: RefCell<Vec<Table>> = const { RefCell::new(Vec::new()) };
    static NOTING: Cell<bool> = const { Cell::new(false) };
}

/// Whether ops of this thread get names: they are traced, or something is recorded.
pub(crate) fn is_naming() -> bool {
    calls::tracing() != 0 || !switch::is_off()
}

/// Runs `body`, in which layers find the names under which `visit` tells of them by [`note`].
pub(crate) fn with<R>(visit: impl FnOnce(), body: impl FnOnce() -> R) -> R {
    struct Listed;
    impl Drop for Listed {
        fn drop(&mut self) {
            let _ = TABLES.try_with(|tables| tables.borrow_mut().pop());
        }
    }
    struct Noting(bool);
    impl Drop for Noting {
        fn drop(&mut self) {
            NOTING.set(self.0);
        }
    }
    if !is_naming() {
        return body();
    }
    let listed = TABLES.try_with(|tables| {
        tables.borrow_mut().push(Table {
            base: scope::current(),
            parts: HashMap::new(),
            classed: HashMap::new(),
        });
    });
    // Destructors of thread-local values, at the very end of a thread, find no names.
    if listed.is_err() {
        return body();
    }
    let _listed = Listed;
    {
        let _noting = Noting(NOTING.replace(true));
        visit();
    }
    body()
}

/// Whether someone wants to hear of parts.
#[inline]
pub(crate) fn is_noting() -> bool {
    NOTING.get()
}

/// Notes the part at an address, of a type by this name, under its path: names joined by points.
pub(crate) fn note(address: usize, type_name: &'static str, path: &str) {
    let _ = TABLES.try_with(|tables| {
        let mut tables = tables.borrow_mut();
        let Some(table) = tables.last_mut() else { return };
        let scope = table.scope(path, type_name);
        let part = table.parts.entry((address, type_name)).or_insert(Some(scope));
        if *part != Some(scope) {
            *part = None;
        }
    });
}

/// Enters the scope of the part at an address; `None` where it has no name or code is in its scope already.
#[inline]
pub(crate) fn enter(address: usize, type_name: &'static str) -> Option<Entered> {
    let scope = TABLES.try_with(|tables| match &**tables.borrow() {
        [] => None,
        tables => find(tables, (address, type_name)),
    });
    let scope = scope.ok().flatten()?;
    (scope != scope::current()).then(|| scope::enter(scope))
}

/// Whether the part at an address was noted, alone or among others.
pub(crate) fn is_known(address: usize, type_name: &'static str) -> bool {
    let key = (address, type_name);
    let known = TABLES.try_with(|tables| tables.borrow().iter().any(|table| table.parts.contains_key(&key)));
    known.unwrap_or(false)
}

#[cold]
fn find(tables: &[Table], key: Key) -> Option<ScopeId> {
    let mut found = tables.iter().rev().filter_map(|table| table.parts.get(&key));
    found.next().copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_where_they_were_noted() {
        let path = |entered: Option<Entered>| entered.map(|_entered| scope::current().path().to_string());
        let noted = || {
            note(64, "Dense", "head");
            note(64, "Parameter", "head.weight");
            note(8, "Relu", "first");
            note(8, "Relu", "second");
        };
        // Nobody is named outside of a trace.
        with(noted, || assert!(enter(64, "Dense").is_none()));
        calls::trace(7, true, || {
            let _net = scope::enter(ScopeId::ROOT.child("net"));
            with(noted, || {
                assert_eq!(path(enter(64, "Dense")).as_deref(), Some("Default/net/head"));
                assert_eq!(
                    path(enter(64, "Parameter")).as_deref(),
                    Some("Default/net/head/weight")
                );
                assert_eq!(path(enter(8, "Relu")), None);
                assert_eq!(path(enter(65, "Dense")), None);
                let _head = enter(64, "Dense");
                assert!(enter(64, "Dense").is_none(), "it is in its scope");
                with(
                    || note(128, "Dense", "inner"),
                    || {
                        assert_eq!(
                            path(enter(128, "Dense")).as_deref(),
                            Some("Default/net/head/inner")
                        );
                    },
                );
                assert!(enter(128, "Dense").is_none());
            });
            assert!(enter(64, "Dense").is_none());
        });
    }
}
