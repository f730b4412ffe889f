//! Batched matrix product: C[b, i, j] = sum over l of A[b, i, l] B[b, l, j].
//!
//! The bits of C depend on the shape of one matrix and its strides, never on the instruction set or the number of threads
//! or of batches: k is never split between threads, its blocks follow from its length, and every product is fused.

use super::gemm::{self, Kernels, Operands, Scratch, Stored, Whole, piece};
use super::thin::{self, Few, ThinProduct};
use crate::isa::Isa;
use grid::{Grid, PACK_COSTS};
use std::ops::Range;

pub use super::gemm::Signs;
pub use crate::parallel::{Parallel, Serial};

/// Element type of all three matrices, but for bytes, whose result is i32, floats of 8 bits and wide ones of 16, whose result is f32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum MatDType {
    F32,
    F64,
    /// Sums are kept in f32 and rounded once.
    F16,
    /// Sums are kept in f32 and rounded once.
    Bf16,
    F16Wide,
    Bf16Wide,
    /// As [`MatDType::Bf16`], summed by AMX in an order of its own.
    Bf16Amx,
    Bf16AmxWide,
    F8E4M3,
    F8E5M2,
    /// Integers of 8 bits; the result is i32.
    Bytes(Signs),
    /// Integer sums and products wrap, so those of unsigned numbers have the same bits.
    I32,
    I64,
}

/// An operand that is read: element `[b, i, j]` is at `ptr` plus `b, i, j` times the strides, in elements.
///
/// Any stride is allowed, 0 and negative ones too: a transposed matrix, a broadcast batch.
#[derive(Clone, Copy, Debug)]
pub struct MatRef {
    /// Element `[0, 0, 0]`, aligned for its type.
    pub ptr: *const u8,
    /// Elements from one matrix to the next.
    pub batch_stride: isize,
    /// Elements from one row to the next.
    pub row_stride: isize,
    /// Elements from one column to the next.
    pub col_stride: isize,
    /// As B, what `MatmulKernel::prepare` has made of it, if it is the same for all batches; else null.
    pub packed: *const u8,
}

/// The result; as `MatRef`, but no two indices may name one element.
#[derive(Clone, Copy, Debug)]
pub struct MatMut {
    /// Element `[0, 0, 0]`, aligned for its type.
    pub ptr: *mut u8,
    /// Elements from one matrix to the next.
    pub batch_stride: isize,
    /// Elements from one row to the next.
    pub row_stride: isize,
    /// Elements from one column to the next.
    pub col_stride: isize,
}

/// Extents: A is `[batch, m, k]`, B `[batch, k, n]`, C `[batch, m, n]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Problem {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

/// Called with (batch, rows, columns) of each finished block of C by the thread that finished it, while it is in cache.
/// The blocks of all calls are disjoint and cover C; their number and order depend on the threads.
pub type Epilogue<'a> = &'a (dyn Fn(usize, Range<usize>, Range<usize>) + Sync);

/// What follows the sums of a product.
#[derive(Clone, Copy)]
pub enum After<'a> {
    /// They are C.
    Nothing,
    /// To each is added what lies so many bytes from its element of C; where [`adds`] says so.
    Adds(isize),
    /// Each block of C is handed on.
    Block(Epilogue<'a>),
}

/// Runs `$go` with `$t` as the element type and `$kernels` as its kernels: those of the product, and of the transposed one.
macro_rules! by_kernels {
    ($dtype:expr, ($isa:expr, $codegen:expr), $t:ident, $kernels:ident => $go:expr) => {
        by_kernels!(@ $dtype, $isa, $codegen, $t, $kernels, $go,
            F32 f32, F64 f64, F16 half::f16, Bf16 half::bf16, F16Wide gemm::Wide<half::f16>, Bf16Wide gemm::Wide<half::bf16>,
            F8E4M3 thalweg_hal::f8::F8E4M3, F8E5M2 thalweg_hal::f8::F8E5M2, I32 i32, I64 i64)
    };
    (@ $dtype:expr, $isa:expr, $codegen:expr, $t:ident, $kernels:ident, $go:expr, $($variant:ident $type:ty),*) => {
        match $dtype {
            $($crate::library::matmul::MatDType::$variant => {
                type $t = $type;
                let $kernels = [<$t as gemm::Uniform>::products($isa, $codegen); 2];
                $go
            })*
            $crate::library::matmul::MatDType::Bf16Amx => {
                type $t = half::bf16;
                let $kernels = [gemm::by_amx::<$t>(); 2];
                $go
            }
            $crate::library::matmul::MatDType::Bf16AmxWide => {
                type $t = gemm::Wide<half::bf16>;
                let $kernels = [gemm::by_amx::<$t>(); 2];
                $go
            }
            $crate::library::matmul::MatDType::Bytes(signs) => {
                type $t = gemm::Byte;
                let $kernels = signs.kernels($isa, $codegen);
                $go
            }
        }
    };
}

