//! Names of files and folders.

use super::item::{Item, slot};
use super::options::DumpOptions;
use crate::loader::lock::sha256;
use std::path::{Path, PathBuf};

/// Most bytes of a file's name.
const LONGEST: usize = 200;

/// The folder of an iteration, where `device` is the name of the device's folder.
pub(super) fn folder(options: &DumpOptions, device: &str, graph: u64, iteration: u64) -> PathBuf {
    let net = &options.net_name;
    match options.is_async() {
        false => Path::new(net)
            .join(format!("device_{device}"))
            .join(format!("iteration_{iteration}")),
        true => Path::new(device)
            .join(format!("{net}_graph_{graph}"))
            .join(graph.to_string())
            .join(iteration.to_string()),
    }
}

/// The name of a value's file, less its ending, that the program's thread writes. `turn` counts values of the same name from 1.
pub(super) fn stem(item: &Item, turn: u32) -> String {
    let (io, at) = slot(item.port);
    let extents: Vec<String> = item.shape.iter().map(ToString::to_string).collect();
    let turn = if turn > 1 {
        format!(".{turn}")
    } else {
        String::new()
    };
    format!(
        "{}{turn}_{io}_{at}_shape_{}_{}_DefaultFormat",
        plain(&item.call.name, "--"),
        extents.join("_"),
        item.dtype.facts().long
    )
}

/// As [`stem`], of a value that was the `task`th of its iteration, `micros` after 1970.
pub(super) fn stem_async(item: &Item, task: u64, micros: u128) -> String {
    let (io, at) = slot(item.port);
    let (op, name) = (plain(item.call.op, "_"), plain(&item.call.name, "_"));
    format!("{op}.{name}.{task}.{micros}.{io}.{at}")
}

/// The name of a file; a sum stands for one that is too long.
pub(super) fn file(stem: &str, extension: &str) -> String {
    match stem.len() + 1 + extension.len() <= LONGEST {
        true => format!("{stem}.{extension}"),
        false => format!("{}.{extension}", &sha256(stem.as_bytes())[..32]),
    }
}

/// A name that can be one of a file.
fn plain(name: &str, slash: &str) -> String {
    let shown = |c: char| if c.is_control() { '_' } else { c };
    name.chars().map(shown).collect::<String>().replace('/', slash)
}
