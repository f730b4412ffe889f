//! Kernels: compiling the IR and library ops.

use super::device::Device;
use super::error::Result;
use super::tag::Tag;
use smallvec::SmallVec;
use std::fmt;
use thalweg_hal::ir::{self, KernelDesc, Level, encode};
use thalweg_hal::kit::checks::Signature;
use thalweg_hal::library::{LibraryDesc, LibraryOp};
use thalweg_hal::tables::{self, CompileArgs, InspectArgs, KernelPart, KernelTable};
use thalweg_hal::{Status, Str};

/// What a kernel is compiled from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A kernel in the IR.
    Kernel(&'a ir::Kernel),
    /// A library op.
    Library(&'a LibraryOp),
}

impl<'a> From<&'a ir::Kernel> for Source<'a> {
    fn from(kernel: &'a ir::Kernel) -> Source<'a> {
        Source::Kernel(kernel)
    }
}

impl<'a> From<&'a LibraryOp> for Source<'a> {
    fn from(op: &'a LibraryOp) -> Source<'a> {
        Source::Library(op)
    }
}

impl Source<'_> {
    /// Name, for messages.
    fn name(&self) -> &str {
        match self {
            Source::Kernel(kernel) => &kernel.name,
            Source::Library(op) => op.name(),
        }
    }

    /// Hands out the ABI form.
    fn with<R>(&self, run: impl FnOnce(tables::Source) -> R) -> R {
        match self {
            Source::Kernel(kernel) => {
                let owned = encode(kernel);
                let desc: KernelDesc = owned.desc();
                run(tables::Source {
                    kernel: &raw const desc,
                    library: std::ptr::null(),
                })
            }
            Source::Library(op) => {
                let owned = op.encode();
                let epilogue = owned.epilogue();
                let desc: LibraryDesc = owned.desc(epilogue.as_ref());
                run(tables::Source {
                    kernel: std::ptr::null(),
                    library: &raw const desc,
                })
            }
        }
    }
}

/// A kernel that was compiled for a device. Work that was submitted with it goes on after it was dropped.
///
/// ```
/// use thalweg_runtime::hal::{self, Buffer, DType, Element, Kernel, Launch, ir};
/// let mut scale = ir::Kernel::new("scale", 1, 0);
/// let x = scale.param(DType::F32, ir::Role::In, ir::Level::Row, ir::Access::Contiguous);
/// let y = scale.param(DType::F32, ir::Role::Out, ir::Level::Row, ir::Access::Contiguous);
/// let factor = scale.scalar(DType::F32);
/// let value = scale.load(x);
/// let value = scale.op(ir::ScalarOp::Mul, &[value, factor]);
/// scale.store(y, value);
///
/// let device = hal::device("cpu")?;
/// let stream = device.default_stream()?;
/// let kernel = Kernel::compile(&device, &scale)?;
/// let (x, y) = (Buffer::from_slice(&stream, &[1.0_f32, 2.0])?, device.alloc(8)?);
/// stream.launch(&Launch::new(&kernel, &[2], &[x.arg(), y.arg()]).scalars(&[3.0_f32.bits()]))?;
/// assert_eq!(y.download::<f32>(&stream)?, [3.0, 6.0]);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
pub struct Kernel {
    handle: u64,
    name: Box<str>,
    // Axes of each parameter's level.
    axes: SmallVec<[u8; 16]>,
    device: Device,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} on {})", self.name, self.device.target())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let Some(table) = self.device.tables().kernel else {
            return;
        };
        // SAFETY: plain call of a table; the handle is this value's own.
        let code = unsafe { (table.release)(self.device.context(), self.handle) };
        if code != 0 {
            tracing::error!("{}", self.device.error(code, &Tag::new("release kernel")));
        }
    }
}

