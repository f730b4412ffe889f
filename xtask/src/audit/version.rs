//! Versions and requirements as RustSec's advisories write them.

type Version = [u64; 3];

/// The numbers of a version; a part that is left out is 0, what follows `-` or `+` does not count.
fn version(text: &str) -> Option<(Version, usize)> {
    let plain = text.trim().split(['-', '+']).next()?;
    let parts: Vec<u64> = plain
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let mut numbers = [0; 3];
    numbers.get_mut(..parts.len())?.copy_from_slice(&parts);
    Some((numbers, parts.len()))
}

/// Whether `found` fits a requirement such as `>= 1.2, < 2`; `None` when one of them cannot be read.
pub(super) fn fits(requirement: &str, found: &str) -> Option<bool> {
    let (found, _) = version(found)?;
    let mut all = true;
    for part in requirement.split(',') {
        let part = part.trim();
        let (sign, text) = part.split_at(part.find(|c: char| c.is_ascii_digit())?);
        let (wanted, parts) = version(text)?;
        all &= match sign.trim() {
            ">=" => found >= wanted,
            ">" => found > wanted,
            "<=" => found <= wanted,
            "<" => found < wanted,
            "=" => found == wanted,
            "^" | "" => {
                found >= wanted && found < above(wanted, wanted.iter().position(|n| *n > 0).unwrap_or(2))
            }
            "~" => found >= wanted && found < above(wanted, parts.saturating_sub(1).min(1)),
            _ => return None,
        };
    }
    Some(all)
}

/// The first version in which the number at `place` is another one.
fn above(version: Version, place: usize) -> Version {
    let mut next = [0; 3];
    next[..place].copy_from_slice(&version[..place]);
    next[place] = version[place] + 1;
    next
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn requirements() {
        for (requirement, found, answer) in [
            (">= 1.2.3", "1.2.3", true),
            (">= 1.2.3", "1.2.2", false),
            (">= 0.6.14, < 1.0.0", "0.9.0", true),
            (">= 0.6.14, < 1.0.0", "1.0.0", false),
            ("^0.20.2", "0.20.9", true),
            ("^0.20.2", "0.21.0", false),
            ("^ 1.2", "1.9.0", true),
            ("1.2", "2.0.0", false),
            ("~1.2.3", "1.2.9", true),
            ("~1.2.3", "1.3.0", false),
            ("= 1.0.0", "1.0.0-rc.1", true),
            ("<= 0.1.37", "0.1.38", false),
        ] {
            assert_eq!(fits(requirement, found), Some(answer), "{requirement} {found}");
        }
        assert_eq!((fits("newest", "1.0.0"), fits("> 1", "x")), (None, None));
    }
}
