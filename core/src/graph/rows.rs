//! The ops of graphs as rows: name, the op before its attributes are known, and the attributes in the order of the text form.
//!
//! Text is written and read by the same rows: a [`Codec`] goes over the attributes of an op and writes each, or sets each.

use super::{Body, Callback, Control, ConvAttributes, Graph, Op, Printed, ScatterMode, Type};
use crate::error::failure::Refusal;
use crate::hal::DType;
use crate::hal::ir::{ReduceOp, ScalarOp, literal, parse_literal};
use crate::types::shape::{Axes, MAX_RANK, Shape};
use smallvec::{SmallVec, smallvec};
use std::fmt::{Display, Write};
use std::str::FromStr;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Refusal>;

/// Goes over attributes.
pub(super) trait Codec {
    /// Writes the attribute, or sets it.
    fn attribute(&mut self, key: &str, value: &mut dyn Attribute) -> Result<()>;
}

/// A value behind `key=`.
pub(super) trait Attribute {
    /// Its text; `name` names a graph.
    fn text(&self, name: &mut dyn FnMut(&Body) -> String) -> String;

    /// Sets it from its text.
    fn read(&mut self, key: &str, text: &str, body: &mut dyn FnMut(&str) -> Result<Body>) -> Result<()>;
}

/// `KIND(name, type of a node)`, then a row an op: `"name" = op, pattern => [attributes]`. An attribute is a field of the
/// pattern; `as` says how it is shown where its type does not. Rows of `named` share a row: name, op from the name, pattern.
macro_rules! rows {
    (
        $kind:ident($name:ident, $ty:ident: $of:ty)
        $($text:literal = $empty:expr, $pattern:pat => [$($key:ident $(as $shown:expr)?),*];)*
        $(named $how:expr, $from:expr, $found:pat => [$($field:ident),*];)*
    ) => {
        impl $kind {
            /// The name in the text form.
            #[allow(unused_variables, reason = "a row names its attributes for the codec")]
            pub fn name(&self) -> &'static str {
                match self {
                    $($pattern => $text,)*
                    $($found => $how,)*
                }
            }

            /// The op of a name with attributes that say nothing yet.
            fn empty($name: &str, $ty: $of) -> Option<$kind> {
                match $name {
                    $($text => Some($empty),)*
                    _ => None$(.or_else(|| $from))*,
                }
            }

            #[allow(unused_variables, reason = "a row of `named` names what its name comes from")]
            fn fields(&mut self, codec: &mut dyn Codec) -> Result<()> {
                match self {
                    $($pattern => { $(rows!(@field codec, $key $(as $shown)?);)* })*
                    $($found => { $(codec.attribute(stringify!($field), $field)?;)* })*
                }
                Ok(())
            }
        }
    };
    (@field $codec:ident, $key:ident) => { $codec.attribute(stringify!($key), $key)? };
    (@field $codec:ident, $key:ident as $shown:expr) => { $codec.attribute(stringify!($key), &mut $shown)? };
}

const CONV: ConvAttributes = ConvAttributes {
    groups: 0,
    stride: [0; 3],
    dilation: [0; 3],
    low: [0; 3],
    high: [0; 3],
    fast: false,
};
const CONV_FAST: ConvAttributes = ConvAttributes { fast: true, ..CONV };