fn table(device: &Device, tag: &Tag<'_>) -> Result<&'static KernelTable> {
    device.tables().kernel.ok_or_else(|| {
        device.refuse(
            Status::Unsupported,
            "this backend moves memory and runs no kernels",
            tag,
        )
    })
}

impl Kernel {
    /// Compiles for a device with the default options.
    ///
    /// # Errors
    /// [`Status::CompileFailed`] when the verifier or the device's compiler refuses it, [`Status::Unsupported`] when the
    /// device lacks a dtype or a library op.
    #[track_caller]
    pub fn compile<'a>(device: &Device, source: impl Into<Source<'a>>) -> Result<Kernel> {
        Kernel::compile_with(device, source, "")
    }

    /// As [`Kernel::compile`], with the backend's own options as `key=value` lines; unknown ones are an error.
    ///
    /// # Errors
    /// As [`Kernel::compile`].
    #[track_caller]
    pub fn compile_with<'a>(device: &Device, source: impl Into<Source<'a>>, options: &str) -> Result<Kernel> {
        let source = source.into();
        let tag = Tag::new("compile");
        let table = table(device, &tag)?;
        let mut handle = 0;
        let code = source.with(|source| {
            let args = CompileArgs {
                device: device.handle(),
                source,
                options: Str::new(options),
            };
            // SAFETY: the arguments live through the call; `handle` is writable.
            unsafe { (table.compile)(device.context(), &raw const args, &raw mut handle) }
        });
        device.check(code, &tag)?;
        Kernel::from_handle(device, handle, &source, &tag)
    }

    fn from_handle(device: &Device, handle: u64, source: &Source<'_>, tag: &Tag<'_>) -> Result<Kernel> {
        let mut kernel = Kernel {
            handle,
            name: source.name().into(),
            axes: SmallVec::new(),
            device: device.clone(),
        };
        let signature = match source {
            Source::Kernel(ir) => Signature::of(ir),
            Source::Library(op) => op
                .signature()
                .map_err(|e| device.refuse(e.status, e.message, tag))?,
        };
        kernel.axes = (signature.slots.iter())
            .map(|slot| match slot.level {
                Level::Row => signature.outer as u8,
                Level::Element => (signature.outer + signature.inner) as u8,
            })
            .collect();
        Ok(kernel)
    }

    /// Whether [`Kernel::compile`] would accept the source.
    ///
    /// # Errors
    /// [`Status::Unsupported`] and why not; [`Status::CompileFailed`] when the kernel breaks a rule of the IR.
    #[track_caller]
    pub fn supports<'a>(device: &Device, source: impl Into<Source<'a>>) -> Result<()> {
        let tag = Tag::new("supports");
        let table = table(device, &tag)?;
        let code = source.into().with(|source| {
            let args = CompileArgs {
                device: device.handle(),
                source,
                options: Str::EMPTY,
            };
            // SAFETY: the arguments live through the call.
            unsafe { (table.supports)(device.context(), &raw const args) }
        });
        device.check(code, &tag)
    }

    /// Its device.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its handle in the tables.
    #[inline]
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// Its name.
    #[inline]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Axes of each parameter's level.
    #[inline]
    pub(super) fn axes(&self) -> &[u8] {
        &self.axes
    }

    /// How many programs the backend made of it until now. A backend may make one when a launch first needs it.
    ///
    /// # Errors
    /// Those of the backend.
    #[track_caller]
    pub fn programs(&self) -> Result<usize> {
        // No backend makes as many, so that nothing is read.
        self.part(u32::MAX, KernelPart::Facts, &mut [])
            .map(|(_, programs)| programs)
    }

    /// What the backend made of it: a part of program `program`, empty for one that does not exist.
    ///
    /// ```
    /// use thalweg_runtime::hal::{self, DType, Kernel, KernelPart, ir};
    /// let mut copy = ir::Kernel::new("copy", 1, 0);
    /// let x = copy.param(DType::F32, ir::Role::In, ir::Level::Row, ir::Access::Contiguous);
    /// let y = copy.param(DType::F32, ir::Role::Out, ir::Level::Row, ir::Access::Contiguous);
    /// let value = copy.load(x);
    /// copy.store(y, value);
    /// let kernel = Kernel::compile(&hal::device("cpu")?, &copy)?;
    /// let facts = kernel.inspect(0, KernelPart::Facts)?;
    /// assert!(String::from_utf8_lossy(&facts).contains("form="));
    /// assert!(kernel.inspect(0, KernelPart::Source).is_err());
    /// # Ok::<(), thalweg_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Status::Unsupported`] and why for a part that the program does not have.
    #[track_caller]
    pub fn inspect(&self, program: u32, part: KernelPart) -> Result<Vec<u8>> {
        // Room for most programs, because a backend may work for each question.
        let mut bytes = vec![0; 1 << 20];
        loop {
            let (len, _) = self.part(program, part, &mut bytes)?;
            let complete = len <= bytes.len();
            bytes.resize(len, 0);
            if complete {
                return Ok(bytes);
            }
        }
    }

    /// Bytes of a part, the first of which go to `buffer`, and the number of programs.
    #[track_caller]
    fn part(&self, program: u32, part: KernelPart, buffer: &mut [u8]) -> Result<(usize, usize)> {
        let tag = Tag::new("inspect kernel");
        let table = table(&self.device, &tag)?;
        let (mut len, mut programs) = (0, 0);
        let args = InspectArgs {
            kernel: self.handle,
            program,
            part: part as u32,
            buffer: buffer.as_mut_ptr(),
            capacity: buffer.len(),
            len: &raw mut len,
            programs: &raw mut programs,
        };
        // SAFETY: the arguments live through the call, and the buffer has the capacity that is passed.
        let code = unsafe { (table.inspect)(self.device.context(), &raw const args) };
        self.device.check(code, &tag)?;
        Ok((len, programs))
    }
}
