//! Who a backend is, which tables it has, and what it does about hosts it does not fit.

use crate::kit::{Case, Check, Stop};
use crate::rig::{Device, NOBODY, Raw, Subject};
use crate::{check, check_eq};
use thalweg::host::host_api;
use thalweg_hal::Status;
use thalweg_hal::tables::{
    ABI_MAJOR, ABI_VERSION, BackendApi, Capability, DeviceOptions, Entry, Kind, PropertyKey, TableId,
};

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Subject) -> Check| Case::new("core", name, run);
    vec![
        case("info", info),
        case("tables", tables),
        case("unknown_tables", unknown_tables),
        case("devices", devices),
        case("device_beyond_the_last", device_beyond_the_last),
        case("device_numbers", device_numbers),
        case("device_status", device_status),
        case("wrong_major", wrong_major),
        case("later_minor", later_minor),
        case("null_host", null_host),
        case("null_out", null_out),
        case("shutdown", shutdown),
        case("error_text_is_cut", error_text_is_cut),
        case("error_text_by_thread", error_text_by_thread),
    ]
}

fn info(subject: &Subject) -> Check {
    let info = subject.raw().info()?;
    let parts: [(&str, &[u8], bool); 3] = [
        ("name", &info.name, true),
        ("version", &info.version, true),
        ("driver", &info.driver, false),
    ];
    for (what, bytes, required) in parts {
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        check!(
            std::str::from_utf8(&bytes[..end]).is_ok(),
            "the {what} is not UTF-8"
        );
        check!(
            bytes[end..].iter().all(|&b| b == 0),
            "the {what} is not padded with zeros"
        );
        check!(end > 0 || !required, "the {what} is empty");
    }
    Ok(())
}

fn tables(subject: &Subject) -> Check {
    let api = subject.api();
    check_eq!(api.abi >> 16, u32::from(ABI_MAJOR), "major version in BackendApi");
    check_eq!(api.reserved, 0, "the reserved field of BackendApi");
    for &id in TableId::ALL {
        // SAFETY: the subject's own function with its own context.
        let ask = || unsafe { (api.query_interface)(api.context, id as u32, 1) };
        let table = ask();
        check!(
            !(id.required() && table.is_null()),
            "the table `{}` is missing",
            id.name()
        );
        check_eq!(ask(), table, "the table `{}`, asked for again", id.name());
        check!(
            table.cast::<usize>().is_aligned(),
            "the table `{}` is not aligned",
            id.name()
        );
    }
    Ok(())
}

fn unknown_tables(subject: &Subject) -> Check {
    let api = subject.api();
    let known = TableId::ALL.iter().map(|&id| id as u32);
    let versions = known.flat_map(|id| [0, 2, 3, u32::MAX].map(|version| (id, version)));
    let ids = [0, 99, 1 << 16, u32::MAX].map(|id| (id, 1));
    for (id, version) in versions.chain(ids) {
        // A later minor version may know more.
        if api.abi == ABI_VERSION || version == 0 || id == 0 {
            // SAFETY: the subject's own function with its own context.
            let table = unsafe { (api.query_interface)(api.context, id, version) };
            check!(table.is_null(), "table {id} in version {version} is not null");
        }
    }
    Ok(())
}

fn devices(subject: &Subject) -> Check {
    let raw = subject.raw();
    let count = raw.device_count()?;
    check_eq!(raw.device_count()?, count, "device_count, asked again");
    for ordinal in 0..count {
        let properties = raw.properties(ordinal)?;
        check!(properties.name[0] != 0, "device {ordinal} has no name");
        let known = [Kind::Cpu, Kind::Gpu, Kind::Accelerator];
        check!(
            known.iter().any(|&kind| kind as u32 == properties.kind),
            "device {ordinal} is of kind {}",
            properties.kind
        );
        let alignment = properties.alignment;
        check!(
            alignment.is_power_of_two() && alignment >= 8,
            "device {ordinal} aligns to {alignment} bytes"
        );
        let (low, high) = (properties.priority_low, properties.priority_high);
        check!(low <= high, "device {ordinal} has priorities {low} to {high}");
        let known = Capability::ALL.iter().fold(0, |bits, (bit, _)| bits | bit.bit());
        if subject.api().abi == ABI_VERSION {
            check_eq!(
                properties.capabilities & !known,
                0,
                "unknown capabilities of device {ordinal}"
            );
        }
    }
    Ok(())
}

