//! Machine code that reads sums of 32 bits and writes bytes, and maps along lines.

use super::harness::{Rng, check, compare, random_case, run_program};
use super::oracle::Case;
use crate::exec::Program;
use crate::isa::Isa;
use crate::parallel::Serial;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

fn cast(k: &mut Kernel, arg: NodeId, dtype: DType) -> NodeId {
    k.push(Node::Cast { arg, dtype })
}

/// `x / scale`, rounded, and a zero point, as `dtype`, less that zero point.
fn quantized(k: &mut Kernel, x: NodeId, dtype: DType) -> NodeId {
    let scale = k.param(DType::F32, Role::In, Level::Row, Access::Broadcast);
    let zero = k.param(dtype, Role::In, Level::Row, Access::Broadcast);
    let (scale, zero) = (k.load(scale), k.load(zero));
    let steps = k.op(ScalarOp::Div, &[x, scale]);
    let steps = k.op(ScalarOp::Round, &[steps]);
    let offset = cast(k, zero, DType::F32);
    let moved = k.op(ScalarOp::Add, &[steps, offset]);
    let bytes = cast(k, moved, dtype);
    k.op(ScalarOp::Sub, &[bytes, zero])
}

/// Sums of i32 as a line, the greater of that and a residual, and the same as bytes.
fn line(axes: usize, access: Access, dtype: DType) -> Kernel {
    let mut k = Kernel::new("line", axes as u32, 0);
    let sums = k.param(DType::I32, Role::In, Level::Row, access);
    let factor = k.param(DType::F32, Role::In, Level::Row, access);
    let residual = k.param(DType::F32, Role::In, Level::Row, access);
    let row = k.param(DType::I32, Role::In, Level::Row, access);
    let zero = k.param(dtype, Role::In, Level::Row, Access::Broadcast);
    let (sums, factor, residual) = (k.load(sums), k.load(factor), k.load(residual));
    let (row, zero) = (k.load(row), k.load(zero));
    let zero = cast(&mut k, zero, DType::I32);
    let below = k.op(ScalarOp::Mul, &[zero, row]);
    let sums = k.op(ScalarOp::Sub, &[sums, below]);
    let sums = k.op(ScalarOp::Add, &[sums, zero]);
    let sums = cast(&mut k, sums, DType::F32);
    let scaled = k.op(ScalarOp::Mul, &[sums, factor]);
    let greater = k.op(ScalarOp::Max, &[scaled, residual]);
    let bytes = quantized(&mut k, greater, dtype);
    let whole = k.param(DType::F32, Role::Out, Level::Row, access);
    let out = k.param(dtype, Role::Out, Level::Row, access);
    k.store(whole, greater);
    k.store(out, bytes);
    k
}

/// What a row of sums is less the greatest of it, as bytes.
fn below_greatest(dtype: DType) -> Kernel {
    let mut k = Kernel::new("below", 1, 1);
    let sums = k.param(DType::I32, Role::In, Level::Element, Access::Contiguous);
    let more = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
    let (sums, more) = (k.load(sums), k.load(more));
    let sums = cast(&mut k, sums, DType::F32);
    let x = k.op(ScalarOp::Add, &[sums, more]);
    let most = k.reduce(ReduceOp::Max, x);
    let below = k.op(ScalarOp::Sub, &[x, most]);
    let bytes = quantized(&mut k, below, dtype);
    let out = k.param(dtype, Role::Out, Level::Element, Access::Contiguous);
    k.store(out, bytes);
    k
}

/// Whether x is above a number and not NaN, is one, and is not 0; and the greater of the two.
fn truths(axes: u32) -> Kernel {
    let mut k = Kernel::new("truths", axes, 0);
    let of = |k: &mut Kernel, dtype, role| k.param(dtype, role, Level::Row, Access::Contiguous);
    let x = of(&mut k, DType::F32, Role::In);
    let y = of(&mut k, DType::F32, Role::In);
    let outs = [DType::Bool, DType::Bool, DType::Bool, DType::F32].map(|dtype| of(&mut k, dtype, Role::Out));
    let (x, y) = (k.load(x), k.load(y));
    let above = k.op(ScalarOp::Lt, &[y, x]);
    let number = k.op(ScalarOp::Eq, &[x, x]);
    let both = k.op(ScalarOp::And, &[above, number]);
    let some = cast(&mut k, x, DType::Bool);
    let greater = k.op(ScalarOp::Select, &[above, x, y]);
    for (out, value) in outs.into_iter().zip([both, number, some, greater]) {
        k.store(out, value);
    }
    k
}

