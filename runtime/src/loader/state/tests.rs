//! In a process of its own: the state is everybody's.

use super::State;
use std::process::Command;

const CHILD: &str = "THALWEG_TEST_STATE";

extern "C" fn handle(_: i32) {}

fn change() {
    // SAFETY: each of these changes what the test compares.
    unsafe {
        libc::chdir(c"/".as_ptr());
        libc::umask(0o077);
        libc::alarm(1000);
        libc::signal(libc::SIGUSR1, handle as extern "C" fn(i32) as libc::sighandler_t);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let mut limit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur -= 1;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        libc::close(0);
        #[cfg(target_arch = "x86_64")]
        {
            let flushing = 0x9fc0_u32;
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const flushing);
        }
    }
}

#[test]
fn what_was_changed_is_put_back() {
    if std::env::var_os(CHILD).is_none() {
        let run = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "loader::state::tests::what_was_changed_is_put_back",
                "--nocapture",
            ])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        return;
    }
    let folder = std::env::current_dir().unwrap();
    let tiny = std::hint::black_box(f32::MIN_POSITIVE);
    let before = State::now();
    change();
    let changes = before.restore();
    assert!(changes.lasting.is_empty(), "{:?}", changes.lasting);
    let expected = [
        "how floats are rounded and flushed to zero",
        "the signals that this thread blocks",
        "what is done about signal 10",
        "what is done about signal 13",
        "an alarm",
        "the working directory",
        "the limit of number of open files",
        "standard input",
    ];
    for what in expected {
        let known = cfg!(target_arch = "x86_64") || !what.contains("floats");
        assert!(
            !known || changes.undone.iter().any(|undone| undone == what),
            "{what}: {:?}",
            changes.undone
        );
    }
    assert!(
        changes
            .undone
            .iter()
            .any(|undone| undone.starts_with("the umask, "))
    );
    assert_eq!(std::env::current_dir().unwrap(), folder);
    assert!(std::hint::black_box(tiny / 2.0) > 0.0);
    // SAFETY: asks and changes nothing.
    assert_eq!(unsafe { libc::alarm(0) }, 0);
    let again = State::now().restore();
    assert!(again.undone.is_empty() && again.lasting.is_empty(), "{again:?}");
}
