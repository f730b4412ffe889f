//! Programs: compiled by NVRTC, and loaded once a device.

use crate::api::codes;
use crate::api::driver::{RawFunction, RawModule};
use crate::api::nvrtc::{self, Arch, Nvrtc};
use crate::context::Context;
use crate::kernel::Entries;
use cudarc::driver::sys::CUjit_option;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;
use thalweg_cstyle::programs::{self, Built, Compiled};
use thalweg_hal::kit::cache::Cache;
use thalweg_hal::{Error, Host, Result, Status};

/// Bytes for what the driver says about a program.
const LOG: usize = 4096;

/// One entry of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The driver's handle; valid as long as the device.
    pub(crate) function: RawFunction,
}

struct Module {
    raw: RawModule,
    entries: Entries,
}

/// Builds programs for one device. They stay loaded until the device is closed: queued launches use them, whatever happens to
/// their kernels meanwhile.
pub(crate) struct Builder {
    programs: programs::Builder<Compiler>,
    // By source.
    loaded: Mutex<HashMap<String, Module>>,
}

/// NVRTC and the driver's loader.
pub(crate) struct Compiler {
    context: Arc<Context>,
    nvrtc: &'static Nvrtc,
    device_name: String,
    arch: Arch,
    options: Vec<&'static str>,
}

impl Builder {
    /// A builder of programs that `nvrtc` compiles.
    pub(crate) fn new(
        context: &Arc<Context>,
        nvrtc: &'static Nvrtc,
        (device_name, arch): (&str, Arch),
        cache: Cache,
        options: Vec<&'static str>,
        host: Host,
    ) -> Builder {
        Builder {
            programs: programs::Builder {
                device: device_name.to_owned(),
                options: options.join(" "),
                compiler: Compiler {
                    context: Arc::clone(context),
                    nvrtc,
                    device_name: device_name.to_owned(),
                    arch,
                    options,
                },
                cache,
                log: Box::new(move |level, message| host.log(level, "cuda", message)),
            },
            loaded: Mutex::default(),
        }
    }

    fn context(&self) -> &Context {
        &self.programs.compiler.context
    }

    /// The entries of a program from its source. `name` is the kernel's, for messages.
    pub(crate) fn build(&self, name: &str, source: &str, entries: &[String]) -> Result<Entries> {
        if let Some(module) = self.loaded.lock().get(source) {
            return Ok(Arc::clone(&module.entries));
        }
        self.context().enter()?;
        let raw = self.programs.build(name, source)?;
        let found: Result<Vec<Entry>> = entries.iter().map(|entry| self.entry(raw, entry)).collect();
        let entries: Entries = match found {
            Ok(found) => found.into(),
            Err(error) => {
                self.unload(raw);
                return Err(error);
            }
        };
        let mut loaded = self.loaded.lock();
        // Another thread may have been quicker.
        if let Some(module) = loaded.get(source) {
            let entries = Arc::clone(&module.entries);
            drop(loaded);
            self.unload(raw);
            return Ok(entries);
        }
        let module = Module {
            raw,
            entries: Arc::clone(&entries),
        };
        loaded.insert(source.to_owned(), module);
        Ok(entries)
    }

    fn unload(&self, raw: RawModule) {
        programs::Compiler::unload(&self.programs.compiler, raw);
    }

    /// What builds the programs of this device from sources.
    ///
    /// # Errors
    /// The context cannot be entered.
    pub(crate) fn entered(&self) -> Result<&programs::Builder<Compiler>> {
        self.context().enter()?;
        Ok(&self.programs)
    }

    fn entry(&self, raw: RawModule, name: &str) -> Result<Entry> {
        let name = CString::new(name).map_err(|_| Error::internal("a kernel's name holds a zero"))?;
        let mut function = RawFunction(std::ptr::null_mut());
        // SAFETY: a loaded module and a name that ends with a zero.
        let code = unsafe { (self.context().api.module_function)(&raw mut function, raw, name.as_ptr()) };
        self.context().check("cuModuleGetFunction", code)?;
        // Otherwise its first launch does, and waits for all streams, of which one may wait for who launches. CUDA 12.2 and 12.3 do that
        // too, and have no such call.
        if let Some(load) = self.context().api.function_load {
            // SAFETY: plain call.
            self.context().check("cuFuncLoad", unsafe { load(function) })?;
        }
        Ok(Entry { function })
    }
}

