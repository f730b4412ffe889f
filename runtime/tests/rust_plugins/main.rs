//! Plugins in Rust, each built by its test: fitting, older, newer, changed, panicking, and the embedded one's place.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod build;

use build::{Patch, plugin};
use std::fs;
use std::path::{Path, PathBuf};
use thalweg_hal::Status;
use thalweg_hal::tables::{DeviceProperties, DeviceTable};
use thalweg_runtime::hal::{Buffer, Runtime};
use thalweg_runtime::host::set_config;
use thalweg_runtime::loader::discover::{Surroundings, file_name};
use thalweg_runtime::loader::{Backend, Embedded, LoaderOptions, Registry};

#[allow(unreachable_pub)]
#[path = "../../../tests/plugins/tiny/src/backend.rs"]
mod tiny;

struct Place {
    _temp: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Place {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        Place { _temp: temp, root }
    }

    /// Puts `file` into `folder` as the plugin `target`.
    fn put(&self, folder: &str, target: &str, file: &Path) {
        let folder = self.root.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(file, folder.join(file_name(target))).unwrap();
    }

    fn options(&self) -> LoaderOptions {
        LoaderOptions {
            folders: vec![self.root.join("plugins")],
            cache: None,
            ..LoaderOptions::default()
        }
    }

    fn registry(&self, embedded: &[Embedded]) -> Registry {
        Registry::with(self.options(), embedded, &Surroundings::default())
    }

    fn rows(&self, registry: &Registry) -> Vec<String> {
        let dir = self.root.display().to_string();
        let rows = registry.candidates();
        let own = rows
            .iter()
            .filter(|row| !["cpu", "cuda", "opencl"].contains(&row.target.as_str()));
        own.map(|row| format!("{}  {}", row.target, row.outcome).replace(&dir, "DIR"))
            .collect()
    }
}

fn properties(backend: &Backend) -> thalweg_runtime::Result<DeviceProperties> {
    let table = backend.table::<DeviceTable>().unwrap();
    // SAFETY: numbers and texts alone, for which zeros are values.
    let mut properties: DeviceProperties = unsafe { std::mem::zeroed() };
    // SAFETY: the context is the backend's, `properties` lives through the call.
    let code = unsafe { (table.properties)(backend.api().context, 0, &raw mut properties) };
    backend.check(code).map(|()| properties)
}

#[test]
fn two_good_plugins_and_a_bad_one_before_them() {
    let place = Place::new();
    place.put("plugins", "tiny", &plugin("1.0.0", "tiny", &[]));
    place.put("plugins", "other", &plugin("1.0.0", "other", &[]));
    fs::write(place.root.join("plugins").join(file_name("a_bad_one")), "text").unwrap();
    let registry = place.registry(&[]);
    assert_eq!(
        place.rows(&registry),
        [
            "a_bad_one  refused: not a shared library: the file does not start as an ELF file",
            "other  loaded: 1.2.3",
            "tiny  loaded: 1.2.3",
        ]
    );
    for name in ["tiny", "other"] {
        let backend = registry.get(name).unwrap();
        assert_eq!(backend.name(), name);
        assert_eq!(properties(backend).unwrap().compute_units, 1);
    }
}

/// The text of the structs is proved by their types, which a test changes in one place alone.
const WITHOUT_PROOF: Patch<'_> = Patch {
    file: "src/tables/layout.rs",
    from: "const _: () = {",
    to: "#[cfg(any())]\nconst _: () = {",
};

#[test]
fn a_changed_struct_is_one_line() {
    let place = Place::new();
    let patches = [
        Patch {
            file: "src/tables/device.rs",
            from: "pub compute_units: u32,",
            to: "pub compute_units: u64,",
        },
        Patch {
            file: "src/export/device.rs",
            from: "compute_units: properties.compute_units,",
            to: "compute_units: properties.compute_units.into(),",
        },
        Patch {
            file: "src/tables/layout.rs",
            from: "compute_units:u32",
            to: "compute_units:u64",
        },
        WITHOUT_PROOF,
    ];
    place.put("plugins", "tiny", &plugin("1.2.0", "tiny", &patches));
    let registry = place.registry(&[]);
    let rows = registry.candidates();
    assert_eq!(
        rows[0].outcome.to_string(),
        "refused: DeviceProperties.compute_units: this program expects u32, the plugin has u64 \
         (built against thalweg-hal 2.1; rebuild it against 2.1)"
    );
}

