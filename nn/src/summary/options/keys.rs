//! The keys, a row each.

use super::{CreateLandscape, Custom, ExportOptions, LandscapeOptions, SpecifiedData, SummaryOptions, Unit};
use serde_json::Value;
use thalweg::options::by_name::{Key, WrongOption, option_keys, set_all, store};

type Result<T> = std::result::Result<T, WrongOption>;

const BOOL: &str = "true or false";
const COUNT: &str = "a whole number from 1";

pub(super) const KEYS: &[Key<SummaryOptions>] = option_keys! {
    "summary_dir", "output/summary/rank_{r}", "a path; `{r}` is the rank", "The folder, which is made.":
        |to, value| store(&mut to.summary_dir, value.as_str().filter(|path| !path.is_empty()).map(str::to_owned));
    "collect_freq", "10", COUNT, "Step 1 and the multiples of this are collected.":
        |to, value| store(&mut to.collect_freq, count(value));
    "collect_tensor_freq", "none", "a whole number from 1, or null",
        "The same for tensors. None: as collect_freq where that gives at most 20 steps, else 20 steps over the training.":
        |to, value| store(&mut to.collect_tensor_freq, or_none(value, count));
    "collect_specified_data", "all", "an object, or null", "What is collected.":
        |to, value| specified(&mut to.collect_specified_data, value);
    "keep_default_action", "true", BOOL, "Whether what collect_specified_data does not say is collected.":
        |to, value| store(&mut to.keep_default_action, value.as_bool());
    "custom_lineage_data", "none", "an object of texts and numbers by name, or null", "Hyperparameters of your own.":
        |to, value| custom(to, value);
    "max_file_size", "none", "a whole number of bytes from 1, or null",
        "A file that would be longer is followed by the next one. A longer record has a file of its own.":
        |to, value| store(&mut to.max_file_size, or_none(value, count));
    "export_options", "none", "an object with tensor_format, or null", "Other files for tensors. They have no limit.":
        |to, value| export(&mut to.export_options, value);
};

pub(super) const SPECIFIED: &[Key<SpecifiedData>] = option_keys! {
    "collect_specified_data.collect_metric", "true", BOOL, "The loss as `loss/auto`; its mean where it has several elements.":
        |to, value| flag(&mut to.collect_metric, value);
    "collect_specified_data.collect_graph", "true", BOOL, "The graph of the first step.":
        |to, value| flag(&mut to.collect_graph, value);
    "collect_specified_data.collect_train_lineage", "true", BOOL, "Hyperparameters, in `lineage.json` and as HPARAMS.":
        |to, value| flag(&mut to.collect_train_lineage, value);
    "collect_specified_data.collect_eval_lineage", "true", BOOL,
        "Figures of the evaluation after each epoch, in `lineage.json` and as `eval/…`.":
        |to, value| flag(&mut to.collect_eval_lineage, value);
    "collect_specified_data.collect_input_data", "true", BOOL, "Batches `[n, channels, height, width]` as images `input_data/auto`.":
        |to, value| flag(&mut to.collect_input_data, value);
    "collect_specified_data.collect_dataset_graph", "true", BOOL, "How the data becomes batches, in `lineage.json`.":
        |to, value| flag(&mut to.collect_dataset_graph, value);
    "collect_specified_data.histogram_regular", "the first five", "a regular expression, or null",
        "Histograms of the parameters whose name begins with a match.":
        |to, value| store(&mut to.histogram_regular, or_none(value, |value| value.as_str().map(str::to_owned)));
    "collect_specified_data.collect_landscape", "none", "an object, or null", "Keeps weights for `summary::landscape`.":
        |to, value| landscape(&mut to.collect_landscape, value);
};

