//! Text for a terminal. Names, paths and messages come from files and plugins: nothing of them may steer the terminal.

use std::error::Error;
use std::fmt::Write as _;

/// Whether a character changes how a terminal shows what follows.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// `text` on one line, with what would steer the terminal written as an escape.
pub(crate) fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        match c {
            '\t' => safe.push(' '),
            // Writing to a string cannot fail.
            c if steers(c) => drop(write!(safe, "{}", c.escape_default())),
            c => safe.push(c),
        }
    }
    safe
}

/// The first line of `text`, safe to print.
pub(crate) fn first_line(text: &str) -> String {
    line(text.lines().next().unwrap_or_default())
}

/// All lines of `text`, safe to print, the later ones behind `indent`.
pub(crate) fn lines(text: &str, indent: &str) -> String {
    text.trim_end()
        .lines()
        .map(line)
        .collect::<Vec<_>>()
        .join(&format!("\n{indent}"))
}

/// `text` with every run of white space as one space.
pub(crate) fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The texts of all causes behind `error`, the nearest first; those that the text before repeats are left out.
pub(crate) fn causes(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if texts.last().is_some_and(|last| !last.contains(&text)) {
            texts.push(text);
        }
        cause = error.source();
    }
    texts.split_off(1)
}

/// A number of bytes as a person reads it: `16.7 GiB`.
pub(crate) fn bytes(count: u64) -> String {
    let (number, unit) = scaled(count, count);
    if unit == "B" {
        format!("{number:.0} B")
    } else {
        format!("{number:.1} {unit}")
    }
}

/// `part` of `whole` in the unit of the whole: `23.1`.
pub(crate) fn part(part: u64, whole: u64) -> String {
    format!("{:.1}", scaled(part, whole).0)
}

fn scaled(count: u64, like: u64) -> (f64, &'static str) {
    let mut exponent = 0;
    while exponent < 4 && like >> (10 * (exponent + 1)) > 0 {
        exponent += 1;
    }
    let unit = ["B", "KiB", "MiB", "GiB", "TiB"][exponent as usize];
    (count as f64 / (1_u64 << (10 * exponent)) as f64, unit)
}

/// `1 device`, `2 devices`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The rows with each column as wide as its widest cell, two spaces apart; the last column is not padded.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let join = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(line("a\x1b[31mred\x07\tb\n"), "a\\u{1b}[31mred\\u{7} b");
        assert_eq!(line("gpu\u{202e}fdp.so"), "gpu\\u{202e}fdp.so");
        assert_eq!(line("línea · 漢字"), "línea · 漢字");
        assert_eq!(lines("one\ntwo\x1b\n", "  "), "one\n  two\\u{1b}");
        assert_eq!(first_line("one\ntwo"), "one");
    }

    #[test]
    fn sizes() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (24 << 30, "24.0 GiB"),
            (3 << 50, "3072.0 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
        assert_eq!(part(512 << 20, 24 << 30), "0.5");
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let rows = [["a", "bb", "c"], ["ééé", "b", ""]].map(|row| row.map(String::from));
        assert_eq!(columns(&rows), ["a    bb  c", "ééé  b"]);
    }

    #[test]
    fn causes_say_something_new() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("cannot be used")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let inner = || std::io::Error::other("the disk is full");
        assert_eq!(causes(&Outer(inner())), ["the disk is full"]);
        assert!(causes(&inner()).is_empty());
    }
}
