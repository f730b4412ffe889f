//! Whether the structs that a plugin was built with are those of this program.

use super::error::LoadError;
use std::collections::HashMap;
use thalweg_hal::manifest::{AbiVersion, ManifestError};

/// Fields with their types, in order.
type Fields<'a> = Vec<(&'a str, &'a str)>;

/// Compares two texts in the form of [`LAYOUT`](thalweg_hal::tables::LAYOUT). `built` is the contract that the plugin names.
///
/// A struct that only one side knows belongs to a table that the other lacks. A table of the plugin may go on behind the functions
/// that this program calls; any other struct is read or written whole.
///
/// # Errors
/// [`LoadError::Layout`] with the first difference; [`LoadError::Manifest`] when `theirs` cannot be read.
pub(super) fn check(ours: &str, theirs: &str, built: AbiVersion) -> Result<(), LoadError> {
    let found: HashMap<&str, Fields<'_>> = structs(theirs)
        .ok_or_else(|| ManifestError::Value {
            key: "layout",
            value: theirs.chars().take(40).collect(),
            expected: "structs read Name{field:type,field:type}",
        })?
        .into_iter()
        .collect();
    let mut differences = Vec::new();
    for (name, expected) in structs(ours).unwrap_or_default() {
        if let Some(found) = found.get(name) {
            differences.extend(difference(name, &expected, found));
        }
    }
    match differences.first() {
        None => Ok(()),
        Some(first) => Err(LoadError::Layout {
            difference: first.clone(),
            built,
            all: differences,
        }),
    }
}

fn difference(name: &str, expected: &Fields<'_>, found: &Fields<'_>) -> Option<String> {
    for (&(field, expected), &(other, found)) in expected.iter().zip(found) {
        if field != other {
            return Some(format!(
                "{name}.{field}: in its place the plugin has the field `{other}`"
            ));
        }
        if expected != found {
            return Some(format!(
                "{name}.{field}: this program expects {expected}, the plugin has {found}"
            ));
        }
    }
    if let Some((lacking, _)) = expected.get(found.len()) {
        return Some(format!("{name}.{lacking}: the plugin lacks it"));
    }
    match found.get(expected.len()) {
        Some((more, _)) if !name.ends_with("Table") => {
            Some(format!("{name}.{more}: this program does not know it"))
        }
        _ => None,
    }
}

fn structs(mut text: &str) -> Option<Vec<(&str, Fields<'_>)>> {
    let mut all = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once('{')?;
        let (body, rest) = rest.split_once('}')?;
        all.push((name, fields(body)?));
        text = rest;
    }
    Some(all)
}

fn fields(body: &str) -> Option<Fields<'_>> {
    let mut depth = 0_i32;
    let apart = |c: char| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    body.split(apart).map(|field| field.split_once(':')).collect()
}

#[cfg(test)]
mod tests;
