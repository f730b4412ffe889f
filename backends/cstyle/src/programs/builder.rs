//! Programs from their sources: those of earlier times from the disk, others by the compiler.

use super::complaint::complaint;
use std::time::Instant;
use thalweg_hal::kit::cache::{Cache, Key};
use thalweg_hal::tables::LogLevel;
use thalweg_hal::{Error, Result, Status};

/// A driver's compiler and its loader.
pub trait Compiler {
    /// A program that the driver has loaded.
    type Program;

    /// Loads the binary of a program that was built before. After an error it is compiled again.
    ///
    /// # Errors
    /// What the driver says against it.
    fn load(&self, name: &str, binary: &[u8]) -> Result<Self::Program>;

    /// Compiles and loads a source. `name` is the kernel's, for messages; `keep`: the binary is wanted.
    ///
    /// # Errors
    /// What fails beside the source.
    fn compile(&self, name: &str, source: &str, keep: bool) -> Result<Compiled<Self::Program>>;

    /// Unloads a program that nothing used.
    fn unload(&self, program: Self::Program);
}

/// What comes of a source.
#[derive(Debug)]
pub enum Compiled<P> {
    /// A program.
    Built(Built<P>),
    /// The compiler refuses the source.
    Refused {
        /// What it says.
        log: String,
        /// The error where the log is empty; its status is that of the result.
        error: Error,
    },
}

/// A program that was compiled.
#[derive(Debug)]
pub struct Built<P> {
    /// The program.
    pub program: P,
    /// What [`Compiler::load`] makes the same program of, or why there is none; nothing where it is not wanted.
    pub binary: Result<Option<Vec<u8>>>,
    /// What the compiler remarks.
    pub log: String,
}

/// Takes messages.
pub type Log = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

/// Builds programs for one device.
pub struct Builder<C> {
    /// The driver's part.
    pub compiler: C,
    /// Name of the device, for messages.
    pub device: String,
    /// Options of every compilation, as far as programs depend on them.
    pub options: String,
    /// Programs of earlier times.
    pub cache: Cache,
    /// Where messages go.
    pub log: Log,
}

impl<C: Compiler> Builder<C> {
    /// A program from its source. `name` is the kernel's, for messages.
    ///
    /// # Errors
    /// `CompileFailed` with the compiler's first complaint and that line of the source; the whole log and the source are
    /// logged. What else the driver fails with.
    pub fn build(&self, name: &str, source: &str) -> Result<C::Program> {
        let start = Instant::now();
        let key = self.cache.key(&[source, &self.options]);
        let kept = self.cache.load(&key);
        let kept = kept.and_then(|binary| self.compiler.load(name, &binary).ok());
        let (program, how) = match kept {
            Some(program) => (program, "found in the cache"),
            None => (self.compile(name, source, &key)?, "compiled"),
        };
        let (hits, misses) = self.cache.counts();
        let time = start.elapsed().as_secs_f64() * 1e3;
        (self.log)(
            LogLevel::Debug,
            &format!("kernel {name} {how} in {time:.1} ms; {hits} programs found so far, {misses} not"),
        );
        Ok(program)
    }

    /// The binary of a source that was built, and what the compiler remarks on it. Neither is kept in memory: the disk has the binary
    /// without the remarks, or the compiler makes both once more.
    ///
    /// # Errors
    /// Those of [`Builder::build`]; `Unsupported` where the driver gives no binary.
    pub fn artefact(&self, name: &str, source: &str) -> Result<(Vec<u8>, String)> {
        let key = self.cache.key(&[source, &self.options]);
        if let Some(binary) = self.cache.load(&key) {
            return Ok((binary, String::new()));
        }
        match self.compiler.compile(name, source, true)? {
            Compiled::Built(built) => {
                self.compiler.unload(built.program);
                let none = || Error::unsupported("the driver gives no binary of a program");
                Ok((built.binary?.ok_or_else(none)?, built.log))
            }
            Compiled::Refused { log, error } => {
                let why = complaint(&log, source).unwrap_or(error.message);
                Err(Error::new(
                    error.status,
                    format!("kernel {name} does not build: {why}"),
                ))
            }
        }
    }

    fn compile(&self, name: &str, source: &str, key: &Key) -> Result<C::Program> {
        let built = match self.compiler.compile(name, source, self.cache.is_on())? {
            Compiled::Built(built) => built,
            Compiled::Refused { log, error } => {
                let what = format!("kernel {name} does not build on {}", self.device);
                (self.log)(LogLevel::Error, &format!("{what}:\n{log}\n{source}"));
                let why = complaint(&log, source).unwrap_or(error.message);
                return Err(Error::new(error.status, format!("{what}: {why}")));
            }
        };
        if !built.log.is_empty() {
            let message = format!("the compiler on kernel {name}: {}", built.log);
            (self.log)(LogLevel::Debug, &message);
        }
        let kept = built.binary.map_err(|error| error.message);
        let kept = kept.and_then(|binary| match binary {
            Some(binary) => self.cache.store(key, &binary).map_err(|why| why.to_string()),
            None => Ok(()),
        });
        if let Err(why) = kept {
            (self.log)(
                LogLevel::Warn,
                &format!("kernel {name} is not kept on disk: {why}"),
            );
        }
        Ok(built.program)
    }
}