/// A mask chooses, bytes become floats, of which rows are summed where there are any.
fn from_bytes(outer: u32, inner: u32) -> Kernel {
    let mut k = Kernel::new("from_bytes", outer, inner);
    let level = if inner > 0 { Level::Element } else { Level::Row };
    let of = |k: &mut Kernel, dtype, role| k.param(dtype, role, level, Access::Contiguous);
    let x = of(&mut k, DType::F32, Role::In);
    let [mask, byte, signed] = [DType::Bool, DType::U8, DType::I8].map(|dtype| of(&mut k, dtype, Role::In));
    let [x, mask, byte, signed] = [x, mask, byte, signed].map(|p| k.load(p));
    let [byte, signed] = [byte, signed].map(|of| cast(&mut k, of, DType::F32));
    let truth = cast(&mut k, mask, DType::F32);
    let sum = k.op(ScalarOp::Fma, &[byte, truth, signed]);
    let mut chosen = k.op(ScalarOp::Select, &[mask, x, sum]);
    if inner > 0 {
        let total = k.reduce(ReduceOp::Sum, chosen);
        chosen = k.op(ScalarOp::Sub, &[chosen, total]);
    }
    let out = of(&mut k, DType::F32, Role::Out);
    k.store(out, chosen);
    k
}

#[test]
fn bytes_are_read() {
    let mut rng = Rng(63);
    for n in (1..=40).chain([63, 64, 65, 127, 256, 1000, 1031, 5000]) {
        check(&random_case(from_bytes(1, 0), vec![n], &mut rng));
        check(&random_case(from_bytes(1, 1), vec![3, n], &mut rng));
    }
    for kernel in [from_bytes(1, 0), from_bytes(1, 1)] {
        let program = Program::compile(&kernel, Isa::detect()).expect("compiles");
        let wide = Isa::detect() == Isa::Avx512;
        assert_eq!(program.generate(Isa::detect()).is_generated(), wide);
    }
}

/// Truths are bytes, by machine code and by loops.
#[test]
fn truths_are_bytes() {
    let mut rng = Rng(62);
    for n in (1..=40).chain([63, 64, 65, 127, 256, 1000, 1031, 5000]) {
        check(&random_case(truths(1), vec![n], &mut rng));
    }
    let program = Program::compile(&truths(1), Isa::detect()).expect("compiles");
    let wide = Isa::detect() == Isa::Avx512;
    assert_eq!(program.generate(Isa::detect()).is_generated(), wide);
}

#[test]
fn flat_maps_and_rows() {
    let mut rng = Rng(61);
    for dtype in [DType::U8, DType::I8] {
        for n in (1..=40).chain([63, 64, 65, 127, 256, 1000, 1031, 5000]) {
            check(&random_case(
                line(1, Access::Contiguous, dtype),
                vec![n],
                &mut rng,
            ));
            check(&random_case(below_greatest(dtype), vec![3, n], &mut rng));
        }
        let generated = |kernel: &Kernel| {
            let program = Program::compile(kernel, Isa::detect()).expect("compiles");
            program.generate(Isa::detect()).is_generated()
        };
        let wide = Isa::detect() == Isa::Avx512;
        assert_eq!(generated(&line(1, Access::Contiguous, dtype)), wide);
        assert_eq!(generated(&below_greatest(dtype)), wide);
    }
}