fn device_beyond_the_last(subject: &Subject) -> Check {
    let raw = subject.raw();
    let count = raw.device_count()?;
    for ordinal in [count, count + 1, u32::MAX] {
        let options = DeviceOptions {
            ordinal,
            reserved: 0,
            memory_limit: 0,
            block_size: 0,
        };
        // SAFETY: plain call.
        let available = raw.status(unsafe { (raw.tables.device.is_available)(raw.context, ordinal) });
        let errors = [
            ("properties", raw.properties(ordinal).err()),
            ("is_available", available.err()),
            ("open", raw.open(&options).err()),
        ];
        for (call, error) in errors {
            let Some(error) = error else {
                crate::fail!("{call} accepts device {ordinal} of {count}");
            };
            let typed = matches!(error.status, Status::InvalidArgument | Status::Unavailable);
            check!(typed, "{call} of device {ordinal}: {} ({error})", error.status);
            check!(
                !error.message.is_empty(),
                "{call} of device {ordinal} gives no text"
            );
        }
    }
    Ok(())
}

fn device_numbers(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let raw = device.raw();
    let query = |key: u32| {
        // SAFETY: the out pointer is writable.
        raw.out(0_u64, |out| unsafe {
            (raw.tables.device.query)(raw.context, device.handle(), key, out)
        })
    };
    let keys = [
        PropertyKey::L1Cache,
        PropertyKey::L2Cache,
        PropertyKey::L3Cache,
        PropertyKey::VectorBits,
        PropertyKey::Threads,
    ];
    for key in keys {
        match query(key as u32) {
            Ok(value) => check!(value > 0, "{key:?} is 0; what does not apply is Unsupported"),
            Err(error) => check_eq!(error.status, Status::Unsupported, "status of {key:?}"),
        }
    }
    for key in [0, 1 << 20, u32::MAX] {
        match query(key) {
            Ok(value) => crate::fail!("key {key} is answered with {value}"),
            Err(error) => check_eq!(error.status, Status::Unsupported, "status of key {key}"),
        }
    }
    Ok(())
}

fn device_status(subject: &Subject) -> Check {
    let device = Device::open(subject)?;
    let raw = device.raw();
    // SAFETY: plain call.
    raw.status(unsafe { (raw.tables.device.status)(raw.context, device.handle()) })?;
    // SAFETY: plain call.
    raw.status(unsafe { (raw.tables.device.is_available)(raw.context, 0) })?;
    device.synchronize()?;
    raw.close(device.handle())?;
    let again = raw.close(device.handle());
    check_eq!(
        again.map_err(|e| e.status),
        Err(Status::InvalidHandle),
        "closing a device again"
    );
    let other = Device::open(subject)?;
    check!(
        other.handle() != device.handle(),
        "a device has the handle of one that was closed"
    );
    Ok(())
}

fn entry(subject: &Subject) -> Result<Entry, Stop> {
    subject
        .entry()
        .ok_or_else(|| Stop::Unsupported("the entry function is not at hand".into()))
}

fn wrong_major(subject: &Subject) -> Check {
    let entry = entry(subject)?;
    for abi in [
        0,
        u32::from(ABI_MAJOR - 1) << 16,
        u32::from(ABI_MAJOR + 1) << 16,
        u32::MAX,
    ] {
        let mut api = BackendApi::empty();
        // SAFETY: the host's table lives for ever, the out pointer is writable.
        let code = unsafe { entry(abi, host_api(), &raw mut api) };
        check_eq!(
            code,
            Status::IncompatibleAbi as i32,
            "status for a host of version {abi:#x}"
        );
        check!(
            api.context.is_null(),
            "a host of version {abi:#x} is handed a context"
        );
    }
    Ok(())
}

fn later_minor(subject: &Subject) -> Check {
    let entry = entry(subject)?;
    let mut api = BackendApi::empty();
    // SAFETY: the host's table lives for ever, the out pointer is writable.
    let code = unsafe { entry(ABI_VERSION + 1, host_api(), &raw mut api) };
    check_eq!(code, 0, "status for a host of a later minor version");
    check_eq!(api.abi, subject.api().abi, "version in BackendApi");
    Ok(())
}

