//! Tensors in memory that somebody else keeps.

use super::Tensor;
use super::create::imported;
use super::shape::Shape;
use super::tag::OpTag;
use crate::context::Context;
use crate::hal::{Buffer, Capability, DType};
use std::ffi::c_void;
use std::sync::Arc;

unsafe extern "C" fn release<O>(owner: *mut c_void) {
    // SAFETY: `in_place` passes a reference of its own, and release is called once.
    drop(unsafe { Arc::from_raw(owner.cast::<O>()) });
}

/// A tensor in the host's memory, which `owner` keeps; `None` where the device does not compute there: the elements are copied
/// then. A device with memory of its own reaches the host's too, but slowly. An import may fail where the next does not, as a
/// driver may take each page once.
///
/// # Safety
/// Row-major elements of the shape lie at `ptr`, as the host has them, in memory that is readable as long as `owner` lives, and
/// that nobody writes.
pub(super) unsafe fn in_place<O: Send + Sync + 'static>(
    ptr: *mut u8,
    owner: &Arc<O>,
    (shape, dtype): (Shape, DType),
    cx: &Context,
    tag: OpTag,
) -> Option<Tensor> {
    let device = cx.device();
    let bits = [Capability::Import, Capability::UnifiedMemory];
    let aligned = (ptr as usize).is_multiple_of(dtype.size());
    if shape.elements() == 0 || !aligned || bits.iter().any(|&bit| !device.capability(bit)) {
        return None;
    }
    let bytes = (shape.elements() * dtype.size()) as u64;
    let owner = Arc::into_raw(Arc::clone(owner)).cast_mut().cast::<c_void>();
    // SAFETY: the caller vouches for the memory, which the owner keeps until it is released; tensors are not written.
    match unsafe { Buffer::import(device, ptr, bytes, Some(release::<O>), owner) } {
        Ok(buffer) => Some(imported(buffer, shape, dtype, cx, tag)),
        Err(_) => {
            // SAFETY: a failed import does not release; the reference is still ours.
            unsafe { release::<O>(owner) };
            None
        }
    }
}

