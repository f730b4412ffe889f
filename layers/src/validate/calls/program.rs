//! Programs.

use super::{Here, UNWRITTEN, absent, given};
use crate::layer::{Answer, enter};
use crate::validate::Validate;
use crate::validate::code::Code;
use crate::validate::content::Held;
use crate::validate::refusal::pointer;
use crate::validate::report::Report;
use crate::validate::shadow::{Kind, State};
use crate::validate::work::Ticket;
use thalweg_hal::kit::args::{optional, writable};
use thalweg_hal::tables::{Context, ProgramArgs, ProgramRebindArgs, ProgramRunArgs, ProgramTable};

pub(super) const TABLE: ProgramTable = ProgramTable {
    create,
    rebind,
    run,
    destroy,
};

unsafe extern "C" fn create(context: Context, args: *const ProgramArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.program.ok_or_else(absent)?;
        let mut draft = None;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                draft = Some(state.draft(given("program", args)?)?);
                Ok(())
            })?;
            let below = |out| (table.create)(context, args, out);
            let handle = layer.number(place, "program", out, below)?;
            if let Some(program) = draft {
                layer.check(|state| {
                    let new = state.programs.insert(handle, program);
                    State::once("program", Kind::Program, handle, new)
                })?;
            }
            out.write(handle);
        }
        Ok(())
    })
}

unsafe extern "C" fn rebind(context: Context, args: *const ProgramRebindArgs) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.program.ok_or_else(absent)?;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| state.check_rebind(given("rebind", args)?))?;
            let code = (table.rebind)(context, args);
            if code == 0 {
                layer.state.lock().rebind(&*args);
            }
            layer.judge(place, "rebind", code)
        }
    })
}

/// Outputs of a run that needs no allocation.
const FEW: usize = 8;

impl Validate {
    /// What a run has made.
    fn judge_outputs(
        &self,
        args: &ProgramRunArgs,
        ticket: Option<Ticket>,
        made: &[u64],
        code: i32,
    ) -> Answer {
        if code != 0 {
            if let Some((actor, epoch)) = ticket {
                self.state.lock().undo(actor, epoch);
            }
            if made.iter().any(|&handle| handle != UNWRITTEN) {
                let text =
                    format!("run: the backend failed with status {code} and gave out outputs; leave none");
                self.found(Report::plugin(Code::FailureWrote, text))?;
            }
            return Ok(());
        }
        if made.contains(&UNWRITTEN) {
            let text = "run: the backend ended with success and gave out too few outputs; write every handle";
            self.found(Report::plugin(Code::NothingWritten, text))?;
        }
        self.check(|state| state.add_outputs(args, ticket, made))
    }
}

/// Looks again at the host memory that a run reads.
fn watch(place: Here, stream: u64, held: Option<Box<Held>>, code: i32) {
    if let Some(held) = held.filter(|_| code == 0) {
        held.watch(place, stream);
    }
}

unsafe extern "C" fn run(context: Context, args: *const ProgramRunArgs) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.program.ok_or_else(absent)?;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            let (ticket, mut held) = layer.submission(|state| match given("run", args) {
                Ok(args) => match optional(args.tag) {
                    Ok(_) => state.run(args),
                    Err(error) => (None, Err(pointer("run", &error))),
                },
                Err(report) => (None, Err(report)),
            })?;
            let Some(all) = args.as_ref().filter(|all| {
                // What is below refuses a number of outputs that the program does not have.
                writable(all.outputs).is_ok() && all.output_count > 0 && all.output_count <= 1 << 24
            }) else {
                let code = (table.run)(context, args);
                if let Ok(all) = given("run", args) {
                    layer.judge_outputs(all, ticket, &[], code)?;
                    watch(place, all.stream, held.take(), code);
                }
                return layer.judge(place, "run", code);
            };
            let (mut few, mut many) = ([UNWRITTEN; FEW], Vec::new());
            let made = match all.output_count {
                count if count <= FEW => &mut few[..count],
                count => {
                    many.resize(count, UNWRITTEN);
                    &mut many[..]
                }
            };
            let own = ProgramRunArgs {
                outputs: made.as_mut_ptr(),
                ..*all
            };
            let code = (table.run)(context, &raw const own);
            layer.judge_outputs(all, ticket, made, code)?;
            layer.judge(place, "run", code)?;
            watch(place, all.stream, held.take(), code);
            for (at, &handle) in made.iter().enumerate() {
                all.outputs.add(at).write(handle);
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn destroy(context: Context, program: u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.program.ok_or_else(absent)?;
        let mut known = None;
        layer.check(
            |state| match state.programs.remove(program, |program| program.site) {
                Ok(object) => {
                    known = Some(object);
                    Ok(())
                }
                Err(missing) => Err(state.not_ended("destroy program", Kind::Program, program, missing)),
            },
        )?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (table.destroy)(context, program) };
        if code != 0
            && let Some(object) = known
        {
            layer.state.lock().programs.insert(program, object);
        }
        layer.judge(place, "destroy program", code)
    })
}
