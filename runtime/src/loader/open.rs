//! Loads a judged file into this process and asks it for its tables.

use super::error::LoadError;
use super::judge::Judged;
use super::layers::Chain;
use super::trail::{Stage, Trail};
use crate::error::{Error, Result};
use crate::host::host_api;
use crate::said::{self, text};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::cell::RefCell;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::LazyLock;
use thalweg_hal::Status;
use thalweg_hal::tables::{
    ABI_VERSION, BackendApi, BackendInfo, CoreTable, Entry, HostApi, LogRecord, Table, TableId,
};

/// A backend that is loaded; it stays so until the process ends.
#[derive(Debug)]
pub struct Backend {
    name: String,
    version: String,
    driver: String,
    path: Option<PathBuf>,
    layers: Vec<String>,
    entry: Entry,
    api: BackendApi,
    core: &'static CoreTable,
}

impl Backend {
    /// The target's name: what stands before the colon of a device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The backend's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The driver or runtime behind it, with its version; empty when there is none.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The file it came from, `None` for an embedded one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The layers over it; the first is nearest to the program.
    pub fn layers(&self) -> &[String] {
        &self.layers
    }

    /// The function that the backend itself, without its layers, was asked with for its tables.
    pub fn entry(&self) -> Entry {
        self.entry
    }

    /// What the backend, or the uppermost layer over it, handed over.
    pub fn api(&self) -> &BackendApi {
        &self.api
    }

    /// The table `T`, `None` when the backend lacks it.
    pub fn table<T: Table>(&self) -> Option<&'static T> {
        // SAFETY: the contract of the tables: a pointer of the asked type that lives as long as the process, or null.
        unsafe { table(&self.api) }
    }

    /// The number of devices.
    ///
    /// # Errors
    /// Why there can be none, as the backend says it.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the context is the backend's, `count` lives through the call.
        self.check(unsafe { (self.core.device_count)(self.api.context, &raw mut count) })?;
        said::count(count).map_err(|message| Error::Backend {
            status: Status::Internal,
            message,
        })
    }

    /// Turns the code that a function of this backend returned into a result; to be called on the same thread.
    ///
    /// # Errors
    /// For every code but 0, with the backend's text.
    #[inline]
    pub fn check(&self, code: i32) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(code)) }
    }

    #[cold]
    fn error(&self, code: i32) -> Error {
        let status = Status::from_code(code).unwrap_or(Status::Internal);
        Error::Backend {
            status,
            message: last_error(self.core, &self.api).unwrap_or_else(|| said_nothing(code)),
        }
    }
}

fn said_nothing(code: i32) -> String {
    match Status::from_code(code) {
        Some(status) => format!("{status} (the backend gives no reason)"),
        None => format!("the backend failed with the unknown code {code}"),
    }
}

fn last_error(core: &CoreTable, api: &BackendApi) -> Option<String> {
    // SAFETY: the function is a backend's, and its context goes with it.
    unsafe { said::last_error(core.last_error, api.context) }
}

/// # Safety
/// `api` keeps the contract of [`BackendApi`].
unsafe fn table<T: Table>(api: &BackendApi) -> Option<&'static T> {
    // SAFETY: the caller vouches for it.
    let table = unsafe { (api.query_interface)(api.context, T::ID as u32, T::VERSION) };
    if table.cast::<T>().is_aligned() {
        // SAFETY: null or a table of this type, as the contract says.
        unsafe { table.cast::<T>().as_ref() }
    } else {
        None
    }
}

/// Loads the file at `path`, whose content is `judged`, and looks up its function `symbol`, which has the type `T`.
pub(super) fn open<T: Copy>(
    judged: &Judged,
    path: &Path,
    symbol: &str,
    trail: &mut Trail,
) -> Result<Option<T>, LoadError> {
    trail.enter(Stage::Open, Some(&judged.path));
    // SAFETY: constructors of the library run here; a child process has shown that they come to their end.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL | libc::RTLD_NODELETE) };
    let library = library.map_err(|error| {
        let mut cause: &dyn std::error::Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        refusal(&cause.to_string(), path, judged)
    })?;
    trail.found("loaded into this process");
    // SAFETY: by the contract this symbol is a function of the type that the caller names.
    let entry = unsafe { library.get::<T>(symbol.as_bytes()) }.map(|entry| *entry);
    // The library is never unloaded: threads, thread-local destructors and tables of its live on.
    std::mem::forget(library);
    Ok(entry.ok())
}

/// What the system's loader says of the library at `path`, as an error.
pub(super) fn refusal(text: &str, path: &Path, judged: &Judged) -> LoadError {
    let missing = text
        .split_once(": cannot open shared object file")
        .map(|(file, _)| file);
    let missing = missing.filter(|file| Path::new(file) != path);
    let missing = missing.or_else(|| {
        let needed = &judged.needed;
        needed
            .iter()
            .map(String::as_str)
            .find(|library| text.starts_with(*library))
    });
    match missing {
        Some(library) => {
            let beside = judged.path.parent().map(|folder| folder.join(library));
            LoadError::MissingLibrary {
                library: library.into(),
                beside: beside.is_some_and(|path| path.exists()),
            }
        }
        None => {
            let own = format!("{}: ", path.display());
            LoadError::Open(text.strip_prefix(&own).unwrap_or(text).into())
        }
    }
}

