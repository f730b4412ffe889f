//! The kernel table.

use super::objects::{Instance, Kernel, Owner, full, stale};
use super::{arg, enter, put, writable};
use crate::backend::{Backend, Device};
use crate::kit::source::Decoded;
use crate::status::{Error, Result};
use crate::tables::{CompileArgs, Context, InspectArgs, KernelPart, KernelTable};
use std::sync::Arc;

pub(super) const fn table<B: Backend>() -> KernelTable {
    KernelTable {
        supports: supports::<B>,
        compile: compile::<B>,
        release: release::<B>,
        inspect: inspect::<B>,
    }
}

fn insert<B: Backend>(
    instance: &Instance<B>,
    owner: Owner<B::Device>,
    kernel: <B::Device as Device>::Kernel,
    decoded: &Decoded,
) -> Result<u64> {
    let signature = Arc::new(decoded.signature()?);
    let entry = Kernel {
        owner,
        kernel: Arc::new(kernel),
        signature,
    };
    instance.kernels.insert(entry).ok_or_else(|| full("kernel"))
}

unsafe extern "C" fn supports<B: Backend>(context: Context, args: *const CompileArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            let open = instance.device(args.device)?;
            open.device.supports(&Decoded::new(&args.source)?.source())
        })
    }
}

unsafe extern "C" fn compile<B: Backend>(context: Context, args: *const CompileArgs, out: *mut u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(out)?;
            let open = instance.device(args.device)?;
            let decoded = Decoded::new(&args.source)?;
            let kernel = open.device.compile(&decoded.source(), args.options.get()?)?;
            put(out, insert(instance, Owner::new(open), kernel, &decoded)?)
        })
    }
}

unsafe extern "C" fn release<B: Backend>(context: Context, kernel: u64) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            instance
                .kernels
                .remove(kernel)
                .map(drop)
                .ok_or_else(|| stale("kernel", kernel))
        })
    }
}

unsafe extern "C" fn inspect<B: Backend>(context: Context, args: *const InspectArgs) -> i32 {
    // SAFETY: the contract of the tables.
    unsafe {
        enter::<B>(context, |instance| {
            let args = arg(args)?;
            writable(args.len)?;
            writable(args.programs)?;
            let part = KernelPart::from_code(args.part)
                .ok_or_else(|| Error::invalid_argument(format!("a kernel has no part {}", args.part)))?;
            let kernel = instance.kernel(args.kernel)?;
            let device = &kernel.owner.get().device;
            let programs = device.programs(&kernel.kernel);
            let bytes = match args.program as usize {
                program if program < programs => device.inspect(&kernel.kernel, program, part)?,
                _ => Vec::new(),
            };
            put(args.programs, programs)?;
            put(args.len, bytes.len())?;
            if !args.buffer.is_null() {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), args.buffer, bytes.len().min(args.capacity));
            }
            Ok(())
        })
    }
}
