//! What holds for all contexts of the process.

use super::keys::{
    self, DUMP_DEBUG_MODE, DUMP_MODE, DUMP_PATH, DUMP_STEP, ENABLE_DUMP, ENABLE_DUMP_DEBUG,
    ENABLE_EXCEPTION_DUMP, GRAPH_RUN_MODE, OP_DEBUG_LEVEL, OP_SELECT_IMPLMODE, OPTYPELIST_FOR_IMPLMODE,
    PRECISION_MODE, PROFILING_MODE, PROFILING_OPTIONS,
};
use super::{dumping, profiling};
use crate::context::{self, DebugLevel, ImplMode, Precision, Selected};
use crate::dump::{InputOutput, Iterations, OpDebugMode};
use crate::error::failure::Refusal;
use crate::error::{Result, SessionError};
use crate::observe::ProfilingOptions;
use crate::options::by_name::{parsed, wrong};
use crate::options::toml;
use serde_json::Value;
use std::path::Path;

/// What the process computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum GraphRunMode {
    /// 0: results alone. Gradients are errors, so that no program trains by mistake.
    Inference = 0,
    /// 1: gradients too.
    #[default]
    Train = 1,
}

/// Options of the session: see [`Runtime::init`](super::Runtime::init). [`SessionOptions::keys`] lists them.
///
/// ```
/// use thalweg::session::{GraphRunMode, SessionOptions};
/// let options = SessionOptions::from_toml("graph_run_mode = 0")?;
/// assert_eq!(options, SessionOptions::default().graph_run_mode(GraphRunMode::Inference));
/// let wrong = SessionOptions::from_toml("graph_mode = 0").unwrap_err();
/// assert_eq!(wrong.to_string(), "graph_mode is 0; there is no such key; near it are graph_run_mode");
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SessionOptions {
    pub(super) precision_mode: Precision,
    pub(super) graph_run_mode: GraphRunMode,
    pub(super) op_debug_level: DebugLevel,
    pub(super) op_select_implmode: Option<ImplMode>,
    pub(super) optypelist_for_implmode: Option<Vec<String>>,
    pub(super) profiling_mode: bool,
    pub(super) profiling_options: Option<ProfilingOptions>,
    pub(super) enable_dump: bool,
    pub(super) dump_path: String,
    pub(super) dump_step: Iterations,
    pub(super) dump_mode: InputOutput,
    pub(super) enable_dump_debug: bool,
    pub(super) dump_debug_mode: OpDebugMode,
    pub(super) enable_exception_dump: bool,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions {
            precision_mode: Precision::default(),
            graph_run_mode: GraphRunMode::default(),
            op_debug_level: DebugLevel::default(),
            op_select_implmode: None,
            optypelist_for_implmode: None,
            profiling_mode: false,
            profiling_options: None,
            enable_dump: false,
            dump_path: String::new(),
            dump_step: Iterations::ALL,
            dump_mode: InputOutput::Outputs,
            enable_dump_debug: false,
            dump_debug_mode: OpDebugMode::Both,
            enable_exception_dump: false,
        }
    }
}

crate::options! { SessionOptions {
    /// In which dtypes ops compute, in contexts that do not say it themselves.
    precision_mode: Precision,
    /// Whether there are gradients.
    graph_run_mode: GraphRunMode,
    /// What is written to `kernel_meta/` about each kernel that runs.
    op_debug_level: DebugLevel,
    /// By which form ops that have two compute in graphs, in contexts that do not say it themselves.
    op_select_implmode: ImplMode,
    /// The ops that this is for, by name; without it all that have two forms.
    optypelist_for_implmode: Vec<String>,
    /// Whether the process is profiled, from the start of the session to its end.
    profiling_mode: bool,
    /// What the profile records, and where to. Needs `profiling_mode`.
    profiling_options: ProfilingOptions,
    /// Whether values are dumped by a thread of their own, from the first context to the end of the session. Needs `dump_path`.
    enable_dump: bool,
    /// The folder of the dump, which exists and can be read and written; `{r}` in it is the rank.
    dump_path: String,
    /// Which iterations are dumped.
    dump_step: Iterations,
    /// Which values of a call `enable_dump` dumps; outputs unless said otherwise.
    dump_mode: InputOutput,
    /// Whether calls that overflow are dumped, with their inputs, and no others. Needs `dump_path`, and `enable_dump` off.
    enable_dump_debug: bool,
    /// Which calls that overflow: [`OpDebugMode::Both`] unless said otherwise. It takes no [`OpDebugMode::Off`].
    dump_debug_mode: OpDebugMode,
    /// Whether the inputs of a call that fails are written to files, in contexts that do not say it themselves: see
    /// [`Context::enable_exception_dump`](crate::Context::enable_exception_dump).
    enable_exception_dump: bool,
} }

