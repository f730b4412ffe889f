//! The settings of the log, a row each, and their names in other frameworks.

use thalweg_hal::settings::{Setting, Values, Way};

/// A setting, and the variable of another framework that stands for it where its own is not set.
pub(super) struct Row {
    pub(super) setting: Setting,
    pub(super) alias: Option<&'static str>,
}

const LOG_LEVEL: Setting = Setting {
    key: "log_level",
    variable: "THALWEG_LOG_LEVEL",
    way: Way::Variable,
    values: Values::Range("0 debug, 1 info, 2 warning, 3 error, 4 critical"),
    default: "that of `GLOG_v`, or 2",
    about: "The least level of lines in the log. In code: `LogOptions::level`.",
    read_by: "`thalweg::init`",
};

const LOG_MODULES: Setting = Setting {
    key: "log_modules",
    variable: "THALWEG_LOG_MODULES",
    way: Way::Variable,
    values: Values::Range("modules with levels, such as `{LOADER:0,GRAPH:1}`"),
    default: "that of `MS_SUBMODULE_LOG_v`, or none",
    about: "Least levels of some modules in place of `log_level`. In code: `LogOptions::module`.",
    read_by: "`thalweg::init`",
};

const LOG_TO_STDERR: Setting = Setting {
    key: "log_to_stderr",
    variable: "THALWEG_LOG_TO_STDERR",
    way: Way::Variable,
    values: Values::Range("1 or 0"),
    default: "that of `GLOG_logtostderr`, or 1",
    about: "Whether lines go to the screen. With 0 they go to files in `log_dir`. In code: `LogOptions::to_stderr`.",
    read_by: "`thalweg::init`",
};

const LOG_DIR: Setting = Setting {
    key: "log_dir",
    variable: "THALWEG_LOG_DIR",
    way: Way::Variable,
    values: Values::Range("a folder"),
    default: "that of `GLOG_log_dir`, or none",
    about: "Where files of the log lie, in `rank_0/logs` for the first rank. Made if need be. Without effect where lines go to \
            the screen. In code: `LogOptions::dir`.",
    read_by: "`thalweg::init`",
};

const LOG_MAX_SIZE: Setting = Setting {
    key: "log_max_size",
    variable: "THALWEG_LOG_MAX_SIZE",
    way: Way::Variable,
    values: Values::Range("bytes from 1, or a size such as `50 MiB`"),
    default: "50 MiB",
    about: "A file of the log that would be longer is followed by the next one. In code: `LogOptions::max_size`.",
    read_by: "`thalweg::init`",
};

const LOG_FILES: Setting = Setting {
    key: "log_files",
    variable: "THALWEG_LOG_FILES",
    way: Way::Variable,
    values: Values::Range("a whole number from 1"),
    default: "30",
    about: "Most files of a level that a process keeps; the oldest goes first. In code: `LogOptions::files`.",
    read_by: "`thalweg::init`",
};

pub(super) const LEVEL: Row = row(LOG_LEVEL, Some("GLOG_v"));
pub(super) const MODULES: Row = row(LOG_MODULES, Some("MS_SUBMODULE_LOG_v"));
pub(super) const TO_STDERR: Row = row(LOG_TO_STDERR, Some("GLOG_logtostderr"));
pub(super) const DIR: Row = row(LOG_DIR, Some("GLOG_log_dir"));
pub(super) const MAX_SIZE: Row = row(LOG_MAX_SIZE, None);
pub(super) const FILES: Row = row(LOG_FILES, None);

const fn row(setting: Setting, alias: Option<&'static str>) -> Row {
    Row { setting, alias }
}
