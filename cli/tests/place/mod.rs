//! A place of its own for a test: the program as if it were installed there, a folder for plugins, an empty memory of trials.

#![allow(dead_code, reason = "each test uses its part")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

#[path = "../../../tests/tests/plugins/mod.rs"]
pub(crate) mod plugins;

pub(crate) struct Place {
    temp: tempfile::TempDir,
}

/// What a call wrote and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Place {
    pub(crate) fn new() -> Place {
        let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Place { temp };
        for folder in ["bin", "plugins", "cache"] {
            fs::create_dir(place.path(folder)).unwrap();
            mode(&place.path(folder), 0o755);
        }
        mode(place.temp.path(), 0o755);
        // A link is enough, and the program sees this place as its own.
        fs::hard_link(env!("CARGO_BIN_EXE_thalweg"), place.path("bin/thalweg")).unwrap();
        place
    }

    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(inside)
    }

    pub(crate) fn plugins(&self) -> String {
        self.path("plugins").display().to_string()
    }

    /// The program with the environment of a machine where nothing is installed.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(self.path("bin/thalweg"));
        command
            .args(args)
            .env_clear()
            .env("XDG_CACHE_HOME", self.path("cache"));
        command.current_dir(self.path("plugins"));
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Run {
        self.finish(&mut self.command(args))
    }

    /// What the command wrote, with the place as `DIR`.
    pub(crate) fn finish(&self, command: &mut Command) -> Run {
        let output = command.output().unwrap();
        let dir = self.path("").display().to_string();
        let text = |bytes| {
            String::from_utf8(bytes)
                .unwrap()
                .replace(dir.trim_end_matches('/'), "DIR")
        };
        Run {
            out: text(output.stdout),
            err: text(output.stderr),
            code: output.status.code(),
        }
    }

    /// Writes a file that only its owner may write.
    pub(crate) fn write(&self, inside: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(inside);
        fs::write(&path, content).unwrap();
        mode(&path, 0o644);
        path
    }

    /// The backend in plain C, with the target `plainc`, in the folder for plugins.
    pub(crate) fn plain_c(&self) -> PathBuf {
        // Threads of one process would write the same draft.
        static BUILT: LazyLock<PathBuf> = LazyLock::new(|| plugins::plain_c("plain_c_cli"));
        self.write("plugins/libthalweg_plainc.so", fs::read(&*BUILT).unwrap())
    }

    /// The same with more code and arguments for the compiler.
    pub(crate) fn plain_c_with(&self, file: &str, code: &str, arguments: &[&str]) {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let parts = fs::read_dir(format!("{root}/tests/plugins/plain_c")).unwrap();
        let parts = parts.map(|entry| entry.unwrap().path());
        let library = self.path(file);
        let built = Command::new("cc")
            .args([
                "-std=gnu11",
                "-shared",
                "-fPIC",
                "-pthread",
                "-I",
                &format!("{root}/hal-api/include"),
                "-o",
            ])
            .arg(&library)
            .args(parts.filter(|path| path.extension().is_some_and(|kind| kind == "c")))
            .arg(self.write("cache/more.c", code))
            .args(arguments)
            .status();
        assert!(built.unwrap().success());
        mode(&library, 0o755);
    }
}

pub(crate) fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
