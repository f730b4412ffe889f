//! What the source is written for.

use crate::scalar;

/// Which language is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenCL C 1.2.
    OpenClC,
    /// CUDA C++ as NVRTC takes it, without headers, from compute capability 8.0 on.
    CudaC,
}

/// A device as the renderer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Language.
    pub dialect: Dialect,
    /// Whether the device computes in f64. Kernels that need it are refused otherwise. f16 and bf16 always work: they are
    /// 16-bit integers in memory and f32 in between, as the IR defines them, or pairs in a word whose ops give the same bits.
    pub fp64: bool,
    /// Whether work-items are threads of a CPU: each takes long runs of elements and its loops are left to the compiler's
    /// vectoriser. Otherwise neighbouring work-items take neighbouring elements.
    pub cpu: bool,
    /// Most work-items of a group.
    pub max_group_size: u32,
    /// Most bytes of a kernel's arguments (`CL_DEVICE_MAX_PARAMETER_SIZE`; 4096 for CUDA).
    pub argument_bytes: u32,
}

impl Target {
    /// A CUDA device.
    pub const CUDA: Target = Target {
        dialect: Dialect::CudaC,
        fp64: true,
        cpu: false,
        max_group_size: 1024,
        argument_bytes: 4096,
    };

    /// Options that the compiler must be given: the IR contracts no products and sums, keeps denormals and rounds division
    /// and square root correctly. An OpenCL device that lacks `CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT` refuses the option and
    /// is then off by up to 2.5 ulp in f32 division; leave the option out there.
    pub const fn options(&self) -> &'static [&'static str] {
        match self.dialect {
            Dialect::OpenClC => &["-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt"],
            Dialect::CudaC => &[
                "--fmad=false",
                "--ftz=false",
                "--prec-div=true",
                "--prec-sqrt=true",
                "--std=c++17",
            ],
        }
    }

    /// Declarations of all that programs of [`Target::cpu`] call of OpenCL C, in the words of Clang's header. For compilers that are
    /// built on Clang and take longer for this header than for a kernel.
    pub fn declarations(&self) -> String {
        scalar::declarations(self.fp64)
    }

    /// One more option, for programs that the compiler does not optimise.
    pub const fn unoptimised(&self) -> &'static str {
        match self.dialect {
            Dialect::OpenClC => "-cl-opt-disable",
            Dialect::CudaC => "--device-debug",
        }
    }
}

impl Dialect {
    /// The language and its version.
    pub const fn language(self) -> &'static str {
        match self {
            Dialect::OpenClC => "OpenCL C 1.2",
            Dialect::CudaC => "CUDA C++17",
        }
    }

    /// Of a file with a source.
    pub const fn extension(self) -> &'static str {
        match self {
            Dialect::OpenClC => "cl",
            Dialect::CudaC => "cu",
        }
    }
}
