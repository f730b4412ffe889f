//! What a backend is known not to do, each with a reason.

use serde::Deserialize;
use std::str::FromStr;

/// One known exception.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ignore {
    /// Cases, as `group/name`; `*` stands for any text.
    pub case: String,
    /// Why they fail.
    pub reason: String,
}

/// The exceptions of one backend.
///
/// ```
/// let text = "[[ignore]]\ncase = 'kernels/*.f16.*'\nreason = 'the driver rounds f16 to zero'";
/// let ignores: thalweg_conformance::Ignores = text.parse()?;
/// assert_eq!(ignores.reason("kernels/scalar.add.f16.strided"), Some("the driver rounds f16 to zero"));
/// assert_eq!(ignores.reason("kernels/scalar.add.f32.strided"), None);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ignores {
    /// The first that fits a case counts.
    #[serde(default, rename = "ignore")]
    pub list: Vec<Ignore>,
}

impl FromStr for Ignores {
    type Err = String;

    fn from_str(text: &str) -> Result<Ignores, String> {
        let ignores: Ignores = toml::from_str(text).map_err(|error| error.to_string())?;
        match ignores.list.iter().find(|entry| entry.reason.trim().is_empty()) {
            Some(entry) => Err(format!("`{}` is ignored without a reason", entry.case)),
            None => Ok(ignores),
        }
    }
}

/// The lists of this project's own backends.
const KNOWN: [(&str, &str); 1] = [("plainc", include_str!("../../ignores/plainc.toml"))];

impl Ignores {
    /// The exceptions of a backend of this project, by its target name; none for any other.
    pub fn known(backend: &str) -> Ignores {
        let text = KNOWN
            .iter()
            .find(|(name, _)| *name == backend)
            .map(|(_, text)| *text);
        // The lists are parsed in a test.
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Why a case is ignored, if it is.
    pub fn reason(&self, case: &str) -> Option<&str> {
        self.list
            .iter()
            .find(|entry| matches(&entry.case, case))
            .map(|entry| entry.reason.as_str())
    }
}

/// Whether `text` fits `pattern`, where `*` stands for any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len()).any(|at| tail.is_char_boundary(at) && matches(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(matches("memory/*", "memory/double_free"));
        assert!(matches("*.f16.*", "kernels/scalar.add.f16.strided"));
        assert!(matches("*", "") && matches("a*b*c", "a-b-b-c"));
        assert!(!matches("memory/", "memory/x") && !matches("a*b", "abc"));
    }

    #[test]
    fn known_lists_are_sound() {
        let cases: Vec<String> = crate::cases().iter().map(crate::Case::path).collect();
        for (name, text) in KNOWN {
            let ignores: Ignores = text.parse().unwrap();
            assert_eq!(Ignores::known(name), ignores);
            for entry in ignores.list {
                let fits = cases.iter().any(|case| matches(&entry.case, case));
                assert!(fits, "{name}: no case fits `{}`", entry.case);
            }
        }
        assert!(Ignores::known("acme").list.is_empty());
    }

    #[test]
    fn a_reason_is_asked_for() {
        let list = "[[ignore]]\ncase = 'memory/*'\nreason = ' '";
        assert!(list.parse::<Ignores>().unwrap_err().contains("without a reason"));
        assert!("[[ignore]]\ncase = 'memory/*'".parse::<Ignores>().is_err());
        assert!("".parse::<Ignores>().unwrap().list.is_empty());
    }
}
