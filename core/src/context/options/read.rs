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
use crate::options::by_name::{SettingKey, WrongOption, store, wrong};
use crate::options::toml;
use crate::parallel::{self, FORMER_THREADS};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thalweg_hal::settings::Setting;

fn texts(value: &Value) -> Option<Vec<String>> {
    let texts = value.as_array()?.iter().map(Value::as_str);
    texts.map(|text| text.map(str::to_owned)).collect()
}

fn parsed<T: FromStr>(value: &Value) -> Option<T> {
    value.as_str()?.parse().ok()
}

fn number<T: TryFrom<i64>>(value: &Value) -> Option<T> {
    value.as_i64()?.try_into().ok()
}

fn save_graphs(value: &Value) -> Result<SaveGraphs, WrongOption> {
    let switch = value.as_bool().map(SaveGraphs::Switch);
    let level = switch.or_else(|| number(value).map(SaveGraphs::Level));
    level.ok_or_else(|| wrong(SAVE_GRAPHS.key, value, "save_graphs takes 0 to 3, true or false"))
}

/// The options of files, in the order of the documentation.
const KEYS: &[SettingKey<ContextBuilder>] = {
    macro_rules! keys {
        ($($setting:expr => $field:ident: |$value:ident| $read:expr;)*) => {
            &[$(SettingKey {
                setting: $setting,
                set: |to, $value| store(&mut to.$field, $read.map(Some)),
            }),*]
        };
    }
    keys! {
        DEVICE_TARGET => device_target: |value| parsed(value);
        DEVICE_ID => device_id: |value| number(value);
        MODE => mode: |value| parsed(value);
        MEMORY_LIMIT => memory_limit: |value| parsed(value).map(Size::Text).or_else(|| number(value).map(Size::Bytes));
        SEED => seed: |value| number(value);
        DETERMINISTIC => deterministic: |value| value.as_bool();
        STREAMS => streams: |value| number(value);
        parallel::THREADS => threads: |value| number(value);
        LAYERS => layers: |value| texts(value);
        PRECISION_MODE => precision_mode: |value| parsed(value);
        FAST_MATH => fast_math: |value| value.as_bool();
        OP_SELECT_IMPLMODE => op_select_implmode: |value| parsed(value);
        OPTYPELIST_FOR_IMPLMODE => optypelist_for_implmode: |value| texts(value);
        CHECK_NUMERICS => check_numerics: |value| value.as_bool();
        CHECK_INDICES => check_indices: |value| value.as_bool();
        RESERVE_CLASS_NAME_IN_SCOPE => reserve_class_name_in_scope: |value| value.as_bool();
        ENABLE_EXCEPTION_DUMP => enable_exception_dump: |value| value.as_bool();
        OP_DEBUG_LEVEL => op_debug_level: |value| number::<i64>(value).and_then(|level| DebugLevel::try_from(level).ok());
        PRINT_FILE_PATH => print_file_path: |value| parsed(value);
        SAVE_GRAPHS => save_graphs: |value| Some(save_graphs(value)?);
        SAVE_GRAPHS_PATH => save_graphs_path: |value| parsed(value);
        ENV_CONFIG_PATH => env_config_path: |value| parsed(value);
    }
};

impl ContextBuilder {
    /// The options of a TOML text: `device_target`, `device_id`, `mode`, `memory_limit`, `seed`, `deterministic`, `streams`, `threads`,
    /// `layers`, `precision_mode`, `fast_math`, `op_select_implmode`, `optypelist_for_implmode`, `check_numerics`, `check_indices`, `reserve_class_name_in_scope`,
    /// `enable_exception_dump`, `op_debug_level`, `print_file_path`, `save_graphs`, `save_graphs_path`, `env_config_path`.
    ///
    /// # Errors
    /// No TOML; an option that does not exist or has another type.
    pub fn from_toml(text: &str) -> Result<ContextBuilder> {
        let mut builder = ContextBuilder::default();
        for (name, value) in toml::parsed(text).map_err(|error| Refusal::new(format!("options: {error}")))? {
            SettingKey::find(KEYS, &name, &value)
                .and_then(|key| key.store(&mut builder, &name, &value))
                .map_err(|wrong| Refusal::new(format!("options: {wrong}")))?;
        }
        Ok(builder)
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
        ContextBuilder::from_variables(&|name| std::env::var(name).ok())
    }

    pub(super) fn from_variables(value: &dyn Fn(&str) -> Option<String>) -> Result<ContextBuilder> {
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
