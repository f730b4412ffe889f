//! Kernels.

use super::{Here, absent, given};
use crate::forward;
use crate::layer::{Answer, Stop, enter};
use crate::validate::Validate;
use crate::validate::code::Code;
use crate::validate::report::Report;
use crate::validate::shadow::{Kernel, Kind, State};
use std::sync::Arc;
use thalweg_hal::kit::args::arg;
use thalweg_hal::kit::source::Decoded;
use thalweg_hal::tables::{BinaryArgs, CompileArgs, Context, InspectArgs, KernelTable, Source};

pub(super) const TABLE: KernelTable = KernelTable {
    compile,
    release,
    export_binary,
    load_binary,
    inspect,
    ..forward::kernel::table::<Validate>()
};

/// Notes a kernel that was made from a source.
///
/// # Safety
/// The pointers of the source are null or valid, `out` is valid.
unsafe fn made(
    place: Here,
    what: &str,
    (device, source): (u64, &Source),
    handle: u64,
    out: *mut u64,
) -> Answer {
    // SAFETY: the caller vouches for the pointers.
    let read = unsafe { Decoded::new(source) };
    // A later version may know more forms than this one.
    let signature = read.and_then(|decoded| decoded.signature()).ok().map(Arc::new);
    place.layer.check(|state| {
        let new = state.kernels.insert(handle, Kernel { device, signature });
        State::once(what, Kind::Kernel, handle, new)
    })?;
    // SAFETY: as above.
    unsafe { out.write(handle) };
    Ok(())
}

unsafe extern "C" fn compile(context: Context, args: *const CompileArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.kernel.ok_or_else(absent)?;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| state.device("compile", given("compile", args)?.device))?;
            let handle = layer.number(place, "compile", out, |out| (table.compile)(context, args, out))?;
            match arg(args) {
                Ok(args) => made(place, "compile", (args.device, &args.source), handle, out),
                Err(error) => Err(Stop::Own(error)),
            }
        }
    })
}

unsafe extern "C" fn load_binary(context: Context, args: *const BinaryArgs, out: *mut u64) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.kernel.ok_or_else(absent)?;
        // SAFETY: the contract of the tables; the arguments are handed on as they came.
        unsafe {
            layer.check(|state| state.device("load binary", given("load binary", args)?.device))?;
            let below = |out| (table.load_binary)(context, args, out);
            let handle = layer.number(place, "load binary", out, below)?;
            match arg(args) {
                Ok(args) => made(place, "load binary", (args.device, &args.source), handle, out),
                Err(error) => Err(Stop::Own(error)),
            }
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

/// Most bytes that a compiled kernel can have.
const MOST: usize = 1 << 40;

unsafe extern "C" fn export_binary(
    context: Context,
    kernel: u64,
    buffer: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> i32 {
    enter(context, |place: Here| {
        let layer = &place.layer;
        let table = place.next.kernel.ok_or_else(absent)?;
        layer.check(|state| match state.kernels.find(kernel) {
            Ok(_) => Ok(()),
            Err(missing) => Err(state.missing("export binary", Kind::Kernel, kernel, missing)),
        })?;
        // SAFETY: the arguments are handed on as they came.
        let code = unsafe { (table.export_binary)(context, kernel, buffer, capacity, len) };
        layer.judge(place, "export binary", code)?;
        // SAFETY: what is below has succeeded, so it has written there.
        plausible(place, "export binary", unsafe { len.read() })
    })
}

/// Whether a length can be that of something compiled.
fn plausible(place: Here, what: &str, length: usize) -> Answer {
    if length > MOST {
        let text = format!("{what}: the backend says that a kernel has {length} bytes; write its length");
        place.layer.found(Report::plugin(Code::WrongSize, text))?;
    }
    Ok(())
}

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
            plausible(place, "inspect", arg(args)?.len.read())
        }
    })
}
