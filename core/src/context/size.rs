//! Numbers of bytes as users write them.

use std::fmt;

/// A number of bytes, or a text such as `8 GiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// A number and a unit: B, kB, MB, GB, KiB, MiB, GiB, TiB.
    Text(String),
}

impl From<u64> for Size {
    fn from(bytes: u64) -> Size {
        Size::Bytes(bytes)
    }
}

impl From<&str> for Size {
    fn from(text: &str) -> Size {
        Size::Text(text.to_owned())
    }
}

impl Size {
    /// How many bytes; `None` for a text that is no size.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let text = match self {
            Size::Bytes(bytes) => return Some(*bytes),
            Size::Text(text) => text.trim(),
        };
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor = match unit.trim() {
            "" | "B" => 1,
            "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1_u64 << 40,
            _ => 0,
        };
        let number = number.parse::<u64>().ok().filter(|_| factor != 0);
        number.and_then(|number| number.checked_mul(factor))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Bytes(bytes) => write!(f, "{bytes} B"),
            Size::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("512", 512),
            ("3 kB", 3000),
            ("8 GiB", 8 << 30),
            ("1MiB", 1 << 20),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(Size::from(text).bytes().unwrap(), bytes, "{text}");
        }
        for text in ["", "GiB", "-1", "1.5 GiB", "8 gib", "99999999999 TiB"] {
            assert_eq!(Size::from(text).bytes(), None, "{text}");
        }
    }
}