rows! {
    Op(name, ty: Type)
    "input" = Op::Input(0), Op::Input(_) => [];
    "full" = Op::Full { dtype: ty.dtype, bits: 0, shape: ty.shape }, Op::Full { dtype, bits, .. } => [value as Literal(*dtype, bits)];
    "index" = Op::Index { axis: 0, shape: ty.shape }, Op::Index { axis, .. } => [axis];
    "cast" = Op::Cast(ty.dtype), Op::Cast(_) => [];
    "rand" = Op::Rand, Op::Rand => [];
    "permute" = Op::Permute(smallvec![]), Op::Permute(axes) => [axes];
    "expand" = Op::Expand(ty.shape), Op::Expand(_) => [];
    "reshape" = Op::Reshape(ty.shape), Op::Reshape(_) => [];
    "slice" = Op::Slice { start: Shape::SCALAR, step: smallvec![], shape: ty.shape }, Op::Slice { start, step, .. } => [start, step];
    "indices" = Op::Indices { axis: 0, low: 0, high: 0, except: None }, Op::Indices { axis, low, high, except } => [axis, low, high, except];
    "window" = Op::Window { axis: 0, size: 0, step: 0, dilation: 0 }, Op::Window { axis, size, step, dilation } => [axis, size, step, dilation];
    "pad" = Op::Pad { low: Shape::SCALAR, shape: ty.shape, bits: 0 }, Op::Pad { low, bits, .. } => [low, bits as Hex(bits)];
    "concat" = Op::Concat { axis: 0 }, Op::Concat { axis } => [axis];
    "gather" = Op::Gather { axis: 0 }, Op::Gather { axis } => [axis];
    "scatter" = Op::Scatter { axis: 0, mode: ScatterMode::Set }, Op::Scatter { axis, mode } => [axis, mode];
    "matmul" = Op::Matmul { accumulate: ty.dtype, output: ty.dtype }, Op::Matmul { accumulate, .. } => [accumulate];
    "attention" = Op::Attention { causal: false, scale: 0 }, Op::Attention { causal, scale } => [causal, scale as Literal(DType::F64, scale)];
    "conv" = Op::Conv(CONV), Op::Conv(ConvAttributes { groups, stride, dilation, low, high, fast: false }) => [groups, stride, dilation, low, high];
    "conv_fast" = Op::Conv(CONV_FAST), Op::Conv(ConvAttributes { groups, stride, dilation, low, high, fast: true }) => [groups, stride, dilation, low, high];
    "conv_grad_input" = Op::ConvGradInput(CONV, ty.shape), Op::ConvGradInput(ConvAttributes { groups, stride, dilation, low, high, fast: false }, _) => [groups, stride, dilation, low, high];
    "conv_grad_input_fast" = Op::ConvGradInput(CONV_FAST, ty.shape), Op::ConvGradInput(ConvAttributes { groups, stride, dilation, low, high, fast: true }, _) => [groups, stride, dilation, low, high];
    "conv_grad_weight" = Op::ConvGradWeight(CONV, ty.shape), Op::ConvGradWeight(ConvAttributes { groups, stride, dilation, low, high, .. }, _) => [groups, stride, dilation, low, high];
    "scan" = Op::Scan { op: ReduceOp::Sum, axis: 0, reverse: false }, Op::Scan { op, axis, reverse } => [op, axis, reverse];
    "sort" = Op::Sort { axis: 0, descending: false }, Op::Sort { axis, descending } => [axis, descending];
    "argsort" = Op::ArgSort { axis: 0, descending: false, count: 0 }, Op::ArgSort { axis, descending, count } => [axis, descending, count];
    "result" = Op::Result { index: 0, ty }, Op::Result { index, .. } => [index];
    named op.name(), ScalarOp::from_name(name).map(Op::Map), Op::Map(op) => [];
    named reduction(*op), reduce(name), Op::Reduce { op, axes } => [axes];
    named control.name(), None, Op::Control(control) => [];
}

rows! {
    Control(name, _ty: ())
    "repeat" = Control::Repeat { body: nothing(), trips: 0, start: 0, carries: 0, slices: 0, reverse: false },
        Control::Repeat { body, trips, start, carries, slices, reverse } => [body, trips, start, carries, slices, reverse];
    "while" = Control::While { condition: nothing(), body: nothing(), carries: 0 },
        Control::While { condition, body, carries } => [condition, body, carries];
    "unwind" = Control::Unwind { condition: nothing(), body: nothing(), back: nothing(), carries: 0, captured: 0, sums: 0 },
        Control::Unwind { condition, body, back, carries, captured, sums } => [condition, body, back, carries, captured, sums];
    "call" = Control::Call { body: nothing() }, Control::Call { body } => [body];
    "cond" = Control::Cond { then: nothing(), otherwise: nothing() }, Control::Cond { then, otherwise } => [then, otherwise];
    "print" = Control::Print { items: Vec::new() }, Control::Print { items } => [items];
    "inspect" = Control::Inspect { callback: Callback::new(()) }, Control::Inspect { callback } => [callback];
}

fn nothing() -> Body {
    Body::new(Graph::new())
}

const fn reduction(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "reduce_sum",
        ReduceOp::Prod => "reduce_prod",
        ReduceOp::Max => "reduce_max",
        ReduceOp::Min => "reduce_min",
        ReduceOp::ArgMax => "reduce_argmax",
        ReduceOp::ArgMin => "reduce_argmin",
    }
}

fn reduce(name: &str) -> Option<Op> {
    let op = ReduceOp::ALL.iter().copied().find(|&op| reduction(op) == name)?;
    Some(Op::Reduce { op, axes: Axes::NONE })
}

