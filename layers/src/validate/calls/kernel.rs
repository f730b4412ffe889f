//! Kernels.

use super::{Here, absent, given};
use crate::forward;
use crate::layer::{Stop, enter};
use crate::validate::Validate;
use crate::validate::code::Code;
use crate::validate::report::Report;
use crate::validate::shadow::{Kernel, Kind, State};
use std::sync::Arc;
use thalweg_hal::kit::args::arg;
use thalweg_hal::kit::source::Decoded;
use thalweg_hal::tables::{CompileArgs, Context, InspectArgs, KernelTable};

pub(super) const TABLE: KernelTable = KernelTable {
    compile,
    release,
    inspect,
    ..forward::kernel::table::<Validate>()
};

unsafe extern "C" fn compile(context: Context, args: *const CompileArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.kernel.ok_or_else(absent)?;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| state.device("compile", given("compile", args)?.device))?;
            let handle = layer.number(place, "compile", out, |out| (table.compile)(context, args, out))?;
            let args = arg(args).map_err(Stop::Own)?;
            // A later version may know more forms than this one.
            let read = Decoded::new(&args.source).and_then(|decoded| decoded.signature());
            let (device, signature) = (args.device, read.ok().map(Arc::new));
            layer.check(|state| {
                let new = state.kernels.insert(handle, Kernel { device, signature });
                State::once("compile", Kind::Kernel, handle, new)
            })?;
            out.write(handle);
            Ok(())
        }
    })
}

unsafe extern "C" fn release(context: Context, kernel: u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.kernel.ok_or_else(absent)?;
        let mut known = None;
        layer.check(|state| match state.kernels.remove(kernel, |_| 0) {
            Ok(object) => {
                known = Some(object);
                Ok(())
            }
            Err(missing) => Err(state.not_ended("release", Kind::Kernel, kernel, missing)),
        })?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (table.release)(context, kernel) };
        if code != 0
            && let Some(object) = known
        {
            layer.state.lock().kernels.insert(kernel, object);
        }
        layer.judge(place, "release", code)
    })
}

/// Most bytes that a part of a kernel can have.
const MOST: usize = 1 << 40;

unsafe extern "C" fn inspect(context: Context, args: *const InspectArgs) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.kernel.ok_or_else(absent)?;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| {
                let kernel = given("inspect", args)?.kernel;
                match state.kernels.find(kernel) {
                    Ok(_) => Ok(()),
                    Err(missing) => Err(state.missing("inspect", Kind::Kernel, kernel, missing)),
                }
            })?;
            let code = (table.inspect)(context, args);
            layer.judge(place, "inspect", code)?;
            // What is below has succeeded, so it has written there.
            let length = arg(args)?.len.read();
            if length > MOST {
                let text =
                    format!("inspect: the backend says that a part has {length} bytes; write its length");
                layer.found(Report::plugin(Code::WrongSize, text))?;
            }
            Ok(())
        }
    })
}
