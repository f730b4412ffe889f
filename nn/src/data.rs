//! Data: samples, their order, and batches on the device.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use thalweg::random::Mt19937;
use thalweg::{Context, DType, Element, Error, Result, Tensor};

/// Elements of one tensor of a batch on the host, as bytes of a dtype.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// f32.
    F32(Vec<f32>),
    /// i64.
    I64(Vec<i64>),
}

impl Column {
    fn tensor(self, shape: &[usize], cx: &Context) -> Result<Tensor> {
        match self {
            Column::F32(data) => Tensor::from_vec(data, shape, cx).ok(),
            Column::I64(data) => Tensor::from_vec(data, shape, cx).ok(),
        }
    }
}

/// One batch on the host: inputs and targets with the batch as their first axis.
#[derive(Clone, Debug, PartialEq)]
pub struct HostBatch {
    /// Inputs and their extents.
    pub x: (Column, Vec<usize>),
    /// Targets and their extents.
    pub y: (Column, Vec<usize>),
}

/// One batch on the device.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Inputs.
    pub x: Tensor,
    /// Targets.
    pub y: Tensor,
}

/// Samples by number.
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
}

/// Samples in memory.
///
/// ```
/// use thalweg_nn::data::{Column, Dataset, InMemory};
/// let data = InMemory::new(Column::F32(vec![0.0, 1.0, 2.0, 3.0]), &[2], Column::I64(vec![7, 8]), &[])?;
/// assert_eq!(data.len(), 2);
/// assert_eq!(data.collect(&[1])?.x.0, Column::F32(vec![2.0, 3.0]));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct InMemory {
    x: (Column, Vec<usize>),
    y: (Column, Vec<usize>),
    count: usize,
}

impl InMemory {
    /// Samples with inputs of extents `x_shape` and targets of extents `y_shape`, one after the other.
    ///
    /// # Errors
    /// Numbers of elements that are no whole number of samples, or not the same for both.
    pub fn new(x: Column, x_shape: &[usize], y: Column, y_shape: &[usize]) -> Result<InMemory> {
        let count = |column: &Column, shape: &[usize]| {
            let each: usize = shape.iter().product();
            let all = length(column);
            if each == 0 || !all.is_multiple_of(each) {
                return Err(invalid(format!(
                    "{all} elements are no whole number of samples {shape:?}"
                )));
            }
            Ok(all / each)
        };
        let (inputs, targets) = (count(&x, x_shape)?, count(&y, y_shape)?);
        if inputs != targets {
            return Err(invalid(format!("{inputs} inputs and {targets} targets")));
        }
        Ok(InMemory {
            x: (x, x_shape.to_vec()),
            y: (y, y_shape.to_vec()),
            count: inputs,
        })
    }

    /// The first `count` samples and the others.
    pub fn split(&self, count: usize) -> (InMemory, InMemory) {
        let part = |range: std::ops::Range<usize>| {
            let cut = |(column, shape): &(Column, Vec<usize>)| {
                let each: usize = shape.iter().product();
                let range = range.start * each..range.end * each;
                let column = match column {
                    Column::F32(data) => Column::F32(data[range].to_vec()),
                    Column::I64(data) => Column::I64(data[range].to_vec()),
                };
                (column, shape.clone())
            };
            InMemory {
                x: cut(&self.x),
                y: cut(&self.y),
                count: range.len(),
            }
        };
        let at = count.min(self.count);
        (part(0..at), part(at..self.count))
    }
}

fn length(column: &Column) -> usize {
    match column {
        Column::F32(data) => data.len(),
        Column::I64(data) => data.len(),
    }
}

fn invalid(message: String) -> Error {
    Error::backend(thalweg::hal::Status::InvalidArgument, message).in_op("dataset")
}

fn rows<T: Element>(data: &[T], each: usize, samples: &[usize]) -> Result<Vec<T>> {
    let mut rows = Vec::with_capacity(each * samples.len());
    for &sample in samples {
        let row = data.get(sample * each..(sample + 1) * each);
        let row = row.ok_or_else(|| {
            invalid(format!(
                "there is no sample {sample}; there are {}",
                data.len() / each
            ))
        })?;
        rows.extend_from_slice(row);
    }
    Ok(rows)
}

impl Dataset for InMemory {
    fn len(&self) -> usize {
        self.count
    }

    fn collect(&self, samples: &[usize]) -> Result<HostBatch> {
        let gather = |(column, shape): &(Column, Vec<usize>)| {
            let each: usize = shape.iter().product();
            let column = match column {
                Column::F32(data) => Column::F32(rows(data, each, samples)?),
                Column::I64(data) => Column::I64(rows(data, each, samples)?),
            };
            let mut extents = vec![samples.len()];
            extents.extend(shape);
            Ok::<_, Error>((column, extents))
        };
        Ok(HostBatch {
            x: gather(&self.x)?,
            y: gather(&self.y)?,
        })
    }
}