impl<P> Compiled<P> {
    /// A source that the compiler refuses with nothing but its log.
    pub fn refused(log: String) -> Compiled<P> {
        let error = Error::new(Status::CompileFailed, "the compiler does not say why");
        Compiled::Refused { log, error }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::{Arc, Mutex};

    /// Compiles to capital letters, refuses `bad` and has no binary of `loose`.
    #[derive(Default)]
    struct Capitals {
        calls: RefCell<Vec<&'static str>>,
    }

    impl Compiler for Capitals {
        type Program = String;

        fn load(&self, _: &str, binary: &[u8]) -> Result<String> {
            self.calls.borrow_mut().push("load");
            let text = String::from_utf8_lossy(binary).into_owned();
            match text.as_str() {
                "STALE" => Err(Error::internal("of an older driver")),
                _ => Ok(text),
            }
        }

        fn compile(&self, _: &str, source: &str, keep: bool) -> Result<Compiled<String>> {
            self.calls
                .borrow_mut()
                .push(if keep { "compile" } else { "compile alone" });
            if source.contains("bad") {
                return Ok(Compiled::refused("k.cl:2:1: error: bad word".into()));
            }
            let program = source.to_uppercase();
            let binary = match source {
                "loose" => Err(Error::internal("no binary")),
                _ => Ok(keep.then(|| program.clone().into_bytes())),
            };
            Ok(Compiled::Built(Built {
                program,
                binary,
                log: String::new(),
            }))
        }

        fn unload(&self, _: String) {
            self.calls.borrow_mut().push("unload");
        }
    }

    fn builder(folder: Option<&std::path::Path>) -> Builder<Capitals> {
        Builder {
            compiler: Capitals::default(),
            device: "a device".into(),
            options: "-O2".into(),
            cache: Cache::new(folder.map(Into::into), "a device".into()),
            log: Box::new(|_, _| {}),
        }
    }

    #[test]
    fn programs_are_compiled_once() {
        let place = tempfile::tempdir().unwrap();
        for calls in [&["compile"][..], &["load"]] {
            let builder = builder(Some(place.path()));
            assert_eq!(builder.build("k", "text").unwrap(), "TEXT");
            assert_eq!(*builder.compiler.calls.borrow(), calls);
        }
        // Other options are another program.
        let other = Builder {
            options: "-O3".into(),
            ..builder(Some(place.path()))
        };
        assert_eq!(other.build("k", "text").unwrap(), "TEXT");
        assert_eq!(*other.compiler.calls.borrow(), ["compile"]);
    }

    #[test]
    fn what_does_not_load_is_compiled_again() {
        let place = tempfile::tempdir().unwrap();
        let builder = builder(Some(place.path()));
        for _ in 0..2 {
            assert_eq!(builder.build("k", "stale").unwrap(), "STALE");
        }
        assert_eq!(*builder.compiler.calls.borrow(), ["compile", "load", "compile"]);
    }

    #[test]
    fn artefacts_come_from_the_disk_or_are_made_once_more() {
        let place = tempfile::tempdir().unwrap();
        let kept = builder(Some(place.path()));
        kept.build("k", "text").unwrap();
        assert_eq!(kept.artefact("k", "text").unwrap().0, b"TEXT");
        assert_eq!(*kept.compiler.calls.borrow(), ["compile"]);
        let loose = builder(None);
        assert_eq!(loose.artefact("k", "text").unwrap().0, b"TEXT");
        assert_eq!(*loose.compiler.calls.borrow(), ["compile", "unload"]);
        let error = loose.artefact("k", "first\n  bad").unwrap_err();
        assert!(
            error.message.contains("in line 2 of its source: `bad`"),
            "{error}"
        );
    }

    #[test]
    fn programs_that_cannot_be_kept_are_built() {
        let place = tempfile::tempdir().unwrap();
        for (folder, call) in [(Some(place.path()), "compile"), (None, "compile alone")] {
            let builder = builder(folder);
            for _ in 0..2 {
                assert_eq!(builder.build("k", "loose").unwrap(), "LOOSE");
            }
            assert_eq!(*builder.compiler.calls.borrow(), [call; 2]);
        }
    }

    #[test]
    fn refusals_name_kernel_device_and_line() {
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        let builder = Builder {
            log: Box::new(move |level, message| *heard.lock().unwrap() += &format!("{level:?} {message}")),
            ..builder(None)
        };
        let error = builder.build("k", "first\n  bad").unwrap_err();
        // The whole of both is in the log.
        let said = said.lock().unwrap();
        assert!(
            said.starts_with("Error kernel k does not build on a device:\nk.cl:2:1"),
            "{said}"
        );
        assert!(said.ends_with("first\n  bad"), "{said}");
        assert_eq!(error.status, Status::CompileFailed);
        assert_eq!(
            error.message,
            "kernel k does not build on a device: bad word, in line 2 of its source: `bad`"
        );
    }
}
