//! Programs: built from source or from the cache, with a free kernel for every thread that wants one.

use crate::api::{Api, Context, DeviceId, Kernel, Program, check, codes, info, text};
use crate::kernel::Compiled;
use crate::quiet::quietly;
use parking_lot::Mutex;
use std::ffi::CString;
use std::sync::Arc;
use std::time::Instant;
use thalweg_cstyle::Once;
use thalweg_hal::kit::cache::{Cache, Key};
use thalweg_hal::tables::LogLevel;
use thalweg_hal::{Error, Host, Result};

/// Builds programs for one device.
pub(crate) struct Builder {
    /// The functions.
    pub(crate) api: &'static Api,
    /// The device's context.
    pub(crate) context: Arc<Context>,
    /// The device.
    pub(crate) device: DeviceId,
    /// Name of the device, for messages.
    pub(crate) device_name: String,
    /// Programs of earlier times.
    pub(crate) cache: Cache,
    /// The program that interprets kernels.
    pub(crate) generic: Once<Arc<Compiled>>,
    /// Options of every build.
    pub(crate) options: String,
    /// Whether the compiler writes to standard error.
    pub(crate) noisy: bool,
    /// Where the compiler's words go.
    pub(crate) host: Host,
}

impl Builder {
    /// A program from its source. `name` is the kernel's, for messages.
    pub(crate) fn build(&self, name: &str, source: &str) -> Result<Program> {
        let start = Instant::now();
        let key = self.cache.key(&[source, &self.options]);
        let kept = self.cache.load(&key);
        let (program, how) = match kept.as_deref().and_then(|binary| self.load(binary).ok()) {
            Some(program) => (program, "found in the cache"),
            None => {
                let program = self.compile(name, source)?;
                if self.cache.is_on() {
                    self.keep(name, &key, &program);
                }
                (program, "compiled")
            }
        };
        let (hits, misses) = self.cache.counts();
        self.host.log(
            LogLevel::Debug,
            "opencl",
            &format!(
                "kernel {name} {how} in {:.1} ms; {hits} programs found so far, {misses} not",
                start.elapsed().as_secs_f64() * 1e3
            ),
        );
        Ok(program)
    }

    fn keep(&self, name: &str, key: &Key, program: &Program) {
        let kept = program.binary().map_err(|error| error.message);
        let kept = kept.and_then(|binary| self.cache.store(key, &binary).map_err(|error| error.to_string()));
        if let Err(why) = kept {
            let message = format!("kernel {name} is not kept on disk: {why}");
            self.host.log(LogLevel::Warn, "opencl", &message);
        }
    }

    fn load(&self, binary: &[u8]) -> Result<Program> {
        let (mut code, mut status) = (0, 0);
        let (len, bytes) = (binary.len(), binary.as_ptr());
        // SAFETY: one device with one binary of this length.
        let program = unsafe {
            let raw = (self.api.program_with_binary)(
                self.context.raw(),
                1,
                &raw const self.device,
                &raw const len,
                &raw const bytes,
                &raw mut status,
                &raw mut code,
            );
            Program::own(self.api, "clCreateProgramWithBinary", raw, code)?
        };
        check("clBuildProgram", self.run(&program)?)?;
        Ok(program)
    }

    fn compile(&self, name: &str, source: &str) -> Result<Program> {
        let mut code = 0;
        let (len, bytes) = (source.len(), source.as_ptr().cast());
        // SAFETY: one text of this length.
        let program = unsafe {
            let raw = (self.api.program_with_source)(
                self.context.raw(),
                1,
                &raw const bytes,
                &raw const len,
                &raw mut code,
            );
            Program::own(self.api, "clCreateProgramWithSource", raw, code)?
        };
        let code = if self.noisy {
            quietly(self.host, || self.run(&program))?
        } else {
            self.run(&program)?
        };
        let log = self.log_of(&program);
        if code != codes::SUCCESS {
            self.host.log(
                LogLevel::Error,
                "opencl",
                &format!(
                    "kernel {name} does not build on {}:\n{log}\n{source}",
                    self.device_name
                ),
            );
            let call = crate::api::error("clBuildProgram", code);
            return Err(Error::new(
                match code {
                    codes::OUT_OF_HOST_MEMORY | codes::COMPILER_NOT_AVAILABLE => call.status,
                    _ => thalweg_hal::Status::CompileFailed,
                },
                format!(
                    "kernel {name} does not build on {}: {}",
                    self.device_name,
                    first_complaint(&log, source).unwrap_or(call.message)
                ),
            ));
        }
        if !log.is_empty() {
            let message = format!("the compiler on kernel {name}: {log}");
            self.host.log(LogLevel::Debug, "opencl", &message);
        }
        Ok(program)
    }

