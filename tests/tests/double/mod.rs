//! A backend with some of its tables exchanged.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::Mutex;
use thalweg::host::host_api;
use thalweg_conformance::Subject;
use thalweg_hal::tables::*;

/// What a double answers instead of the original, by table and version; an address, or 0 for null.
type Answers = HashMap<(u32, u32), usize>;

// By the context of the original, which every call hands over.
static DOUBLES: Mutex<Vec<(usize, BackendApi, Answers)>> = Mutex::new(Vec::new());

unsafe extern "C" fn query_interface(context: Context, table: u32, version: u32) -> *const c_void {
    let doubles = DOUBLES.lock().unwrap();
    let (_, original, answers) = doubles
        .iter()
        .find(|(known, ..)| *known == context as usize)
        .unwrap();
    match answers.get(&(table, version)) {
        Some(&answer) => answer as *const c_void,
        // SAFETY: the original's own function with its own context.
        None => unsafe { (original.query_interface)(context, table, version) },
    }
}

/// A new instance of the embedded CPU backend, to be changed.
pub(crate) struct Double {
    original: BackendApi,
    answers: Answers,
}

impl Double {
    pub(crate) fn new() -> Double {
        let entry = Subject::embedded("cpu").unwrap().entry().unwrap();
        let mut original = BackendApi::empty();
        // SAFETY: the host's table lives for ever, the out pointer is writable.
        let code = unsafe { entry(ABI_VERSION, host_api(), &raw mut original) };
        assert_eq!(code, 0);
        Double {
            original,
            answers: Answers::new(),
        }
    }

    /// With a table changed.
    pub(crate) fn change<T: Table + std::marker::Copy>(mut self, change: impl FnOnce(&mut T)) -> Double {
        // SAFETY: the original's own function; a table that is not null has the layout of its id and version.
        let mut table = unsafe {
            *(self.original.query_interface)(self.original.context, T::ID as u32, T::VERSION)
                .cast::<T>()
                .as_ref()
                .unwrap()
        };
        change(&mut table);
        let kept: &'static T = Box::leak(Box::new(table));
        self.answers
            .insert((T::ID as u32, T::VERSION), std::ptr::from_ref(kept) as usize);
        self
    }

    /// Without a table, as an older plugin.
    pub(crate) fn without(mut self, table: TableId) -> Double {
        self.answers.insert((table as u32, 1), null::<c_void>() as usize);
        self
    }

    /// With a table that this version does not know, as a newer plugin.
    pub(crate) fn with_unknown(mut self, table: u32, version: u32) -> Double {
        static SOMETHING: [usize; 8] = [0xdead; 8];
        self.answers.insert((table, version), SOMETHING.as_ptr() as usize);
        self
    }

    pub(crate) fn api(self) -> BackendApi {
        let api = BackendApi {
            query_interface,
            ..self.original
        };
        let context = self.original.context as usize;
        DOUBLES
            .lock()
            .unwrap()
            .push((context, self.original, self.answers));
        api
    }

    pub(crate) fn subject(self, name: &str) -> Subject {
        // SAFETY: what is not changed is the original's, and changes keep the signatures.
        unsafe { Subject::new(name, self.api()) }.ok().unwrap()
    }
}
