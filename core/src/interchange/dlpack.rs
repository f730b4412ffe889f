//! Memory shared with other libraries by DLPack, without a copy.
//!
//! [`export`] lends a tensor's memory: whoever gets the [`Managed`] calls its deleter when it is done, and the memory lives until then.
//! [`import`] borrows memory in the same way, and calls the other side's deleter when the last tensor and the last work on it are
//! gone. Both are for host memory: devices in which the host can reach the buffers on one side, CPU tensors (and pinned host memory)
//! on the other.
//!
//! DLPack has no stream for host memory: what is handed over is complete. So an export waits for the tensor's value, and an import
//! takes it that nobody writes the memory as long as it is lent.
//!
//! ```
//! use thalweg::{Context, Tensor, interchange::dlpack};
//! let cx = Context::new("cpu")?;
//! let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &cx);
//! let lent = dlpack::export(&x.t())?;
//! assert_eq!(lent.tensor().byte_offset, 0);
//! let again = dlpack::import(lent, &cx)?;
//! assert_eq!(again.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
//! # Ok::<(), thalweg::Error>(())
//! ```
//!
//! The structs are those of `dlpack.h`, whose binary form is fixed for all versions 1.x; a struct of 2.x is refused.

use super::malformed;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::exec;
use crate::hal::{Capability, DType};
use crate::tensor::layout::Layout;
use crate::tensor::shape::{MAX_RANK, Shape};
use crate::tensor::tag::OpTag;
use crate::tensor::{Tensor, Value};
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Where memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DlDevice {
    /// 1 for host memory, 3 for pinned host memory of CUDA, 11 for that of ROCm.
    pub device_type: i32,
    /// Number of the device.
    pub device_id: i32,
}

/// Type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DlDataType {
    /// 0 signed, 1 unsigned, 2 IEEE float, 4 bfloat, 6 bool.
    pub code: u8,
    /// Bits of an element.
    pub bits: u8,
    /// Elements of a vector; 1.
    pub lanes: u16,
}

/// A tensor in memory that somebody else owns.
#[derive(Debug)]
#[repr(C)]
pub struct DlTensor {
    /// Start of the memory.
    pub data: *mut c_void,
    /// Where it lies.
    pub device: DlDevice,
    /// Number of axes.
    pub ndim: i32,
    /// Type of the elements.
    pub dtype: DlDataType,
    /// Extents, `ndim` of them.
    pub shape: *mut i64,
    /// Elements from one index to the next, `ndim` of them; null for row-major without gaps.
    pub strides: *mut i64,
    /// Bytes from `data` to the element at index 0.
    pub byte_offset: u64,
}

/// Version of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DlPackVersion {
    /// Another one means another binary form.
    pub major: u32,
    /// Additions.
    pub minor: u32,
}

/// A lent tensor, as it goes from library to library since DLPack 1.0 (`dltensor_versioned`).
#[derive(Debug)]
#[repr(C)]
pub struct DlManagedTensorVersioned {
    /// Of this struct.
    pub version: DlPackVersion,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// Called once, with this struct, by who no longer needs it.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedTensorVersioned)>,
    /// [`READ_ONLY`] and [`IS_COPIED`].
    pub flags: u64,
    /// What is lent.
    pub dl_tensor: DlTensor,
}

/// A lent tensor as it was before DLPack 1.0 (`dltensor`).
#[derive(Debug)]
#[repr(C)]
pub struct DlManagedTensor {
    /// What is lent.
    pub dl_tensor: DlTensor,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// Called once, with this struct, by who no longer needs it.
    pub deleter: Option<unsafe extern "C" fn(*mut DlManagedTensor)>,
}

/// Flag: the memory must not be written. Tensors never change, so every export has it.
pub const READ_ONLY: u64 = 1;
/// Flag: the memory is a copy that was made for this export.
pub const IS_COPIED: u64 = 2;
const MAJOR: u32 = 1;
const HOST: [i32; 3] = [1, 3, 11];

#[derive(Clone, Copy)]
enum Raw {
    Versioned(NonNull<DlManagedTensorVersioned>),
    Old(NonNull<DlManagedTensor>),
}

/// A lent tensor that this program holds; dropping it calls its deleter.
pub struct Managed(Raw);

// SAFETY: DLPack lets a deleter be called from any thread, and the struct is only read.
unsafe impl Send for Managed {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Managed {}

impl fmt::Debug for Managed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Managed").field(self.tensor()).finish()
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        // SAFETY: `from_raw` took the struct over; this is its only deletion.
        unsafe {
            match self.0 {
                Raw::Versioned(raw) => {
                    if let Some(deleter) = raw.as_ref().deleter {
                        deleter(raw.as_ptr());
                    }
                }
                Raw::Old(raw) => {
                    if let Some(deleter) = raw.as_ref().deleter {
                        deleter(raw.as_ptr());
                    }
                }
            }
        }
    }
}

