//! Constants of the OpenCL headers that the backend uses, under their names without `CL_`.
#![allow(missing_docs, reason = "named and described in the OpenCL specification")]

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const DEVICE_NOT_FOUND: i32 = -1;
pub(crate) const DEVICE_NOT_AVAILABLE: i32 = -2;
pub(crate) const COMPILER_NOT_AVAILABLE: i32 = -3;
pub(crate) const MEM_OBJECT_ALLOCATION_FAILURE: i32 = -4;
pub(crate) const OUT_OF_RESOURCES: i32 = -5;
pub(crate) const OUT_OF_HOST_MEMORY: i32 = -6;
pub(crate) const BUILD_PROGRAM_FAILURE: i32 = -11;
pub(crate) const EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST: i32 = -14;
pub(crate) const INVALID_COMMAND_QUEUE: i32 = -36;
pub(crate) const INVALID_BUFFER_SIZE: i32 = -61;
pub(crate) const PLATFORM_NOT_FOUND: i32 = -1001;

/// Name of an error code.
pub(crate) fn name(code: i32) -> &'static str {
    match code {
        -1 => "CL_DEVICE_NOT_FOUND",
        -2 => "CL_DEVICE_NOT_AVAILABLE",
        -3 => "CL_COMPILER_NOT_AVAILABLE",
        -4 => "CL_MEM_OBJECT_ALLOCATION_FAILURE",
        -5 => "CL_OUT_OF_RESOURCES",
        -6 => "CL_OUT_OF_HOST_MEMORY",
        -7 => "CL_PROFILING_INFO_NOT_AVAILABLE",
        -8 => "CL_MEM_COPY_OVERLAP",
        -11 => "CL_BUILD_PROGRAM_FAILURE",
        -12 => "CL_MAP_FAILURE",
        -13 => "CL_MISALIGNED_SUB_BUFFER_OFFSET",
        -14 => "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
        -30 => "CL_INVALID_VALUE",
        -32 => "CL_INVALID_PLATFORM",
        -33 => "CL_INVALID_DEVICE",
        -34 => "CL_INVALID_CONTEXT",
        -35 => "CL_INVALID_QUEUE_PROPERTIES",
        -36 => "CL_INVALID_COMMAND_QUEUE",
        -37 => "CL_INVALID_HOST_PTR",
        -38 => "CL_INVALID_MEM_OBJECT",
        -42 => "CL_INVALID_BINARY",
        -43 => "CL_INVALID_BUILD_OPTIONS",
        -44 => "CL_INVALID_PROGRAM",
        -45 => "CL_INVALID_PROGRAM_EXECUTABLE",
        -46 => "CL_INVALID_KERNEL_NAME",
        -48 => "CL_INVALID_KERNEL",
        -49 => "CL_INVALID_ARG_INDEX",
        -50 => "CL_INVALID_ARG_VALUE",
        -51 => "CL_INVALID_ARG_SIZE",
        -52 => "CL_INVALID_KERNEL_ARGS",
        -53 => "CL_INVALID_WORK_DIMENSION",
        -54 => "CL_INVALID_WORK_GROUP_SIZE",
        -55 => "CL_INVALID_WORK_ITEM_SIZE",
        -57 => "CL_INVALID_EVENT_WAIT_LIST",
        -58 => "CL_INVALID_EVENT",
        -59 => "CL_INVALID_OPERATION",
        -61 => "CL_INVALID_BUFFER_SIZE",
        -63 => "CL_INVALID_GLOBAL_WORK_SIZE",
        -1001 => "CL_PLATFORM_NOT_FOUND_KHR",
        _ => "an OpenCL error",
    }
}

pub(crate) const PLATFORM_VERSION: u32 = 0x0901;
pub(crate) const PLATFORM_NAME: u32 = 0x0902;

