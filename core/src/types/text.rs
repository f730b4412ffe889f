//! Elements as text, laid out as NumPy lays out arrays.
//!
//! Floats show the fewest digits that read back as the same element, at most 8 behind the point; all elements of an array have one
//! width.

use super::element::{self, of_bytes};
use super::scalar::Scalar;
use super::shape::Shape;
use crate::hal::DType;
use thalweg_hal::narrow;

/// Characters of a line.
const WIDTH: usize = 75;
/// Elements shown at either end of an axis that is cut.
pub(crate) const EDGE: usize = 3;
/// Digits behind the point.
const PRECISION: usize = 8;

/// The elements of an array of this shape, row-major, by their bits. Along an axis that `is_cut`, dots stand behind the first [`EDGE`].
pub(crate) fn laid_out(
    shape: Shape,
    dtype: DType,
    elements: &[u64],
    is_cut: &dyn Fn(usize) -> bool,
) -> String {
    if shape.elements() == 0 {
        return "[]".into();
    }
    let mut text = String::new();
    Layouter {
        shape,
        words: &words(dtype, elements),
        is_cut,
    }
    .write(&mut text, 0, 0);
    text
}

/// `Tensor(shape=[2, 1], dtype=Int32, value=…)` of the bytes of all elements, row-major.
pub(crate) fn array(shape: Shape, dtype: DType, bytes: &[u8]) -> String {
    let text = laid_out(shape, dtype, &of_bytes(dtype, bytes), &|_| false);
    described(shape, dtype, &text)
}

/// What [`array`] is, around the text of its elements.
pub(crate) fn described(shape: Shape, dtype: DType, elements: &str) -> String {
    let gap = if shape.is_empty() { ' ' } else { '\n' };
    format!(
        "Tensor(shape={shape}, dtype={}, value={gap}{elements})",
        dtype.facts().long
    )
}

/// The elements as f64, rounded where that is too narrow. Bytes behind the last whole element are none.
pub fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    element::numbers(dtype, &of_bytes(dtype, bytes))
}

struct Layouter<'a> {
    shape: Shape,
    words: &'a [String],
    is_cut: &'a dyn Fn(usize) -> bool,
}

impl Layouter<'_> {
    /// Writes the part whose first word is `start`, along `axis` and those behind it.
    fn write(&self, text: &mut String, axis: usize, start: usize) {
        if axis == self.shape.len() {
            text.push_str(&self.words[start]);
            return;
        }
        let step: usize = self.shape[axis + 1..].iter().product();
        text.push('[');
        if axis + 1 == self.shape.len() {
            self.line(text, axis, start);
        } else {
            let gap = "\n".repeat(self.shape.len() - axis - 1) + &" ".repeat(axis + 1);
            for i in 0..self.shape[axis] {
                if i > 0 {
                    text.push_str(&gap);
                }
                if i == EDGE && (self.is_cut)(axis) {
                    text.push_str("...");
                    text.push_str(&gap);
                }
                self.write(text, axis + 1, start + i * step);
            }
        }
        text.push(']');
    }

    /// Writes the elements of the last axis, in lines that leave room for the brackets behind them.
    fn line(&self, text: &mut String, axis: usize, start: usize) {
        let indent = axis + 1;
        let room = WIDTH - self.shape.len().min(WIDTH / 2);
        let mut column = indent;
        let mut put = |word: &str, first: bool| {
            let gap = usize::from(!first);
            if column + gap + word.len() > room && column > indent {
                text.truncate(text.trim_end_matches(' ').len());
                text.push('\n');
                text.push_str(&" ".repeat(indent));
                column = indent;
            } else if !first {
                text.push(' ');
                column += 1;
            }
            text.push_str(word);
            column += word.len();
        };
        for i in 0..self.shape[axis] {
            if i == EDGE && (self.is_cut)(axis) {
                put("...", false);
            }
            put(&self.words[start + i], i == 0);
        }
    }
}

/// One word an element, all of one width.
fn words(dtype: DType, data: &[u64]) -> Vec<String> {
    if dtype.is_float() {
        // f64 holds the elements of each float.
        return floats(&element::numbers(dtype, data), dtype);
    }
    let text = |&bits: &u64| match Scalar::from_bits(dtype, bits) {
        Scalar::Bool(truth) => if truth { "True" } else { "False" }.to_owned(),
        Scalar::Int(number) => number.to_string(),
        Scalar::Float(number) => number.to_string(),
    };
    let words: Vec<String> = data.iter().map(text).collect();
    let width = words.iter().map(String::len).max().unwrap_or(0);
    words.into_iter().map(|word| format!("{word:>width$}")).collect()
}

/// A finite float in decimal: sign, digits before and behind the point, without zeros at the end.
struct Decimal {
    whole: String,
    fraction: String,
}

