//! Names of devices.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// What a user asks for: `cpu`, `cuda:1`, the name of a plugin, or `auto`.
///
/// ```
/// use thalweg_runtime::hal::Target;
/// let target: Target = "cuda:1".parse()?;
/// assert_eq!(target, Target::device("cuda", 1));
/// # Ok::<(), thalweg_runtime::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Target {
    /// The best device that is there. Only the text `auto` means this.
    Auto,
    /// A device of one backend.
    Device {
        /// The backend's name.
        backend: String,
        /// The number on the backend, which may lie outside its range; `None` where none was given.
        id: Option<i64>,
    },
}

impl Target {
    /// Device `id` of a backend.
    pub fn device(backend: impl Into<String>, id: i64) -> Target {
        Target::Device {
            backend: backend.into(),
            id: Some(id),
        }
    }

    /// Reads `auto`, `NAME` or `NAME:ID`. Whether there is such a device is not asked here.
    ///
    /// # Errors
    /// [`Error::DeviceName`] with the text.
    pub fn parse(text: &str) -> Result<Target> {
        let malformed = || Error::DeviceName { asked: text.into() };
        if text == "auto" {
            return Ok(Target::Auto);
        }
        let (name, id) = match text.split_once(':') {
            None => (text, None),
            Some((name, id)) => {
                let digits = id.strip_prefix('-').unwrap_or(id);
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(malformed());
                }
                (name, Some(id.parse().map_err(|_| malformed())?))
            }
        };
        let in_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name == "auto" || !name.bytes().all(in_name) {
            return Err(malformed());
        }
        Ok(Target::Device {
            backend: name.into(),
            id,
        })
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Target> {
        Target::parse(text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Auto => f.write_str("auto"),
            Target::Device { backend, id: None } => f.write_str(backend),
            Target::Device {
                backend,
                id: Some(id),
            } => write!(f, "{backend}:{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let plain = |name: &str| Target::Device {
            backend: name.into(),
            id: None,
        };
        for (text, target) in [
            ("auto", Target::Auto),
            ("cpu", plain("cpu")),
            ("cpu:0", Target::device("cpu", 0)),
            ("opencl:12", Target::device("opencl", 12)),
            ("acme-2_x:-1", Target::device("acme-2_x", -1)),
            ("TPU", plain("TPU")),
        ] {
            assert_eq!(Target::parse(text).unwrap(), target, "{text}");
            assert_eq!(target.to_string(), text);
        }
        for text in [
            "",
            ":",
            ":0",
            "cpu:",
            "cpu:x",
            "cpu:+1",
            "cpu:1:2",
            "cpu: 1",
            "c pu",
            "auto:0",
            "cpu:99999999999999999999",
            "cpu:--1",
        ] {
            let error = Target::parse(text).unwrap_err();
            assert!(
                matches!(&error, Error::DeviceName { asked } if asked == text),
                "{text}: {error}"
            );
        }
    }
}
