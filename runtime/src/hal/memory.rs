//! Memory: buffers.

use super::device::Device;
use super::element::Element;
use super::error::{Error, OutOfMemory, Result};
use super::stream::Stream;
use super::tag::Tag;
use super::work::{Arg, Copy, Fill, Place};
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use thalweg_hal::Status;
use thalweg_hal::tables::{AllocArgs, ImportArgs};

/// A range of device memory. Dropping it gives it back; work that was submitted before may still use it, the pool waits for
/// the streams that do.
///
/// Streams that touch the same buffer without an event between them race: what they read and leave there is unspecified.
///
/// ```
/// use thalweg_runtime::hal::{self, Buffer};
/// let stream = hal::device("cpu")?.default_stream()?;
/// let buffer = Buffer::from_slice(&stream, &[1_i32, 2, 3])?;
/// buffer.upload_at(&stream, 4, &[7_i32])?;
/// assert_eq!(buffer.download::<i32>(&stream)?, [1, 7, 3]);
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
pub struct Buffer {
    handle: u64,
    bytes: u64,
    device: ManuallyDrop<Device>,
    // Whether the buffer keeps its device open, or its owner does.
    keeps: bool,
    imported: bool,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} B on {})", self.bytes, self.device.target())
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: plain call of a table; the handle is this value's own.
        let code = unsafe { (self.device.tables().memory.free)(self.device.context(), self.handle) };
        if code != 0 {
            tracing::error!("{}", self.device.error(code, &Tag::new("free")));
        }
        if self.keeps {
            // SAFETY: it is this value's own, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.device) };
        }
    }
}

/// The error of a call that may have found no room for `bytes` bytes.
#[cold]
pub(super) fn alloc_error(device: &Device, code: i32, bytes: u64, tag: &Tag<'_>) -> Error {
    match device.error(code, tag) {
        Error::Call(error) if error.status == Status::OutOfMemory => {
            // Backends begin the message with the op, which stands in a field of its own here.
            let message = error
                .message
                .strip_prefix(&error.op)
                .and_then(|rest| rest.strip_prefix(": "));
            Error::OutOfMemory(Box::new(OutOfMemory {
                target: device.target().into(),
                device_id: device.ordinal(),
                op: error.op.clone(),
                bytes,
                stats: device.memory_stats().unwrap_or_default(),
                message: message.unwrap_or(&error.message).into(),
                location: error.location,
            }))
        }
        error => error,
    }
}

unsafe extern "C" fn release_box<T>(data: *mut c_void) {
    // SAFETY: an import passes a `Box<T>`, and release is called once.
    drop(unsafe { Box::from_raw(data.cast::<T>()) });
}

impl Buffer {
    /// A buffer of `bytes` bytes with unspecified contents, aligned to the device's alignment; 0 bytes are allowed.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    #[inline]
    #[track_caller]
    pub fn alloc(device: &Device, bytes: u64) -> Result<Buffer> {
        Buffer::alloc_raw(device, 0, bytes, &Tag::new("alloc"))
    }

    /// As [`Buffer::alloc`], for an op whose name stands in the error. Memory that was freed while `stream` still used
    /// it comes back at once.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    #[inline]
    pub fn alloc_on(stream: &Stream, bytes: u64, tag: Tag<'_>) -> Result<Buffer> {
        Buffer::alloc_raw(stream.device(), stream.handle(), bytes, &tag)
    }

    #[inline]
    fn alloc_raw(device: &Device, stream: u64, bytes: u64, tag: &Tag<'_>) -> Result<Buffer> {
        let raw_tag = tag.raw();
        let args = AllocArgs {
            device: device.handle(),
            bytes,
            stream,
            tag: &raw const raw_tag,
        };
        let mut handle = 0;
        // SAFETY: the arguments live through the call; `handle` is writable.
        let code =
            unsafe { (device.tables().memory.alloc)(device.context(), &raw const args, &raw mut handle) };
        if code != 0 {
            return Err(alloc_error(device, code, bytes, tag));
        }
        Ok(Buffer::owned(device, handle, bytes))
    }

    /// The buffer of a handle.
    #[inline]
    fn owned(device: &Device, handle: u64, bytes: u64) -> Buffer {
        Buffer {
            handle,
            bytes,
            device: ManuallyDrop::new(device.clone()),
            keeps: true,
            imported: false,
        }
    }