/// C = A B for each matrix of the batch, by an instruction set, and by machine code of our own or not. With `k == 0` C becomes zero.
///
/// # Safety
/// The machine has the instruction set. A and B are readable and C writable at every index of the problem, in elements as `dtype` says; C overlaps neither A nor
/// B and no element of it is named by two indices.
#[allow(
    clippy::too_many_arguments,
    reason = "the operands of a product, and how it is computed"
)]
pub unsafe fn matmul(
    (isa, codegen): (Isa, bool),
    dtype: MatDType,
    p: &Problem,
    a: MatRef,
    b: MatRef,
    c: MatMut,
    parallel: &dyn Parallel,
    after: After<'_>,
) {
    // SAFETY: same contract.
    unsafe {
        by_kernels!(dtype, (isa, codegen), T, kernels => typed::<T>((isa, codegen), kernels, p, a, b, c, parallel, after, Before::of::<T>()))
    }
}

/// Whether a product may add what lies beside C: [`After::Adds`].
pub fn adds((isa, codegen): (Isa, bool), dtype: MatDType, p: &Problem, c: &MatMut) -> bool {
    by_kernels!(dtype, (isa, codegen), T, kernels => {
        let [kernels, _] = &kernels;
        c.col_stride == 1 && thin::few([p.m, p.n, p.k]).is_none() && gemm::adds::<T>(kernels, p.k) && !transposes(p, c, kernels.columns())
    })
}

/// A raw pointer that closures of several threads share; each touches its own part of what it names.
#[derive(Clone, Copy)]
struct Shared<T>(T);
// SAFETY: a pointer is only an address; `matmul`'s contract makes the accesses behind it disjoint or read-only.
unsafe impl<T> Sync for Shared<T> {}

/// C = A B for one element type and one instruction set.
///
/// # Safety
/// That of [`matmul`].
#[allow(
    clippy::too_many_arguments,
    reason = "as those of the product, and its kernels"
)]
unsafe fn typed<T: ThinProduct>(
    (isa, codegen): (Isa, bool),
    [kernels, transposed]: [Kernels<T>; 2],
    p: &Problem,
    a: MatRef,
    b: MatRef,
    c: MatMut,
    parallel: &dyn Parallel,
    after: After<'_>,
    before: Before,
) {
    if p.batch == 0 || p.m == 0 || p.n == 0 {
        return;
    }
    let (beside, epilogue) = match after {
        After::Nothing => (None, None),
        After::Adds(beside) => (Some(beside), None),
        After::Block(epilogue) => (None, Some(epilogue)),
    };
    let x = Shared(Operands::<T> {
        a: a.ptr.cast(),
        a_row: a.row_stride,
        a_col: a.col_stride,
        b: b.ptr.cast(),
        b_row: b.row_stride,
        b_col: b.col_stride,
        c: c.ptr.cast(),
        c_row: c.row_stride,
        c_col: c.col_stride,
        beside,
    });
    let few = thin::few([p.m, p.n, p.k]);
    let thin = match few {
        Some(true) => T::thin((isa, codegen), &transposed, &x.0.transposed(), [p.n, p.m, p.k]),
        Some(false) => T::thin((isa, codegen), &kernels, &x.0, [p.m, p.n, p.k]),
        None => None,
    };
    let thin = thin.filter(|thin| thin.serves(&kernels, p.m.min(p.n), !b.packed.is_null()));
    let swap = match (&thin, few) {
        (Some(_), Some(swap)) => swap,
        _ => transposes(p, &c, kernels.columns()),
    };
    let kernels = if swap { transposed } else { kernels };
    let strides = [a.batch_stride, b.batch_stride, c.batch_stride];
    let (x, whole, strides, m, n) = if swap {
        (
            Shared(x.0.transposed()),
            std::ptr::null(),
            [strides[1], strides[0], strides[2]],
            p.n,
            p.m,
        )
    } else {
        (x, b.packed.cast::<T::Acc>(), strides, p.m, p.n)
    };
    let grain = GRAIN * isa.bits() as usize / (512 * size_of::<T::Acc>());
    let small =
        p.batch == 1 && m > 1 && thin.is_none() && m.saturating_mul(n).saturating_mul(p.k) < 2 * grain;
    // SAFETY: same contract.
    if small && whole.is_null() && unsafe { gemm::direct(&kernels, &x.0, [m, n, p.k]) } {
        if let Some(epilogue) = epilogue {
            epilogue(0, 0..p.m, 0..p.n);
        }
        return;
    }
    let whole = Whole::new(&kernels, whole.cast_mut(), p.k, n);
    let product = Product {
        kernels: &kernels,
        grain,
        x,
        strides,
        problem: Problem { m, n, ..*p },
        thin: thin.as_ref(),
        parallel,
        epilogue,
        swap,
        first: [0; 2],
    };
    // SAFETY: same contract.
    unsafe {
        if thin.is_some() || whole.is_packed() || p.k == 0 || m <= before.blocks * kernels.most_rows(p.k) {
            product.run(whole);
        } else {
            product.run_stripes(before.most);
        }
    }
}

