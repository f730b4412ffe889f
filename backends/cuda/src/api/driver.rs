//! The driver, libcuda.

use super::library::{Search, functions, opaque};
use cudarc::driver::sys;
use std::ffi::{c_char, c_void};
use thalweg_hal::{Error, Result};

opaque! {
    /// `CUcontext`.
    RawContext;
    /// `CUstream`.
    RawStream;
    /// `CUevent`.
    RawEvent;
    /// `CUmodule`.
    RawModule;
    /// `CUfunction`.
    RawFunction;
    /// `CUgraph`.
    RawGraph;
    /// `CUgraphExec`.
    RawGraphExec;
    /// `CUgraphNode`.
    RawGraphNode;
}

/// `CUdevice`.
pub(crate) type RawDevice = i32;
/// `CUdeviceptr`.
pub(crate) type DevicePtr = u64;
/// `CUdevice_attribute`.
pub(crate) type Attribute = sys::CUdevice_attribute;

type Out<T> = *mut T;
type Code = u32;

functions! {
    /// The functions that say whether the others can be asked for.
    First:
    init = "cuInit"(u32) -> Code;
    version = "cuDriverGetVersion"(Out<i32>) -> Code;
}

functions! {
    /// The functions of the driver.
    Driver:
    error_name = "cuGetErrorName"(Code, Out<*const c_char>) -> Code;
    error_string = "cuGetErrorString"(Code, Out<*const c_char>) -> Code;
    device_count = "cuDeviceGetCount"(Out<i32>) -> Code;
    device_get = "cuDeviceGet"(Out<RawDevice>, i32) -> Code;
    device_name = "cuDeviceGetName"(Out<u8>, i32, RawDevice) -> Code;
    device_uuid = "cuDeviceGetUuid"(Out<[u8; 16]>, RawDevice) -> Code;
    device_memory = "cuDeviceTotalMem_v2"(Out<usize>, RawDevice) -> Code;
    device_attribute = "cuDeviceGetAttribute"(Out<i32>, Attribute, RawDevice) -> Code;
    device_pci = "cuDeviceGetPCIBusId"(Out<u8>, i32, RawDevice) -> Code;
    can_access_peer = "cuDeviceCanAccessPeer"(Out<i32>, RawDevice, RawDevice) -> Code;
    retain_context = "cuDevicePrimaryCtxRetain"(Out<RawContext>, RawDevice) -> Code;
    release_context = "cuDevicePrimaryCtxRelease_v2"(RawDevice) -> Code;
    set_context = "cuCtxSetCurrent"(RawContext) -> Code;
    priorities = "cuCtxGetStreamPriorityRange"(Out<i32>, Out<i32>) -> Code;
    enable_peer = "cuCtxEnablePeerAccess"(RawContext, u32) -> Code;
    memory_info = "cuMemGetInfo_v2"(Out<usize>, Out<usize>) -> Code;
    alloc = "cuMemAlloc_v2"(Out<DevicePtr>, usize) -> Code;
    free = "cuMemFree_v2"(DevicePtr) -> Code;
    host_alloc = "cuMemHostAlloc"(Out<*mut c_void>, usize, u32) -> Code;
    host_free = "cuMemFreeHost"(*mut c_void) -> Code;
    host_register = "cuMemHostRegister_v2"(*mut c_void, usize, u32) -> Code;
    host_unregister = "cuMemHostUnregister"(*mut c_void) -> Code;
    host_device_ptr = "cuMemHostGetDevicePointer_v2"(Out<DevicePtr>, *mut c_void, u32) -> Code;
    pointer_attribute = "cuPointerGetAttribute"(*mut c_void, sys::CUpointer_attribute, DevicePtr) -> Code;
    copy_async = "cuMemcpyAsync"(DevicePtr, DevicePtr, usize, RawStream) -> Code;
    copy_2d_async = "cuMemcpy2DAsync_v2"(*const sys::CUDA_MEMCPY2D, RawStream) -> Code;
    copy_peer_async = "cuMemcpyPeerAsync"
        (DevicePtr, RawContext, DevicePtr, RawContext, usize, RawStream) -> Code;
    set_8_async = "cuMemsetD8Async"(DevicePtr, u8, usize, RawStream) -> Code;
    set_16_async = "cuMemsetD16Async"(DevicePtr, u16, usize, RawStream) -> Code;
    set_32_async = "cuMemsetD32Async"(DevicePtr, u32, usize, RawStream) -> Code;
    set_2d_32_async = "cuMemsetD2D32Async"(DevicePtr, usize, u32, usize, usize, RawStream) -> Code;
    stream_create = "cuStreamCreateWithPriority"(Out<RawStream>, u32, i32) -> Code;
    stream_destroy = "cuStreamDestroy_v2"(RawStream) -> Code;
    stream_query = "cuStreamQuery"(RawStream) -> Code;
    stream_synchronize = "cuStreamSynchronize"(RawStream) -> Code;
    stream_wait_event = "cuStreamWaitEvent"(RawStream, RawEvent, u32) -> Code;
    stream_wait_value = "cuStreamWaitValue32_v2"(RawStream, DevicePtr, u32, u32) -> Code;
    stream_write_value = "cuStreamWriteValue32_v2"(RawStream, DevicePtr, u32, u32) -> Code;
    begin_capture = "cuStreamBeginCapture_v2"(RawStream, u32) -> Code;
    end_capture = "cuStreamEndCapture"(RawStream, Out<RawGraph>) -> Code;
    event_create = "cuEventCreate"(Out<RawEvent>, u32) -> Code;
    event_destroy = "cuEventDestroy_v2"(RawEvent) -> Code;
    event_record = "cuEventRecord"(RawEvent, RawStream) -> Code;
    event_query = "cuEventQuery"(RawEvent) -> Code;
    event_synchronize = "cuEventSynchronize"(RawEvent) -> Code;
    event_elapsed = "cuEventElapsedTime"(Out<f32>, RawEvent, RawEvent) -> Code;
    module_load = "cuModuleLoadDataEx"
        (Out<RawModule>, *const c_void, u32, *mut sys::CUjit_option, *mut *mut c_void) -> Code;
    module_function = "cuModuleGetFunction"(Out<RawFunction>, RawModule, *const c_char) -> Code;
    #[optional]
    function_load = "cuFuncLoad"(RawFunction) -> Code;
    module_unload = "cuModuleUnload"(RawModule) -> Code;
    launch = "cuLaunchKernel"
        (RawFunction, u32, u32, u32, u32, u32, u32, u32, RawStream, *mut *mut c_void, *mut *mut c_void) -> Code;
    graph_create = "cuGraphCreate"(Out<RawGraph>, u32) -> Code;
    graph_destroy = "cuGraphDestroy"(RawGraph) -> Code;
    graph_add_kernel = "cuGraphAddKernelNode_v2"
        (Out<RawGraphNode>, RawGraph, *const RawGraphNode, usize, *const sys::CUDA_KERNEL_NODE_PARAMS) -> Code;
    graph_add_copy = "cuGraphAddMemcpyNode"
        (Out<RawGraphNode>, RawGraph, *const RawGraphNode, usize, *const sys::CUDA_MEMCPY3D, RawContext) -> Code;
    graph_add_set = "cuGraphAddMemsetNode"
        (Out<RawGraphNode>, RawGraph, *const RawGraphNode, usize, *const sys::CUDA_MEMSET_NODE_PARAMS, RawContext)
        -> Code;
    graph_add_child = "cuGraphAddChildGraphNode"
        (Out<RawGraphNode>, RawGraph, *const RawGraphNode, usize, RawGraph) -> Code;
    graph_instantiate = "cuGraphInstantiateWithFlags"(Out<RawGraphExec>, RawGraph, u64) -> Code;
    graph_set_kernel = "cuGraphExecKernelNodeSetParams_v2"
        (RawGraphExec, RawGraphNode, *const sys::CUDA_KERNEL_NODE_PARAMS) -> Code;
    graph_set_set = "cuGraphExecMemsetNodeSetParams"
        (RawGraphExec, RawGraphNode, *const sys::CUDA_MEMSET_NODE_PARAMS, RawContext) -> Code;
    graph_set_child = "cuGraphExecChildGraphNodeSetParams"(RawGraphExec, RawGraphNode, RawGraph) -> Code;
    graph_launch = "cuGraphLaunch"(RawGraphExec, RawStream) -> Code;
    graph_exec_destroy = "cuGraphExecDestroy"(RawGraphExec) -> Code;
}

