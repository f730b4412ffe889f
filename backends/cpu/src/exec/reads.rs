//! Which inputs of a kernel are read with padding around them.
//!
//! Such a read is `select(inside, loadat(p, select(inside, place, -1)), padding)`, or the `loadat` alone where the padding is 0. `inside`
//! joins bounds of affine indices, and `place` is the sum of these indices times strides. Bounds and strides may be scalars.

use super::space::Space;
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

/// A number that a kernel or its launch gives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Const(i64),
    Scalar(u32),
}

impl Number {
    fn with(self, scalars: &[u64]) -> i64 {
        match self {
            Number::Const(number) => number,
            Number::Scalar(at) => scalars[at as usize] as i64,
        }
    }
}

/// `limit <= of`, or `of < limit`.
#[derive(Clone, PartialEq)]
struct Bound {
    of: Affine,
    limit: Number,
    below: bool,
}

/// `at * stride`.
#[derive(Clone)]
struct Term {
    at: Affine,
    stride: Number,
}

/// A tensor's axis that is padded: its bounds and how far apart its elements are.
#[derive(Clone)]
struct PatternAxis {
    term: Term,
    start: Option<Number>,
    end: Option<Number>,
}

/// An input that is read with padding around it, in any launch.
#[derive(Clone)]
pub(super) struct Pattern {
    param: usize,
    axes: Vec<PatternAxis>,
    bits: u64,
    level: Level,
}

impl Pattern {
    fn of(param: u32, level: Level, bounds: &[Bound], place: &[Term]) -> Option<Pattern> {
        let axis = |term: &Term| PatternAxis {
            term: term.clone(),
            start: None,
            end: None,
        };
        let mut axes: Vec<PatternAxis> = place.iter().map(axis).collect();
        for bound in bounds {
            let mut of = axes.iter_mut().filter(|axis| axis.term.at == bound.of);
            let (Some(axis), None) = (of.next(), of.next()) else {
                return None;
            };
            let side = match bound.below {
                true => &mut axis.start,
                false => &mut axis.end,
            };
            if side.replace(bound.limit).is_some() {
                return None;
            }
        }
        let bounded = |axis: &PatternAxis| axis.start.is_some() || axis.end.is_some();
        axes.iter().all(bounded).then_some(Pattern {
            param: param as usize,
            axes,
            bits: 0,
            level,
        })
    }

    /// In a launch with these scalars.
    pub(super) fn with(&self, scalars: &[u64]) -> Read {
        let number = |number: Option<Number>, without| number.map_or(without, |number| number.with(scalars));
        let axis = |axis: &PatternAxis| ReadAxis {
            at: axis.term.at.clone(),
            stride: axis.term.stride.with(scalars),
            inside: number(axis.start, i64::MIN)..number(axis.end, i64::MAX),
        };
        let mut axes: SmallVec<[ReadAxis; 4]> = self.axes.iter().map(axis).collect();
        // Lines are copied along the axis whose elements are next to each other.
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.stride));
        Read {
            param: self.param,
            axes,
            bits: self.bits,
            level: self.level,
        }
    }
}

/// A tensor's axis that is padded.
pub(super) struct ReadAxis {
    pub(super) at: Affine,
    /// What one step along the axis adds to the place.
    pub(super) stride: i64,
    /// Where the elements are.
    pub(super) inside: Range<i64>,
}

impl ReadAxis {
    /// What a step along each axis of a space adds to the place along this one.
    pub(super) fn along(&self, space: &Space) -> SmallVec<[i64; 8]> {
        let of = |&axis: &u8| self.at.coefficients.get(usize::from(axis)).copied().unwrap_or(0);
        space.axes[..space.rank].iter().map(of).collect()
    }
}

/// An input that a launch reads with padding around it.
pub(super) struct Read {
    pub(super) param: usize,
    pub(super) axes: SmallVec<[ReadAxis; 4]>,
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
}

