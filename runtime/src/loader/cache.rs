//! What is remembered of loads in child processes, by the files' content, so that a known file costs none.

use super::discover::privileged;
use super::probe::ProbeOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use thalweg_hal::kit::file::replace;

const VERSION: u32 = 3;
/// More than this is not kept; a cache that has grown over it starts anew.
const MAX_ENTRIES: usize = 4096;
const MAX_LEN: u64 = 4 << 20;

/// The memory of probes; a file that is absent or damaged is an empty memory.
#[derive(Debug)]
pub struct Cache {
    path: Option<PathBuf>,
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    files: BTreeMap<String, ProbeOutcome>,
}

impl Cache {
    /// A memory in the file `path`; none at all for `None`.
    pub fn new(path: Option<PathBuf>) -> Cache {
        Cache { path }
    }

    /// `thalweg/probed.json` in the user's folder for caches; `None` where the environment is not to be trusted or
    /// names no folder.
    pub fn default_path() -> Option<PathBuf> {
        if privileged() {
            return None;
        }
        let absolute = |name: &str| {
            env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(base.join("thalweg/probed.json"))
    }

    /// How the file with the sum `sha256` ended when it was last loaded in a child process.
    pub fn get(&self, sha256: &str) -> Option<ProbeOutcome> {
        read(self.path.as_deref()?).files.remove(sha256)
    }

    /// Remembers `outcome`, where the file alone decides it. A memory that cannot be written costs a child
    /// process next time and nothing else.
    pub fn put(&self, sha256: &str, outcome: &ProbeOutcome) {
        let Some(path) = self.path.as_deref() else { return };
        if !outcome.is_the_files() {
            return;
        }
        let mut content = read(path);
        if content.files.len() >= MAX_ENTRIES {
            content.files.clear();
        }
        content.version = VERSION;
        content.files.insert(sha256.into(), outcome.clone());
        let written = serde_json::to_vec_pretty(&content)
            .map_err(std::io::Error::other)
            .and_then(|text| replace(path, |file| file.write_all(&text)));
        if let Err(error) = written {
            tracing::debug!(path = %path.display(), %error, "the memory of plugin probes cannot be written");
        }
    }
}

fn read(path: &Path) -> Content {
    let fits = fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_LEN);
    let text = if fits {
        fs::read(path).unwrap_or_default()
    } else {
        Vec::new()
    };
    serde_json::from_slice(&text)
        .ok()
        .filter(|content: &Content| content.version == VERSION)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::probe::During;
    use super::*;

    #[test]
    fn outcomes_of_the_file_alone_are_remembered() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b/probed.json");
        let cache = Cache::new(Some(path.clone()));
        let crash = |during| ProbeOutcome::Signal {
            during,
            number: 11,
            said: "why".into(),
        };
        cache.put("aa", &ProbeOutcome::Ok);
        cache.put("bb", &crash(During::Load));
        cache.put("ee", &crash(During::Devices));
        cache.put("gg", &crash(During::End));
        let (during, limit_ms) = (During::Load, 800);
        cache.put("ff", &ProbeOutcome::TimedOut { during, limit_ms });
        cache.put(
            "cc",
            &ProbeOutcome::LoadError {
                text: "libx.so".into(),
            },
        );
        assert_eq!(
            (cache.get("aa"), cache.get("bb")),
            (Some(ProbeOutcome::Ok), Some(crash(During::Load)))
        );
        for absent in ["cc", "ee", "ff", "gg"] {
            assert_eq!(cache.get(absent), None);
        }
        for damaged in ["", "{", r#"{"version":2,"files":{"aa":{"outcome":"ok"}}}"#] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.get("aa"), None);
        }
        cache.put("dd", &ProbeOutcome::Ok);
        assert_eq!(cache.get("dd"), Some(ProbeOutcome::Ok));
    }

    #[test]
    fn nowhere_to_write_is_no_error() {
        Cache::new(None).put("aa", &ProbeOutcome::Ok);
        let cache = Cache::new(Some("/proc/none/probed.json".into()));
        cache.put("aa", &ProbeOutcome::Ok);
        assert_eq!(cache.get("aa"), None);
    }
}
