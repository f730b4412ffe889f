//! How epochs are counted, and data that does not stay the same.

use super::{context, loader, model, samples, weights};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::Mode;
use thalweg_nn::callback::{Callback, RunContext};
use thalweg_nn::data::{Dataset, HostBatch, Loader};
use thalweg_nn::{Error, Result, Trained};

/// Epochs as callbacks see them, and a stop after a step.
#[derive(Default)]
struct Seen {
    epochs: Vec<(u64, u64)>,
    stop_at: Option<u64>,
}

impl Callback for Seen {
    fn epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.epochs.push((run.cur_epoch_num, run.epoch_num));
        Ok(())
    }

    fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if self.stop_at == Some(run.cur_step_num) {
            run.request_stop();
        }
        Ok(())
    }
}

/// Two calls of two epochs are one of four, to the bit; and numbers go on.
#[test]
fn each_call_trains_as_many_epochs_more() {
    for mode in [Mode::Eager, Mode::Graph] {
        let mut whole = model(&context(mode));
        whole.train(4, &loader(), ()).unwrap();
        let mut seen = Seen::default();
        let mut twice = model(&context(mode));
        for done in [2, 4] {
            twice.train(2, &loader(), &mut seen).unwrap();
            assert_eq!((twice.epochs(), twice.steps()), (done, 4 * done));
        }
        assert_eq!(seen.epochs, [(1, 2), (2, 2), (3, 4), (4, 4)]);
        assert_eq!(weights(&twice), weights(&whole), "{mode:?}");
    }
}

/// An epoch that was broken off counts as the first of the next call; an end in the whole count is reached once.
#[test]
fn an_epoch_that_was_broken_off_is_ended_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("middle.safetensors");
    let mut whole = model(&context(Mode::Graph));
    whole.train(3, &loader(), ()).unwrap();
    let mut broken = model(&context(Mode::Graph));
    let mut stop = Seen {
        stop_at: Some(6),
        ..Seen::default()
    };
    broken.train(9, &loader(), &mut stop).unwrap();
    assert_eq!((broken.epochs(), broken.steps()), (1, 6));
    broken.save(&file).unwrap();
    broken.train(2, &loader(), ()).unwrap();
    assert_eq!((broken.epochs(), broken.steps()), (3, 12));
    assert_eq!(weights(&broken), weights(&whole));
    // From the file in the middle of an epoch, by the end that the run shall have.
    let mut resumed = model(&context(Mode::Graph));
    resumed.load(&file).unwrap();
    for _ in 0..2 {
        resumed.train_to(3, &loader(), ()).unwrap();
        assert_eq!((resumed.epochs(), resumed.steps()), (3, 12));
    }
    assert_eq!(weights(&resumed), weights(&whole));
}

/// Other data has other numbers of batches; its epochs are whole.
#[test]
fn epochs_of_other_data_are_whole() {
    let mut model = model(&context(Mode::Graph));
    model.train(1, &loader(), ()).unwrap();
    model.train(2, &Loader::new(samples(), 15), ()).unwrap();
    assert_eq!((model.epochs(), model.steps()), (3, 4 + 2 * 3));
}

/// A dataset that has fewer samples, or returns fewer, than it said.
struct Lying {
    len: Arc<AtomicUsize>,
    lost: [usize; 2],
}

impl Dataset for Lying {
    fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    fn collect(&self, numbers: &[usize]) -> thalweg::Result<HostBatch> {
        let inputs = samples().collect(&numbers[self.lost[0]..])?;
        let targets = samples().collect(&numbers[self.lost[1]..])?;
        Ok(HostBatch {
            x: inputs.x,
            y: targets.y,
        })
    }
}

/// Sets the length of the data at the end of the first epoch.
struct Resize(Arc<AtomicUsize>, usize);

impl Callback for Resize {
    fn epoch_end(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        self.0.store(self.1, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn data_that_changes_its_length_is_an_error() {
    for len in [0, 25, 60] {
        let now = Arc::new(AtomicUsize::new(40));
        let data = Lying {
            len: Arc::clone(&now),
            lost: [0, 0],
        };
        let mut model = model(&context(Mode::Graph));
        let error = model
            .train(3, &Loader::new(data, 10), Resize(now, len))
            .unwrap_err();
        let batches = len.div_ceil(10);
        assert!(
            matches!(error, Error::DataChanged { epoch: 2, expected: 4, found } if found == batches),
            "{error}"
        );
        assert!(
            error.to_string().starts_with(&format!(
                "the training data has {batches} batches an epoch in epoch 2, and had 4 when training began"
            )),
            "{error}"
        );
        // The whole epoch before it is kept.
        assert_eq!((model.epochs(), model.steps()), (1, 4));
    }
}

#[test]
fn samples_that_are_missing_are_an_error() {
    for (lost, inputs, targets) in [([1, 1], 9, 9), ([0, 3], 10, 7), ([2, 0], 8, 10)] {
        let data = || Lying {
            len: Arc::new(AtomicUsize::new(40)),
            lost,
        };
        let mut model = model(&context(Mode::Graph));
        for loader in [Loader::new(data(), 10), Loader::new(data(), 10).prefetch(0)] {
            let errors = [
                model.train(1, &loader, ()).unwrap_err(),
                model.eval(&loader).unwrap_err(),
            ];
            for error in errors {
                assert!(
                    matches!(error, Error::SampleCount { asked: 10, inputs: i, targets: t }
                        if (i, t) == (inputs, targets)),
                    "{error}"
                );
            }
        }
        assert_eq!(model.steps(), 0);
    }
}

/// `?` takes every error of the core and of the HAL.
#[test]
fn errors_of_core_and_hal_convert() {
    fn summary() -> Result<String> {
        Ok(context(Mode::Eager).device().memory_summary()?)
    }
    fn kernel() -> Result<()> {
        let kernel = thalweg::hal::ir::Kernel::parse("kernel of nothing")?;
        kernel.verify()?;
        Ok(())
    }
    fn plugin() -> Result<()> {
        let options = thalweg::loader::LoaderOptions::default();
        thalweg::loader::Registry::load_file("/nowhere/libthalweg_none.so".as_ref(), &options)?;
        Ok(())
    }
    fn memory() -> Result<()> {
        thalweg::hal::Buffer::alloc(context(Mode::Eager).device(), 1 << 60)?;
        Ok(())
    }
    assert!(summary().unwrap().contains("Memory summary"));
    assert!(
        kernel()
            .unwrap_err()
            .to_string()
            .starts_with("text of a kernel: line 1: ")
    );
    let error = plugin().unwrap_err().to_string();
    assert!(error.contains("/nowhere/libthalweg_none.so"), "{error}");
    let error = memory().unwrap_err();
    assert!(error.to_string().contains("out of memory on cpu:0"), "{error}");
    assert!(
        matches!(error, Error::Tensor(error) if error.status() == Some(thalweg::hal::Status::OutOfMemory))
    );
}