/// Samples changed on the host when they are read.
pub struct Mapped<D, F> {
    data: D,
    function: F,
}

impl<D: Dataset, F: Fn(HostBatch) -> HostBatch + Send + Sync> Mapped<D, F> {
    /// `data` with `function` on every batch.
    pub fn new(data: D, function: F) -> Mapped<D, F> {
        Mapped { data, function }
    }
}

impl<D: Dataset, F: Fn(HostBatch) -> HostBatch + Send + Sync> Dataset for Mapped<D, F> {
    fn len(&self) -> usize {
        self.data.len()
    }

    fn collect(&self, samples: &[usize]) -> Result<HostBatch> {
        Ok((self.function)(self.data.collect(samples)?))
    }
}

/// How samples become batches.
#[derive(Clone)]
pub struct Loader {
    data: std::sync::Arc<dyn Dataset>,
    batch: usize,
    shuffle: Option<u64>,
    drop_last: bool,
    prefetch: usize,
}

impl Loader {
    /// Batches of `batch` samples in the order of the data; the last one may be smaller.
    pub fn new(data: impl Dataset + 'static, batch: usize) -> Loader {
        Loader {
            data: std::sync::Arc::new(data),
            batch: batch.max(1),
            shuffle: None,
            drop_last: false,
            prefetch: 2,
        }
    }

    /// Another order each epoch, the same for the same seed.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Loader {
        self.shuffle = Some(seed);
        self
    }

    /// Leaves out a last batch that is smaller.
    #[must_use]
    pub fn drop_last(mut self, drop: bool) -> Loader {
        self.drop_last = drop;
        self
    }

    /// How many batches are read ahead on another thread; 0 reads on the caller's.
    #[must_use]
    pub fn prefetch(mut self, batches: usize) -> Loader {
        self.prefetch = batches;
        self
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.data.len()
    }

    /// Batches of one epoch.
    pub fn batches(&self) -> usize {
        if self.drop_last {
            self.data.len() / self.batch
        } else {
            self.data.len().div_ceil(self.batch)
        }
    }

    /// The order of samples in an epoch, counted from 0.
    pub fn order(&self, epoch: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.data.len()).collect();
        if let Some(seed) = self.shuffle {
            let words = [
                seed as u32,
                (seed >> 32) as u32,
                epoch as u32,
                (epoch >> 32) as u32,
            ];
            let mut generator = Mt19937::from_key(&words);
            // Fisher and Yates, from the end.
            for at in (1..order.len()).rev() {
                let other = (generator.random() * (at + 1) as f64) as usize;
                order.swap(at, other.min(at));
            }
        }
        order
    }

    /// The batches of an epoch from batch `first` on, on the device of `cx`. While one is used, the next ones are read.
    pub fn epoch(&self, epoch: u64, first: usize, cx: &Context) -> Epoch {
        let order = self.order(epoch);
        let chunks: Vec<Vec<usize>> = order
            .chunks(self.batch)
            .take(self.batches())
            .skip(first)
            .map(<[usize]>::to_vec)
            .collect();
        let data = std::sync::Arc::clone(&self.data);
        if self.prefetch == 0 {
            let read = chunks.into_iter().map(move |chunk| data.collect(&chunk));
            return Epoch {
                source: Source::Here(Box::new(read)),
                cx: cx.clone(),
            };
        }
        let (sender, receiver) = sync_channel(self.prefetch);
        let reader = std::thread::spawn(move || {
            for chunk in chunks {
                // Nobody listens any more when training was stopped.
                if sender.send(data.collect(&chunk)).is_err() {
                    return;
                }
            }
        });
        Epoch {
            source: Source::Ahead(Some(receiver), Some(reader)),
            cx: cx.clone(),
        }
    }
}

enum Source {
    Here(Box<dyn Iterator<Item = Result<HostBatch>> + Send>),
    Ahead(Option<Receiver<Result<HostBatch>>>, Option<JoinHandle<()>>),
}

/// The batches of one epoch.
pub struct Epoch {
    source: Source,
    cx: Context,
}

impl Iterator for Epoch {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let host = match &mut self.source {
            Source::Here(batches) => batches.next()?,
            Source::Ahead(receiver, reader) => match receiver.as_ref()?.recv() {
                Ok(batch) => batch,
                Err(_) => {
                    // The reader is done, or it panicked: then the caller hears of it.
                    *receiver = None;
                    let failed = reader.take()?.join().is_err();
                    return failed.then(|| Err(invalid("reading samples panicked".into())));
                }
            },
        };
        let place = |(column, shape): (Column, Vec<usize>)| column.tensor(&shape, &self.cx);
        Some(host.and_then(|host| {
            Ok(Batch {
                x: place(host.x)?,
                y: place(host.y)?,
            })
        }))
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        if let Source::Ahead(receiver, reader) = &mut self.source {
            *receiver = None;
            if let Some(reader) = reader.take() {
                // A panic of the reader ends here: nobody waits for its samples any more.
                let _ = reader.join();
            }
        }
    }
}