fn null_host(subject: &Subject) -> Check {
    let entry = entry(subject)?;
    let mut api = BackendApi::empty();
    // SAFETY: null is for the plugin to refuse.
    let code = unsafe { entry(ABI_VERSION, std::ptr::null(), &raw mut api) };
    check_eq!(code, Status::InvalidArgument as i32, "status for a null host");
    check!(api.context.is_null(), "a context is handed out without a host");
    Ok(())
}

fn null_out(subject: &Subject) -> Check {
    let entry = entry(subject)?;
    // SAFETY: null is for the plugin to refuse.
    let code = unsafe { entry(ABI_VERSION, host_api(), std::ptr::null_mut()) };
    check_eq!(
        code,
        Status::InvalidArgument as i32,
        "status for a null out pointer"
    );
    Ok(())
}

fn shutdown(subject: &Subject) -> Check {
    let entry = entry(subject)?;
    let mut api = BackendApi::empty();
    // SAFETY: the host's table lives for ever, the out pointer is writable.
    let code = unsafe { entry(ABI_VERSION, host_api(), &raw mut api) };
    check_eq!(code, 0, "status of a second instance");
    if api.context == subject.api().context {
        return Err(Stop::Unsupported("every instance has the same context".into()));
    }
    // SAFETY: the entry function filled it.
    let raw = unsafe { Raw::of(&api) }?;
    let device = Device::of(raw, 0, 1 << 20)?;
    let stream = device.stream()?;
    let buffer = device.alloc(100)?;
    device.fill_byte(stream, buffer, 100, 1)?;
    // SAFETY: plain call.
    raw.status(unsafe { (raw.tables.core.shutdown)(raw.context) })?;
    // SAFETY: plain call.
    let again = raw.status(unsafe { (raw.tables.core.shutdown)(raw.context) });
    let after = [
        ("shutdown", again.err()),
        ("device_count", raw.device_count().err()),
        ("properties", raw.properties(0).err()),
        ("alloc", device.alloc(1).err()),
        ("size", device.size(buffer).err()),
        ("synchronize", device.join(stream).err()),
        ("close", raw.close(device.handle()).err()),
    ];
    for (call, error) in after {
        let status = error.map(|error| error.status);
        check_eq!(status, Some(Status::Unavailable), "{call} after shutdown");
    }
    subject.raw().device_count()?;
    Device::open(subject)?.alloc(1)?;
    Ok(())
}

fn error_text_is_cut(subject: &Subject) -> Check {
    let raw = subject.raw();
    let last_error = |buffer: *mut u8, capacity: usize| {
        // SAFETY: the buffer has the capacity that is passed, or is null with none.
        unsafe { (raw.tables.core.last_error)(raw.context, buffer, capacity) }
    };
    check!(
        raw.close(NOBODY).is_err(),
        "a handle that was never given out is accepted"
    );
    let whole = raw.last_error();
    check!(!whole.is_empty(), "the error has no text");
    let mut buffer = [0xee_u8; 16];
    let len = last_error(buffer.as_mut_ptr(), 4);
    check_eq!(len, whole.len(), "length of the text, read into 4 bytes");
    check_eq!(
        buffer[..4],
        whole.as_bytes()[..4],
        "the first 4 bytes of the text"
    );
    check_eq!(buffer[4..], [0xee; 12], "bytes beyond the capacity");
    check_eq!(
        last_error(std::ptr::null_mut(), 0),
        whole.len(),
        "length of the text, asked for alone"
    );
    check_eq!(raw.last_error(), whole, "the text, read again");
    Ok(())
}

fn error_text_by_thread(subject: &Subject) -> Check {
    let raw = subject.raw();
    check!(
        raw.close(NOBODY - 1).is_err(),
        "a handle that was never given out is accepted"
    );
    let before = raw.last_error();
    let other = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let properties = raw.properties(u32::MAX);
            properties.err().map(|error| error.message)
        });
        other.join().ok().flatten()
    });
    check!(
        other.is_some_and(|text| !text.is_empty() && text != before),
        "another thread's error has no text of its own"
    );
    check_eq!(raw.last_error(), before, "the text after another thread's error");
    Ok(())
}
