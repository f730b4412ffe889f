//! The keys of a session, a row each: in code, in files and in the environment.

use super::options::{GraphRunMode, SessionOptions};
use super::{dumping, profiling};
use crate::context::{DebugLevel, ImplMode, Precision, op_list};
pub(super) use crate::context::{
    ENABLE_EXCEPTION_DUMP, OP_SELECT_IMPLMODE, OPTYPELIST_FOR_IMPLMODE, PRECISION_MODE,
};
pub(super) use crate::engine::debug::OP_DEBUG_LEVEL;
use crate::error::SessionError;
use crate::options::by_name::{SettingKey, store};
use serde_json::Value;
use thalweg_hal::settings::{Setting, Values, Way};

/// A key of [`SessionOptions`].
pub(super) type SessionKey = SettingKey<SessionOptions>;

pub(super) const GRAPH_RUN_MODE: Setting = Setting {
    key: "graph_run_mode",
    variable: "THALWEG_GRAPH_RUN_MODE",
    way: Way::Session,
    values: Values::Range("1 or 0"),
    default: "1",
    about: "1 for training, 0 for inference: then gradients are errors.",
    read_by: "`SessionOptions`",
};

pub(super) const PROFILING_MODE: Setting = Setting {
    key: "profiling_mode",
    variable: "THALWEG_PROFILING_MODE",
    way: Way::Session,
    values: Values::Range("true or false"),
    default: "false",
    about: "Whether the process is profiled, from the start of the session to its end.",
    read_by: "`SessionOptions`",
};

pub(super) const PROFILING_OPTIONS: Setting = Setting {
    key: "profiling_options",
    variable: "THALWEG_PROFILING_OPTIONS",
    way: Way::Session,
    values: Values::Range(
        "traces with `:` between them (`training_trace:task_trace`, `op_trace`), or an object with result_path, training_trace, task_trace, aicpu_trace, op_trace",
    ),
    default: "none",
    about: "What that profile records. Without it, ops and kernels into `output/profile/rank_{r}/profiler`.",
    read_by: "`SessionOptions`",
};

pub(super) const ENABLE_DUMP: Setting = Setting {
    key: "enable_dump",
    variable: "THALWEG_ENABLE_DUMP",
    way: Way::Session,
    values: Values::OneOf(&["true", "false"]),
    default: "false",
    about: "Whether values are dumped by a thread of their own, from the first context to the end of the session. It needs `dump_path`.",
    read_by: "`SessionOptions`",
};

pub(super) const DUMP_PATH: Setting = Setting {
    key: "dump_path",
    variable: "THALWEG_DUMP_PATH",
    way: Way::Session,
    values: Values::Range("a folder that exists and can be read and written; `{r}` is the rank"),
    default: "none",
    about: "The folder of the session's dump.",
    read_by: "`SessionOptions`",
};

pub(super) const DUMP_STEP: Setting = Setting {
    key: "dump_step",
    variable: "THALWEG_DUMP_STEP",
    way: Way::Session,
    values: Values::Range("a number, or a list such as `0|3-5|10`"),
    default: "all",
    about: "Which iterations are dumped; they count from 0.",
    read_by: "`SessionOptions`",
};

pub(super) const DUMP_MODE: Setting = Setting {
    key: "dump_mode",
    variable: "THALWEG_DUMP_MODE",
    way: Way::Session,
    values: Values::OneOf(&["input", "output", "all"]),
    default: "output",
    about: "Which values of a call `enable_dump` dumps.",
    read_by: "`SessionOptions`",
};

pub(super) const ENABLE_DUMP_DEBUG: Setting = Setting {
    key: "enable_dump_debug",
    variable: "THALWEG_ENABLE_DUMP_DEBUG",
    way: Way::Session,
    values: Values::OneOf(&["true", "false"]),
    default: "false",
    about: "Whether calls that overflow are dumped, with their inputs, and no others. It needs `dump_path`, and `enable_dump` off.",
    read_by: "`SessionOptions`",
};

