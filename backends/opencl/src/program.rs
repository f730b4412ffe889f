//! The driver's compiler, and programs with a free kernel for every thread that wants one.

use crate::api::{Api, Context, DeviceId, Kernel, Program, check, codes, info, text};
use crate::platform::DeviceInfo;
use crate::quiet::quietly;
use parking_lot::Mutex;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_cstyle::programs::{self, Built, Compiled, Compiler};
use thalweg_cstyle::{Once, Target};
use thalweg_hal::kit::cache::Cache;
use thalweg_hal::{Error, Host, Result, Status};

/// Builds programs for one device.
pub(crate) type Builder = programs::Builder<Driver>;

/// The driver's compiler for one device.
pub(crate) struct Driver {
    /// The functions.
    pub(crate) api: &'static Api,
    /// The device's context.
    pub(crate) context: Arc<Context>,
    /// The device.
    pub(crate) device: DeviceId,
    /// The program that interprets kernels.
    pub(crate) interpreter: Once<Arc<crate::kernel::Compiled>>,
    /// Options of every build.
    pub(crate) options: CString,
    /// Whether the compiler writes to standard error.
    pub(crate) noisy: bool,
    /// Where what it writes there goes.
    pub(crate) host: Host,
}

impl Compiler for Driver {
    type Program = Program;

    fn load(&self, _: &str, binary: &[u8]) -> Result<Program> {
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
        check("clBuildProgram", self.run(&program))?;
        Ok(program)
    }

    fn compile(&self, _: &str, source: &str, keep: bool) -> Result<Compiled<Program>> {
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
            quietly(self.host, || self.run(&program))
        } else {
            self.run(&program)
        };
        let log = self.log_of(&program);
        if code != codes::SUCCESS {
            let mut error = crate::api::error("clBuildProgram", code);
            if !matches!(code, codes::OUT_OF_HOST_MEMORY | codes::COMPILER_NOT_AVAILABLE) {
                error.status = Status::CompileFailed;
            }
            return Ok(Compiled::Refused { log, error });
        }
        let binary = keep.then(|| program.binary()).transpose();
        Ok(Compiled::Built(Built { program, binary, log }))
    }

    fn unload(&self, program: Program) {
        drop(program);
    }
}

impl Driver {
    /// What builds programs of a device, which keeps them in the folder `cache`; `optimise`: whether the compiler optimises them.
    pub(crate) fn builder(
        (api, info): (&'static Api, &DeviceInfo),
        host: Host,
        context: &Arc<Context>,
        target: &Target,
        cache: Option<PathBuf>,
        optimise: bool,
    ) -> Result<Builder> {
        let rounding = "-cl-fp32-correctly-rounded-divide-sqrt";
        let known = (target.options().iter()).filter(|&&option| info.rounds_division || option != rounding);
        let options: Vec<&str> = known
            .copied()
            .chain((!optimise).then(|| target.unoptimised()))
            .collect();
        let options = options.join(" ");
        let identity = [
            env!("CARGO_PKG_VERSION"),
            &info.platform,
            &info.name,
            &info.vendor,
            &info.driver,
            &info.version,
        ];
        Ok(Builder {
            compiler: Driver {
                api,
                context: Arc::clone(context),
                device: info.id,
                interpreter: Once::default(),
                options: CString::new(options.as_str())
                    .map_err(|_| Error::internal("a build option holds a zero"))?,
                noisy: info.is_pocl(),
                host,
            },
            device: info.name.clone(),
            options,
            cache: Cache::new(cache, identity.join("\n")),
            log: Box::new(move |level, message| host.log(level, "opencl", message)),
        })
    }

    fn run(&self, program: &Program) -> i32 {
        // SAFETY: one device, options that end with a zero, no callback: the call returns when the build is done.
        unsafe {
            (self.api.build_program)(
                program.raw(),
                1,
                &raw const self.device,
                self.options.as_ptr(),
                None,
                std::ptr::null_mut(),
            )
        }
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
}

/// One kernel of a program. The arguments of a driver's kernel are set one thread at a time, so there are as many as
/// threads launch at once.
pub(crate) struct Entry {
    program: Arc<Program>,
    name: CString,
    free: Mutex<Vec<Kernel>>,
}

impl Entry {
    /// An entry of a program.
    pub(crate) fn new(program: &Arc<Program>, name: &str) -> Result<Entry> {
        let name = CString::new(name).map_err(|_| Error::internal("a kernel's name holds a zero"))?;
        let first = program.kernel(&name)?;
        Ok(Entry {
            program: Arc::clone(program),
            name,
            free: Mutex::new(vec![first]),
        })
    }

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
