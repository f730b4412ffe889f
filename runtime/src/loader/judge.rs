//! Judges a plugin's file without running any of it.

use super::discover::Found;
use super::elf;
use super::error::LoadError;
use super::features;
use super::layout;
use super::lock::{LOCK_FILE, Lock, regular};
use super::trail::{Stage, Trail};
use super::trust;
use std::io::Read;
use std::path::PathBuf;
use thalweg_hal::manifest::{self, ABI, LAYER_KIND, Manifest};
use thalweg_hal::tables::{ENTRY_SYMBOL, LAYER_SYMBOL, LAYOUT};

const MAX_LEN: u64 = 4 << 30;

/// A plugin that may be loaded.
#[derive(Debug)]
pub struct Judged {
    /// What it says of itself.
    pub manifest: Manifest,
    /// Its path with all links followed.
    pub path: PathBuf,
    /// The content that was judged.
    pub bytes: Vec<u8>,
    /// Libraries that the system's loader will look for.
    pub needed: Vec<String>,
    /// Whether a lock file vouches for the content.
    pub locked: bool,
}

impl Judged {
    /// The same, unless it is a layer.
    pub(super) fn backend(self) -> Result<Judged, LoadError> {
        match self.manifest.kind.as_str() {
            LAYER_KIND => Err(LoadError::IsLayer(self.manifest.name)),
            _ => Ok(self),
        }
    }

    /// The same, if it is a layer.
    pub(super) fn layer(self) -> Result<Judged, LoadError> {
        match self.manifest.kind.as_str() {
            LAYER_KIND => Ok(self),
            _ => Err(LoadError::NotALayer(self.manifest.kind)),
        }
    }
}

/// Judges `found`; `lock` is the lock file of its folder, where there is one.
///
/// # Errors
/// The first reason not to load it.
pub fn judge(found: &Found, lock: Option<&Lock>) -> Result<Judged, LoadError> {
    follow(found, lock, &mut Trail::default())
}

/// [`judge`], with a record of the steps.
pub(super) fn follow(found: &Found, lock: Option<&Lock>, trail: &mut Trail) -> Result<Judged, LoadError> {
    trail.enter(Stage::File, Some(&found.path));
    let path = trust::file(&found.path, found.strictness())?;
    let unreadable = |error: std::io::Error| LoadError::Read(error.to_string());
    let mut file = regular(&path).map_err(unreadable)?;
    let len = file.metadata().map_err(unreadable)?.len();
    if len > MAX_LEN {
        return Err(LoadError::TooLarge(len));
    }
    let mut bytes = Vec::new();
    // What does not even begin as a library is not read: it may be large.
    let start = (&mut file).take(elf::MAGIC.len() as u64);
    start.take(len + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes == elf::MAGIC {
        // One byte more than promised shows a file that grows while it is read.
        file.take(len + 1 - bytes.len() as u64)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
    }
    let link = if path == found.path {
        String::new()
    } else {
        format!("{}, ", path.display())
    };
    trail.found(format!("{link}{len} bytes, others may not write it"));
    trail.enter(Stage::Elf, Some(&found.path));
    let elf = elf::check(&bytes)?;
    let needed: Vec<String> = elf.needed.iter().map(ToString::to_string).collect();
    let needs = if needed.is_empty() {
        "no library".into()
    } else {
        needed.join(", ")
    };
    trail.found(format!(
        "a shared library for {}, needs {needs}",
        std::env::consts::ARCH
    ));
    trail.enter(Stage::Manifest, Some(&found.path));
    let manifest = manifest::parse(elf.note.ok_or(LoadError::NoNote)?)?;
    if manifest.abi.major != ABI.major {
        return Err(LoadError::Abi(manifest.abi));
    }
    if manifest.arch != std::env::consts::ARCH {
        return Err(LoadError::Arch(manifest.arch));
    }
    features::check(&manifest.features)?;
    match manifest.kind == LAYER_KIND {
        false if !elf.may_export(ENTRY_SYMBOL) => return Err(LoadError::NoEntry),
        true if !elf.may_export(LAYER_SYMBOL) => return Err(LoadError::NoLayerEntry),
        _ => {}
    }
    let list = |what: &str, list: &[String]| match list {
        [] => String::new(),
        list => format!(", {what} {}", list.join(", ")),
    };
    let Manifest {
        name, version, abi, ..
    } = &manifest;
    let (features, opens) = (list("uses", &manifest.features), list("opens", &manifest.needs));
    trail.found(format!("{name} {version} for thalweg-hal {abi}{features}{opens}"));
    trail.enter(Stage::Layout, Some(&found.path));
    trail.found(match manifest.layout.as_str() {
        "" => "not described by the plugin",
        theirs => {
            layout::check(LAYOUT, theirs, *abi)?;
            "every struct as in this program"
        }
    });
    trail.enter(Stage::Lock, Some(&found.path));
    if let Some(lock) = lock {
        let file = found.path.file_name().unwrap_or_default().to_string_lossy();
        lock.check(&file, &bytes)?;
        trail.found(format!("listed in {LOCK_FILE} with this sha256"));
    } else {
        trail.found(format!("the folder has no {LOCK_FILE}"));
    }
    Ok(Judged {
        manifest,
        path,
        needed,
        locked: lock.is_some(),
        bytes,
    })
}
