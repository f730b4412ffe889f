//! Builds `tests/plugins/tiny` against this workspace's contract or a patched copy of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use thalweg_runtime::loader::discover::file_name;

/// A change to a file of `hal-api`.
pub(crate) struct Patch<'a> {
    pub(crate) file: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
}

/// The path of the plugin `name`, built in a workspace whose contract has `version` and `patches`; a version
/// has one list of patches, as cargo tells what it has built for several workspaces by the version alone.
pub(crate) fn plugin(version: &str, name: &str, patches: &[Patch<'_>]) -> PathBuf {
    static BUILT: Mutex<BTreeMap<(String, String), PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key = (version.to_string(), name.to_string());
    built
        .entry(key)
        .or_insert_with(|| build(version, name, patches))
        .clone()
}

fn build(version: &str, name: &str, patches: &[Patch<'_>]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins");
    fs::create_dir_all(&folder).unwrap();
    // Tests may run as processes of their own, and they build in the same place.
    let turn = fs::File::create(folder.join("turn")).unwrap();
    turn.lock().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let place = folder.join(version);
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (head, rest) = manifest.split_once("members = [").unwrap();
    let (_, tail) = rest.split_once(']').unwrap();
    // The profiles of the workspace make for fast code; here the build is to be fast.
    let tail = tail.split("[profile").next().unwrap();
    let tail = tail.replacen("\nversion = \"1.0.0\"", &format!("\nversion = \"{version}\""), 1);
    let tail = tail.replace("\"~1.0.0\"", &format!("\"{version}\""));
    assert!(
        tail.contains(&format!("\nversion = \"{version}\"")),
        "the workspace is not at 1.0.0"
    );
    write(
        &place.join("Cargo.toml"),
        &format!("{head}members = [\"hal-api\", \"tiny\"]{tail}"),
    );
    write(
        &place.join("Cargo.lock"),
        &fs::read_to_string(root.join("Cargo.lock")).unwrap(),
    );
    copy(&root.join("hal-api"), &place.join("hal-api"), patches);
    copy(&root.join("tests/plugins/tiny"), &place.join("tiny"), &[]);
    let target = folder.join("target");
    // The file's name is the same for every version: one that is there may be another's.
    for folder in ["debug", "debug/deps"] {
        let _ = fs::remove_file(target.join(folder).join(file_name("tiny")));
    }
    let done = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--offline", "-p", "thalweg-tiny"])
        .current_dir(&place)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("THALWEG_TINY_NAME", name)
        .status()
        .unwrap();
    assert!(done.success(), "the plugin {name} of {version} does not build");
    let file = place.join(file_name(name));
    // Another process may be reading the one that is there.
    let fresh = place.join("fresh");
    fs::copy(target.join("debug").join(file_name("tiny")), &fresh).unwrap();
    fs::rename(fresh, &file).unwrap();
    file
}

/// Copies sources, writing what has changed only, so that cargo keeps what it has built.
fn copy(from: &Path, to: &Path, patches: &[Patch<'_>]) {
    copy_folder(
        from,
        to,
        &mut |relative, text| {
            for patch in patches.iter().filter(|patch| Path::new(patch.file) == relative) {
                assert!(
                    text.contains(patch.from),
                    "{} has no `{}`",
                    patch.file,
                    patch.from
                );
                *text = text.replace(patch.from, patch.to);
            }
        },
        Path::new(""),
    );
}

fn copy_folder(from: &Path, to: &Path, change: &mut dyn FnMut(&Path, &mut String), relative: &Path) {
    for entry in fs::read_dir(from.join(relative)).unwrap().flatten() {
        let relative = relative.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(from, to, change, &relative);
        } else if let Ok(mut text) = fs::read_to_string(entry.path()) {
            change(&relative, &mut text);
            write(&to.join(&relative), &text);
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if fs::read_to_string(path).ok().as_deref() != Some(text) {
        fs::write(path, text).unwrap();
    }
}
