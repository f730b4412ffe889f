//! What the records so far have said: the names behind numbers.

use crate::runs::{KnownRun, Runs};
use crate::survey::Survey;
use foldhash::{HashMap, HashMapExt as _};
use thalweg::observe::recording::{Device, Node, Place, PlaceId, Program, Run, TextId};

/// What the records so far have said.
pub(crate) struct Known<'a> {
    pub(crate) survey: &'a Survey,
    /// Added to a time to get nanoseconds since the first recording began.
    shift: i128,
    pub(crate) texts: HashMap<TextId, String>,
    pub(crate) threads: HashMap<u32, TextId>,
    pub(crate) devices: HashMap<u32, Device>,
    pub(crate) streams: HashMap<u32, (u32, TextId)>,
    pub(crate) places: HashMap<PlaceId, Place>,
    pub(crate) programs: HashMap<u32, Program>,
    pub(crate) runs: Runs,
}

impl<'a> Known<'a> {
    /// Nothing yet. `origin` is the wall-clock time at which the first recording began.
    pub(crate) fn new(survey: &'a Survey, origin: u64) -> Known<'a> {
        let start = &survey.start;
        Known {
            survey,
            shift: i128::from(start.unix) - i128::from(start.time) - i128::from(origin),
            texts: HashMap::new(),
            threads: HashMap::new(),
            devices: HashMap::new(),
            streams: HashMap::new(),
            places: HashMap::new(),
            programs: HashMap::new(),
            runs: Runs::default(),
        }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.survey.start.rank
    }

    /// Nanoseconds since the first recording began; 0 for what was before.
    pub(crate) fn time(&self, time: u64) -> u64 {
        u64::try_from((i128::from(time) + self.shift).max(0)).unwrap_or(u64::MAX)
    }

    pub(crate) fn text(&self, id: TextId) -> &str {
        self.texts.get(&id).map_or("", String::as_str)
    }

    pub(crate) fn run(&self, run: Run) -> KnownRun {
        KnownRun {
            run,
            step: self.survey.step_at(run.thread, run.start),
        }
    }

    /// The number of the step at `at` of the list.
    pub(crate) fn step_number(&self, at: Option<u32>) -> Option<u64> {
        Some(self.survey.steps.get(at? as usize)?.number)
    }

    /// `src/net.rs:48`, or nothing.
    pub(crate) fn source(&self, place: &Place) -> String {
        let file = self.text(place.file);
        match place.line {
            0 => file.to_owned(),
            line => format!("{file}:{line}"),
        }
    }

    /// `Default/conv1/conv2d-op3`; without the number of a call where there is none.
    pub(crate) fn call_name(&self, place: PlaceId, call: u32) -> String {
        let Some(place) = self.places.get(&place) else {
            return String::new();
        };
        let scope = self.text(place.scope);
        let slash = if scope.is_empty() { "" } else { "/" };
        let op = self.text(place.op);
        match call {
            0 => format!("{scope}{slash}{op}"),
            call => format!("{scope}{slash}{op}-op{call}"),
        }
    }

    pub(crate) fn node(&self, program: u32, node: u32) -> Option<&Node> {
        self.programs.get(&program)?.nodes.get(node as usize)
    }

    /// The device of a stream; that of work on no stream is known where there is one device.
    pub(crate) fn device_of(&self, stream: u32) -> u32 {
        match self.streams.get(&stream) {
            Some((device, _)) => *device,
            None if self.devices.len() == 1 => self.devices.keys().copied().sum(),
            None => 0,
        }
    }

    /// `cpu:0`.
    pub(crate) fn target(&self, device: u32) -> String {
        match self.devices.get(&device).map(|device| self.text(device.target)) {
            Some(target) if !target.is_empty() => target.to_owned(),
            _ => format!("device {device}"),
        }
    }

    pub(crate) fn thread_name(&self, thread: u32) -> String {
        match self.threads.get(&thread).map(|name| self.text(*name)) {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => format!("thread {thread}"),
        }
    }

    pub(crate) fn stream_name(&self, stream: u32) -> String {
        match self.streams.get(&stream).map(|(_, name)| self.text(*name)) {
            Some("") => "default stream".to_owned(),
            Some(name) => name.to_owned(),
            None if stream == 0 => "no stream".to_owned(),
            None => format!("stream {stream}"),
        }
    }
}
