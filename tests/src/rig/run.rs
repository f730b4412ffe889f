//! Runs a kernel on memory that is given and taken back as bytes.

use super::values::{from_bytes, is_close, show, to_bytes};
use super::{Device, Subject};
use crate::kit::{Check, Stop};
use crate::{check, fail};
use thalweg_hal::DType;
use thalweg_hal::interpreter::{self, Bytes, Definition, Place, Run};
use thalweg_hal::ir::{Access, Kernel, Role};
use thalweg_hal::tables::{Binding, Launch};

/// What fills memory that nobody has written.
pub const POISON: u8 = 0xa5;

/// The memory of one parameter.
#[derive(Clone, Debug, Default)]
pub struct Argument {
    /// What the whole buffer holds before the launch.
    pub bytes: Vec<u8>,
    /// Bytes from its start to the element at index 0.
    pub offset: u64,
    /// Elements per axis; read when the parameter is strided.
    pub strides: Vec<i64>,
    /// Elements from one gather index to the next.
    pub gather_stride: i64,
    /// Number of valid gather indices.
    pub gather_extent: u64,
    /// The earlier parameter whose buffer this one shares; `bytes` is not read then.
    pub same_as: Option<usize>,
}

impl Argument {
    /// Memory that holds `values`.
    pub fn of(dtype: DType, values: &[u64]) -> Argument {
        Argument {
            bytes: to_bytes(dtype, values),
            ..Argument::default()
        }
    }

    /// Memory for `count` results.
    pub fn room(dtype: DType, count: usize) -> Argument {
        Argument {
            bytes: vec![POISON; count * dtype.size()],
            ..Argument::default()
        }
    }

    /// With strides, and the element at index 0 at element `first`.
    pub fn strided(mut self, dtype: DType, first: u64, strides: &[i64]) -> Argument {
        self.offset = first * dtype.size() as u64;
        self.strides = strides.to_vec();
        self
    }

    /// With valid gather indices `0..extent`.
    pub fn gathered(mut self, stride: i64, extent: u64) -> Argument {
        (self.gather_stride, self.gather_extent) = (stride, extent);
        self
    }
}

/// A kernel with the arguments of one launch.
#[derive(Clone, Debug)]
pub struct Job {
    /// The kernel.
    pub kernel: Kernel,
    /// Outer extents, then inner ones.
    pub extents: Vec<u64>,
    /// One for each parameter.
    pub arguments: Vec<Argument>,
    /// Bits of the scalars.
    pub scalars: Vec<u64>,
}

impl Job {
    /// Compiles, launches, and returns what each parameter's buffer holds afterwards.
    pub fn run(&self, device: &Device) -> Result<Vec<Vec<u8>>, Stop> {
        let kernel = device.compile(&self.kernel)?;
        self.run_compiled(device, kernel)
    }

    /// Like [`Job::run`] with a kernel that was compiled before.
    pub fn run_compiled(&self, device: &Device, kernel: u64) -> Result<Vec<Vec<u8>>, Stop> {
        let stream = device.stream()?;
        let mut buffers = Vec::with_capacity(self.arguments.len());
        for argument in &self.arguments {
            buffers.push(match argument.same_as {
                Some(earlier) => buffers[earlier],
                None => device.upload(&argument.bytes)?,
            });
        }
        let bindings = self.bindings(&buffers);
        device.launch(stream, &self.launch(kernel, &bindings), &self.kernel.name)?;
        device.join(stream)?;
        let mut after = Vec::with_capacity(buffers.len());
        for (index, argument) in self.arguments.iter().enumerate() {
            let bytes = match argument.same_as {
                Some(earlier) => &self.arguments[earlier].bytes,
                None => &argument.bytes,
            };
            let found = device.download(stream, buffers[index], bytes.len() as u64)?;
            let shared = self.arguments.iter().any(|other| other.same_as == Some(index));
            if self.kernel.params[index].role == Role::In && argument.same_as.is_none() && !shared {
                check!(found == *bytes, "the launch changed parameter {index}, an input");
            }
            after.push(found);
        }
        for (index, argument) in self.arguments.iter().enumerate() {
            if argument.same_as.is_none() {
                device.free(buffers[index])?;
            }
        }
        device.destroy_stream(stream)?;
        Ok(after)
    }

