//! The modules that lines come from, and which of their lines are wanted.

use super::level::Level;
use crate::options::by_name::{WrongOption, near, wrong};

/// A module: a row for each.
struct Module {
    /// Its name in lines and in filters.
    name: &'static str,
    /// Names of other frameworks for it.
    aliases: &'static [&'static str],
    origin: Origin,
}

/// Where the lines of a module come from.
enum Origin {
    /// Events whose target is one of these or inside of one.
    Paths(&'static [&'static str]),
    /// Records of the backend or layer by this name.
    Backend(&'static str),
    /// Records of other backends and layers.
    AnyBackend,
    /// Everything else.
    Other,
}

/// The target of events that stand for records of backends.
pub(super) const HOST: &str = "thalweg_runtime::host";

/// The module of lines of backends and layers that have no module of their own.
pub(super) const BACKEND: &str = "BACKEND";

/// The first row that fits is the module of an event.
const MODULES: &[Module] = &[
    row("LOADER", &[], Origin::Paths(&["thalweg_runtime::loader"])),
    row("HAL", &["DEVICE"], Origin::Paths(&["thalweg_runtime::hal"])),
    row("THREADS", &[], Origin::Paths(&["thalweg_runtime::parallel"])),
    row(
        "RUNTIME",
        &["RUNTIME_FRAMEWORK"],
        Origin::Paths(&["thalweg_runtime"]),
    ),
    row(
        "GRAPH",
        &["IR", "ANALYZER", "PARSER", "OPTIMIZER"],
        Origin::Paths(&["thalweg::graph", "thalweg::jit", "thalweg::control"]),
    ),
    row(
        "LOWER",
        &["KERNEL", "GRAPH_KERNEL"],
        Origin::Paths(&["thalweg::lower"]),
    ),
    row(
        "EXEC",
        &["VM", "PYNATIVE"],
        Origin::Paths(&["thalweg::exec", "thalweg::engine"]),
    ),
    row(
        "OBSERVE",
        &["DEBUG", "PROFILER"],
        Origin::Paths(&[
            "thalweg::observe",
            "thalweg::record",
            "thalweg::log",
            "thalweg_observe",
        ]),
    ),
    row(
        "SESSION",
        &["PIPELINE"],
        Origin::Paths(&["thalweg::session", "thalweg::context"]),
    ),
    row("CORE", &["COMMON", "UTILS", "BASE"], Origin::Paths(&["thalweg"])),
    row("DATA", &["MD"], Origin::Paths(&["thalweg_nn::data"])),
    row(
        "NN",
        &["ME", "EXPRESS"],
        Origin::Paths(&["thalweg_nn", "thalweg_summary"]),
    ),
    row("CPU", &[], Origin::Backend("cpu")),
    row("OPENCL", &[], Origin::Backend("opencl")),
    row("CUDA", &[], Origin::Backend("cuda")),
    row("REFERENCE", &[], Origin::Backend("reference")),
    row("VALIDATE", &[], Origin::Backend("validate")),
    row("FAULT", &[], Origin::Backend("fault")),
    row(BACKEND, &[], Origin::AnyBackend),
    row("PROGRAM", &[], Origin::Other),
];

const fn row(name: &'static str, aliases: &'static [&'static str], origin: Origin) -> Module {
    Module {
        name,
        aliases,
        origin,
    }
}

impl Module {
    /// Whether the event of this target, of this backend if it is a record of one, belongs to it.
    fn has(&self, target: &str, backend: Option<&str>) -> bool {
        let inside = |path: &&str| {
            let rest = target.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        match (&self.origin, backend) {
            (Origin::Paths(paths), None) => paths.iter().any(inside),
            (Origin::Backend(name), Some(backend)) => *name == backend,
            (Origin::AnyBackend, backend) => backend.is_some(),
            (Origin::Other, _) => true,
            (Origin::Paths(_), Some(_)) | (Origin::Backend(_), None) => false,
        }
    }
}

/// The name of the module that an event belongs to, and its place among the levels of a filter.
fn find(target: &str, backend: Option<&str>) -> (usize, &'static str) {
    let found = MODULES
        .iter()
        .position(|module| module.has(target, backend))
        .unwrap_or(MODULES.len() - 1);
    (found, MODULES[found].name)
}

/// The least level of each module that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    levels: [Level; MODULES.len()],
}

impl Filter {
    /// The least level of all modules, and those of some by their names.
    pub(super) fn new(level: Level, modules: &[(String, Level)]) -> Result<Filter, WrongOption> {
        let mut levels = [level; MODULES.len()];
        let mut named = [false; MODULES.len()];
        for (name, level) in modules {
            let known = |module: &Module| module.name == name || module.aliases.contains(&name.as_str());
            let Some(found) = MODULES.iter().position(known) else {
                let names = MODULES
                    .iter()
                    .flat_map(|module| [module.name].into_iter().chain(module.aliases.iter().copied()));
                let allowed = format!("there is no such module of the log; {}", near(name, names));
                return Err(wrong(name, *level as u8, &allowed));
            };
            if named[found] && levels[found] != *level {
                let allowed = format!("{} has another level already; name it once", MODULES[found].name);
                return Err(wrong(name, *level as u8, &allowed));
            }
            (levels[found], named[found]) = (*level, true);
        }
        Ok(Filter { levels })
    }

    /// The least level that any module has.
    pub(super) fn least(&self) -> Level {
        self.levels.into_iter().min().unwrap_or(Level::Critical)
    }

    /// Whether events of this target may be wanted, up to this level.
    pub(super) fn may_want(&self, target: &str, highest: Level) -> bool {
        match target {
            HOST => self.least() <= highest,
            target => self.levels[find(target, None).0] <= highest,
        }
    }

    /// The module of an event whose level is wanted.
    pub(super) fn wanted(&self, target: &str, backend: Option<&str>, level: Level) -> Option<&'static str> {
        let (module, name) = find(target, backend);
        (self.levels[module] <= level).then_some(name)
    }
}

