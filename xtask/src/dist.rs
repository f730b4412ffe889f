//! What users of the library download: an archive with the plugins, which `thalweg plugins install` takes.

use crate::process::{capture, cargo, command, run as execute};
use crate::{Result, plugins, target};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Plugins that users get. The reference backend is slow on purpose, and so for authors of backends, who have the sources.
const PACKAGES: [&str; 3] = ["thalweg-cpu", "thalweg-cuda", "thalweg-opencl"];
/// Most bytes of a plugin, and of the command.
const CEILING: u64 = 12 << 20;
/// Licences of what the plugins are built of.
const NOTICES: &str = "THIRD-PARTY.txt";

/// Builds the archive, installs it into an empty folder, and has the plugins judged there.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut build = cargo(root, &["build", "--profile", "dist", "--package", "thalweg-cli"]);
    for package in PACKAGES {
        build.args(["--package", package]);
    }
    execute(&mut build)?;
    let built = target(root).join("dist");
    let thalweg = built.join("thalweg");
    let packages = metadata(root)?;
    let (version, host) = (env!("CARGO_PKG_VERSION"), host(root)?);
    let name = format!("thalweg-plugins-{version}-{host}");
    let out = built.join("archives");
    let folder = out.join(&name);
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&folder)?;
    for place in [&out, &folder] {
        fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
    }
    let mut sizes = vec![("thalweg".to_owned(), fs::metadata(&thalweg)?.len())];
    for file in plugins::files_of(&built, &PACKAGES) {
        let to = folder.join(plugins::name(&file));
        fs::copy(&file, &to)?;
        sizes.push((plugins::name(&file), fs::metadata(&to)?.len()));
    }
    for (name, bytes) in &sizes {
        println!("{:6.1} MiB  {name}", *bytes as f64 / f64::from(1 << 20));
    }
    if let Some((name, bytes)) = sizes.iter().find(|(_, bytes)| *bytes > CEILING) {
        return Err(format!("{name} has {bytes} bytes; at most {CEILING} are allowed").into());
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root.join(licence), folder.join(licence))?;
    }
    fs::write(folder.join("README.md"), readme(&name))?;
    fs::write(folder.join(NOTICES), notices(root, &packages)?)?;
    execute(command(root, &thalweg, &["plugins", "lock"]).arg(&folder))?;
    for entry in fs::read_dir(&folder)? {
        fs::set_permissions(entry?.path(), fs::Permissions::from_mode(0o644))?;
    }
    let archive = pack(&out, &name)?;
    check(root, &thalweg, &archive)?;
    println!("{}", archive.display());
    Ok(())
}

/// Packs the folder `name` of `out`: the same bytes for the same files.
fn pack(out: &Path, name: &str) -> Result<PathBuf> {
    let (tar, archive) = (format!("{name}.tar"), out.join(format!("{name}.tar.gz")));
    let owner = ["--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];
    let format = ["--format=ustar", "--sort=name"];
    execute(command(out, "tar", &format).args(owner).args(["-cf", &tar, name]))?;
    execute(&mut command(out, "gzip", &["-9", "-n", "-f", &tar]))?;
    fs::set_permissions(&archive, fs::Permissions::from_mode(0o644))?;
    let sum = capture(&mut command(out, "sha256sum", &[&format!("{name}.tar.gz")]))?;
    fs::write(out.join(format!("{name}.tar.gz.sha256")), sum)?;
    Ok(archive)
}

/// Does what a user does.
fn check(root: &Path, thalweg: &Path, archive: &Path) -> Result<()> {
    let to = archive.with_file_name("check");
    let sum = fs::read_to_string(archive.with_added_extension("sha256"))?;
    let sum = sum.split_whitespace().next().unwrap_or_default();
    let install = ["plugins", "install", "--sha256", sum, "--to"];
    execute(command(root, thalweg, &install).arg(&to).arg(archive))?;
    execute(command(root, thalweg, &["plugins", "verify"]).arg(&to))?;
    let devices = capture(command(root, thalweg, &["devices", "--backend-path"]).arg(&to))?;
    if !devices
        .lines()
        .any(|line| line.starts_with("cpu:0") && line.contains("libthalweg_cpu.so"))
    {
        return Err("the installed libthalweg_cpu.so is not used".into());
    }
    fs::remove_dir_all(&to)?;
    Ok(())
}

fn host(root: &Path) -> Result<String> {
    let said = capture(&mut command(root, "rustc", &["--version", "--verbose"]))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not say its host")?.to_owned())
}

fn readme(name: &str) -> String {
    format!(
        "# {name}\n\n\
         Plugins for programs that use thalweg. In the folder of the archive:\n\n\
         ```sh\n\
         sha256sum --check {name}.tar.gz.sha256\n\
         thalweg plugins install {name}.tar.gz\n\
         thalweg devices\n\
         ```\n\n\
         `cargo install thalweg-cli` installs the command. Without it, unpack the archive and name its folder in the environment\n\
         variable THALWEG_BACKEND_PATH. thalweg-plugins.lock has the sums of the plugins, for `sha256sum --check` and for the loader.\n\n\
         The plugins are under MIT or Apache-2.0, as you like. {NOTICES} has the licences of the crates that are linked into them.\n"
    )
}

/// Packages by name and version, as `cargo metadata` describes them.
fn metadata(root: &Path) -> Result<BTreeMap<(String, String), Value>> {
    let output = cargo(root, &["metadata", "--format-version", "1"]).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(packages
        .into_iter()
        .map(|package| ((text(&package["name"]), text(&package["version"])), package))
        .collect())
}

/// The licence texts of all crates that are linked into the plugins.
fn notices(root: &Path, packages: &BTreeMap<(String, String), Value>) -> Result<String> {
    let mut tree = cargo(
        root,
        &["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}"],
    );
    for package in PACKAGES {
        tree.args(["--package", package]);
    }
    let output = tree.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut crates: Vec<(String, String)> = text.lines().filter_map(named).collect();
    crates.sort();
    crates.dedup();
    let mut notices = "Crates that are linked into the plugins of thalweg, with their licences.\n".to_owned();
    for key in &crates {
        let Some(package) = packages.get(key).filter(|package| package["source"].is_string()) else {
            continue;
        };
        let (name, version) = key;
        let licence = package["license"].as_str().unwrap_or("see below");
        notices += &format!("\n==== {name} {version}: {licence}\n");
        let folder = Path::new(package["manifest_path"].as_str().unwrap_or_default())
            .parent()
            .unwrap_or(root);
        for file in texts(folder)? {
            notices += &format!("\n{}\n", fs::read_to_string(file)?.trim_end());
        }
    }
    Ok(notices)
}

/// `name vVERSION …` of `cargo tree`.
fn named(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace();
    Some((
        words.next()?.to_owned(),
        words.next()?.strip_prefix('v')?.to_owned(),
    ))
}

/// The files of a crate that hold its licences.
fn texts(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = plugins::name(&path).to_ascii_uppercase();
        let licence = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"]
            .iter()
            .any(|start| name.starts_with(start));
        if licence && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_cargo_tree() {
        let pair = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(named("half v2.7.1"), pair("half", "2.7.1"));
        assert_eq!(named("thalweg-hal v1.0.0 (/x) (*)"), pair("thalweg-hal", "1.0.0"));
        assert_eq!(named(""), None);
    }
}
