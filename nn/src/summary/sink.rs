//! The files of a record. The first failure is told once and ends them; the program goes on.

use crate::error::Result;
use std::path::{Path, PathBuf};
use thalweg::interchange::npy;
use thalweg::{DType, Tensor};
use thalweg_summary::{Content, Error, Event, Writer};

pub(crate) struct Sink {
    folder: PathBuf,
    state: State,
    /// Where tensors go as files of NumPy.
    export: Option<PathBuf>,
}

enum State {
    Open(Writer),
    /// The error, until somebody asks for it.
    Failed(Option<Error>),
}

impl Sink {
    pub(crate) fn create(folder: &Path, limit: Option<u64>, export: bool) -> Result<Sink> {
        let writer = Writer::create(folder, limit).map_err(super::SummaryError::File)?;
        let seconds = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        Ok(Sink {
            folder: folder.to_owned(),
            state: State::Open(writer),
            export: export.then(|| folder.join(format!("export_{seconds}")).join("tensor")),
        })
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    pub(crate) fn write(&mut self, step: u64, content: Content) {
        if let State::Open(writer) = &mut self.state {
            let step = i64::try_from(step).unwrap_or(i64::MAX);
            let written = writer.write(&Event::of(step, content));
            written.unwrap_or_else(|error| self.fail(error));
        }
    }

    /// Writes a file beside the events, if they could be written so far.
    pub(crate) fn beside(&mut self, name: &str, write: impl FnOnce(&Path) -> Result<()>) {
        if !self.is_open() {
            return;
        }
        let path = self.folder.join(name);
        if let Err(error) = write(&path) {
            let error = std::io::Error::other(error.to_string());
            self.fail(Error::Write { path, error });
        }
    }

    /// Writes a tensor as a file of NumPy, if that is asked for.
    pub(crate) fn export(&mut self, tag: &str, step: u64, tensor: &Tensor) -> Result<()> {
        let Some(folder) = &self.export else { return Ok(()) };
        let name = folder.join(format!("{}_{step}.npy", quoted(tag)));
        // NumPy has no floats of eight bits.
        let tensor = match tensor.dtype()? {
            dtype if dtype.is_storage() => tensor.cast(DType::F32),
            _ => tensor.clone(),
        };
        tensor.shape()?;
        let relative = name
            .strip_prefix(&self.folder)
            .unwrap_or(&name)
            .to_string_lossy()
            .into_owned();
        self.beside(&relative, |path| Ok(npy::write(path, &tensor)?));
        Ok(())
    }

    fn fail(&mut self, error: Error) {
        tracing::warn!("{error}; the training goes on without it");
        self.state = State::Failed(Some(error));
    }

    /// The failure that ended the files.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        match &mut self.state {
            State::Open(_) => None,
            State::Failed(error) => error.take(),
        }
    }
}

/// A name for files: letters, digits and `_.-~` stay, other bytes become `%2F`.
fn quoted(tag: &str) -> String {
    let mut name = String::new();
    for byte in tag.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                name.push(char::from(byte))
            }
            _ => name += &format!("%{byte:02X}"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_are_quoted_as_python_quotes_them() {
        // urllib.parse.quote(tag, safe='')
        assert_eq!(quoted("conv1/out put:é~_.-"), "conv1%2Fout%20put%3A%C3%A9~_.-");
        assert_eq!(quoted(".."), "..");
    }
}