/// What is known of a node.
#[derive(Clone)]
enum Form {
    Other,
    Affine(Affine),
    Scalar(u32),
    Sum(Vec<Term>),
    Inside(Vec<Bound>),
    /// A place inside, and -1 elsewhere.
    Place(Vec<Bound>, Vec<Term>),
    Read(Vec<Bound>, Pattern),
}

impl Form {
    fn number(&self) -> Option<Number> {
        match self {
            Form::Affine(affine) if affine.is_constant() => Some(Number::Const(affine.offset)),
            Form::Scalar(at) => Some(Number::Scalar(*at)),
            _ => None,
        }
    }

    fn terms(&self) -> Option<Vec<Term>> {
        match self {
            Form::Affine(at) => Some(vec![Term {
                at: at.clone(),
                stride: Number::Const(1),
            }]),
            Form::Sum(terms) => Some(terms.clone()),
            _ => None,
        }
    }
}

fn form(kernel: &Kernel, info: &Info, forms: &[Form], i: usize) -> Option<Form> {
    let rank = (kernel.outer + kernel.inner) as usize;
    let of = |id: NodeId| &forms[id.index()];
    match kernel.nodes[i] {
        Node::Const {
            dtype: DType::I64,
            bits,
        } => Affine::constant(rank, bits as i64).map(Form::Affine),
        Node::Scalar { index } if kernel.scalars[index as usize] == DType::I64 => Some(Form::Scalar(index)),
        Node::Index { axis } => {
            let mut affine = Affine::constant(rank, 0)?;
            affine.coefficients[axis as usize] = 1;
            Some(Form::Affine(affine))
        }
        Node::LoadAt { param, index } => match of(index) {
            Form::Place(bounds, place) => {
                let pattern = Pattern::of(param, info.levels[i], bounds, place)?;
                Some(Form::Read(bounds.clone(), pattern))
            }
            _ => None,
        },
        Node::Op { op, args: [a, b, c] } => match (op, of(a), of(b), of(c)) {
            (ScalarOp::Add, Form::Affine(a), Form::Affine(b), _) => a.add(b, 1).map(Form::Affine),
            (ScalarOp::Add, a, b, _) => Some(Form::Sum([a.terms()?, b.terms()?].concat())),
            (ScalarOp::Mul, Form::Affine(a), Form::Affine(b), _) if b.is_constant() => {
                Affine::constant(rank, 0)?.add(a, b.offset).map(Form::Affine)
            }
            (ScalarOp::Mul, Form::Affine(at), &Form::Scalar(stride), _) => Some(Form::Sum(vec![Term {
                at: at.clone(),
                stride: Number::Scalar(stride),
            }])),
            (ScalarOp::Le, limit, Form::Affine(of), _) => Some(Form::Inside(vec![Bound {
                of: of.clone(),
                limit: limit.number()?,
                below: true,
            }])),
            (ScalarOp::Lt, Form::Affine(of), limit, _) => Some(Form::Inside(vec![Bound {
                of: of.clone(),
                limit: limit.number()?,
                below: false,
            }])),
            (ScalarOp::And, Form::Inside(a), Form::Inside(b), _) => {
                Some(Form::Inside([a.as_slice(), b].concat()))
            }
            (ScalarOp::Select, Form::Inside(inside), Form::Read(bounds, pattern), _) if inside == bounds => {
                let Node::Const { bits, .. } = kernel.nodes[c.index()] else {
                    return None;
                };
                let pattern = Pattern {
                    bits,
                    ..pattern.clone()
                };
                Some(Form::Read(Vec::new(), pattern))
            }
            (ScalarOp::Select, Form::Inside(inside), place, outside)
                if outside.number() == Some(Number::Const(-1)) =>
            {
                Some(Form::Place(inside.clone(), place.terms()?))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The same kernel with a plain load of a strided parameter in place of each padded read, and these reads; `None` where there is none.
pub(super) fn without_padding(kernel: &Kernel, info: &Info) -> Option<(Kernel, Vec<Pattern>)> {
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
    let live = plain.used();
    let mut reads: Vec<Pattern> = Vec::new();
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
    let alone = |read: &Pattern| {
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
    Some((plain.without_unused(), reads))
}
