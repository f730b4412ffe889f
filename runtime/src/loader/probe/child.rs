//! The child process of a trial: started, asked, and ended with all that it started.

use super::program::{END_AWAITED, FUNCTIONS, HELLO, REQUEST, SCRATCH, SCRATCH_SIZE};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// More than this of a text is not kept.
const MAX_TEXT: usize = 4096;

/// Why a child answers no more.
#[derive(Debug)]
pub(super) enum Lost {
    /// It ended; how is not known where the program ignores SIGCHLD.
    Ended(Option<ExitStatus>),
    /// The time was up.
    TimedOut,
    /// The system refused something.
    System(io::Error),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        Lost::System(error)
    }
}

/// A process that calls functions of its own for this one.
pub(super) struct Remote {
    group: Group,
    socket: UnixStream,
    output: Pipe,
    errors: Pipe,
    deadline: Instant,
    hello: [u64; HELLO / 8],
}

/// Places in the words that the program sends first.
const DATA: usize = 0;
const SOCKET: usize = 1;
const STUBS: usize = 2;
const LOADERS_END: usize = 5;
const GO_ON: usize = 6;

impl Remote {
    /// Starts `command`, which runs the trial program; `deadline` is for all that follows.
    pub(super) fn start(mut command: Command, deadline: Instant) -> Result<Remote, Lost> {
        let (socket, theirs) = UnixStream::pair()?;
        command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut group = Group(command.spawn()?);
        // The command holds the other end of the socket; without it the child's end is seen.
        drop(command);
        socket.set_nonblocking(true)?;
        let output = Pipe::new(group.0.stdout.take().map(OwnedFd::from))?;
        let errors = Pipe::new(group.0.stderr.take().map(OwnedFd::from))?;
        let mut remote = Remote {
            group,
            socket,
            output,
            errors,
            deadline,
            hello: [0; HELLO / 8],
        };
        let mut hello = [0; HELLO];
        remote.receive(&mut hello)?;
        for (word, bytes) in remote.hello.iter_mut().zip(hello.chunks_exact(8)) {
            *word = word_of(bytes);
        }
        Ok(remote)
    }