/// Bytes of a stack for NVRTC, which takes over 3 MiB for a chain of 2,000 operations. A program has no more than a few thousand.
const STACK: usize = 64 << 20;

/// Runs what recurses deeply on a thread with room for that: threads have 2 MiB where nobody asks for more.
fn deep<T: Send>(run: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("thalweg-cuda-compile".into())
            .stack_size(STACK);
        let running = thread.spawn_scoped(scope, run);
        let running =
            running.map_err(|error| Error::unavailable(format!("no thread to compile on: {error}")))?;
        let failed = |_| Err(Error::internal("the compiler panicked"));
        running.join().unwrap_or_else(failed)
    })
}

impl Compiler {
    /// Hands code to the driver on this thread. The context is current.
    fn load_here(&self, name: &str, code: &[u8]) -> Result<RawModule> {
        let (mut log, mut raw) = (vec![0_u8; LOG], RawModule(std::ptr::null_mut()));
        let mut keys = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), LOG as *mut c_void];
        // SAFETY: two options of these kinds; text of PTX ends with a zero, as NVRTC gives it.
        let result = unsafe {
            (self.context.api.module_load)(
                &raw mut raw,
                code.as_ptr().cast(),
                2,
                keys.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        let Err(error) = self.context.check("cuModuleLoadDataEx", result) else {
            return Ok(raw);
        };
        if result == codes::OUT_OF_MEMORY || error.status == Status::DeviceLost {
            return Err(error);
        }
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG);
        let log = String::from_utf8_lossy(&log[..end]);
        let first = log.lines().find(|line| !line.trim().is_empty());
        let first = first.map_or_else(String::new, |line| format!(" ({})", line.trim()));
        Err(Error::compile_failed(format!(
            "kernel {name} does not load on {}: {}{first}; is the driver older than NVRTC {}?",
            self.device_name,
            error.message,
            self.nvrtc.version_text()
        )))
    }
}

impl programs::Compiler for Compiler {
    type Program = RawModule;

    /// Hands code to the driver, which compiles PTX as NVRTC would. The context is current.
    fn load(&self, name: &str, code: &[u8]) -> Result<RawModule> {
        match self.arch {
            Arch::Cubin(_) => self.load_here(name, code),
            Arch::Ptx(_) => deep(|| {
                self.context.enter()?;
                self.load_here(name, code)
            }),
        }
    }

    fn compile(&self, name: &str, source: &str, _: bool) -> Result<Compiled<RawModule>> {
        let file = CString::new(format!("{name}.cu"))
            .map_err(|_| Error::invalid_argument("a kernel's name holds a zero"))?;
        let run = || self.nvrtc.run(&file, source, self.arch, &self.options);
        Ok(match deep(run)? {
            nvrtc::Compiled::Code(code, log) => Compiled::Built(Built {
                program: self.load(name, &code)?,
                binary: Ok(Some(code)),
                log,
            }),
            nvrtc::Compiled::Refused(log) => Compiled::refused(log),
        })
    }

    fn unload(&self, raw: RawModule) {
        // SAFETY: loaded by us, and no launch used it.
        unsafe { (self.context.api.module_unload)(raw) };
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        if self.context().enter().is_ok() {
            for (_, module) in self.loaded.get_mut().drain() {
                // SAFETY: loaded by us; the device's streams are done.
                unsafe { (self.programs.compiler.context.api.module_unload)(module.raw) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a compiler does, so deep that a thread's stack would not do.
    fn nested(levels: u32) -> u64 {
        let frame = std::hint::black_box([u64::from(levels); 1024]);
        match levels {
            0 => 0,
            _ => nested(levels - 1) + frame[0] - frame[1023] + 1,
        }
    }

    #[test]
    fn the_compiler_has_room_on_any_thread() {
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let asked = small.spawn(|| deep(|| Ok(nested(2000)))).unwrap();
        assert_eq!(asked.join().unwrap().unwrap(), 2000);
    }
}
