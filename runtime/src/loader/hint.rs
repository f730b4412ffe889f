//! What to do about a plugin that is not loaded, beyond what the error's own line says.

use super::elf::ElfError;
use super::error::LoadError;
use super::lock::{LOCK_FILE, LockError};
use super::probe::ProbeOutcome;
use super::trust::TrustError;
use std::path::Path;
use thalweg_hal::manifest::{ABI, SECTION};

/// Libraries that come with something whose name is not theirs.
const PACKAGES: [(&str, &str); 8] = [
    (
        "libcuda.so",
        "the NVIDIA driver (`nvidia-smi` shows whether one runs)",
    ),
    ("libnvrtc.so", "the CUDA toolkit"),
    ("libcudart.so", "the CUDA toolkit"),
    ("libcublas", "the CUDA toolkit"),
    ("libcudnn", "NVIDIA cuDNN"),
    ("libamdhip64.so", "AMD ROCm"),
    (
        "libOpenCL.so",
        "an OpenCL loader, Debian's package ocl-icd-libopencl1 for one",
    ),
    (
        "libvulkan.so",
        "a Vulkan loader, Debian's package libvulkan1 for one",
    ),
];

/// Where a library comes from, `None` for one that is not widely known.
pub(super) fn package(library: &str) -> Option<&'static str> {
    PACKAGES
        .iter()
        .find(|(start, _)| library.starts_with(start))
        .map(|(_, package)| *package)
}

impl LoadError {
    /// What to do about it, for the plugin in `path`; a sentence or a command.
    pub fn hint(&self, path: &Path) -> String {
        let path = path.display();
        match self {
            LoadError::Trust(TrustError::Writable { .. }) => {
                "whoever can write there can run code in every program that loads backends; take the right away, \
                 then look through the files"
                    .into()
            }
            LoadError::Trust(TrustError::Owner { .. }) => {
                format!("take it over once you trust it: `sudo chown $(id -u) {path}`")
            }
            LoadError::Trust(TrustError::Unreadable { .. } | TrustError::Kind { .. }) | LoadError::Read(_) => {
                format!("see what is there: `ls -l {path}`")
            }
            LoadError::TooLarge(_) => "this is no plugin; remove it from the folder".into(),
            LoadError::Elf(ElfError::NotElf | ElfError::Kind(_)) => {
                format!("`file {path}` says what it is; remove it or put the plugin in its place")
            }
            LoadError::Elf(ElfError::Machine { .. }) | LoadError::Arch(_) => {
                "plugins are not portable between processors; ask for a build for this one".into()
            }
            LoadError::Elf(ElfError::Empty | ElfError::Truncated { .. } | ElfError::Damaged(_)) => {
                format!("an interrupted copy does this; compare `sha256sum {path}` with the original's")
            }
            LoadError::NoNote | LoadError::NoEntry | LoadError::NoLayerEntry => format!(
                "a plugin is made by export_backend! (Rust) or THALWEG_EXPORT and the section {SECTION} (C); \
                 `strip` must not remove the section"
            ),
            LoadError::Manifest(_) => "the plugin's author can fix this; nothing on this machine can".into(),
            LoadError::Abi(built) => {
                let who = if built.major > ABI.major { "update this program" } else { "update the plugin" };
                format!("{who}: both must speak the same major version of thalweg-hal")
            }
            LoadError::CpuFeature(_) | LoadError::UnknownCpuFeature(_) => {
                "ask for a build without it, or run on another processor".into()
            }
            LoadError::Lock(LockError::Unlisted { .. } | LockError::Changed { .. }) => {
                format!("find out who put it there; when that was you: `thalweg plugins lock {path}`")
            }
            LoadError::Lock(LockError::Io { .. } | LockError::Line { .. } | LockError::NotAPlugin { .. }) => {
                format!("nothing of the folder loads until its {LOCK_FILE} can be read")
            }
            LoadError::Seal(_) => {
                "the system must offer memfd_create with seals (Linux 3.17 or later) and /proc, and allow a file of this size".into()
            }
            LoadError::NoTrial(_) => {
                "let the program start processes and see /proc; one that trusts its files sets `LoaderOptions::probe` to false".into()
            }
            LoadError::Host(_) => "the plugin's author can fix this; nothing on this machine can".into(),
            LoadError::Probe { outcome: ProbeOutcome::TimedOut { .. }, .. } => {
                format!("see where it hangs: `gdb -ex run --args env LD_PRELOAD={path} true`, then Ctrl-C and `bt`")
            }
            LoadError::Probe { .. } => {
                format!("see where it happens: `gdb -ex run -ex bt --args env LD_PRELOAD={path} true`")
            }
            LoadError::MissingLibrary { .. } => format!("`ldd {path}` lists every library that is not found"),
            LoadError::Open(_) => format!("`ldd -r {path}` lists what cannot be resolved"),
            LoadError::Layout { .. } => {
                "rebuild the plugin with the thalweg-hal that this program was built with".into()
            }
            LoadError::MissingTable(_)
            | LoadError::Misaligned(_)
            | LoadError::NullFunction { .. }
            | LoadError::Name { .. } => {
                "the plugin's author can fix this; `thalweg conform` shows what else is missing".into()
            }
            LoadError::IsLayer(_) | LoadError::NotALayer(_) => {
                "the name of a layer's file begins with `libthalweg_layer_`, that of no backend does".into()
            }
            LoadError::NoSuchLayer { .. } | LoadError::LayerTwice(_) => {
                "THALWEG_LAYERS and `LoaderOptions::layers` name layers".into()
            }
            LoadError::Layer { error, .. } => error.hint(Path::new("the layer")),
            LoadError::LayerContext | LoadError::LayerHides(_) => {
                "the layer's author can fix this; a program without the layer runs".into()
            }
            LoadError::Init(_) => {
                "the words are the backend's own; `thalweg -v devices` prints what else it logs".into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_file_or_where_a_library_comes_from() {
        let path = Path::new("/opt/libthalweg_acme.so");
        let text = |library: &str| {
            let (library, beside) = (library.into(), false);
            LoadError::MissingLibrary { library, beside }.to_string()
        };
        assert_eq!(
            text("libcuda.so.1"),
            "libcuda.so.1 was not found; it comes with the NVIDIA driver (`nvidia-smi` shows whether one runs)"
        );
        assert_eq!(
            text("libacme.so"),
            "libacme.so was not found; install it or add its folder to LD_LIBRARY_PATH"
        );
        assert!(
            LoadError::from(ElfError::Empty)
                .hint(path)
                .contains("/opt/libthalweg_acme.so")
        );
    }
}