fn floats(data: &[f64], dtype: DType) -> Vec<String> {
    let finite = || data.iter().copied().filter(|value| value.is_finite());
    let sizes = || finite().map(f64::abs).filter(|&size| size != 0.0);
    let (max, min) = (sizes().fold(0.0, f64::max), sizes().fold(f64::INFINITY, f64::min));
    let scientific = max >= 1e8 || (max > 0.0 && (min < 1e-4 || max / min > 1000.0));
    let special = |value: f64| match () {
        () if value.is_nan() => Some("nan"),
        () if value == f64::INFINITY => Some("inf"),
        () if value == f64::NEG_INFINITY => Some("-inf"),
        () => None,
    };
    let specials = data
        .iter()
        .filter_map(|&value| special(value))
        .map(str::len)
        .max()
        .unwrap_or(0);
    let word: Box<dyn Fn(f64) -> String> = if scientific {
        let parts: Vec<(String, i32)> = finite().map(|value| exponential(value, dtype)).collect();
        let digits = parts
            .iter()
            .map(|(mantissa, _)| behind_point(mantissa))
            .max()
            .unwrap_or(0);
        let exponent = parts
            .iter()
            .map(|(_, exponent)| exponent.unsigned_abs().to_string().len())
            .max();
        let exponent = exponent.unwrap_or(0).max(2);
        Box::new(move |value| {
            // More digits than an element needs are those of its exact value, as in NumPy.
            let text = format!("{value:.digits$e}");
            let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
            let point = if digits == 0 { "." } else { "" };
            let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
            format!("{mantissa}{point}e{sign}{power:0>exponent$}")
        })
    } else {
        let width = finite()
            .map(|value| decimal(value, dtype).fraction.len())
            .max()
            .unwrap_or(0);
        Box::new(move |value| {
            let Decimal { whole, fraction } = decimal(value, dtype);
            format!("{whole}.{fraction: <width$}")
        })
    };
    let words: Vec<String> = data
        .iter()
        .map(|&value| special(value).map_or_else(|| word(value), str::to_owned))
        .collect();
    let width = words.iter().map(String::len).max().unwrap_or(0).max(specials);
    words.into_iter().map(|word| format!("{word:>width$}")).collect()
}

fn behind_point(mantissa: &str) -> usize {
    mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

/// The fewest digits that read back as the same element, in Rust's exponent form.
fn shortest(value: f64, dtype: DType) -> String {
    match dtype {
        DType::F64 => format!("{value:e}"),
        DType::F32 => format!("{:e}", value as f32),
        _ => {
            // Narrower floats: the first length that comes back.
            let back = |text: &str| {
                let read: f64 = text.parse().unwrap_or(f64::NAN);
                narrow::float_value(dtype, narrow::float_bits(dtype, read)) == value
            };
            (0..8)
                .map(|digits| format!("{value:.digits$e}"))
                .find(|text| back(text))
                .map_or_else(
                    || format!("{value:e}"),
                    |text| {
                        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                        let mantissa = if mantissa.contains('.') {
                            mantissa.trim_end_matches('0').trim_end_matches('.')
                        } else {
                            mantissa
                        };
                        format!("{mantissa}e{exponent}")
                    },
                )
        }
    }
}

/// Mantissa with at most [`PRECISION`] digits behind the point, and exponent.
fn exponential(value: f64, dtype: DType) -> (String, i32) {
    let split = |text: &str| {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        (mantissa.to_owned(), exponent.parse().unwrap_or(0))
    };
    let (mantissa, exponent) = split(&shortest(value, dtype));
    if behind_point(&mantissa) <= PRECISION {
        return (mantissa, exponent);
    }
    let (mantissa, exponent) = split(&format!("{value:.PRECISION$e}"));
    let trimmed = mantissa.trim_end_matches('0').trim_end_matches('.').to_owned();
    (trimmed, exponent)
}

/// The element without an exponent, at most [`PRECISION`] digits behind the point.
fn decimal(value: f64, dtype: DType) -> Decimal {
    let text = shortest(value, dtype);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |rest| ("-", rest));
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{first}{rest}");
    let point = first.len() as i32 + exponent;
    let (whole, fraction) = if point <= 0 {
        (
            "0".to_owned(),
            "0".repeat(point.unsigned_abs() as usize) + &digits,
        )
    } else if point as usize >= digits.len() {
        (
            format!("{digits:0<width$}", width = point as usize),
            String::new(),
        )
    } else {
        (
            digits[..point as usize].to_owned(),
            digits[point as usize..].to_owned(),
        )
    };
    if fraction.len() <= PRECISION {
        let fraction = fraction.trim_end_matches('0').to_owned();
        let whole = format!("{sign}{whole}");
        return Decimal { whole, fraction };
    }
    let rounded = format!("{value:.PRECISION$}");
    let (whole, fraction) = rounded.split_once('.').unwrap_or((&rounded, ""));
    Decimal {
        whole: whole.to_owned(),
        fraction: fraction.trim_end_matches('0').to_owned(),
    }
}
