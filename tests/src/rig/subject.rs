//! The backend under test.

use super::raw::Raw;
use std::path::Path;
use thalweg::loader::{Backend, LoadError, LoaderOptions, Registry};
use thalweg_hal::Result;
use thalweg_hal::tables::{BackendApi, Entry};

/// A backend under test.
pub struct Subject {
    name: String,
    api: BackendApi,
    raw: Raw,
    entry: Option<Entry>,
}

impl Subject {
    /// A loaded backend; `name` is shown in the report.
    ///
    /// # Errors
    /// When a required table is missing.
    ///
    /// # Safety
    /// `api` was filled by an entry function and its backend is not shut down while the subject lives.
    pub unsafe fn new(name: impl Into<String>, api: BackendApi) -> Result<Subject> {
        Ok(Subject {
            name: name.into(),
            api,
            // SAFETY: the caller vouches for `api`.
            raw: unsafe { Raw::of(&api) }?,
            entry: None,
        })
    }

    /// With its entry function, which the cases of negotiation call.
    ///
    /// # Safety
    /// `entry` is the entry function of the same plugin.
    pub unsafe fn with_entry(mut self, entry: Entry) -> Subject {
        self.entry = Some(entry);
        self
    }

    /// A backend that the loader has loaded.
    ///
    /// # Errors
    /// When a required table is missing.
    pub fn of(backend: &Backend) -> Result<Subject> {
        let name = match backend.path() {
            Some(path) => path
                .file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy()
                .into_owned(),
            None => format!("{} (embedded)", backend.name()),
        };
        // SAFETY: the loader keeps the backend as long as the process, and entry function and tables are one plugin's.
        unsafe { Ok(Subject::new(name, *backend.api())?.with_entry(backend.entry())) }
    }

    /// The plugin in a file, after all checks of the loader.
    ///
    /// # Errors
    /// Why it is not loaded.
    pub fn load(path: &Path, options: &LoaderOptions) -> std::result::Result<Subject, LoadError> {
        let backend = Registry::load_file(path, options)?;
        Subject::of(backend).map_err(|error| LoadError::Init(error.to_string()))
    }

    /// A backend that is linked into this program, whatever files there are.
    ///
    /// # Errors
    /// When there is none of this name, or it does not start.
    pub fn embedded(name: &str) -> thalweg::Result<Subject> {
        let options = LoaderOptions {
            use_environment: false,
            use_executable: false,
            development: false,
            ..LoaderOptions::default()
        };
        let backend = Registry::new(options).get(name)?;
        Subject::of(backend).map_err(|error| thalweg::Error::backend(error.status, error.message))
    }

    /// Its name in the report.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its target name.
    pub fn target(&self) -> String {
        self.raw.info().map_or_else(
            |_| String::new(),
            |info| {
                let end = info.name.iter().position(|&b| b == 0).unwrap_or(info.name.len());
                String::from_utf8_lossy(&info.name[..end]).into_owned()
            },
        )
    }

    /// What its entry function handed over.
    pub fn api(&self) -> &BackendApi {
        &self.api
    }

    /// Its tables.
    pub fn raw(&self) -> Raw {
        self.raw
    }

    /// Its entry function, where it is known.
    pub fn entry(&self) -> Option<Entry> {
        self.entry
    }
}