    /// The buffer of a handle; it does not keep its device open, since counting its users would cost an eager op as much as a
    /// small allocation.
    ///
    /// # Safety
    /// The handle is of a buffer of `bytes` bytes on `device`, nobody else frees it, and whoever owns the buffer keeps the device
    /// open until after it is dropped.
    #[inline]
    pub(super) unsafe fn tied(device: &Device, handle: u64, bytes: u64) -> Buffer {
        Buffer {
            handle,
            bytes,
            // SAFETY: a second owner in all but name: it is never dropped, and the caller keeps the first.
            device: ManuallyDrop::new(unsafe { std::ptr::read(device) }),
            keeps: false,
            imported: false,
        }
    }

    /// A buffer with the elements of `data`; waits until they are there.
    ///
    /// # Errors
    /// As [`Buffer::alloc`] and [`Buffer::upload`].
    #[track_caller]
    pub fn from_slice<T: Element>(stream: &Stream, data: &[T]) -> Result<Buffer> {
        let buffer = Buffer::alloc_on(stream, size_of_val(data) as u64, Tag::new("from_slice"))?;
        buffer.upload(stream, data)?;
        Ok(buffer)
    }

    /// A buffer in the memory of `data`, without a copy. The vector is dropped when the device no longer uses it.
    ///
    /// # Errors
    /// [`Status::Unsupported`] on a device without [`Capability::Import`](thalweg_hal::tables::Capability::Import).
    #[track_caller]
    pub fn import_vec<T: Element>(device: &Device, data: Vec<T>) -> Result<Buffer> {
        let mut data = Box::new(data);
        let (ptr, bytes) = (data.as_mut_ptr().cast(), size_of_val(data.as_slice()) as u64);
        let data = Box::into_raw(data).cast::<c_void>();
        // SAFETY: the box keeps the memory until `release_box`, and nobody else reaches it.
        let buffer = unsafe { Buffer::import(device, ptr, bytes, Some(release_box::<Vec<T>>), data) };
        if buffer.is_err() {
            // SAFETY: a failed import does not release; the box is still ours.
            unsafe { release_box::<Vec<T>>(data) };
        }
        buffer
    }

    /// Makes host memory a buffer without a copy; `release` is called once when the device no longer uses it, and not
    /// when the import fails.
    ///
    /// # Errors
    /// As [`Buffer::import_vec`].
    ///
    /// # Safety
    /// `bytes` bytes at `ptr` are readable and writable until `release` is called, and the host orders its own accesses
    /// with the streams'. `release` may be called from any thread with `data`.
    #[track_caller]
    pub unsafe fn import(
        device: &Device,
        ptr: *mut u8,
        bytes: u64,
        release: Option<unsafe extern "C" fn(data: *mut c_void)>,
        data: *mut c_void,
    ) -> Result<Buffer> {
        let args = ImportArgs {
            device: device.handle(),
            ptr: ptr.cast(),
            bytes,
            release,
            data,
        };
        let mut handle = 0;
        // SAFETY: the caller vouches for the memory; `handle` is writable.
        let code =
            unsafe { (device.tables().memory.import)(device.context(), &raw const args, &raw mut handle) };
        device.check(code, &Tag::new("import"))?;
        let mut buffer = Buffer::owned(device, handle, bytes);
        buffer.imported = true;
        Ok(buffer)
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

    /// Bytes as they were asked for.
    #[inline]
    pub fn size(&self) -> u64 {
        self.bytes
    }

    /// Whether it is memory of the host that was imported, which has another owner.
    #[inline]
    pub fn is_imported(&self) -> bool {
        self.imported
    }

    /// The buffer as an argument of a launch; see [`Arg`].
    #[inline]
    pub fn arg(&self) -> Arg<'_> {
        Arg::new(self)
    }

    /// Host address of the buffer for as long as it lives. Whoever reads or writes there orders that with the streams.
    ///
    /// # Errors
    /// [`Status::Unsupported`] on a device without [`Capability::Map`](thalweg_hal::tables::Capability::Map).
    #[track_caller]
    pub fn map(&self) -> Result<NonNull<u8>> {
        let mut ptr = std::ptr::null_mut();
        // SAFETY: plain call of a table; `ptr` is writable.
        let code =
            unsafe { (self.device.tables().memory.map)(self.device.context(), self.handle, &raw mut ptr) };
        let tag = Tag::new("map");
        self.device.check(code, &tag)?;
        NonNull::new(ptr.cast::<u8>()).ok_or_else(|| {
            self.device
                .refuse(Status::Internal, "the backend mapped the buffer to null", &tag)
        })
    }

