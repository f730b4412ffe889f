use super::*;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

/// A header as the format describes it, with its sum.
fn header(path: &str, kind: u8, size: u64) -> Vec<u8> {
    let mut block = vec![0_u8; BLOCK];
    block[..path.len()].copy_from_slice(path.as_bytes());
    block[100..108].copy_from_slice(b"0000644\0");
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    seal(&mut block);
    block
}

fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn file(path: &str, content: &[u8]) -> Vec<u8> {
    let mut entry = header(path, b'0', content.len() as u64);
    entry.extend(content);
    entry.resize(entry.len().next_multiple_of(BLOCK), 0);
    entry
}

fn packed(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut tar = entries.concat();
    tar.extend([0; 2 * BLOCK]);
    gzip(&tar)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// The files that were unpacked, sorted, or the refusal.
fn unpacked(archive: &[u8]) -> std::result::Result<Vec<(String, Vec<u8>)>, String> {
    let temp = tempfile::tempdir().unwrap();
    let inner = temp.path().join("stage");
    std::fs::create_dir(&inner).unwrap();
    let result = unpack(archive, &inner).map_err(|error| error.to_string());
    assert_eq!(
        std::fs::read_dir(temp.path()).unwrap().count(),
        1,
        "nothing outside"
    );
    result?;
    let mut files: Vec<_> = std::fs::read_dir(inner)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    Ok(files)
}

const PLUGIN: &str = "libthalweg_acme.so";

#[test]
fn plugins_and_sums_are_unpacked_and_nothing_else() {
    let long = vec![7; 70_000];
    let entries = [
        header("./", b'5', 0),
        header("set/", b'5', 0),
        file("set/README.md", b"read me"),
        file(&format!("set/{PLUGIN}"), &long),
        file("set/thalweg-plugins.lock", b"sums"),
    ];
    let wanted = [
        (PLUGIN.to_owned(), long),
        ("thalweg-plugins.lock".to_owned(), b"sums".to_vec()),
    ];
    assert_eq!(unpacked(&packed(&entries)).unwrap(), wanted);
    // No folder at all, as `tar czf x.tar.gz *` packs.
    assert_eq!(unpacked(&packed(&[file(PLUGIN, b"x")])).unwrap().len(), 1);
}

#[test]
fn what_tar_packs_is_read() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("set")).unwrap();
    std::fs::write(temp.path().join("set").join(PLUGIN), "content").unwrap();
    for format in ["ustar", "gnu"] {
        let output = std::process::Command::new("tar")
            .args([&format!("--format={format}"), "-cz", "set"])
            .current_dir(temp.path())
            .output()
            .unwrap();
        let wanted = [(PLUGIN.to_owned(), b"content".to_vec())];
        assert_eq!(unpacked(&output.stdout).unwrap(), wanted, "{format}");
    }
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let paths = [
        "/etc/libthalweg_acme.so",
        "../libthalweg_acme.so",
        "set/../libthalweg_acme.so",
        "set/..",
        "..",
        "a/b/libthalweg_acme.so",
        "set//libthalweg_acme.so",
        "./../libthalweg_acme.so",
        ".//libthalweg_acme.so",
        "",
    ];
    for path in paths {
        assert_eq!(
            unpacked(&packed(&[file(path, b"x")])).unwrap_err(),
            format!("the archive holds the path {path:?}; only files in one folder are unpacked")
        );
    }
    for path in ["/", "../", "a/b/", "/etc/"] {
        let error = unpacked(&packed(&[header(path, b'5', 0)])).unwrap_err();
        assert!(error.contains("holds the path"), "{path}: {error}");
    }
    let two = [file("a/libthalweg_a.so", b"x"), file("b/libthalweg_b.so", b"x")];
    assert!(
        unpacked(&packed(&two))
            .unwrap_err()
            .contains("\"b/libthalweg_b.so\"")
    );
}

#[test]
fn only_plain_files_are_unpacked() {
    for (kind, text) in [
        (b'1', "a hard link"),
        (b'2', "a symbolic link"),
        (b'3', "a device"),
        (b'6', "a device"),
        (b'x', "an extension of the format; pack it with --format=ustar"),
        (b'L', "an extension of the format; pack it with --format=ustar"),
        (b'S', "an unknown kind of file"),
    ] {
        let error = unpacked(&packed(&[header(PLUGIN, kind, 0)])).unwrap_err();
        assert!(error.starts_with(&format!("the archive holds {text}")), "{error}");
    }
    let twice = [file(PLUGIN, b"one"), file(&format!("./{PLUGIN}"), b"two")];
    assert_eq!(
        unpacked(&packed(&twice)).unwrap_err(),
        format!("the archive holds {PLUGIN} twice")
    );
}

#[test]
fn bombs_are_refused_before_they_burst() {
    // A size that is promised is refused before a byte of it is read.
    let promised = packed(&[header(PLUGIN, b'0', MAX_BYTES + 1)]);
    assert_eq!(
        unpacked(&promised).unwrap_err(),
        "the archive holds more than 1 GiB"
    );
    let halves = vec![header("a.txt", b'0', MAX_BYTES); 1];
    assert_eq!(
        unpacked(&packed(&halves)).unwrap_err(),
        "the archive is truncated; copy it again"
    );
    let many: Vec<_> = (0..300).map(|i| file(&format!("{i}.txt"), b"")).collect();
    assert_eq!(
        unpacked(&packed(&many)).unwrap_err(),
        "the archive holds more than 256 files"
    );
    // Zeros without an end.
    let endless = gzip(&vec![0; 4 << 20]);
    assert_eq!(
        unpacked(&endless).unwrap_err(),
        "the archive is damaged: something follows its end; copy it again"
    );
}

#[test]
fn damage_is_told() {
    let whole = packed(&[file(PLUGIN, &[1; 3000]), file("b.txt", b"x")]);
    for len in 0..whole.len() {
        assert!(unpacked(&whole[..len]).is_err(), "cut to {len} bytes");
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        if let Ok(files) = unpacked(&damaged) {
            // Some bytes of gzip's own header mean nothing.
            assert_eq!(files, unpacked(&whole).unwrap(), "byte {at}");
        }
    }
    let mut wrong = file(PLUGIN, b"x");
    wrong[0] = b'L';
    assert!(unpacked(&packed(&[wrong])).unwrap_err().contains("a wrong sum"));
    let mut size = header(PLUGIN, b'0', 0);
    size[124] = 0x80;
    seal(&mut size);
    assert!(
        unpacked(&packed(&[size]))
            .unwrap_err()
            .contains("a size is no number")
    );
    assert!(unpacked(&gzip(&[b'x'; 512])).unwrap_err().contains("ustar"));
    assert!(unpacked(b"no gzip").is_err());
}
