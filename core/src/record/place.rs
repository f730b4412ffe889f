//! Where work comes from: an op, the user's line and the scope, under one number in the process.

use super::recording::{Place, PlaceId};
use super::scope::ScopeId;
use super::{flight, text};
use parking_lot::RwLock;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::LazyLock;
use thalweg_hal::backend::is_standard_library;

/// A call of an op: its place, and its number in its trace or step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) place: PlaceId,
    pub(crate) number: u32,
}

/// What a place is, by addresses. The same text may lie at several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    op: usize,
    location: usize,
    op_bytes: u32,
    scope: ScopeId,
}

impl Key {
    const NONE: Key = Key {
        op: 0,
        location: 0,
        op_bytes: 0,
        scope: ScopeId::NONE,
    };
}

/// Whether a file is one of the program: neither one of the standard library, which calls functions that were given as values, nor one
/// of this crate, where pointers to its functions lead.
pub(crate) fn is_of_program(file: &str) -> bool {
    !is_standard_library(file) && !file.starts_with(concat!(env!("CARGO_MANIFEST_DIR"), "/src/"))
}

#[derive(Default)]
struct Places {
    // The number of a place is its place here and 1.
    all: Vec<Place>,
    by_address: HashMap<Key, PlaceId>,
    // By op, scope, file and line.
    known: HashMap<[u32; 4], PlaceId>,
}

static PLACES: LazyLock<RwLock<Places>> = LazyLock::new(RwLock::default);

/// Places that a thread finds without a lock; a power of two.
const CACHED: usize = 128;

thread_local! {
    // Without a destructor, which each look would ask whether it has run. The place 0 stands for none.
    static CACHE: [Cell<(Key, PlaceId)>; CACHED] = const { [const { Cell::new((Key::NONE, 0)) }; CACHED] };
}

/// The number of the place of an op; 0 where there is no op.
#[inline(always)]
pub(crate) fn of(op: &'static str, location: Option<&'static Location<'static>>, scope: ScopeId) -> PlaceId {
    if op.is_empty() {
        return 0;
    }
    let key = Key {
        op: op.as_ptr().addr(),
        location: location.map_or(0, |location| std::ptr::from_ref(location).addr()),
        op_bytes: op.len() as u32,
        scope,
    };
    let mixed = (key.op as u64 ^ key.location as u64 ^ u64::from(scope.number()) << 32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let at = (mixed >> 48) as usize % CACHED;
    match CACHE.with(|cache| cache[at].get()) {
        (known, id) if known == key => id,
        _ => {
            let id = interned(key, op, location);
            CACHE.with(|cache| cache[at].set((key, id)));
            id
        }
    }
}

#[cold]
fn interned(key: Key, op: &'static str, location: Option<&'static Location<'static>>) -> PlaceId {
    let known = PLACES.read().by_address.get(&key).copied();
    let id = known.unwrap_or_else(|| new(key, op, location));
    if flight::is_on() {
        flight::place_is_known(id);
    }
    id
}

fn new(key: Key, op: &'static str, location: Option<&'static Location<'static>>) -> PlaceId {
    let location = location.filter(|line| is_of_program(line.file()));
    let place = Place {
        id: 0,
        op: text::intern(op),
        scope: key.scope.text(),
        file: location.map_or(0, |location| text::intern(location.file())),
        line: location.map_or(0, |location| location.line()),
    };
    let texts = [place.op, place.scope, place.file, place.line];
    let mut places = PLACES.write();
    let next = places.all.len() as PlaceId + 1;
    let id = *places.known.entry(texts).or_insert(next);
    if id == next {
        places.all.push(Place { id, ..place });
    }
    places.by_address.insert(key, id);
    id
}

/// The place of a number.
pub(crate) fn get(id: PlaceId) -> Option<Place> {
    let at = (id as usize).checked_sub(1)?;
    PLACES.read().all.get(at).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_libraries_are_none_of_the_program() {
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/src/ops/map.rs");
        for file in [
            own,
            "/rustc/59807616e1fa/library/core/src/ops/function.rs",
            "/home/a/.rustup/toolchains/b/lib/rustlib/src/rust/library/core/src/ops/function.rs",
        ] {
            assert!(!is_of_program(file), "{file}");
        }
        for file in [
            "src/main.rs",
            "/home/a/.cargo/registry/src/index/layers-1.0.0/src/lib.rs",
            "rustc/src/main.rs",
        ] {
            assert!(is_of_program(file), "{file}");
        }
    }

    #[test]
    fn a_place_has_one_number_and_says_what_it_is() {
        let here = Location::caller();
        let scope = ScopeId::ROOT.child("place");
        let id = of("matmul", Some(here), scope);
        let others = [
            of("matmul", None, scope),
            of("matmul", Some(here), ScopeId::ROOT),
            of("add", Some(here), scope),
        ];
        assert!(!others.contains(&id));
        let elsewhere = std::thread::spawn(move || of("matmul", Some(here), scope));
        assert_eq!(
            (of("matmul", Some(here), scope), elsewhere.join().unwrap()),
            (id, id)
        );
        let place = get(id).unwrap();
        let text = |id| text::get(id).unwrap().to_string();
        assert_eq!(
            (place.id, text(place.op), text(place.scope)),
            (id, "matmul".into(), "Default/place".into())
        );
        assert_eq!(
            (text(place.file), place.line),
            (here.file().to_owned(), here.line())
        );
        assert_eq!((of("", Some(here), scope), get(0)), (0, None));
    }
}
