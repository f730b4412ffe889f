//! What the layer looks for, and what becomes of what it finds.

use super::code::{Code, Group};
use thalweg_hal::settings::{Setting, Values, Way};
use thalweg_hal::{Error, Host, Result};

/// What the layer looks for.
pub const OPTIONS: Setting = Setting {
    key: "layer.validate",
    variable: "THALWEG_LAYER_VALIDATE",
    way: Way::Config,
    values: Values::Range(
        "words with `,` between them: `lifetime`, `races`, `bounds`, `contract`, `content`, `warn`",
    ),
    default: "lifetime,races,bounds,contract",
    about: "What the layer `validate` looks for. With `warn` it logs what it finds and lets calls go on; without, they fail. \
            `warn` alone keeps the default checks. `content` costs time and memory. The words are read when a device is opened.",
    read_by: "layer validate",
};

/// The checks that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    groups: u32,
    /// Whether findings are logged and calls go on.
    pub(super) warn: bool,
}

impl Default for Options {
    fn default() -> Options {
        let groups = (Group::ALL.iter())
            .filter(|group| group.is_default())
            .fold(0, |bits, &group| bits | bit(group));
        Options { groups, warn: false }
    }
}

const fn bit(group: Group) -> u32 {
    1 << group as u32
}

impl Options {
    /// What is set.
    pub(super) fn of(host: Host) -> Result<Options> {
        Options::parse(&OPTIONS.of(host).unwrap_or_default())
    }

    pub(super) fn parse(list: &str) -> Result<Options> {
        let (mut groups, mut warn) = (0, false);
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match Group::ALL.iter().find(|group| group.word() == word) {
                Some(&group) => groups |= bit(group),
                None if word == "warn" => warn = true,
                None => return Err(unknown(word)),
            }
        }
        let default = Options::default().groups;
        Ok(Options {
            groups: if groups == 0 { default } else { groups },
            warn,
        })
    }

    /// Whether a group of checks is on.
    #[inline]
    pub(super) fn has(self, group: Group) -> bool {
        self.groups & bit(group) != 0
    }

    /// Whether reports with this code are wanted.
    #[inline]
    pub(super) fn wants(self, code: Code) -> bool {
        self.has(code.group())
    }
}

fn unknown(word: &str) -> Error {
    let words: Vec<_> = Group::ALL.iter().map(|group| group.word()).collect();
    Error::invalid_argument(format!(
        "there is no check `{word}`; the words are {} and warn",
        words.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_groups() {
        let all = Options::default();
        assert!(all.has(Group::Races) && all.has(Group::Lifetime) && !all.has(Group::Content));
        assert_eq!(Options::parse("").unwrap(), all);
        assert_eq!(Options::parse("warn").unwrap(), Options { warn: true, ..all });
        let some = Options::parse(" races, bounds").unwrap();
        assert!(some.wants(Code::ReadAfterWrite) && !some.wants(Code::Left) && !some.warn);
        let error = Options::parse("race").unwrap_err().message;
        assert!(
            error.starts_with("there is no check `race`; the words are lifetime, races"),
            "{error}"
        );
    }
}
