//! Memory of a replay: buffers, and what crosses from and to the host.

use super::Player;
use super::raw::{Names, Raw};
use super::session::{Compiled, Session, known};
use super::stand_in::{self, DTypes, zeros};
use crate::captured::{self, Alloc, Contents, Copy, End, Handle, Import, Packet, Part, Tag, Work, hash};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::c_void;
use thalweg_hal::tables::AllocArgs;
use thalweg_hal::{Error, Result};

/// Buffers by the handles of the capture.
#[derive(Debug)]
pub(super) struct Buffers(HashMap<Handle, Buffer>);

/// A buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    pub(super) handle: u64,
    /// Of the capture.
    pub(super) device: Handle,
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers(HashMap::new())
    }

    pub(super) fn find(&self, handle: Handle) -> Result<&Buffer> {
        known(&self.0, "buffer", handle)
    }

    pub(super) fn insert(&mut self, handle: Handle, buffer: Buffer) {
        self.0.insert(handle, buffer);
    }

    pub(super) fn remove(&mut self, handle: Handle) -> Result<u64> {
        let own = self.find(handle)?.handle;
        self.0.remove(&handle);
        Ok(own)
    }
}

impl super::raw::Buffers for Buffers {
    fn buffer(&self, handle: Handle) -> Result<u64> {
        self.find(handle).map(|buffer| buffer.handle)
    }
}

/// Memory of the host that work of a stream uses.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) backend: u32,
    /// Of the capture.
    pub(super) stream: Handle,
    pub(super) bytes: Vec<u8>,
    /// The number of what it takes.
    pub(super) answer: Option<u64>,
}

/// Bytes that stand for contents of `bytes` bytes.
pub(super) fn bytes_of<'c>(
    contents: &'c Contents,
    bytes: u64,
    dtype: Option<thalweg_hal::DType>,
) -> Result<Cow<'c, [u8]>> {
    Ok(match (contents, dtype) {
        (Contents::Data(data), _) if data.len() as u64 == bytes => Cow::Borrowed(data),
        (Contents::Data(data), _) => {
            return Err(Error::invalid_argument(format!(
                "the capture has {} bytes of contents where {bytes} are copied",
                data.len()
            )));
        }
        (Contents::Seed { seed, .. }, Some(dtype)) => Cow::Owned(stand_in::values(dtype, *seed, bytes)?),
        (Contents::Hash(_) | Contents::Seed { .. }, _) => Cow::Owned(zeros(bytes)?),
    })
}

/// Bytes of a copy.
fn total(copy: &Copy) -> Result<u64> {
    let total = copy.width.checked_mul(copy.rows);
    total.ok_or_else(|| Error::invalid_argument("a copy of more than 2^64 bytes"))
}

/// Names for packets of a stream.
pub(super) struct Submitted<'a> {
    pub(super) backend: u32,
    pub(super) stream: Handle,
    pub(super) buffers: &'a Buffers,
    pub(super) kernels: &'a HashMap<Handle, Compiled>,
    pub(super) dtypes: &'a DTypes,
    /// Memory that the packets use.
    pub(super) held: Vec<Held>,
}

impl super::raw::Buffers for Submitted<'_> {
    fn buffer(&self, handle: Handle) -> Result<u64> {
        self.buffers.find(handle).map(|buffer| buffer.handle)
    }
}

impl Names for Submitted<'_> {
    fn kernel(&self, handle: Handle) -> Result<(u64, &[usize])> {
        let kernel = known(self.kernels, "kernel", handle)?;
        Ok((kernel.handle, &kernel.axes))
    }

    fn from(&mut self, contents: &Contents, copy: &Copy) -> Result<*mut c_void> {
        let dtype = match &copy.dst {
            End::Buffer(part) => self.dtypes.get(&(self.backend, part.buffer)).copied(),
            End::From(_) | End::To(_) => None,
        };
        let bytes = bytes_of(contents, total(copy)?, dtype)?.into_owned();
        Ok(self.hold(bytes, None))
    }

    fn to(&mut self, number: u64, copy: &Copy) -> Result<*mut c_void> {
        let bytes = zeros(total(copy)?)?;
        Ok(self.hold(bytes, Some(number)))
    }
}

impl Submitted<'_> {
    /// Keeps memory; its address, which is never null.
    fn hold(&mut self, mut bytes: Vec<u8>, answer: Option<u64>) -> *mut c_void {
        let address = bytes.as_mut_ptr().cast();
        self.held.push(Held {
            backend: self.backend,
            stream: self.stream,
            bytes,
            answer,
        });
        address
    }
}

impl Player {
    /// Notes what a stream, or all streams of a backend, have brought to the host. They were waited for.
    pub(super) fn settle(&mut self, backend: u32, stream: Option<Handle>) {
        let answers = &mut self.answers;
        self.held.retain(|held| {
            let passed = held.backend == backend && stream.is_none_or(|stream| stream == held.stream);
            if let (true, Some(number)) = (passed, held.answer) {
                answers.insert(number, hash(&held.bytes));
            }
            !passed
        });
    }

