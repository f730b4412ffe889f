//! Two dumps of values: the first op that differs, and how its error grows.
//!
//! ```no_run
//! let diff = thalweg_observe::diff("cpu-run".as_ref(), "cuda-run".as_ref())?;
//! print!("{diff}");
//! # Ok::<(), thalweg_observe::Error>(())
//! ```

mod compare;
mod dump;
mod html;
#[cfg(test)]
mod tests;

use crate::error::Result;
use dump::{Dump, Entry};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

/// Values that are listed behind the first one that differs.
const SHOWN: usize = 10;

/// What two dumps have in common, and what not.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Diff {
    /// Values that both have.
    pub compared: usize,
    /// How many of them come before the first that differs.
    pub equal: usize,
    /// The devices.
    pub devices: [String; 2],
    /// Whether every bit had to be equal, as on one device.
    pub exact: bool,
    /// Every value that both have, in the order of calls.
    pub values: Vec<Value>,
    /// The values that differ, in the order of calls.
    pub differences: Vec<Difference>,
    /// Names of values that only the first has, and of those that only the second has.
    pub only: [Vec<String>; 2],
}

/// A value that both have.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Value {
    /// The call of the op: `Default/head/softmax-op3`.
    pub name: String,
    /// `output 0`.
    pub port: String,
    /// The user's line.
    pub line: Option<String>,
    /// `f32[2,10]`.
    pub ty: String,
    /// In which iteration, counted from 0.
    pub iteration: u64,
    /// The largest error of an element, as a share of the largest element of both; infinite where it has no size, as of another type, a
    /// number that is none, or values that have no elements in the dumps.
    pub error: f64,
    /// The error that is allowed; 0 where every bit counts.
    pub allowed: f64,
    /// Whether it differs.
    pub differs: bool,
}

/// A value that differs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The call of the op: `Default/head/softmax-op3`.
    pub name: String,
    /// `output 0`.
    pub port: String,
    /// The user's line.
    pub line: Option<String>,
    /// `f32[2,10]`.
    pub ty: String,
    /// In which iteration, counted from 0.
    pub iteration: u64,
    /// How.
    pub kind: Kind,
}

/// How two values differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// They have other dtypes or shapes.
    Types {
        /// Of the first dump.
        a: String,
        /// Of the second.
        b: String,
    },
    /// Some elements do.
    Elements(Wrong),
    /// Their sums do, and the dumps have no elements.
    Sums,
    /// A figure does, and the dumps have no elements.
    Figures {
        /// Which.
        name: String,
        /// Of the first dump.
        a: f64,
        /// Of the second.
        b: f64,
    },
}

/// Elements that differ. Errors are shares of the largest element of both values.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wrong {
    /// The first of them.
    pub index: Vec<usize>,
    /// It in the first dump.
    pub a: f64,
    /// It in the second dump.
    pub b: f64,
    /// Its error; infinite where one of them is no number.
    pub error: f64,
    /// The largest error.
    pub largest: f64,
    /// How many there are.
    pub count: usize,
    /// Elements of the value.
    pub of: usize,
    /// The error that is allowed; 0 where every bit counts.
    pub allowed: f64,
}

/// Compares two dumps: folders of iterations, or folders around them. Dumps of one device have to be equal bit for bit. Those of
/// two devices may differ by what their dtypes allow: 1e-5 of the largest element in f32, 2e-14 in f64, 4e-3 in f16. Integers
/// may not.
///
/// # Errors
/// A path without a dump; files that cannot be read or do not fit to their manifest.
pub fn diff(a: &Path, b: &Path) -> Result<Diff> {
    let (one, other) = (dump::read(a)?, dump::read(b)?);
    let mut diff = Diff {
        devices: [&one, &other]
            .map(|dumps| dumps.first().map(|dump| dump.device.clone()).unwrap_or_default()),
        ..Diff::default()
    };
    diff.exact = diff.devices[0] == diff.devices[1];
    let mut unpaired: Vec<Option<&Dump>> = other.iter().map(Some).collect();
    for dump in &one {
        let pair = unpaired
            .iter_mut()
            .find(|other| other.is_some_and(|other| other.iteration == dump.iteration));
        match pair.and_then(Option::take) {
            Some(other) => diff.add(dump, other)?,
            None => diff.only[0].push(format!("iteration {}", dump.iteration)),
        }
    }
    let rest = unpaired.into_iter().flatten();
    diff.only[1].extend(rest.map(|dump| format!("iteration {}", dump.iteration)));
    Ok(diff)
}