impl SessionOptions {
    /// The options of an object in JSON; keys that it lacks have their defaults.
    ///
    /// # Errors
    /// Text that is no object, a key that does not exist, a value or combination that is not allowed: one line with key, value and
    /// what is allowed.
    pub fn from_json(text: &str) -> Result<SessionOptions> {
        SessionOptions::of(&parsed("the options", text).map_err(SessionError::from)?)
    }

    /// The options of a TOML text; keys that it lacks have their defaults.
    ///
    /// # Errors
    /// As [`SessionOptions::from_json`].
    pub fn from_toml(text: &str) -> Result<SessionOptions> {
        let table = toml::parsed(text).map_err(|error| {
            let allowed = format!("they are TOML: {}", error.message().replace('\n', ", "));
            SessionError::from(wrong("the options", text, &allowed))
        })?;
        SessionOptions::of(&Value::Object(table))
    }

    /// The options of a TOML file.
    ///
    /// # Errors
    /// The file cannot be read; as [`SessionOptions::from_toml`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<SessionOptions> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Refusal::new(format!("options in {}: {error}", path.display())))?;
        SessionOptions::from_toml(&text)
    }

    /// The options of the environment: `THALWEG_` and the key in upper case, such as `THALWEG_GRAPH_RUN_MODE`.
    ///
    /// # Errors
    /// As [`SessionOptions::from_json`].
    pub fn from_env() -> Result<SessionOptions> {
        SessionOptions::from_variables(|name| {
            std::env::var_os(name).map(|text| text.to_string_lossy().into_owned())
        })
    }

    pub(super) fn from_variables(value: impl Fn(&str) -> Option<String>) -> Result<SessionOptions> {
        let mut options = SessionOptions::default();
        for key in keys::KEYS {
            let variable = key.setting.variable;
            if let Some(text) = value(variable) {
                let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
                key.store(&mut options, variable, &value)
                    .map_err(SessionError::from)?;
            }
        }
        options.check()?;
        Ok(options)
    }

    fn of(object: &Value) -> Result<SessionOptions> {
        let mut options = SessionOptions::default();
        let Value::Object(object) = object else {
            return Err(
                SessionError::from(wrong("the options", object, "they are an object in JSON")).into(),
            );
        };
        for (name, value) in object {
            let key = keys::find(name, value)?;
            key.store(&mut options, name, value).map_err(SessionError::from)?;
        }
        options.check()?;
        Ok(options)
    }

    /// Whether the values are allowed together.
    ///
    /// # Errors
    /// Values that are not.
    pub fn check(&self) -> Result<()> {
        dumping::check(self)?;
        self.implmode()?;
        match (&self.profiling_options, self.profiling_mode) {
            (None, _) => Ok(()),
            (Some(_), false) => {
                let allowed = "they need profiling_mode";
                Err(SessionError::from(wrong(PROFILING_OPTIONS.key, "given", allowed)).into())
            }
            (Some(options), true) => profiling::check(options),
        }
    }

    /// The ops that its mode is for.
    ///
    /// # Errors
    /// A list without a mode, and an op in it that has one form.
    pub(super) fn implmode(&self) -> Result<Option<Selected>, SessionError> {
        let list = self.optypelist_for_implmode.as_deref();
        Ok(context::selected(self.op_select_implmode, list)?)
    }

    /// The options by their keys, as texts.
    pub(super) fn texts(&self) -> [(&'static str, String); 14] {
        let profiling = match &self.profiling_options {
            None => "none".to_owned(),
            Some(options) => profiling::text(options),
        };
        let none = || "none".to_owned();
        let mode = self.op_select_implmode.map_or_else(none, |mode| mode.to_string());
        let list = self
            .optypelist_for_implmode
            .as_ref()
            .map_or_else(none, |list| list.join(","));
        [
            (PRECISION_MODE.key, self.precision_mode.to_string()),
            (GRAPH_RUN_MODE.key, (self.graph_run_mode as u8).to_string()),
            (OP_DEBUG_LEVEL.key, self.op_debug_level.to_string()),
            (OP_SELECT_IMPLMODE.key, mode),
            (OPTYPELIST_FOR_IMPLMODE.key, list),
            (PROFILING_MODE.key, self.profiling_mode.to_string()),
            (PROFILING_OPTIONS.key, profiling),
            (ENABLE_DUMP.key, self.enable_dump.to_string()),
            (DUMP_PATH.key, self.dump_path.clone()),
            (DUMP_STEP.key, self.dump_step.to_string()),
            (
                DUMP_MODE.key,
                dumping::word_of(dumping::MODES, &self.dump_mode).to_owned(),
            ),
            (ENABLE_DUMP_DEBUG.key, self.enable_dump_debug.to_string()),
            (
                DUMP_DEBUG_MODE.key,
                dumping::word_of(dumping::DEBUG_MODES, &self.dump_debug_mode).to_owned(),
            ),
            (ENABLE_EXCEPTION_DUMP.key, self.enable_exception_dump.to_string()),
        ]
    }
}
