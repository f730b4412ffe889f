//! Plugins that tests build themselves, and those of this build.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod skip;
pub(crate) mod tried;

use skip::cannot_run;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A plugin of this build, by its package with underscores.
pub(crate) fn built(package: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let profile = exe.ancestors().nth(2).unwrap();
    let file = profile.join(format!("lib{package}.so"));
    if !file.exists() {
        cannot_run("plugin", format!("{} is missing", file.display()));
    }
    file
}

/// What a compiler wrote and how it ended.
fn compiled(command: &mut Command) -> Output {
    let name = command.get_program().display().to_string();
    match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            cannot_run("compiler", format!("there is no `{name}`"))
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

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
    let run = compiled(
        Command::new("cc")
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"])
            .args(["-shared", "-fPIC", "-fvisibility=hidden", "-pthread"])
            .arg(format!("-I{}", root.join("hal-api/include").display()))
            .args(files.filter(|file| file.extension().is_some_and(|kind| kind == "c")))
            .arg("-o")
            .arg(&draft),
    );
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    std::fs::rename(draft, &library).unwrap();
    library
}

/// Compiles `tests/plugins/quota_c` as the layer `name` into a folder of its own and returns the file.
pub(crate) fn layer_c(folder: &str, name: &str, defines: &[&str]) -> PathBuf {
    layer_of("tests/plugins/quota_c/quota.c", folder, name, defines)
}

/// Compiles the source of a layer.
pub(crate) fn layer_of(source: &str, folder: &str, name: &str, defines: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    // A folder that an earlier run has left may have more in it.
    let file = folder.join(format!("libthalweg_layer_{name}.so"));
    std::fs::create_dir_all(&folder).unwrap();
    let _ = std::fs::remove_file(folder.join("thalweg-plugins.lock"));
    let run = compiled(
        Command::new("cc")
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"])
            .args(["-shared", "-fPIC", "-fvisibility=hidden"])
            .args(defines.iter().map(|define| format!("-D{define}")))
            .arg(format!("-I{}", root.join("hal-api/include").display()))
            .arg(root.join(source))
            .arg("-o")
            .arg(&file),
    );
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    file
}

/// Compiles `tests/plugins/opencl/faults.c`, the machine's OpenCL loader with faults.
pub(crate) fn opencl_faults() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("opencl_faults");
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join(format!("libOpenCL_faults.{}.so", std::process::id()));
    let run = compiled(
        Command::new("cc")
            .args([
                "-std=c11",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-shared",
                "-fPIC",
                "-fvisibility=hidden",
            ])
            .arg(root.join("tests/plugins/opencl/faults.c"))
            .args(["-Wl,--no-as-needed", "-l:libOpenCL.so.1", "-ldl", "-o"])
            .arg(&library),
    );
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    library
}

/// Compiles the stand-in for libcuda, NVRTC, cuBLASLt and CUPTI (`tests/plugins/cuda`; no GPU is behind it) into a folder, for
/// `cuda.libraries`. `options` go to the compiler.
pub(crate) fn cuda_standin(name: &str, options: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = root.join("tests/plugins/cuda");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let prelude = format!("-DPRELUDE=\"{}\"", sources.join("kernel.h").display());
    let own_folder = format!("-L{}", folder.display());
    // Those of cuBLASLt and CUPTI call the one for the driver.
    let linked: &[&str] = &[&own_folder, "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"];
    let libraries: [(&str, &[&str], &[&str]); 4] = [
        (
            "libcuda.so.1",
            &["driver.cpp", "memory.cpp", "stream.cpp", "graph.cpp"],
            &["-Wl,-soname,libcuda.so.1"],
        ),
        ("libnvrtc.so.13", &["nvrtc.cpp"], &[]),
        ("libcublasLt.so.13", &["lt.cpp"], linked),
        ("libcupti.so.13", &["cupti.cpp"], linked),
    ];
    let changed = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    let files = std::fs::read_dir(&sources).unwrap();
    let latest = files
        .map(|entry| entry.unwrap().path())
        .chain([root.join("tests/tests/plugins/mod.rs")])
        .filter_map(|file| changed(&file))
        .max();
    for (library, files, links) in libraries {
        // Each test has a process of its own, and nearly all of them find what an earlier one built.
        if changed(&folder.join(library)) > latest {
            continue;
        }
        let draft = folder.join(format!("{library}.{}", std::process::id()));
        let run = compiled(
            Command::new("c++")
                .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"])
                .args(["-shared", "-fPIC", "-fvisibility=hidden", "-pthread"])
                .arg(&prelude)
                .args(options)
                .args(files.iter().map(|file| sources.join(file)))
                .args(links)
                .arg("-o")
                .arg(&draft),
        );
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        std::fs::rename(draft, folder.join(library)).unwrap();
    }
    folder
}
