//! Windows next to each other: pools behind a map that is stored, the gradients of pools, and rows that are no run of memory.

use super::harness::{Rng, check, run_by};
use super::oracle::{Buffer, Case};
use crate::exec::Program;
use crate::isa::Isa;
use crate::parallel::Serial;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Kernel, Level, Node, NodeId, ReduceOp, Role, ScalarOp};

/// Planes, windows of each, and places of a window along both axes.
#[derive(Clone, Copy, Debug)]
struct Windows {
    samples: u64,
    channels: u64,
    lines: u64,
    line: u64,
    high: u64,
    wide: u64,
}

impl Windows {
    fn extents(&self) -> Vec<u64> {
        vec![
            self.samples,
            self.channels,
            self.lines,
            self.line,
            self.high,
            self.wide,
        ]
    }

    fn elements(&self) -> u64 {
        self.extents().iter().product()
    }

    /// Of the planes that the windows are of.
    fn strides(&self) -> Vec<i64> {
        let (row, line) = (self.line * self.wide, self.high * self.line * self.wide);
        let plane = self.lines * line;
        [self.channels * plane, plane, line, self.wide, row, 1]
            .map(|stride| stride as i64)
            .to_vec()
    }
}

fn shapes() -> Vec<Windows> {
    let of = |samples, channels, lines, line| Windows {
        samples,
        channels,
        lines,
        line,
        high: 2,
        wide: 2,
    };
    let two = of(5, 3, 14, 14);
    vec![
        two,
        of(9, 7, 5, 5),
        of(40, 11, 3, 3),
        of(2, 2, 9, 37),
        of(1, 1, 2, 700),
        Windows { high: 3, ..two },
        Windows { high: 1, ..two },
        Windows { wide: 3, ..two },
        Windows {
            lines: 1,
            ..of(70, 4, 1, 9)
        },
        of(2, 2, 3, 3),
    ]
}

fn buffer(elements: u64, strides: Vec<i64>) -> Buffer {
    Buffer {
        bytes: vec![0; 4 * elements as usize],
        origin: 0,
        strides,
        gather_stride: 1,
        gather_extent: 0,
    }
}

/// Values with many ties, and now and then special ones.
fn fill(case: &mut Case, rng: &mut Rng) {
    for (buffer, param) in case.buffers.iter_mut().zip(&case.kernel.params) {
        for value in buffer
            .bytes
            .chunks_exact_mut(4)
            .filter(|_| param.role == Role::In)
        {
            let bits = match rng.below(3) {
                0 => rng.value(DType::F32) as u32,
                _ => (rng.below(5) as f32 - 2.0).to_bits(),
            };
            value.copy_from_slice(&bits.to_le_bytes());
        }
    }
}

/// Puts outputs where inputs are.
fn in_place(case: &mut Case, pairs: &[(usize, usize)]) {
    for &(out, input) in pairs {
        case.buffers[out].bytes = case.buffers[input].bytes.clone();
    }
    case.in_place = pairs.to_vec();
}

fn constant(k: &mut Kernel, value: f32) -> NodeId {
    k.push(Node::Const {
        dtype: DType::F32,
        bits: value.to_bits().into(),
    })
}

/// A pool behind a bias and an activation, which is stored.
fn pool(w: Windows, op: ReduceOp) -> Case {
    let mut k = Kernel::new("pool", 4, 2);
    let x = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
    let bias = k.param(DType::F32, Role::In, Level::Row, Access::Strided);
    let y = k.param(DType::F32, Role::Out, Level::Element, Access::Strided);
    let best = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let (value, added) = (k.load(x), k.load(bias));
    let sum = k.op(ScalarOp::Add, &[value, added]);
    let zero = constant(&mut k, 0.0);
    let positive = k.op(ScalarOp::Max, &[sum, zero]);
    let result = k.reduce(op, positive);
    k.store(y, positive);
    k.store(best, result);
    let elements = w.elements();
    Case {
        buffers: vec![
            buffer(elements, w.strides()),
            buffer(w.channels, vec![0, 1, 0, 0]),
            buffer(elements, w.strides()),
            buffer(elements / (w.high * w.wide), vec![]),
        ],
        kernel: k,
        extents: w.extents(),
        scalars: vec![],
        in_place: vec![],
    }
}

#[test]
fn pools_behind_what_is_stored() {
    let mut rng = Rng(61);
    for windows in shapes() {
        for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum] {
            let mut case = pool(windows, op);
            fill(&mut case, &mut rng);
            check(&case);
            in_place(&mut case, &[(2, 0)]);
            check(&case);
        }
    }
}

