//! Bad files, and what a constructor can do.

use super::tried::tried;
use super::{Place, compile};
use std::fs;
use thalweg_hal::tables::{CoreTable, DeviceTable, EventTable, MemoryTable, StreamTable};
use thalweg_runtime::loader::discover::file_name;

/// The bad file beside a good one: its row is `want`, the good one is loaded.
fn beside_a_good_one(want: &str, make: impl FnOnce(&Place)) {
    let place = Place::new();
    place.build("good", &[]);
    make(&place);
    assert_eq!(place.rows(), [format!("bad  {want}"), "good  loaded: 0.1".into()]);
}

#[test]
fn empty_file() {
    beside_a_good_one("refused: the file is empty", |place| place.write("bad", b""));
}

#[test]
fn text_file() {
    beside_a_good_one(
        "refused: not a shared library: the file does not start as an ELF file",
        |place| {
            place.write("bad", b"#!/bin/sh\necho hello\n");
        },
    );
}

#[test]
fn folder_with_the_name_of_a_plugin() {
    beside_a_good_one("refused: DIR/plugins/libthalweg_bad.so is not a file", |place| {
        fs::create_dir(place.file("bad")).unwrap();
    });
}

#[test]
fn dead_link() {
    let want = "refused: cannot read DIR/plugins/libthalweg_bad.so: No such file or directory (os error 2)";
    beside_a_good_one(want, |place| {
        std::os::unix::fs::symlink("nowhere", place.file("bad")).unwrap();
    });
}

#[test]
fn truncated_at_twelve_places() {
    let place = Place::new();
    let bytes = fs::read(place.build("good", &[])).unwrap();
    for i in 0..12 {
        let len = bytes.len() * (i + 1) / 13 + i % 3;
        place.write(&format!("t{i:02}"), &bytes[..len]);
    }
    let rows = place.rows();
    assert_eq!(rows.len(), 13);
    assert_eq!(rows[0], "good  loaded: 0.1");
    for (i, row) in rows[1..].iter().enumerate() {
        let len = bytes.len() * (i + 1) / 13 + i % 3;
        assert!(
            row.starts_with(&format!("t{i:02}  refused: truncated: ")),
            "{row}"
        );
        assert!(
            row.ends_with(&format!(", the file has {len}; copy the file again")),
            "{row}"
        );
    }
    tried(12);
}

#[test]
fn zeroed_in_the_middle() {
    let place = Place::new();
    place.build("good", &[]);
    let path = place.build("bad", &[]);
    let mut bytes = fs::read(&path).unwrap();
    let (from, to) = (bytes.len() / 4, bytes.len() / 2);
    bytes[from..to].fill(0);
    fs::write(&path, bytes).unwrap();
    let rows = place.rows();
    assert!(
        rows[0].starts_with("bad  refused: damaged: ") && rows[0].ends_with("; copy the file again"),
        "{rows:?}"
    );
    assert_eq!(rows[1], "good  loaded: 0.1");
}

/// Where the dynamic section lies in a file of 64 bits, and how long it is.
fn dynamic_section(file: &[u8]) -> (usize, usize) {
    let number = |at: usize, len: usize| {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&file[at..at + len]);
        u64::from_ne_bytes(bytes) as usize
    };
    // The program headers start at 64, each has 56 bytes; type 2 is the dynamic segment.
    let header = (0..number(56, 2))
        .map(|i| 64 + 56 * i)
        .find(|at| number(*at, 4) == 2)
        .unwrap();
    (number(header + 8, 8), number(header + 32, 8))
}

#[test]
fn random_bytes_in_the_dynamic_section() {
    let place = Place::new();
    let good = fs::read(place.build("good", &[])).unwrap();
    let (offset, size) = dynamic_section(&good);
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        seed.rotate_left(32)
    };
    for i in 0..20 {
        let mut bytes = good.clone();
        bytes[offset..offset + size].fill_with(|| random() as u8);
        place.write(&format!("r{i:02}"), &bytes);
    }
    let rows = place.rows();
    assert_eq!(rows.len(), 21);
    assert_eq!(rows[0], "good  loaded: 0.1");
    for row in &rows[1..] {
        assert!(row.contains("  refused: damaged: the dynamic section "), "{row}");
    }
    tried(20);
}