/// What pairs values: name, port, and how often both came before, as in the turns of a loop.
type Key<'a> = (&'a str, &'a str, usize, usize);

fn keys(dump: &Dump) -> Vec<(Key<'_>, &Entry)> {
    let mut counts: HashMap<(&str, &str, usize), usize> = HashMap::new();
    let keyed = dump.values.iter().map(|entry| {
        let own = (entry.name.as_str(), entry.io.as_str(), entry.slot);
        let count = counts.entry(own).or_default();
        *count += 1;
        ((own.0, own.1, own.2, *count), entry)
    });
    keyed.collect()
}

impl Diff {
    /// Whether both have the same values.
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty() && self.only.iter().all(Vec::is_empty)
    }

    /// Compares the values of one iteration.
    fn add(&mut self, one: &Dump, other: &Dump) -> Result<()> {
        let (values, others) = (keys(one), keys(other));
        let found: HashMap<Key<'_>, &Entry> = others.iter().copied().collect();
        for (key, entry) in &values {
            let Some(pair) = found.get(key) else {
                self.only[0].push(entry.name.clone());
                continue;
            };
            self.compared += 1;
            let found = compare::compare((one, entry), (other, pair), self.exact)?;
            let value = Value {
                name: entry.name.clone(),
                port: format!("{} {}", entry.io, entry.slot),
                line: entry.line.clone(),
                ty: entry.ty(),
                iteration: one.iteration,
                error: found.error,
                allowed: found.allowed,
                differs: found.kind.is_some(),
            };
            match found.kind {
                None if self.differences.is_empty() => self.equal += 1,
                None => {}
                Some(kind) => self.differences.push(Difference {
                    name: value.name.clone(),
                    port: value.port.clone(),
                    line: value.line.clone(),
                    ty: value.ty.clone(),
                    iteration: value.iteration,
                    kind,
                }),
            }
            self.values.push(value);
        }
        let known: HashSet<Key<'_>> = values.into_iter().map(|(key, _)| key).collect();
        let more = others.iter().filter(|(key, _)| !known.contains(key));
        self.only[1].extend(more.map(|(_, entry)| entry.name.clone()));
        Ok(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Types { a, b } => write!(f, "{a} and {b}"),
            Kind::Elements(wrong) => write!(f, "{:.1e}", wrong.largest),
            Kind::Sums => f.write_str("other bits"),
            Kind::Figures { name, a, b } => write!(f, "{name} {a} and {b}"),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if let Some(line) = &self.line {
            write!(f, " ({line})")?;
        }
        write!(f, ", {}, {}, iteration {}: ", self.port, self.ty, self.iteration)?;
        match &self.kind {
            Kind::Elements(wrong) => {
                let Wrong {
                    index,
                    a,
                    b,
                    error,
                    largest,
                    count,
                    of,
                    allowed,
                } = wrong;
                write!(f, "{error:.1e} at {index:?}, {a} and {b}, allowed {allowed:.0e}")?;
                write!(
                    f,
                    "\n  {count} of {of} elements differ, by at most {largest:.1e} of the largest element"
                )
            }
            kind => write!(f, "{kind}"),
        }
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b] = &self.devices;
        let how = match self.exact {
            true => format!("bit for bit, on {a}"),
            false => format!("as far as dtypes allow, on {a} and {b}"),
        };
        match self.differences.split_first() {
            None => writeln!(f, "equal: {} values, {how}", self.compared)?,
            Some((first, onward)) => {
                writeln!(
                    f,
                    "equal for {} values, {how}; first difference in {first}",
                    self.equal
                )?;
                let behind = self.compared - self.equal - 1;
                writeln!(f, "onward {} of {behind} values differ", onward.len())?;
                // The last one says how far the error has grown.
                let head = onward.len().min(SHOWN - 1);
                for (at, later) in onward.iter().enumerate() {
                    match at {
                        at if at < head || at + 1 == onward.len() => {
                            writeln!(f, "  {}, {}: {}", later.name, later.port, later.kind)?;
                        }
                        at if at == head => writeln!(f, "  …")?,
                        _ => {}
                    }
                }
            }
        }
        for (only, which) in self.only.iter().zip(["first", "second"]) {
            if let Some(name) = only.first() {
                writeln!(f, "only in the {which}: {} values, such as {name}", only.len())?;
            }
        }
        Ok(())
    }
}