/// The gradient of a pool: `shift` is added to the number of each place, and 0 is that of gradients.
fn gradient(w: Windows, op: ReduceOp, shift: i64, turned: bool) -> Case {
    let mut k = Kernel::new("gradient", 4, 2);
    let x = k.param(DType::F32, Role::In, Level::Element, Access::Strided);
    let dy = k.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let dx = k.param(DType::F32, Role::Out, Level::Element, Access::Strided);
    let value = k.load(x);
    let place = k.reduce(op, value);
    let integer = |k: &mut Kernel, value: i64| {
        k.push(Node::Const {
            dtype: DType::I64,
            bits: value.cast_unsigned(),
        })
    };
    let (column, row) = (k.push(Node::Index { axis: 5 }), k.push(Node::Index { axis: 4 }));
    let (wide, shift) = (integer(&mut k, w.wide as i64), integer(&mut k, shift));
    let first = k.op(ScalarOp::Mul, &[row, wide]);
    let number = k.op(ScalarOp::Add, &[column, first]);
    let number = k.op(ScalarOp::Add, &[number, shift]);
    let here = match turned {
        true => k.op(ScalarOp::Eq, &[number, place]),
        false => k.op(ScalarOp::Eq, &[place, number]),
    };
    let (given, none) = (k.load(dy), constant(&mut k, -1.5));
    let result = match turned {
        true => k.op(ScalarOp::Select, &[here, none, given]),
        false => k.op(ScalarOp::Select, &[here, given, none]),
    };
    k.store(dx, result);
    let elements = w.elements();
    Case {
        buffers: vec![
            buffer(elements, w.strides()),
            buffer(elements / (w.high * w.wide), vec![]),
            buffer(elements, w.strides()),
        ],
        kernel: k,
        extents: w.extents(),
        scalars: vec![],
        in_place: vec![],
    }
}

#[test]
fn gradients_of_pools() {
    let mut rng = Rng(62);
    for windows in shapes() {
        for (op, shift, turned) in [
            (ReduceOp::ArgMax, 0, false),
            (ReduceOp::ArgMin, 0, false),
            (ReduceOp::ArgMax, 0, true),
            (ReduceOp::ArgMax, 1, false),
        ] {
            let mut case = gradient(windows, op, shift, turned);
            fill(&mut case, &mut rng);
            check(&case);
            in_place(&mut case, &[(2, 0)]);
            check(&case);
        }
    }
}

/// A mask whose rows, of `lines` lines each, are stored and summed.
fn masked(rows: u64, lines: u64, line: u64) -> Case {
    let mut k = Kernel::new("masked", 1, 2);
    let old = k.param(DType::F32, Role::In, Level::Row, Access::Contiguous);
    let [y, dy] = [0, 1].map(|_| k.param(DType::F32, Role::In, Level::Element, Access::Strided));
    let dx = k.param(DType::F32, Role::Out, Level::Element, Access::Strided);
    let new = k.param(DType::F32, Role::Out, Level::Row, Access::Contiguous);
    let (old, value, zero) = (k.load(old), k.load(y), constant(&mut k, 0.0));
    let off = k.op(ScalarOp::Le, &[value, zero]);
    let given = k.load(dy);
    let result = k.op(ScalarOp::Select, &[off, zero, given]);
    let sum = k.reduce(ReduceOp::Sum, result);
    let updated = k.op(ScalarOp::Sub, &[old, sum]);
    k.store(dx, result);
    k.store(new, updated);
    let strides = vec![line as i64, (rows * line) as i64, 1];
    let wide = || buffer(rows * lines * line, strides.clone());
    Case {
        buffers: vec![buffer(rows, vec![]), wide(), wide(), wide(), buffer(rows, vec![])],
        kernel: k,
        extents: vec![rows, lines, line],
        scalars: vec![],
        in_place: vec![],
    }
}

#[test]
fn rows_of_several_lines_that_are_stored() {
    let mut rng = Rng(63);
    for (rows, lines, line) in [
        (6, 64, 784),
        (16, 9, 100),
        (3, 200, 17),
        (2, 3, 5000),
        (40, 40, 7),
        (1, 8, 900),
    ] {
        let mut case = masked(rows, lines, line);
        fill(&mut case, &mut rng);
        check(&case);
        in_place(&mut case, &[(3, 2), (4, 0)]);
        check(&case);
    }
}

/// The same mask of images whose channels are neighbours.
fn beside(images: u64, channels: u64, places: u64) -> Case {
    let mut case = masked(images * channels, 1, places);
    case.kernel.outer = 2;
    case.kernel.inner = 1;
    case.extents = vec![images, channels, places];
    for buffer in &mut case.buffers[1..4] {
        buffer.strides = vec![(channels * places) as i64, 1, channels as i64];
    }
    case
}

#[test]
fn rows_beside_each_other_that_are_stored() {
    let mut rng = Rng(64);
    for (images, channels, places) in [
        (1, 32, 150),
        (4, 33, 70),
        (2, 17, 5000),
        (3, 300, 9),
        (5, 1, 1000),
    ] {
        let mut case = beside(images, channels, places);
        fill(&mut case, &mut rng);
        check(&case);
        in_place(&mut case, &[(3, 2), (4, 0)]);
        check(&case);
    }
}

#[test]
fn which_kernels_are_a_map_and_what_reduces_it() {
    let split = |case: &Case| {
        let program = Program::compile(&case.kernel, Isa::detect()).expect("a kernel");
        let program = program.generate(Isa::detect());
        run_by(case, |args| {
            // SAFETY: buffers cover every element that their strides reach.
            unsafe { program.run(args, &Serial) };
        });
        program.is_split()
    };
    let [first, .., short] = &shapes()[..] else {
        unreachable!()
    };
    assert!(split(&pool(*first, ReduceOp::Max)));
    assert!(!split(&pool(*short, ReduceOp::Max)), "few elements");
    assert!(split(&masked(6, 64, 784)));
    assert!(split(&beside(2, 40, 100)));
    assert!(!split(&masked(1, 64, 784)), "a row that is a run of memory");
    assert!(!split(&gradient(*first, ReduceOp::ArgMax, 0, false)));
}