/// The headers do not show everything; the child process finds the rest.
#[test]
fn one_wrong_value_in_the_dynamic_section() {
    let place = Place::new();
    let (mut refused, mut loaded) = (0, 0);
    for i in 0..40 {
        let name = format!("s{i:02}");
        let path = place.build(&name, &[]);
        let mut bytes = fs::read(&path).unwrap();
        let (offset, _) = dynamic_section(&bytes);
        let value = offset + 16 * (i / 2) + 8;
        let wrong = if i % 2 == 0 { 8_u64 } else { u64::MAX / 3 };
        bytes[value..value + 8].copy_from_slice(&wrong.to_ne_bytes());
        fs::write(&path, bytes).unwrap();
        let rows = place.rows();
        fs::remove_file(path).unwrap();
        assert_eq!(rows.len(), 1);
        if rows[0].contains("  refused: ") || rows[0].contains("  not available: ") {
            refused += 1;
        } else {
            assert!(rows[0].ends_with("  loaded: 0.1"), "{}", rows[0]);
            loaded += 1;
        }
    }
    assert!(refused > 15, "{refused} refused, {loaded} loaded");
    tried(40);
}

/// A relocation that only says how far it lies behind the one before it.
#[test]
#[cfg(target_arch = "x86_64")]
fn one_wrong_packed_relocation() {
    const TABLE: u64 = 36;
    let place = Place::new();
    let path = place.file("bad");
    compile(&path, "bad", &[], &["-Wl,-z,pack-relative-relocs"]);
    assert_eq!(place.rows(), ["bad  loaded: 0.1"]);
    let good = fs::read(&path).unwrap();
    let number = |at: usize| u64::from_ne_bytes(good[at..at + 8].try_into().unwrap());
    let (offset, size) = dynamic_section(&good);
    let mut entries = (offset..offset + size)
        .step_by(16)
        .filter(|at| number(*at) == TABLE);
    // The table lies in the first segment, where addresses are offsets.
    let table = number(entries.next().unwrap() + 8) as usize;
    // An address, then the map of those that follow.
    assert_eq!((number(table) & 1, number(table + 8) & 1), (0, 1));
    let cases = [
        (table, number(table) ^ 1 << 38),
        (table, number(table) ^ 1 << 30),
        (table, number(table) | 1),
        (table + 8, 1 << 38),
    ];
    for (at, wrong) in cases {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&wrong.to_ne_bytes());
        place.write("bad", &bytes);
        let row = place.rows().swap_remove(0);
        assert!(row.starts_with("bad  refused: damaged: "), "{wrong:x}: {row}");
    }
    tried(cases.len());
}

#[test]
fn wrong_machine() {
    let arch = std::env::consts::ARCH;
    let want = format!(
        "refused: built for s390x (64 bits, little endian), this program runs on {arch}; get the plugin for {arch}"
    );
    beside_a_good_one(&want, |place| {
        let path = place.build("bad", &[]);
        let mut bytes = fs::read(&path).unwrap();
        bytes[18..20].copy_from_slice(&22_u16.to_ne_bytes());
        fs::write(&path, bytes).unwrap();
    });
}

#[test]
fn manifests_that_do_not_fit() {
    let arch = std::env::consts::ARCH;
    let feature = if cfg!(target_arch = "x86_64") {
        "warp9"
    } else {
        "warp8"
    };
    let cases = [
        (
            "NO_NOTE",
            "refused: not a thalweg plugin: no .note.thalweg".into(),
        ),
        (
            "ABI=\"1.0\"",
            "refused: built against thalweg-hal 1.0, this program speaks 2.x; ask for a build against 2.x"
                .into(),
        ),
        (
            "ABI=\"3.0\"",
            "refused: built against thalweg-hal 3.0, this program speaks 2.x; ask for a build against 2.x"
                .into(),
        ),
        (
            "ABI=\"new\"",
            "refused: the manifest's abi is \"new\"; an ABI version reads like 2.0".into(),
        ),
        (
            "ARCH=\"mips\"",
            format!("refused: built for mips, this program runs on {arch}; get the plugin for {arch}"),
        ),
        (
            &format!("FEATURES=\"{feature}\""),
            format!(
                "refused: it needs the CPU feature {feature:?}, which this program does not know; update the program"
            ),
        ),
        (
            "LAYOUT=\"DeviceOptions{ordinal:u64}\"",
            "refused: DeviceOptions.ordinal: this program expects u32, the plugin has u64 \
             (built against thalweg-hal 2.0; rebuild it against 2.1)"
                .into(),
        ),
        (
            "LAYOUT=\"DeviceOptions\"",
            "refused: the manifest's layout is \"DeviceOptions\"; structs read Name{field:type,field:type}"
                .into(),
        ),
    ];
    let count = cases.len();
    for (define, want) in cases {
        beside_a_good_one(&want, |place| drop(place.build("bad", &[define])));
    }
    tried(count);
}

