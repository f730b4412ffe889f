//! A new backend from the reference backend.

use crate::process::{cargo, run as execute};
use crate::{Result, files, target};
use std::fs;
use std::path::Path;

const TEMPLATE: &str = "backends/reference";

/// Makes the backend and says what comes next.
pub(crate) fn run(root: &Path, name: &str) -> Result<()> {
    make(root, root, name)?;
    println!("backends/{name} is ready; next:");
    println!("  cargo build --release -p thalweg-{name}");
    println!("  cargo run --release -p thalweg-cli -- conform target/release/libthalweg_{name}.so");
    println!("docs/writing-a-backend.md says which functions to fill in.");
    Ok(())
}

/// Copies the reference backend into `backends/NAME` of the workspace `to` and makes it a member.
fn make(root: &Path, to: &Path, name: &str) -> Result<()> {
    let word = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 32
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !word {
        return Err(
            format!("{name:?} cannot name a backend: 1 to 32 of a-z, 0-9 and _, a letter first").into(),
        );
    }
    let folder = to.join("backends").join(name);
    if folder.exists() {
        return Err(format!("backends/{name} exists already").into());
    }
    for file in files(root)?.iter().filter(|file| file.starts_with(TEMPLATE)) {
        let to = folder.join(file.strip_prefix(TEMPLATE)?);
        fs::create_dir_all(to.parent().unwrap_or(&folder))?;
        let text = if file.ends_with("README.md") {
            format!("# thalweg-{name}\n\nThe {name} backend of thalweg as a plugin.\n")
        } else {
            renamed(&fs::read_to_string(root.join(file))?, name)
        };
        fs::write(to, text)?;
    }
    let manifest = to.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    let member = format!("    \"{TEMPLATE}\",\n");
    if !text.contains(&member) {
        return Err(format!("Cargo.toml has no line {:?}", member.trim()).into());
    }
    let members = format!("{member}    \"backends/{name}\",\n");
    fs::write(&manifest, text.replacen(&member, &members, 1))?;
    // A longer or shorter name breaks lines elsewhere.
    execute(&mut cargo(to, &["fmt", "--package", &format!("thalweg-{name}")]))
}

/// The template's text with the names of the new backend.
fn renamed(text: &str, name: &str) -> String {
    let camel: String = name
        .split('_')
        .filter_map(|part| part.split_at_checked(1))
        .flat_map(|(first, rest)| [first.to_uppercase(), rest.to_owned()])
        .collect();
    let mut out = String::new();
    let mut intro = text.starts_with("//! The reference backend");
    if intro {
        out += &format!(
            "//! The {name} backend. It starts as a copy of the reference backend, which computes on the host: give it a device\n\
             //! of its own.\n"
        );
    }
    for line in text.lines() {
        if intro && line.starts_with("//!") {
            continue;
        }
        intro = false;
        if line.starts_with("description = ") {
            out += &format!("description = \"The {name} backend\"\n");
            continue;
        }
        out += &line
            .replace("thalweg-reference", &format!("thalweg-{name}"))
            .replace("\"reference\"", &format!("\"{name}\""))
            .replace("Reference", &camel);
        out.push('\n');
    }
    out
}

/// Makes a backend in a copy of the workspace, tests it there, and has the conformance kit judge it.
pub(crate) fn check(root: &Path) -> Result<()> {
    let copy = target(root).join("new-backend-check");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    for file in files(root)? {
        let to = copy.join(&file);
        fs::create_dir_all(to.parent().unwrap_or(&copy))?;
        fs::copy(root.join(&file), to)?;
    }
    make(root, &copy, "acme_one")?;
    // Dependencies that are built already serve the copy too.
    let build = target(root);
    let library = build.join("debug/libthalweg_acme_one.so");
    for task in ["test", "build"] {
        // As the template is: the kit computes with it.
        let optimised = "--config=profile.dev.package.thalweg-acme_one.opt-level=1";
        let task = [optimised, task, "--package", "thalweg-acme_one"];
        execute(cargo(&copy, &task).env("CARGO_TARGET_DIR", &build))?;
    }
    let judged = crate::ci::conform(root, &library.display().to_string());
    // Programs of this build would find it there.
    fs::remove_file(&library)?;
    fs::remove_dir_all(&copy)?;
    judged
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn names_are_replaced() {
        let text = "//! The reference backend: the\n//! definition.\n\nNAME = \"reference\"; struct ReferenceBackend;\n";
        assert_eq!(
            renamed(text, "acme_one"),
            "//! The acme_one backend. It starts as a copy of the reference backend, which computes on the host: give it \
             a device\n//! of its own.\n\nNAME = \"acme_one\"; struct AcmeOneBackend;\n"
        );
        assert_eq!(
            renamed("name = \"thalweg-reference\"\ndescription = \"x\"", "acme"),
            "name = \"thalweg-acme\"\ndescription = \"The acme backend\"\n"
        );
    }
}
