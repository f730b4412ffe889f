//! The compile gate of CUDA sources: NVRTC from PyPI, which holds ptxas, no GPU. Layouts of CUPTI are compared with its headers.

use crate::process::{command, exists, run as execute};
use crate::suite::Skip;
use crate::{Result, plugins, target};
use std::fs;
use std::path::Path;

/// NVRTC of two major versions, and the headers of CUPTI with those that they include.
const WHEELS: [&str; 7] = [
    "nvidia-cuda-nvrtc-cu12==12.9.*",
    "nvidia-cuda-nvrtc==13.*",
    "nvidia-cuda-cupti-cu12==12.9.*",
    "nvidia-cuda-cupti==13.*",
    "nvidia-cuda-runtime-cu12==12.9.*",
    "nvidia-cuda-runtime==13.*",
    "nvidia-cuda-crt==13.*",
];
/// Folders of headers of each major version, in the wheels' own.
const HEADERS: [&[&str]; 2] = [
    &["cuda_cupti/include", "cuda_runtime/include", "cu13/include"],
    &["cu13/include"],
];
/// Which architecture is compiled by which major version.
const ARCHES: [&str; 2] = ["sm_80@12", "sm_90@13"];
/// Most bytes that a kernel may spill, stores and loads together. The worst of the corpus, causal attention of halves under a
/// mask of bool on sm_80, spills 132.
const SPILLS: &str = "132";

/// Compiles and assembles every source of the corpus. Returns what was left out, and why.
pub(crate) fn run(root: &Path) -> Result<Vec<Skip>> {
    let skip = |why: &str| {
        Ok(vec![Skip {
            needs: "python".into(),
            what: "the compile gate of CUDA sources".into(),
            why: why.to_owned(),
        }])
    };
    if !exists("python3") {
        return skip("there is no `python3`");
    }
    let folder = target(root).join("cuda-gate");
    let (environment, sources) = (folder.join("venv"), folder.join("sources"));
    let python = environment.join("bin/python");
    // What was installed last, so that a finished environment is kept.
    let note = environment.join("wheels.txt");
    if fs::read_to_string(&note).unwrap_or_default() != WHEELS.join("\n") {
        let shown = environment.display().to_string();
        if let Err(error) = execute(&mut command(root, "python3", &["-m", "venv", "--clear", &shown])) {
            return skip(&format!("no virtual environment: {error}"));
        }
        let mut install = command(root, &python, &["-m", "pip", "install", "--quiet"]);
        if let Err(error) = execute(install.arg("--disable-pip-version-check").args(WHEELS)) {
            return skip(&format!("the wheels cannot be installed: {error}"));
        }
        fs::write(&note, WHEELS.join("\n"))?;
    }
    // Files of an earlier corpus.
    fs::remove_dir_all(&sources).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    let shown = sources.display().to_string();
    let corpus = plugins::example(root, "corpus")?;
    execute(&mut command(root, corpus, &[&shown]))?;
    let mut compile = command(
        root,
        &python,
        &["backends/cstyle/gate/compile.py", &shown, SPILLS],
    );
    execute(compile.args(ARCHES))?;
    layouts(root, &environment).map(|()| Vec::new())
}

/// Compiles what says where fields of CUPTI's records lie with its headers.
fn layouts(root: &Path, environment: &Path) -> Result<()> {
    let mut wheels = None;
    for python in fs::read_dir(environment.join("lib"))? {
        wheels = Some(python?.path().join("site-packages/nvidia"));
    }
    let wheels = wheels.ok_or("the environment has no library of Python")?;
    for folders in HEADERS {
        let mut compile = command(
            root,
            "cc",
            &["-std=c11", "-fsyntax-only", "tests/plugins/cuda/layouts.c"],
        );
        for folder in folders {
            compile.arg("-I").arg(wheels.join(folder));
        }
        execute(&mut compile)?;
    }
    Ok(())
}
