//! Programs: built from source or from the cache, and loaded once a device.

use crate::api::codes;
use crate::api::driver::{RawFunction, RawModule};
use crate::api::nvrtc::{Arch, Compiled, Nvrtc};
use crate::context::Context;
use crate::kernel::Entries;
use cudarc::driver::sys::CUjit_option;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::Arc;
use std::time::Instant;
use thalweg_hal::kit::cache::Cache;
use thalweg_hal::tables::LogLevel;
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
    context: Arc<Context>,
    nvrtc: &'static Nvrtc,
    device_name: String,
    arch: Arch,
    cache: Cache,
    options: Vec<&'static str>,
    host: Host,
    // By source.
    loaded: Mutex<HashMap<String, Module>>,
}

impl Builder {
    /// A builder of programs that `nvrtc` compiles.
    pub(crate) fn new(
        context: &Arc<Context>,
        nvrtc: &'static Nvrtc,
        (device_name, arch): (&str, Arch),
        cache: Cache,
        options: &[&'static str],
        host: Host,
    ) -> Builder {
        Builder {
            context: Arc::clone(context),
            nvrtc,
            device_name: device_name.to_owned(),
            arch,
            cache,
            options: options.to_vec(),
            host,
            loaded: Mutex::default(),
        }
    }

    /// The entries of a program from its source. `name` is the kernel's, for messages.
    pub(crate) fn build(&self, name: &str, source: &str, entries: &[String]) -> Result<Entries> {
        if let Some(module) = self.loaded.lock().get(source) {
            return Ok(Arc::clone(&module.entries));
        }
        let start = Instant::now();
        let options = self.options.join(" ");
        let key = self.cache.key(&[source, &options]);
        let kept = self.cache.load(&key);
        self.context.enter()?;
        let (raw, how) = match kept.and_then(|code| self.load(name, &code).ok()) {
            Some(raw) => (raw, "found in the cache"),
            None => {
                let code = self.compile(name, source)?;
                let raw = self.load(name, &code)?;
                if let Err(why) = self.cache.store(&key, &code) {
                    let message = format!("kernel {name} is not kept on disk: {why}");
                    self.host.log(LogLevel::Warn, "cuda", &message);
                }
                (raw, "compiled")
            }
        };
        let found: Result<Vec<Entry>> = entries.iter().map(|entry| self.entry(raw, entry)).collect();
        let entries: Entries = match found {
            Ok(found) => found.into(),
            Err(error) => {
                self.unload(raw);
                return Err(error);
            }
        };
        let (hits, misses) = self.cache.counts();
        let time = start.elapsed().as_secs_f64() * 1e3;
        let message =
            format!("kernel {name} {how} in {time:.1} ms; {hits} programs found so far, {misses} not");
        self.host.log(LogLevel::Debug, "cuda", &message);
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
        // SAFETY: loaded by us, and no launch used it yet.
        unsafe { (self.context.api.module_unload)(raw) };
    }

    fn entry(&self, raw: RawModule, name: &str) -> Result<Entry> {
        let name = CString::new(name).map_err(|_| Error::internal("a kernel's name holds a zero"))?;
        let mut function = RawFunction(std::ptr::null_mut());
        // SAFETY: a loaded module and a name that ends with a zero.
        let code = unsafe { (self.context.api.module_function)(&raw mut function, raw, name.as_ptr()) };
        self.context
            .check("cuModuleGetFunction", code)
            .map(|()| Entry { function })
    }

    fn compile(&self, name: &str, source: &str) -> Result<Vec<u8>> {
        let file = CString::new(format!("{name}.cu"))
            .map_err(|_| Error::invalid_argument("a kernel's name holds a zero"))?;
        match self.nvrtc.run(&file, source, self.arch, &self.options)? {
            Compiled::Code(code, log) => {
                if !log.is_empty() {
                    let message = format!("NVRTC on kernel {name}: {log}");
                    self.host.log(LogLevel::Debug, "cuda", &message);
                }
                Ok(code)
            }
            Compiled::Refused(log) => {
                let message = format!(
                    "kernel {name} does not build for {}:\n{log}\n{source}",
                    self.device_name
                );
                self.host.log(LogLevel::Error, "cuda", &message);
                Err(Error::compile_failed(format!(
                    "kernel {name} does not build for {}: {}",
                    self.device_name,
                    complaint(&log, source)
                )))
            }
        }
    }

    /// Hands code to the driver. The context is current.
    fn load(&self, name: &str, code: &[u8]) -> Result<RawModule> {
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

impl Drop for Builder {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            for (_, module) in self.loaded.get_mut().drain() {
                // SAFETY: loaded by us; the device's streams are done.
                unsafe { (self.context.api.module_unload)(module.raw) };
            }
        }
    }
}

/// The first error of a log, with that line of the source: NVRTC writes `FILE(LINE): error: what`.
fn complaint(log: &str, source: &str) -> String {
    let first = |line: &str| {
        let (place, what) = line.split_once("): error")?;
        let number = place.rsplit_once('(')?.1.parse::<usize>().ok()?;
        let what = what.split_once(": ").map_or(what, |(_, what)| what);
        Some((number, what.trim().to_owned()))
    };
    let Some((line, what)) = log.lines().find_map(first) else {
        let words = log.lines().map(str::trim).find(|line| !line.is_empty());
        return words.unwrap_or("the compiler does not say why").to_owned();
    };
    match line.checked_sub(1).and_then(|index| source.lines().nth(index)) {
        Some(code) => format!("{what}, in line {line} of its source: `{}`", code.trim()),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use super::complaint;

    #[test]
    fn complaints_name_the_line() {
        let source = "extern \"C\" __global__ void f(float *a) {\n    a[0] = foo(1);\n}\n";
        let log = "f.cu(2): error: identifier \"foo\" is undefined\n      a[0] = foo(1);\n\n1 error detected";
        assert_eq!(
            complaint(log, source),
            "identifier \"foo\" is undefined, in line 2 of its source: `a[0] = foo(1);`"
        );
        let coded = "f.cu(2): error #20: identifier \"foo\" is undefined";
        assert_eq!(complaint(coded, source), complaint(log, source));
        assert_eq!(complaint("f.cu(99): error: bad", source), "bad");
        assert_eq!(
            complaint("\n nvrtc: out of registers\n", source),
            "nvrtc: out of registers"
        );
        assert_eq!(complaint("", source), "the compiler does not say why");
    }
}