    /// Copies `data` to the start of the buffer in stream order and waits for it.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`] when `data` is longer; the first error that sticks to the stream.
    #[track_caller]
    pub fn upload<T: Element>(&self, stream: &Stream, data: &[T]) -> Result<()> {
        self.upload_at(stream, 0, data)
    }

    /// As [`Buffer::upload`], to byte `offset`.
    ///
    /// # Errors
    /// As [`Buffer::upload`].
    #[track_caller]
    pub fn upload_at<T: Element>(&self, stream: &Stream, offset: u64, data: &[T]) -> Result<()> {
        let tag = Tag::new("upload");
        // SAFETY: `data` is borrowed until the stream is synchronised below; a copy that is refused is not submitted.
        unsafe { self.upload_async(stream, offset, data.as_ptr(), data.len(), tag) }?;
        stream.synchronize_as(&tag)
    }

    /// The buffer's bytes as elements, in stream order; a remainder shorter than an element is left out.
    ///
    /// # Errors
    /// The first error that sticks to the stream.
    #[track_caller]
    pub fn download<T: Element>(&self, stream: &Stream) -> Result<Vec<T>> {
        self.download_at(stream, 0, (self.bytes / size_of::<T>() as u64) as usize)
    }

    /// `len` elements from byte `offset` on, in stream order.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`] when they are not in the buffer; the first error that sticks to the stream.
    #[track_caller]
    pub fn download_at<T: Element>(&self, stream: &Stream, offset: u64, len: usize) -> Result<Vec<T>> {
        let tag = Tag::new("download");
        let bytes = bytes_of::<T>(len);
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let text = format!("{bytes} B at {offset} are not in a buffer of {} B", self.bytes);
            return Err(self.device.refuse(Status::OutOfBounds, text, &tag));
        }
        let mut data = Vec::<T>::with_capacity(len);
        // SAFETY: the vector holds `len` elements, and the stream is synchronised before it can go away.
        unsafe { self.download_async(stream, offset, data.as_mut_ptr(), len, tag) }?;
        if let Err(error) = stream.synchronize_as(&tag) {
            // Unless the stream is idle, the backend may still write there, and the memory must not be another's.
            if !matches!(stream.query(), Ok(true)) {
                self.device.keep(data);
            }
            return Err(error);
        }
        // SAFETY: `len` elements were written, and every bit pattern is an element.
        unsafe { data.set_len(len) };
        Ok(data)
    }

    /// Submits a copy of `len` elements at `src` to byte `offset` and returns at once.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`] when they do not fit.
    ///
    /// # Safety
    /// `src` points to `len` readable elements that stay valid and unchanged until the stream has passed the copy.
    pub unsafe fn upload_async<T: Element>(
        &self,
        stream: &Stream,
        offset: u64,
        src: *const T,
        len: usize,
        tag: Tag<'_>,
    ) -> Result<()> {
        // SAFETY: the caller vouches for the memory, which is only read.
        let src = unsafe { Place::host(src.cast_mut().cast()) };
        let dst = Place::buffer(self, offset);
        stream.copy(&Copy::tagged(dst, src, bytes_of::<T>(len), tag))
    }

    /// Submits a copy of `len` elements from byte `offset` to `dst` and returns at once.
    ///
    /// # Errors
    /// [`Status::OutOfBounds`] when they are not in the buffer.
    ///
    /// # Safety
    /// `dst` points to `len` writable elements that stay valid and untouched until the stream has passed the copy.
    pub unsafe fn download_async<T: Element>(
        &self,
        stream: &Stream,
        offset: u64,
        dst: *mut T,
        len: usize,
        tag: Tag<'_>,
    ) -> Result<()> {
        // SAFETY: the caller vouches for the memory.
        let dst = unsafe { Place::host(dst.cast()) };
        let src = Place::buffer(self, offset);
        stream.copy(&Copy::tagged(dst, src, bytes_of::<T>(len), tag))
    }

    /// Fills the whole buffer with `value` in stream order.
    ///
    /// # Errors
    /// [`Status::InvalidArgument`] when the buffer is not a whole number of elements.
    #[track_caller]
    pub fn fill<T: Element>(&self, stream: &Stream, value: T) -> Result<()> {
        stream.fill(&Fill::new(self, value))
    }
}

fn bytes_of<T>(len: usize) -> u64 {
    (len as u64).saturating_mul(size_of::<T>() as u64)
}