#[test]
fn a_newer_table_is_passed_over() {
    let place = Place::new();
    let patches = [
        Patch {
            file: "src/tables/layout.rs",
            from: "\"CoreTable{",
            to: "\"NewerTable{reset:fn(*mut c_void)->i32}\",\n    \"CoreTable{",
        },
        Patch {
            file: "src/tables/mod.rs",
            from: "pub const ABI_MINOR: u16 = 1;",
            to: "pub const ABI_MINOR: u16 = 4;",
        },
        Patch {
            file: "src/manifest.rs",
            from: "pub const ABI_TEXT: &str = \"2.1\";",
            to: "pub const ABI_TEXT: &str = \"2.4\";",
        },
    ];
    place.put("plugins", "tiny", &plugin("1.4.0", "tiny", &patches));
    let registry = place.registry(&[]);
    assert_eq!(place.rows(&registry), ["tiny  loaded: 1.2.3"]);
    let backend = registry.get("tiny").unwrap();
    assert_eq!(backend.api().abi, 2 << 16 | 4);
    assert_eq!(properties(backend).unwrap().compute_units, 1);
}

/// A plugin that was built before the contract changed is refused by its note, before anything of it is compared or run.
#[test]
fn a_plugin_of_the_contract_before_is_one_line() {
    let place = Place::new();
    let patches = [
        Patch {
            file: "src/tables/mod.rs",
            from: "pub const ABI_MAJOR: u16 = 2;",
            to: "pub const ABI_MAJOR: u16 = 1;",
        },
        Patch {
            file: "src/manifest.rs",
            from: "pub const ABI_TEXT: &str = \"2.1\";",
            to: "pub const ABI_TEXT: &str = \"1.0\";",
        },
    ];
    place.put("plugins", "tiny", &plugin("1.0.1", "tiny", &patches));
    let registry = place.registry(&[]);
    assert_eq!(
        place.rows(&registry),
        [
            "tiny  refused: built against thalweg-hal 1.0, this program speaks 2.x; ask for a build against 2.x"
        ]
    );
}

/// File of each table in the contract and in the export layer, the last field in both, and that field in the layout.
const LAST_FIELDS: [(&str, &str, &str, &str, &str); 8] = [
    (
        "core",
        "pub shutdown: unsafe extern \"C\" fn(context: Context) -> i32,",
        "mod",
        "shutdown: shutdown::<B>,",
        "shutdown:fn(*mut c_void)->i32}",
    ),
    (
        "device",
        "pub query: unsafe extern \"C\" fn(context: Context, device: u64, key: u32, out: *mut u64) -> i32,",
        "device",
        "query: query::<B>,",
        "query:fn(*mut c_void,u64,u32,*mut u64)->i32}",
    ),
    (
        "memory",
        "pub info: unsafe extern \"C\" fn(context: Context, device: u64, out: *mut MemoryInfo) -> i32,",
        "memory",
        "info: info::<B>,",
        "info:fn(*mut c_void,u64,*mut MemoryInfo)->i32}",
    ),
    (
        "stream",
        "pub synchronize: unsafe extern \"C\" fn(context: Context, stream: u64) -> i32,",
        "stream",
        "synchronize: synchronize::<B>,",
        "synchronize:fn(*mut c_void,u64)->i32}",
    ),
    (
        "event",
        "pub elapsed: unsafe extern \"C\" fn(context: Context, args: *const ElapsedArgs, out: *mut i64) -> i32,",
        "event",
        "elapsed: elapsed::<B>,",
        "elapsed:fn(*mut c_void,*const ElapsedArgs,*mut i64)->i32}",
    ),
    (
        "kernel",
        "pub inspect: unsafe extern \"C\" fn(context: Context, args: *const InspectArgs) -> i32,",
        "kernel",
        "inspect: inspect::<B>,",
        "inspect:fn(*mut c_void,*const InspectArgs)->i32}",
    ),
    (
        "program",
        "pub destroy: unsafe extern \"C\" fn(context: Context, program: u64) -> i32,",
        "program",
        "destroy: destroy::<B>,",
        "destroy:fn(*mut c_void,u64)->i32}",
    ),
    (
        "profile",
        "pub counters: unsafe extern \"C\" fn(context: Context, args: *const ProfileCountersArgs) -> i32,",
        "profile",
        "counters: counters::<B>,",
        "counters:fn(*mut c_void,*const ProfileCountersArgs)->i32}",
    ),
];

