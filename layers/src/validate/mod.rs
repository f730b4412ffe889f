//! The layer `validate`: finds errors of programs, of the core and of plugins.
//!
//! It keeps a record of each object that the backend gives out, and checks each call before it goes on and each answer as it comes
//! back. What it finds has a code; `docs/validate.md` explains each.

mod calls;
mod code;
mod content;
mod draft;
mod options;
mod order;
mod program;
mod refusal;
mod region;
mod report;
mod shadow;
mod site;
mod table;
mod work;

pub use code::{Code, Group};
pub use options::OPTIONS;

use crate::forward::Tables;
use crate::layer::{Layer, Places};
use crate::next::Next;
use options::Options;
use shadow::State;
use thalweg_hal::kit::lock::Mutex;
use thalweg_hal::{Host, Result};

/// The state of the layer over one backend.
pub struct Validate {
    host: Host,
    state: Mutex<State>,
}

impl Layer for Validate {
    const NAME: &'static str = "validate";
    const TABLES: &'static Tables = &calls::TABLES;

    fn start(host: Host, _: &Next) -> Result<Validate> {
        let state = State {
            options: Options::of(host)?,
            ..State::default()
        };
        Ok(Validate {
            host,
            state: Mutex::new(state),
        })
    }

    fn places() -> &'static Places<Validate> {
        static PLACES: Places<Validate> = Places::new();
        &PLACES
    }
}
