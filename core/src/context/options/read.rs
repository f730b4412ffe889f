//! Options from TOML and from the environment.

use super::ContextBuilder;
use crate::context::graphs::{SAVE_GRAPHS, SAVE_GRAPHS_PATH, SaveGraphs};
use crate::context::implmode::{OP_SELECT_IMPLMODE, OPTYPELIST_FOR_IMPLMODE, op_list};
use crate::context::recorder::ENV_CONFIG_PATH;
use crate::context::settings::{
    CHECK_INDICES, CHECK_NUMERICS, DETERMINISTIC, DEVICE_ID, DEVICE_TARGET, ENABLE_EXCEPTION_DUMP, FAST_MATH,
    MEMORY_LIMIT, MODE, PRECISION_MODE, PRINT_FILE_PATH, RESERVE_CLASS_NAME_IN_SCOPE, SEED, STREAMS,
};
use crate::context::{DebugLevel, Size};
use crate::engine::debug::OP_DEBUG_LEVEL;
use crate::error::Result;
use crate::error::failure::Refusal;
use crate::loader::{LAYERS, layer_list};
use crate::parallel::{self, FORMER_THREADS};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thalweg_hal::settings::Setting;

impl ContextBuilder {
    /// The options of a TOML text: `device_target`, `device_id`, `mode`, `memory_limit`, `seed`, `deterministic`, `streams`, `threads`,
    /// `layers`, `precision_mode`, `fast_math`, `op_select_implmode`, `optypelist_for_implmode`, `check_numerics`, `check_indices`, `reserve_class_name_in_scope`,
    /// `enable_exception_dump`, `op_debug_level`, `print_file_path`, `save_graphs`, `save_graphs_path`, `env_config_path`.
    ///
    /// # Errors
    /// No TOML; an option that does not exist or has another type.
    pub fn from_toml(text: &str) -> Result<ContextBuilder> {
        toml::from_str(text).map_err(|error| Refusal::new(format!("options: {error}")).into())
    }

    /// The options of a TOML file; see [`ContextBuilder::from_toml`].
    ///
    /// # Errors
    /// The file cannot be read; as [`ContextBuilder::from_toml`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<ContextBuilder> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Refusal::new(format!("options in {}: {error}", path.display())))?;
        ContextBuilder::from_toml(&text)
    }

    /// The options of the environment: `THALWEG_` and the option in upper case, such as `THALWEG_DEVICE_TARGET`. Truth values are `true`
    /// and `false`.
    ///
    /// # Errors
    /// A value that is none of the option's; a variable that has another name now.
    pub fn from_env() -> Result<ContextBuilder> {
        ContextBuilder::from_variables(|name| std::env::var(name).ok())
    }

    pub(super) fn from_variables(value: impl Fn(&str) -> Option<String>) -> Result<ContextBuilder> {
        fn number<T: FromStr>(name: &str, text: Option<String>) -> Result<Option<T>, Refusal> {
            let parse = |text: String| {
                text.parse()
                    .map_err(|_| Refusal::new(format!("{name} is {text:?}, not a whole number")))
            };
            text.map(parse).transpose()
        }
        let truth = |name: &str, text: Option<String>| match text.as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(text) => Err(Refusal::new(format!(
                "{name} is {text:?}, neither true nor false"
            ))),
        };
        let of = |row: Setting| value(row.variable);
        let builder = ContextBuilder {
            device_target: of(DEVICE_TARGET),
            device_id: number(DEVICE_ID.variable, of(DEVICE_ID))?,
            mode: of(MODE).map(|text| text.parse()).transpose()?,
            memory_limit: of(MEMORY_LIMIT).map(Size::Text),
            seed: number(SEED.variable, of(SEED))?,
            deterministic: truth(DETERMINISTIC.variable, of(DETERMINISTIC))?,
            streams: number(STREAMS.variable, of(STREAMS))?,
            threads: number(parallel::THREADS.variable, of(parallel::THREADS))?,
            layers: of(LAYERS).map(|list| layer_list(&list)),
            precision_mode: of(PRECISION_MODE).map(|text| text.parse()).transpose()?,
            fast_math: truth(FAST_MATH.variable, of(FAST_MATH))?,
            op_select_implmode: of(OP_SELECT_IMPLMODE).map(|text| text.parse()).transpose()?,
            optypelist_for_implmode: of(OPTYPELIST_FOR_IMPLMODE).map(|text| op_list(&text)),
            check_numerics: truth(CHECK_NUMERICS.variable, of(CHECK_NUMERICS))?,
            reserve_class_name_in_scope: truth(
                RESERVE_CLASS_NAME_IN_SCOPE.variable,
                of(RESERVE_CLASS_NAME_IN_SCOPE),
            )?,
            check_indices: truth(CHECK_INDICES.variable, of(CHECK_INDICES))?,
            enable_exception_dump: truth(ENABLE_EXCEPTION_DUMP.variable, of(ENABLE_EXCEPTION_DUMP))?,
            op_debug_level: number::<i64>(OP_DEBUG_LEVEL.variable, of(OP_DEBUG_LEVEL))?
                .map(DebugLevel::try_from)
                .transpose()?,
            print_file_path: of(PRINT_FILE_PATH).map(PathBuf::from),
            save_graphs: of(SAVE_GRAPHS)
                .map(|text| SaveGraphs::of_text(SAVE_GRAPHS.variable, &text))
                .transpose()?,
            save_graphs_path: of(SAVE_GRAPHS_PATH).map(PathBuf::from),
            env_config_path: of(ENV_CONFIG_PATH).map(PathBuf::from),
        };
        if value(FORMER_THREADS).is_some() {
            return Err(Refusal::new(format!("{FORMER_THREADS} is not read"))
                .help(format!("set {}", parallel::THREADS.variable))
                .into());
        }
        Ok(builder)
    }
}
