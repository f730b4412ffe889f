//! Launches that do not fit their kernel.

use super::kernels::{sample, table};
use super::refused;
use crate::kit::{Case, Check, Stop};
use crate::rig::run::{Argument, Job};
use crate::rig::{Device, Subject};
use crate::{check, check_eq};
use std::ptr::null;
use thalweg_hal::Status;
use thalweg_hal::tables::{Binding, Launch};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("errors", name, run);
    vec![
        case("launch_counts", counts),
        case("launch_strides", strides),
        case("launch_bounds", bounds),
        case("launch_extents", extents),
        case("launch_overlap", overlap),
        case("launch_on_another_device", other_device),
        case("launch_of_a_released_kernel", released),
    ]
}

struct Ready {
    device: Device,
    job: Job,
    kernel: u64,
    stream: u64,
    buffers: [u64; 2],
}

/// The sample, ready to be launched over 10 elements of buffers of 40 bytes.
fn ready(subject: &Subject) -> Result<Ready, Stop> {
    let device = Device::open(subject)?;
    let kernel = device.compile(&sample())?;
    let job = Job {
        kernel: sample(),
        extents: vec![10],
        arguments: vec![
            Argument {
                strides: vec![1],
                ..Argument::default()
            },
            Argument::default(),
        ],
        scalars: vec![u64::from(1_f32.to_bits())],
    };
    let buffers = [device.upload(&[0; 40])?, device.upload(&[7; 40])?];
    Ok(Ready {
        kernel,
        job,
        stream: device.stream()?,
        device,
        buffers,
    })
}

impl Ready {
    fn expect(
        &self,
        change: impl FnOnce(&mut Launch, &mut [Binding]),
        expected: &[Status],
        what: &str,
    ) -> Check {
        let mut bindings = self.job.bindings(&self.buffers);
        let mut launch = self.job.launch(self.kernel, &bindings);
        change(&mut launch, &mut bindings);
        launch.bindings = if launch.bindings.is_null() {
            null()
        } else {
            bindings.as_ptr()
        };
        match self.device.launch(self.stream, &launch, "sample") {
            Ok(()) => check!(expected.is_empty(), "{what} is accepted"),
            Err(error) => {
                check!(
                    expected.contains(&error.status),
                    "{what}: {} ({error})",
                    error.status
                );
                check!(!error.message.is_empty(), "{what}: no text");
            }
        }
        self.device.join(self.stream)?;
        Ok(())
    }

    fn untouched(&self) -> Check {
        let found = self.device.download(self.stream, self.buffers[1], 40)?;
        check_eq!(found, vec![7; 40], "the output of launches that were refused");
        Ok(())
    }
}

const INVALID: &[Status] = &[Status::InvalidArgument];

fn counts(subject: &Subject) -> Check {
    let ready = ready(subject)?;
    ready.expect(|l, _| l.extent_count = 0, INVALID, "no extents")?;
    ready.expect(|l, _| l.extent_count = 2, INVALID, "an extent too many")?;
    ready.expect(|l, _| l.extent_count = usize::MAX, INVALID, "usize::MAX extents")?;
    ready.expect(|l, _| l.extents = null(), INVALID, "null extents")?;
    let odd = [0_u64; 4].as_ptr().cast::<u8>().wrapping_add(1);
    ready.expect(|l, _| l.extents = odd.cast(), INVALID, "misaligned extents")?;
    ready.expect(|l, _| l.scalars = odd.cast(), INVALID, "misaligned scalars")?;
    ready.expect(|_, b| b[0].strides = odd.cast(), INVALID, "misaligned strides")?;
    ready.expect(|l, _| l.binding_count = 1, INVALID, "a binding too few")?;
    ready.expect(|l, _| l.binding_count = 3, INVALID, "a binding too many")?;
    ready.expect(
        |l, _| l.binding_count = usize::MAX,
        INVALID,
        "usize::MAX bindings",
    )?;
    ready.expect(|l, _| l.bindings = null(), INVALID, "null bindings")?;
    ready.expect(|l, _| l.scalar_count = 0, INVALID, "a scalar too few")?;
    ready.expect(|l, _| l.scalar_count = 2, INVALID, "a scalar too many")?;
    ready.expect(|l, _| l.scalars = null(), INVALID, "null scalars")?;
    ready.untouched()?;
    ready.expect(|_, _| {}, &[], "the launch itself")
}

