//! A child process with a time limit, of which the last words are kept.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// More than this of a text is not kept.
const MAX_TEXT: usize = 4096;

/// How a child ended.
pub(super) struct End {
    /// `None` when the time was up.
    pub(super) status: Option<ExitStatus>,
    /// The beginning of its standard output.
    pub(super) output: Vec<u8>,
    /// The end of its standard error.
    pub(super) errors: Vec<u8>,
}

/// Runs `command` for at most `limit`; whatever it started ends with it.
pub(super) fn run(mut command: Command, limit: Duration) -> io::Result<End> {
    let deadline = Instant::now() + limit;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut group = Group(command.spawn()?);
    let mut output = Pipe::new(group.0.stdout.take().map(OwnedFd::from))?;
    let mut errors = Pipe::new(group.0.stderr.take().map(OwnedFd::from))?;
    let mut pause = Duration::from_micros(50);
    let status = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if output.from.is_some() || errors.from.is_some() {
            wait_for_text(&output, &errors, left.min(Duration::from_millis(20)));
        } else {
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        let ended = group.0.try_wait()?;
        output.read();
        errors.read();
        if ended.is_some() || left.is_zero() {
            break ended;
        }
    };
    Ok(End {
        status,
        output: output.first,
        errors: errors.last,
    })
}

/// A child that leads a process group, so that what it has started ends with it.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let Ok(pid) = libc::pid_t::try_from(self.0.id()) else {
            return;
        };
        // SAFETY: sends a signal and touches no memory.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
        // Either it ended before or the signal ends it; there is nobody to tell of a failure.
        let _ = self.0.wait();
    }
}

struct Pipe {
    from: Option<File>,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Pipe {
    fn new(fd: Option<OwnedFd>) -> io::Result<Pipe> {
        let from = fd.map(File::from);
        if let Some(file) = &from {
            // SAFETY: the descriptor is open; the call changes no memory.
            let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
            if done != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Pipe {
            from,
            first: Vec::new(),
            last: Vec::new(),
        })
    }

    fn read(&mut self) {
        let Some(from) = &mut self.from else { return };
        let mut buffer = [0; MAX_TEXT];
        // A limited number of rounds: whoever writes without end must not keep the time limit from being looked at.
        for _ in 0..64 {
            match from.read(&mut buffer) {
                Ok(n) if n > 0 => {
                    let room = MAX_TEXT - self.first.len();
                    self.first.extend_from_slice(&buffer[..n.min(room)]);
                    self.last.extend_from_slice(&buffer[..n]);
                    self.last.drain(..self.last.len().saturating_sub(MAX_TEXT));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => {
                    self.from = None;
                    return;
                }
            }
        }
    }
}

fn wait_for_text(one: &Pipe, other: &Pipe, limit: Duration) {
    // A negative descriptor is passed over by poll.
    let entry = |pipe: &Pipe| libc::pollfd {
        fd: pipe.from.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries = [entry(one), entry(other)];
    let limit = libc::c_int::try_from(limit.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: `entries` lives through the call and holds two.
    unsafe { libc::poll(entries.as_mut_ptr(), 2, limit) };
}