/// Reads the IDX format of the MNIST files: big-endian extents, then unsigned bytes. Returns the extents and the bytes.
///
/// # Errors
/// Another magic number, another type than unsigned bytes, or a length that does not fit the extents.
pub fn read_idx(bytes: &[u8]) -> Result<(Vec<usize>, Vec<u8>)> {
    let [0, 0, kind, rank, rest @ ..] = bytes else {
        return Err(invalid(
            "an IDX file begins with two zeros, a type and a rank".into(),
        ));
    };
    if *kind != 8 {
        return Err(invalid(format!("IDX type {kind:#x} is not unsigned bytes (0x8)")));
    }
    let header = usize::from(*rank) * 4;
    let extents: Vec<usize> = (rest.get(..header))
        .ok_or_else(|| invalid(format!("the file ends in the header of {rank} extents")))?
        .chunks_exact(4)
        .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]) as usize)
        .collect();
    let wanted = extents
        .iter()
        .try_fold(1_usize, |all, &extent| all.checked_mul(extent));
    let data = &rest[header..];
    if wanted != Some(data.len()) {
        return Err(invalid(format!("{} bytes for extents {extents:?}", data.len())));
    }
    Ok((extents, data.to_vec()))
}

/// The dtype of a column's tensor.
impl Column {
    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            Column::F32(_) => DType::F32,
            Column::I64(_) => DType::I64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize) -> InMemory {
        let x = (0..count * 2).map(|i| i as f32).collect();
        let y = (0..count as i64).collect();
        InMemory::new(Column::F32(x), &[2], Column::I64(y), &[]).unwrap()
    }

    #[test]
    fn every_sample_comes_once_an_epoch_with_its_target() {
        let cx = Context::new("cpu").unwrap();
        for prefetch in [0, 2] {
            let loader = Loader::new(numbers(10), 4).shuffle(3).prefetch(prefetch);
            assert_eq!(loader.batches(), 3);
            let mut orders = Vec::new();
            for epoch in 0..2 {
                let mut seen = Vec::new();
                for batch in loader.epoch(epoch, 0, &cx) {
                    let batch = batch.unwrap();
                    let (x, y) = (batch.x.to_vec::<f32>().unwrap(), batch.y.to_vec::<i64>().unwrap());
                    for (row, &target) in x.chunks(2).zip(&y) {
                        assert_eq!(row, [target as f32 * 2.0, target as f32 * 2.0 + 1.0]);
                    }
                    seen.extend(y);
                }
                orders.push(seen.clone());
                seen.sort_unstable();
                assert_eq!(seen, (0..10).collect::<Vec<i64>>());
            }
            assert_ne!(orders[0], orders[1]);
            let again: Vec<i64> = loader.order(1).into_iter().map(|i| i as i64).collect();
            assert_eq!(orders[1], again);
            let rest = loader
                .epoch(1, 2, &cx)
                .map(|batch| batch.unwrap().y.elements().unwrap());
            assert_eq!(rest.collect::<Vec<_>>(), [2]);
        }
        assert_eq!(Loader::new(numbers(10), 4).drop_last(true).batches(), 2);
    }

    #[test]
    fn an_epoch_that_is_left_early_ends_its_reader() {
        let cx = Context::new("cpu").unwrap();
        let loader = Loader::new(numbers(1000), 1).prefetch(1);
        assert!(loader.epoch(0, 0, &cx).next().unwrap().is_ok());
    }

    #[test]
    fn idx_files_are_checked() {
        let file = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6];
        assert_eq!(read_idx(&file).unwrap(), (vec![2, 3], vec![1, 2, 3, 4, 5, 6]));
        for bad in [&file[..3], &file[..9], &file[..17], &[0, 0, 9, 0], &[1, 0, 8, 0]] {
            assert!(read_idx(bad).is_err(), "{bad:?}");
        }
        let huge = [&[0, 0, 8, 3][..], &[0xff; 12]].concat();
        assert!(read_idx(&huge).is_err());
    }

    #[test]
    fn wrong_data_is_refused() {
        let wrong = InMemory::new(Column::F32(vec![0.0; 5]), &[2], Column::I64(vec![0]), &[]);
        assert!(wrong.unwrap_err().to_string().contains("5 elements"));
        let wrong = InMemory::new(Column::F32(vec![0.0; 4]), &[2], Column::I64(vec![0]), &[]);
        assert!(wrong.unwrap_err().to_string().contains("2 inputs and 1 targets"));
        assert!(
            numbers(2)
                .collect(&[2])
                .unwrap_err()
                .to_string()
                .contains("there is no sample 2")
        );
    }
}
