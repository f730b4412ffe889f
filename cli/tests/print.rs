//! `thalweg print` as a user calls it.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use thalweg::observe::print;
use thalweg::{Context, DType, Tensor};

fn shown(path: &Path) -> (Output, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .arg("print")
        .arg(path)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, said) = (text(&run.stdout), text(&run.stderr));
    (run, out, said)
}

#[test]
fn a_file_is_shown_as_far_as_it_is_whole() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("print-{}", std::process::id()));
    let path = folder.join("a/print.data");
    let builder = Context::builder().device_target("cpu").print_file_path(&path);
    let cx = builder.build().unwrap();
    print(("x\u{1b}[31m", &Tensor::ones([2, 1], DType::I32, &cx)));
    print("");
    print(("y", &Tensor::zeros([0], DType::F64, &cx), "end"));
    let whole = "x\\u{1b}[31m\nTensor(shape=[2, 1], dtype=Int32, value=\n[[1]\n [1]])\n\ny\n\
                 Tensor(shape=[0], dtype=Float64, value=\n[])\nend\n";
    let (run, out, said) = shown(&path);
    assert_eq!(
        (out.as_str(), said.as_str(), run.status.code()),
        (whole, "", Some(0))
    );
    let bytes = std::fs::read(&path).unwrap();
    let without_last = whole.split_once("\ny\n").unwrap().0;
    for cut in [1, 7, 13, 40] {
        std::fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
        let (run, out, said) = shown(&path);
        assert_eq!(
            (out.trim_end(), run.status.code()),
            (without_last.trim_end(), Some(1)),
            "{cut}"
        );
        let line = format!("{}: the file is whole up to byte ", path.display());
        assert!(
            said.starts_with(&line) && said.ends_with("then a frame is cut\n"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1);
    }
    for at in [9, 20, bytes.len() - 3] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        let (run, out, said) = shown(&path);
        assert_eq!((run.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(whole.starts_with(&out), "{at}: {out}");
    }
    std::fs::write(&path, "anything else").unwrap();
    let (run, out, said) = shown(&path);
    assert_eq!((out.as_str(), run.status.code()), ("", Some(1)));
    assert!(
        said.ends_with("print.data: this is no file of prints\n"),
        "{said}"
    );
    std::fs::remove_dir_all(folder).unwrap();
}
