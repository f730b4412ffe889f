//! A recording of a device whose backend has no profiles: whole runs are timed between two events.
#![allow(clippy::unwrap_used, reason = "a test")]

mod plugins;

use std::collections::BTreeMap;
use std::path::Path;
use thalweg::hal::Runtime;
use thalweg::loader::{LoaderOptions, Registry};
use thalweg::observe::recording::{self, Command, Reader, Record, Run};
use thalweg::observe::{self, Profile};
use thalweg::{Context, DType, Tensor};

#[test]
fn runs_of_a_backend_without_profiles_are_timed_between_events() {
    let file = plugins::plain_c("bracketed");
    let runtime = Runtime::new(Registry::new(LoaderOptions {
        folders: vec![file.parent().unwrap().to_owned()],
        cache: None,
        ..LoaderOptions::default()
    }));
    let cx = Context::on(runtime.device("plainc").unwrap());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bracketed_recording");
    let profile = Profile::to(&folder).start(&cx).unwrap();
    {
        let _scope = observe::scope("filled");
        let ones = Tensor::ones([1 << 10, 1 << 10], DType::F32, &cx);
        assert_eq!(ones.to_vec::<f32>().unwrap().len(), 1 << 20);
    }
    profile.finish().unwrap();

    let file = std::fs::File::open(folder.join("rank_0/recording.tw")).unwrap();
    let (mut texts, mut devices) = (BTreeMap::new(), Vec::new());
    let (mut runs, mut commands) = (Vec::<Run>::new(), BTreeMap::<u64, Command>::new());
    for record in Reader::new(std::io::BufReader::new(file)).unwrap() {
        match record {
            Record::Text { id, text } => drop(texts.insert(id, text)),
            Record::Device(device) => devices.push(device),
            Record::Run(run) => runs.push(run),
            Record::Command(command) => assert!(commands.insert(command.correlation, command).is_none()),
            _ => {}
        }
    }
    let [device] = &devices[..] else {
        panic!("{devices:?}")
    };
    let why = &texts[&device.unmeasured];
    assert!(why.contains("not measured by this backend"), "{why}");
    assert!(
        why.ends_with("; whole runs are timed between two events"),
        "{why}"
    );
    // A fill, and a copy to the host.
    assert_eq!(runs.len(), 2, "{runs:?}");
    for run in &runs {
        let command = commands[&run.correlation];
        assert_eq!((command.node, command.exact), (recording::WHOLE, false));
        assert_eq!(command.stream, run.stream);
        assert!(command.start < command.end, "{command:?} of {run:?}");
        // Writing or reading 4 MiB takes more than a microsecond, and ends before both events were waited for.
        assert!(command.end - command.start > 1000, "{command:?}");
        assert!(run.start < command.end, "{command:?} of {run:?}");
    }
}
