//! The driver's compiler, and programs with a free kernel for every thread that wants one.

use crate::api::{Api, Context, DeviceId, Kernel, Program, check, codes, info, text};
use crate::platform::DeviceInfo;
use crate::quiet::quietly;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_cstyle::programs::{self, Built, Compiled, Compiler};
use thalweg_cstyle::{Once, Target};
use thalweg_hal::kit::cache::Cache;
use thalweg_hal::tables::LogLevel;
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
    /// Instead of the header that the compiler would read.
    pub(crate) declared: Option<Declared>,
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
        check("clBuildProgram", self.run(&program, &self.options))?;
        Ok(program)
    }

    fn compile(&self, _: &str, source: &str, keep: bool) -> Result<Compiled<Program>> {
        let mut lacks = String::new();
        if let Some(declared) = &self.declared
            && declared.suffices.load(Ordering::Relaxed)
        {
            let (program, code) = self.build(&[&declared.text, source], &declared.options)?;
            if code == codes::SUCCESS {
                return Ok(self.built(program, keep));
            }
            let log = self.log_of(&program);
            lacks = log
                .lines()
                .find(|line| line.contains("error"))
                .unwrap_or("")
                .to_owned();
        }
        let (program, code) = self.build(&[source], &self.options)?;
        if code != codes::SUCCESS {
            let mut error = crate::api::error("clBuildProgram", code);
            if !matches!(code, codes::OUT_OF_HOST_MEMORY | codes::COMPILER_NOT_AVAILABLE) {
                error.status = Status::CompileFailed;
            }
            let log = self.log_of(&program);
            return Ok(Compiled::Refused { log, error });
        }
        if let Some(declared) = &self.declared
            && declared.suffices.swap(false, Ordering::Relaxed)
        {
            let message = format!(
                "a program calls what is not declared; the compiler reads its whole header from now on: {lacks}"
            );
            self.host.log(LogLevel::Warn, "opencl", &message);
        }
        Ok(self.built(program, keep))
    }

    fn unload(&self, program: Program) {
        drop(program);
    }
}

/// Declarations of what programs call. PoCL reads a header of 18,000 lines for each program, which takes half of its time.
pub(crate) struct Declared {
    /// They stand before the source, whose lines count from 1 again.
    text: String,
    /// Those of every build, and one that says that the header was read.
    options: CString,
    /// Until a program builds with the header alone.
    suffices: AtomicBool,
}

impl Declared {
    /// For PoCL on a processor; `options` are those of every build.
    fn of(info: &DeviceInfo, target: &Target, options: &str) -> Option<Declared> {
        // The guards of Clang's header, and of one of PoCL's that needs it.
        let options = CString::new(format!("{options} -D_OPENCL_H_ -D__X86_IMAGE_H__")).ok()?;
        (info.is_pocl() && target.cpu).then(|| Declared {
            text: format!("{}#line 1\n", target.declarations()),
            options,
            suffices: AtomicBool::new(true),
        })
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
                declared: Declared::of(info, target, &options),
                noisy: info.is_pocl(),
                host,
            },
            device: info.name.clone(),
            options,
            cache: Cache::new(cache, identity.join("\n")),
            log: Box::new(move |level, message| host.log(level, "opencl", message)),
        })
    }

    /// A program of these texts, one behind the other, and what the compiler returned.
    fn build(&self, texts: &[&str], options: &CStr) -> Result<(Program, i32)> {
        let lengths: SmallVec<[usize; 2]> = texts.iter().map(|text| text.len()).collect();
        let starts: SmallVec<[_; 2]> = texts.iter().map(|text| text.as_ptr().cast()).collect();
        let mut code = 0;
        // SAFETY: as many texts of these lengths as are passed.
        let program = unsafe {
            let raw = (self.api.program_with_source)(
                self.context.raw(),
                texts.len() as u32,
                starts.as_ptr(),
                lengths.as_ptr(),
                &raw mut code,
            );
            Program::own(self.api, "clCreateProgramWithSource", raw, code)?
        };
        let code = if self.noisy {
            quietly(self.host, || self.run(&program, options))
        } else {
            self.run(&program, options)
        };
        Ok((program, code))
    }

    fn built(&self, program: Program, keep: bool) -> Compiled<Program> {
        let binary = keep.then(|| program.binary()).transpose();
        let log = self.log_of(&program);
        Compiled::Built(Built { program, binary, log })
    }

    fn run(&self, program: &Program, options: &CStr) -> i32 {
        // SAFETY: one device, options that end with a zero, no callback: the call returns when the build is done.
        unsafe {
            (self.api.build_program)(
                program.raw(),
                1,
                &raw const self.device,
                options.as_ptr(),
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
