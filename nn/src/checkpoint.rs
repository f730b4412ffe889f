//! Tensors in safetensors files.

use crate::error::{Error, Result};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use thalweg::{Context, DType, Element, Tensor};

/// A tensor under its path.
pub type Named = (String, Tensor);

/// What a file holds.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The tensors in the order of their names.
    pub tensors: Vec<Named>,
    /// Text beside them.
    pub metadata: HashMap<String, String>,
}

/// The bytes of a tensor, little-endian.
fn bytes(tensor: &Tensor) -> Result<(Dtype, Vec<usize>, Vec<u8>)> {
    fn read<T: Element, const N: usize>(
        tensor: &Tensor,
        to: impl Fn(T) -> [u8; N],
    ) -> thalweg::Result<Vec<u8>> {
        Ok(tensor.to_vec::<T>()?.into_iter().flat_map(to).collect())
    }
    let (dtype, data) = match tensor.dtype()? {
        DType::F64 => (Dtype::F64, read(tensor, f64::to_le_bytes)?),
        DType::F32 => (Dtype::F32, read(tensor, f32::to_le_bytes)?),
        DType::F16 => (Dtype::F16, read(tensor, half::f16::to_le_bytes)?),
        DType::BF16 => (Dtype::BF16, read(tensor, half::bf16::to_le_bytes)?),
        DType::I64 => (Dtype::I64, read(tensor, i64::to_le_bytes)?),
        DType::I32 => (Dtype::I32, read(tensor, i32::to_le_bytes)?),
        DType::I16 => (Dtype::I16, read(tensor, i16::to_le_bytes)?),
        DType::I8 => (Dtype::I8, read(tensor, i8::to_le_bytes)?),
        DType::U64 => (Dtype::U64, read(tensor, u64::to_le_bytes)?),
        DType::U32 => (Dtype::U32, read(tensor, u32::to_le_bytes)?),
        DType::U16 => (Dtype::U16, read(tensor, u16::to_le_bytes)?),
        DType::U8 => (Dtype::U8, read(tensor, u8::to_le_bytes)?),
        DType::Bool => (Dtype::BOOL, read(tensor, |value: bool| [u8::from(value)])?),
    };
    Ok((dtype, tensor.shape()?.to_vec(), data))
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
    let data: Vec<_> = tensors
        .iter()
        .map(|(name, tensor)| Ok((name, bytes(tensor)?)))
        .collect::<Result<_>>()?;
    let views = data.iter().map(|(name, (dtype, shape, data))| {
        let view =
            TensorView::new(*dtype, shape.clone(), data).map_err(|error| refused(error.to_string()))?;
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
    let mut names = file.names();
    names.sort_unstable();
    let mut tensors = Vec::new();
    for name in names {
        let view = file.tensor(name).map_err(|error| refused(error.to_string()))?;
        let tensor = tensor(&view, cx).ok_or_else(|| refused(format!("{name} is {:?}", view.dtype())))?;
        tensors.push((name.to_owned(), tensor.ok()?));
    }
    Ok(Loaded {
        tensors,
        metadata: header.metadata().clone().unwrap_or_default(),
    })
}

fn tensor(view: &TensorView<'_>, cx: &Context) -> Option<Tensor> {
    fn make<T: Element, const N: usize>(
        view: &TensorView<'_>,
        cx: &Context,
        from: impl Fn([u8; N]) -> T,
    ) -> Tensor {
        let data = view.data().chunks_exact(N).map(|chunk| {
            let mut bytes = [0; N];
            bytes.copy_from_slice(chunk);
            from(bytes)
        });
        Tensor::from_vec(data.collect(), view.shape(), cx)
    }
    Some(match view.dtype() {
        Dtype::F64 => make(view, cx, f64::from_le_bytes),
        Dtype::F32 => make(view, cx, f32::from_le_bytes),
        Dtype::F16 => make(view, cx, half::f16::from_le_bytes),
        Dtype::BF16 => make(view, cx, half::bf16::from_le_bytes),
        Dtype::I64 => make(view, cx, i64::from_le_bytes),
        Dtype::I32 => make(view, cx, i32::from_le_bytes),
        Dtype::I16 => make(view, cx, i16::from_le_bytes),
        Dtype::I8 => make(view, cx, i8::from_le_bytes),
        Dtype::U64 => make(view, cx, u64::from_le_bytes),
        Dtype::U32 => make(view, cx, u32::from_le_bytes),
        Dtype::U16 => make(view, cx, u16::from_le_bytes),
        Dtype::U8 => make(view, cx, u8::from_le_bytes),
        Dtype::BOOL => make(view, cx, |bytes: [u8; 1]| bytes[0] != 0),
        _ => return None,
    })
}