    /// The bindings over `buffers`; they borrow the strides without a lifetime.
    pub fn bindings(&self, buffers: &[u64]) -> Vec<Binding> {
        (self.kernel.params.iter().zip(&self.arguments).zip(buffers))
            .map(|((param, argument), &buffer)| Binding {
                buffer,
                offset: argument.offset,
                strides: match param.access {
                    Access::Strided => argument.strides.as_ptr(),
                    Access::Contiguous | Access::Broadcast => std::ptr::null(),
                },
                gather_stride: argument.gather_stride,
                gather_extent: argument.gather_extent,
            })
            .collect()
    }

    /// The launch; it borrows everything without a lifetime.
    pub fn launch(&self, kernel: u64, bindings: &[Binding]) -> Launch {
        Launch {
            kernel,
            extents: self.extents.as_ptr(),
            extent_count: self.extents.len(),
            bindings: bindings.as_ptr(),
            binding_count: bindings.len(),
            scalars: self.scalars.as_ptr(),
            scalar_count: self.scalars.len(),
        }
    }

    /// Compares the outputs of two runs, those of floats within `ulps`.
    pub fn compare(&self, found: &[Vec<u8>], expected: &[Vec<u8>], ulps: u64) -> Check {
        for (index, param) in self.kernel.params.iter().enumerate() {
            let dtype = param.dtype;
            let pairs = from_bytes(dtype, &found[index])
                .into_iter()
                .zip(from_bytes(dtype, &expected[index]));
            for (element, (found, expected)) in pairs.enumerate() {
                if param.role == Role::Out && !is_close(dtype, found, expected, ulps) {
                    fail!(
                        "p{index}[{element}] is {}, expected {}",
                        show(dtype, found),
                        show(dtype, expected)
                    );
                }
            }
        }
        Ok(())
    }

    /// What each parameter's buffer holds afterwards by the definition of the IR.
    pub fn expected(&self) -> Result<Vec<Vec<u8>>, Stop> {
        let info = (self.kernel.verify())
            .map_err(|error| Stop::Failed(format!("a kernel of the kit is malformed: {error}")))?;
        let places: Vec<Place<'_>> = (self.arguments.iter())
            .map(|argument| Place {
                strides: &argument.strides,
                gather_stride: argument.gather_stride,
                gather_extent: argument.gather_extent,
            })
            .collect();
        let mut origins: Vec<(usize, usize)> = Vec::with_capacity(self.arguments.len());
        for (index, argument) in self.arguments.iter().enumerate() {
            let buffer = argument.same_as.map_or(index, |earlier| origins[earlier].0);
            origins.push((buffer, argument.offset as usize));
        }
        let mut memory = Bytes {
            buffers: self
                .arguments
                .iter()
                .map(|argument| argument.bytes.clone())
                .collect(),
            origins,
        };
        let launch = Run {
            kernel: &self.kernel,
            info: &info,
            extents: &self.extents,
            places: &places,
            scalars: &self.scalars,
        };
        interpreter::run(&launch, &mut memory, &Definition);
        let after = |&(buffer, _): &(usize, usize)| memory.buffers[buffer].clone();
        Ok(memory.origins.iter().map(after).collect())
    }

    /// Runs on the subject, compares with the definition, and returns what the subject wrote.
    pub fn check(&self, subject: &Subject, ulps: u64) -> Result<Vec<Vec<u8>>, Stop> {
        let found = self.run(&Device::open(subject)?)?;
        self.compare(&found, &self.expected()?, ulps)
            .map_err(|stop| self.explain(stop, "against the definition"))?;
        Ok(found)
    }

    /// Adds the kernel and its launch to a failure.
    pub fn explain(&self, stop: Stop, what: &str) -> Stop {
        match stop {
            Stop::Failed(why) => Stop::Failed(format!(
                "{what}: {why}\nextents {:?}\n{}",
                self.extents,
                self.kernel.to_text()
            )),
            unsupported => unsupported,
        }
    }
}