pub(super) const DUMP_DEBUG_MODE: Setting = Setting {
    key: "dump_debug_mode",
    variable: "THALWEG_DUMP_DEBUG_MODE",
    way: Way::Session,
    values: Values::OneOf(&["aicore_overflow", "atomic_overflow", "all"]),
    default: "all",
    about: "Which calls that overflow: ops, reductions and scatters, or both.",
    read_by: "`SessionOptions`",
};

/// Every key, in the order of the documentation.
pub(super) const KEYS: &[SessionKey] = &[
    SessionKey {
        setting: PRECISION_MODE,
        set: |to, value| {
            store(
                &mut to.precision_mode,
                value.as_str().and_then(|name| name.parse::<Precision>().ok()),
            )
        },
    },
    SessionKey {
        setting: GRAPH_RUN_MODE,
        set: |to, value| {
            let mode = match value.as_u64() {
                Some(0) => Some(GraphRunMode::Inference),
                Some(1) => Some(GraphRunMode::Train),
                Some(_) | None => None,
            };
            store(&mut to.graph_run_mode, mode)
        },
    },
    SessionKey {
        setting: OP_DEBUG_LEVEL,
        set: |to, value| {
            let level = value.as_i64().and_then(|level| DebugLevel::try_from(level).ok());
            store(&mut to.op_debug_level, level)
        },
    },
    SessionKey {
        setting: OP_SELECT_IMPLMODE,
        set: |to, value| {
            let mode = value.as_str().and_then(|name| name.parse::<ImplMode>().ok());
            store(&mut to.op_select_implmode, mode.map(Some))
        },
    },
    SessionKey {
        setting: OPTYPELIST_FOR_IMPLMODE,
        set: |to, value| {
            let list = match value {
                Value::String(names) => Some(op_list(names)),
                Value::Array(names) => names.iter().map(|name| Some(name.as_str()?.to_owned())).collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
            };
            store(&mut to.optypelist_for_implmode, list.map(Some))
        },
    },
    SessionKey {
        setting: PROFILING_MODE,
        set: |to, value| store(&mut to.profiling_mode, value.as_bool()),
    },
    SessionKey {
        setting: PROFILING_OPTIONS,
        set: |to, value| store(&mut to.profiling_options, Some(Some(profiling::of(value)?))),
    },
    SessionKey {
        setting: ENABLE_DUMP,
        set: |to, value| store(&mut to.enable_dump, value.as_bool()),
    },
    SessionKey {
        setting: DUMP_PATH,
        set: |to, value| store(&mut to.dump_path, value.as_str().map(str::to_owned)),
    },
    SessionKey {
        setting: DUMP_STEP,
        set: |to, value| store(&mut to.dump_step, dumping::steps(value)?),
    },
    SessionKey {
        setting: DUMP_MODE,
        set: |to, value| store(&mut to.dump_mode, dumping::of_word(dumping::MODES, value)),
    },
    SessionKey {
        setting: ENABLE_DUMP_DEBUG,
        set: |to, value| store(&mut to.enable_dump_debug, value.as_bool()),
    },
    SessionKey {
        setting: DUMP_DEBUG_MODE,
        set: |to, value| {
            store(
                &mut to.dump_debug_mode,
                dumping::of_word(dumping::DEBUG_MODES, value),
            )
        },
    },
    SessionKey {
        setting: ENABLE_EXCEPTION_DUMP,
        set: |to, value| store(&mut to.enable_exception_dump, value.as_bool()),
    },
];

impl SessionOptions {
    /// Every key.
    pub fn keys() -> impl Iterator<Item = Setting> {
        KEYS.iter().map(|key| key.setting)
    }
}

/// The key of a name.
pub(super) fn find(name: &str, value: &Value) -> Result<&'static SessionKey, SessionError> {
    Ok(SessionKey::find(KEYS, name, value)?)
}
