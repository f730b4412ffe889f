//! A curve in a terminal, from dots of Braille.

use std::fmt::{self, Display};

/// Columns and rows of characters; each has two by four dots.
const COLUMNS: usize = 64;
const ROWS: usize = 8;
/// Bits of a character's dots, from the top; left, then right.
const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];

/// A curve with its axes.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    /// Of the values; may be empty.
    pub(crate) unit: &'a str,
    /// What the points lie along: `step`, `s`.
    pub(crate) along: &'a str,
    pub(crate) points: &'a [(f64, f64)],
}

/// Smallest and largest of what is finite.
fn range(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let finite = values.filter(|value| value.is_finite());
    let low = finite.clone().reduce(f64::min)?;
    Some((low, finite.reduce(f64::max)?))
}

/// Where `value` lies between `low` and `high`, in dots from 0.
fn dot(value: f64, (low, high): (f64, f64), dots: usize) -> usize {
    if high <= low {
        return dots / 2;
    }
    let part = (value - low) / (high - low);
    ((part * (dots - 1) as f64).round() as usize).min(dots - 1)
}

/// Four digits are enough to read off a plot.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if (0.001..100_000.0).contains(&size) => {
            let decimals = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
            let text = format!("{value:.decimals$}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
        _ => format!("{value:.2e}"),
    }
}

impl Plot<'_> {
    /// Characters row by row. A column shows the whole range of the values that fall into it, and points that lie apart are joined.
    fn dots(&self, along: (f64, f64), across: (f64, f64)) -> Vec<[u32; COLUMNS]> {
        let mut ranges = [None::<(usize, usize)>; 2 * COLUMNS];
        let mut before = None::<(usize, usize)>;
        for (x, y) in self.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
            let (column, row) = (dot(*x, along, 2 * COLUMNS), dot(*y, across, 4 * ROWS));
            let (from, begin) = before.unwrap_or((column, row));
            let between = ranges.iter_mut().enumerate().take(column).skip(from + 1);
            for (at, range) in between {
                let part = (at - from) as f64 / (column - from) as f64;
                let joined = (begin as f64 + (row as f64 - begin as f64) * part).round() as usize;
                range.get_or_insert((joined, joined));
            }
            let (low, high) = ranges[column].unwrap_or((row, row));
            ranges[column] = Some((low.min(row), high.max(row)));
            before = Some((column, row));
        }
        let mut rows = vec![[0; COLUMNS]; ROWS];
        for (column, range) in ranges.iter().enumerate() {
            for dot in range.map_or(0..0, |(low, high)| low..high + 1) {
                let from_top = 4 * ROWS - 1 - dot;
                rows[from_top / 4][column / 2] |= DOTS[from_top % 4][column % 2];
            }
        }
        rows
    }
}

impl Display for Plot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let finite = self.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let (Some(along), Some(across)) = (
            range(finite.clone().map(|point| point.0)),
            range(finite.map(|point| point.1)),
        ) else {
            return writeln!(f, "{}: no finite value", self.title);
        };
        let unit = if self.unit.is_empty() { "" } else { " " };
        writeln!(f, "{}{unit}{}", self.title, self.unit)?;
        let (top, bottom) = (short(across.1), short(across.0));
        let width = top.len().max(bottom.len());
        for (at, row) in self.dots(along, across).iter().enumerate() {
            let label = match at {
                0 => &top,
                _ if at == ROWS - 1 => &bottom,
                _ => "",
            };
            let line: String = (row.iter())
                .map(|bits| char::from_u32(0x2800 + bits).unwrap_or(' '))
                .collect();
            writeln!(f, "{label:>width$} ┤{}", line.trim_end_matches('\u{2800}'))?;
        }
        let (first, last) = (short(along.0), format!("{} {}", short(along.1), self.along));
        let space = COLUMNS.saturating_sub(first.chars().count());
        writeln!(f, "{:width$} └{first}{last:>space$}", "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_corner_to_corner() {
        let points: Vec<(f64, f64)> = (1..=128).map(|x| (f64::from(x), f64::from(x))).collect();
        let plot = Plot {
            title: "time",
            unit: "ms",
            along: "step",
            points: &points,
        };
        let text = plot.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines.len()), ("time ms", ROWS + 2));
        assert!(
            lines[1].starts_with("128 ┤⠀") && lines[1].ends_with("⠉"),
            "{text}"
        );
        assert!(lines[8].starts_with("  1 ┤⣀"), "{text}");
        assert!(
            lines[9].starts_with("    └1 ") && lines[9].ends_with("128 step"),
            "{text}"
        );
    }

    #[test]
    fn points_that_lie_apart_are_joined() {
        let plot = Plot {
            title: "loss",
            unit: "",
            along: "step",
            points: &[(1.0, 1.0), (2.0, 2.0)],
        };
        let text = plot.to_string();
        let drawn = |line: &str| {
            line.chars()
                .filter(|c| ('\u{2801}'..='\u{28ff}').contains(c))
                .count()
        };
        assert!(
            text.lines().skip(1).take(ROWS).all(|line| drawn(line) >= 7),
            "{text}"
        );
    }

    #[test]
    fn values_that_are_none_are_left_out() {
        let text = |points: &[(f64, f64)]| {
            let plot = Plot {
                title: "loss",
                unit: "",
                along: "s",
                points,
            };
            plot.to_string()
        };
        assert_eq!(text(&[(0.0, f64::NAN)]), "loss: no finite value\n");
        assert!(text(&[(0.0, f64::INFINITY), (1.0, 5.0)]).contains("5 ┤"));
        assert!(text(&[(0.0, 1.0)]).contains("1 ┤"), "one point");
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (12.0, "12"),
            (37.354, "37.35"),
            (-0.5, "-0.5"),
            (100.0, "100"),
            (0.012_345, "0.01235"),
            (1e9, "1.00e9"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
