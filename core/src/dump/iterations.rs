//! Which iterations are dumped.

use super::options::refused;
use crate::options::by_name::{WrongOption, wrong};
use std::fmt;
use std::str::FromStr;

/// Most parts of a list.
const MOST: usize = 100;
/// What is allowed, for messages.
const GRAMMAR: &str = "write all, or numbers from 0 and ranges a-b with a < b, with | between them: 0|3-5|10";

/// Iterations, which count from 0: all of them, or numbers and ranges with `|` between them.
///
/// ```
/// use thalweg::observe::Iterations;
/// let some: Iterations = "0|3-5|10".parse()?;
/// let picked: Vec<u64> = (0..20).filter(|&iteration| some.has(iteration)).collect();
/// assert_eq!(picked, [0, 3, 4, 5, 10]);
/// let error = "0|5-3".parse::<Iterations>().unwrap_err();
/// assert!(error.to_string().starts_with(r#"dump: iteration is 0|5-3; its part 2, "5-3", is no range"#));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Iterations {
    // Inclusive; `None`, the default, for all.
    ranges: Option<Vec<(u64, u64)>>,
}

impl Iterations {
    /// Every iteration.
    pub const ALL: Iterations = Iterations { ranges: None };

    /// One iteration.
    pub fn one(iteration: u64) -> Iterations {
        Iterations {
            ranges: Some(vec![(iteration, iteration)]),
        }
    }

    /// Whether the iteration by this number is one of them.
    pub fn has(&self, iteration: u64) -> bool {
        let in_range = |(first, last): &(u64, u64)| (*first..=*last).contains(&iteration);
        self.ranges
            .as_ref()
            .is_none_or(|ranges| ranges.iter().any(in_range))
    }

    /// The iterations that the text of a key says.
    pub(crate) fn parse(key: &str, text: &str) -> Result<Iterations, WrongOption> {
        if text == "all" {
            return Ok(Iterations::ALL);
        }
        let parts: Vec<&str> = text.split('|').collect();
        if parts.len() > MOST {
            let why = format!("it has {} parts, at most {MOST} are possible", parts.len());
            return Err(wrong(key, text, &why));
        }
        let range = |(at, part): (usize, &&str)| {
            range_of(part).map_err(|why| {
                let shown: String = part.chars().take(40).collect();
                let value = if text.is_empty() { "empty" } else { text };
                wrong(
                    key,
                    value,
                    &format!("its part {}, {shown:?}, {why}; {GRAMMAR}", at + 1),
                )
            })
        };
        let ranges = parts.iter().enumerate().map(range).collect::<Result<_, _>>()?;
        Ok(Iterations { ranges: Some(ranges) })
    }
}

/// The first and the last iteration of a part, or what is wrong with it.
fn range_of(part: &str) -> Result<(u64, u64), &'static str> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits)
    };
    match part.split_once('-') {
        None if part.is_empty() => Err("is empty"),
        None => number(part).map(|one| (one, one)).ok_or("is no number"),
        Some((first, last)) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first < last => Ok((first, last)),
            (Some(_), Some(_)) => Err("is no range: its begin is not below its end"),
            (Some(_), None) if last.is_empty() => Err("is no range: it has no end"),
            (Some(_) | None, _) => Err("is no range of two numbers"),
        },
    }
}

impl FromStr for Iterations {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Iterations> {
        Iterations::parse("iteration", text).map_err(refused)
    }
}

impl fmt::Display for Iterations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(ranges) = &self.ranges else {
            return f.write_str("all");
        };
        for (at, (first, last)) in ranges.iter().enumerate() {
            let bar = if at == 0 { "" } else { "|" };
            match first == last {
                true => write!(f, "{bar}{first}")?,
                false => write!(f, "{bar}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_parts_are_named() {
        for (text, named) in [
            (
                "5-3",
                r#"its part 1, "5-3", is no range: its begin is not below its end"#,
            ),
            (
                "3-3",
                r#"its part 1, "3-3", is no range: its begin is not below its end"#,
            ),
            ("", r#"its part 1, "", is empty"#),
            ("a", r#"its part 1, "a", is no number"#),
            ("0||1", r#"its part 2, "", is empty"#),
            ("1-", r#"its part 1, "1-", is no range: it has no end"#),
            ("-1", r#"its part 1, "-1", is no range of two numbers"#),
            ("0|1-2-3", r#"its part 2, "1-2-3", is no range"#),
            ("1|+2", r#"its part 2, "+2", is no number"#),
            (" 1", r#"its part 1, " 1", is no number"#),
            ("18446744073709551616", "is no number"),
            ("1|", r#"its part 2, "", is empty"#),
        ] {
            let message = text.parse::<Iterations>().unwrap_err().to_string();
            assert!(message.starts_with("dump: iteration is "), "{message}");
            assert!(message.contains(named), "{text}: {message}");
            assert_eq!(message.lines().count(), 1);
        }
        let many = |count: usize| vec!["7"; count].join("|").parse::<Iterations>();
        assert!(many(100).unwrap().has(7));
        let message = many(101).unwrap_err().to_string();
        assert!(
            message.ends_with("it has 101 parts, at most 100 are possible"),
            "{message}"
        );
    }

    #[test]
    fn a_text_comes_back() {
        for text in ["all", "0|3-5|10", "18446744073709551615"] {
            assert_eq!(text.parse::<Iterations>().unwrap().to_string(), text);
        }
        assert!(Iterations::ALL.has(u64::MAX));
        assert!(Iterations::one(3).has(3) && !Iterations::one(3).has(4));
    }
}
