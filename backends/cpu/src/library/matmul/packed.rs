//! A constant B, packed once for all runs.

use super::{Few, MatDType, MatMut, MatmulKernel, Problem, ThinProduct, transposes};
use crate::exec::Args;
use crate::isa::Isa;
use crate::library::Wanted;
use crate::library::gemm::{self, Kernels, Operands, Uniform};

/// Runs `$body` with `$t` as the element type and the kernels for it; `$other` for types whose accumulators are larger, which would cost
/// more memory than the packing is worth.
macro_rules! by_size {
    ($dtype:expr, ($isa:expr, $codegen:expr), $t:ident, $kernels:ident => $body:expr, $other:expr) => {
        match $dtype {
            MatDType::Bf16 | MatDType::Bf16Wide => {
                type $t = gemm::Wide<half::bf16>;
                let $kernels = <$t as Uniform>::products($isa, $codegen);
                $body
            }
            MatDType::Bf16Amx | MatDType::Bf16AmxWide => {
                type $t = gemm::Wide<half::bf16>;
                let $kernels = gemm::by_amx::<$t>();
                $body
            }
            MatDType::Bytes(signs) => {
                type $t = gemm::Byte;
                let [$kernels, _] = signs.kernels($isa, $codegen);
                $body
            }
            dtype => thalweg_hal::match_type!(dtype, $t => {
                    let $kernels = <$t as Uniform>::kernels($isa, $codegen);
                    $body
                };
                MatDType::F32 => f32,
                MatDType::F64 => f64,
                MatDType::I32 => i32,
                MatDType::I64 => i64;
                else $other),
        }
    };
}

/// Extents and strides of a B that all batches share.
struct Shared {
    k: usize,
    n: usize,
    row: isize,
    col: isize,
}

impl Shared {
    /// How B lies, as operands of a product without any.
    fn operands<T: gemm::Element>(&self) -> Operands<T> {
        Operands {
            a: std::ptr::null(),
            a_row: 0,
            a_col: 0,
            b: std::ptr::null(),
            b_row: self.row,
            b_col: self.col,
            c: std::ptr::null_mut(),
            c_row: 0,
            c_col: 0,
            beside: None,
        }
    }

    /// Bytes of the packed form and columns of a panel; `None` where a launch would not read it.
    fn form<T: ThinProduct>(
        &self,
        way: (Isa, bool),
        kernels: &Kernels<T>,
        p: &Problem,
        c: &MatMut,
    ) -> Option<(usize, usize)> {
        let nr = kernels.columns();
        let thin = T::thin(way, kernels, &self.operands(), [p.m, p.n, p.k])
            .is_some_and(|thin| thin.serves(kernels, p.m, true));
        let read = !thin && !transposes(p, c, nr);
        let len = gemm::packed_len(kernels, self.k, self.n);
        read.then(|| (len.saturating_mul(size_of::<T::Acc>()), nr))
    }
}

impl MatmulKernel {
    fn shared(&self, args: &Args<'_>) -> Option<(Shared, Problem, MatMut)> {
        let axes = self.batch;
        let ([m, n, k], [_, b, .., out]) = (args.extents.get(axes..)?, args.args) else {
            return None;
        };
        let batches = &args.extents[..axes];
        let apart = |(&extent, &stride): (&u64, &i64)| extent > 1 && stride != 0;
        if args.extents.contains(&0) || batches.iter().zip(b.strides).any(apart) {
            return None;
        }
        let (m, n, k) = (*m as usize, *n as usize, *k as usize);
        let shared = Shared {
            k,
            n,
            row: b.strides[axes + 2] as isize,
            col: b.strides[axes + 1] as isize,
        };
        let problem = Problem { batch: 1, m, n, k };
        let result = MatMut {
            ptr: std::ptr::null_mut(),
            batch_stride: 0,
            row_stride: out.strides[axes] as isize,
            col_stride: out.strides[axes + 1] as isize,
        };
        Some((shared, problem, result))
    }

    /// B packed, where a launch would read it; addresses do not matter.
    pub(in crate::library) fn wanted(&self, args: &Args<'_>) -> Option<Wanted> {
        let (shared, problem, result) = self.shared(args)?;
        let (bytes, columns) = by_size!(self.dtype, (self.isa, self.codegen), T, kernels => shared.form::<T>((self.isa, self.codegen), &kernels, &problem, &result)?, return None);
        // The same bytes are packed otherwise as signed and as unsigned ones.
        let form = match self.dtype {
            MatDType::Bytes(signs) => 1 + u64::from(signs.a) + 2 * u64::from(signs.b),
            MatDType::Bf16 | MatDType::Bf16Wide => 5,
            MatDType::Bf16Amx | MatDType::Bf16AmxWide => 6,
            _ => 0,
        };
        let key = [
            shared.k as u64,
            shared.n as u64,
            shared.row as u64,
            shared.col as u64,
            columns as u64,
            self.element as u64,
            form,
        ];
        Some(Wanted {
            operand: 1,
            bytes: bytes as u64,
            key: key.into(),
        })
    }

    /// Writes B as [`MatmulKernel::wanted`] says.
    ///
    /// # Safety
    /// `b` is readable, and `to` has the bytes that were wanted, aligned for a cache line.
    pub(in crate::library) unsafe fn prepare(&self, args: &Args<'_>, to: *mut u8) {
        let (Some((shared, ..)), [_, b, ..]) = (self.shared(args), args.args) else {
            return;
        };
        by_size!(
            self.dtype,
            (self.isa, self.codegen),
            T,
            kernels => {
                let b = (b.ptr.cast_const().cast::<T>(), shared.row, shared.col);
                // SAFETY: the caller vouches for both; the machine has the instruction set.
                unsafe { gemm::pack_whole(&kernels, b, shared.k, shared.n, to.cast()) }
            },
            ()
        );
    }
}
