//! What the driver's codes mean for a device.

use cudarc::driver::sys::cudaError_enum as Code;
use thalweg_hal::Status;

pub(crate) const SUCCESS: u32 = Code::CUDA_SUCCESS as u32;
pub(crate) const NOT_READY: u32 = Code::CUDA_ERROR_NOT_READY as u32;
pub(crate) const OUT_OF_MEMORY: u32 = Code::CUDA_ERROR_OUT_OF_MEMORY as u32;
pub(crate) const PEER_ENABLED: u32 = Code::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as u32;

/// Faults of a kernel after which the context answers every call with the same code.
const FAULTS: [u32; 10] = [
    Code::CUDA_ERROR_ILLEGAL_ADDRESS as u32,
    Code::CUDA_ERROR_LAUNCH_TIMEOUT as u32,
    Code::CUDA_ERROR_ASSERT as u32,
    Code::CUDA_ERROR_HARDWARE_STACK_ERROR as u32,
    Code::CUDA_ERROR_ILLEGAL_INSTRUCTION as u32,
    Code::CUDA_ERROR_MISALIGNED_ADDRESS as u32,
    Code::CUDA_ERROR_INVALID_ADDRESS_SPACE as u32,
    Code::CUDA_ERROR_INVALID_PC as u32,
    Code::CUDA_ERROR_LAUNCH_FAILED as u32,
    Code::CUDA_ERROR_EXTERNAL_DEVICE as u32,
];

/// The device itself is gone or broken.
const LOST: [u32; 6] = [
    Code::CUDA_ERROR_ECC_UNCORRECTABLE as u32,
    Code::CUDA_ERROR_NVLINK_UNCORRECTABLE as u32,
    Code::CUDA_ERROR_DEVICE_UNAVAILABLE as u32,
    Code::CUDA_ERROR_CONTEXT_IS_DESTROYED as u32,
    Code::CUDA_ERROR_DEINITIALIZED as u32,
    Code::CUDA_ERROR_SYSTEM_NOT_READY as u32,
];

/// Whether nothing works on the device after this code.
pub(crate) fn is_sticky(code: u32) -> bool {
    FAULTS.contains(&code) || LOST.contains(&code)
}

/// The class of a code.
pub(crate) fn status(code: u32) -> Status {
    match code {
        OUT_OF_MEMORY => Status::OutOfMemory,
        code if LOST.contains(&code) => Status::DeviceLost,
        code if COMPILE.contains(&code) => Status::CompileFailed,
        code if code == Code::CUDA_ERROR_NOT_SUPPORTED as u32 => Status::Unsupported,
        _ => Status::LaunchFailed,
    }
}

const COMPILE: [u32; 4] = [
    Code::CUDA_ERROR_INVALID_PTX as u32,
    Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as u32,
    Code::CUDA_ERROR_NO_BINARY_FOR_GPU as u32,
    Code::CUDA_ERROR_INVALID_IMAGE as u32,
];
