//! Options of a configuration by their names: tables of keys, and objects in JSON that are read with them.

use serde_json::Value;
use thalweg_hal::settings::{Setting, Values};

/// What sets a key: `None` for a value of the wrong kind or out of range.
pub type Set<T> = fn(&mut T, &Value) -> Result<Option<()>, WrongOption>;

/// A key of options `T`.
pub struct Key<T: 'static> {
    /// What it is.
    pub facts: OptionKey,
    /// What sets it.
    pub set: Set<T>,
}

/// A key with its default, what it takes and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionKey {
    /// Its name; that of a key inside another is behind a point.
    pub name: &'static str,
    /// Its default.
    pub default: &'static str,
    /// What it takes.
    pub allowed: &'static str,
    /// What it does.
    pub effect: &'static str,
}

/// An option that is a setting, of options `T`.
pub(crate) struct SettingKey<T: 'static> {
    /// Its name, variable, default, what it takes and effect.
    pub(crate) setting: Setting,
    /// What sets it.
    pub(crate) set: Set<T>,
}

impl<T> SettingKey<T> {
    /// The key of a name.
    ///
    /// # Errors
    /// No key has it; those that are most like it are named.
    pub(crate) fn find<'k>(
        keys: &'k [SettingKey<T>],
        name: &str,
        value: &Value,
    ) -> Result<&'k SettingKey<T>, WrongOption> {
        let found = keys.iter().find(|key| key.setting.key == name);
        found.ok_or_else(|| no_such(name, value, keys.iter().map(|key| key.setting.key)))
    }

    /// Sets the option; `name` is what the user called it.
    ///
    /// # Errors
    /// A value that it does not take.
    pub(crate) fn store(&self, to: &mut T, name: &str, value: &Value) -> Result<(), WrongOption> {
        let allowed = match self.setting.values {
            Values::OneOf(words) => words.join(" or "),
            Values::Range(text) => text.to_owned(),
        };
        match (self.set)(to, value)? {
            Some(()) => Ok(()),
            None => Err(wrong(name, value, &format!("it takes {allowed}"))),
        }
    }
}

/// A key, value or combination that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; {allowed}")]
pub struct WrongOption {
    /// Which key.
    pub key: String,
    /// What it is.
    pub value: String,
    /// What it may be.
    pub allowed: String,
}

/// A table of keys. A row has name, default, what it takes and what it does; then the field, and how a value becomes one.
#[doc(hidden)]
#[macro_export]
macro_rules! option_keys {
    ($($name:literal, $default:literal, $allowed:expr, $effect:literal: |$to:ident, $value:ident| $body:expr;)*) => {
        &[$($crate::options::by_name::Key {
            facts: $crate::options::by_name::OptionKey {
                name: $name,
                default: $default,
                allowed: $allowed,
                effect: $effect,
            },
            set: |$to, $value| $body,
        }),*]
    };
}
pub use option_keys;

/// That a key has a value that is not allowed.
pub fn wrong(key: &str, value: impl ToString, allowed: &str) -> WrongOption {
    WrongOption {
        key: one_line(key),
        value: one_line(&value.to_string()),
        allowed: allowed.to_owned(),
    }
}

/// The text, which may be of any length and have many lines, for a message of one.
pub(crate) fn one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(shown).take(80).collect()
}

/// The value of a text in JSON.
///
/// # Errors
/// Text that is none.
pub fn parsed(key: &str, text: &str) -> Result<Value, WrongOption> {
    serde_json::from_str(text).map_err(|error| wrong(key, text, &format!("they are JSON: {error}")))
}

/// Sets the keys of an object.
///
/// # Errors
/// A value that is no object, a key that is not in the table, a value that the key does not take.
pub fn set_all<T>(keys: &'static [Key<T>], to: &mut T, object: &Value) -> Result<(), WrongOption> {
    let Value::Object(object) = object else {
        return Err(wrong("the options", object, "they are an object in JSON"));
    };
    for (name, value) in object {
        let short = |key: &&Key<T>| key.facts.name.rsplit('.').next() == Some(name.as_str());
        let Some(key) = keys.iter().find(short) else {
            let names = keys.iter().filter_map(|key| key.facts.name.rsplit('.').next());
            return Err(no_such(name, value, names));
        };
        (key.set)(to, value)?
            .ok_or_else(|| wrong(name, value, &format!("it takes {}", key.facts.allowed)))?;
    }
    Ok(())
}

/// That there is no key of this name.
fn no_such<'n>(name: &str, value: &Value, names: impl Iterator<Item = &'n str>) -> WrongOption {
    wrong(
        name,
        value,
        &format!("there is no such key; {}", near(name, names)),
    )
}

/// The names that are most like `name`; all of them where none is.
pub fn near<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    nearest(name, names.collect())
}

fn nearest(name: &str, mut known: Vec<&str>) -> String {
    known.sort_unstable();
    known.dedup();
    let far = |known: &&str| distance(name, known);
    let mut close: Vec<&str> = (known.iter().copied())
        .filter(|known| far(known) <= known.len() / 3)
        .collect();
    close.sort_by_key(far);
    close.truncate(3);
    match close.is_empty() {
        true => format!("there are {}", known.join(", ")),
        false => format!("near it are {}", close.join(", ")),
    }
}

/// Letters that must be changed, added or taken away.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

/// Sets a field, if the value is one for it.
///
/// # Errors
/// None; the result is that of [`Key::set`].
pub fn store<T>(to: &mut T, value: Option<T>) -> Result<Option<()>, WrongOption> {
    Ok(value.map(|value| *to = value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let names = || ["conv1", "conv2", "fc1"].into_iter();
        assert_eq!(near("conv3", names()), "near it are conv1, conv2");
        assert_eq!(near("pool", names()), "there are conv1, conv2, fc1");
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "ab"), 2);
    }

    #[test]
    fn a_key_of_many_lines_is_named_in_one() {
        let wrong = set_all::<()>(&[], &mut (), &serde_json::json!({"\nable": "a\nb"}));
        assert_eq!(
            wrong.unwrap_err().to_string(),
            " able is \"a\\nb\"; there is no such key; there are "
        );
    }
}
