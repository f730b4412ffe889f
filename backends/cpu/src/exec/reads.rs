//! Which inputs of a kernel are read with padding around them.
//!
//! Such a read is `select(inside, loadat(p, select(inside, place, -1)), padding)`, or the `loadat` alone where the padding is 0. `inside`
//! joins bounds of affine indices, and `place` is the sum of these indices times constants.

use smallvec::SmallVec;
use std::ops::Range;
use thalweg_hal::DType;
use thalweg_hal::ir::{Access, Info, Kernel, Level, Node, NodeId, ScalarOp};

/// Constants beyond these are not those of windows.
const MOST: i64 = 1 << 31;

/// `offset + sum of coefficient * index` over all axes of a kernel, with coefficients from 0 on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Affine {
    pub(super) coefficients: SmallVec<[i64; 8]>,
    pub(super) offset: i64,
}

impl Affine {
    fn constant(rank: usize, offset: i64) -> Option<Affine> {
        let coefficients = SmallVec::from_elem(0, rank);
        (-MOST..=MOST)
            .contains(&offset)
            .then_some(Affine { coefficients, offset })
    }

    fn add(&self, other: &Affine, factor: i64) -> Option<Affine> {
        let mut sum = Affine::constant(0, self.offset + other.offset.checked_mul(factor)?)?;
        let both = self.coefficients.iter().zip(&other.coefficients);
        for (&a, &b) in both {
            let coefficient = a + b.checked_mul(factor)?;
            sum.coefficients
                .push((0..=MOST).contains(&coefficient).then_some(coefficient)?);
        }
        Some(sum)
    }

    fn is_constant(&self) -> bool {
        self.coefficients.iter().all(|&coefficient| coefficient == 0)
    }

    /// Its value at a point.
    pub(super) fn value(&self, point: &[u64]) -> i64 {
        let terms = self.coefficients.iter().zip(point);
        terms.fold(self.offset, |sum, (&coefficient, &index)| {
            sum.saturating_add(coefficient.saturating_mul(index as i64))
        })
    }

    /// How many numbers lie between its values in a space without empty axes, these included.
    pub(super) fn length(&self, extents: &[u64]) -> u64 {
        let terms = self.coefficients.iter().zip(extents);
        terms.fold(1, |sum: u64, (&coefficient, &extent)| {
            sum.saturating_add((coefficient as u64).saturating_mul(extent - 1))
        })
    }
}

/// A tensor's axis that is padded.
#[derive(Clone, Debug)]
pub(super) struct ReadAxis {
    pub(super) at: Affine,
    /// What one step along the axis adds to the place.
    pub(super) stride: i64,
    /// Where the elements are.
    pub(super) inside: Range<i64>,
}

/// An input that is read with padding around it.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) param: usize,
    pub(super) axes: Vec<ReadAxis>,
    pub(super) bits: u64,
    level: Level,
}

impl Read {
    /// The axes that the parameter has in the kernel that [`without_padding`] makes.
    pub(super) fn rank(&self, kernel: &Kernel) -> usize {
        match self.level {
            Level::Row => kernel.outer as usize,
            Level::Element => (kernel.outer + kernel.inner) as usize,
        }
    }

    fn of(param: u32, level: Level, bounds: &[Bound], place: &Affine) -> Option<Read> {
        let mut axes: Vec<ReadAxis> = Vec::new();
        for bound in bounds {
            let known = axes.iter().position(|axis| axis.at == bound.of);
            let index = known.unwrap_or(axes.len());
            if known.is_none() {
                let axis = (0..bound.of.coefficients.len()).find(|&axis| bound.of.coefficients[axis] != 0)?;
                axes.push(ReadAxis {
                    at: bound.of.clone(),
                    stride: place.coefficients[axis] / bound.of.coefficients[axis],
                    inside: i64::MIN..i64::MAX,
                });
            }
            let inside = &mut axes[index].inside;
            match bound.below {
                true => inside.start = inside.start.max(bound.limit),
                false => inside.end = inside.end.min(bound.limit),
            }
        }
        let rank = place.coefficients.len();
        let mut sum = Affine::constant(rank, 0)?;
        for axis in &axes {
            let shared = sum.coefficients.iter().zip(&axis.at.coefficients);
            if shared.into_iter().any(|(&a, &b)| a != 0 && b != 0) {
                return None;
            }
            sum = sum.add(&axis.at, axis.stride)?;
        }
        // Lines are copied along the axis whose elements are next to each other.
        axes.sort_by_key(|axis| -axis.stride);
        (sum == *place && axes.iter().all(|axis| axis.stride > 0)).then_some(Read {
            param: param as usize,
            axes,
            bits: 0,
            level,
        })
    }
}

/// `limit <= of`, or `of < limit`.
#[derive(Clone, PartialEq)]
struct Bound {
    of: Affine,
    limit: i64,
    below: bool,
}

/// What is known of a node.
#[derive(Clone)]
enum Form {
    Other,
    Affine(Affine),
    Inside(Vec<Bound>),
    /// A place inside, and -1 elsewhere.
    Place(Vec<Bound>, Affine),
    Read(Vec<Bound>, Read),
}

