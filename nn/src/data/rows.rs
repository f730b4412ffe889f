//! Samples of equal shape, in memory or in a file.

use super::{Column, Dataset, HostBatch, HostTensor, invalid};
use std::path::Path;
use std::sync::Arc;
use thalweg::Result;
use thalweg::interchange::npy;

/// Where elements are.
#[derive(Debug)]
enum Elements {
    Memory(Column),
    File(npy::Mapped),
}

impl Elements {
    /// Pieces of `each` elements that start at multiples of `each`, one after the other; `None` where there is no such piece.
    fn pieces(&self, each: usize, numbers: &[usize]) -> Option<Column> {
        match self {
            Elements::Memory(column) => column.pieces(each, numbers),
            Elements::File(file) => {
                let size = each * file.dtype().size();
                let piece = |&number: &usize| file.bytes().get(number * size..(number + 1) * size);
                let pieces: Vec<&[u8]> = numbers.iter().map(piece).collect::<Option<_>>()?;
                Some(Column::from_le_bytes(file.dtype(), pieces.into_iter()))
            }
        }
    }
}

/// Tensors of one shape, by number: inputs or targets of samples.
#[derive(Clone, Debug)]
pub struct Rows {
    elements: Arc<Elements>,
    shape: Vec<usize>,
    first: usize,
    count: usize,
}

impl Rows {
    /// Rows of extents `shape` in memory, one after the other.
    ///
    /// ```
    /// use thalweg_nn::data::{Column, Rows};
    /// let rows = Rows::new(vec![0.0_f32, 1.0, 2.0, 3.0], &[2])?;
    /// assert_eq!(rows.count(), 2);
    /// assert_eq!(rows.gather(&[1])?.data, Column::F32(vec![2.0, 3.0]));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// A number of elements that is no whole number of rows.
    pub fn new(data: impl Into<Column>, shape: &[usize]) -> Result<Rows> {
        let data: Column = data.into();
        let each = (shape.iter()).try_fold(1_usize, |all, &extent| all.checked_mul(extent));
        let Some(each) = each.filter(|&each| each > 0 && data.len().is_multiple_of(each)) else {
            let message = format!("{} elements are no whole number of samples {shape:?}", data.len());
            return Err(invalid(message));
        };
        Ok(Rows {
            count: data.len() / each,
            elements: Arc::new(Elements::Memory(data)),
            shape: shape.to_vec(),
            first: 0,
        })
    }

