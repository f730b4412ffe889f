//! Status classes that cross the ABI and the error type that carries one with its text.

use std::fmt;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What went wrong, as a class; the text of an error says the rest. `0` is success and never an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum Status { $($(#[$doc])* $name = $code,)* }

        impl Status {
            /// Every class, in the order of the codes.
            pub const ALL: &'static [Status] = &[$(Status::$name),*];

            /// The class of a code, `None` for a code that this version does not know.
            pub const fn from_code(code: i32) -> Option<Status> {
                match code { $($code => Some(Status::$name),)* _ => None }
            }

            /// The class as lower-case words, as it stands in messages.
            pub const fn name(self) -> &'static str {
                match self { $(Status::$name => $text,)* }
            }
        }
    };
}

statuses! {
    /// Success.
    Ok = 0, "ok";
    /// A value is outside its documented range, a pointer is null, an enum value is unknown.
    InvalidArgument = 1, "invalid argument";
    /// A handle was never valid, is stale, or belongs to another device.
    InvalidHandle = 2, "invalid handle";
    /// An access would reach outside its buffer.
    OutOfBounds = 3, "out of bounds";
    /// Two regions overlap that must not.
    Overlap = 4, "overlapping regions";
    /// Memory (device, host or the configured limit) does not suffice.
    OutOfMemory = 5, "out of memory";
    /// The backend or device does not offer this; a capability bit or `supports` said so.
    Unsupported = 6, "unsupported";
    /// The driver, a library or the device is not there.
    Unavailable = 7, "unavailable";
    /// Host and plugin speak different versions.
    IncompatibleAbi = 8, "incompatible ABI";
    /// A kernel was refused by the verifier or by the device's compiler.
    CompileFailed = 9, "compile failed";
    /// Work failed while it ran; sticks to its stream until the next synchronize.
    LaunchFailed = 10, "launch failed";
    /// The device is gone; every later call on it fails with this class.
    DeviceLost = 11, "device lost";
    /// A wait ended by its time limit.
    Timeout = 12, "timeout";
    /// A panic inside a plugin was stopped at the border.
    Panicked = 13, "panic in the backend";
    /// A defect in the backend.
    Internal = 14, "internal error";
    /// The file system or the operating system refused.
    Io = 15, "input or output failed";
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error of a backend: a class and one line that says what was asked and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The class; never [`Status::Ok`].
    pub status: Status,
    /// One line for a person.
    pub message: String,
}

impl Error {
    /// An error of class `status` with the text `message`.
    pub fn new(status: Status, message: impl Into<String>) -> Error {
        Error {
            status,
            message: message.into(),
        }
    }
}

macro_rules! constructors {
    ($($name:ident => $status:ident),* $(,)?) => {
        impl Error {
            $(#[doc = concat!("An error of class [`Status::", stringify!($status), "`].")]
            pub fn $name(message: impl Into<String>) -> Error { Error::new(Status::$status, message) })*
        }
    };
}

constructors! {
    invalid_argument => InvalidArgument,
    invalid_handle => InvalidHandle,
    out_of_bounds => OutOfBounds,
    overlap => Overlap,
    out_of_memory => OutOfMemory,
    unsupported => Unsupported,
    unavailable => Unavailable,
    compile_failed => CompileFailed,
    launch_failed => LaunchFailed,
    internal => Internal,
}

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A borrowed UTF-8 text that crosses the ABI. Valid for the duration of the call it is passed to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Str {
    /// First byte; may be null when `len` is 0.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
}

impl Str {
    /// The empty text.
    pub const EMPTY: Str = Str {
        ptr: std::ptr::null(),
        len: 0,
    };

    /// Borrows `text`.
    pub const fn new(text: &str) -> Str {
        Str {
            ptr: text.as_ptr(),
            len: text.len(),
        }
    }

    /// The text, or an error when it is null with a length or not UTF-8.
    ///
    /// # Safety
    /// `ptr` is null or points to `len` readable bytes that stay unchanged for `'a`.
    pub unsafe fn get<'a>(self) -> Result<&'a str> {
        if self.len == 0 {
            return Ok("");
        }
        if self.ptr.is_null() || self.len > isize::MAX as usize {
            return Err(Error::invalid_argument("a text of non-zero length is null"));
        }
        // SAFETY: not null; the caller vouches for `len` readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(self.ptr, self.len) };
        std::str::from_utf8(bytes).map_err(|_| Error::invalid_argument("a text is not UTF-8"))
    }
}

/// The text of an error with those of its causes behind colons, for a message of one line.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