impl Managed {
    /// Takes over a lent tensor of DLPack 1.x.
    ///
    /// # Errors
    /// Another major version, whose fields are not known; its deleter, which has its place in all versions, is called.
    ///
    /// # Safety
    /// `raw` is a valid struct, not deleted and not used by anybody else from now on, whose deleter may be called from any thread.
    pub unsafe fn from_raw(raw: NonNull<DlManagedTensorVersioned>) -> Result<Managed> {
        let managed = Managed(Raw::Versioned(raw));
        // SAFETY: the caller vouches for the struct.
        let version = unsafe { (*raw.as_ptr()).version };
        if version.major != MAJOR {
            let DlPackVersion { major, minor } = version;
            return Err(refused(format!(
                "version {major}.{minor}, this library reads {MAJOR}.x"
            )));
        }
        Ok(managed)
    }

    /// As [`Managed::from_raw`], of a struct without version.
    ///
    /// # Safety
    /// As [`Managed::from_raw`].
    pub unsafe fn from_unversioned(raw: NonNull<DlManagedTensor>) -> Managed {
        Managed(Raw::Old(raw))
    }

    /// What is lent.
    pub fn tensor(&self) -> &DlTensor {
        match &self.0 {
            // SAFETY: the struct is valid until its deleter is called.
            Raw::Versioned(raw) => unsafe { &raw.as_ref().dl_tensor },
            // SAFETY: as above.
            Raw::Old(raw) => unsafe { &raw.as_ref().dl_tensor },
        }
    }

    /// [`READ_ONLY`] and [`IS_COPIED`]; 0 where the struct has no flags.
    pub fn flags(&self) -> u64 {
        match &self.0 {
            // SAFETY: the struct is valid until its deleter is called.
            Raw::Versioned(raw) => unsafe { raw.as_ref().flags },
            Raw::Old(_) => 0,
        }
    }

    /// Gives the struct to another library, which calls its deleter; `None` for a struct without version.
    pub fn into_raw(self) -> Option<NonNull<DlManagedTensorVersioned>> {
        let Raw::Versioned(raw) = self.0 else { return None };
        std::mem::forget(self);
        Some(raw)
    }
}

fn refused(message: impl Into<String>) -> Error {
    malformed("DLPack", None, message)
}

/// What an export owns: the struct, its arrays, and the tensor's memory.
struct Export {
    versioned: DlManagedTensorVersioned,
    old: DlManagedTensor,
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    _value: Value,
}

unsafe extern "C" fn delete(raw: *mut DlManagedTensorVersioned) {
    // SAFETY: `raw` is the struct of an export, and this is its only deletion.
    drop(unsafe { Box::from_raw((*raw).manager_ctx.cast::<Export>()) });
}

unsafe extern "C" fn delete_old(raw: *mut DlManagedTensor) {
    // SAFETY: as above.
    drop(unsafe { Box::from_raw((*raw).manager_ctx.cast::<Export>()) });
}

fn exported(tensor: &Tensor) -> Result<NonNull<Export>> {
    let tag = OpTag::new("dlpack");
    let value = exec::evaluate(tensor, tag)?;
    let device = value.storage.context.device();
    if !device.capability(Capability::Map) || !device.capability(Capability::Import) {
        return Err(refused(format!(
            "the host cannot reach the memory of {}; copy the tensor with `to`",
            device.target()
        )));
    }
    value.storage.stream()?.synchronize()?;
    value.storage.settle()?;
    let data = value.storage.buffer.map()?;
    let Layout { shape, offset, .. } = value.layout;
    let (mut extents, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
    for axis in 0..shape.len() {
        (extents[axis], strides[axis]) = (shape[axis] as i64, value.layout.strides()[axis]);
    }
    let dtype = value.dtype;
    // The arrays' places are known when the box is made.
    let dl_tensor = || DlTensor {
        data: data.as_ptr().cast(),
        device: DlDevice {
            device_type: HOST[0],
            device_id: 0,
        },
        ndim: shape.len() as i32,
        dtype: DlDataType {
            code: dtype.facts().dlpack,
            bits: dtype.size() as u8 * 8,
            lanes: 1,
        },
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: offset * dtype.size() as u64,
    };
    let export = Box::into_raw(Box::new(Export {
        versioned: DlManagedTensorVersioned {
            version: DlPackVersion {
                major: MAJOR,
                // Floats of eight bits came with 1.1.
                minor: u32::from(dtype.is_storage()),
            },
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete),
            flags: READ_ONLY,
            dl_tensor: dl_tensor(),
        },
        old: DlManagedTensor {
            dl_tensor: dl_tensor(),
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete_old),
        },
        shape: extents,
        strides,
        _value: value,
    }));
    // SAFETY: the box was just made and is nobody else's; its parts stay where they are until it is dropped.
    unsafe {
        let (shape, strides) = (&raw mut (*export).shape, &raw mut (*export).strides);
        for tensor in [
            &raw mut (*export).versioned.dl_tensor,
            &raw mut (*export).old.dl_tensor,
        ] {
            (*tensor).shape = shape.cast();
            (*tensor).strides = strides.cast();
        }
        (*export).versioned.manager_ctx = export.cast();
        (*export).old.manager_ctx = export.cast();
        Ok(NonNull::new_unchecked(export))
    }
}