#[test]
fn a_newer_plugin_whose_tables_all_go_on_is_used() {
    let place = Place::new();
    let layout = "src/tables/layout.rs".to_owned();
    let mut changes = vec![
        (layout.clone(), WITHOUT_PROOF.from, WITHOUT_PROOF.to.to_owned()),
        (
            "src/tables/mod.rs".to_owned(),
            "pub const ABI_MINOR: u16 = 1;",
            "pub const ABI_MINOR: u16 = 2;".to_owned(),
        ),
        (
            "src/manifest.rs".to_owned(),
            "pub const ABI_TEXT: &str = \"2.1\";",
            "pub const ABI_TEXT: &str = \"2.2\";".to_owned(),
        ),
    ];
    for (table, declared, export, defined, described) in LAST_FIELDS {
        changes.push((layout.clone(), described, described.replace('}', ",newer:fn()}")));
        let newer = format!("{declared}\n    /// New.\n    pub newer: extern \"C\" fn(),");
        changes.push((format!("src/tables/{table}.rs"), declared, newer));
        let newer = format!("{defined}\n        newer: {{ extern \"C\" fn newer() {{}} newer }},");
        changes.push((format!("src/export/{export}.rs"), defined, newer));
    }
    let patches: Vec<Patch<'_>> = changes
        .iter()
        .map(|(file, from, to)| Patch { file, from, to })
        .collect();
    place.put("plugins", "tiny", &plugin("1.1.0", "tiny", &patches));
    let registry = place.registry(&[]);
    assert_eq!(place.rows(&registry), ["tiny  loaded: 1.2.3"]);
    assert_eq!(registry.get("tiny").unwrap().api().abi, 2 << 16 | 2);
    let device = Runtime::new(registry).device("tiny").unwrap();
    let stream = device.default_stream().unwrap();
    let buffer = Buffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0]).unwrap();
    assert_eq!(buffer.download::<f32>(&stream).unwrap(), [1.0, 2.0, 3.0]);
    device.synchronize().unwrap();
}

#[test]
fn panics_stop_at_the_border() {
    let place = Place::new();
    place.put("plugins", "panics", &plugin("1.0.0", "panics", &[]));
    let registry = place.registry(&[]);
    set_config("panics.panic", Some("start"));
    assert_eq!(
        place.rows(&registry),
        ["panics  not available: the backend panicked: tiny panics in start"]
    );
    set_config("panics.panic", Some("properties"));
    let registry = place.registry(&[]);
    let backend = registry.get("panics").unwrap();
    let error = properties(backend).unwrap_err();
    assert_eq!(error.status(), Some(Status::Panicked));
    assert!(error.to_string().contains("tiny panics in properties"), "{error}");
    set_config("panics.panic", None);
    assert_eq!(properties(backend).unwrap().compute_units, 1);
}

#[test]
fn a_plugin_takes_the_embedded_ones_place() {
    let place = Place::new();
    let embedded = [Embedded::of::<tiny::Tiny>()];
    fs::create_dir(place.root.join("plugins")).unwrap();
    assert_eq!(place.rows(&place.registry(&embedded)), ["tiny  loaded: 1.2.3"]);
    place.put("plugins", "tiny", &plugin("1.0.0", "tiny", &[]));
    let registry = place.registry(&embedded);
    let file = place.root.join("plugins").join(file_name("tiny"));
    assert_eq!(registry.get("tiny").unwrap().path(), Some(file.as_path()));
    assert_eq!(
        place.rows(&registry),
        [
            "tiny  loaded: 1.2.3",
            "tiny  not used: DIR/plugins/libthalweg_tiny.so comes first"
        ]
    );
}

#[test]
fn the_embedded_one_comes_before_the_build_folder_and_after_a_bad_file() {
    let place = Place::new();
    let embedded = [Embedded::of::<tiny::Tiny>()];
    place.put("debug", "tiny", &plugin("1.0.0", "tiny", &[]));
    fs::create_dir(place.root.join("plugins")).unwrap();
    fs::write(place.root.join("plugins").join(file_name("tiny")), "").unwrap();
    fs::create_dir(place.root.join("debug/.fingerprint")).unwrap();
    let around = Surroundings {
        executable: Some(place.root.join("debug/tool")),
        ..Surroundings::default()
    };
    let registry = Registry::with(place.options(), &embedded, &around);
    assert_eq!(registry.get("tiny").unwrap().path(), None);
    assert_eq!(
        place.rows(&registry),
        [
            "tiny  refused: the file is empty",
            "tiny  loaded: 1.2.3",
            "tiny  not used: the embedded one comes first",
        ]
    );
    let registry = Registry::with(place.options(), &[], &around);
    assert_eq!(
        registry.get("tiny").unwrap().path(),
        Some(place.root.join("debug").join(file_name("tiny")).as_path())
    );
    // What a user installed for all programs may be older than the program too.
    let mine = Surroundings {
        user: Some(place.root.join("debug")),
        ..Surroundings::default()
    };
    let registry = Registry::with(place.options(), &embedded, &mine);
    assert_eq!(registry.get("tiny").unwrap().path(), None);
    let registry = Registry::with(place.options(), &[], &mine);
    assert!(registry.get("tiny").unwrap().path().is_some());
}
