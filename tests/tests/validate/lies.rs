//! Lies of plugins: a layer below `validate` gives wrong answers of a backend that is sound.

use crate::plugins::tried::tried;
use crate::{Found, alone, expect, planted, plugins, subject, wrong};
use std::path::PathBuf;
use std::process::Command;
use thalweg::host::set_config;
use thalweg_conformance::Subject;
use thalweg_conformance::kit::Stop;
use thalweg_conformance::rig::Device;
use thalweg_hal::tables::{
    Capability, ElapsedArgs, ProfileDrainArgs, ProfileKind, ProfileRecord, ProfileStartArgs,
};

/// A lie, the code, and a call that is lied to.
type Lie = (&'static str, &'static str, fn(&Device) -> Found);

const LIES: &[Lie] = &[
    ("status", "TW-CONTRACT-101", |device| wrong(device.alloc(64))),
    ("twice", "TW-CONTRACT-102", |device| {
        device.alloc(64)?;
        wrong(device.alloc(64))
    }),
    ("zero", "TW-CONTRACT-102", |device| wrong(device.alloc(64))),
    ("nothing", "TW-CONTRACT-103", |device| wrong(device.alloc(64))),
    ("outputs", "TW-CONTRACT-103", |device| {
        let (program, stream) = (planted::maker(device)?, device.stream()?);
        wrong(planted::run(device, program, stream, &mut [0]))
    }),
    ("failure", "TW-CONTRACT-104", |device| wrong(device.alloc(64))),
    ("free", "TW-CONTRACT-104", |device| {
        wrong(device.free(device.alloc(64)?))
    }),
    ("size", "TW-CONTRACT-105", |device| {
        wrong(device.size(device.alloc(64)?))
    }),
    ("answer", "TW-CONTRACT-105", |device| {
        wrong(device.is_idle(device.stream()?))
    }),
    ("drain", "TW-CONTRACT-105", drained),
    ("live", "TW-CONTRACT-106", figures),
    ("allocated", "TW-CONTRACT-106", figures),
    ("frees", "TW-CONTRACT-106", figures),
    ("busy", "TW-CONTRACT-107", |device| {
        let stream = device.stream()?;
        device.join(stream)?;
        wrong(device.is_idle(stream))
    }),
    ("event", "TW-CONTRACT-107", |device| {
        let (stream, event) = (device.stream()?, device.event(false)?);
        device.record(event, stream)?;
        device.wait(event, u64::MAX)?;
        wrong(device.is_reached(event))
    }),
    ("elapsed", "TW-CONTRACT-107", elapsed),
    ("record", "TW-CONTRACT-108", drained),
    ("silent", "TW-CONTRACT-109", |device| wrong(device.alloc(64))),
    ("map", "TW-CONTRACT-110", |device| {
        device.need(Capability::Map)?;
        let (one, two) = (device.alloc(64)?, device.alloc(64)?);
        device.map(one)?;
        wrong(device.map(two))
    }),
    ("overrun", "TW-CONTENT-001", |device| {
        let (stream, buffer) = (device.stream()?, device.alloc(64)?);
        device.fill_byte(stream, buffer, 64, 1)?;
        device.join(stream)?;
        wrong(device.synchronize())
    }),
    ("align", "TW-CONTRACT-110", |device| {
        device.need(Capability::Map)?;
        wrong(device.map(device.alloc(64)?))
    }),
];

pub(crate) fn codes() -> impl Iterator<Item = &'static str> {
    LIES.iter().map(|lie| lie.1)
}

fn figures(device: &Device) -> Found {
    device.alloc(64)?;
    wrong(device.statistics())
}

fn elapsed(device: &Device) -> Found {
    device.need(Capability::Timing)?;
    let (stream, raw) = (device.stream()?, device.raw());
    let (start, end) = (device.event(true)?, device.event(true)?);
    device.record(start, stream)?;
    device.record(end, stream)?;
    device.join(stream)?;
    let args = ElapsedArgs { start, end };
    // SAFETY: the arguments live through the call, the out pointer is writable.
    wrong(raw.out(0, |out| unsafe {
        (raw.tables.event.elapsed)(raw.context, &raw const args, out)
    }))
}

fn drained(device: &Device) -> Found {
    let raw = device.raw();
    let table = raw
        .tables
        .profile
        .ok_or_else(|| Stop::Unsupported("no profiles".into()))?;
    let start = ProfileStartArgs {
        device: device.handle(),
        kinds: ProfileKind::Fill.bit(),
        capacity: 16,
    };
    // SAFETY: the arguments live through the call.
    if let Err(error) = raw.status(unsafe { (table.start)(raw.context, &raw const start) }) {
        return Err(Stop::Unsupported(error.message));
    }
    let (stream, buffer) = (device.stream()?, device.alloc(64)?);
    device.fill_byte(stream, buffer, 64, 1)?;
    device.join(stream)?;
    let mut records: Vec<ProfileRecord> = Vec::with_capacity(16);
    let (mut written, mut lost) = (0, 0);
    let args = ProfileDrainArgs {
        device: device.handle(),
        out: records.as_mut_ptr(),
        capacity: 16,
        written: &raw mut written,
        lost: &raw mut lost,
    };
    // SAFETY: as above.
    wrong(raw.status(unsafe { (table.drain)(raw.context, &raw const args) }))
}

/// The liar, in a folder of its own.
fn liar() -> PathBuf {
    let source = "tests/plugins/liar_c/liar.c";
    let file = plugins::layer_of(source, &format!("liar.{}", std::process::id()), "liar", &[]);
    file.parent().unwrap().to_owned()
}

/// What this process is told to try, as it is a child: a backend tells one lie.
const CHILD: &str = "THALWEG_TEST_LIE";

/// Tries every lie, each in a process of its own, because the liar reads its lie when it is loaded.
pub(crate) fn all(backend: &str) {
    if let Ok(lie) = std::env::var(CHILD) {
        return one(backend, &lie);
    }
    for (lie, ..) in LIES {
        let run = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                &format!("{backend}::lies_of_the_plugin_are_found"),
                "--nocapture",
            ])
            .env(CHILD, lie)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{backend}, {lie}: {text}");
    }
    tried(LIES.len());
}

fn one(backend: &str, lie: &str) {
    let (_, code, call) = LIES.iter().find(|known| known.0 == lie).unwrap();
    set_config("layer.liar", Some(lie));
    let _alone = alone(Some("lifetime,contract,content"));
    let folder = liar();
    let subject: Option<Subject> = subject(backend, &["validate", "liar"], std::slice::from_ref(&folder));
    if let Some(subject) = subject {
        let device = Device::open(&subject).ok().unwrap();
        match call(&device) {
            Ok(error) => expect(&error.message, code, "plugin", &[]),
            // What the backend does not offer it cannot lie about.
            Err(Stop::Unsupported(_)) => {}
            Err(stop) => panic!("{code}: {stop:?}"),
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
