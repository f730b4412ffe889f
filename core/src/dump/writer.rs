//! Puts values into the folders that they belong to.

use super::folder::{Folder, make};
use super::item::{Item, Place};
use super::manifest::Head;
use super::names;
use super::options::DumpOptions;
use crate::error::DumpError;
use crate::record::environment;
use crate::types::call::CallInfo;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a writer is told.
#[derive(Debug)]
pub(super) enum Message {
    /// A call runs in an iteration.
    Call(u64, Place, CallInfo),
    /// A value of an iteration.
    Value(u64, Box<Item>),
    /// An iteration is over.
    End,
}

impl Message {
    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let own = size_of::<Message>() as u64;
        match self {
            Message::Call(_, place, call) => {
                own + (place.target.len() + call.name.len() + call.scope.len()) as u64
            }
            Message::Value(_, item) => own + item.bytes(),
            Message::End => own,
        }
    }
}

/// Writes values.
#[derive(Debug)]
pub(super) struct Writer {
    options: DumpOptions,
    root: PathBuf,
    /// Which device a number is for, since two backends may have devices of one number.
    devices: HashMap<u32, String>,
    folders: BTreeMap<PathBuf, Folder>,
}

impl Writer {
    /// Makes the folder of all files.
    pub(super) fn new(options: &DumpOptions) -> Result<Writer, DumpError> {
        let root =
            environment::path_of_rank(Path::new(&options.path)).map_err(|error| DumpError::Option {
                key: "path".to_owned(),
                value: options.path.clone(),
                allowed: error.to_string(),
            })?;
        let first = match options.is_async() {
            true => root.clone(),
            false => root.join(&options.net_name),
        };
        make(&first).map_err(|error| DumpError::Folder {
            path: first.clone(),
            error: Arc::new(error),
        })?;
        Ok(Writer {
            options: options.clone(),
            root,
            devices: HashMap::new(),
            folders: BTreeMap::new(),
        })
    }

    pub(super) fn take(&mut self, message: Message) -> Result<(), DumpError> {
        match message {
            Message::Call(iteration, place, call) => self.folder(iteration, &place)?.note(call),
            Message::Value(iteration, item) => {
                let options = self.options.clone();
                self.folder(iteration, &item.place)?.write(&options, *item)?;
            }
            Message::End => {
                let folders = std::mem::take(&mut self.folders);
                folders
                    .into_values()
                    .try_for_each(|folder| folder.finish(&self.options))?;
            }
        }
        Ok(())
    }

    fn folder(&mut self, iteration: u64, place: &Place) -> Result<&mut Folder, DumpError> {
        let target = self
            .devices
            .entry(place.device)
            .or_insert_with(|| place.target.clone());
        let device = match (*target == place.target, place.target.split_once(':')) {
            (true, _) | (false, None) => place.device.to_string(),
            (false, Some((backend, _))) => format!("{}_{backend}", place.device),
        };
        let path = self
            .root
            .join(names::folder(&self.options, &device, place.graph, iteration));
        match self.folders.contains_key(&path) {
            true => {}
            false => {
                let head = Head {
                    target: place.target.clone(),
                    iteration,
                    failed: None,
                };
                let folder = Folder::create(path.clone(), head)?;
                self.folders.insert(path.clone(), folder);
            }
        }
        self.folders.get_mut(&path).ok_or(DumpError::Value {
            name: path.display().to_string(),
            message: "the folder was closed".to_owned(),
        })
    }
}
