//! The layer `fault`: calls fail, the same ones in every run.

mod calls;
mod failing;
mod programs;
mod rules;

pub use rules::Kind;

use crate::forward::Tables;
use crate::layer::{Layer, Places};
use crate::next::Next;
use rules::Rules;
use std::collections::{HashMap, HashSet};
use thalweg_hal::kit::lock::Mutex;
use thalweg_hal::settings::{Setting, Values, Way};
use thalweg_hal::{Error, Host, Result, Status};

/// Which calls fail.
pub const OPTIONS: Setting = Setting {
    key: "layer.fault",
    variable: "THALWEG_LAYER_FAULT",
    way: Way::Config,
    values: Values::Range("rules with `,` between them: `KIND@N`, `seed=S`, `every=N`, `kinds=KIND+KIND`"),
    default: "none",
    about: "Which calls the layer `fault` makes fail. `alloc@3` is the third allocation since the device was opened. A seed picks \
            one of `every` calls, 100 unless it is set. Kinds are `alloc`, `submit`, `later`, `lost`, `slow`, `event`, `compile`, \
            `statistics` and `callback`. The rules are read when a device is opened.",
    read_by: "layer fault",
};

/// The state of the layer over one backend.
pub struct Fault {
    host: Host,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rules: Rules,
    /// Ordinals of open devices.
    devices: HashMap<u64, u32>,
    lost: HashSet<u64>,
    /// The device of each object, whose handles are numbered for each kind on its own.
    owners: HashMap<(Object, u64), u64>,
    programs: HashMap<u64, Program>,
    /// What was made to fail on each stream, numbered, until it is told.
    sticking: HashMap<u64, Vec<(u64, String)>>,
    /// The number of the last failure.
    failures: u64,
    /// Calls that wait in what is below.
    waiting: u32,
}

/// What a run of a program is told by.
struct Program {
    /// Bytes of its largest output or scratch buffer; `None` where a run makes none.
    makes: Option<u64>,
    /// The op of its first packet, for a run without a tag.
    op: String,
}

/// What belongs to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Object {
    Stream,
    Event,
    Program,
}

impl Layer for Fault {
    const NAME: &'static str = "fault";
    const TABLES: &'static Tables = &calls::TABLES;

    fn start(host: Host, _: &Next) -> Result<Fault> {
        let state = State {
            rules: rules(host)?,
            ..State::default()
        };
        Ok(Fault {
            host,
            state: Mutex::new(state),
        })
    }

    fn places() -> &'static Places<Fault> {
        static PLACES: Places<Fault> = Places::new();
        &PLACES
    }
}

fn rules(host: Host) -> Result<Rules> {
    Rules::parse(&OPTIONS.of(host).unwrap_or_default())
}

/// An error that names the op, the kind and the number of the call.
fn injected(status: Status, op: &str, kind: Kind, number: u64) -> Error {
    Error::new(status, text(op, kind, number))
}

fn text(op: &str, kind: Kind, number: u64) -> String {
    let op = if op.is_empty() { "work" } else { op };
    format!("{op}: made to fail by the layer fault ({}@{number})", kind.name())
}

impl State {
    /// Refuses a call on a device that was lost.
    fn works(&self, device: u64) -> Result<()> {
        match self.lost.contains(&device) {
            true => Err(Error::new(
                Status::DeviceLost,
                "the device was lost by the layer fault",
            )),
            false => Ok(()),
        }
    }

    /// Refuses a call on an object of a device that was lost.
    fn owner_works(&self, object: Object, handle: u64) -> Result<()> {
        self.owners
            .get(&(object, handle))
            .map_or(Ok(()), |device| self.works(*device))
    }

    /// Forgets what belongs to a device.
    fn forget(&mut self, device: u64) {
        self.devices.remove(&device);
        self.lost.remove(&device);
        self.owners.retain(|_, owner| *owner != device);
        let owners = &self.owners;
        self.programs
            .retain(|program, _| owners.contains_key(&(Object::Program, *program)));
        self.sticking
            .retain(|stream, _| owners.contains_key(&(Object::Stream, *stream)));
    }
}
