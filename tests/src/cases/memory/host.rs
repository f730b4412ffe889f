//! Memory that host and device share: mapped buffers and imported memory.

use crate::kit::{Case, Check};
use crate::rig::device::{at, copy, host};
use crate::rig::{Device, Gate, NOBODY, Subject};
use crate::{check, check_eq};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_hal::tables::{Capability, ImportArgs};
use thalweg_hal::{Result, Status};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("memory", name, run);
    vec![
        case("map_is_coherent", map_is_coherent),
        case("map_is_aligned", map_is_aligned),
        case("map_is_stable", map_is_stable),
        case("map_without_the_capability", map_without),
        case("import_is_shared", import_is_shared),
        case("import_is_released_once", import_released_once),
        case("import_is_kept_while_used", import_kept),
        case("import_is_released_by_close", import_closed),
        case("import_without_release", import_without_release),
        case("import_refused", import_refused),
        case("import_without_the_capability", import_without),
    ]
}

fn map_is_coherent(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    device.need(Capability::Map)?;
    let (stream, buffer) = (device.stream()?, device.alloc(1000)?);
    let address = device.map(buffer)?;
    device.fill_byte(stream, buffer, 1000, 0x21)?;
    device.join(stream)?;
    // SAFETY: the buffer is mapped, alive, of 1000 bytes, and its stream is idle.
    let view = unsafe { std::slice::from_raw_parts_mut(address, 1000) };
    check!(
        view.iter().all(|&b| b == 0x21),
        "the host does not see what the device wrote"
    );
    view.fill(0x43);
    check_eq!(
        device.download(stream, buffer, 1000)?,
        vec![0x43; 1000],
        "what the host wrote, as the device sees it"
    );
    Ok(())
}

fn map_is_aligned(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    device.need(Capability::Map)?;
    let alignment = device.properties().alignment as usize;
    for bytes in [1, 8, 100, 513, 5000, 70_000] {
        let address = device.map(device.alloc(bytes)?)? as usize;
        check!(
            address.is_multiple_of(alignment),
            "{bytes} bytes lie at {address:#x}, not aligned to {alignment}"
        );
    }
    Ok(())
}

fn map_is_stable(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    device.need(Capability::Map)?;
    let buffer = device.alloc(100)?;
    let address = device.map(buffer)?;
    for _ in 0..100 {
        let other = device.alloc(1 << 18)?;
        check!(device.map(other)? != address, "two buffers lie at one address");
    }
    device.trim()?;
    check_eq!(
        device.map(buffer)?,
        address,
        "address of a buffer, asked for again"
    );
    Ok(())
}

fn map_without(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let result = device.map(device.alloc(100)?);
    match result {
        Ok(_) => check!(
            device.has(Capability::Map),
            "a buffer can be mapped and the capability says no"
        ),
        Err(error) => {
            check!(
                !device.has(Capability::Map),
                "a buffer cannot be mapped and the capability says yes: {error}"
            );
            check_eq!(
                error.status,
                Status::Unsupported,
                "status of map without the capability"
            );
        }
    }
    Ok(())
}

/// A counter for `release`, kept for ever: a backend may call it too late.
fn counter() -> &'static AtomicU32 {
    Box::leak(Box::new(AtomicU32::new(0)))
}

unsafe extern "C" fn release(data: *mut c_void) {
    // SAFETY: the cases pass one of the counters.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
}

/// Imports `memory`; with a counter, that many times `release` was called is added to it.
fn import(device: &Device, memory: &mut [u8], counter: Option<&'static AtomicU32>) -> Result<u64> {
    let raw = device.raw();
    let args = ImportArgs {
        device: device.handle(),
        ptr: memory.as_mut_ptr().cast(),
        bytes: memory.len() as u64,
        release: counter.map(|_| release as unsafe extern "C" fn(*mut c_void)),
        data: counter.map_or(std::ptr::null_mut(), |counter| {
            std::ptr::from_ref(counter).cast_mut().cast()
        }),
    };
    // SAFETY: the arguments live through the call, and each case keeps the memory until the device is closed.
    raw.out(0, |out| unsafe {
        (raw.tables.memory.import)(raw.context, &raw const args, out)
    })
}

/// Memory aligned as devices like it best; cases keep it until after the device.
fn memory(value: u8) -> Vec<u8> {
    vec![value; 8192]
}

fn import_is_shared(subject: &Subject) -> Check {
    let mut lent = memory(1);
    let device = Device::open(subject)?;
    device.need(Capability::Import)?;
    let stream = device.stream()?;
    // An odd address and length: 1 byte of alignment must do.
    let buffer = import(&device, &mut lent[3..5000], None)?;
    check_eq!(device.size(buffer)?, 4997, "size of imported memory");
    let before = device.statistics()?;
    check_eq!(
        before.allocated,
        0,
        "imported memory is not the pool's; allocated"
    );
    device.fill_byte(stream, buffer, 4000, 9)?;
    let mut back = vec![0_u8; 4997];
    device.copy(stream, &copy(host(back.as_mut_ptr()), at(buffer, 0), 4997))?;
    device.join(stream)?;
    device.free(buffer)?;
    device.synchronize()?;
    drop(device);
    check!(
        lent[..3].iter().all(|&b| b == 1) && lent[4003..].iter().all(|&b| b == 1),
        "bytes beside a fill changed"
    );
    check!(
        lent[3..4003].iter().all(|&b| b == 9),
        "the host does not see what the device wrote"
    );
    check!(
        back == lent[3..5000],
        "the device does not see what the host holds"
    );
    Ok(())
}