pub(crate) const DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
pub(crate) const DEVICE_TYPE_CPU: u64 = 1 << 1;
pub(crate) const DEVICE_TYPE_GPU: u64 = 1 << 2;

pub(crate) const DEVICE_TYPE: u32 = 0x1000;
pub(crate) const DEVICE_MAX_COMPUTE_UNITS: u32 = 0x1002;
pub(crate) const DEVICE_MAX_WORK_GROUP_SIZE: u32 = 0x1004;
pub(crate) const DEVICE_MAX_MEM_ALLOC_SIZE: u32 = 0x1010;
pub(crate) const DEVICE_MAX_PARAMETER_SIZE: u32 = 0x1017;
pub(crate) const DEVICE_MEM_BASE_ADDR_ALIGN: u32 = 0x1019;
pub(crate) const DEVICE_SINGLE_FP_CONFIG: u32 = 0x101b;
pub(crate) const DEVICE_GLOBAL_MEM_CACHE_SIZE: u32 = 0x101e;
pub(crate) const DEVICE_GLOBAL_MEM_SIZE: u32 = 0x101f;
pub(crate) const DEVICE_AVAILABLE: u32 = 0x1027;
pub(crate) const DEVICE_COMPILER_AVAILABLE: u32 = 0x1028;
pub(crate) const DEVICE_NAME: u32 = 0x102b;
pub(crate) const DEVICE_VENDOR: u32 = 0x102c;
pub(crate) const DRIVER_VERSION: u32 = 0x102d;
pub(crate) const DEVICE_VERSION: u32 = 0x102f;
pub(crate) const DEVICE_EXTENSIONS: u32 = 0x1030;
pub(crate) const DEVICE_DOUBLE_FP_CONFIG: u32 = 0x1032;
pub(crate) const DEVICE_HOST_UNIFIED_MEMORY: u32 = 0x1035;
pub(crate) const DEVICE_GLOBAL_FREE_MEMORY_AMD: u32 = 0x4039;
pub(crate) const DEVICE_PCI_BUS_INFO_KHR: u32 = 0x410f;

pub(crate) const FP_CORRECTLY_ROUNDED_DIVIDE_SQRT: u64 = 1 << 7;

pub(crate) const QUEUE_PROPERTIES: u64 = 0x1093;
pub(crate) const QUEUE_PROFILING_ENABLE: u64 = 1 << 1;
pub(crate) const QUEUE_PRIORITY_KHR: u64 = 0x1096;
pub(crate) const QUEUE_PRIORITY_HIGH_KHR: u64 = 1 << 0;
pub(crate) const QUEUE_PRIORITY_MED_KHR: u64 = 1 << 1;
pub(crate) const QUEUE_PRIORITY_LOW_KHR: u64 = 1 << 2;

pub(crate) const MEM_READ_WRITE: u64 = 1 << 0;
pub(crate) const MEM_READ_ONLY: u64 = 1 << 2;
pub(crate) const MEM_USE_HOST_PTR: u64 = 1 << 3;
pub(crate) const MEM_ALLOC_HOST_PTR: u64 = 1 << 4;
pub(crate) const MEM_COPY_HOST_PTR: u64 = 1 << 5;

pub(crate) const MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED: u64 = 1 << 1;
pub(crate) const MAP_READ_WRITE: u64 = 3;

pub(crate) const PROGRAM_BINARY_SIZES: u32 = 0x1165;
pub(crate) const PROGRAM_BINARIES: u32 = 0x1166;
pub(crate) const PROGRAM_BUILD_LOG: u32 = 0x1183;

pub(crate) const EVENT_COMMAND_EXECUTION_STATUS: u32 = 0x11d3;
pub(crate) const COMPLETE: i32 = 0;
pub(crate) const PROFILING_COMMAND_QUEUED: u32 = 0x1280;
pub(crate) const PROFILING_COMMAND_START: u32 = 0x1282;
pub(crate) const PROFILING_COMMAND_END: u32 = 0x1283;
