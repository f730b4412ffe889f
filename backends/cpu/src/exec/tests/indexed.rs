//! Maps that ask for their indices, by loops of integers and as machine code of floats.

use super::harness::{Rng, check, random_case, run_program};
use super::oracle::Case;
use crate::exec::Program;
use crate::isa::Isa;
use crate::parallel::Serial;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, Role, ScalarOp};

fn whole(k: &mut Kernel, value: i64) -> NodeId {
    k.push(Node::Const {
        dtype: DType::I64,
        bits: value as u64,
    })
}

/// x where the last index less the one before it is at most a scalar, else 0.
fn triangle(axes: u32) -> Kernel {
    let mut k = Kernel::new("triangle", axes, 0);
    let x = k.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let y = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let diagonal = k.scalar(DType::I64);
    let x = k.load(x);
    let [row, column] = [axes - 2, axes - 1].map(|axis| k.push(Node::Index { axis }));
    let distance = k.op(ScalarOp::Sub, &[column, row]);
    let inside = k.op(ScalarOp::Le, &[distance, diagonal]);
    let zero = k.push(Node::Const {
        dtype: DType::F32,
        bits: 0,
    });
    let value = k.op(ScalarOp::Select, &[inside, x, zero]);
    k.store(y, value);
    k
}

/// A number of integers, whose zeros are those of integers, times x.
fn numbers(value: impl FnOnce(&mut Kernel, [NodeId; 2]) -> NodeId) -> Kernel {
    let mut k = Kernel::new("numbers", 2, 0);
    let x = k.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let y = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let x = k.load(x);
    let at = [0, 1].map(|axis| k.push(Node::Index { axis }));
    let value = value(&mut k, at);
    let value = k.cast(DType::F32, value);
    let value = k.op(ScalarOp::Mul, &[value, x]);
    k.store(y, value);
    k
}

fn has_code(kernel: &Kernel, extents: &[u64], scalars: &[i64]) -> bool {
    let mut case = random_case(kernel.clone(), extents.to_vec(), &mut Rng(7));
    case.scalars = scalars.iter().map(|&scalar| scalar as u64).collect();
    case.in_place.clear();
    let program = Program::compile(kernel, Isa::detect()).expect("compiles");
    let program = program.generate(Isa::detect());
    // Fewer indices than later.
    let few = random_case(kernel.clone(), vec![1; extents.len()], &mut Rng(8));
    run_program(
        &Case {
            scalars: case.scalars.clone(),
            in_place: vec![],
            ..few
        },
        &program,
        &Serial,
    );
    assert!(!program.has_indexed(), "a line of one element");
    run_program(&case, &program, &Serial);
    program.has_indexed()
}

#[test]
fn triangles() {
    let mut rng = Rng(71);
    for extents in [
        vec![37, 100],
        vec![1, 5000],
        vec![3, 40, 33],
        vec![2, 1, 70],
        vec![64, 64],
    ] {
        for diagonal in [0, -5, 7, 1 << 40, i64::MIN] {
            let mut case = random_case(triangle(extents.len() as u32), extents.clone(), &mut rng);
            case.scalars = vec![diagonal as u64];
            check(&case);
        }
    }
    let coded = Isa::detect() >= Isa::Avx2;
    assert_eq!(has_code(&triangle(2), &[64, 100], &[3]), coded);
    // Not every f32 is a number beyond this.
    assert!(!has_code(&triangle(2), &[64, 100], &[1 << 21]));
}

#[test]
fn numbers_of_indices() {
    let mut rng = Rng(72);
    let coded = Isa::detect() >= Isa::Avx2;
    let kernels = [
        numbers(|k, [row, _]| k.op(ScalarOp::Neg, &[row])),
        numbers(|k, [row, column]| {
            let seven = whole(k, -7);
            let product = k.op(ScalarOp::Mul, &[row, seven]);
            let least = k.op(ScalarOp::Min, &[product, column]);
            let most = k.op(ScalarOp::Max, &[product, column]);
            let above = k.op(ScalarOp::Lt, &[row, column]);
            k.op(ScalarOp::Select, &[above, least, most])
        }),
    ];
    for kernel in kernels {
        for extents in [[1, 40], [37, 100], [5, 1031]] {
            let mut case = random_case(kernel.clone(), extents.to_vec(), &mut rng);
            case.in_place.clear();
            check(&case);
        }
        assert_eq!(has_code(&kernel, &[37, 100], &[]), coded, "{}", kernel.to_text());
    }
    // A product of two indices may be more than f32 has; quotients are rounded down.
    for op in [ScalarOp::Mul, ScalarOp::Div, ScalarOp::Rem] {
        let kernel = numbers(|k, [row, column]| k.op(op, &[row, column]));
        check(&random_case(kernel.clone(), vec![37, 100], &mut rng));
        assert!(!has_code(&kernel, &[37, 100], &[]), "{op}");
    }
}