fn form(kernel: &Kernel, info: &Info, forms: &[Form], i: usize) -> Option<Form> {
    let rank = (kernel.outer + kernel.inner) as usize;
    let of = |id: NodeId| &forms[id.index()];
    match kernel.nodes[i] {
        Node::Const {
            dtype: DType::I64,
            bits,
        } => Affine::constant(rank, bits as i64).map(Form::Affine),
        Node::Index { axis } => {
            let mut affine = Affine::constant(rank, 0)?;
            affine.coefficients[axis as usize] = 1;
            Some(Form::Affine(affine))
        }
        Node::LoadAt { param, index } => match of(index) {
            Form::Place(bounds, place) => {
                let read = Read::of(param, info.levels[i], bounds, place)?;
                Some(Form::Read(bounds.clone(), read))
            }
            _ => None,
        },
        Node::Op { op, args: [a, b, c] } => match (op, of(a), of(b), of(c)) {
            (ScalarOp::Add, Form::Affine(a), Form::Affine(b), _) => a.add(b, 1).map(Form::Affine),
            (ScalarOp::Mul, Form::Affine(a), Form::Affine(b), _) if b.is_constant() => {
                Affine::constant(rank, 0)?.add(a, b.offset).map(Form::Affine)
            }
            (ScalarOp::Le, Form::Affine(a), Form::Affine(b), _) if a.is_constant() => {
                let (of, limit) = (b.clone(), a.offset);
                Some(Form::Inside(vec![Bound {
                    of,
                    limit,
                    below: true,
                }]))
            }
            (ScalarOp::Lt, Form::Affine(a), Form::Affine(b), _) if b.is_constant() => {
                let (of, limit) = (a.clone(), b.offset);
                Some(Form::Inside(vec![Bound {
                    of,
                    limit,
                    below: false,
                }]))
            }
            (ScalarOp::And, Form::Inside(a), Form::Inside(b), _) => {
                Some(Form::Inside([a.as_slice(), b].concat()))
            }
            (ScalarOp::Select, Form::Inside(inside), Form::Affine(place), Form::Affine(outside))
                if outside.is_constant() && outside.offset == -1 =>
            {
                Some(Form::Place(inside.clone(), place.clone()))
            }
            (ScalarOp::Select, Form::Inside(inside), Form::Read(bounds, read), _) if inside == bounds => {
                let Node::Const { bits, .. } = kernel.nodes[c.index()] else {
                    return None;
                };
                let read = Read { bits, ..read.clone() };
                Some(Form::Read(Vec::new(), read))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The same kernel with a plain load of a strided parameter in place of each padded read, and these reads; `None` where there is none.
pub(super) fn without_padding(kernel: &Kernel, info: &Info) -> Option<(Kernel, Vec<Read>)> {
    if !kernel
        .nodes
        .iter()
        .any(|node| matches!(node, Node::LoadAt { .. }))
    {
        return None;
    }
    let mut forms: Vec<Form> = Vec::with_capacity(kernel.nodes.len());
    for i in 0..kernel.nodes.len() {
        forms.push(form(kernel, info, &forms, i).unwrap_or(Form::Other));
    }
    let mut plain = kernel.clone();
    for (node, form) in plain.nodes.iter_mut().zip(&forms) {
        if let Form::Read(_, read) = form {
            *node = Node::Load {
                param: read.param as u32,
            };
        }
    }
    let mut live = vec![false; plain.nodes.len()];
    for (i, node) in plain.nodes.iter().enumerate().rev() {
        live[i] |= matches!(node, Node::Store { .. });
        if live[i] {
            node.args().for_each(|arg| live[arg.index()] = true);
        }
    }
    let mut reads: Vec<Read> = Vec::new();
    for (form, _) in forms.iter().zip(&live).filter(|(_, live)| **live) {
        if let Form::Read(_, read) = form {
            reads.push(read.clone());
        }
    }
    let touched = |node: &Node| match *node {
        Node::Load { param } | Node::LoadAt { param, .. } => Some(param as usize),
        _ => None,
    };
    // A parameter that is read in another way too stays what it is.
    let alone = |read: &Read| {
        let live = plain.nodes.iter().zip(&live).filter(|(_, live)| **live);
        live.filter(|(node, _)| touched(node) == Some(read.param)).count() == 1
    };
    if reads.is_empty() || !reads.iter().all(alone) {
        return None;
    }
    for read in &reads {
        let param = &mut plain.params[read.param];
        (param.level, param.access) = (read.level, Access::Strided);
    }
    // What is left keeps its order.
    let mut names = Vec::with_capacity(live.len());
    let mut next = 0;
    for &live in &live {
        names.push(NodeId(next));
        next += u32::from(live);
    }
    let name = |id: NodeId| names[id.index()];
    let left = plain.nodes.iter().zip(&live).filter(|(_, live)| **live);
    plain.nodes = left.map(|(node, _)| renamed(*node, name)).collect();
    Some((plain, reads))
}

fn renamed(node: Node, name: impl Fn(NodeId) -> NodeId) -> Node {
    match node {
        Node::Const { .. } | Node::Scalar { .. } | Node::Load { .. } | Node::Index { .. } => node,
        Node::LoadAt { param, index } => Node::LoadAt {
            param,
            index: name(index),
        },
        Node::Op { op, args } => Node::Op {
            op,
            args: args.map(name),
        },
        Node::Cast { dtype, arg } => Node::Cast {
            dtype,
            arg: name(arg),
        },
        Node::Rand { key, counter } => Node::Rand {
            key: name(key),
            counter: name(counter),
        },
        Node::Reduce { op, arg } => Node::Reduce { op, arg: name(arg) },
        Node::Store { param, value } => Node::Store {
            param,
            value: name(value),
        },
    }
}
