//! The text form: a header line, then one line for each parameter, scalar and node.
//!
//! ```text
//! kernel mean_square outer=1 inner=1   # from here to the end of the line is a comment
//! p0 in f32 element contiguous
//! p1 out f32 row contiguous
//! s0 f32
//! n0 = load p0
//! n1 = mul n0 n0
//! n2 = sum n1
//! n3 = scalar s0
//! n4 = mul n2 n3
//! n5 = store p1 n4
//! ```
//!
//! `max` and `min` with one argument are the reductions, with two the scalar ops. A constant is a decimal, `inf`,
//! `-inf`, `true`, `false`, or its bits in hex (NaN, and bits that do not fit the dtype).

use super::verify::{is_name, limits, mnemonic};
use super::{
    Access, Kernel, Level, MAX_NODES, MAX_PARAMS, MAX_SCALARS, Node, NodeId, Param, ReduceOp, Role, ScalarOp,
};
use crate::dtype::{Class, DType};
use crate::narrow::{float_bits, float_value};
use std::fmt::Write;
use std::str::{FromStr, SplitWhitespace};

/// Why a text is not a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// One line: what was found and what was expected.
    pub message: String,
}

pub(super) fn print(kernel: &Kernel) -> String {
    let mut out = format!(
        "kernel {} outer={} inner={}\n",
        kernel.name, kernel.outer, kernel.inner
    );
    for (i, p) in kernel.params.iter().enumerate() {
        push(
            &mut out,
            format_args!(
                "p{i} {} {} {} {}\n",
                p.role.name(),
                p.dtype,
                p.level.name(),
                p.access.name()
            ),
        );
    }
    for (i, dtype) in kernel.scalars.iter().enumerate() {
        push(&mut out, format_args!("s{i} {dtype}\n"));
    }
    for (i, node) in kernel.nodes.iter().enumerate() {
        push(&mut out, format_args!("n{i} = {}", mnemonic(node)));
        match *node {
            Node::Const { dtype, bits } => push(&mut out, format_args!(" {dtype} {}", literal(dtype, bits))),
            Node::Scalar { index } => push(&mut out, format_args!(" s{index}")),
            Node::Load { param } | Node::LoadAt { param, .. } | Node::Store { param, .. } => {
                push(&mut out, format_args!(" p{param}"));
            }
            Node::Index { axis } => push(&mut out, format_args!(" {axis}")),
            Node::Cast { dtype, .. } => push(&mut out, format_args!(" {dtype}")),
            Node::Op { .. } | Node::Rand { .. } | Node::Reduce { .. } => {}
        }
        for arg in node.args() {
            push(&mut out, format_args!(" n{}", arg.0));
        }
        out.push('\n');
    }
    out
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = out.write_fmt(text);
}