const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// The oldest driver that will do, as the driver numbers itself.
const OLDEST: i32 = 12_000;

/// `12.4` of 12040.
pub(crate) fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

impl Driver {
    /// Opens and initialises the driver; returns it with its version.
    ///
    /// # Errors
    /// [`Unavailable`](thalweg_hal::Status::Unavailable) and what is missing.
    pub(crate) fn open(search: &Search) -> Result<(&'static Driver, i32)> {
        let advice = "is an NVIDIA driver installed?";
        let first = search.open(&NAMES, advice)?;
        let first = First::resolve(first.0, &first.1)?;
        let mut version = 0;
        // SAFETY: plain call.
        let code = unsafe { (first.version)(&raw mut version) };
        if code == 0 && version < OLDEST {
            return Err(Error::unavailable(format!(
                "the NVIDIA driver speaks CUDA {}, and {} or later is needed; update the driver",
                dotted(version),
                dotted(OLDEST)
            )));
        }
        let (library, name) = search.open(&NAMES, advice)?;
        let driver = Driver::resolve(library, &name)?;
        // SAFETY: plain call.
        let code = unsafe { (first.init)(0) };
        if code != 0 {
            return Err(Error::unavailable(driver.message("cuInit", code)));
        }
        // Never closed: the driver has started threads.
        std::mem::forget(first);
        Ok((Box::leak(Box::new(driver)), version))
    }

    /// `CALL returned NAME (CODE): what it means`.
    pub(crate) fn message(&self, call: &str, code: u32) -> String {
        let text = |ask: unsafe extern "C" fn(u32, *mut *const c_char) -> u32| {
            let mut text = std::ptr::null();
            // SAFETY: the driver writes a pointer to a text of its own, or null.
            unsafe {
                ask(code, &raw mut text);
                (!text.is_null()).then(|| std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned())
            }
        };
        let name = text(self.error_name).unwrap_or_else(|| "an unknown code".into());
        let meaning = text(self.error_string).map_or_else(String::new, |text| format!(": {text}"));
        format!("{call} returned {name} ({code}){meaning}")
    }
}
