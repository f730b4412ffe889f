//! Tensors in safetensors files.

use crate::data::Column;
use crate::error::{Error, Result};
use crate::module::{self, Module, PartMut, State, VisitorMut};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use thalweg::{Context, DType, Tensor};

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
    pub metadata: HashMap<String, String>,
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

macro_rules! dtypes {
    ($($ours:ident $theirs:ident;)*) => {
        fn to_file(dtype: DType) -> Dtype {
            match dtype {
                $(DType::$ours => Dtype::$theirs,)*
            }
        }

        fn from_file(dtype: Dtype) -> Option<DType> {
            match dtype {
                $(Dtype::$theirs => Some(DType::$ours),)*
                _ => None,
            }
        }
    };
}

dtypes! {
    F64 F64; F32 F32; F16 F16; BF16 BF16;
    I64 I64; I32 I32; I16 I16; I8 I8;
    U64 U64; U32 U32; U16 U16; U8 U8;
    Bool BOOL;
}

/// Writes tensors and text. The file appears whole or not at all, also when the process is killed; folders are made.
///
/// # Errors
/// The file cannot be written; reading a tensor failed.
pub fn save(path: &Path, tensors: &[Named], metadata: &BTreeMap<String, String>) -> Result<()> {
    let file_error = |error: std::io::Error| Error::File {
        path: path.to_owned(),
        error,
    };
    let refused = |message: String| Error::Checkpoint {
        path: path.to_owned(),
        message,
    };
    let bytes = |tensor: &Tensor| {
        Ok::<_, Error>((
            to_file(tensor.dtype()?),
            tensor.shape()?,
            Column::of(tensor)?.to_le_bytes(),
        ))
    };
    let data: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| Ok((name, bytes(tensor)?)))
        .collect::<Result<_>>()?;
    let views = data.iter().map(|(name, (dtype, shape, data))| {
        let view =
            TensorView::new(*dtype, shape.to_vec(), data).map_err(|error| refused(error.to_string()))?;
        Ok((name.as_str(), view))
    });
    let views: Vec<(&str, TensorView<'_>)> = views.collect::<Result<_>>()?;
    let metadata: HashMap<String, String> = metadata.clone().into_iter().collect();
    let bytes = safetensors::serialize(views, Some(metadata)).map_err(|error| refused(error.to_string()))?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(file_error)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = folder.join(name);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(&bytes)?;
        // The name must not point to the new file before its bytes are on the disk.
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| {
        // The temporary may not exist.
        let _ = fs::remove_file(&temporary);
        file_error(error)
    })
}

/// Reads a file to the device of `cx`.
///
/// # Errors
/// The file cannot be read, is damaged, or has a dtype that tensors have not.
pub fn load(path: &Path, cx: &Context) -> Result<Loaded> {
    let refused = |message: String| Error::Checkpoint {
        path: path.to_owned(),
        message,
    };
    let data = fs::read(path).map_err(|error| Error::File {
        path: path.to_owned(),
        error,
    })?;
    let (_, header) = SafeTensors::read_metadata(&data).map_err(|error| refused(error.to_string()))?;
    let file = SafeTensors::deserialize(&data).map_err(|error| refused(error.to_string()))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter() {
        let dtype = from_file(view.dtype());
        let dtype = dtype.ok_or_else(|| refused(format!("{name} is {:?}", view.dtype())))?;
        let elements = Column::from_le_bytes(dtype, std::iter::once(view.data()));
        tensors.insert(name.to_owned(), elements.tensor(view.shape(), cx)?);
    }
    Ok(Loaded {
        path: path.to_owned(),
        tensors,
        metadata: header.metadata().clone().unwrap_or_default(),
    })
}
