//! What recordings say of a program.

use super::saved::save_sources;
use crate::context::Saves;
use crate::engine::Engine;
use crate::engine::kernel_meta::Use;
use crate::error::tag::OpTag;
use crate::hal::Stream;
use crate::hal::ir::Kernel;
use crate::hal::library::LibraryOp;
use crate::lower::{self, Origin, Source, Step};
use crate::record::place::Call;
use crate::record::recording::{self, CommandKind, Node, Part, Record};
use crate::record::{flight, session, switch, text};
use parking_lot::Mutex;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A program as recordings describe it, once a session.
#[derive(Debug)]
pub(super) struct Described {
    /// Its number in this process, from 1.
    pub(super) number: u32,
    name: &'static str,
    steps: Box<[DescribedStep]>,
    // The session that was told.
    told: AtomicU32,
    // Whether the flight recorder was.
    in_flight: AtomicBool,
    telling: Mutex<()>,
    /// Where sources of kernels are saved.
    sources: Option<(Saves, String)>,
    // Whether that and the files about kernels were written.
    shown: AtomicBool,
}

/// A step without what only running it needs.
#[derive(Debug)]
struct DescribedStep {
    source: Option<Arc<Source>>,
    extents: Box<[u64]>,
    tag: OpTag,
    origin: Origin,
}

impl Described {
    pub(super) fn of(program: &lower::Program) -> Described {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let step = |(at, step): (usize, &Step)| {
            let (source, extents) = match step {
                Step::Launch { source, launch, .. } => (Some(Arc::clone(source)), &launch.extents[..]),
                Step::Fill { .. } => (None, &[][..]),
            };
            DescribedStep {
                source,
                extents: extents.into(),
                tag: step.tag(),
                origin: program.origins.get(at).cloned().unwrap_or_default(),
            }
        };
        Described {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            name: program.steps.first().map_or("", |step| step.tag().op),
            steps: program.steps.iter().enumerate().map(step).collect(),
            told: AtomicU32::new(0),
            in_flight: AtomicBool::new(false),
            telling: Mutex::default(),
            sources: None,
            shown: AtomicBool::new(false),
        }
    }

    /// Names the function that it computes.
    pub(super) fn set_name(&mut self, name: &'static str) {
        self.name = name;
    }

    /// Saves the sources of its kernels when they are there; the names of files begin with `name`.
    pub(super) fn save_sources(&mut self, saves: Saves, name: String) {
        self.sources = Some((saves, name));
    }

    /// After a run: writes what is asked for about kernels, whose programs a backend may make when they are first launched.
    /// `called` is the call that the run is all of.
    #[inline]
    pub(super) fn show(&self, on: switch::On, engine: &Engine, called: Option<OpTag>) {
        if on.has(switch::GRAPHS) && !self.shown.swap(true, Ordering::Relaxed) {
            self.show_now(engine, called);
        }
    }

    #[cold]
    fn show_now(&self, engine: &Engine, called: Option<OpTag>) {
        for step in &self.steps {
            if let Some(source) = &step.source {
                let (extents, mut origin) = (step.extents.clone(), step.origin.clone());
                if let Some(call) = called {
                    origin.name(call);
                }
                engine.tell_kernel(source, Use { extents, origin });
            }
        }
        if let Some((saves, name)) = &self.sources {
            let sources = self.steps.iter().filter_map(|step| step.source.as_ref());
            save_sources(engine, saves, name, sources);
        }
    }

    /// Tells the flight recorder of a run, and what it runs where that is not known.
    #[inline(never)]
    pub(super) fn fly(&self, call: Call, engine: &Engine, stream: &Stream) {
        let device = engine.number();
        if !self.in_flight.load(Ordering::Relaxed) {
            self.in_flight.store(true, Ordering::Relaxed);
            flight::program(self.program(device), engine.device().target());
        }
        flight::launch(call, self.number, device, stream.handle());
    }

    /// Tells the session that is on, which may know it already.
    #[inline]
    pub(super) fn tell(&self, on: switch::On, device: u32) {
        if self.told.load(Ordering::Acquire) != u32::from(on.session()) {
            self.tell_now(on, device);
        }
    }

    #[cold]
    fn tell_now(&self, on: switch::On, device: u32) {
        // Another thread waits here until what it refers to is told.
        let _telling = self.telling.lock();
        let session = u32::from(on.session());
        if self.told.load(Ordering::Relaxed) == session {
            return;
        }
        session::tell(on, Record::Program(self.program(device)));
        self.told.store(session, Ordering::Release);
    }

    fn program(&self, device: u32) -> recording::Program {
        recording::Program {
            id: self.number,
            device,
            name: text::intern(self.name),
            nodes: self.steps.iter().map(DescribedStep::node).collect(),
        }
    }
}

impl DescribedStep {
    fn node(&self) -> Node {
        let (kernel, shape) = match self.source.as_deref() {
            Some(Source::Kernel(kernel)) => (kernel.name.clone(), shape_of_kernel(kernel, &self.extents)),
            Some(Source::Library(op)) => (name_of_library(op), shape_of_library(op, &self.extents)),
            None => (String::new(), String::new()),
        };
        let mut parts: Vec<(OpTag, u64)> = (self.origin.parts.iter())
            .map(|part| (part.tag, part.cost))
            .collect();
        if parts.is_empty() {
            parts.push((self.tag, 1));
        }
        // Costs of a node are a proportion; the largest fits.
        let most = parts.iter().map(|part| part.1).max().unwrap_or(0);
        let shift = most.checked_ilog2().unwrap_or(0).saturating_sub(30);
        let part = |&(tag, cost): &(OpTag, u64)| Part {
            place: tag.place(),
            call: tag.call,
            cost: u32::try_from(cost >> shift).unwrap_or(u32::MAX),
        };
        Node {
            kind: match self.source {
                Some(_) => CommandKind::Launch,
                None => CommandKind::Fill,
            },
            kernel: text::intern(&kernel),
            shape: text::intern(&shape),
            flops: self.origin.flops,
            bytes: self.origin.bytes,
            parts: parts.iter().map(part).collect(),
        }
    }
}

/// `32×10×84`.
fn extents(of: &[u64]) -> String {
    let mut text = String::new();
    for (at, extent) in of.iter().enumerate() {
        let times = if at == 0 { "" } else { "×" };
        // Writing to a string does not fail.
        let _ = write!(text, "{times}{extent}");
    }
    if text.is_empty() { "1".into() } else { text }
}

/// `32×10: f32 f32 -> f32`.
fn shape_of_kernel(kernel: &Kernel, of: &[u64]) -> String {
    use crate::hal::ir::Role;
    let dtypes = |role: Role| -> String {
        let params = kernel.params.iter().filter(|param| param.role == role);
        let names: Vec<String> = params.map(|param| param.dtype.to_string()).collect();
        names.join(" ")
    };
    format!("{}: {} -> {}", extents(of), dtypes(Role::In), dtypes(Role::Out))
}

fn name_of_library(op: &LibraryOp) -> String {
    match op.epilogue() {
        Some(epilogue) => format!("{} {}", op.name(), epilogue.name),
        None => op.name().to_owned(),
    }
}

fn shape_of_library(op: &LibraryOp, of: &[u64]) -> String {
    match op.definition() {
        Ok(kernel) => shape_of_kernel(&kernel, of),
        Err(_) => extents(of),
    }
}
