//! Tensors of a network in files of safetensors.

use crate::error::{Error, Result};
use crate::module::{self, Module, PartMut, State, VisitorMut};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use thalweg::interchange::safetensors::{self, Archive};
use thalweg::{Context, Tensor};

/// A tensor under its path.
pub type Named = (String, Tensor);

/// What a file holds.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Where it was read.
    pub path: PathBuf,
    /// The tensors by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// Text beside them.
    pub metadata: BTreeMap<String, String>,
}

impl Loaded {
    /// Removes and returns a tensor, which must have the shape and dtype of `like`.
    ///
    /// # Errors
    /// It has others.
    pub fn take(&mut self, name: &str, like: &Tensor) -> Result<Option<Tensor>> {
        let Some(found) = self.tensors.get(name) else {
            return Ok(None);
        };
        let (wanted, given) = ((like.dtype()?, like.shape()?), (found.dtype()?, found.shape()?));
        if wanted != given {
            return Err(Error::Checkpoint {
                path: self.path.clone(),
                message: format!(
                    "{name} is {} {}, the network's is {} {}",
                    given.0, given.1, wanted.0, wanted.1
                ),
            });
        }
        Ok(self.tensors.remove(name))
    }

    /// Moves the tensors whose name is the path of a parameter or state to that place of `module`, and returns the paths that the
    /// file has no tensor for. Those keep their values, so that a network can start from another one's file.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use thalweg::Context;
    /// use thalweg_nn::{Dense, Module, checkpoint, module};
    /// let cx = Context::new("cpu")?;
    /// let file = std::env::temp_dir().join(format!("fill-{}.safetensors", std::process::id()));
    /// let trained = Dense::new(3, 2, &cx)?;
    /// checkpoint::save(&file, &module::named(&trained), &BTreeMap::new())?;
    /// let mut other = (Dense::new(3, 2, &cx)?, Dense::new(2, 5, &cx)?);
    /// let missing = checkpoint::load(&file, &cx)?.fill(&mut other.0)?;
    /// assert!(missing.is_empty());
    /// assert_eq!(other.0.weight.to_vec::<f32>()?, trained.weight.to_vec::<f32>()?);
    /// # std::fs::remove_file(file).ok();
    /// # Ok::<(), thalweg_nn::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor of another shape or dtype; then `module` is as before.
    pub fn fill<M: Module>(&mut self, module: &mut M) -> Result<Vec<String>> {
        let mut found = HashMap::new();
        let mut missing = Vec::new();
        for (path, value) in module::named(module) {
            match self.take(&path, &value)? {
                Some(tensor) => _ = found.insert(path, tensor),
                None => missing.push(path),
            }
        }
        module.visit_mut(&mut VisitorMut::new(&mut |path, part| {
            let Some(tensor) = found.remove(path) else { return };
            match part {
                PartMut::Parameter(parameter) => parameter.set_value(tensor),
                PartMut::State(state) => *state = State::new(tensor),
                PartMut::Training(_) => {}
            }
        }));
        Ok(missing)
    }
}

/// Writes tensors and text. The file appears whole or not at all, also when the process is killed; folders are made.
///
/// # Errors
/// The file cannot be written; reading a tensor failed.
pub fn save(path: &Path, tensors: &[Named], metadata: &BTreeMap<String, String>) -> Result<()> {
    let tensors: Vec<(&str, &Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (name.as_str(), tensor))
        .collect();
    let metadata: Vec<(&String, &String)> = metadata.iter().collect();
    Ok(safetensors::save(path, &tensors, &metadata)?)
}

/// The text beside the tensors of a file; of the tensors nothing is read.
///
/// # Errors
/// The file cannot be read or is damaged.
pub fn metadata(path: &Path) -> Result<BTreeMap<String, String>> {
    Ok(Archive::open(path)?.metadata().clone())
}

/// The tensors of a file on the device of `cx`.
///
/// # Errors
/// The file cannot be read, is damaged, or has a dtype that tensors have not.
pub fn load(path: &Path, cx: &Context) -> Result<Loaded> {
    let file = Archive::open(path)?;
    let tensors = file
        .names()
        .map(|name| Ok((name.to_owned(), file.tensor(name, cx)?)));
    Ok(Loaded {
        path: path.to_owned(),
        tensors: tensors.collect::<Result<_>>()?,
        metadata: file.metadata().clone(),
    })
}
