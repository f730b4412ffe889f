//! The parts of the process's state.

use super::Changes;
use std::fs::File;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;

/// Sets the mask of this thread, or leaves it; the mask before, where the system tells it.
pub(super) fn mask(set: Option<&libc::sigset_t>) -> Option<libc::sigset_t> {
    // SAFETY: a set of signals is plain bits; both pointers live through the call, or are null.
    unsafe {
        let mut before = zeroed();
        let set = set.map_or(std::ptr::null(), std::ptr::from_ref);
        let done = libc::pthread_sigmask(libc::SIG_SETMASK, set, &raw mut before);
        (done == 0).then_some(before)
    }
}

/// Whether two sets have the same signals.
pub(super) fn same_set(one: &libc::sigset_t, other: &libc::sigset_t) -> bool {
    // SAFETY: both are sets; the call reads them.
    (1..=SIGNALS).all(|signal| unsafe { libc::sigismember(one, signal) == libc::sigismember(other, signal) })
}

/// The mode bits that new files do not get. Asking the system call would set them for a moment, for every thread.
pub(super) fn umask() -> Option<libc::mode_t> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let text = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    libc::mode_t::from_str_radix(text.trim(), 8).ok()
}

const SIGNALS: i32 = 64;

/// What is done about each signal; `None` for those that a program cannot ask for.
pub(super) struct Handlers(Vec<Option<libc::sigaction>>);

impl Handlers {
    pub(super) fn now() -> Handlers {
        Handlers((1..=SIGNALS).map(handler).collect())
    }

    pub(super) fn restore(self, changes: &mut Changes) {
        for (before, signal) in self.0.into_iter().zip(1..) {
            let (Some(before), Some(now)) = (before, handler(signal)) else {
                continue;
            };
            let same = before.sa_sigaction == now.sa_sigaction
                && before.sa_flags == now.sa_flags
                && same_set(&before.sa_mask, &now.sa_mask);
            if !same {
                // SAFETY: the action is what the system gave for this signal.
                let done = unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) } == 0;
                changes.note(format!("what is done about signal {signal}"), done);
            }
        }
    }
}

fn handler(signal: i32) -> Option<libc::sigaction> {
    // SAFETY: an action is plain data, and lives through the call.
    unsafe {
        let mut action = zeroed();
        (libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0).then_some(action)
    }
}

/// Alarms and the like.
pub(super) struct Timers(Vec<libc::itimerval>);

const TIMERS: [(libc::c_int, &str); 3] = [
    (libc::ITIMER_REAL, "an alarm"),
    (libc::ITIMER_VIRTUAL, "a timer of its own time"),
    (libc::ITIMER_PROF, "a timer of the processor's time"),
];

impl Timers {
    pub(super) fn now() -> Timers {
        Timers(TIMERS.into_iter().map(|(timer, _)| read_timer(timer)).collect())
    }

    pub(super) fn restore(self, changes: &mut Changes) {
        for (before, (timer, name)) in self.0.into_iter().zip(TIMERS) {
            let now = read_timer(timer);
            let left = |timer: &libc::itimerval| (timer.it_value.tv_sec, timer.it_value.tv_usec);
            let every = |timer: &libc::itimerval| (timer.it_interval.tv_sec, timer.it_interval.tv_usec);
            // One that runs has less time left, or begins again.
            let later = left(&now) > left(&before) && left(&now) > every(&before);
            if every(&before) != every(&now) || later {
                // SAFETY: the value is what the system gave for this timer.
                let done =
                    unsafe { libc::setitimer(timer as _, &raw const before, std::ptr::null_mut()) } == 0;
                changes.note(name, done);
            }
        }
    }
}

fn read_timer(timer: libc::c_int) -> libc::itimerval {
    // SAFETY: a timer's value is plain data, and lives through the call.
    unsafe {
        let mut value = zeroed();
        libc::getitimer(timer as _, &raw mut value);
        value
    }
}

/// The working directory.
pub(super) struct Folder(Option<File>);

impl Folder {
    pub(super) fn now() -> Folder {
        Folder(File::open(".").ok())
    }

    pub(super) fn restore(self, changes: &mut Changes) {
        let Some(before) = self.0 else { return };
        let place = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let now = std::fs::metadata(".").ok().map(place);
        if before.metadata().ok().map(place) != now {
            // SAFETY: the descriptor is open; the call changes no memory.
            let done = unsafe { libc::fchdir(before.as_raw_fd()) } == 0;
            changes.note("the working directory", done);
        }
    }
}

/// The limits of the process.
pub(super) struct Limits(Vec<Option<libc::rlimit>>);

const LIMITS: [&str; 16] = [
    "processor time",
    "size of files",
    "size of data",
    "size of the stack",
    "size of core files",
    "resident memory",
    "number of processes",
    "number of open files",
    "locked memory",
    "size of memory",
    "number of locks",
    "pending signals",
    "message queues",
    "niceness",
    "real-time priority",
    "real-time time",
];

impl Limits {
    pub(super) fn now() -> Limits {
        Limits((0..LIMITS.len()).map(limit).collect())
    }

    pub(super) fn restore(self, changes: &mut Changes) {
        for (at, (before, name)) in self.0.into_iter().zip(LIMITS).enumerate() {
            let (Some(before), Some(now)) = (before, limit(at)) else {
                continue;
            };
            if (before.rlim_cur, before.rlim_max) != (now.rlim_cur, now.rlim_max) {
                // SAFETY: the limit is what the system gave; the call changes no memory.
                let done = unsafe { libc::setrlimit(at as _, &raw const before) } == 0;
                changes.note(format!("the limit of {name}"), done);
            }
        }
    }
}

fn limit(at: usize) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` lives through the call.
    (unsafe { libc::getrlimit(at as _, &raw mut limit) } == 0).then_some(limit)
}

/// Where standard input, output and error lead.
pub(super) struct Standard([Option<File>; 3]);

impl Standard {
    pub(super) fn now() -> Standard {
        Standard([0, 1, 2].map(copy))
    }

    pub(super) fn restore(self, changes: &mut Changes) {
        for (before, (fd, name)) in self
            .0
            .into_iter()
            .zip([(0, "input"), (1, "output"), (2, "error")])
        {
            let Some(before) = before else { continue };
            let place = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
            let now = copy(fd).and_then(|file| file.metadata().ok()).map(place);
            if before.metadata().ok().map(place) != now {
                // SAFETY: both are numbers of descriptors; the call changes no memory.
                let done = unsafe { libc::dup2(before.as_raw_fd(), fd) } == fd;
                changes.note(format!("standard {name}"), done);
            }
        }
    }
}

fn copy(fd: i32) -> Option<File> {
    // SAFETY: the call changes no memory; the copy belongs to nobody else.
    unsafe {
        let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3);
        (copy >= 0).then(|| File::from_raw_fd(copy))
    }
}