impl Tensor {
    /// A tensor in the host's memory, which `owner` keeps; `None` where the device cannot use it in place, or where a truth value
    /// is neither 0 nor 1.
    ///
    /// # Safety
    /// As many elements as the shape has lie at `ptr`, row-major, as the host has them, in memory that is readable as long as
    /// `owner` lives, and that nobody writes.
    #[cfg(any(feature = "dlpack", feature = "safetensors"))]
    #[track_caller]
    pub(crate) unsafe fn from_host<O: Send + Sync + 'static>(
        ptr: *mut u8,
        owner: &Arc<O>,
        shape: Shape,
        dtype: DType,
        cx: &Context,
    ) -> Option<Tensor> {
        if dtype == DType::Bool && shape.elements() > 0 {
            // SAFETY: the caller vouches for the memory; a truth value is a byte.
            let truths = unsafe { std::slice::from_raw_parts(ptr, shape.elements()) };
            if truths.iter().any(|&byte| byte > 1) {
                return None;
            }
        }
        // SAFETY: as above.
        unsafe { in_place(ptr, owner, (shape, dtype), cx, OpTag::new("from_host")) }
    }

    /// Other elements of a value's buffer.
    #[cfg(feature = "dlpack")]
    pub(crate) fn viewed(self, layout: super::layout::Layout) -> Tensor {
        match self.repr {
            super::Repr::Value(value) => Tensor::from_value(super::Value { layout, ..value }),
            _ => self,
        }
    }

    /// A tensor in the memory of `data`, row-major, or a copy of it.
    #[track_caller]
    pub(super) fn in_vec<T: crate::hal::Element>(
        mut data: Vec<T>,
        (shape, dtype): (Shape, DType),
        cx: &Context,
        tag: OpTag,
    ) -> crate::error::Result<Tensor> {
        let ptr = data.as_mut_ptr().cast::<u8>();
        let data = Arc::new(data);
        // SAFETY: the vector has as many elements as the shape, and nobody else reaches it.
        match unsafe { in_place(ptr, &data, (shape, dtype), cx, tag) } {
            Some(tensor) => Ok(tensor),
            None => super::create::upload(&data, shape, dtype, cx, tag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::{self, Device, DeviceOptions, Status};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use thalweg_hal::tables::{
        self, BackendApi, DeviceProperties, DeviceTable, ImportArgs, MemoryTable, Table,
    };

    fn cpu() -> &'static BackendApi {
        hal::runtime().registry().get("cpu").unwrap().api()
    }

    /// The CPU backend's table `T` with a change, which every call must name alike.
    fn changed<T: Table + Copy>(place: &'static OnceLock<T>, change: impl FnOnce(&mut T)) -> *const c_void {
        let table = place.get_or_init(|| {
            let backend = hal::runtime().registry().get("cpu").unwrap();
            let mut table = *backend.table::<T>().unwrap();
            change(&mut table);
            table
        });
        std::ptr::from_ref(table).cast()
    }

    /// The CPU backend as one with memory of its own.
    unsafe extern "C" fn apart(context: tables::Context, table: u32, version: u32) -> *const c_void {
        unsafe extern "C" fn properties(
            context: tables::Context,
            ordinal: u32,
            out: *mut DeviceProperties,
        ) -> i32 {
            let backend = hal::runtime().registry().get("cpu").unwrap();
            // SAFETY: the arguments are handed on as they came.
            let code = unsafe { (backend.table::<DeviceTable>().unwrap().properties)(context, ordinal, out) };
            // SAFETY: writable by the table's contract, and the CPU backend has filled it.
            unsafe { (*out).capabilities &= !Capability::UnifiedMemory.bit() };
            code
        }
        static DEVICES: OnceLock<DeviceTable> = OnceLock::new();
        if table == DeviceTable::ID as u32 {
            return changed(&DEVICES, |table| table.properties = properties);
        }
        // SAFETY: the arguments are handed on as they came.
        unsafe { (cpu().query_interface)(context, table, version) }
    }

    /// The CPU backend where the driver takes no memory of others.
    unsafe extern "C" fn refusing(context: tables::Context, table: u32, version: u32) -> *const c_void {
        unsafe extern "C" fn import(_: tables::Context, _: *const ImportArgs, _: *mut u64) -> i32 {
            Status::Unsupported as i32
        }
        static MEMORY: OnceLock<MemoryTable> = OnceLock::new();
        if table == MemoryTable::ID as u32 {
            return changed(&MEMORY, |table| table.import = import);
        }
        // SAFETY: the arguments are handed on as they came.
        unsafe { (cpu().query_interface)(context, table, version) }
    }

    fn double(query_interface: unsafe extern "C" fn(tables::Context, u32, u32) -> *const c_void) -> Context {
        let api = BackendApi {
            query_interface,
            ..*cpu()
        };
        // SAFETY: the CPU backend's tables, but for functions that keep their contract.
        let backend = unsafe { hal::Backend::from_api(api) }.unwrap();
        let device: Device = backend.open(&DeviceOptions::new(0)).unwrap();
        Context::on(device)
    }

    static DROPPED: AtomicUsize = AtomicUsize::new(0);

    struct Owner(Vec<f32>);

    impl AsRef<[f32]> for Owner {
        fn as_ref(&self) -> &[f32] {
            &self.0
        }
    }

    impl Drop for Owner {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tensors of all ways in; and how many owners were let go.
    fn made(cx: &Context) -> usize {
        let before = DROPPED.load(Ordering::Relaxed);
        let shape = Shape::of(&[2]);
        let owner = Arc::new(Owner(vec![5.0, 6.0]));
        // SAFETY: the owner's two elements, which nobody writes.
        let host =
            unsafe { Tensor::from_host(owner.0.as_ptr().cast_mut().cast(), &owner, shape, DType::F32, cx) };
        assert!(host.is_none_or(|host| host.to_vec::<f32>().is_ok_and(|host| host == [5.0, 6.0])));
        let bytes: Vec<u8> = [7.0_f32, 8.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensors = [
            Tensor::from_vec(vec![1.0_f32, 2.0], 2, cx),
            Tensor::from_owner(Owner(vec![3.0, 4.0]), 2, cx),
            Tensor::from_le_bytes(bytes, shape, DType::F32, cx).unwrap(),
        ];
        for (tensor, wanted) in tensors.iter().zip([[1.0, 2.0], [3.0, 4.0], [7.0, 8.0]]) {
            assert_eq!(tensor.to_vec::<f32>().unwrap(), wanted);
        }
        drop(owner);
        DROPPED.load(Ordering::Relaxed) - before
    }

    #[test]
    fn memory_is_used_in_place_only_where_the_device_shares_it_and_takes_it() {
        // It imports, into memory that it does not share.
        assert_eq!(made(&double(apart)), 2);
        assert_eq!(made(&double(refusing)), 2);
        // The owner of a tensor lives as long as that.
        assert_eq!(made(&Context::new("cpu").unwrap()), 1);
    }
}
