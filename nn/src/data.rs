//! Data: samples, their order, and batches on the device.

mod column;
mod idx;
mod loader;
mod rows;

pub use column::Column;
pub use idx::read_idx;
pub use loader::{Batch, Epoch, Loader};
pub use rows::{Rows, Samples};

use thalweg::{Context, Error, Result, Tensor};

/// A tensor on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Elements, row-major.
    pub data: Column,
    /// Extents.
    pub shape: Vec<usize>,
}

impl HostTensor {
    /// The tensor on the device of `cx`, without a copy where the device can use the elements where they are.
    ///
    /// # Errors
    /// Another number of elements than the extents have; memory does not suffice.
    pub fn place(self, cx: &Context) -> Result<Tensor> {
        self.data.tensor(&self.shape, cx)
    }
}

/// One batch on the host: inputs and targets with the batch as their first axis.
#[derive(Clone, Debug, PartialEq)]
pub struct HostBatch {
    /// Inputs.
    pub x: HostTensor,
    /// Targets.
    pub y: HostTensor,
}

/// Samples by number.
///
/// ```
/// use thalweg_nn::data::{Column, Dataset, HostBatch, HostTensor};
/// /// Numbers and their squares.
/// struct Squares(usize);
/// impl Dataset for Squares {
///     fn len(&self) -> usize {
///         self.0
///     }
///
///     fn collect(&self, samples: &[usize]) -> thalweg::Result<HostBatch> {
///         let of = |f: fn(f32) -> f32| HostTensor {
///             data: samples.iter().map(|&sample| f(sample as f32)).collect::<Vec<_>>().into(),
///             shape: vec![samples.len(), 1],
///         };
///         Ok(HostBatch { x: of(|x| x), y: of(|x| x * x) })
///     }
/// }
/// assert_eq!(Squares(5).collect(&[3, 2])?.y.data, Column::F32(vec![9.0, 4.0]));
/// # Ok::<(), thalweg::Error>(())
/// ```
pub trait Dataset: Send + Sync {
    /// Number of samples.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The samples of these numbers, in this order.
    ///
    /// # Errors
    /// What reading them fails with.
    fn collect(&self, samples: &[usize]) -> Result<HostBatch>;

    /// These samples with `function` on every batch that is read.
    ///
    /// ```
    /// use thalweg_nn::data::{Column, Dataset, HostTensor, Rows, Samples};
    /// let bytes = Samples::new(Rows::new(vec![0_u8, 255], &[])?, Rows::new(vec![0_i64, 1], &[])?)?;
    /// let scaled = bytes.map(|mut batch| {
    ///     if let Column::U8(bytes) = &batch.x.data {
    ///         batch.x.data = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect::<Vec<_>>().into();
    ///     }
    ///     Ok(batch)
    /// });
    /// assert_eq!(scaled.collect(&[1])?.x.data, Column::F32(vec![1.0]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    fn map<F: Fn(HostBatch) -> Result<HostBatch> + Send + Sync>(self, function: F) -> Mapped<Self, F>
    where
        Self: Sized,
    {
        Mapped { data: self, function }
    }
}

/// Samples changed on the host when they are read: [`Dataset::map`].
#[derive(Clone, Debug)]
pub struct Mapped<D, F> {
    data: D,
    function: F,
}

impl<D: Dataset, F: Fn(HostBatch) -> Result<HostBatch> + Send + Sync> Dataset for Mapped<D, F> {
    fn len(&self) -> usize {
        self.data.len()
    }

    fn collect(&self, samples: &[usize]) -> Result<HostBatch> {
        (self.function)(self.data.collect(samples)?)
    }
}

fn invalid(message: String) -> Error {
    Error::backend(thalweg::hal::Status::InvalidArgument, message).in_op("dataset")
}
