//! Whether a Rust plugin's tables are ours, and the one line that says where they are not.

use super::error::LoadError;
use abi_stable::abi_stability::abi_checking::{
    AbiInstability, AbiInstabilityError, AbiInstabilityErrors, ExpectedFound, check_layout_compatibility,
};
use abi_stable::type_layout::{TLFieldOrFunction, TypeLayout};

/// Checks the layout `theirs` of a plugin built against version `built` of the contract.
///
/// # Errors
/// [`LoadError::Layout`] with the first difference that matters.
pub(super) fn check(
    ours: &'static TypeLayout,
    theirs: &'static TypeLayout,
    built: &str,
) -> Result<(), LoadError> {
    // One direction allows for fields that a newer plugin has, the other for those that an older one lacks.
    let Err(forward) = check_layout_compatibility(ours, theirs) else {
        return Ok(());
    };
    if forward.errors.iter().all(|error| is_longer_table(error, false)) {
        return Ok(());
    }
    let Err(backward) = check_layout_compatibility(theirs, ours) else {
        return Ok(());
    };
    let difference = [(&forward, false), (&backward, true)]
        .into_iter()
        .filter_map(|(errors, swapped)| Some((first(errors, swapped)?, swapped)))
        .min_by_key(|((error, instability), swapped)| (is_coarse(instability), *swapped, error.index));
    let (path, difference) = match difference {
        Some(((error, instability), swapped)) => (path(error), describe(error, instability, swapped)),
        None => ("the tables".into(), "they differ".into()),
    };
    Err(LoadError::Layout {
        path,
        difference,
        built: built.into(),
        report: forward.to_string(),
    })
}

/// Whether nothing is wrong but that a table of the plugin goes on behind the functions that this program knows. It calls none of
/// those, whereas a struct of arguments that goes on is read or written past this program's.
fn is_longer_table(error: &AbiInstabilityError, swapped: bool) -> bool {
    let is_field =
        |step: &ExpectedFound<TLFieldOrFunction>| matches!(step.expected, TLFieldOrFunction::Field(_));
    // The root module, a field of it, and what that points to.
    let is_table = error.stack_trace.len() == 3 && error.stack_trace.iter().all(is_field);
    let is_longer = |pair: &ExpectedFound<usize>| {
        let (ours, theirs) = match swapped {
            false => (pair.expected, pair.found),
            true => (pair.found, pair.expected),
        };
        theirs > ours
    };
    // Around a difference the checker lists every type again, with none of its own.
    error.errs.iter().all(|instability| {
        is_table
            && match instability {
                AbiInstability::FieldCountMismatch(pair) | AbiInstability::Size(pair) => is_longer(pair),
                _ => false,
            }
    })
}

/// The difference that explains most: one in a field's type rather than what follows from it for the structs around.
fn first(errors: &AbiInstabilityErrors, swapped: bool) -> Option<(&AbiInstabilityError, &AbiInstability)> {
    let all = errors
        .errors
        .iter()
        .filter(|error| !is_longer_table(error, swapped))
        .flat_map(|error| error.errs.iter().map(move |e| (error, e)));
    all.min_by_key(|(error, instability)| (is_coarse(instability), error.index))
}

fn is_coarse(instability: &AbiInstability) -> bool {
    matches!(
        instability,
        AbiInstability::FieldCountMismatch(_)
            | AbiInstability::Size(_)
            | AbiInstability::Alignment(_)
            | AbiInstability::MismatchedPrefixSize(_)
    )
}

/// `device.properties().compute_units`: fields by dots; an argument is known by its type alone.
fn path(error: &AbiInstabilityError) -> String {
    let mut path = String::new();
    let mut in_call = false;
    for step in &error.stack_trace {
        match &step.expected {
            TLFieldOrFunction::Function(_) => in_call = true,
            TLFieldOrFunction::Field(_) if in_call => {
                in_call = false;
                path.push_str("()");
            }
            // The target of a reference or pointer is a field without a name of its own.
            TLFieldOrFunction::Field(field) if field.name().starts_with(|c: char| c.is_ascii_digit()) => {}
            TLFieldOrFunction::Field(field) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(field.name());
            }
        }
    }
    if path.is_empty() {
        "the root module".into()
    } else {
        path
    }
}

fn describe(error: &AbiInstabilityError, instability: &AbiInstability, swapped: bool) -> String {
    let (expected, found) = match instability {
        AbiInstability::Name(pair) => (pair.expected.to_string(), pair.found.to_string()),
        AbiInstability::FieldCountMismatch(pair) => {
            (format!("{} fields", pair.expected), format!("{}", pair.found))
        }
        AbiInstability::Size(pair) => (format!("{} bytes", pair.expected), format!("{}", pair.found)),
        AbiInstability::Alignment(pair) => (
            format!("an alignment of {}", pair.expected),
            format!("{}", pair.found),
        ),
        AbiInstability::UnexpectedField(pair) => (
            format!("the field `{}`", pair.expected.name()),
            format!("`{}`", pair.found.name()),
        ),
        AbiInstability::MismatchedPrimitive(pair) => {
            (format!("{:?}", pair.expected), format!("{:?}", pair.found))
        }
        AbiInstability::Package(pair) => (pair.expected.to_string(), pair.found.to_string()),
        AbiInstability::PackageVersion(pair) => (pair.expected.to_string(), pair.found.to_string()),
        _ => match error.stack_trace.last() {
            Some(step) => (step.expected.to_string(), step.found.to_string()),
            None => return "the tables differ".into(),
        },
    };
    let (expected, found) = if swapped {
        (found, expected)
    } else {
        (expected, found)
    };
    let line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(
        "this program expects {}, the plugin has {}",
        line(expected),
        line(found)
    )
}

#[cfg(test)]
mod tests;
