//! Which ops compute by their fast form.

use super::defaults;
use crate::error::failure::Refusal;
use crate::graph::FastOps;
use crate::options::by_name::{WrongOption, wrong};
use std::fmt;
use std::str::FromStr;
use thalweg_hal::settings::{Setting, Values, Way};

pub(crate) const OP_SELECT_IMPLMODE: Setting = Setting {
    key: "op_select_implmode",
    variable: "THALWEG_OP_SELECT_IMPLMODE",
    way: Way::Option,
    values: Values::OneOf(&["high_performance", "high_precision"]),
    default: "that of `fast_math`",
    about: "Whether ops that have a fast form and an exact one compute by the fast one in graphs: `add`, `sub`, `mul`, `div` and `conv`, or those of \
            `optypelist_for_implmode`.",
    read_by: "`ContextBuilder`, `SessionOptions`",
};

pub(crate) const OPTYPELIST_FOR_IMPLMODE: Setting = Setting {
    key: "optypelist_for_implmode",
    variable: "THALWEG_OPTYPELIST_FOR_IMPLMODE",
    way: Way::Option,
    values: Values::Range(
        "names out of `add`, `sub`, `mul`, `div`, `conv` with `,` between them; a list of them in files",
    ),
    default: "all of them",
    about: "The ops that `op_select_implmode` is for. It is an error without that option, and so is an op that has one form.",
    read_by: "`ContextBuilder`, `SessionOptions`",
};

/// By which of its two forms an op computes in compiled graphs. Eager ops are exact.
///
/// The fast forms are those of [`ContextBuilder::fast_math`](crate::context::ContextBuilder::fast_math): a quotient by a constant is a
/// product with its reciprocal, constants of nested sums and products are joined, and a product is rounded together with the sum that
/// uses it. Convolutions of three by three taps may go Winograd's way: on the CPU those of f32 do where it pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImplMode {
    /// By the fast form, whatever `fast_math` says.
    HighPerformance,
    /// By the exact form, whatever `fast_math` says.
    HighPrecision,
}

impl ImplMode {
    /// `high_performance` or `high_precision`.
    pub const fn name(self) -> &'static str {
        match self {
            ImplMode::HighPerformance => "high_performance",
            ImplMode::HighPrecision => "high_precision",
        }
    }
}

impl fmt::Display for ImplMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ImplMode {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<ImplMode, Refusal> {
        let both = [ImplMode::HighPerformance, ImplMode::HighPrecision];
        both.into_iter().find(|mode| mode.name() == text).ok_or_else(|| {
            Refusal::new(format!("there is no op_select_implmode {text:?}"))
                .help("it is high_performance or high_precision")
        })
    }
}

/// The ops that a mode is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    mode: ImplMode,
    ops: FastOps,
    /// Whether a list names them.
    listed: bool,
}

/// The ops of a mode and its list.
///
/// # Errors
/// A list without a mode, and an op in it that has one form.
pub(crate) fn selected(
    mode: Option<ImplMode>,
    list: Option<&[String]>,
) -> Result<Option<Selected>, WrongOption> {
    let refused = |value: &str, why: &str| Err(wrong(OPTYPELIST_FOR_IMPLMODE.key, value, why));
    let (mode, list) = match (mode, list) {
        (None, None) => return Ok(None),
        (None, Some(list)) => return refused(&list.join(","), "it needs op_select_implmode"),
        (Some(mode), None) => {
            return Ok(Some(Selected {
                mode,
                ops: FastOps::ALL,
                listed: false,
            }));
        }
        (Some(mode), Some(list)) => (mode, list),
    };
    let mut ops = FastOps::NONE;
    for name in list {
        match FastOps::named(name) {
            Some(op) => ops = ops.with(op),
            None => {
                let names: Vec<&str> = FastOps::names().collect();
                return refused(
                    name,
                    &format!("it takes ops that have two forms: {}", names.join(", ")),
                );
            }
        }
    }
    Ok(Some(Selected {
        mode,
        ops,
        listed: true,
    }))
}

/// The ops that compute by their fast form in a context.
///
/// # Errors
/// Options that contradict each other.
pub(super) fn fast_ops(fast_math: Option<bool>, own: Option<Selected>) -> Result<FastOps, WrongOption> {
    let fast = match fast_math {
        Some(true) => FastOps::ALL,
        Some(false) | None => FastOps::NONE,
    };
    let Some(selected) = own.or(defaults::of_process().implmode) else {
        return Ok(fast);
    };
    let precise = selected.mode == ImplMode::HighPrecision;
    if own.is_some() && !selected.listed && fast_math == Some(precise) {
        let why =
            format!("fast_math is {precise}; give one of the two, or name ops in optypelist_for_implmode");
        return Err(wrong(OP_SELECT_IMPLMODE.key, selected.mode, &why));
    }
    Ok(match precise {
        false => fast.with(selected.ops),
        true => fast.without(selected.ops),
    })
}

/// The names of a list with `,` between them.
pub(crate) fn op_list(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}