#[test]
fn no_root_symbol() {
    let want = "refused: it does not export the function thalweg_backend; build it with export_backend! or against \
                thalweg.h";
    beside_a_good_one(want, |place| drop(place.build("bad", &["NO_ENTRY"])));
}

#[test]
fn missing_needed_library() {
    let want = "not available: libgone.so was not found; install it or add its folder to LD_LIBRARY_PATH";
    beside_a_good_one(want, |place| {
        let gone = place.root.join("libgone.so");
        let source = place.root.join("gone.c");
        fs::write(&source, "int gone(void) { return 1; }").unwrap();
        let done = std::process::Command::new("cc")
            .args(["-shared", "-o"])
            .arg(&gone)
            .arg(&source)
            .status()
            .unwrap();
        assert!(done.success());
        let folder = format!("-L{}", place.root.display());
        compile(&place.file("bad"), "bad", &["NEEDS"], &[&folder, "-l:libgone.so"]);
        fs::remove_file(gone).unwrap();
    });
}

#[test]
fn undefined_symbol() {
    beside_a_good_one(
        "refused: the system's loader refuses it: undefined symbol: gone",
        |place| {
            drop(place.build("bad", &["NEEDS"]));
        },
    );
}

#[test]
fn constructor_crashes() {
    let want = "refused: it crashes while it is loaded (signal 11, SIGSEGV); rebuild it or remove it";
    beside_a_good_one(want, |place| drop(place.build("bad", &["START=raise(SIGSEGV)"])));
}

#[test]
fn constructor_exits() {
    let want = "refused: it ends the process while it is loaded (exit code 0); rebuild it or remove it";
    beside_a_good_one(want, |place| drop(place.build("bad", &["START=exit(0)"])));
}

#[test]
fn constructor_hangs() {
    let want = "refused: it is not loaded within 0.8 s; rebuild it or remove it";
    beside_a_good_one(want, |place| drop(place.build("bad", &["START=for(;;)pause()"])));
}

#[test]
fn entry_fails() {
    let want = "not available: unavailable (the backend gives no reason)";
    beside_a_good_one(want, |place| drop(place.build("bad", &["FAIL"])));
}

#[test]
fn no_driver_and_no_device() {
    let want = "not available: libdriver.so.7 was not found (is the driver installed?)";
    beside_a_good_one(want, |place| drop(place.build("bad", &["DEVICES=return 7"])));
    beside_a_good_one("not available: the backend finds no device", |place| {
        drop(place.build("bad", &["DEVICES=*out = 0; return 0"]));
    });
}

/// Each function of each table.
#[test]
fn a_function_that_is_null() {
    let functions = |bytes: usize| bytes / size_of::<usize>();
    let tables = [
        ("core", functions(size_of::<CoreTable>())),
        ("device", functions(size_of::<DeviceTable>())),
        ("memory", functions(size_of::<MemoryTable>())),
        ("stream", functions(size_of::<StreamTable>())),
        ("event", functions(size_of::<EventTable>())),
    ];
    let place = Place::new();
    let good = fs::read(place.build("bad", &[])).unwrap();
    let mark = good.windows(8).position(|bytes| bytes == b"HOLES\0\0\0").unwrap();
    let mut cases = 0;
    for (table, (name, count)) in (1_u32..).zip(tables) {
        for function in 0..count as u32 {
            let mut bytes = good.clone();
            bytes[mark + 8..mark + 12].copy_from_slice(&table.to_ne_bytes());
            bytes[mark + 12..mark + 16].copy_from_slice(&function.to_ne_bytes());
            place.write("bad", &bytes);
            let want = format!(
                "bad  refused: function {function} of its {name} table is null; what a backend lacks is a table, or a function \
                 that says so"
            );
            assert_eq!(place.rows(), [want]);
            cases += 1;
        }
    }
    tried(cases);
}

#[test]
fn tables_that_cannot_be_called() {
    beside_a_good_one("refused: its core table is not aligned", |place| {
        drop(place.build("bad", &["OFFSET=1"]));
    });
}

#[test]
fn other_name_in_the_manifest() {
    let place = Place::new();
    fs::rename(place.build("inner", &[]), place.file("outer")).unwrap();
    assert_eq!(
        place.rows(),
        ["inner  loaded: 0.1"],
        "the manifest names the target, not {}",
        file_name("outer")
    );
}