/// Inputs that move along lines or stand still there, and outputs without gaps.
fn lay_along_lines(case: &mut Case, rng: &mut Rng) {
    for (param, buffer) in case.kernel.params.iter().zip(&mut case.buffers) {
        if param.access == Access::Broadcast {
            continue;
        }
        let mut step = 1;
        for axis in (0..case.extents.len()).rev() {
            buffer.strides[axis] = step;
            step *= case.extents[axis] as i64;
        }
        let last = case.extents.len() - 1;
        match (param.role, rng.below(3)) {
            (Role::In, 0) => buffer.strides[..last].fill(0),
            (Role::In, 1) => buffer.strides[last] = 0,
            _ => {}
        }
        let size = param.dtype.size();
        let bits = (0..step).map(|_| rng.value(param.dtype).to_le_bytes());
        buffer.bytes = bits.flat_map(|bits| bits.into_iter().take(size)).collect();
        buffer.origin = 0;
    }
    case.in_place.clear();
}

#[test]
fn lines_of_any_layout() {
    let mut rng = Rng(62);
    let mut made = 0;
    for round in 0..400 {
        let dtype = [DType::U8, DType::I8][round % 2];
        let length = [15, 16, 17, 56, 64, 100, 1031, 20_000][rng.below(8) as usize];
        let extents = match round % 3 {
            0 => vec![1 + rng.below(9), length],
            1 => vec![1 + rng.below(4), 1 + rng.below(5), length],
            _ => vec![length, 1, 2],
        };
        let mut case = random_case(line(extents.len(), Access::Strided, dtype), extents, &mut rng);
        if rng.below(2) == 0 {
            lay_along_lines(&mut case, &mut rng);
        }
        let expected = case.expected();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let program = Program::compile(&case.kernel, isa)
                .expect("compiles")
                .generate(isa);
            let found = run_program(&case, &program, &Serial);
            compare(&case, &expected, &found, &format!("{isa:?}, lines"));
            made += usize::from(program.has_lines());
        }
        check(&case);
    }
    assert!(
        Isa::detect() != Isa::Avx512 || made > 100,
        "{made} cases ran along lines"
    );
}

/// All inputs stand still along lines, and each line has other values.
#[test]
fn lines_of_one_value_each() {
    let mut rng = Rng(64);
    for dtype in [DType::U8, DType::I8] {
        for length in [16, 17, 64, 100, 511, 600] {
            let kernel = line(2, Access::Strided, dtype);
            let mut case = random_case(kernel, vec![1 + rng.below(9), length], &mut rng);
            lay_along_lines(&mut case, &mut rng);
            for (param, buffer) in case.kernel.params.iter().zip(&mut case.buffers) {
                if param.role == Role::In && param.access != Access::Broadcast {
                    buffer.strides.copy_from_slice(&[1, 0]);
                }
            }
            check(&case);
        }
    }
}

/// f32 alone has lines with AVX2 too; one program meets launches of several strides.
#[test]
fn one_program_for_several_strides() {
    let mut kernel = Kernel::new("scaled", 2, 0);
    let x = kernel.param(DType::F32, Role::In, Level::Row, Access::Strided);
    let factor = kernel.param(DType::F32, Role::In, Level::Row, Access::Strided);
    let out = kernel.param(DType::F32, Role::Out, Level::Row, Access::Strided);
    let (x, factor) = (kernel.load(x), kernel.load(factor));
    let product = kernel.op(ScalarOp::Mul, &[x, factor]);
    kernel.store(out, product);
    let mut rng = Rng(63);
    let programs: Vec<Program> = (Isa::ALL.into_iter().filter(|isa| isa.is_available()))
        .map(|isa| Program::compile(&kernel, isa).expect("compiles").generate(isa))
        .collect();
    for _ in 0..200 {
        let extents = vec![1 + rng.below(8), 16 + rng.below(100)];
        let case = random_case(kernel.clone(), extents, &mut rng);
        let expected = case.expected();
        for program in &programs {
            compare(&case, &expected, &run_program(&case, program, &Serial), "again");
        }
    }
    let made = programs.iter().filter(|program| program.has_lines()).count();
    assert!(
        made + 1 >= programs.len(),
        "{made} programs of {} have lines",
        programs.len()
    );
}