    /// The rows along the first axis of an array in NumPy's format, which is mapped: rows are read when they are asked for, so that
    /// the file may be larger than memory.
    ///
    /// ```
    /// use thalweg::{Context, Tensor, interchange::npy};
    /// use thalweg_nn::data::{Column, Rows};
    /// let path = std::env::temp_dir().join(format!("rows-{}.npy", std::process::id()));
    /// npy::write(&path, &Tensor::from_slice(&[1_u8, 2, 3, 4], [2, 2], &Context::new("cpu")?))?;
    /// assert_eq!(Rows::npy(&path)?.gather(&[1, 0])?.data, Column::U8(vec![3, 4, 1, 2]));
    /// # std::fs::remove_file(path).ok();
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be read, is no such array, or is one that [`npy::Mapped`] refuses; an array without axes.
    pub fn npy(path: impl AsRef<Path>) -> Result<Rows> {
        let file = npy::Mapped::open(path)?;
        let all = file.shape();
        let Some((&count, shape)) = all.split_first() else {
            return Err(invalid("an array without axes has no rows".into()));
        };
        Ok(Rows {
            count,
            shape: shape.to_vec(),
            elements: Arc::new(Elements::File(file)),
            first: 0,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The extents of one.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The first `count` rows and the others; both use the same memory.
    pub fn split(&self, count: usize) -> (Rows, Rows) {
        let at = count.min(self.count);
        let part = |first, count| Rows {
            first: self.first + first,
            count,
            ..self.clone()
        };
        (part(0, at), part(at, self.count - at))
    }

    /// The rows of these numbers, in this order, `[numbers, shape..]`.
    ///
    /// # Errors
    /// A number that is too great; a file that cannot be read.
    pub fn gather(&self, numbers: &[usize]) -> Result<HostTensor> {
        if let Some(number) = numbers.iter().find(|&&number| number >= self.count) {
            let message = format!("there is no sample {number}; there are {}", self.count);
            return Err(invalid(message));
        }
        let numbers: Vec<usize> = numbers.iter().map(|number| number + self.first).collect();
        let each: usize = self.shape.iter().product();
        let data = self.elements.pieces(each, &numbers);
        let data = data.ok_or_else(|| invalid("the rows end too early".into()))?;
        let mut shape = vec![numbers.len()];
        shape.extend(&self.shape);
        Ok(HostTensor { data, shape })
    }
}

/// Inputs and targets side by side.
///
/// ```
/// use thalweg_nn::data::{Column, Dataset, Rows, Samples};
/// let x = Rows::new(vec![0.0_f32, 1.0, 2.0, 3.0], &[2])?;
/// let data = Samples::new(x, Rows::new(vec![7_i64, 8], &[])?)?;
/// assert_eq!(data.len(), 2);
/// assert_eq!(data.collect(&[1])?.y.data, Column::I64(vec![8]));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Samples {
    x: Rows,
    y: Rows,
}

impl Samples {
    /// Row n of `x` with row n of `y`.
    ///
    /// # Errors
    /// Another number of rows.
    pub fn new(x: Rows, y: Rows) -> Result<Samples> {
        if x.count() != y.count() {
            return Err(invalid(format!("{} inputs and {} targets", x.count(), y.count())));
        }
        Ok(Samples { x, y })
    }

    /// The first `count` samples and the others.
    pub fn split(&self, count: usize) -> (Samples, Samples) {
        let ((x, rest_x), (y, rest_y)) = (self.x.split(count), self.y.split(count));
        (Samples { x, y }, Samples { x: rest_x, y: rest_y })
    }
}

impl Dataset for Samples {
    fn len(&self) -> usize {
        self.x.count()
    }

    fn collect(&self, samples: &[usize]) -> Result<HostBatch> {
        Ok(HostBatch {
            x: self.x.gather(samples)?,
            y: self.y.gather(samples)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Loader;
    use super::*;
    use thalweg::{Context, Tensor};

    #[test]
    fn wrong_data_is_refused() {
        let wrong = Rows::new(vec![0.0_f32; 5], &[2]);
        assert!(wrong.unwrap_err().to_string().contains("5 elements"));
        for shape in [[0, 3], [usize::MAX, 2]] {
            assert!(Rows::new(Vec::<f32>::new(), &shape).is_err());
        }
        let (x, y) = (
            Rows::new(vec![0.0_f32; 4], &[2]).unwrap(),
            Rows::new(vec![0_i64], &[]).unwrap(),
        );
        let wrong = Samples::new(x.clone(), y);
        assert!(wrong.unwrap_err().to_string().contains("2 inputs and 1 targets"));
        let wrong = x.gather(&[2]).unwrap_err();
        assert!(
            wrong.to_string().contains("there is no sample 2; there are 2"),
            "{wrong}"
        );
    }

    /// Rows of a file are those of the same numbers in memory, through batches, and a file that does not fit is refused.
    #[test]
    fn rows_of_a_file_are_those_in_memory() {
        let cx = Context::new("cpu").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (x, y) = (folder.path().join("x.npy"), folder.path().join("y.npy"));
        let numbers: Vec<f32> = (0..60).map(|i| i as f32 / 7.0).collect();
        npy::write(&x, &Tensor::from_slice(&numbers, [10, 2, 3], &cx)).unwrap();
        npy::write(&y, &Tensor::from_slice(&(0..10_i32).collect::<Vec<_>>(), 10, &cx)).unwrap();
        let memory = Rows::new(numbers, &[2, 3]).unwrap();
        let file = Rows::npy(&x).unwrap();
        assert_eq!((file.count(), file.shape()), (10, &[2, 3][..]));
        for numbers in [&[9, 0, 4, 4][..], &[]] {
            assert_eq!(file.gather(numbers).unwrap(), memory.gather(numbers).unwrap());
        }
        assert_eq!(
            file.split(7).1.gather(&[2]).unwrap(),
            memory.gather(&[9]).unwrap()
        );
        assert!(file.gather(&[10]).is_err());
        let loader = Loader::new(Samples::new(file, Rows::npy(&y).unwrap()).unwrap(), 4)
            .shuffle(1)
            .workers(2);
        let mut seen: Vec<i32> = Vec::new();
        for batch in loader.epoch(0, 0, &cx) {
            let batch = batch.unwrap();
            let targets = batch.y.to_vec::<i32>().unwrap();
            let numbers: Vec<usize> = targets.iter().map(|&target| target as usize).collect();
            assert_eq!(
                Column::of(&batch.x).unwrap(),
                memory.gather(&numbers).unwrap().data
            );
            seen.extend(targets);
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        let bytes = std::fs::read(&x).unwrap();
        std::fs::write(&x, &bytes[..bytes.len() - 1]).unwrap();
        assert!(Rows::npy(&x).is_err());
        npy::write(&y, &Tensor::from_slice(&[1.0_f32], (), &cx)).unwrap();
        assert!(Rows::npy(&y).unwrap_err().to_string().contains("without axes"));
    }

    #[test]
    fn parts_know_their_ends() {
        let rows = Rows::new((0..10_i32).collect::<Vec<_>>(), &[2]).unwrap();
        let (first, rest) = rows.split(3);
        assert_eq!((first.count(), rest.count()), (3, 2));
        assert!(first.gather(&[3]).is_err() && rest.gather(&[2]).is_err());
        assert_eq!(
            rest.split(1).1.gather(&[0]).unwrap().data,
            Column::I32(vec![8, 9])
        );
        assert_eq!(rows.split(99).0.count(), 5);
    }
}
