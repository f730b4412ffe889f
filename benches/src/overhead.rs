//! What a call costs: launches, graphs, allocations, hand-offs between streams.

use crate::kernels;
use std::time::{Duration, Instant};
use thalweg::hal::{
    Buffer, Device, DeviceOptions, Event, Graph, Kernel, Launch, Node, Packet, ProfileKinds, Result, Stream,
};

/// Which of the rounds of a measurement counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// The median.
    Median,
    /// The shortest, for machines that others use.
    Least,
}

impl Round {
    /// A small cost in nanoseconds: of the rounds that each take the mean over `calls` calls.
    ///
    /// # Errors
    /// Those of the calls.
    pub fn nanoseconds(self, calls: usize, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
        let mut rounds = Vec::new();
        for _ in 0..31 {
            let start = Instant::now();
            for _ in 0..calls {
                run()?;
            }
            rounds.push(start.elapsed().as_nanos() as f64 / calls as f64);
        }
        Ok(self.of(rounds))
    }

    /// The figure of rounds, of which there is one at least.
    ///
    /// # Panics
    /// Without any round.
    #[must_use]
    pub fn of(self, mut rounds: Vec<f64>) -> f64 {
        rounds.sort_by(f64::total_cmp);
        match self {
            Round::Median => rounds[rounds.len() / 2],
            Round::Least => rounds[0],
        }
    }
}

/// Calls of a round that measures one small call.
pub const CALLS: usize = 2000;

/// One launch of an empty kernel on an idle stream.
///
/// # Errors
/// Those of the calls.
pub fn launch(device: &Device) -> Result<impl FnMut() -> Result<()> + use<>> {
    let stream = Stream::new(device)?;
    let kernel = Kernel::compile(device, &kernels::empty())?;
    Ok(move || stream.launch(&Launch::new(&kernel, &[], &[])))
}

/// One launch of `a + b` on one element on an idle stream.
///
/// # Errors
/// Those of the calls.
pub fn launch_add(device: &Device) -> Result<impl FnMut() -> Result<()> + use<>> {
    let stream = Stream::new(device)?;
    let kernel = Kernel::compile(device, &kernels::add())?;
    let (a, b) = (
        Buffer::from_slice(&stream, &[1.0_f32])?,
        Buffer::from_slice(&stream, &[2.0_f32])?,
    );
    let out = device.alloc(4)?;
    Ok(move || stream.launch(&Launch::new(&kernel, &[1], &[a.arg(), b.arg(), out.arg()])))
}

/// `a + b` on one element into a fresh buffer that is dropped again.
///
/// # Errors
/// Those of the calls.
pub fn eager_add(device: &Device) -> Result<impl FnMut() -> Result<()> + use<>> {
    let stream = Stream::new(device)?;
    let kernel = Kernel::compile(device, &kernels::add())?;
    let (a, b) = (
        Buffer::from_slice(&stream, &[1.0_f32])?,
        Buffer::from_slice(&stream, &[2.0_f32])?,
    );
    let device = device.clone();
    Ok(move || {
        let out = device.alloc(4)?;
        stream.launch(&Launch::new(&kernel, &[1], &[a.arg(), b.arg(), out.arg()]))
    })
}

/// The first launch of a kernel that the machine has never seen, and of the same kernel on a device that is opened again, where a
/// backend may have kept its program: from compiling to the end of the launch, in nanoseconds.
///
/// # Errors
/// Those of the calls.
pub fn first_use(device: &Device) -> Result<[f64; 2]> {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = time.map_or(0, |time| time.as_nanos() as u32);
    let kernel = kernels::scaled(f32::from_bits(0x3f80_0000 | seed >> 9));
    let once = || {
        let device = device.backend().open(&DeviceOptions::new(device.ordinal()))?;
        let stream = Stream::new(&device)?;
        let (a, out) = (Buffer::from_slice(&stream, &[1.0_f32])?, device.alloc(4)?);
        // What the first launch of a device costs beside its kernel.
        let empty = Kernel::compile(&device, &kernels::empty())?;
        stream.launch(&Launch::new(&empty, &[], &[]))?;
        stream.synchronize()?;
        let start = Instant::now();
        let kernel = Kernel::compile(&device, &kernel)?;
        stream.launch(&Launch::new(&kernel, &[1], &[a.arg(), out.arg()]))?;
        stream.synchronize()?;
        Ok(start.elapsed().as_nanos() as f64)
    };
    Ok([once()?, once()?])
}

/// Kernels of a [`graph`].
pub const NODES: usize = 1000;

