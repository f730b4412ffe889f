//! Programs on backends that have none: a call for each step.

use super::arena::Arena;
use super::executable::Arg;
use crate::engine::Engine;
use crate::engine::Lane;
use crate::error::Result;
use crate::error::tag::OpTag;
use crate::error::tag::hal_tag;
use crate::hal::{self, Buffer, Kernel};
use crate::lower::{self, Program, Scalar, Slot};
use smallvec::SmallVec;
use std::sync::Arc;

/// Where a piece of memory comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Input(u32),
    // One of the buffers that the run makes; the arena is the last.
    Made(u32),
}

#[derive(Debug)]
struct Argument {
    source: Source,
    offset: u64,
    strides: Option<Box<[i64]>>,
    gather: (i64, u64),
}

impl Argument {
    /// The argument in a buffer whose element 0 lies at byte `base`.
    fn bind<'a>(&'a self, buffer: &'a Buffer, base: u64) -> hal::Arg<'a> {
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
enum Step {
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

/// Steps in order, and the memory that they need.
#[derive(Debug)]
pub(super) struct Steps {
    steps: Vec<Step>,
    /// Sizes of the buffers that outputs lie in.
    own: Box<[u64]>,
    /// Bytes of all temporaries together.
    arena: u64,
}

impl Steps {
    pub(super) fn compile(
        engine: &Engine,
        program: &Program,
        arena: &Arena,
        place: &dyn Fn(Slot, u64) -> (Source, u64),
    ) -> Result<Steps> {
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
        Ok(Steps {
            steps: program.steps.iter().map(step).collect::<Result<_>>()?,
            own: arena.own.as_slice().into(),
            arena: arena.bytes,
        })
    }

    /// Of the first step.
    pub(super) fn tag(&self) -> OpTag {
        match self.steps.first() {
            Some(Step::Launch { tag, .. } | Step::Fill { tag, .. }) => *tag,
            None => OpTag::NONE,
        }
    }

    /// Submits the work to the stream of `lane`, which waited for what the arguments need. Returns the buffers of the outputs.
    pub(super) fn run(
        &self,
        engine: &Engine,
        lane: &Lane,
        args: &[Arg<'_>],
        tag: Option<OpTag>,
    ) -> Result<SmallVec<[Buffer; 2]>> {
        let memory_tag = hal_tag(tag.unwrap_or(self.tag()));
        let mut made = SmallVec::<[Buffer; 2]>::new();
        for &bytes in &self.own {
            made.push(engine.alloc(&lane.stream, bytes, memory_tag)?);
        }
        if self.arena > 0 {
            made.push(engine.alloc(&lane.stream, self.arena, memory_tag)?);
        }
        for step in &self.steps {
            step.submit(lane, args, &made, tag)?;
        }
        made.truncate(self.own.len());
        Ok(made)
    }
}

/// The buffer behind a source and the byte at which its element 0 lies.
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