    fn run(&self, program: &Program) -> Result<i32> {
        let options = CString::new(self.options.as_str())
            .map_err(|_| Error::internal("a build option holds a zero"))?;
        // SAFETY: one device, options that end with a zero, no callback: the call returns when the build is done.
        Ok(unsafe {
            (self.api.build_program)(
                program.raw(),
                1,
                &raw const self.device,
                options.as_ptr(),
                None,
                std::ptr::null_mut(),
            )
        })
    }

    fn log_of(&self, program: &Program) -> String {
        let log = info("clGetProgramBuildInfo", |len, out, got| {
            // SAFETY: the buffer has the length that is passed.
            unsafe {
                (self.api.get_build_info)(
                    program.raw(),
                    self.device,
                    codes::PROGRAM_BUILD_LOG,
                    len,
                    out.cast(),
                    got,
                )
            }
        });
        text(&log.unwrap_or_default())
    }

    /// An entry of a program.
    pub(crate) fn entry(&self, program: &Arc<Program>, name: &str) -> Result<Entry> {
        let name = CString::new(name).map_err(|_| Error::internal("a kernel's name holds a zero"))?;
        let first = program.kernel(&name)?;
        Ok(Entry {
            program: Arc::clone(program),
            name,
            free: Mutex::new(vec![first]),
        })
    }
}

/// The first line of a build log that says where it hurts, with that line of the source: in whatever way a driver writes
/// its log, `LINE:COLUMN: what` is in it.
fn first_complaint(log: &str, source: &str) -> Option<String> {
    let place = |line: &str| {
        let fields: Vec<_> = line.split(':').map(str::trim).collect();
        let number = |at: usize| fields.get(at)?.parse::<usize>().ok();
        let at = (0..fields.len()).find(|&at| number(at).is_some() && number(at + 1).is_some())?;
        let what = fields[at + 2..].join(": ");
        Some((number(at)?, what.trim_start_matches("error: ").to_owned()))
    };
    let Some((line, what)) = log.lines().find_map(place) else {
        return log
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .map(str::to_owned);
    };
    match line.checked_sub(1).and_then(|index| source.lines().nth(index)) {
        Some(code) => Some(format!("{what}, in line {line} of its source: `{}`", code.trim())),
        None => Some(what),
    }
}

/// One kernel of a program. The arguments of a driver's kernel are set one thread at a time, so there are as many as
/// threads launch at once.
pub(crate) struct Entry {
    program: Arc<Program>,
    name: CString,
    free: Mutex<Vec<Kernel>>,
}

impl Entry {
    /// Lends a kernel that nobody else uses meanwhile. A launch keeps the arguments that it was given.
    pub(crate) fn with<R>(&self, run: impl FnOnce(&Kernel) -> Result<R>) -> Result<R> {
        let free = self.free.lock().pop();
        let kernel = match free {
            Some(kernel) => kernel,
            None => self.program.kernel(&self.name)?,
        };
        let result = run(&kernel);
        self.free.lock().push(kernel);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::first_complaint;

    #[test]
    fn complaints_name_the_line() {
        let source = "kernel void f(global float *a) {\n    a[0] = foo(1);\n}\n";
        for log in [
            "error: /tmp/tempfile_7V.cl:2:12: use of undeclared identifier 'foo'\nDevice x failed to build the program",
            "<kernel>:2:12: error: use of undeclared identifier 'foo'\n    a[0] = foo(1);",
        ] {
            assert_eq!(
                first_complaint(log, source).as_deref(),
                Some("use of undeclared identifier 'foo', in line 2 of its source: `a[0] = foo(1);`")
            );
        }
        assert_eq!(
            first_complaint("\nout of registers\n", source).as_deref(),
            Some("out of registers")
        );
        assert_eq!(first_complaint("<k>:99:1: bad", source).as_deref(), Some("bad"));
        assert_eq!(first_complaint("", source), None);
    }
}
