//! Rows as machine code: every reduction, rows of any length, random kernels, parameters of every level.

use super::harness::{Rng, Threads, check, compare, f32_buffer, random_case, run, run_generated};
use super::oracle::{Buffer, Case};
use super::shapes::softmax;
use crate::codegen::tests::OPS;
use crate::exec::Program;
use crate::isa::Isa;
use crate::parallel::Serial;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

pub(super) const REDUCTIONS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min];

pub(super) fn is_coded(kernel: &Kernel) -> bool {
    let program = Program::compile(kernel, Isa::detect()).expect("compiles");
    program.generate(Isa::detect()).is_generated()
}

/// Whether this machine has an instruction set that code is made for.
pub(super) fn has_code() -> bool {
    Isa::detect() >= Isa::Avx2
}

/// x - (the reduction of x) and that of its square, with the result of the first.
pub(super) fn distances(op: ReduceOp) -> Kernel {
    let mut k = Kernel::new("distances", 1, 1);
    let x = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
    let y = k.param(DType::F32, Role::Out, Level::Element, Access::Contiguous);
    let first = k.param(DType::F32, Role::Out, Level::Row, Access::Strided);
    let x = k.load(x);
    let r = k.reduce(op, x);
    let d = k.op(ScalarOp::Sub, &[x, r]);
    let square = k.op(ScalarOp::Mul, &[d, d]);
    let s = k.reduce(op, square);
    let q = k.op(ScalarOp::Div, &[d, s]);
    k.store(first, r);
    k.store(y, q);
    k
}

#[test]
fn every_reduction_and_tail() {
    let mut rng = Rng(31);
    for op in REDUCTIONS {
        let kernel = distances(op);
        assert_eq!(is_coded(&kernel), has_code(), "{op}");
        let lengths = (1..=40).chain([63, 64, 65, 128, 255, 256, 257, 300, 511, 513, 1024, 1300, 4100]);
        for n in lengths {
            for rows in [1, 3, 19] {
                check(&random_case(kernel.clone(), vec![rows, n], &mut rng));
            }
        }
    }
}

/// Rows of one kind of number alone, with one of another kind at any place.
#[test]
fn special_numbers() {
    let numbers = [
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e-40,
        -3.5,
    ];
    let mut rng = Rng(32);
    for op in REDUCTIONS {
        let kernel = distances(op);
        for (rest, special) in numbers.iter().flat_map(|&a| numbers.map(|b| (a, b))) {
            for n in [1, 9, 16, 21, 70] {
                let mut case = random_case(kernel.clone(), vec![1, n], &mut rng);
                case.in_place.clear();
                let place = rng.below(n);
                let value = |i: u64| if i == place { special } else { rest };
                case.buffers[0].bytes = (0..n).flat_map(|i| value(i).to_le_bytes()).collect();
                check(&case);
            }
        }
    }
}

/// A row divided by a value that is known after a first walk: -x / b or |x| / b, where b is a parameter.
fn quotient(of: ScalarOp) -> Kernel {
    let mut k = Kernel::new("quotient", 1, 1);
    let x = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
    let b = k.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let y = k.param(DType::F32, Role::Out, Level::Element, Access::Contiguous);
    let (x, b) = (k.load(x), k.load(b));
    let dividend = k.op(of, &[x]);
    let sum = k.reduce(ReduceOp::Sum, dividend);
    let is_number = k.op(ScalarOp::Eq, &[sum, sum]);
    let divisor = k.op(ScalarOp::Select, &[is_number, b, b]);
    let q = k.op(ScalarOp::Div, &[dividend, divisor]);
    k.store(y, q);
    k
}

