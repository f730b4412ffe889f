//! Plugins that tests build themselves.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the backend in plain C into a folder of its own and returns the file. Libraries from two folders are two
/// backends, each with its own state.
pub(crate) fn plain_c(folder: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = root.join("tests/plugins/plain_c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let files = std::fs::read_dir(&sources)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let library = folder.join("libthalweg_plainc.so");
    // Tests in other processes may build the same file now: each writes its own and puts it in place at once.
    let draft = folder.join(format!("draft.{}", std::process::id()));
    let run = Command::new("cc")
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .args(["-shared", "-fPIC", "-fvisibility=hidden", "-pthread"])
        .arg(format!("-I{}", root.join("hal-api/include").display()))
        .args(files.filter(|file| file.extension().is_some_and(|kind| kind == "c")))
        .arg("-o")
        .arg(&draft)
        .output()
        .unwrap_or_else(|error| panic!("this test needs the compiler `cc`: {error}"));
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    std::fs::rename(draft, &library).unwrap();
    library
}