/// A prebuilt graph of [`NODES`] empty kernels, and the wait for its end.
///
/// # Errors
/// Those of the calls.
pub fn graph(device: &Device) -> Result<impl FnMut() -> Result<()> + use<>> {
    let stream = Stream::new(device)?;
    let kernel = Kernel::compile(device, &kernels::empty())?;
    let launch = Launch::new(&kernel, &[], &[]);
    let nodes: Vec<Node<'_>> = (0..NODES)
        .map(|_| Node::new(Packet::Launch(launch), &[]))
        .collect();
    let graph = Graph::new(device, &nodes)?;
    Ok(move || {
        graph.launch(&stream)?;
        stream.synchronize()
    })
}

/// One kernel of a [`graph`], in nanoseconds.
///
/// # Errors
/// Those of the calls.
pub fn node(device: &Device, round: Round) -> Result<f64> {
    Ok(round.nanoseconds(50, graph(device)?)? / NODES as f64)
}

/// What a profile adds to a small cost, in nanoseconds.
pub struct Recorded {
    /// Without a profile, and with one.
    pub launch: [f64; 2],
    /// One node of a graph, likewise.
    pub node: [f64; 2],
    /// An allocation and its free, which are two records.
    pub alloc: [f64; 2],
    /// Draining one record.
    pub drain: f64,
}

/// What a record costs: the same calls without a profile and with one.
///
/// # Errors
/// Those of the calls.
pub fn recorded(device: &Device, round: Round) -> Result<Recorded> {
    // Room for all that the calls of one measurement leave.
    const ROOM: u64 = 1 << 22;
    let both = |run: &dyn Fn() -> Result<f64>| -> Result<[f64; 2]> {
        // Pages that were written before cost nothing the second time.
        let mut with = f64::INFINITY;
        for _ in 0..3 {
            let profile = device.profile_start(ProfileKinds::ALL, ROOM)?;
            with = with.min(run()?);
            profile.drain(&mut Vec::new())?;
        }
        Ok([run()?.min(run()?), with])
    };
    let recorded = Recorded {
        launch: both(&|| round.nanoseconds(CALLS, launch(device)?))?,
        node: both(&|| node(device, round))?,
        alloc: both(&|| round.nanoseconds(CALLS, alloc(device, 512)?))?,
        drain: 0.0,
    };
    let profile = device.profile_start(ProfileKinds::ALL, ROOM)?;
    round.nanoseconds(CALLS, launch(device)?)?;
    let (mut records, start) = (Vec::with_capacity(1 << 20), Instant::now());
    profile.drain(&mut records)?;
    let drain = start.elapsed().as_nanos() as f64 / records.len() as f64;
    Ok(Recorded { drain, ..recorded })
}

/// Taking a buffer of `bytes` bytes from the pool and giving it back.
///
/// # Errors
/// Those of the calls.
pub fn alloc(device: &Device, bytes: u64) -> Result<impl FnMut() -> Result<()> + use<>> {
    let held = (0..64).map(|_| device.alloc(bytes)).collect::<Result<Vec<_>>>()?;
    drop(held);
    let device = device.clone();
    Ok(move || device.alloc(bytes).map(drop))
}

/// A hand-off between two streams whose threads are awake: each waits for the other's event in turns, by the events' own times. The
/// caller sleeps meanwhile, so that on two cores each stream has one.
///
/// # Errors
/// Those of the calls.
pub fn hand_off(device: &Device) -> Result<f64> {
    const ROUNDS: usize = 3000;
    let streams = [Stream::new(device)?, Stream::new(device)?];
    let mut samples = Vec::new();
    for _ in 0..15 {
        let events = (0..=2 * ROUNDS)
            .map(|_| Event::with_timing(device))
            .collect::<Result<Vec<_>>>()?;
        // Both queues fill up behind a gate, so that the streams run on their own threads.
        let (open, gate) = std::sync::mpsc::channel::<()>();
        streams[0].callback(move || {
            gate.recv().ok();
        })?;
        for (round, event) in events.iter().enumerate() {
            let (this, other) = (&streams[round % 2], &streams[(round + 1) % 2]);
            this.record_event(event)?;
            other.wait_event(event)?;
        }
        drop(open);
        while !(streams[0].query()? && streams[1].query()?) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The first half is the scheduler's, to put the threads where they stay.
        samples.push(events[ROUNDS].elapsed_ns(&events[2 * ROUNDS])? as f64 / ROUNDS as f64);
        device.synchronize()?;
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples[samples.len() / 2])
}