fn strides(subject: &Subject) -> Check {
    let ready = ready(subject)?;
    let ones = [1_i64];
    ready.expect(
        |_, b| b[0].strides = null(),
        INVALID,
        "a strided parameter without strides",
    )?;
    ready.expect(
        |_, b| b[1].strides = ones.as_ptr(),
        INVALID,
        "a contiguous parameter with strides",
    )?;
    ready.expect(
        |_, b| b[0].offset = 2,
        INVALID,
        "an offset in the middle of an element",
    )?;
    ready.expect(
        |_, b| b[1].offset = 1,
        INVALID,
        "an output's offset in the middle of an element",
    )?;
    ready.untouched()
}

fn bounds(subject: &Subject) -> Check {
    let ready = ready(subject)?;
    let out = &[Status::OutOfBounds];
    let [long, back, far, low] = [[2_i64], [-1], [i64::MAX], [i64::MIN]];
    ready.expect(
        |_, b| b[0].strides = long.as_ptr(),
        out,
        "a stride that leads beyond the end",
    )?;
    ready.expect(
        |_, b| b[0].strides = back.as_ptr(),
        out,
        "a stride that leads before the start",
    )?;
    ready.expect(|_, b| b[0].strides = far.as_ptr(), out, "the largest stride")?;
    ready.expect(|_, b| b[0].strides = low.as_ptr(), out, "the least stride")?;
    ready.expect(|_, b| b[0].offset = 4, out, "an offset of one element")?;
    ready.expect(|_, b| b[0].offset = u64::MAX - 3, out, "the largest offset")?;
    ready.expect(|_, b| b[1].offset = 4, out, "an output's offset of one element")?;
    let eleven = [11_u64];
    ready.expect(|l, _| l.extents = eleven.as_ptr(), out, "an element too many")?;
    ready.untouched()?;
    let end = Binding {
        offset: 36,
        strides: back.as_ptr(),
        ..ready.job.bindings(&ready.buffers)[0]
    };
    ready.expect(
        |_, b| b[0] = end,
        &[],
        "an input read backwards from its last element",
    )
}

fn extents(subject: &Subject) -> Check {
    let ready = ready(subject)?;
    let wrong = &[Status::InvalidArgument, Status::OutOfBounds];
    for extent in [1 << 40, 1 << 62, 1 << 63, u64::MAX] {
        let extents = [extent];
        ready.expect(
            |l, _| l.extents = extents.as_ptr(),
            wrong,
            &format!("an extent of {extent}"),
        )?;
    }
    let none = [0_u64];
    ready.expect(|l, _| l.extents = none.as_ptr(), &[], "an extent of 0")?;
    ready.untouched()
}

fn overlap(subject: &Subject) -> Check {
    let ready = ready(subject)?;
    let device = &ready.device;
    let shared = device.alloc(400)?;
    let place = |bindings: &mut [Binding], input: u64, output: u64| {
        bindings[0].buffer = shared;
        bindings[1].buffer = shared;
        (bindings[0].offset, bindings[1].offset) = (input, output);
    };
    let clash = &[Status::Overlap];
    ready.expect(
        |_, b| place(b, 0, 4),
        clash,
        "an output one element after its input",
    )?;
    ready.expect(
        |_, b| place(b, 36, 0),
        clash,
        "an output that ends where its input begins",
    )?;
    let two = [2_i64];
    ready.expect(
        |_, b| {
            place(b, 0, 0);
            b[0].strides = two.as_ptr();
        },
        clash,
        "an output at its input's place with other strides",
    )?;
    ready.expect(
        |_, b| place(b, 0, 0),
        &[],
        "an output at exactly its input's place",
    )?;
    ready.expect(|_, b| place(b, 0, 40), &[], "an output right after its input")?;
    ready.expect(|_, b| place(b, 40, 0), &[], "an output right before its input")
}

fn other_device(subject: &Subject) -> Check {
    let (ready, other) = (ready(subject)?, Device::open(subject)?);
    let stale = &[Status::InvalidHandle];
    let foreign = other.alloc(40)?;
    ready.expect(|_, b| b[0].buffer = foreign, stale, "an input on another device")?;
    ready.expect(|_, b| b[1].buffer = foreign, stale, "an output on another device")?;
    let kernel = other.compile(&sample())?;
    ready.expect(|l, _| l.kernel = kernel, stale, "a kernel of another device")?;
    ready.untouched()
}

fn released(subject: &Subject) -> Check {
    let ready = ready(subject)?;
    let (raw, table) = (ready.device.raw(), table(&ready.device)?);
    // SAFETY: plain call.
    raw.status(unsafe { (table.release)(raw.context, ready.kernel) })?;
    ready.expect(|_, _| {}, &[Status::InvalidHandle], "a kernel that was released")?;
    ready.untouched()?;
    // SAFETY: plain call.
    let again = unsafe { (table.release)(raw.context, ready.kernel) };
    refused(raw, again, &[Status::InvalidHandle], "a second release")
}