fn import_released_once(subject: &Subject) -> Check {
    let mut lent = memory(1);
    let device = Device::open(subject)?;
    device.need(Capability::Import)?;
    let released = counter();
    let buffer = import(&device, &mut lent, Some(released))?;
    let stream = device.stream()?;
    device.fill_byte(stream, buffer, 100, 2)?;
    device.join(stream)?;
    check_eq!(released.load(Ordering::SeqCst), 0, "calls of release before free");
    device.free(buffer)?;
    device.synchronize()?;
    check_eq!(
        released.load(Ordering::SeqCst),
        1,
        "calls of release after free and synchronize"
    );
    check!(device.free(buffer).is_err(), "a second free is accepted");
    drop(device);
    check_eq!(released.load(Ordering::SeqCst), 1, "calls of release after close");
    Ok(())
}

fn import_kept(subject: &Subject) -> Check {
    let mut lent = memory(1);
    let device = Device::open(subject)?;
    device.need(Capability::Import)?;
    let released = counter();
    let buffer = import(&device, &mut lent, Some(released))?;
    let stream = device.stream()?;
    let gate = Gate::new(&device, stream)?;
    device.fill_byte(stream, buffer, 8192, 7)?;
    device.free(buffer)?;
    device.trim()?;
    std::thread::sleep(std::time::Duration::from_millis(5));
    check_eq!(
        released.load(Ordering::SeqCst),
        0,
        "calls of release while a stream still uses the memory"
    );
    gate.open();
    device.synchronize()?;
    check_eq!(
        released.load(Ordering::SeqCst),
        1,
        "calls of release after the stream's work"
    );
    drop(gate);
    drop(device);
    check!(
        lent.iter().all(|&b| b == 7),
        "work with a buffer that was freed later has not run"
    );
    Ok(())
}

fn import_closed(subject: &Subject) -> Check {
    let mut lent = memory(1);
    let device = Device::open(subject)?;
    device.need(Capability::Import)?;
    let released = counter();
    import(&device, &mut lent, Some(released))?;
    drop(device);
    check_eq!(
        released.load(Ordering::SeqCst),
        1,
        "calls of release after close without free"
    );
    Ok(())
}

fn import_without_release(subject: &Subject) -> Check {
    let mut lent = memory(1);
    let device = Device::open(subject)?;
    device.need(Capability::Import)?;
    let buffer = import(&device, &mut lent, None)?;
    device.free(buffer)?;
    device.synchronize()?;
    Ok(())
}

fn import_refused(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    device.need(Capability::Import)?;
    let raw = device.raw();
    let released = counter();
    let mut byte = 0_u8;
    let args = ImportArgs {
        device: device.handle(),
        ptr: (&raw mut byte).cast(),
        bytes: 1,
        release: Some(release),
        data: std::ptr::from_ref(released).cast_mut().cast(),
    };
    let bad = [
        (
            "null memory",
            ImportArgs {
                ptr: std::ptr::null_mut(),
                ..args
            },
            Status::InvalidArgument,
        ),
        (
            "more than the address space",
            ImportArgs {
                bytes: u64::MAX,
                ..args
            },
            Status::InvalidArgument,
        ),
        (
            "a stale device",
            ImportArgs {
                device: NOBODY,
                ..args
            },
            Status::InvalidHandle,
        ),
    ];
    for (what, args, expected) in bad {
        // SAFETY: the backend must refuse before it touches the memory.
        let result = raw.out(0_u64, |out| unsafe {
            (raw.tables.memory.import)(raw.context, &raw const args, out)
        });
        check_eq!(
            result.map_err(|error| error.status),
            Err(expected),
            "import of {what}"
        );
    }
    drop(device);
    check_eq!(
        released.load(Ordering::SeqCst),
        0,
        "calls of release for imports that were refused"
    );
    Ok(())
}

fn import_without(subject: &Subject) -> Check {
    let mut lent = memory(1);
    let device = Device::open(subject)?;
    match import(&device, &mut lent, None) {
        Ok(_) => check!(
            device.has(Capability::Import),
            "memory can be imported and the capability says no"
        ),
        Err(error) => {
            check!(
                !device.has(Capability::Import),
                "memory cannot be imported and the capability says yes: {error}"
            );
            check_eq!(
                error.status,
                Status::Unsupported,
                "status of import without the capability"
            );
        }
    }
    Ok(())
}
