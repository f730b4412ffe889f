//! Saving, loading, resuming.

use super::{context, loader, model, weights};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use thalweg::{DType, Mode, Tensor};
use thalweg_nn::callback::{Callback, ModelCheckpoint, RunContext};
use thalweg_nn::optim::{Adam, LossScale, Sgd};
use thalweg_nn::{Dense, Model, Result, Trained, checkpoint, loss};

#[test]
fn a_resumed_run_has_the_bits_of_one_that_ran_through() {
    /// Saves after a step in the middle of an epoch and stops.
    struct SaveAndStop<'a>(&'a Path);
    impl Callback for SaveAndStop<'_> {
        fn step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
            if run.cur_step_num == 5 {
                run.model.save(self.0)?;
                run.request_stop();
            }
            Ok(())
        }
    }
    // Another order of samples and other drops each epoch, statistics, two slots a parameter: all of it must come back.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.safetensors");
    let cx = context(Mode::Graph);
    let mut whole = model(&cx);
    whole.train(4, &loader(), ()).unwrap();
    let cx = context(Mode::Graph);
    let mut first = model(&cx);
    first.train(4, &loader(), SaveAndStop(&path)).unwrap();
    assert_eq!(first.steps(), 5);
    // Another start, replaced by what was saved.
    cx.set_seed(99);
    let mut second = model(&cx);
    second.load(&path).unwrap();
    second.train_to(4, &loader(), ()).unwrap();
    assert_eq!(
        (second.steps(), weights(&second)),
        (whole.steps(), weights(&whole))
    );
}

#[test]
fn checkpoints_are_kept_by_number_and_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cx = context(Mode::Graph);
    let keep = ModelCheckpoint::to(folder.path()).every(3).keep(2);
    let mut trained = model(&cx);
    trained.train(3, &loader(), keep).unwrap();
    let mut files: Vec<_> = (std::fs::read_dir(folder.path()).unwrap())
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["step-00000009.safetensors", "step-00000012.safetensors"]);

    let before = weights(&trained);
    let whole = std::fs::read(folder.path().join(&files[1])).unwrap();
    let path = folder.path().join("bad.safetensors");
    for end in [0, 7, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..end]).unwrap();
        assert!(trained.load(&path).is_err(), "{end}");
    }
    let mut other = Model::new(Dense::new(3, 8, &cx).unwrap(), loss::mse, Adam::new(0.1), &cx);
    let error = other.load(folder.path().join(&files[1])).unwrap_err().to_string();
    assert!(error.contains("there is no tensor \"weight\""), "{error}");
    assert!(trained.load(folder.path().join("none")).is_err());
    assert_eq!(weights(&trained), before);
}

/// A step that a model comes to a second time is one of the newest.
#[test]
fn the_newest_checkpoints_of_a_model_that_went_back_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cx = context(Mode::Graph);
    let mut keep = ModelCheckpoint::to(folder.path()).keep(3);
    let mut trained = model(&cx);
    trained.train(3, &loader(), &mut keep).unwrap();
    let file = |step: u64| folder.path().join(format!("step-{step:08}.safetensors"));
    trained.load(file(4)).unwrap();
    trained.train_to(4, &loader(), &mut keep).unwrap();
    let kept = [4, 8, 12, 16].map(|step| file(step).exists());
    assert_eq!(kept, [false, true, true, true]);
}

fn file_number(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

/// A child process that saves again and again is killed 50 times; what is under the name is always a whole checkpoint.
#[test]
fn killing_a_process_leaves_the_last_good_checkpoint() {
    const CHILD: &str = "THALWEG_TEST_SAVES_TO";
    let cx = context(Mode::Graph);
    if let Some(path) = std::env::var_os(CHILD) {
        let model = model(&cx);
        loop {
            model.save(Path::new(&path)).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let mut reader = model(&cx);
    reader.save(&path).unwrap();
    let before = weights(&reader);
    let program = std::env::current_exe().unwrap();
    for round in 0..50 {
        let number = file_number(&path);
        let mut child = std::process::Command::new(&program)
            .args([
                "--exact",
                "checkpoints::killing_a_process_leaves_the_last_good_checkpoint",
                "--nocapture",
            ])
            .env(CHILD, &path)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // It is at it when the file is another one.
        while file_number(&path) == number {
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(round * 137));
        child.kill().unwrap();
        child.wait().unwrap();
        reader.load(&path).unwrap();
        assert_eq!(weights(&reader), before);
    }
}

/// What is saved are all slots by the parameter's name, the loss scale, and where the keys of the context are.
#[test]
fn a_file_holds_all_that_training_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.safetensors");
    let cx = context(Mode::Graph);
    let make = || {
        Model::new(Dense::new(2, 1, &cx).unwrap(), loss::mse, Adam::new(0.1), &cx)
            .group(|path| path == "bias", Sgd::new(0.1).momentum(0.5))
            .loss_scale(LossScale::dynamic().start(8.0).interval(1))
    };
    let (x, y) = (
        Tensor::ones([4, 2], DType::F32, &cx),
        Tensor::zeros([4, 1], DType::F32, &cx),
    );
    let mut first = make();
    first.train_step(&x, &y).unwrap();
    first.save(&path).unwrap();
    let next_key = cx.next_key();
    let names: Vec<String> = checkpoint::load(&path, &cx)
        .unwrap()
        .tensors
        .into_keys()
        .collect();
    let wanted = [
        "bias",
        "optimizer/bias/0",
        "optimizer/loss_scale",
        "optimizer/steps",
        "optimizer/weight/0",
        "optimizer/weight/1",
        "run/position",
        "weight",
    ];
    assert_eq!(names, wanted);
    cx.set_seed(77);
    let mut second = make();
    second.load(&path).unwrap();
    assert_eq!(
        (cx.next_key(), second.current_loss_scale().unwrap()),
        (next_key, Some(16.0))
    );
    let bits = |model: &Model<Dense>| model.net().weight.to_vec::<f32>().unwrap();
    first.train_step(&x, &y).unwrap();
    second.train_step(&x, &y).unwrap();
    assert_eq!(bits(&first), bits(&second));
    // The same model gives the same file.
    let again = folder.path().join("again.safetensors");
    second.save(&path).unwrap();
    second.save(&again).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), std::fs::read(again).unwrap());
}
