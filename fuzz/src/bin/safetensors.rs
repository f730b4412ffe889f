//! Any file is an archive of tensors or refused, and its tensors are saved and read back to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::LazyLock;
use tempfile::TempDir;
use thalweg::Tensor;
use thalweg::interchange::npy;
use thalweg::interchange::safetensors::{Archive, save};
use thalweg_fuzz::context;

/// An archive in a file without a name, so that none is left.
fn archive(data: &[u8]) -> Option<Archive> {
    let mut file = tempfile::tempfile().expect("the system gives a file");
    std::io::Write::write_all(&mut file, data).expect("the system takes bytes");
    Archive::open(path(&file)).ok()
}

fn path(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn tensors(archive: &Archive) -> Vec<(String, Tensor)> {
    let names = archive.names().map(str::to_owned);
    names
        .filter_map(|name| Some((name.clone(), archive.tensor(&name, context()).ok()?)))
        .collect()
}

fuzz_target!(|data: &[u8]| {
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("the system gives a folder"));
    let Some(read) = archive(data) else { return };
    let tensors = tensors(&read);
    let pairs: Vec<(&str, &Tensor)> = tensors.iter().map(|(name, tensor)| (&**name, tensor)).collect();
    let texts: Vec<_> = read.metadata().iter().collect();
    let path = FOLDER.path().join("saved");
    save(&path, &pairs, &texts).expect("what was read is saved");
    let again = Archive::open(&path).expect("what was saved is read");
    fs::remove_file(&path).expect("the file is there");
    assert_eq!(again.metadata(), read.metadata());
    assert_eq!(again.names().count(), pairs.len());
    for (name, tensor) in pairs {
        let other = again.tensor(name, context()).expect("a tensor that was saved");
        assert_eq!(other.shape().ok(), tensor.shape().ok());
        assert_eq!(npy::encode(&other).ok(), npy::encode(tensor).ok());
    }
});
