//! Texts, each under one number in the whole process.

use super::recording::TextId;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

#[derive(Default)]
struct Texts {
    // The number of a text is its place and 1.
    all: Vec<Arc<str>>,
    known: HashMap<Arc<str>, TextId>,
}

static TEXTS: LazyLock<RwLock<Texts>> = LazyLock::new(RwLock::default);

/// Most texts that are kept; names of later ones are lost. Programs that make up names without end would fill the memory.
const MOST: usize = 1 << 20;

/// The number of a text; 0 for the empty one.
pub(crate) fn intern(text: &str) -> TextId {
    if text.is_empty() {
        return 0;
    }
    if let Some(&id) = TEXTS.read().known.get(text) {
        return id;
    }
    let mut texts = TEXTS.write();
    if let Some(&id) = texts.known.get(text) {
        return id;
    }
    if texts.all.len() >= MOST {
        return 0;
    }
    let text: Arc<str> = text.into();
    texts.all.push(Arc::clone(&text));
    let id = texts.all.len() as TextId;
    texts.known.insert(text, id);
    id
}

/// The text of a number.
pub(crate) fn get(id: TextId) -> Option<Arc<str>> {
    let at = (id as usize).checked_sub(1)?;
    TEXTS.read().all.get(at).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_in_all_threads() {
        let ids: Vec<TextId> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (intern("one of record::text"), intern("other of record::text"))))
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| <[TextId; 2]>::from(thread.join().unwrap()))
                .collect()
        });
        assert!(ids.chunks(2).all(|pair| pair == &ids[..2] && pair[0] != pair[1]));
        assert_eq!(get(ids[0]).as_deref(), Some("one of record::text"));
        assert_eq!((intern(""), get(0), get(u32::MAX)), (0, None, None));
    }
}