thread_local! {
    /// The last error that a backend logged on this thread.
    static LOGGED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The host's table with an ear on what is logged: an entry function that fails has no other way to say why.
static HOST: LazyLock<HostApi> = LazyLock::new(|| HostApi { log, ..*host_api() });

unsafe extern "C" fn log(context: *mut c_void, record: *const LogRecord) {
    // SAFETY: the contract of the host's table: null or valid for the call.
    if let Some(record) = unsafe { record.as_ref() }
        && record.level == thalweg_hal::tables::LogLevel::Error as u32
    {
        // SAFETY: as above.
        let text = unsafe { record.message.get() }.unwrap_or_default().to_owned();
        // A thread at its very end has no place for it any more.
        let _ = LOGGED.try_with(|logged| logged.replace(Some(text)));
    }
    // SAFETY: both arguments are handed on as they came.
    unsafe { (host_api().log)(context, record) };
}

/// Calls an entry function; what it logged is the reason when it fails.
pub(super) fn called(entry: impl FnOnce(*const HostApi) -> i32) -> Result<(), LoadError> {
    let logged = || LOGGED.try_with(RefCell::take).ok().flatten();
    logged();
    match entry(ptr::from_ref::<HostApi>(&HOST)) {
        0 => Ok(()),
        code => Err(LoadError::Init(logged().unwrap_or_else(|| said_nothing(code)))),
    }
}

/// Checks that the tables are there and whole.
pub(super) fn check_tables(api: &BackendApi) -> Result<(), LoadError> {
    // SAFETY: a function pointer is read as the number that a plugin may have written in its place.
    let query = unsafe { (&raw const api.query_interface).cast::<usize>().read() };
    if query == 0 {
        return Err(LoadError::MissingTable(TableId::Core.name()));
    }
    for &id in TableId::ALL {
        // SAFETY: the entry function succeeded, so `api` keeps its contract.
        let table = unsafe { (api.query_interface)(api.context, id as u32, 1) }.cast::<Option<Entry>>();
        match table.is_null() {
            true if id.required() => return Err(LoadError::MissingTable(id.name())),
            true => continue,
            false if !table.is_aligned() => return Err(LoadError::Misaligned(id.name())),
            false => {}
        }
        // SAFETY: aligned, and by the contract a table of this many functions, each as long as the entry's.
        let functions = unsafe { std::slice::from_raw_parts(table, id.functions()) };
        if let Some(function) = functions.iter().position(Option::is_none) {
            return Err(LoadError::NullFunction {
                table: id.name(),
                function,
            });
        }
    }
    Ok(())
}

/// Calls the entry function and checks what it hands over, and what `layers` make of it. `name` is the target that was asked for.
pub(super) fn start(
    entry: Entry,
    name: &str,
    path: Option<&Path>,
    layers: Chain<'_>,
    trail: &mut Trail,
) -> Result<Backend, LoadError> {
    trail.enter(Stage::Start, path);
    let mut api = BackendApi::empty();
    // SAFETY: the host's table lives for ever, `api` through the call.
    called(|host| unsafe { entry(ABI_VERSION, host, &raw mut api) })?;
    check_tables(&api)?;
    // SAFETY: the entry function succeeded, so `api` keeps its contract.
    let core = unsafe { table::<CoreTable>(&api) }.ok_or(LoadError::MissingTable(TableId::Core.name()))?;
    let mut info = BackendInfo {
        name: [0; 32],
        version: [0; 32],
        driver: [0; 128],
    };
    // SAFETY: the context is the backend's, `info` lives through the call.
    let code = unsafe { (core.info)(api.context, &raw mut info) };
    if code != 0 {
        return Err(LoadError::Init(
            last_error(core, &api).unwrap_or_else(|| said_nothing(code)),
        ));
    }
    let own = text(&info.name);
    if own != name {
        return Err(LoadError::Name {
            manifest: name.into(),
            tables: own,
        });
    }
    // SAFETY: as above.
    let has = |id: &&TableId| !unsafe { (api.query_interface)(api.context, **id as u32, 1) }.is_null();
    let tables: Vec<_> = TableId::ALL.iter().filter(has).map(|id| id.name()).collect();
    let (version, driver) = (text(&info.version), text(&info.driver));
    let by = if driver.is_empty() {
        String::new()
    } else {
        format!(" on {driver}")
    };
    trail.found(format!("{own} {version}{by}, tables {}", tables.join(", ")));
    let api = layers.over(api, trail)?;
    // SAFETY: the layers succeeded and were checked, so `api` keeps its contract.
    let core = unsafe { table::<CoreTable>(&api) }.ok_or(LoadError::MissingTable(TableId::Core.name()))?;
    Ok(Backend {
        layers: layers.names.to_vec(),
        name: own,
        version,
        driver,
        path: path.map(Path::to_path_buf),
        entry,
        api,
        core,
    })
}
