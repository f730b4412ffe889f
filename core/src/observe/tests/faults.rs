//! What goes wrong, and threads that come and go.

use super::*;

fn refused(error: Error) -> ProfileError {
    match error {
        Error::Profile(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn what_cannot_begin_is_an_error() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "taken").unwrap();
    // Below a file, and of the system.
    for wrong in [file.as_path(), Path::new("/proc/no-folder")] {
        let error = refused(Profile::to(wrong).start(&cx).unwrap_err());
        assert!(matches!(error, ProfileError::Folder { .. }), "{error}");
        assert!(
            error.to_string().contains("name a folder that can be written"),
            "{error}"
        );
    }
    let running = Profile::to(folder.path()).start(&cx).unwrap();
    let error = refused(Profile::to(folder.path()).start(&cx).unwrap_err());
    assert!(matches!(error, ProfileError::Running { .. }), "{error}");
    drop(running);
    for schedule in [
        Profile::to(folder.path()).steps(0..=3),
        Profile::to(folder.path()).schedule(Schedule {
            active: 0,
            ..Schedule::default()
        }),
    ] {
        let error = refused(schedule.start(&cx).unwrap_err());
        assert!(matches!(error, ProfileError::Steps { .. }), "{error}");
    }
    // After errors the next one begins.
    drop(Profile::to(folder.path()).start(&cx).unwrap());
    assert!(Recording::read(&rank(&folder)).is_ended);
}

/// A disk that is full, as the system has one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_the_recording_and_not_the_program() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let wanted = x.exp().to_vec::<f32>().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(rank(&folder)).unwrap();
    // The magic number does not fit: it cannot begin.
    std::os::unix::fs::symlink("/dev/full", rank(&folder).join("recording.tw")).unwrap();
    let error = refused(Profile::to(folder.path()).start(&cx).unwrap_err());
    assert!(error.to_string().contains("No space left on device"), "{error}");
    assert_eq!(x.exp().to_vec::<f32>().unwrap(), wanted);
    // A file that may hold 4096 bytes.
    let full = Limited::new(4096);
    std::fs::remove_file(rank(&folder).join("recording.tw")).unwrap();
    let profile = Profile::to(folder.path()).start(&cx).unwrap();
    for _ in 0..2000 {
        assert_eq!(x.exp().to_vec::<f32>().unwrap(), wanted);
    }
    let error = refused(profile.finish().unwrap_err());
    drop(full);
    assert!(matches!(error, ProfileError::Write { .. }), "{error}");
    assert!(
        error.to_string().contains("the program goes on without it"),
        "{error}"
    );
    let recording = Recording::read(&rank(&folder));
    assert!(!recording.is_ended);
}

/// While it lives, files of this process are no larger.
#[cfg(target_os = "linux")]
struct Limited(libc::rlimit);

#[cfg(target_os = "linux")]
impl Limited {
    fn new(bytes: u64) -> Limited {
        let mut old = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: `old` is writable, and the limit below it is a copy. The signal of files that grow too large is not heeded, so
        // that writing fails.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut old);
            let new = libc::rlimit {
                rlim_cur: bytes,
                ..old
            };
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const new);
        }
        Limited(old)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Limited {
    fn drop(&mut self) {
        // SAFETY: the limits that were there.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const self.0) };
    }
}

#[test]
fn threads_come_and_go_while_profiles_start_and_stop() {
    let _alone = alone();
    let cx = Context::new("cpu").unwrap();
    let x = numbers(&cx);
    let wanted = x.exp().to_vec::<f32>().unwrap();
    let stop = AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    let mut dice = crate::random::Mt19937::new(5);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (cx, x, wanted, stop) = (&cx, &x, &wanted, &stop);
            scope.spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    let _range = crate::observe::range(&format!("thread {thread}"));
                    crate::observe::counter("turns", f64::from(count));
                    count += 1;
                    assert_eq!(x.exp().to_vec::<f32>().unwrap(), *wanted);
                    if count % 50 == 0 {
                        // A thread that ends while it is recorded.
                        let (cx, x) = (cx.clone(), x.clone());
                        let ends = std::thread::spawn(move || drop((x.sin(), cx)));
                        ends.join().unwrap();
                    }
                }
            });
        }
        for _ in 0..60 {
            let profile = Profile::to(folder.path()).memory(true).start(&cx).unwrap();
            std::thread::sleep(std::time::Duration::from_micros(u64::from(
                dice.next_u32() % 8000,
            )));
            profile.finish().unwrap();
            // Reading checks every record.
            let recording = Recording::read(&rank(&folder));
            assert!(recording.is_ended && recording.cut.is_none());
            for (name, value) in &recording.counters {
                assert!(name == "turns" && value.fract() == 0.0);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