/// Dividends and divisors of every size, in rows that may all be multiplied by a reciprocal and in rows that may not.
#[test]
fn quotients_by_a_value_of_the_row() {
    let specials = [
        0.0,
        f32::INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        1e-45,
        7e-31,
        1.2e30,
        f32::MAX,
        1.0,
    ];
    let (rows, n) = (1500, 47);
    let mut rng = Rng(34);
    for (of, round) in [ScalarOp::Neg, ScalarOp::Abs]
        .into_iter()
        .flat_map(|of| (0..4).map(move |round| (of, round)))
    {
        let kernel = quotient(of);
        assert_eq!(is_coded(&kernel), has_code());
        let mut case = random_case(kernel.clone(), vec![rows, n], &mut rng);
        case.in_place.clear();
        let any = |rng: &mut Rng| match rng.below(4) {
            0 => specials[rng.below(9) as usize],
            1 => -specials[rng.below(9) as usize],
            _ => f32::from_bits(rng.next() as u32),
        };
        // From 1 to 2, and 2^-40 to 2^40.
        let near = |rng: &mut Rng| f32::from_bits(0x3f80_0000 | rng.next() as u32 >> 9);
        let sign = |rng: &mut Rng| if rng.below(2) == 0 { 1.0 } else { -1.0 };
        let usual = |rng: &mut Rng| sign(rng) * near(rng) * 2.0_f32.powi(rng.below(80) as i32 - 40);
        let numbers = (0..rows * n).map(|i| match (i / n + round) % 4 {
            0 => any(&mut rng),
            1 if rng.below(9) == 0 => 0.0,
            1 | 2 => -near(&mut rng),
            _ => usual(&mut rng),
        });
        case.buffers[0].bytes = numbers.flat_map(f32::to_le_bytes).collect();
        let divisors = (0..rows).map(|row| match row % 5 {
            0 => any(&mut rng),
            1 => usual(&mut rng),
            _ => near(&mut rng),
        });
        case.buffers[1].bytes = divisors.flat_map(f32::to_le_bytes).collect();
        check(&case);
    }
}

/// Rows of a softmax whose exponentials are usual numbers, or too small for quotients by a reciprocal, or no numbers.
#[test]
fn exponentials_of_every_size() {
    let (rows, n) = (400, 83);
    let mut rng = Rng(39);
    let kernel = softmax(1, Access::Contiguous);
    assert_eq!(is_coded(&kernel), has_code());
    for round in 0..5 {
        let mut case = random_case(kernel.clone(), vec![rows, n], &mut rng);
        case.in_place.clear();
        let special = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, -0.0];
        let numbers = (0..rows * n).map(|i| match (i / n + round) % 5 {
            0 => rng.below(1000) as f32 / -100.0,
            1 => rng.below(1 << 20) as f32 / -8192.0,
            2 if rng.below(40) == 0 => special[rng.below(4) as usize],
            3 if rng.below(9) == 0 => f32::NEG_INFINITY,
            4 => f32::from_bits(rng.next() as u32),
            _ => (rng.next() as i32) as f32 / 1e8,
        });
        case.buffers[0].bytes = numbers.flat_map(f32::to_le_bytes).collect();
        check(&case);
    }
}

/// More values that are the same for all elements than there are registers, in few instructions and in many.
#[test]
fn many_single_values() {
    let mut rng = Rng(36);
    for (op, count) in REDUCTIONS
        .iter()
        .flat_map(|&op| [2, 5, 8, 10, 12, 30].map(|count| (op, count)))
    {
        let mut k = Kernel::new("polynomial", 1, 1);
        let x = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
        let out = k.param(DType::F32, Role::Out, Level::Row, Access::Strided);
        let scalars: Vec<NodeId> = (0..count).map(|_| k.scalar(DType::F32)).collect();
        let x = k.load(x);
        let mut value = x;
        for pair in scalars.chunks(2) {
            value = k.op(ScalarOp::Fma, &[value, x, pair[0]]);
            value = k.op(ScalarOp::Sub, &[value, pair[pair.len() - 1]]);
        }
        let result = k.reduce(op, value);
        k.store(out, result);
        assert_eq!(is_coded(&k), has_code(), "{op}");
        for n in [1, 7, 16, 21, 64, 300] {
            check(&random_case(k.clone(), vec![3, n], &mut rng));
        }
    }
}

/// Values that are needed again in the other order go to the stack, beside the frames of rows: with few of them rows go in groups, with
/// more one by one.
#[test]
fn many_values_on_the_stack() {
    let mut rng = Rng(37);
    for live in [8, 40, 56, 70, 80] {
        let mut k = Kernel::new("there_and_back", 1, 1);
        let x = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
        let out = k.param(DType::F32, Role::Out, Level::Element, Access::Contiguous);
        let x = k.load(x);
        let (sum, most) = (k.reduce(ReduceOp::Sum, x), k.reduce(ReduceOp::Max, x));
        let (least, scale) = (k.reduce(ReduceOp::Min, x), k.scalar(DType::F32));
        let of_row = [sum, most, least, k.op(ScalarOp::Mul, &[sum, scale])];
        let mut values = vec![x];
        for i in 0..live {
            values.push(k.op(ScalarOp::Fma, &[values[i], scale, of_row[i % of_row.len()]]));
        }
        let mut value = x;
        for &other in values.iter().rev() {
            value = k.op(ScalarOp::Sub, &[other, value]);
        }
        k.store(out, value);
        assert_eq!(is_coded(&k), has_code(), "{live} values");
        for n in [1, 17, 64, 100] {
            check(&random_case(k.clone(), vec![19, n], &mut rng));
        }
    }
}

