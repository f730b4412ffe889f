//! Programs: calls of the table `program` that fail.

use super::calls::{Fate, absent, arg, forget, op, own, submission};
use super::{Fault, Kind, Object, Program, State, injected};
use crate::layer::{Place, below, enter};
use thalweg_hal::Status;
use thalweg_hal::tables::*;

pub(super) unsafe extern "C" fn create(context: Context, args: *const ProgramArgs, out: *mut u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        // SAFETY: the contract of the tables.
        if let Some(args) = unsafe { arg(args) } {
            let mut state = place.layer.state.lock();
            state.works(args.device)?;
            if let Some(number) = state.rules.strikes(Kind::Compile) {
                return Err(injected(Status::CompileFailed, "program", Kind::Compile, number).into());
            }
        }
        let table = place.next.program.ok_or_else(absent)?;
        // SAFETY: the arguments are handed on as they came; what is below has read them when it succeeds.
        unsafe {
            below((table.create)(context, args, out))?;
            own(place, Object::Program, (*args).device, out);
            let list = |first: *const u64, count: usize| match count {
                0 => &[],
                count => std::slice::from_raw_parts(first, count),
            };
            let (outputs, scratch) = (
                list((*args).outputs, (*args).output_count),
                list((*args).scratch, (*args).scratch_count),
            );
            let packets = match (*args).packet_count {
                0 => &[],
                count => std::slice::from_raw_parts((*args).packets, count),
            };
            let program = Program {
                makes: outputs.iter().chain(scratch).max().copied(),
                op: packets.first().map_or("", |packet| op(packet.tag)).to_owned(),
            };
            place.layer.state.lock().programs.insert(out.read(), program);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn run(context: Context, args: *const ProgramRunArgs) -> i32 {
    enter(context, |place: &'static Place<Fault>| {
        let mut fate = Fate::Goes;
        // SAFETY: the contract of the tables.
        if let Some(args) = unsafe { arg(args) } {
            let known = |state: &State| {
                let program = state.programs.get(&args.program)?;
                Some((program.op.clone(), program.makes))
            };
            let (first, makes) = known(&place.layer.state.lock()).unwrap_or_default();
            // SAFETY: as above.
            let op = match unsafe { op(args.tag) } {
                "" => first.as_str(),
                op => op,
            };
            fate = submission(place, args.stream, op)?;
            if let Some(bytes) = makes
                && let Some(number) = place.layer.state.lock().rules.strikes(Kind::Alloc)
            {
                if !args.missing.is_null() {
                    // SAFETY: null or valid for writing by the contract.
                    unsafe { args.missing.write(bytes) };
                }
                return Err(injected(Status::OutOfMemory, op, Kind::Alloc, number).into());
            }
        }
        let table = place.next.program.ok_or_else(absent)?;
        // SAFETY: the arguments are handed on as they came; what is below has read them when it succeeds.
        unsafe {
            below((table.run)(context, args))?;
            fate.befall(place, (*args).stream);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn destroy(context: Context, program: u64) -> i32 {
    enter(context, |place: &Place<Fault>| {
        forget(place, Object::Program, program);
        let table = place.next.program.ok_or_else(absent)?;
        // SAFETY: the arguments are handed on as they came.
        below(unsafe { (table.destroy)(context, program) })
    })
}
