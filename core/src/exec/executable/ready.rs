//! A program that is one call of the backend.

use super::{Arg, Inputs, Output, Source};
use crate::context::Context;
use crate::engine::{Engine, Lane, Run};
use crate::error::Result;
use crate::error::tag::{OpTag, hal_tag};
use crate::exec::arena::Arena;
use crate::exec::described::Described;
use crate::exec::eager::Noted;
use crate::exec::packets::{Numbers, add};
use crate::hal::{self, Buffer, Kernel, ProgramBuilder, ProgramSlots};
use crate::lower::{self, Program, Scalar, Slot};
use crate::record::flight;
use crate::record::place::Call;
use crate::types::layout::Layout;
use crate::value::{Shared, Storage};
use smallvec::SmallVec;
use std::sync::Arc;

/// A program that the backend keeps, and which arguments it takes.
#[derive(Debug)]
pub(super) struct Ready {
    program: hal::Program,
    inputs: Box<[u32]>,
    /// Arguments that steps write; see [`Ready::bind`].
    bound: Box<[u32]>,
    /// Number of the first bound slot.
    first_bound: usize,
    scalars: Box<[u32]>,
    /// The only result, if there is one alone and it is new.
    pub(super) only: Option<(Layout, hal::DType)>,
    /// Of the first step.
    pub(super) tag: OpTag,
    /// The ops that make the buffers.
    pub(super) made: Box<[OpTag]>,
    pub(super) described: Box<Described>,
}

/// Where a program runs: the record of a scope's stream, or of the default stream.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    context: &'a Context,
    scoped: Option<&'a Arc<Lane>>,
    lane: &'a Lane,
}

impl<'a> Site<'a> {
    #[inline]
    pub(super) fn new(context: &'a Context, scoped: Option<&'a Arc<Lane>>) -> Result<Site<'a>> {
        let lane = match scoped {
            Some(lane) => lane,
            None => context.engine().default_lane()?,
        };
        Ok(Site {
            context,
            scoped,
            lane,
        })
    }

    /// The memory of a result that was just submitted.
    #[inline]
    pub(super) fn storage(&self, buffer: Buffer, tag: &OpTag) -> Shared {
        let engine = self.context.engine();
        Shared::new(Storage {
            _listed: engine.list(tag, &buffer),
            buffer,
            context: self.context.clone(),
            written: engine.written(self.scoped),
        })
    }
}

/// How a run ended, or the first failure that an argument may be wrong by.
#[cold]
fn trusted(ran: Result<()>, args: &mut dyn Iterator<Item = Arg<'_>>) -> Result<()> {
    ran?;
    for arg in args {
        match arg {
            Arg::Value(value) => value.storage.trusted()?,
            Arg::Scalar(_) => {}
        }
    }
    Ok(())
}

impl Ready {
    pub(super) fn compile(
        engine: &Engine,
        program: &Program,
        Inputs { captured, bound }: Inputs<'_>,
        arena: &Arena,
        place: &dyn Fn(Slot, u64) -> (Source, u64),
        outputs: &[Output],
        tag: OpTag,
    ) -> Result<Ready> {
        let (mut inputs, mut scalars) = (Numbers::default(), Numbers::default());
        let is_bound = |input: u32| bound.iter().position(|(number, _)| *number == input);
        for step in &program.steps {
            if let lower::Step::Launch { launch, .. } = step {
                launch.arguments.iter().for_each(|argument| match argument.slot {
                    Slot::Input(input) if is_bound(input).is_none() => inputs.add(input),
                    Slot::Input(_) | Slot::Local(_) => {}
                });
                launch.scalars.iter().for_each(|scalar| match *scalar {
                    Scalar::Argument(argument) => scalars.add(argument),
                    Scalar::Bits(_) => {}
                });
            }
        }
        let scratch = [arena.bytes];
        let scratch = if arena.bytes > 0 { &scratch[..] } else { &[] };
        let first_bound = inputs.all.len() + arena.own.len() + scratch.len();
        let number = |slot: Slot, offset: u64| match place(slot, offset) {
            (Source::Input(input), offset) => match is_bound(input) {
                Some(at) => ((first_bound + at) as u32, offset),
                None => (inputs.place(input), offset),
            },
            (Source::Made(made), offset) => (inputs.all.len() as u32 + made, offset),
        };
        let kernels: Vec<Option<Arc<Kernel>>> = (program.steps.iter())
            .map(|step| match step {
                lower::Step::Launch { source, .. } => engine.kernel(source).map(Some),
                lower::Step::Fill { .. } => Ok(None),
            })
            .collect::<hal::Result<_>>()?;
        let mut builder = ProgramBuilder::new(engine.device());
        for (step, kernel) in program.steps.iter().zip(kernels.iter().map(Option::as_deref)) {
            add(&mut builder, step, kernel, &number, &scalars)?;
        }
        let constants: Vec<u32> = (0..)
            .zip(&inputs.all)
            .filter(|(_, argument)| **argument >= captured)
            .map(|(number, _)| number)
            .collect();
        let buffers: Vec<&Buffer> = bound.iter().map(|(_, buffer)| *buffer).collect();
        let slots = ProgramSlots {
            inputs: inputs.all.len(),
            outputs: &arena.own,
            scratch,
            arguments: scalars.all.len(),
            constants: &constants,
            bound: &buffers,
        };
        let made = builder.finish(&slots)?;
        let only = match outputs {
            [output] if matches!(output.source, Source::Made(_)) => Some((output.layout, output.ty.dtype)),
            _ => None,
        };
        Ok(Ready {
            program: made,
            inputs: inputs.all.into(),
            bound: bound.iter().map(|(number, _)| *number).collect(),
            first_bound,
            scalars: scalars.all.into(),
            only,
            tag,
            made: Box::default(),
            described: Box::new(Described::of(program)),
        })
    }

