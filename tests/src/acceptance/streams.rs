//! Stream scopes and events.

use super::{Outcome, binary, equal, expect};
use std::panic::{AssertUnwindSafe, catch_unwind};
use thalweg::hal::ir::ScalarOp;
use thalweg::hal::{Backend, DeviceOptions, Event, Launch, Stream, stream_scope};

/// Stream scopes: none changes nothing, nested ones end in order, also by a panic.
///
/// # Errors
/// What differs.
pub fn a18(backend: &Backend) -> Outcome {
    let device = backend.open(&DeviceOptions::new(0))?;
    let default = device.default_stream()?;
    let (outer, inner) = (Stream::new(&device)?, Stream::new(&device)?);
    let none = stream_scope(None);
    equal(
        "current stream in a scope of none",
        device.current_stream()?,
        default.clone(),
    )?;
    drop(none);
    {
        let _outer = outer.enter();
        {
            let _inner = inner.enter();
            equal(
                "current stream in the inner scope",
                device.current_stream()?,
                inner.clone(),
            )?;
            let _none = stream_scope(None);
            equal(
                "current stream in none in the inner scope",
                device.current_stream()?,
                inner.clone(),
            )?;
        }
        equal(
            "current stream after the inner scope",
            device.current_stream()?,
            outer.clone(),
        )?;
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _inner = inner.enter();
            // Past the panic hook: this panic is not news.
            std::panic::resume_unwind(Box::new("inside a scope"));
        }));
        expect(panicked.is_err(), || "the panic was lost".into())?;
        equal(
            "current stream after a panic in the inner scope",
            device.current_stream()?,
            outer.clone(),
        )?;
    }
    equal(
        "current stream after all scopes",
        device.current_stream()?,
        default,
    )
}

/// `b = a·a` on one stream, an event, and `c = b·b` on another that waits for it, `times` times in a row.
///
/// # Errors
/// The first time that `c` is wrong.
pub fn a20(backend: &Backend, times: u32) -> Outcome {
    const LEN: u64 = 2048;
    let device = backend.open(&DeviceOptions::new(0).block_size(1 << 20))?;
    let (s1, s2) = (Stream::new(&device)?, Stream::new(&device)?);
    let mul = binary(&device, "mul", ScalarOp::Mul)?;
    let (a, b, c) = (
        device.alloc(4 * LEN)?,
        device.alloc(4 * LEN)?,
        device.alloc(4 * LEN)?,
    );
    let (ready, used) = (Event::new(&device)?, Event::new(&device)?);
    for time in 0..times {
        let value = (time % 13) as f32;
        s1.wait_event(&used)?;
        a.fill(&s1, value)?;
        s1.launch(&Launch::new(&mul, &[LEN], &[a.arg(), a.arg(), b.arg()]))?;
        s1.record_event(&ready)?;
        s2.wait_event(&ready)?;
        s2.launch(&Launch::new(&mul, &[LEN], &[b.arg(), b.arg(), c.arg()]))?;
        s2.record_event(&used)?;
        let expected = value.powi(4);
        let found = c.download::<f32>(&s2)?;
        expect(found.iter().all(|&x| x == expected), || {
            let wrong = found.iter().find(|&&x| x != expected);
            format!("time {time}: c holds {wrong:?}, expected {expected}")
        })?;
    }
    s1.synchronize()?;
    s2.synchronize()?;
    equal(
        "query after synchronize",
        (s1.query()?, s2.query()?),
        (true, true),
    )
}
