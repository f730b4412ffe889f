//! The dump of a session.

use super::keys::{DUMP_DEBUG_MODE, DUMP_MODE, DUMP_PATH, DUMP_STEP, ENABLE_DUMP, ENABLE_DUMP_DEBUG};
use super::options::SessionOptions;
use crate::dump::environment::{begin_lasting, configured};
use crate::dump::{DumpOptions, InputOutput, Iterations, OpDebugMode};
use crate::error::{Result, SessionError};
use crate::options::by_name::{WrongOption, wrong};
use crate::record::environment::path_of_rank;
use serde_json::Value;
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

/// The words of `dump_mode`.
pub(super) const MODES: &[(&str, InputOutput)] = &[
    ("input", InputOutput::Inputs),
    ("output", InputOutput::Outputs),
    ("all", InputOutput::Both),
];

/// The words of `dump_debug_mode`.
pub(super) const DEBUG_MODES: &[(&str, OpDebugMode)] = &[
    ("aicore_overflow", OpDebugMode::Ops),
    ("atomic_overflow", OpDebugMode::Reductions),
    ("all", OpDebugMode::Both),
];

/// What a word stands for.
pub(super) fn of_word<T: Copy>(words: &[(&str, T)], value: &Value) -> Option<T> {
    let is = |(word, _): &&(&str, T)| value.as_str() == Some(word);
    words.iter().find(is).map(|(_, known)| *known)
}

/// The word for it, where there is one.
pub(super) fn word_of<T: PartialEq>(words: &[(&'static str, T)], known: &T) -> &'static str {
    let found = words.iter().find(|(_, one)| one == known);
    found.map_or("off", |(word, _)| word)
}

/// The iterations that a number or a text says.
pub(super) fn steps(value: &Value) -> Result<Option<Iterations>, WrongOption> {
    match (value.as_str(), value.as_u64()) {
        (Some(text), _) => Iterations::parse(DUMP_STEP.key, text).map(Some),
        (None, Some(one)) => Ok(Some(Iterations::one(one))),
        (None, None) => Ok(None),
    }
}

/// Whether a session can have these options.
pub(super) fn check(options: &SessionOptions) -> Result<()> {
    Ok(judge(options).map_err(SessionError::from)?)
}

fn judge(options: &SessionOptions) -> Result<(), WrongOption> {
    let SessionOptions {
        enable_dump,
        enable_dump_debug,
        dump_path,
        dump_step,
        dump_mode,
        dump_debug_mode,
        ..
    } = options;
    if *dump_debug_mode == OpDebugMode::Off {
        let allowed = "it takes aicore_overflow, atomic_overflow or all; enable_dump_debug turns it off";
        return Err(wrong(DUMP_DEBUG_MODE.key, "off", allowed));
    }
    let any = *enable_dump || *enable_dump_debug;
    let one = "it needs enable_dump or enable_dump_debug";
    let (mode, debug_mode) = (word_of(MODES, dump_mode), word_of(DEBUG_MODES, dump_debug_mode));
    for (wanting, key, value, allowed) in [
        (
            !any && !dump_path.is_empty(),
            DUMP_PATH.key,
            dump_path.as_str(),
            one,
        ),
        (
            !any && *dump_step != Iterations::ALL,
            DUMP_STEP.key,
            &dump_step.to_string(),
            one,
        ),
        (
            !*enable_dump && *dump_mode != InputOutput::Outputs,
            DUMP_MODE.key,
            mode,
            "it needs enable_dump",
        ),
        (
            !*enable_dump_debug && *dump_debug_mode != OpDebugMode::Both,
            DUMP_DEBUG_MODE.key,
            debug_mode,
            "it needs enable_dump_debug",
        ),
        (
            *enable_dump && *enable_dump_debug,
            ENABLE_DUMP_DEBUG.key,
            "true",
            "it dumps calls that overflow alone, and enable_dump dumps all; turn one of them off",
        ),
        (
            any && dump_path.is_empty(),
            DUMP_PATH.key,
            "empty",
            "a dump needs a folder that exists and can be read and written",
        ),
    ] {
        if wanting {
            return Err(wrong(key, value, allowed));
        }
    }
    match any {
        true => folder(dump_path).map(|_| ()),
        false => Ok(()),
    }
}

/// The folder of the dump, an absolute path.
fn folder(text: &str) -> Result<PathBuf, WrongOption> {
    let refused = |why: &str| {
        wrong(
            DUMP_PATH.key,
            text,
            &format!("it takes a folder that exists and can be read and written: {why}"),
        )
    };
    let path = path_of_rank(Path::new(text)).map_err(|error| refused(&error.to_string()))?;
    let path = std::path::absolute(path).map_err(|error| refused(&error.to_string()))?;
    if !path.is_dir() {
        return Err(refused("there is no such folder"));
    }
    let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| refused("it holds a 0"))?;
    // SAFETY: the name ends with a 0 and lives until the call returns.
    match unsafe { libc::access(name.as_ptr(), libc::R_OK | libc::W_OK | libc::X_OK) } {
        0 => Ok(path),
        _ => Err(refused(&io::Error::last_os_error().to_string())),
    }
}

/// Begins the dump that ends with the session, or with the process.
pub(super) fn begin(options: &SessionOptions) -> Result<()> {
    let key = if options.enable_dump {
        ENABLE_DUMP
    } else {
        ENABLE_DUMP_DEBUG
    };
    let asked = |why: &str| SessionError::from(wrong(key.key, "true", why));
    if let Some((variable, _)) = configured() {
        let why = format!("{variable} asks for a dump too, and a process has one; unset it");
        return Err(asked(&why).into());
    }
    let folder = folder(&options.dump_path).map_err(SessionError::from)?;
    let Some(folder) = folder.to_str() else {
        return Err(asked("the working directory has a name that is no text").into());
    };
    let mut dump = DumpOptions::to(folder);
    (dump.e2e_enable, dump.async_enable) = (false, true);
    dump.iteration = options.dump_step.clone();
    match options.enable_dump {
        true => dump.input_output = options.dump_mode,
        false => dump.op_debug_mode = options.dump_debug_mode,
    }
    dump.check()?;
    Ok(begin_lasting(&dump)?)
}