    /// Another end of the time.
    pub(super) fn until(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// The last line on its standard error.
    pub(super) fn last_words(&mut self) -> String {
        self.errors.read();
        let errors = String::from_utf8_lossy(&self.errors.last);
        let line = errors.lines().rev().map(str::trim).find(|line| !line.is_empty());
        line.unwrap_or_default().chars().take(200).collect()
    }

    /// Its functions that return 0, return 1, and run pieces.
    pub(super) fn stubs(&self) -> [u64; 3] {
        [self.hello[STUBS], self.hello[STUBS + 1], self.hello[STUBS + 2]]
    }

    /// The function that runs the destructors of all libraries, and the one that goes on where `exit` would end the process.
    pub(super) fn last_functions(&self) -> [u64; 2] {
        [self.hello[LOADERS_END], self.hello[GO_ON]]
    }

    /// From now on `exit` comes back.
    pub(super) fn await_end(&mut self) -> Result<(), Lost> {
        self.put(self.hello[DATA] + END_AWAITED as u64, &1_u64.to_ne_bytes())
    }

    /// The address of one of [`FUNCTIONS`].
    pub(super) fn function(&self, name: &str) -> u64 {
        let at = FUNCTIONS.iter().position(|function| *function == name);
        at.map_or(0, |at| self.hello[REQUEST / 8 + at])
    }

    /// The address of memory for arguments, of [`SCRATCH_SIZE`] bytes.
    pub(super) fn scratch(&self) -> u64 {
        self.hello[DATA] + SCRATCH
    }

    /// Calls the function at `address`.
    pub(super) fn call(&mut self, address: u64, arguments: &[u64]) -> Result<u64, Lost> {
        self.request(address, arguments, &[])
    }

    /// The address of a symbol of the C library; 0 where it has none.
    pub(super) fn symbol(&mut self, name: &CStr) -> Result<u64, Lost> {
        let place = self.scratch() + SCRATCH_SIZE / 2;
        self.put(place, name.to_bytes_with_nul())?;
        self.call(self.function("dlsym"), &[0, place])
    }

    /// Writes to its memory.
    pub(super) fn put(&mut self, address: u64, bytes: &[u8]) -> Result<(), Lost> {
        let arguments = [self.hello[SOCKET], address, bytes.len() as u64];
        let read = self.request(self.function("read"), &arguments, bytes)?;
        match read == bytes.len() as u64 {
            true => Ok(()),
            false => Err(io::Error::other("the child takes no arguments").into()),
        }
    }

    /// Reads memory of its that can be read.
    pub(super) fn get(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Lost> {
        let arguments = [self.hello[SOCKET], address, bytes.len() as u64];
        self.send(self.function("write"), &arguments, &[])?;
        self.receive(bytes)?;
        let mut reply = [0; 8];
        self.receive(&mut reply)
    }

    /// A text of its that ends in a zero, or its beginning; `strnlen` is the address of that function.
    pub(super) fn text(&mut self, address: u64, strnlen: u64) -> Result<String, Lost> {
        let len = self.call(strnlen, &[address, MAX_TEXT as u64])?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0).min(MAX_TEXT)];
        self.get(address, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn request(&mut self, address: u64, arguments: &[u64], behind: &[u8]) -> Result<u64, Lost> {
        self.send(address, arguments, behind)?;
        let mut reply = [0; 8];
        self.receive(&mut reply)?;
        Ok(word_of(&reply))
    }

    fn send(&mut self, address: u64, arguments: &[u64], behind: &[u8]) -> Result<(), Lost> {
        let mut bytes = [0; REQUEST];
        let words = std::iter::once(&address).chain(arguments);
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        // What is sent is far below what a socket holds, and the child waits for it, or is gone.
        match self.socket.write_all(&[&bytes, behind].concat()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(self.end()),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, bytes: &mut [u8]) -> Result<(), Lost> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.socket.read(&mut bytes[filled..]) {
                Ok(0) => return Err(self.end()),
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(true)?,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(self.end()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// How a child that answers no more comes to its end.
    fn end(&mut self) -> Lost {
        loop {
            if let Err(lost) = self.wait(false) {
                return lost;
            }
        }
    }

    /// Waits a moment for an answer, and takes what the child writes meanwhile.
    fn wait(&mut self, for_answer: bool) -> Result<(), Lost> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let socket = if for_answer { self.socket.as_raw_fd() } else { -1 };
        poll(
            [socket, self.output.descriptor(), self.errors.descriptor()],
            left.min(Duration::from_millis(20)),
        );
        self.output.read();
        self.errors.read();
        // What a plugin has started may hold the socket open when the child itself is gone.
        match self.group.0.try_wait() {
            Ok(None) if left.is_zero() => Err(Lost::TimedOut),
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Lost::Ended(Some(status))),
            // The system takes children away by itself.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Err(Lost::Ended(None)),
            Err(error) => Err(error.into()),
        }
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
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
            last: Vec::new(),
        })
    }

    /// A negative one is passed over by poll.
    fn descriptor(&self) -> i32 {
        self.from.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn read(&mut self) {
        let Some(from) = &mut self.from else { return };
        let mut buffer = [0; MAX_TEXT];
        // A limited number of rounds: whoever writes without end must not keep the time limit from being looked at.
        for _ in 0..64 {
            match from.read(&mut buffer) {
                Ok(n) if n > 0 => {
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

fn poll(descriptors: [i32; 3], limit: Duration) {
    let mut entries = descriptors.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let limit = libc::c_int::try_from(limit.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: `entries` lives through the call and holds three.
    unsafe { libc::poll(entries.as_mut_ptr(), 3, limit) };
}