/// The shortest text that [`parse_literal`] reads back as the same bits.
pub fn literal(dtype: DType, bits: u64) -> String {
    let width = dtype.size() as u32 * 8;
    let hex = || format!("{bits:#x}");
    if width < 64 && bits >> width != 0 {
        return hex();
    }
    match dtype.class() {
        Class::Bool => match bits {
            0 => "false".to_owned(),
            1 => "true".to_owned(),
            _ => hex(),
        },
        Class::Unsigned => bits.to_string(),
        Class::Signed => (((bits << (64 - width)) as i64) >> (64 - width)).to_string(),
        Class::Float => {
            let value = float_value(dtype, bits);
            if value.is_nan() {
                return hex();
            }
            match dtype {
                DType::F64 => return format!("{value:?}"),
                DType::F32 => return format!("{:?}", value as f32),
                _ => {}
            }
            (0..8)
                .filter_map(|digits| format!("{value:.digits$e}").parse::<f64>().ok())
                .find(|short| float_bits(dtype, *short) == bits)
                .map_or_else(hex, |short| format!("{short:?}"))
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Kernel, ParseError> {
    let mut kernel: Option<Kernel> = None;
    for (i, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        let mut words = Words(code.split_whitespace());
        let Some(first) = words.0.next() else { continue };
        let done = match &mut kernel {
            None => header(first, &mut words).map(|parsed| kernel = Some(parsed)),
            Some(kernel) => definition(kernel, first, &mut words),
        };
        done.and_then(|()| words.end())
            .map_err(|message| ParseError { line: i + 1, message })?;
    }
    kernel.ok_or_else(|| ParseError {
        line: 1,
        message: "no line `kernel NAME outer=N inner=N`".to_owned(),
    })
}

fn header(first: &str, words: &mut Words<'_>) -> Result<Kernel, String> {
    if first != "kernel" {
        return Err(format!(
            "expected `kernel NAME outer=N inner=N`, found {}",
            quote(first)
        ));
    }
    let name = words.next("a kernel name")?;
    if !is_name(name) {
        return Err(format!("{} is not a kernel name", quote(name)));
    }
    let outer = words.prefixed("outer=")?;
    let inner = words.prefixed("inner=")?;
    limits(u64::from(outer), u64::from(inner), 0, 0, 0)?;
    Ok(Kernel::new(name, outer, inner))
}

fn definition(kernel: &mut Kernel, first: &str, words: &mut Words<'_>) -> Result<(), String> {
    let next = |prefix: &str, len: usize, most: usize| -> Result<(), String> {
        if prefixed(first, prefix) != Some(len as u32) {
            return Err(format!("expected `{prefix}{len}`, found {}", quote(first)));
        }
        if len >= most {
            Err(format!("`{prefix}{len}` is beyond the limit of {most}"))
        } else {
            Ok(())
        }
    };
    match first.as_bytes().first() {
        Some(b'p') => {
            next("p", kernel.params.len(), MAX_PARAMS)?;
            let role = words.one_of(Role::ALL, Role::name, "`in` or `out`")?;
            let dtype = words.dtype()?;
            let level = words.one_of(Level::ALL, Level::name, "`row` or `element`")?;
            let access = words.one_of(
                Access::ALL,
                Access::name,
                "`contiguous`, `broadcast` or `strided`",
            )?;
            kernel.params.push(Param {
                dtype,
                role,
                level,
                access,
            });
        }
        Some(b's') => {
            next("s", kernel.scalars.len(), MAX_SCALARS)?;
            kernel.scalars.push(words.dtype()?);
        }
        Some(b'n') => {
            next("n", kernel.nodes.len(), MAX_NODES)?;
            let equals = words.next("`=`")?;
            if equals != "=" {
                return Err(format!("expected `=`, found {}", quote(equals)));
            }
            kernel.nodes.push(node(words)?);
        }
        _ => {
            return Err(format!(
                "expected a parameter, scalar or node, found {}",
                quote(first)
            ));
        }
    }
    Ok(())
}

fn node(words: &mut Words<'_>) -> Result<Node, String> {
    let op = words.next("an op")?;
    Ok(match op {
        "const" => {
            let dtype = words.dtype()?;
            Node::Const {
                dtype,
                bits: parse_literal(dtype, words.next("a constant")?)?,
            }
        }
        "scalar" => Node::Scalar {
            index: words.prefixed("s")?,
        },
        "load" => Node::Load {
            param: words.prefixed("p")?,
        },
        "loadat" => Node::LoadAt {
            param: words.prefixed("p")?,
            index: words.node()?,
        },
        "index" => Node::Index {
            axis: words.prefixed("")?,
        },
        "cast" => Node::Cast {
            dtype: words.dtype()?,
            arg: words.node()?,
        },
        "rand" => Node::Rand {
            key: words.node()?,
            counter: words.node()?,
        },
        "store" => Node::Store {
            param: words.prefixed("p")?,
            value: words.node()?,
        },
        _ => {
            let single = words.0.clone().count() == 1;
            match (ScalarOp::from_name(op), ReduceOp::from_name(op)) {
                (None, None) => return Err(format!("unknown op {}", quote(op))),
                (None, Some(op)) => Node::Reduce {
                    op,
                    arg: words.node()?,
                },
                (Some(_), Some(op)) if single => Node::Reduce {
                    op,
                    arg: words.node()?,
                },
                (Some(op), _) => {
                    let mut args = [words.node()?; 3];
                    for arg in args.iter_mut().take(op.arity()).skip(1) {
                        *arg = words.node()?;
                    }
                    Node::Op { op, args }
                }
            }
        }
    })
}

/// The bits of a constant: a decimal, `inf`, `-inf`, `true`, `false`, or its bits in hex.
///
/// # Errors
/// A text that is none of `dtype`, as one line.
pub fn parse_literal(dtype: DType, text: &str) -> Result<u64, String> {
    let refuse = || format!("{} is not a constant of {dtype}", quote(text));
    if let Some(digits) = text.strip_prefix("0x") {
        let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        return u64::from_str_radix(digits, 16)
            .ok()
            .filter(|_| hex)
            .ok_or_else(refuse);
    }
    match dtype.class() {
        Class::Bool => match text {
            "false" => Ok(0),
            "true" => Ok(1),
            _ => Err(refuse()),
        },
        Class::Signed | Class::Unsigned => {
            let bits = dtype.size() as u32 * 8;
            let (low, high) = match dtype.class() {
                Class::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                _ => (0, (1i128 << bits) - 1),
            };
            let value = text
                .parse::<i128>()
                .ok()
                .filter(|v| (low..=high).contains(v))
                .ok_or_else(refuse)?;
            Ok(value as u64 & (u64::MAX >> (64 - bits)))
        }
        Class::Float => {
            let infinite = matches!(text, "inf" | "-inf");
            if !infinite && !text.bytes().all(|b| b.is_ascii_digit() || b"+-.e".contains(&b)) {
                return Err(refuse());
            }
            let number = f64::from_str(text).map_err(|_| refuse())?;
            let bits = match dtype {
                // Through f64 it would be rounded twice.
                DType::F32 => f32::from_str(text).map_err(|_| refuse())?.to_bits().into(),
                _ => float_bits(dtype, number),
            };
            let overflow = !float_value(dtype, bits).is_finite();
            if overflow && (!infinite || !dtype.facts().infinite) {
                Err(format!("{} is too large for {dtype}", quote(text)))
            } else {
                Ok(bits)
            }
        }
    }
}

/// `prefix` and a decimal number, nothing else.
fn prefixed(word: &str, prefix: &str) -> Option<u32> {
    let digits = word.strip_prefix(prefix)?;
    digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())
        .flatten()
}

fn quote(word: &str) -> String {
    let cut = if word.chars().nth(40).is_some() { "…" } else { "" };
    let shown: String = word.chars().take(40).flat_map(char::escape_default).collect();
    format!("`{shown}{cut}`")
}

struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.0
            .next()
            .ok_or_else(|| format!("expected {what}, found the end of the line"))
    }

    fn prefixed(&mut self, prefix: &str) -> Result<u32, String> {
        let word = self.next(&format!("`{prefix}N`"))?;
        prefixed(word, prefix).ok_or_else(|| format!("expected `{prefix}N`, found {}", quote(word)))
    }

    fn node(&mut self) -> Result<NodeId, String> {
        self.prefixed("n").map(NodeId)
    }

    fn dtype(&mut self) -> Result<DType, String> {
        let word = self.next("a dtype")?;
        DType::from_str(word).map_err(|_| format!("expected a dtype, found {}", quote(word)))
    }

    fn one_of<T: Copy>(&mut self, all: &[T], name: fn(T) -> &'static str, what: &str) -> Result<T, String> {
        let word = self.next(what)?;
        let found = all.iter().copied().find(|&value| name(value) == word);
        found.ok_or_else(|| format!("expected {what}, found {}", quote(word)))
    }

    fn end(&mut self) -> Result<(), String> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(format!("expected the end of the line, found {}", quote(word))),
        }
    }
}

#[cfg(test)]
mod tests;