impl Op {
    /// Goes over the attributes: what the type of the result does not say.
    pub(super) fn attributes(&mut self, codec: &mut dyn Codec) -> Result<()> {
        match self {
            Op::Control(control) => Arc::make_mut(control).fields(codec),
            op => op.fields(codec),
        }
    }

    /// The op of a name with attributes that a codec has to set; `ty` is the type of the result, which loops and branches lack.
    pub(super) fn of_name(name: &str, ty: Option<Type>) -> Result<Op> {
        let control = || Some(Op::Control(Arc::new(Control::empty(name, ())?)));
        match ty {
            None => control().ok_or_else(|| Refusal::new(format!("{} gives no token", quote(name)))),
            Some(ty) => (Op::empty(name, ty).or_else(control))
                .ok_or_else(|| Refusal::new(format!("there is no op {}", quote(name)))),
        }
    }
}

/// Attributes as ` key=value`.
pub(super) struct Written<'a> {
    pub(super) out: String,
    /// Names a graph.
    pub(super) name: &'a mut dyn FnMut(&Body) -> String,
}

impl Codec for Written<'_> {
    fn attribute(&mut self, key: &str, value: &mut dyn Attribute) -> Result<()> {
        let value = value.text(self.name);
        // Writing to a string does not fail.
        let _ = write!(self.out, " {key}={value}");
        Ok(())
    }
}

/// A word of the text in a message.
pub(super) fn quote(word: &str) -> String {
    let cut = if word.chars().nth(40).is_some() { "…" } else { "" };
    let shown: String = word.chars().take(40).flat_map(char::escape_default).collect();
    format!("`{shown}{cut}`")
}

/// A list without spaces.
pub(super) fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(","))
}

/// `[1,2]`.
pub(super) fn items<T: FromStr>(word: &str) -> Option<Vec<T>> {
    match word.strip_prefix('[')?.strip_suffix(']')? {
        "" => Some(Vec::new()),
        items => items.split(',').map(|item| item.parse().ok()).collect(),
    }
}

fn listed<T: FromStr>(key: &str, text: &str) -> Result<Vec<T>> {
    items(text).ok_or_else(|| Refusal::new(format!("{key} is {}, no list such as `[1,2]`", quote(text))))
}

fn found<T>(key: &str, text: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Refusal::new(format!("{key} is {}", quote(text))))
}

/// Types of attributes: what is written for `value`, and what is read from `text` behind `key`.
macro_rules! attributes {
    ($($type:ty: |$value:ident| $write:expr, |$key:ident, $text:ident| $read:expr;)*) => { $(
        impl Attribute for $type {
            fn text(&self, _: &mut dyn FnMut(&Body) -> String) -> String {
                let $value = self;
                $write
            }

            fn read(&mut self, $key: &str, $text: &str, _: &mut dyn FnMut(&str) -> Result<Body>) -> Result<()> {
                *self = $read;
                Ok(())
            }
        }
    )* };
}

attributes! {
    bool: |value| value.to_string(), |key, text| found(key, text, text.parse().ok())?;
    u8: |value| value.to_string(), |key, text| found(key, text, text.parse().ok())?;
    u32: |value| value.to_string(), |key, text| found(key, text, text.parse().ok())?;
    i64: |value| value.to_string(), |key, text| found(key, text, text.parse().ok())?;
    Option<i64>: |value| value.map_or_else(|| "none".to_owned(), |value| value.to_string()), |key, text| match text {
        "none" => None,
        text => Some(found(key, text, text.parse().ok())?),
    };
    usize: |value| value.to_string(), |key, text| found(key, text, text.parse().ok())?;
    DType: |value| value.to_string(), |key, text| found(key, text, text.parse().ok())?;
    ReduceOp: |value| value.to_string(), |key, text| found(key, text, ReduceOp::from_name(text))?;
    ScatterMode: |value| value.name().to_owned(),
        |key, text| found(key, text, ScatterMode::ALL.into_iter().find(|mode| mode.name() == text))?;
    Shape: |value| list(value.iter()), |key, text| Shape::checked(&listed::<usize>(key, text)?)?;
    SmallVec<[i64; MAX_RANK]>: |value| list(value), |key, text| listed(key, text)?.into();
    SmallVec<[u8; MAX_RANK]>: |value| list(value), |key, text| {
        let axes = listed(key, text)?;
        if axes.len() > MAX_RANK {
            return Err(Refusal::new(format!("more than {MAX_RANK} axes")));
        }
        axes.into()
    };
    [usize; 3]: |value| list(value), |key, text| {
        let three = listed(key, text)?.try_into();
        three.map_err(|_| Refusal::new(format!("{key} has three entries")))?
    };
    Axes: |value| list(value.iter()), |key, text| {
        let axes = listed::<usize>(key, text)?;
        let set: Axes = axes.iter().copied().filter(|&axis| axis < MAX_RANK).collect();
        if !axes.iter().copied().eq(set.iter()) {
            return Err(Refusal::new("axes are numbers of axes in ascending order"));
        }
        set
    };
}

