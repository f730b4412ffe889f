//! The keys, a row each.

use super::{DumpMode, DumpOptions, Figure, FileFormat, InputOutput, OpDebugMode, SavedData};
use crate::dump::iterations::Iterations;
use crate::options::by_name::{Key, WrongOption, option_keys, set_all, store, wrong};
use serde_json::Value;

type Result<T> = std::result::Result<T, WrongOption>;

const BOOL: &str = "true or false";
const OBJECT: &str = "an object";
pub(super) const PATH: &str = "an absolute path; `{r}` in it is the rank";
pub(super) const NET_NAME: &str = "a text of at most 100 bytes without `/`, and neither `.` nor `..`";

pub(super) const KEYS: &[Key<DumpOptions>] = option_keys! {
    "common_dump_settings", "none", OBJECT, "What is dumped.": |to, value| inner(COMMON, to, value);
    "e2e_dump_settings", "none", OBJECT, "Dumps each value before the program goes on.":
        |to, value| inner(E2E, to, value);
    "async_dump_settings", "none", OBJECT, "Dumps by a thread of its own.": |to, value| inner(ASYNC, to, value);
};

pub(super) const COMMON: &[Key<DumpOptions>] = option_keys! {
    "common_dump_settings.dump_mode", "0", "0 for all calls or 1 for those of kernels", "Which calls are dumped.":
        |to, value| number(&mut to.dump_mode, value, &[DumpMode::All, DumpMode::Kernels]);
    "common_dump_settings.path", "none", PATH, "Where the folders lie. They are made with mode 0700.":
        |to, value| text(&mut to.path, value);
    "common_dump_settings.net_name", "Net", NET_NAME, "The folder in the path.": |to, value| text(&mut to.net_name, value);
    "common_dump_settings.iteration", "all", "0 or \"all\" for all, a number, or a list such as \"0|3-5|10\"",
        "Which iterations are dumped; they count from 0.": |to, value| iterations(&mut to.iteration, value);
    "common_dump_settings.input_output", "0", "0 for both, 1 for inputs or 2 for outputs", "Which values of a call are dumped.":
        |to, value| number(&mut to.input_output, value, &[InputOutput::Both, InputOutput::Inputs, InputOutput::Outputs]);
    "common_dump_settings.kernels", "[]", "a list of names, parts of names of ops, and name-regex(…)",
        "The calls that dump_mode 1 dumps. An entry without a call is an error after the first iteration.":
        |to, value| kernels(&mut to.kernels, value);
    "common_dump_settings.support_device", "[0,1,2,3,4,5,6,7]", "a list of numbers of devices",
        "The devices whose values are dumped.": |to, value| devices(&mut to.support_device, value);
    "common_dump_settings.saved_data", "tensor", "tensor, statistic or full", "Elements, figures, or both.":
        |to, value| word(&mut to.saved_data, value,
            &[("tensor", SavedData::Tensor), ("statistic", SavedData::Statistic), ("full", SavedData::Full)]);
    "common_dump_settings.statistic_category", "all", "a list of min, max, mean, l2, nan, inf, zeros, count and hash",
        "Which figures are written.": |to, value| figures(&mut to.statistic_category, value);
    "common_dump_settings.file_format", "npy", "npy or bin", "The form of files.":
        |to, value| word(&mut to.file_format, value, &[("npy", FileFormat::Npy), ("bin", FileFormat::Bin)]);
};

pub(super) const E2E: &[Key<DumpOptions>] = option_keys! {
    "e2e_dump_settings.enable", "false", BOOL, "Dumps each value before the program goes on.":
        |to, value| flag(&mut to.e2e_enable, value);
    "e2e_dump_settings.trans_flag", "true", BOOL, "Elements are in row-major order, which they are in any case.":
        |to, value| flag(&mut to.trans_flag, value);
};

pub(super) const ASYNC: &[Key<DumpOptions>] = option_keys! {
    "async_dump_settings.enable", "false", BOOL,
        "Dumps by a thread of its own. At most 256 MiB wait for it; then the program does.":
        |to, value| flag(&mut to.async_enable, value);
    "async_dump_settings.op_debug_mode", "0", "0 for all calls, or those that overflow: 1 ops, 2 reductions and scatters, 3 both",
        "Dumps calls that overflow alone.":
        |to, value| number(&mut to.op_debug_mode, value,
            &[OpDebugMode::Off, OpDebugMode::Ops, OpDebugMode::Reductions, OpDebugMode::Both]);
};

fn inner(keys: &'static [Key<DumpOptions>], to: &mut DumpOptions, value: &Value) -> Result<Option<()>> {
    match value.is_object() {
        true => set_all(keys, to, value).map(Some),
        false => Ok(None),
    }
}

fn flag(to: &mut bool, value: &Value) -> Result<Option<()>> {
    store(to, value.as_bool())
}

fn text(to: &mut String, value: &Value) -> Result<Option<()>> {
    store(to, value.as_str().map(str::to_owned))
}

/// One of `known` by its number.
fn number<T: Copy>(to: &mut T, value: &Value, known: &[T]) -> Result<Option<()>> {
    let at = value.as_u64().and_then(|number| usize::try_from(number).ok());
    store(to, at.and_then(|at| known.get(at)).copied())
}

/// One of `known` by its word.
fn word<T: Copy>(to: &mut T, value: &Value, known: &[(&str, T)]) -> Result<Option<()>> {
    let found = known.iter().find(|(word, _)| value.as_str() == Some(word));
    store(to, found.map(|(_, known)| *known))
}

fn iterations(to: &mut Iterations, value: &Value) -> Result<Option<()>> {
    let read = match (value.as_str(), value.as_u64()) {
        (Some(text), _) => Some(Iterations::parse("iteration", text)?),
        (None, Some(0)) => Some(Iterations::ALL),
        (None, Some(one)) => Some(Iterations::one(one)),
        (None, None) => None,
    };
    store(to, read)
}

fn kernels(to: &mut Vec<String>, value: &Value) -> Result<Option<()>> {
    let texts = value.as_array().and_then(|list| {
        let texts = list.iter().map(|text| text.as_str().map(str::to_owned));
        texts.collect::<Option<Vec<_>>>()
    });
    store(to, texts)
}

fn devices(to: &mut Vec<u32>, value: &Value) -> Result<Option<()>> {
    let numbers = value.as_array().and_then(|list| {
        let numbers = list
            .iter()
            .map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()));
        numbers.collect::<Option<Vec<_>>>()
    });
    store(to, numbers)
}

fn figures(to: &mut Vec<Figure>, value: &Value) -> Result<Option<()>> {
    let Some(list) = value.as_array() else {
        return Ok(None);
    };
    let mut figures = Vec::new();
    for name in list {
        let known = Figure::ALL
            .into_iter()
            .find(|figure| name.as_str() == Some(figure.name()));
        let Some(figure) = known else {
            let allowed = "its entries are min, max, mean, l2, nan, inf, zeros, count and hash";
            return Err(wrong("statistic_category", name, allowed));
        };
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    store(to, Some(figures))
}