/// When B is packed before the blocks of rows, each of which would pack it again.
#[derive(Clone, Copy)]
struct Before {
    /// Most blocks of rows that still do that.
    blocks: usize,
    /// Most accumulators of B at a time.
    most: usize,
}

impl Before {
    /// Elements that change as they are packed cost more than those that are copied.
    const fn of<T: Stored>() -> Before {
        Before {
            blocks: if T::DIRECT { 2 } else { 1 },
            most: 1 << 21,
        }
    }
}

/// The products of a launch, or some of their batches and columns, as the kernels see them.
struct Product<'a, T: ThinProduct> {
    kernels: &'a Kernels<T>,
    /// Multiply-adds that are worth a hand-off.
    grain: usize,
    x: Shared<Operands<T>>,
    /// From one matrix to the next, of A, B and C.
    strides: [isize; 3],
    problem: Problem,
    thin: Option<&'a T::Few>,
    parallel: &'a dyn Parallel,
    epilogue: Option<Epilogue<'a>>,
    /// Whether the epilogue knows rows as columns.
    swap: bool,
    /// Batch and column of the launch at which these begin.
    first: [usize; 2],
}

impl<T: ThinProduct> Product<'_, T> {
    /// Packs B once for all blocks of rows: all of it, or as many columns at a time as make `most` accumulators.
    ///
    /// # Safety
    /// That of [`matmul`].
    unsafe fn run_stripes(&self, most: usize) {
        let Problem { batch, n, k, .. } = self.problem;
        let (kernels, nr) = (self.kernels, self.kernels.columns());
        let panels = n.div_ceil(nr);
        let most = (most / (kernels.lanes(k) * nr)).max(1);
        let stripes = panels.div_ceil(most);
        let room =
            Scratch::take(gemm::packed_len(kernels, k, panels.div_ceil(stripes) * nr) * size_of::<T::Acc>());
        // Batches that share B are one run.
        let (runs, together) = match self.strides[1] {
            0 => (1, batch),
            _ => (batch, 1),
        };
        for (run, stripe) in (0..runs).flat_map(|run| (0..stripes).map(move |stripe| (run, stripe))) {
            let panels = piece(panels, stripes, stripe);
            let cols = panels.start * nr..(panels.end * nr).min(n);
            let x = Shared(self.x.0.batch(self.strides, run).columns(cols.start));
            let product = Product {
                x,
                problem: Problem {
                    batch: together,
                    n: cols.len(),
                    ..self.problem
                },
                first: [run, cols.start],
                ..*self
            };
            // SAFETY: same contract.
            unsafe { product.run(Whole::new(kernels, room.start().cast(), k, cols.len()).filling(true)) };
        }
    }

    /// Packs B.
    ///
    /// # Safety
    /// That of [`matmul`], and the memory is that of B as [`gemm::pack_panels`] packs it.
    unsafe fn pack(&self, whole: &Whole<T::Acc>) {
        let (Problem { n, k, .. }, kernels) = (self.problem, self.kernels);
        let shared = &(&self.x, Shared(whole.memory()));
        let pack = |panels: Range<usize>| {
            let (x, to) = (&shared.0.0, shared.1.0);
            // SAFETY: the panels lie in B and in the memory; no other thread packs them.
            unsafe { gemm::pack_panels(kernels, (x.b, x.b_row, x.b_col), k, n, to, panels) }
        };
        let panels = n.div_ceil(kernels.columns());
        match (k * n * self.pack_cost() / self.grain).clamp(1, self.parallel.threads().min(panels)) {
            1 => pack(0..panels),
            tasks => (self.parallel).run(tasks, &|task| pack(piece(panels, tasks, task))),
        }
    }

    /// What it costs to pack an element of B, in multiply-adds.
    fn pack_cost(&self) -> usize {
        match self.x.0.b_col {
            1 if T::DIRECT => PACK_COSTS[1],
            _ => PACK_COSTS[0],
        }
    }

    /// Computes all blocks. A B that shall be packed and is not yet is packed by the first block of rows, whose tiles bring near what is
    /// packed next, or before them all where several threads share its columns.
    ///
    /// # Safety
    /// That of [`matmul`], and B as `whole` has it packed, if it does.
    unsafe fn run(&self, whole: Whole<T::Acc>) {
        let (kernels, k) = (self.kernels, self.problem.k);
        let may_fill = whole.fills() && gemm::may_fill(kernels, k);
        let grid = Grid::choose(
            &Problem {
                k: k.div_ceil(kernels.step * kernels.speed()),
                ..self.problem
            },
            self.parallel.threads(),
            [kernels.most_rows(k), kernels.most_columns()],
            kernels.columns(),
            (self.thin.is_some(), self.grain),
            match whole.is_packed() {
                true => 0,
                false => kernels.speed() * self.pack_cost(),
            },
            may_fill,
        );
        let fills = may_fill && grid.owns_columns();
        if whole.fills() && !fills {
            // SAFETY: same contract.
            unsafe { self.pack(&whole) };
        }
        let shared = &(&self.x, Shared(whole));
        let (m, n, strides, thin) = (self.problem.m, self.problem.n, self.strides, self.thin);
        // Each of many small products may need no packing.
        let small = !whole.is_packed() && m.saturating_mul(n).saturating_mul(k) < 2 * self.grain;
        let (epilogue, swap, [matrix, col]) = (self.epilogue, self.swap, self.first);
        grid.run(self.parallel, &|batch, rows, cols| {
            let x = shared.0.0.batch(strides, batch);
            let whole = shared.1.0.filling(fills && batch == 0 && rows.start == 0);
            // SAFETY: the grid's blocks are disjoint and lie within C.
            unsafe {
                match thin {
                    Some(thin) => thin.run(&x, [rows.len(), n, k], cols.clone()),
                    None if small
                        && [rows.len(), cols.len()] == [m, n]
                        && gemm::direct(kernels, &x, [m, n, k]) => {}
                    None => gemm::block(kernels, &x, whole, k, rows.clone(), cols.clone()),
                }
            }
            if let Some(epilogue) = epilogue {
                let cols = col + cols.start..col + cols.end;
                let (rows, cols) = if swap { (cols, rows) } else { (rows, cols) };
                epilogue(matrix + batch, rows, cols);
            }
        });
    }
}

