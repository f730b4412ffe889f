//! Programs that are compiled for a device, and how they run.

use super::arena::{Arena, Place};
use super::engine::Engine;
use super::lane::{Lane, Written};
use super::staged::Staged;
use crate::context::Context;
use crate::error::Result;
use crate::graph::Type;
use crate::hal::{self, Buffer, Kernel};
use crate::lower::{self, Program, Scalar, Slot};
use crate::tensor::layout::Layout;
use crate::tensor::tag::OpTag;
use crate::tensor::{Storage, Value, hal_tag};
use smallvec::SmallVec;
use std::sync::Arc;

/// An argument of a program.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// In a buffer.
    Value(&'a Value),
    /// The same everywhere, as bits; its number among the program's scalars is its number among the arguments.
    Scalar(u64),
}

/// The results of a program.
pub(crate) type Values = SmallVec<[Value; 1]>;

/// Where a piece of memory comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Input(u32),
    // One of the buffers that the run makes; the arena is the last.
    Made(u32),
}

#[derive(Debug)]
pub(super) struct Argument {
    pub(super) source: Source,
    offset: u64,
    strides: Option<Box<[i64]>>,
    gather: (i64, u64),
}

impl Argument {
    /// The argument in a buffer whose element 0 lies at byte `base`.
    #[inline]
    pub(super) fn bind<'a>(&'a self, buffer: &'a Buffer, base: u64) -> hal::Arg<'a> {
        let arg = hal::Arg::new(buffer)
            .offset(base + self.offset)
            .gather(self.gather.0, self.gather.1);
        match &self.strides {
            Some(strides) => arg.strides(strides),
            None => arg,
        }
    }
}

#[derive(Debug)]
pub(super) enum Step {
    Launch {
        kernel: Arc<Kernel>,
        extents: Box<[u64]>,
        arguments: Box<[Argument]>,
        scalars: Box<[Scalar]>,
        tag: OpTag,
    },
    Fill {
        source: Source,
        offset: u64,
        bytes: u64,
        pattern: u64,
        pattern_bytes: u32,
        tag: OpTag,
    },
}

impl Step {
    #[inline]
    fn tag(&self) -> OpTag {
        match self {
            Step::Launch { tag, .. } | Step::Fill { tag, .. } => *tag,
        }
    }
}

#[derive(Debug)]
pub(super) struct Output {
    pub(super) source: Source,
    pub(super) layout: Layout,
    pub(super) ty: Type,
}

/// A program compiled for one device.
#[derive(Debug)]
pub(crate) struct Executable {
    pub(super) steps: Vec<Step>,
    /// Sizes of the buffers that outputs lie in.
    pub(super) own: Box<[u64]>,
    /// Bytes of all temporaries together.
    pub(super) arena: u64,
    pub(super) outputs: Box<[Output]>,
    // Loops and branches, and what is between them; then there is nothing else.
    staged: Option<Box<Staged>>,
}

impl Executable {
    /// A program with loops or branches.
    pub(super) fn staged(staged: Staged) -> Executable {
        Executable {
            steps: Vec::new(),
            own: Box::default(),
            arena: 0,
            outputs: Box::default(),
            staged: Some(Box::new(staged)),
        }
    }

    pub(super) fn compile(engine: &Engine, program: &Program) -> Result<Executable> {
        let arena = Arena::plan(program);
        let place = |slot: Slot, offset: u64| match slot {
            Slot::Input(input) => (Source::Input(input), offset),
            Slot::Local(local) => match arena.places[local as usize] {
                Place::Own(own) => (Source::Made(own), offset),
                Place::Arena(start) => (Source::Made(arena.own.len() as u32), start + offset),
            },
        };
        let step = |step: &lower::Step| -> Result<Step> {
            Ok(match step {
                lower::Step::Launch {
                    source,
                    extents,
                    arguments,
                    scalars,
                    tag,
                } => Step::Launch {
                    kernel: engine.kernel(source)?,
                    extents: extents.as_slice().into(),
                    arguments: (arguments.iter())
                        .map(|argument| {
                            let (source, offset) = place(argument.slot, argument.offset);
                            Argument {
                                source,
                                offset,
                                strides: argument.strides.as_deref().map(Into::into),
                                gather: argument.gather,
                            }
                        })
                        .collect(),
                    scalars: scalars.as_slice().into(),
                    tag: *tag,
                },
                &lower::Step::Fill {
                    slot,
                    offset,
                    bytes,
                    pattern,
                    pattern_bytes,
                    tag,
                } => {
                    let (source, offset) = place(slot, offset);
                    Step::Fill {
                        source,
                        offset,
                        bytes,
                        pattern,
                        pattern_bytes,
                        tag,
                    }
                }
            })
        };
        let output = |output: &lower::Output| Output {
            // Outputs are never in the arena.
            source: place(output.slot, 0).0,
            layout: output.layout,
            ty: output.ty,
        };
        Ok(Executable {
            steps: program.steps.iter().map(step).collect::<Result<_>>()?,
            own: arena.own.as_slice().into(),
            arena: arena.bytes,
            outputs: program.outputs.iter().map(output).collect(),
            staged: None,
        })
    }

