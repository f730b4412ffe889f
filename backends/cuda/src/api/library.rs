//! Where libraries are found, and tables of their functions.

use libloading::Library;
use std::fmt::Write;
use std::path::PathBuf;
use thalweg_hal::status::with_causes;
use thalweg_hal::{Error, Result};

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub(crate) struct $name(pub *mut std::ffi::c_void);

        // SAFETY: objects of CUDA may be used from any thread; those of which one thread at a time may use are behind a lock.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )* };
}

macro_rules! functions {
    ($(#[$doc:meta])* $table:ident: $($(#[$kind:ident])? $field:ident = $symbol:literal($($arg:ty),* $(,)?) -> $ret:ty;)*) => {
        $(#[$doc])*
        pub(crate) struct $table {
            _library: libloading::Library,
            $(pub(crate) $field: functions!(@ty [$($kind)?] unsafe extern "C" fn($($arg),*) -> $ret),)*
        }

        impl $table {
            /// Looks every function up.
            ///
            /// # Errors
            /// [`Unavailable`](thalweg_hal::Status::Unavailable) with the first that is missing.
            pub(crate) fn resolve(library: libloading::Library, name: &str) -> thalweg_hal::Result<$table> {
                // SAFETY: the types are those of the headers, and the library lives as long as the table.
                unsafe {
                    Ok($table {
                        $($field: functions!(@get [$($kind)?] library, name, $symbol),)*
                        _library: library,
                    })
                }
            }
        }
    };
    (@ty [] $ty:ty) => { $ty };
    (@ty [optional] $ty:ty) => { Option<$ty> };
    (@get [] $library:ident, $name:ident, $symbol:literal) => {
        *$library.get($symbol.as_bytes()).map_err(|_| crate::api::library::missing($name, $symbol))?
    };
    (@get [optional] $library:ident, $name:ident, $symbol:literal) => {
        $library.get($symbol.as_bytes()).ok().map(|symbol| *symbol)
    };
}

pub(crate) use {functions, opaque};

pub(crate) fn missing(library: &str, symbol: &str) -> Error {
    Error::unavailable(format!(
        "{library} has no {symbol}; CUDA 12.0 or later is needed, update it"
    ))
}

/// Where the libraries are looked for.
#[derive(Clone, Debug)]
pub(crate) enum Search {
    /// In these folders and nowhere else.
    Folders(Vec<PathBuf>),
    /// Where the system looks, then where toolkits are installed.
    System,
}

impl Search {
    /// What the configuration says.
    pub(crate) fn new(folders: Option<&str>) -> Search {
        folders.map_or(Search::System, |list| {
            Search::Folders(std::env::split_paths(list).collect())
        })
    }

    /// Opens the first of `names` that is there. Libraries are never closed: they start threads.
    ///
    /// # Errors
    /// [`Unavailable`](thalweg_hal::Status::Unavailable): the first name was not found, and `advice`.
    pub(crate) fn open(&self, names: &[&str], advice: &str) -> Result<(Library, String)> {
        let mut causes = String::new();
        for name in names {
            for place in self.places(name) {
                // SAFETY: loading a library runs its constructors; these are the system's, or the user named the folder.
                match unsafe { Library::new(&place) } {
                    Ok(library) => return Ok((library, (*name).to_owned())),
                    // What is simply not there needs no further words.
                    Err(error) if !place.is_absolute() || place.exists() => {
                        let cause = with_causes(&error);
                        if !cause.contains("cannot open shared object file") {
                            let _ = write!(causes, "; {cause}");
                        }
                    }
                    Err(_) => {}
                }
            }
        }
        let folders = match self {
            Search::Folders(folders) => {
                let shown: Vec<_> = folders
                    .iter()
                    .map(|folder| folder.display().to_string())
                    .collect();
                format!(" in {}", shown.join(" or "))
            }
            Search::System => String::new(),
        };
        let name = names.first().copied().unwrap_or_default();
        Err(Error::unavailable(format!(
            "{name} was not found{folders} ({advice}){causes}"
        )))
    }

    fn places(&self, name: &str) -> Vec<PathBuf> {
        match self {
            Search::Folders(folders) => folders.iter().map(|folder| folder.join(name)).collect(),
            Search::System => {
                let set = |key| std::env::var_os(key).map(PathBuf::from);
                let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(set);
                let toolkits = toolkits.chain([PathBuf::from("/usr/local/cuda")]);
                let installed = toolkits.filter(|root| root.is_absolute());
                // CUPTI has a folder of its own in some.
                let folders = ["lib64", "extras/CUPTI/lib64"];
                let installed = installed.flat_map(|root| folders.map(|folder| root.join(folder).join(name)));
                [PathBuf::from(name)].into_iter().chain(installed).collect()
            }
        }
    }
}
