//! Which values are dumped, from the first iteration to the last.

use super::item::{Item, Place};
use super::kernels::Kernels;
use super::options::{DumpOptions, Figure, InputOutput, OpDebugMode};
use super::queue::Queue;
use super::writer::{Message, Writer};
use crate::error::DumpError;
use crate::record::span;
use crate::types::call::CallInfo;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A dump that runs.
pub(crate) struct Dumper {
    options: DumpOptions,
    kernels: Kernels,
    output: Output,
    /// Steps that were begun before it.
    before: u64,
    /// Steps that [`Dumper::step`] ended.
    ended: AtomicU64,
    now: Mutex<Now>,
    closed: AtomicBool,
    error: Mutex<Option<DumpError>>,
}

/// The iteration that is dumped.
#[derive(Default)]
struct Now {
    iteration: Option<u64>,
    /// Whether one is over, so that `kernels` were looked for.
    judged: bool,
}

enum Output {
    Direct(Box<Mutex<Writer>>),
    Queue(Queue),
}

impl Dumper {
    /// Makes the folder, and the thread where there is one.
    ///
    /// # Errors
    /// The folder cannot be made; an option is wrong.
    pub(crate) fn new(options: &DumpOptions) -> Result<Dumper, DumpError> {
        options.tell();
        let kernels = options.listed().map_err(super::options::option)?;
        let writer = Writer::new(options)?;
        let output = match options.is_async() {
            true => Output::Queue(Queue::new(writer)?),
            false => Output::Direct(Box::new(Mutex::new(writer))),
        };
        Ok(Dumper {
            options: options.clone(),
            kernels,
            output,
            before: span::steps(),
            ended: AtomicU64::new(0),
            now: Mutex::default(),
            closed: AtomicBool::new(false),
            error: Mutex::default(),
        })
    }

    /// Whether inputs are written.
    pub(crate) fn has_inputs(&self) -> bool {
        matches!(self.options.input_output, InputOutput::Both | InputOutput::Inputs)
    }

    /// Whether outputs are written.
    pub(crate) fn has_outputs(&self) -> bool {
        matches!(
            self.options.input_output,
            InputOutput::Both | InputOutput::Outputs
        )
    }

    /// Whether elements are looked at: written, or summed.
    pub(crate) fn has_elements(&self) -> bool {
        self.options.has_elements() || self.options.has_figure(Figure::Hash)
    }

    /// Whether the device computes figures.
    pub(crate) fn has_figures(&self) -> bool {
        let own = |figure: &Figure| !matches!(figure, Figure::Count | Figure::Hash);
        let figures = self.options.statistic_category.iter().any(own);
        self.options.has_figures() && figures
    }

    /// Which calls are dumped alone.
    pub(crate) fn overflow(&self) -> OpDebugMode {
        self.options.overflow()
    }

    /// Which iteration it is.
    fn iteration(&self) -> u64 {
        let begun = span::steps().wrapping_sub(self.before);
        begun.saturating_sub(1) + self.ended.load(Ordering::Relaxed)
    }

    /// Ends an iteration.
    pub(crate) fn step(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.turn();
    }

    /// Ends the iteration that was dumped, where another one runs; the one that runs, if it is dumped.
    fn turn(&self) -> Option<u64> {
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        let iteration = self.iteration();
        let mut now = self.now.lock();
        let over = now.iteration.filter(|before| *before != iteration);
        let ended = match over {
            Some(over) => self.end(&mut now, over),
            None => Ok(()),
        };
        if self.options.iteration.has(iteration) {
            now.iteration = Some(iteration);
        }
        let dumped = now.iteration;
        drop(now);
        self.heed(ended);
        dumped
    }

    /// Writes what is left of an iteration.
    fn end(&self, now: &mut Now, iteration: u64) -> Result<(), DumpError> {
        now.iteration = None;
        self.send(Message::End)?;
        match std::mem::replace(&mut now.judged, true) {
            false => self.kernels.missing(iteration).map_or(Ok(()), Err),
            true => Ok(()),
        }
    }

    fn send(&self, message: Message) -> Result<(), DumpError> {
        match &self.output {
            Output::Direct(writer) => writer.lock().take(message),
            Output::Queue(queue) => queue.push(message),
        }
    }

    /// Keeps the first error and tells it in the log. An entry of `kernels` without a call is none that ends the dump.
    fn heed(&self, done: Result<(), DumpError>) {
        let Err(error) = done else { return };
        match &error {
            DumpError::Kernels { .. } => {}
            DumpError::Option { .. }
            | DumpError::Config { .. }
            | DumpError::Folder { .. }
            | DumpError::Write { .. }
            | DumpError::Value { .. }
            | DumpError::Thread { .. } => self.closed.store(true, Ordering::Relaxed),
        }
        let mut first = self.error.lock();
        if first.is_none() {
            *first = Some(error.clone());
            drop(first);
            tracing::error!("{error}");
        }
    }

    /// Whether values of a call that runs now are dumped.
    pub(crate) fn wants(&self, place: &Place, call: &CallInfo) -> bool {
        let Some(iteration) = self.turn() else {
            return false;
        };
        if !self.options.support_device.contains(&place.device) {
            return false;
        }
        self.heed(self.send(Message::Call(iteration, place.clone(), call.clone())));
        self.kernels.has(call)
    }

    /// Writes a value, or why there is none.
    pub(crate) fn take(&self, item: Result<Item, DumpError>) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        // The iteration that it was asked for in may be over on another thread; then it is one of the next.
        let iteration = self.now.lock().iteration;
        let done = match (item, iteration) {
            (Ok(item), Some(iteration)) => self.send(Message::Value(iteration, Box::new(item))),
            (Ok(_), None) => Ok(()),
            (Err(error), _) => Err(error),
        };
        self.heed(done);
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first that happened.
    pub(crate) fn finish(&self) -> Result<(), DumpError> {
        let mut now = self.now.lock();
        let over = now.iteration.filter(|_| !self.closed.load(Ordering::Relaxed));
        let ended = match over {
            Some(over) => self.end(&mut now, over),
            None => Ok(()),
        };
        drop(now);
        self.heed(ended);
        if let Output::Queue(queue) = &self.output {
            self.heed(queue.close());
        }
        self.closed.store(true, Ordering::Relaxed);
        match &*self.error.lock() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}
