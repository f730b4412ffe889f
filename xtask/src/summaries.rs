//! Event files of a training, read by TensorBoard.

use crate::process::{command, exists, run as execute};
use crate::suite::Skip;
use crate::{Result, plugins, target};
use std::fs;
use std::path::Path;

/// The reader.
const TENSORBOARD: &str = "tensorboard==2.21.0";
/// Bytes of a file, such that the training needs more than twelve.
const FILE_BYTES: &str = "24000";
/// Epochs of twenty steps.
const EPOCHS: u32 = 30;
const STEPS: u32 = 20;

/// Trains and reads what was written. Returns what was left out, and why.
pub(crate) fn run(root: &Path) -> Result<Vec<Skip>> {
    let skip = |why: &str| {
        Ok(vec![Skip {
            needs: "tensorboard".into(),
            what: "event files read by TensorBoard".into(),
            why: why.to_owned(),
        }])
    };
    if !exists("python3") {
        return skip("there is no `python3`");
    }
    let folder = target(root).join("summaries");
    let tools = folder.join("tools");
    if let Err(error) = install(&tools) {
        return skip(&format!("TensorBoard cannot be installed: {error}"));
    }
    let made = folder.join("made");
    if made.exists() {
        fs::remove_dir_all(&made)?;
    }
    let example = plugins::example(root, "summaries")?;
    let (epochs, steps) = (EPOCHS.to_string(), (EPOCHS * STEPS).to_string());
    let mut train = command(root, example, &[]);
    execute(train.arg(&made).args([FILE_BYTES, &epochs]))?;
    let mut read = command(root, "python3", &["summary/gate/read.py"]);
    execute(read.arg(&made).arg(steps).env("PYTHONPATH", &tools)).map(|()| Vec::new())
}

/// What is pinned, into a folder that is kept.
fn install(tools: &Path) -> Result<()> {
    let note = tools.join("installed.txt");
    if fs::read_to_string(&note).unwrap_or_default() == TENSORBOARD {
        return Ok(());
    }
    fs::create_dir_all(tools)?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--upgrade",
    ];
    execute(
        command(tools, "python3", &pip)
            .arg("--target")
            .arg(tools)
            .arg(TENSORBOARD),
    )?;
    Ok(fs::write(note, TENSORBOARD)?)
}