    pub(super) fn alloc(&mut self, at: u32, alloc: &Alloc) -> Result<()> {
        let fresh = self.fresh;
        let dtype = self.dtypes.get(&(at, alloc.buffer)).copied();
        let session = self.session(at)?;
        session.alloc(alloc)?;
        if fresh == 0 {
            return Ok(());
        }
        let values = match dtype {
            // The buffer's handle tells its values from those of others.
            Some(dtype) => stand_in::values(dtype, fresh ^ hash(&alloc.buffer.to_le_bytes()), alloc.bytes)?,
            None => zeros(alloc.bytes)?,
        };
        session.upload((alloc.buffer, 0), alloc.stream, &values)
    }

    pub(super) fn import(&mut self, at: u32, import: &Import) -> Result<()> {
        let dtype = self.dtypes.get(&(at, import.buffer)).copied();
        let bytes = bytes_of(&import.contents, import.bytes, dtype)?;
        let session = self.session(at)?;
        session.alloc(&Alloc {
            buffer: import.buffer,
            device: import.device,
            bytes: import.bytes,
            stream: 0,
        })?;
        session.upload((import.buffer, 0), 0, &bytes)
    }
}

impl Session {
    fn alloc(&mut self, alloc: &Alloc) -> Result<()> {
        let args = AllocArgs {
            device: self.device(alloc.device)?.handle,
            bytes: alloc.bytes,
            stream: match alloc.stream {
                0 => 0,
                stream => self.stream(stream)?.0,
            },
            tag: std::ptr::null(),
        };
        let mut handle = 0;
        // SAFETY: the arguments live through the call; `handle` is writable.
        let code =
            unsafe { (self.next.memory.alloc)(self.next.api.context, &raw const args, &raw mut handle) };
        self.checked("alloc", code)?;
        let buffer = Buffer {
            handle,
            device: alloc.device,
        };
        self.buffers.insert(alloc.buffer, buffer);
        Ok(())
    }

    /// Copies bytes to a buffer in the order of a stream, or of none that the program knows, and waits for them.
    pub(super) fn upload(&self, (buffer, offset): (Handle, u64), stream: Handle, bytes: &[u8]) -> Result<()> {
        let end = End::From(Contents::Hash(0));
        self.carry(
            (buffer, offset),
            stream,
            end,
            bytes.as_ptr().cast_mut(),
            bytes.len(),
        )
    }

    /// So many bytes of a buffer, likewise.
    pub(super) fn download(&self, from: (Handle, u64), stream: Handle, bytes: u64) -> Result<Vec<u8>> {
        let mut all = zeros(bytes)?;
        match self.carry(from, stream, End::To(0), all.as_mut_ptr(), all.len()) {
            Ok(()) => Ok(all),
            Err(error) => {
                // The backend may still write there: memory that is lost is better than memory that is another's.
                std::mem::forget(all);
                Err(error)
            }
        }
    }

    fn carry(
        &self,
        (buffer, offset): (Handle, u64),
        stream: Handle,
        end: End,
        host: *mut u8,
        bytes: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = match stream {
            0 => self.device(self.buffers.find(buffer)?.device)?.stream,
            stream => self.stream(stream)?.0,
        };
        let part = End::Buffer(Part {
            buffer,
            offset,
            pitch: 0,
        });
        let (dst, src) = match end {
            End::To(_) => (end, part),
            End::From(_) | End::Buffer(_) => (part, end),
        };
        let packet = Packet {
            tag: Tag {
                op: "replay".into(),
                ..Tag::default()
            },
            work: Work::Copy(captured::Copy {
                dst,
                src,
                width: bytes as u64,
                rows: 1,
            }),
        };
        let packets = [packet];
        let raw = Raw::new(&packets, &mut Carried(self, host.cast()))?;
        // SAFETY: host memory of so many bytes is borrowed until the stream was waited for.
        let code = unsafe {
            (self.next.stream.submit)(
                self.next.api.context,
                stream,
                raw.packets().as_ptr(),
                raw.packets().len(),
            )
        };
        self.checked("copy", code)?;
        self.synchronize_raw(stream)
    }
}

/// Names for a copy of the replay's own.
struct Carried<'a>(&'a Session, *mut c_void);

impl super::raw::Buffers for Carried<'_> {
    fn buffer(&self, handle: Handle) -> Result<u64> {
        self.0.buffers.find(handle).map(|buffer| buffer.handle)
    }
}

impl Names for Carried<'_> {
    fn kernel(&self, handle: Handle) -> Result<(u64, &[usize])> {
        let kernel = known(&self.0.kernels, "kernel", handle)?;
        Ok((kernel.handle, &kernel.axes))
    }

    fn from(&mut self, _: &Contents, _: &Copy) -> Result<*mut c_void> {
        Ok(self.1)
    }

    fn to(&mut self, _: u64, _: &Copy) -> Result<*mut c_void> {
        Ok(self.1)
    }
}