pub(super) const LANDSCAPE: &[Key<LandscapeOptions>] = option_keys! {
    "collect_landscape.landscape_size", "40", "a whole number from 3 to 256", "Points of a side.":
        |to, value| store(&mut to.landscape_size, value.as_u64());
    "collect_landscape.unit", "step", "\"step\" or \"epoch\"", "What intervals count.":
        |to, value| unit(&mut to.unit, value);
    "collect_landscape.create_landscape", "both true", "an object with train and result, each true or false",
        "Landscapes around the way of the weights, and around the last ones.":
        |to, value| create(&mut to.create_landscape, value);
    "collect_landscape.num_samples", "128", COUNT, "Samples that the loss of a point is the mean of.":
        |to, value| store(&mut to.num_samples, count(value));
    "collect_landscape.intervals", "up to 10 over the training", "lists of at least 3 whole numbers from 1 that rise",
        "Steps or epochs at which weights are kept, a list for each landscape.":
        |to, value| intervals(&mut to.intervals, value);
};

pub(super) const EXPORT: &[Key<ExportOptions>] = option_keys! {
    "export_options.tensor_format", "none", "\"npy\"",
        "Tensors are written to `export_{time}/tensor/{tag}_{step}.npy` too.":
        |to, value| store(&mut to.npy, (value.as_str() == Some("npy")).then_some(true));
};

fn count(value: &Value) -> Option<u64> {
    value.as_u64().filter(|count| *count > 0)
}

/// The value, or none for null; `None` for what is neither.
fn or_none<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    match value.is_null() {
        true => Some(None),
        false => read(value).map(Some),
    }
}

fn flag(to: &mut Option<bool>, value: &Value) -> Result<Option<()>> {
    store(to, value.as_bool().map(Some))
}

fn unit(to: &mut Unit, value: &Value) -> Result<Option<()>> {
    let known = [("step", Unit::Step), ("epoch", Unit::Epoch)];
    let found = known.iter().find(|(word, _)| value.as_str() == Some(word));
    store(to, found.map(|(_, unit)| *unit))
}

fn specified(to: &mut SpecifiedData, value: &Value) -> Result<Option<()>> {
    if value.is_object() {
        set_all(SPECIFIED, to, value)?;
    }
    Ok((value.is_object() || value.is_null()).then_some(()))
}

fn landscape(to: &mut Option<LandscapeOptions>, value: &Value) -> Result<Option<()>> {
    let mut options = LandscapeOptions::default();
    if !value.is_object() {
        return store(to, value.is_null().then_some(None));
    }
    set_all(LANDSCAPE, &mut options, value)?;
    store(to, Some(Some(options)))
}

fn create(to: &mut CreateLandscape, value: &Value) -> Result<Option<()>> {
    const FLAGS: &[Key<CreateLandscape>] = option_keys! {
        "train", "true", BOOL, "": |to, value| store(&mut to.train, value.as_bool());
        "result", "true", BOOL, "": |to, value| store(&mut to.result, value.as_bool());
    };
    if value.is_object() {
        set_all(FLAGS, to, value)?;
    }
    Ok(value.is_object().then_some(()))
}

fn intervals(to: &mut Vec<Vec<u64>>, value: &Value) -> Result<Option<()>> {
    let numbers = |list: &Value| -> Option<Vec<u64>> { list.as_array()?.iter().map(Value::as_u64).collect() };
    let lists = value
        .as_array()
        .and_then(|lists| lists.iter().map(numbers).collect());
    store(to, lists)
}

fn export(to: &mut Option<ExportOptions>, value: &Value) -> Result<Option<()>> {
    let mut options = ExportOptions::default();
    if !value.is_object() {
        return store(to, value.is_null().then_some(None));
    }
    set_all(EXPORT, &mut options, value)?;
    // An object without its one key asks for nothing.
    store(to, options.npy.then_some(Some(options)))
}

fn custom(to: &mut SummaryOptions, value: &Value) -> Result<Option<()>> {
    if value.is_null() {
        to.custom_lineage_data.clear();
        return Ok(Some(()));
    }
    let Some(object) = value.as_object() else {
        return Ok(None);
    };
    for (name, value) in object {
        let custom = match value {
            Value::String(text) => Custom::Text(text.clone()),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => Custom::Int(number),
                (None, Some(number)) => Custom::Float(number),
                (None, None) => return Ok(None),
            },
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return Ok(None),
        };
        to.custom_lineage_data.insert(name.clone(), custom);
    }
    Ok(Some(()))
}
