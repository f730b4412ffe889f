use super::*;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, |file| file.write_all(bytes))
}

#[test]
fn threads_that_write_one_path_do_not_mix_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/file");
    let save = |byte: u8| {
        replace(&path, |file| {
            for _ in 0..20 {
                file.write_all(&[byte; 100])?;
                std::thread::yield_now();
            }
            Ok::<(), io::Error>(())
        })
    };
    save(0).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let bytes = fs::read(&path).unwrap();
                assert!(bytes.len() == 2000 && bytes.iter().all(|byte| *byte == bytes[0]));
            }
        });
        let writers: Vec<_> = (1..=4)
            .map(|byte| scope.spawn(move || (0..20).try_for_each(|_| save(byte))))
            .collect();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::SeqCst);
        reader.join().unwrap();
        written.into_iter().for_each(|result| result.unwrap().unwrap());
    });
    let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn files_of_others_are_passed_by_and_failed_ones_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    // What processes of the same number may write just now.
    for number in 0..1000 {
        let name = format!("file.{}.{number}.tmp", std::process::id());
        fs::write(folder.path().join(name), "others").unwrap();
    }
    assert!(replace(&path, |_| Err(io::Error::other("no"))).is_err());
    assert!(!path.exists());
    write(&path, b"own").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"own");
    let mut others = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        others += usize::from(fs::read(entry.unwrap().path()).unwrap() == b"others");
    }
    assert_eq!(others, 1000);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1001);
}

#[test]
fn what_killed_writers_left_goes_with_the_next_write() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "file.12.0.tmp",
        "file.999999.34.tmp",
        "file.7.1.tmp",
        "file.1.2.3.tmp",
        "file.x.1.tmp",
        "other.1.2.tmp",
    ];
    for name in names {
        fs::write(folder.path().join(name), "left").unwrap();
    }
    let age = |name: &str| {
        let file = File::options()
            .write(true)
            .open(folder.path().join(name))
            .unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600))
            .unwrap();
        file
    };
    for name in names.iter().filter(|name| **name != "file.999999.34.tmp") {
        age(name);
    }
    let locked = age("file.7.1.tmp");
    locked.lock().unwrap();
    write(&folder.path().join("file"), b"new").unwrap();
    let mut left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(
        left,
        [
            "file",
            "file.1.2.3.tmp",
            "file.7.1.tmp",
            "file.999999.34.tmp",
            "file.x.1.tmp",
            "other.1.2.tmp"
        ]
    );
}

#[test]
fn the_mode_stays_and_links_lead_to_the_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, link, chain) = (
        folder.path().join("deep/secret"),
        folder.path().join("link"),
        folder.path().join("chain"),
    );
    write(&secret, b"old").unwrap();
    for mode in [0o600, 0o640, 0o444] {
        fs::set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
        replace(&secret, |file| {
            assert_eq!(
                file.metadata()?.mode() & 0o077,
                0,
                "others may read what is not done"
            );
            file.write_all(b"new")
        })
        .unwrap();
        assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o7777, mode);
    }
    symlink("deep/secret", &link).unwrap();
    symlink("link", &chain).unwrap();
    write(&chain, b"through").unwrap();
    assert!(chain.is_symlink() && link.is_symlink());
    assert_eq!(fs::read(&secret).unwrap(), b"through");
    // A link to nothing makes the file that it names.
    symlink("deep/later", folder.path().join("early")).unwrap();
    write(&folder.path().join("early"), b"made").unwrap();
    assert_eq!(fs::read(folder.path().join("deep/later")).unwrap(), b"made");
    symlink("circle", folder.path().join("circle")).unwrap();
    assert!(write(&folder.path().join("circle"), b"x").is_err());
}

#[test]
fn what_is_no_regular_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, socket, device) = (
        folder.path().join("pipe"),
        folder.path().join("socket"),
        folder.path().join("device"),
    );
    let name = std::ffi::CString::new(pipe.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends in zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let _listener = UnixListener::bind(&socket).unwrap();
    symlink("/dev/null", &device).unwrap();
    for path in [&pipe, &socket, &device, &folder.path().to_path_buf()] {
        let error = write(path, b"x").unwrap_err();
        assert!(
            error.to_string().contains("in place of regular files only"),
            "{error}"
        );
    }
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}