/// Places of the greatest and of the least, and the greatest, of a row or of what is computed from it.
pub(super) fn greatest(computed: bool) -> Kernel {
    let mut k = Kernel::new("places", 1, 1);
    let x = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
    let mut x = k.load(x);
    if computed {
        let scale = k.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
        let scale = k.load(scale);
        x = k.op(ScalarOp::Mul, &[x, scale]);
    }
    for op in [ReduceOp::ArgMax, ReduceOp::ArgMin, ReduceOp::Max] {
        let place = k.reduce(op, x);
        let dtype = if op == ReduceOp::Max {
            DType::F32
        } else {
            DType::I64
        };
        let out = k.param(dtype, Role::Out, Level::Row, Access::Strided);
        k.store(out, place);
    }
    k
}

/// Places among few numbers.
#[test]
fn places() {
    let mut rng = Rng(35);
    let numbers = [
        0.0,
        -0.0,
        1.5,
        -2.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
    ];
    let lengths = (1..=40).chain([64, 127, 128, 129, 160, 300, 1001, 4000]);
    for (n, computed) in lengths.flat_map(|n| [(n, false), (n, true)]) {
        let k = greatest(computed);
        assert_eq!(is_coded(&k), has_code());
        for kinds in [1, 2, 5, 6, 8] {
            let mut case = random_case(k.clone(), vec![2, n], &mut rng);
            let first = rng.below(8);
            let number = |rng: &mut Rng| numbers[((first + rng.below(kinds)) % 8) as usize];
            let mut row: Vec<f32> = (0..2 * n).map(|_| number(&mut rng)).collect();
            // One alone, somewhere.
            row[rng.below(n) as usize] = numbers[rng.below(8) as usize];
            case.buffers[0].bytes = row.into_iter().flat_map(f32::to_le_bytes).collect();
            check(&case);
        }
    }
}

/// Places in a row whose memory the kernel overwrites.
#[test]
fn places_of_what_is_overwritten() {
    let mut rng = Rng(36);
    for op in [ReduceOp::ArgMax, ReduceOp::ArgMin] {
        let mut k = Kernel::new("overwritten", 1, 1);
        let x = k.param(DType::F32, Role::In, Level::Element, Access::Contiguous);
        let y = k.param(DType::F32, Role::Out, Level::Element, Access::Contiguous);
        let out = k.param(DType::I64, Role::Out, Level::Row, Access::Strided);
        let x = k.load(x);
        let place = k.reduce(op, x);
        let negative = k.op(ScalarOp::Neg, &[x]);
        k.store(y, negative);
        k.store(out, place);
        for n in [1, 7, 33, 300] {
            for in_place in [vec![], vec![(1, 0)]] {
                let mut case = random_case(k.clone(), vec![3, n], &mut rng);
                // No element is another's negative.
                case.buffers[0].bytes = (0..3 * n)
                    .flat_map(|i| (1.0 + (i * 7 % 11) as f32).to_le_bytes())
                    .collect();
                if !in_place.is_empty() {
                    case.buffers[1] = case.buffers[0].clone();
                }
                case.in_place = in_place;
                check(&case);
            }
        }
    }
}

/// Whether a node changes along a row.
fn is_element(k: &Kernel, id: NodeId) -> bool {
    let mut element: Vec<bool> = Vec::new();
    for node in &k.nodes {
        element.push(match *node {
            Node::Load { param } => k.params[param as usize].level == Level::Element,
            Node::Reduce { .. } => false,
            _ => node.args().any(|arg| element[arg.index()]),
        });
    }
    element[id.index()]
}

