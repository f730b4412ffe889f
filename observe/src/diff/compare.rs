//! Two values of one name.

use super::dump::{Dump, Entry};
use super::{Kind, Wrong};
use crate::error::Result;
use serde_json::Value;
use thalweg::DType;
use thalweg::observe::numbers;

/// What a dtype allows between two devices, as a share of the largest element: 4 roundings to it, or 100 in the sums that made it.
pub(super) fn tolerance(dtype: DType) -> f64 {
    let rounding = |dtype: DType| 0.5_f64.powi(dtype.facts().mantissa as i32);
    match dtype.is_float() {
        true => (4.0 * rounding(dtype)).max(100.0 * rounding(dtype.facts().summed)),
        false => 0.0,
    }
}

/// What was found of two values.
pub(super) struct Found {
    /// How the second differs from the first; `None` where it does not.
    pub(super) kind: Option<Kind>,
    /// The largest error, as [`Value::error`](super::Value::error) has it.
    pub(super) error: f64,
    /// The error that is allowed.
    pub(super) allowed: f64,
}

/// Compares two values of one name.
pub(super) fn compare(one: (&Dump, &Entry), other: (&Dump, &Entry), exact: bool) -> Result<Found> {
    let (a, b) = (one.1, other.1);
    let without_size = |kind: Option<Kind>, allowed: f64| Found {
        error: if kind.is_some() { f64::INFINITY } else { 0.0 },
        kind,
        allowed,
    };
    if a.ty() != b.ty() {
        return Ok(without_size(Some(Kind::Types { a: a.ty(), b: b.ty() }), 0.0));
    }
    let dtype = a.dtype()?;
    let allowed = if exact { 0.0 } else { tolerance(dtype) };
    if let (Some(a), Some(b)) = (a.sum(), b.sum())
        && a == b
    {
        return Ok(without_size(None, allowed));
    }
    match (one.0.elements(a)?, other.0.elements(b)?) {
        (Some(x), Some(y)) => Ok(elements((&x, &y), dtype, &a.shape, allowed)),
        _ if exact && a.sum().is_some() && b.sum().is_some() => Ok(without_size(Some(Kind::Sums), allowed)),
        _ => Ok(without_size(figures(a, b, allowed), allowed)),
    }
}

fn elements((x, y): (&[u8], &[u8]), dtype: DType, shape: &[usize], allowed: f64) -> Found {
    if x == y {
        return Found {
            kind: None,
            error: 0.0,
            allowed,
        };
    }
    let size = dtype.size();
    let same_bits: Vec<bool> = (x.chunks(size).zip(y.chunks(size)))
        .map(|(x, y)| x == y)
        .collect();
    let (a, b) = (numbers(dtype, x), numbers(dtype, y));
    let sizes = a.iter().chain(&b).map(|number| number.abs());
    let largest = sizes.filter(|size| size.is_finite()).fold(0.0, f64::max);
    let error = |at: usize| match (a[at], b[at]) {
        _ if same_bits[at] => 0.0,
        (x, y) if x.is_nan() && y.is_nan() => 0.0,
        (x, y) if x.is_finite() && y.is_finite() && largest > 0.0 => (x - y).abs() / largest,
        (x, y) if x == y => 0.0,
        _ => f64::INFINITY,
    };
    // On one device every bit counts, also the sign of 0 and what a NaN carries.
    let is_wrong = |at: &usize| !same_bits[*at] && (allowed == 0.0 || error(*at) > allowed);
    let wrong: Vec<usize> = (0..a.len()).filter(is_wrong).collect();
    let all = (0..a.len()).map(error).fold(0.0, f64::max);
    let Some(&first) = wrong.first() else {
        return Found {
            kind: None,
            error: all,
            allowed,
        };
    };
    let mut index = Vec::new();
    let mut rest = first;
    for &extent in shape.iter().rev() {
        index.insert(0, rest % extent);
        rest /= extent;
    }
    let kind = Kind::Elements(Wrong {
        index,
        a: a[first],
        b: b[first],
        error: error(first),
        largest: wrong.iter().map(|&at| error(at)).fold(0.0, f64::max),
        count: wrong.len(),
        of: a.len(),
        allowed,
    });
    Found {
        kind: Some(kind),
        error: all,
        allowed,
    }
}

/// Without elements: the first figure that differs.
fn figures(a: &Entry, b: &Entry, allowed: f64) -> Option<Kind> {
    let number = |entry: &Entry, name: &str| entry.statistics.get(name).and_then(Value::as_f64);
    let sizes = ["min", "max"].map(|name| [number(a, name), number(b, name)]);
    let largest = sizes
        .into_iter()
        .flatten()
        .flatten()
        .map(f64::abs)
        .fold(0.0, f64::max);
    // The norm is the square root of a sum over all elements, the others are not larger than the largest element.
    for name in ["nan", "inf", "min", "max", "mean", "l2"] {
        let (Some(x), Some(y)) = (number(a, name), number(b, name)) else {
            continue;
        };
        let scale = match name {
            "nan" | "inf" => 0.0,
            "l2" => x.abs().max(y.abs()),
            _ => largest,
        };
        if (x - y).abs() > allowed * scale {
            return Some(Kind::Figures {
                name: name.to_owned(),
                a: x,
                b: y,
            });
        }
    }
    None
}