/// The operand of a print.
const OPERAND: &str = "%";

/// A text as one word: what a word cannot have is `\u{20}`.
fn word(text: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || ":._-=/()".contains(*c);
    text.chars()
        .flat_map(|c| match plain(&c) {
            true => c.to_string().chars().collect::<Vec<_>>(),
            false => c.escape_unicode().collect(),
        })
        .collect()
}

/// The text of a [`word`].
fn text_of(word: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = word;
    while let Some((before, escaped)) = rest.split_once("\\u{") {
        let (code, behind) = escaped.split_once('}')?;
        text.push_str(before);
        text.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
        rest = behind;
    }
    text.push_str(rest);
    Some(text)
}

impl Attribute for Vec<Printed> {
    fn text(&self, _: &mut dyn FnMut(&Body) -> String) -> String {
        list(self.iter().map(|item| match item {
            Printed::Text(text) => format!("\"{}\"", word(text)),
            Printed::Operand => OPERAND.to_owned(),
        }))
    }

    fn read(&mut self, key: &str, text: &str, _: &mut dyn FnMut(&str) -> Result<Body>) -> Result<()> {
        let item = |item: String| match item.as_str() {
            OPERAND => Some(Printed::Operand),
            item => {
                let quoted = item.strip_prefix('"')?.strip_suffix('"')?;
                Some(Printed::Text(text_of(quoted)?.into()))
            }
        };
        *self = found(
            key,
            text,
            listed::<String>(key, text)?.into_iter().map(item).collect(),
        )?;
        Ok(())
    }
}

impl Attribute for Callback {
    fn text(&self, _: &mut dyn FnMut(&Body) -> String) -> String {
        CLOSURE.to_owned()
    }

    fn read(&mut self, key: &str, text: &str, _: &mut dyn FnMut(&str) -> Result<Body>) -> Result<()> {
        match text {
            CLOSURE => Err(Refusal::new("a text has no closure of a program")
                .help("write the text of a function without `inspect`")),
            text => found(key, text, None),
        }
    }
}

/// What stands for a closure.
const CLOSURE: &str = "closure";

impl Attribute for Body {
    fn text(&self, name: &mut dyn FnMut(&Body) -> String) -> String {
        name(self)
    }

    fn read(&mut self, _: &str, text: &str, body: &mut dyn FnMut(&str) -> Result<Body>) -> Result<()> {
        *self = body(text)?;
        Ok(())
    }
}

/// Bits as a constant of the dtype.
struct Literal<'a>(DType, &'a mut u64);

impl Attribute for Literal<'_> {
    fn text(&self, _: &mut dyn FnMut(&Body) -> String) -> String {
        literal(self.0, *self.1)
    }

    fn read(&mut self, key: &str, text: &str, _: &mut dyn FnMut(&str) -> Result<Body>) -> Result<()> {
        let bits = parse_literal(self.0, text).map_err(Refusal::new)?;
        let width = self.0.size() * 8;
        if width < 64 && bits >> width != 0 {
            return Err(Refusal::new(format!("{key}={bits:#x} is wider than {}", self.0)));
        }
        *self.1 = bits;
        Ok(())
    }
}

/// Bits in hex.
struct Hex<'a>(&'a mut u64);

impl Attribute for Hex<'_> {
    fn text(&self, _: &mut dyn FnMut(&Body) -> String) -> String {
        format!("{:#x}", self.0)
    }

    fn read(&mut self, key: &str, text: &str, _: &mut dyn FnMut(&str) -> Result<Body>) -> Result<()> {
        let bits = text
            .strip_prefix("0x")
            .and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let refusal = || Refusal::new(format!("{key} is {}, no number in hex", quote(text)));
        *self.0 = bits.ok_or_else(refusal)?;
        Ok(())
    }
}