pub(super) fn random_rows(rng: &mut Rng, nodes: u64) -> Kernel {
    let (outer, inner) = (1 + rng.below(2) as u32, 1 + rng.below(2) as u32);
    let mut k = Kernel::new("rows", outer, inner);
    let mut values: Vec<NodeId> = Vec::new();
    for i in 0..1 + rng.below(4) {
        let level = if i > 0 && rng.below(3) == 0 {
            Level::Row
        } else {
            Level::Element
        };
        let access = match rng.below(6) {
            0 => Access::Broadcast,
            1 => Access::Strided,
            _ => Access::Contiguous,
        };
        let param = k.param(DType::F32, Role::In, level, access);
        values.push(k.load(param));
    }
    values.push(k.scalar(DType::F32));
    values.push(k.const_f32(rng.below(9) as f32 - 4.5));
    for _ in 0..nodes {
        let one = |rng: &mut Rng| {
            let most = if rng.below(2) == 0 { 3 } else { values.len() as u64 };
            values[values.len() - 1 - rng.below(most.min(values.len() as u64)) as usize]
        };
        let value = match rng.below(8) {
            0 | 1 => {
                let arg = one(rng);
                let arg = if is_element(&k, arg) { arg } else { values[0] };
                k.reduce(REDUCTIONS[rng.below(4) as usize], arg)
            }
            2 => {
                let compare = [ScalarOp::Eq, ScalarOp::Ne, ScalarOp::Lt, ScalarOp::Le];
                let mask = k.op(compare[rng.below(4) as usize], &[one(rng), one(rng)]);
                k.op(ScalarOp::Select, &[mask, one(rng), one(rng)])
            }
            _ => {
                let op = OPS[rng.below(OPS.len() as u64) as usize];
                let args: Vec<NodeId> = (0..op.arity()).map(|_| one(rng)).collect();
                k.op(op, &args)
            }
        };
        values.push(value);
    }
    // An element-level value, and one of any level that a row may have.
    let last = values[values.len() - 1];
    let last = if is_element(&k, last) { last } else { values[0] };
    let total = k.reduce(REDUCTIONS[rng.below(4) as usize], last);
    let element = k.op(ScalarOp::Mul, &[values[0], total]);
    for (value, level) in [(element, Level::Element), (total, Level::Row)] {
        let out = k.param(DType::F32, Role::Out, level, Access::Contiguous);
        k.store(out, value);
    }
    if rng.below(3) == 0 {
        let op = [ReduceOp::ArgMax, ReduceOp::ArgMin][rng.below(2) as usize];
        let place = k.reduce(op, last);
        let out = k.param(DType::I64, Role::Out, Level::Row, Access::Contiguous);
        k.store(out, place);
    }
    k
}

#[test]
fn random_kernels() {
    let mut coded = 0;
    for seed in 0..400 {
        let mut rng = Rng(seed);
        let nodes = 2 + rng.below([4, 12, 40][seed as usize % 3]);
        let kernel = random_rows(&mut rng, nodes);
        coded += usize::from(is_coded(&kernel));
        // Less than a group of rows, and several with a rest.
        let mut extents: Vec<u64> = (0..kernel.outer)
            .map(|_| [1, 2, 3, 4, 9, 19][rng.below(6) as usize])
            .collect();
        extents.extend((0..kernel.inner).map(|_| [1, 3, 7, 16, 19, 33, 70][rng.below(7) as usize]));
        check(&random_case(kernel, extents, &mut rng));
    }
    assert!(!has_code() || coded > 200, "{coded} kernels have code");
}

/// Enough for rows that are asked for ahead of time, and for outputs past the caches, with rows that begin with a line or do not.
#[test]
fn large_launches() {
    let mut rng = Rng(33);
    for (rows, n) in [
        (2050, 1024),
        (2100, 1000),
        (20000, 128),
        (70000, 47),
        (33, 65536),
        (2, 65537),
    ] {
        let data = f32_buffer(rows * n, vec![], &mut rng);
        for in_place in [vec![], vec![(1, 0)]] {
            // A large vector begins 16 bytes after a page.
            let out = Buffer {
                bytes: vec![0; rows * n * 4 + 48],
                origin: 48,
                ..data.clone()
            };
            let case = Case {
                kernel: softmax(1, Access::Contiguous),
                extents: vec![rows as u64, n as u64],
                buffers: vec![data.clone(), if in_place.is_empty() { out } else { data.clone() }],
                scalars: vec![],
                in_place,
            };
            let expected = run(&case, Isa::Baseline, &Serial);
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                let found = run_generated(&case, isa, &Serial);
                compare(&case, &expected, &found, &format!("{isa:?}"));
            }
            let found = run_generated(&case, Isa::detect(), &Threads(3));
            compare(&case, &expected, &found, "threads: 3");
        }
    }
}