/// Lends a tensor's memory, views included. Waits for its value. Gradients are not part of it.
///
/// # Errors
/// The first error on the way to the tensor; the host cannot reach the device's memory.
#[track_caller]
pub fn export(tensor: &Tensor) -> Result<Managed> {
    let export = exported(tensor)?;
    // SAFETY: the export lives until its deleter is called.
    let raw = unsafe { NonNull::new_unchecked(&raw mut (*export.as_ptr()).versioned) };
    Ok(Managed(Raw::Versioned(raw)))
}

/// As [`export`], for a library that knows no versions. It is not told that the memory must not be written, and has to be asked
/// not to.
///
/// # Errors
/// As [`export`].
#[track_caller]
pub fn export_unversioned(tensor: &Tensor) -> Result<NonNull<DlManagedTensor>> {
    let export = exported(tensor)?;
    // SAFETY: the export lives until its deleter is called.
    Ok(unsafe { NonNull::new_unchecked(&raw mut (*export.as_ptr()).old) })
}

/// A tensor in lent memory, without a copy where the device of `cx` shares the host's memory, the elements are aligned and truth
/// values are 0 and 1, else a copy.
///
/// # Errors
/// Memory of another device; elements that tensors have not; more than 8 axes or extents and strides out of range. The deleter is
/// called then too.
#[track_caller]
pub fn import(managed: Managed, cx: &Context) -> Result<Tensor> {
    let lent = managed.tensor();
    if !HOST.contains(&lent.device.device_type) {
        let DlDevice {
            device_type,
            device_id,
        } = lent.device;
        return Err(refused(format!(
            "memory of device type {device_type}, number {device_id}; copy it to the host first"
        )));
    }
    let dtype = element(lent.dtype)?;
    let size = dtype.size() as i128;
    let rank = usize::try_from(lent.ndim).ok().filter(|&rank| rank <= MAX_RANK);
    let rank = rank.ok_or_else(|| refused(format!("{} axes, at most {MAX_RANK} are possible", lent.ndim)))?;
    let read = |at: *mut i64| -> Vec<i64> {
        // SAFETY: the struct's arrays have `ndim` entries.
        (0..rank).map(|axis| unsafe { at.add(axis).read() }).collect()
    };
    if rank > 0 && lent.shape.is_null() {
        return Err(refused("the shape is null"));
    }
    let extents = read(lent.shape);
    let extents: std::result::Result<Vec<usize>, _> = extents.into_iter().map(usize::try_from).collect();
    let extents = extents.map_err(|_| refused("a negative extent"))?;
    let shape = Shape::checked(&extents).map_err(|refusal| refused(refusal.message))?;
    let strides = match lent.strides.is_null() {
        true => Layout::contiguous(shape).strides().to_vec(),
        false => read(lent.strides),
    };
    if shape.elements() == 0 {
        return Ok(Tensor::constant(shape, dtype, 0).to(cx)).and_then(Tensor::ok);
    }
    // Elements before and behind the one at index 0.
    let (mut before, mut behind) = (0_i128, 0_i128);
    for (&extent, &stride) in shape.iter().zip(&strides) {
        let reach = (extent as i128 - 1) * i128::from(stride);
        if reach < 0 {
            before -= reach;
        } else {
            behind += reach;
        }
    }
    let far = before + behind >= 1 << 60;
    let (before, behind) = if far { (0, 0) } else { (before, behind) };
    let start = lent.data as usize as i128 + i128::from(lent.byte_offset) - before * size;
    let bytes = (before + behind + 1) * size;
    if far || lent.data.is_null() || start <= 0 || start + bytes > isize::MAX as i128 {
        return Err(refused(format!(
            "extents {shape} and strides {strides:?} from {:?}",
            lent.data
        )));
    }
    let all =
        Shape::checked(&[(before + behind + 1) as usize]).map_err(|refusal| refused(refusal.message))?;
    let back = (before * size) as usize;
    let first = lent
        .data
        .cast::<u8>()
        .wrapping_add(lent.byte_offset as usize)
        .wrapping_sub(back);
    let layout = Layout::strided(shape, &strides, before as u64);
    let managed = Arc::new(managed);
    // SAFETY: the memory from the first to the last element that shape and strides name is readable until the deleter is called,
    // and nobody writes a tensor's memory.
    match unsafe { Tensor::from_host(first, &managed, all, dtype, cx) } {
        Some(tensor) => Ok(tensor.viewed(layout)),
        None => {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(first, bytes as usize) }.to_vec();
            Ok(Tensor::from_le_bytes(bytes, all, dtype, cx)?.viewed(layout))
        }
    }
}

fn element(ty: DlDataType) -> Result<DType> {
    let DlDataType { code, bits, lanes } = ty;
    let is = |dtype: &DType| (dtype.facts().dlpack, dtype.size() * 8) == (code, bits.into());
    (DType::ALL.into_iter().find(is))
        .filter(|_| lanes == 1)
        .ok_or_else(|| refused(format!("elements of code {code}, {bits} bits, {lanes} lanes")))
}

#[cfg(test)]
mod tests;