    /// Has the later runs write argument `at` of those that steps write where `buffer` lies.
    pub(super) fn bind(&self, at: usize, buffer: &Buffer) -> hal::Result<()> {
        let tag = hal_tag(&self.tag);
        self.program.rebind(self.first_bound + at, buffer, 0, &tag)
    }

    #[inline(always)]
    pub(super) fn run<'a>(
        &self,
        site: Site<'_>,
        arg: impl Fn(u32) -> Arg<'a>,
        called: Option<&OpTag>,
        noted: Option<Noted>,
        mut made: impl FnMut(Buffer),
    ) -> Result<()> {
        let own = called.is_none();
        let tag = hal_tag(called.unwrap_or(&self.tag));
        let mut inputs = SmallVec::<[_; 6]>::new();
        for &number in &self.inputs {
            let Arg::Value(value) = arg(number) else {
                unreachable!("a scalar argument is bound as a scalar")
            };
            value.storage.wait_on(site.scoped, site.lane)?;
            let offset = value.layout.offset * value.dtype.size() as u64;
            inputs.push(self.program.input(&value.storage.buffer, offset, &tag)?);
        }
        let mut scalars = SmallVec::<[u64; 4]>::new();
        for &number in &self.scalars {
            let Arg::Scalar(bits) = arg(number) else {
                unreachable!("a value is bound as a buffer")
            };
            scalars.push(bits);
        }
        let stream = &site.lane.stream;
        let engine = site.context.engine();
        let mut submit = || {
            // SAFETY: outputs end in a `Storage`, whose context holds the device and is dropped after them.
            engine.with_memory(|| unsafe {
                self.program
                    .run(stream, &inputs, &scalars, (&tag, own), &mut made)
            })
        };
        if flight::is_on() {
            let call = called.map_or(Call::default(), OpTag::of_record);
            self.described.fly(call, engine, stream);
        }
        let ran = match noted {
            None => submit(),
            Some(Noted { on, operands }) => {
                self.described.tell(on, engine.number());
                let run = Run {
                    stream,
                    program: self.described.number,
                    call: called.map_or(Call::default(), OpTag::of_record),
                    operands,
                };
                let ran = engine.recorded(on, run, submit);
                if ran.is_ok() {
                    self.described.show(on, engine, called.copied());
                }
                ran
            }
        };
        // Behind the submission, whose results have their epoch: a failure that is found from now on concerns them too.
        if engine.has_failures() {
            let all = self.inputs.iter().chain(&self.bound);
            return trusted(ran, &mut all.map(|&number| arg(number)));
        }
        ran
    }

    /// The memory of the only result.
    #[inline(always)]
    pub(super) fn run_only<'a>(
        &self,
        context: &Context,
        scoped: Option<&Arc<Lane>>,
        arg: impl Fn(u32) -> Arg<'a>,
        tag: Option<&OpTag>,
        noted: Option<Noted>,
    ) -> Result<Shared> {
        let site = Site::new(context, scoped)?;
        let of = tag.or(self.made.first()).unwrap_or(&self.tag);
        let mut made = None;
        self.run(site, arg, tag, noted, |buffer| {
            made = Some(site.storage(buffer, of))
        })?;
        match made {
            Some(storage) => Ok(storage),
            None => unreachable!("a run makes every output"),
        }
    }
}