/// Levels of modules as a text says them: `{LOADER:0,GRAPH:1}`.
pub(super) fn parse(variable: &str, text: &str) -> Result<Vec<(String, Level)>, WrongOption> {
    let refused = || {
        wrong(
            variable,
            format!("{text:?}"),
            "it takes a text such as {LOADER:0,GRAPH:1}, levels from 0 to 4",
        )
    };
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let inner = inner.ok_or_else(refused)?.trim();
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    inner
        .split(',')
        .map(|pair| {
            let (name, level) = pair.split_once(':')?;
            Some((name.trim().to_owned(), Level::of_number(level)?))
        })
        .collect::<Option<_>>()
        .ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_the_first_module_that_fits() {
        let cases = [
            ("thalweg_runtime::loader::registry", None, "LOADER"),
            ("thalweg_runtime::loaders", None, "RUNTIME"),
            ("thalweg::exec::eager", None, "EXEC"),
            ("thalweg", None, "CORE"),
            ("thalweg_nn::model", None, "NN"),
            ("thalweg_nn::data::loader", None, "DATA"),
            ("thalwegs", None, "PROGRAM"),
            (HOST, Some("cuda"), "CUDA"),
            (HOST, Some("acme"), "BACKEND"),
            (HOST, None, "RUNTIME"),
        ];
        for (target, backend, name) in cases {
            assert_eq!(find(target, backend).1, name, "{target}");
        }
    }

    #[test]
    fn names_and_aliases_are_told_apart() {
        let mut names: Vec<&str> = MODULES
            .iter()
            .flat_map(|module| [module.name].into_iter().chain(module.aliases.iter().copied()))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn filters_are_texts() {
        let parsed = parse("V", " { LOADER:0 , MD:3 }").unwrap();
        let filter = Filter::new(Level::Warning, &parsed).unwrap();
        assert_eq!(filter.least(), Level::Debug);
        assert_eq!(
            filter.wanted("thalweg_runtime::loader", None, Level::Debug),
            Some("LOADER")
        );
        assert_eq!(filter.wanted("thalweg_nn::data", None, Level::Warning), None);
        assert_eq!(filter.wanted("thalweg_nn", None, Level::Warning), Some("NN"));
        assert!(filter.may_want(HOST, Level::Debug));
        assert_eq!(filter.wanted(HOST, Some("cpu"), Level::Info), None);
        assert_eq!(parse("V", "{}").unwrap(), []);
        for text in [
            "",
            "LOADER:0",
            "{LOADER}",
            "{LOADER:5}",
            "{LOADER:}",
            "{,}",
            "{LOADER:0,}",
        ] {
            let error = parse("V", text).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("V is {text:?}; it takes a text such as {{LOADER:0,GRAPH:1}}, levels from 0 to 4")
            );
        }
        let twice = parse("V", "{DEVICE:0,HAL:1}").unwrap();
        let error = Filter::new(Level::Error, &twice).unwrap_err().to_string();
        assert_eq!(error, "HAL is 1; HAL has another level already; name it once");
        let error = Filter::new(Level::Error, &[("LOADRE".into(), Level::Info)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "LOADRE is 1; there is no such module of the log; near it are LOADER"
        );
    }
}
