//! A reader of dumps that shares nothing with the writer: of manifests, of NumPy's files and of tables.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All files below a folder, by their path in it.
pub(crate) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(root, &path, found),
                false => {
                    let name = path.strip_prefix(root).unwrap().display().to_string();
                    found.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, root, &mut found);
    found
}

/// What a folder's manifest says.
pub(crate) struct Manifest {
    pub(crate) folder: PathBuf,
    pub(crate) json: Value,
}

impl Manifest {
    pub(crate) fn read(folder: &Path) -> Manifest {
        let text = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
        Manifest {
            folder: folder.to_owned(),
            json: serde_json::from_str(&text).unwrap(),
        }
    }

    pub(crate) fn values(&self) -> &[Value] {
        self.json["values"].as_array().unwrap()
    }

    /// The values of a name.
    pub(crate) fn of(&self, name: &str, io: &str) -> Vec<&Value> {
        let is = |value: &&Value| value["name"] == name && value["io"] == io;
        self.values().iter().filter(is).collect()
    }

    /// The elements of a value, of which file, header and sum are right.
    pub(crate) fn elements(&self, value: &Value) -> Vec<u8> {
        let name = value["file"].as_str().unwrap();
        let path = self.folder.join(name);
        assert_eq!(sum(&path), value["sha256"].as_str().unwrap(), "{name}");
        let bytes = std::fs::read(&path).unwrap();
        let extents: Vec<u64> = value["shape"]
            .as_array()
            .unwrap()
            .iter()
            .map(|x| x.as_u64().unwrap())
            .collect();
        let elements = match name.ends_with(".npy") {
            true => npy(&bytes, value["dtype"].as_str().unwrap(), &extents),
            false => bytes,
        };
        assert_eq!(elements.len() as u64, value["bytes"].as_u64().unwrap(), "{name}");
        elements
    }
}

/// The sum of a file, by another program.
fn sum(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace()
        .next()
        .unwrap()
        .trim_start_matches('\\')
        .to_owned()
}

/// The elements of NumPy's file, whose header is as NumPy enhancement proposal 1 says.
fn npy(bytes: &[u8], dtype: &str, extents: &[u64]) -> Vec<u8> {
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
    assert!(
        (10 + length).is_multiple_of(64) && header.ends_with('\n'),
        "{header:?}"
    );
    let kind = match dtype {
        "f64" => "<f8",
        "f32" => "<f4",
        "f16" => "<f2",
        "bf16" => "<V2",
        "i64" => "<i8",
        "i32" => "<i4",
        "i16" => "<i2",
        "i8" => "|i1",
        "u64" => "<u8",
        "u32" => "<u4",
        "u16" => "<u2",
        "u8" => "|u1",
        "bool" => "|b1",
        other => panic!("{other}"),
    };
    let tuple = match extents {
        [one] => format!("({one},)"),
        all => format!(
            "({})",
            all.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
        ),
    };
    let wanted = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple}, }}");
    assert_eq!(header.trim_end(), wanted);
    bytes[10 + length..].to_vec()
}

/// The rows of a table by the names of its columns; no cell has a comma.
pub(crate) fn table(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), names.len(), "{line}");
        let pair = |(name, cell): (&&str, &str)| ((*name).to_owned(), cell.to_owned());
        names.iter().zip(cells).map(pair).collect()
    };
    lines.map(row).collect()
}
