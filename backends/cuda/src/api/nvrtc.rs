//! The compiler, NVRTC.

use super::library::{Search, functions, opaque};
use std::ffi::{CStr, CString, c_char};
use thalweg_hal::{Error, Result};

opaque! {
    /// `nvrtcProgram`.
    RawProgram;
}

type Out<T> = *mut T;
type Code = u32;

functions! {
    /// The functions of NVRTC.
    Nvrtc:
    version = "nvrtcVersion"(Out<i32>, Out<i32>) -> Code;
    error_string = "nvrtcGetErrorString"(Code) -> *const c_char;
    arch_count = "nvrtcGetNumSupportedArchs"(Out<i32>) -> Code;
    archs = "nvrtcGetSupportedArchs"(Out<i32>) -> Code;
    create = "nvrtcCreateProgram"
        (Out<RawProgram>, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char) -> Code;
    destroy = "nvrtcDestroyProgram"(Out<RawProgram>) -> Code;
    compile = "nvrtcCompileProgram"(RawProgram, i32, *const *const c_char) -> Code;
    log_size = "nvrtcGetProgramLogSize"(RawProgram, Out<usize>) -> Code;
    log = "nvrtcGetProgramLog"(RawProgram, Out<u8>) -> Code;
    cubin_size = "nvrtcGetCUBINSize"(RawProgram, Out<usize>) -> Code;
    cubin = "nvrtcGetCUBIN"(RawProgram, Out<u8>) -> Code;
    ptx_size = "nvrtcGetPTXSize"(RawProgram, Out<usize>) -> Code;
    ptx = "nvrtcGetPTX"(RawProgram, Out<u8>) -> Code;
}

/// A compiled program, or what the compiler says against it.
pub(crate) enum Compiled {
    /// Code for the driver, and what the compiler remarks.
    Code(Vec<u8>, String),
    /// Refused; the log.
    Refused(String),
}

/// What is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arch {
    /// Machine code of `sm_N`.
    Cubin(u32),
    /// Code of `compute_N`, which the driver compiles on.
    Ptx(u32),
}

struct Program<'a> {
    api: &'a Nvrtc,
    raw: RawProgram,
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: owned, and not used after this.
        unsafe { (self.api.destroy)(&raw mut self.raw) };
    }
}

impl Nvrtc {
    /// Opens the newest NVRTC whose code a driver of this version loads: not of a later major version than the driver.
    pub(crate) fn open(search: &Search, driver: i32) -> Result<&'static Nvrtc> {
        let names: &[&str] = if driver >= 13_000 {
            &["libnvrtc.so.13", "libnvrtc.so.12"]
        } else {
            &["libnvrtc.so.12"]
        };
        let advice =
            "install NVRTC of the CUDA toolkit, or set `cuda.libraries` to the folders of it and of libcuda";
        let (library, name) = search.open(names, advice)?;
        Ok(Box::leak(Box::new(Nvrtc::resolve(library, &name)?)))
    }

    /// `13.0`.
    pub(crate) fn version_text(&self) -> String {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: plain call.
        unsafe { (self.version)(&raw mut major, &raw mut minor) };
        format!("{major}.{minor}")
    }

    /// What to compile for on a device of `sm`: its machine code, or the code of the latest architecture before it that this
    /// compiler knows.
    ///
    /// # Errors
    /// [`Unavailable`](thalweg_hal::Status::Unavailable) when the device is older than all of them.
    pub(crate) fn arch(&self, sm: u32) -> Result<Arch> {
        let mut count = 0;
        // SAFETY: plain call.
        self.check("nvrtcGetNumSupportedArchs", unsafe {
            (self.arch_count)(&raw mut count)
        })?;
        let mut known = vec![0_i32; usize::try_from(count).unwrap_or(0)];
        // SAFETY: room for as many as were announced.
        self.check("nvrtcGetSupportedArchs", unsafe {
            (self.archs)(known.as_mut_ptr())
        })?;
        let known = known.iter().filter_map(|&arch| u32::try_from(arch).ok());
        match known.filter(|&arch| arch <= sm).max() {
            Some(arch) if arch == sm => Ok(Arch::Cubin(sm)),
            Some(arch) => Ok(Arch::Ptx(arch)),
            None => Err(Error::unavailable(format!(
                "NVRTC {} does not compile for sm_{sm}; install an earlier one beside it",
                self.version_text()
            ))),
        }
    }

    /// Compiles a source.
    pub(crate) fn run(&self, name: &CStr, source: &str, arch: Arch, options: &[&str]) -> Result<Compiled> {
        let zero = |_| Error::internal("a source or option holds a zero");
        let source = CString::new(source).map_err(zero)?;
        let mut raw = RawProgram(std::ptr::null_mut());
        // SAFETY: texts that end with a zero, no headers.
        let code = unsafe {
            let (none, names) = (std::ptr::null(), std::ptr::null());
            (self.create)(&raw mut raw, source.as_ptr(), name.as_ptr(), 0, none, names)
        };
        self.check("nvrtcCreateProgram", code)?;
        let program = Program { api: self, raw };
        let target = match arch {
            Arch::Cubin(sm) => format!("--gpu-architecture=sm_{sm}"),
            Arch::Ptx(sm) => format!("--gpu-architecture=compute_{sm}"),
        };
        let texts = options.iter().copied().chain([target.as_str()]).map(CString::new);
        let texts: Vec<CString> = texts.collect::<Result<_, _>>().map_err(zero)?;
        let pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        // SAFETY: as many texts as are announced, each ending with a zero.
        let code = unsafe { (self.compile)(program.raw, pointers.len() as i32, pointers.as_ptr()) };
        let log = program.bytes(self.log_size, self.log).unwrap_or_default();
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
        match code {
            0 => {
                let (size, get) = match arch {
                    Arch::Cubin(_) => (self.cubin_size, self.cubin),
                    Arch::Ptx(_) => (self.ptx_size, self.ptx),
                };
                Ok(Compiled::Code(program.bytes(size, get)?, log))
            }
            // NVRTC_ERROR_COMPILATION.
            6 => Ok(Compiled::Refused(log)),
            _ => self
                .check("nvrtcCompileProgram", code)
                .map(|()| Compiled::Refused(log)),
        }
    }

    fn check(&self, call: &str, code: u32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: NVRTC returns a text of its own for any code.
        let text = unsafe { CStr::from_ptr((self.error_string)(code)) };
        let message = format!("{call} returned {} ({code})", text.to_string_lossy());
        Err(match code {
            // NVRTC_ERROR_OUT_OF_MEMORY.
            1 => Error::out_of_memory(message),
            _ => Error::compile_failed(message),
        })
    }
}

type Size = unsafe extern "C" fn(RawProgram, *mut usize) -> u32;
type Bytes = unsafe extern "C" fn(RawProgram, *mut u8) -> u32;

impl Program<'_> {
    fn bytes(&self, size: Size, get: Bytes) -> Result<Vec<u8>> {
        let mut len = 0;
        // SAFETY: plain call.
        let code = unsafe { size(self.raw, &raw mut len) };
        self.api.check("nvrtcGet…Size", code)?;
        let mut bytes = vec![0; len];
        // SAFETY: room for as many bytes as were announced.
        let code = unsafe { get(self.raw, bytes.as_mut_ptr()) };
        self.api.check("nvrtcGet…", code)?;
        Ok(bytes)
    }
}
