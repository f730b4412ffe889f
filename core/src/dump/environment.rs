//! The dump that the environment asks for.

use super::dumper::Dumper;
use super::options::DumpOptions;
use crate::error::DumpError;
use crate::record::values::Looking;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use thalweg_hal::settings::{Setting, Values, Way};

/// The file that says what is dumped.
pub(crate) const DUMP_CONFIG: Setting = Setting {
    key: "dump_config",
    variable: "THALWEG_DUMP_CONFIG",
    way: Way::Variable,
    values: Values::Range("a file in JSON"),
    default: "none",
    about: "Values are dumped as the file says; `docs/seeing-what-is-computed.md` lists the keys. `MINDSPORE_DUMP_CONFIG` is read \
            where it is not set. In code: `Context::dump`.",
    read_by: "the first context",
};

/// The name of the variable in programs for another library.
const FORMER: &str = "MINDSPORE_DUMP_CONFIG";
/// Most bytes of the file.
const LONGEST: u64 = 1 << 20;

/// A dump as long as the process.
struct Lasting {
    dumper: Arc<Dumper>,
    _looking: Looking,
}

/// The dump, where the environment asks for one.
static LASTING: OnceLock<Result<Option<Lasting>, DumpError>> = OnceLock::new();

/// Begins the dump that the environment asks for, unless there is one; the first call does.
///
/// # Errors
/// The file that it names cannot be read, or says what is not allowed.
pub(crate) fn begin() -> Result<(), DumpError> {
    match LASTING.get_or_init(start) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.clone()),
    }
}

/// The dump that lasts as long as the process.
pub(crate) fn dumper() -> Option<&'static Arc<Dumper>> {
    let lasting = LASTING.get()?.as_ref().ok()?.as_ref()?;
    Some(&lasting.dumper)
}

/// Begins a dump that ends with the process, unless [`end`] is called before. It comes before the first context, and once.
///
/// # Errors
/// An option is wrong; the folder cannot be written; a context was asked for before.
pub(crate) fn begin_lasting(options: &DumpOptions) -> Result<(), DumpError> {
    if LASTING.get().is_some() {
        return Err(DumpError::Option {
            key: "path".to_owned(),
            value: options.path.clone(),
            allowed: "a context was asked for before; begin the session first".to_owned(),
        });
    }
    let lasting = lasting(options)?;
    LASTING.get_or_init(|| Ok(Some(lasting)));
    Ok(())
}

/// Writes the dump that lasts as long as the process to its end, if there is one.
///
/// # Errors
/// The first that happened since its begin.
pub(crate) fn end() -> Result<(), DumpError> {
    dumper().map_or(Ok(()), |dumper| dumper.finish())
}

/// The file that the environment names, and the variable that does.
pub(crate) fn configured() -> Option<(&'static str, OsString)> {
    let own = DUMP_CONFIG.from_env_os().map(|path| (DUMP_CONFIG.variable, path));
    let named = own.or_else(|| Some((FORMER, std::env::var_os(FORMER)?)));
    named.filter(|(_, path)| !path.is_empty())
}

fn start() -> Result<Option<Lasting>, DumpError> {
    let Some((variable, path)) = configured() else {
        return Ok(None);
    };
    let options = DumpOptions::read(&content(variable, Path::new(&path))?)?;
    if !options.is_on() {
        return Ok(None);
    }
    match lasting(&options) {
        Ok(lasting) => Ok(Some(lasting)),
        // The folder is no matter of the program, which goes on.
        Err(error) => {
            tracing::error!("{error}; the program goes on without a dump");
            Ok(None)
        }
    }
}

fn lasting(options: &DumpOptions) -> Result<Lasting, DumpError> {
    let dumper = Arc::new(Dumper::new(options)?);
    // SAFETY: the function stays as long as the process, and does not unwind.
    unsafe { libc::atexit(at_exit) };
    Ok(Lasting {
        dumper,
        _looking: Looking::begin(),
    })
}

fn content(variable: &'static str, path: &Path) -> Result<String, DumpError> {
    let read = || {
        let mut text = String::new();
        std::fs::File::open(path)?
            .take(LONGEST)
            .read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(|error: std::io::Error| DumpError::Config {
        variable,
        path: path.to_owned(),
        error: Arc::new(error),
    })
}

extern "C" fn at_exit() {
    // A panic must not leave a function of C. The thread that exits has no thread-local values any more, so that another one writes.
    let _ = std::panic::catch_unwind(|| {
        let Some(dumper) = dumper() else { return };
        let ends = std::thread::Builder::new().name("thalweg exit".into());
        if let Ok(ends) = ends.spawn(|| drop(dumper.finish())) {
            let _ = ends.join();
        }
    });
}
