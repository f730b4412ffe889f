//! Batches of samples, read ahead.

use super::{Dataset, HostTensor, invalid};
use crate::error::{Error, Result};
use serde_json::json;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use thalweg::random::Mt19937;
use thalweg::{Context, Tensor};

/// One batch on the device.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Inputs.
    pub x: Tensor,
    /// Targets.
    pub y: Tensor,
}

impl Batch {
    fn read(data: &dyn Dataset, samples: &[usize], cx: &Context) -> Result<Batch> {
        let host = data.collect(samples)?;
        let count = |tensor: &HostTensor| tensor.shape.first().copied().unwrap_or(0);
        let (asked, inputs, targets) = (samples.len(), count(&host.x), count(&host.y));
        if (inputs, targets) != (asked, asked) {
            return Err(Error::SampleCount {
                asked,
                inputs,
                targets,
            });
        }
        Ok(Batch {
            x: host.x.place(cx)?,
            y: host.y.place(cx)?,
        })
    }
}

/// How samples become batches.
///
/// While a step runs, other threads read the next batches and bring them to the device: on the device's copy stream, beside the
/// kernels, or without a copy where kernels can use the host's memory.
#[derive(Clone)]
pub struct Loader {
    data: Arc<dyn Dataset>,
    batch: usize,
    shuffle: Option<u64>,
    drop_last: bool,
    prefetch: usize,
    workers: usize,
}

impl Loader {
    /// Batches of `batch` samples in the order of the data; the last one may be smaller.
    pub fn new(data: impl Dataset + 'static, batch: usize) -> Loader {
        Loader {
            data: Arc::new(data),
            batch: batch.max(1),
            shuffle: None,
            drop_last: false,
            prefetch: 2,
            workers: 1,
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

    /// How many batches are read ahead, those included that are being read; 0 reads each when it is asked for, on the thread that asks.
    #[must_use]
    pub fn prefetch(mut self, batches: usize) -> Loader {
        self.prefetch = batches;
        self
    }

    /// How many threads read ahead, no more than batches are, for data that is slow to read or to map; batches come in the same order for any number.
    #[must_use]
    pub fn workers(mut self, threads: usize) -> Loader {
        self.workers = threads.max(1);
        self
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.data.len()
    }

    /// Samples of a batch; the last one may have fewer.
    pub fn batch_size(&self) -> usize {
        self.batch
    }

    /// How samples become batches, as a list of what is done with them.
    pub(crate) fn described(&self) -> serde_json::Value {
        let mut list = vec![json!({"op": "Samples", "samples": self.samples()})];
        list.extend(self.shuffle.map(|seed| json!({"op": "Shuffle", "seed": seed})));
        list.push(json!({"op": "Batch", "size": self.batch, "drop_last": self.drop_last}));
        list.push(json!({"op": "Prefetch", "batches": self.prefetch, "threads": self.workers}));
        list.into()
    }

    /// Batches of one epoch.
    pub fn batches(&self) -> usize {
        self.batches_of(self.data.len())
    }

    fn batches_of(&self, samples: usize) -> usize {
        if self.drop_last {
            samples / self.batch
        } else {
            samples.div_ceil(self.batch)
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
        let batches = self.batches_of(order.len());
        let chunks = order.chunks(self.batch).take(batches).skip(first);
        let chunks: Arc<[Vec<usize>]> = chunks.map(<[usize]>::to_vec).collect();
        let workers = self.workers.min(self.prefetch).min(chunks.len());
        let mut epoch = Epoch {
            data: Arc::clone(&self.data),
            cx: cx.clone(),
            chunks,
            batches,
            next: 0,
            readers: Vec::new(),
        };
        for number in 0..workers {
            // Of the batches ahead this reader has one in hand, and the rest of its share waits.
            let share = self.prefetch / workers + usize::from(number < self.prefetch % workers);
            let (sender, batches) = sync_channel(share - 1);
            let (data, cx, chunks) = (Arc::clone(&epoch.data), cx.clone(), Arc::clone(&epoch.chunks));
            let mine = move || read(&*data, chunks.iter().skip(number).step_by(workers), &cx, &sender);
            epoch.readers.push(Reader {
                batches,
                thread: std::thread::spawn(mine),
            });
        }
        epoch
    }
}

/// Reads batches until nobody listens any more, as when training was stopped.
fn read<'a>(
    data: &dyn Dataset,
    chunks: impl Iterator<Item = &'a Vec<usize>>,
    cx: &Context,
    to: &SyncSender<Result<Batch>>,
) {
    for chunk in chunks {
        if to.send(Batch::read(data, chunk, cx)).is_err() {
            return;
        }
    }
}

/// A thread that reads every batch whose number leaves its own when divided by the number of threads.
struct Reader {
    batches: Receiver<Result<Batch>>,
    thread: JoinHandle<()>,
}

/// The batches of one epoch.
pub struct Epoch {
    data: Arc<dyn Dataset>,
    cx: Context,
    chunks: Arc<[Vec<usize>]>,
    // Of the whole epoch, also those before its first one here.
    batches: usize,
    next: usize,
    readers: Vec<Reader>,
}

impl Epoch {
    /// Batches of the whole epoch, as many as the data had when it began.
    pub(crate) fn batches(&self) -> usize {
        self.batches
    }
}

impl Iterator for Epoch {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let chunk = self.chunks.get(self.next)?;
        let batch = match self.next.checked_rem(self.readers.len()) {
            None => Batch::read(&*self.data, chunk, &self.cx),
            Some(reader) => self.readers[reader].batches.recv().unwrap_or_else(|_| {
                // The reader has left before its last batch.
                self.next = self.chunks.len();
                Err(invalid("reading samples panicked".into()).into())
            }),
        };
        self.next += 1;
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.chunks.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Epoch {}

impl Drop for Epoch {
    fn drop(&mut self) {
        for Reader { batches, thread } in self.readers.drain(..) {
            drop(batches);
            // A panic of the reader ends here: nobody waits for its samples any more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