/// Whether to compute the transposed product: the kernels want rows of C contiguous and at least `width` long.
fn transposes(p: &Problem, c: &MatMut, width: usize) -> bool {
    if p.n == 1 || p.m == 1 {
        return p.n == 1 && p.m > 1;
    }
    (c.row_stride == 1 && c.col_stride != 1) || (2 * p.n <= width && p.m >= width)
}

impl<T: gemm::Element> Operands<T> {
    fn transposed(&self) -> Self {
        Self {
            a: self.b,
            a_row: self.b_col,
            a_col: self.b_row,
            b: self.a,
            b_row: self.a_col,
            b_col: self.a_row,
            c: self.c,
            c_row: self.c_col,
            c_col: self.c_row,
            beside: self.beside,
        }
    }

    /// The operands from a column of B and C on.
    fn columns(self, first: usize) -> Self {
        Self {
            b: self.b.wrapping_offset(self.b_col * first as isize),
            c: self.c.wrapping_offset(self.c_col * first as isize),
            ..self
        }
    }

    /// The operands of one matrix of the batch.
    fn batch(&self, strides: [isize; 3], batch: usize) -> Self {
        Self {
            a: self.a.wrapping_offset(strides[0] * batch as isize),
            b: self.b.wrapping_offset(strides[1] * batch as isize),
            c: self.c.wrapping_offset(strides[2] * batch as isize),
            ..*self
        }
    }
}

/// Bytes of products (multiply-adds) of the widest registers that are worth a hand-off to another thread: two to three microseconds.
const GRAIN: usize = 1 << 20;

mod grid;
mod launch;
mod packed;
#[cfg(test)]
mod tests;

pub use launch::MatmulKernel;
pub(in crate::library) use launch::{byte_sums, dtype_of, spread, takes_epilogue};
