//! What is written of contents, and where to.

use crate::captured::{Contents, hash};
use std::path::PathBuf;
use thalweg_hal::settings::{Setting, Values, Way};
use thalweg_hal::{Error, Host, Result};

/// What is captured.
pub const OPTIONS: Setting = Setting {
    key: "layer.capture",
    variable: "THALWEG_LAYER_CAPTURE",
    way: Way::Config,
    values: Values::Range(
        "`contents=data`, `contents=hash` or `contents=seed`, and `path=FILE`, with `,` between them",
    ),
    default: "contents=data,path=thalweg-{pid}.capture",
    about: "What the layer `capture` writes of bytes that come from the host, and where to. `data` is the bytes. `hash` and `seed` \
            keep them in the house: a replay has zeros in their place, or stand-in values that are drawn from the seed. `{pid}` in the \
            path is the number of the process. The file must not exist. The options are read when the first device is opened.",
    read_by: "layer capture",
};

/// What is written of bytes that come from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    Data,
    Hash,
    Seed,
}

/// What is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) keep: Keep,
    pub(super) path: PathBuf,
}

/// Bytes that are kept of one piece of contents; of more there is a hash alone.
const MOST: usize = 1 << 31;

impl Options {
    /// What is set.
    pub(super) fn of(host: Host) -> Result<Options> {
        Options::parse(&OPTIONS.of(host).unwrap_or_default())
    }

    fn parse(list: &str) -> Result<Options> {
        let (mut keep, mut path) = (Keep::Data, "thalweg-{pid}.capture");
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.split_once('=') {
                Some(("contents", "data")) => keep = Keep::Data,
                Some(("contents", "hash")) => keep = Keep::Hash,
                Some(("contents", "seed")) => keep = Keep::Seed,
                Some(("path", name)) if !name.is_empty() => path = name,
                _ => {
                    return Err(Error::invalid_argument(format!(
                        "layer.capture: `{item}` is no option; options are contents=data, contents=hash, contents=seed and path=FILE"
                    )));
                }
            }
        }
        Ok(Options {
            keep,
            path: path.replace("{pid}", &std::process::id().to_string()).into(),
        })
    }
}

impl Keep {
    /// What is written of these bytes.
    pub(super) fn contents(self, bytes: &[u8]) -> Contents {
        match self {
            Keep::Data if bytes.len() <= MOST => Contents::Data(bytes.to_vec()),
            Keep::Data | Keep::Hash => Contents::Hash(hash(bytes)),
            // Equal bytes have equal stand-in values.
            Keep::Seed => {
                let hash = hash(bytes);
                Contents::Seed {
                    hash,
                    seed: hash.max(1),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let options = Options::parse("contents=seed, path=/x/{pid}.capture").unwrap();
        assert_eq!(options.keep, Keep::Seed);
        assert_eq!(
            options.path,
            PathBuf::from(format!("/x/{}.capture", std::process::id()))
        );
        assert_eq!(Options::parse("").unwrap().keep, Keep::Data);
        for text in ["contents=all", "path=", "data", "contents"] {
            let error = Options::parse(text).unwrap_err().message;
            assert!(
                error.contains(&format!("`{text}` is no option; options are")),
                "{error}"
            );
        }
    }

    #[test]
    fn contents_leave_the_house_when_asked_for() {
        let bytes = [1, 2, 3];
        assert_eq!(Keep::Data.contents(&bytes), Contents::Data(vec![1, 2, 3]));
        assert_eq!(Keep::Hash.contents(&bytes), Contents::Hash(hash(&bytes)));
        let Contents::Seed { hash: found, seed } = Keep::Seed.contents(&bytes) else {
            panic!("another form")
        };
        assert_eq!((found, seed), (hash(&bytes), hash(&bytes)));
    }
}
