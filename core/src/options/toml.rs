//! Options in TOML, as the values that options in JSON have.

use serde_json::{Map, Value};
use toml::de::{DeArray, DeTable, DeValue, Error};

/// The table that a text is.
///
/// # Errors
/// Text that is no TOML.
pub(crate) fn parsed(text: &str) -> Result<Map<String, Value>, Error> {
    DeTable::parse(text).map(|root| table(root.get_ref()))
}

fn table(rows: &DeTable<'_>) -> Map<String, Value> {
    let rows = rows
        .iter()
        .map(|(key, item)| (key.get_ref().to_string(), value(item.get_ref())));
    rows.collect()
}

fn array(items: &DeArray<'_>) -> Vec<Value> {
    items.iter().map(|item| value(item.get_ref())).collect()
}

/// An integer that no option can have, and a number that JSON has not, is null; a date is its text.
fn value(item: &DeValue<'_>) -> Value {
    match item {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(date) => Value::String(date.to_string()),
        DeValue::Array(items) => Value::Array(array(items)),
        DeValue::Table(rows) => Value::Object(table(rows)),
    }
}