    /// Submits the work to a stream; `lane` is that of a scope, `None` stands for the default stream. With `tag`, all work
    /// carries it instead of what it was compiled with.
    pub(super) fn run(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        args: &[Arg<'_>],
        tag: Option<OpTag>,
    ) -> Result<Values> {
        if let Some(staged) = &self.staged {
            return staged.run(context, scoped, args, tag);
        }
        let engine = context.engine();
        let lane: &Lane = match scoped {
            Some(lane) => lane,
            None => engine.default_lane()?,
        };
        for arg in args {
            if let Arg::Value(value) = arg {
                value.storage.wait_on(scoped, lane)?;
            }
        }
        let memory_tag = tag
            .or_else(|| self.steps.first().map(Step::tag))
            .unwrap_or(OpTag::NONE);
        let mut made = SmallVec::<[Buffer; 2]>::new();
        for &bytes in &self.own {
            made.push(engine.alloc(&lane.stream, bytes, hal_tag(memory_tag))?);
        }
        if self.arena > 0 {
            made.push(engine.alloc(&lane.stream, self.arena, hal_tag(memory_tag))?);
        }
        for step in &self.steps {
            step.submit(lane, args, &made, tag)?;
        }
        made.truncate(self.own.len());
        Ok(self.values(context, scoped, lane, args, made, memory_tag))
    }

    fn values(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        lane: &Lane,
        args: &[Arg<'_>],
        made: SmallVec<[Buffer; 2]>,
        tag: OpTag,
    ) -> Values {
        let engine = context.engine();
        let storages: SmallVec<[Arc<Storage>; 2]> = made
            .into_iter()
            .map(|buffer| {
                Arc::new(Storage {
                    _listed: engine.list(tag, buffer.size()),
                    buffer,
                    context: context.clone(),
                    written: Written::by(scoped, lane),
                })
            })
            .collect();
        let value = |output: &Output| {
            let (storage, offset) = match output.source {
                Source::Made(own) => (&storages[own as usize], 0),
                Source::Input(input) => match args[input as usize] {
                    Arg::Value(value) => (&value.storage, value.layout.offset),
                    Arg::Scalar(_) => unreachable!("a scalar argument has no buffer to look into"),
                },
            };
            let mut layout = output.layout;
            layout.offset += offset;
            Value {
                storage: Arc::clone(storage),
                layout,
                dtype: output.ty.dtype,
            }
        };
        self.outputs.iter().map(value).collect()
    }
}

/// The buffer behind a source and the byte at which its element 0 lies.
#[inline]
fn resolve<'a>(source: Source, args: &[Arg<'a>], made: &'a [Buffer]) -> (&'a Buffer, u64) {
    match source {
        Source::Made(made_at) => (&made[made_at as usize], 0),
        Source::Input(input) => match args[input as usize] {
            Arg::Value(value) => {
                let bytes = value.layout.offset * value.dtype.size() as u64;
                (&value.storage.buffer, bytes)
            }
            Arg::Scalar(_) => unreachable!("a scalar argument is bound as a scalar"),
        },
    }
}

impl Step {
    #[inline]
    fn submit(&self, lane: &Lane, args: &[Arg<'_>], made: &[Buffer], tag: Option<OpTag>) -> hal::Result<()> {
        match self {
            Step::Launch {
                kernel,
                extents,
                arguments,
                scalars,
                tag: own_tag,
            } => {
                let mut bound = SmallVec::<[hal::Arg<'_>; 6]>::new();
                for argument in arguments {
                    let (buffer, base) = resolve(argument.source, args, made);
                    bound.push(argument.bind(buffer, base));
                }
                let scalars: SmallVec<[u64; 4]> = (scalars.iter())
                    .map(|scalar| match *scalar {
                        Scalar::Bits(bits) => bits,
                        Scalar::Argument(input) => match args[input as usize] {
                            Arg::Scalar(bits) => bits,
                            Arg::Value(_) => unreachable!("a value is bound as a buffer"),
                        },
                    })
                    .collect();
                let tag = hal_tag(tag.unwrap_or(*own_tag));
                let launch = hal::Launch::new(kernel, extents, &bound)
                    .scalars(&scalars)
                    .tag(tag);
                lane.stream.launch(&launch)
            }
            &Step::Fill {
                source,
                offset,
                bytes,
                pattern,
                pattern_bytes,
                tag: own_tag,
            } => {
                let (buffer, base) = resolve(source, args, made);
                fill(
                    lane,
                    buffer,
                    (base + offset, bytes),
                    (pattern, pattern_bytes),
                    tag.unwrap_or(own_tag),
                )
            }
        }
    }
}

/// Fills a range (offset, bytes) of a buffer with an element (bits, bytes).
pub(super) fn fill(
    lane: &Lane,
    buffer: &Buffer,
    (offset, bytes): (u64, u64),
    (pattern, pattern_bytes): (u64, u32),
    tag: OpTag,
) -> hal::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let fill = match pattern_bytes {
        1 => hal::Fill::new(buffer, pattern as u8),
        2 => hal::Fill::new(buffer, pattern as u16),
        4 => hal::Fill::new(buffer, pattern as u32),
        _ => hal::Fill::new(buffer, pattern),
    };
    lane.stream.fill(&fill.range(offset, bytes).tag(hal_tag(tag)))
}
