//! The page of settings, from the rows that the code reads; and no variable beside them.

use crate::{Result, files};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use syn::{Expr, Item, Lit};

const PAGE: &str = "docs/settings.md";
const KNOWN: &str = "cli/src/doctor/known.rs";
const HEADER: &str = "hal-api/include/thalweg.h";

/// Variables of the project's own tests and builds; those that start with `THALWEG_TEST_` need no row.
const DEVELOPMENT: [(&str, &str); 4] = [
    (
        "THALWEG_TEST_TARGET",
        "the device of the op tests and acceptance cases; `cpu` without it",
    ),
    (
        "THALWEG_TEST_DATA",
        "the folder of the stored values of the op tests",
    ),
    (
        "THALWEG_FUZZ_CASES",
        "how many random graphs the tests of lowering try",
    ),
    (
        "THALWEG_GOLDEN",
        "`write` makes the golden files of generated kernels anew",
    ),
];

/// Names that are no settings: of plugins that tests build, of settings that had another name, and misspelt ones in tests.
const OTHERS: [&str; 4] = [
    "THALWEG_TINY_NAME",
    "THALWEG_NUM_THREADS",
    "THALWEG_OPENCL_CASHE",
    "THALWEG_ACME_LIBRARIES_AND_MORE",
];

/// A row, as it stands in the source.
#[derive(Debug, Default, PartialEq)]
struct Row {
    key: String,
    variable: String,
    way: String,
    values: String,
    default: String,
    about: String,
    read_by: String,
}

/// Writes the page and the command's list, or compares them with what would be written.
pub(crate) fn run(root: &Path, check: bool) -> Result<()> {
    let sources = sources(root)?;
    let mut rows = Vec::new();
    for (file, text) in &sources {
        rows.extend(rows_of(text).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    rows.sort_by(|a, b| order(a).cmp(&order(b)));
    for row in &rows {
        let variable = format!("THALWEG_{}", row.key.to_uppercase().replace('.', "_"));
        if row.variable != variable {
            return Err(format!(
                "{} has the variable {}; it must be {variable}",
                row.key, row.variable
            )
            .into());
        }
    }
    strangers(&sources, &rows, &fs::read_to_string(root.join(HEADER))?)?;
    for (path, text) in [(PAGE, page(&rows)), (KNOWN, known(&rows))] {
        let path = root.join(path);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if check {
            return Err(format!("{} is stale; run `cargo xtask settings`", path.display()).into());
        }
        fs::write(&path, text)?;
        println!("{}", path.display());
    }
    println!("{} settings", rows.len());
    Ok(())
}

/// The Rust files of the project that could read a variable.
fn sources(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut sources = Vec::new();
    for file in files(root)? {
        let rust = file.extension().is_some_and(|kind| kind == "rs");
        if rust && !file.starts_with("xtask") && !file.ends_with(KNOWN) {
            let text = fs::read_to_string(root.join(&file))?;
            sources.push((file, text));
        }
    }
    Ok(sources)
}

/// The constants of type `Setting` in a file.
fn rows_of(text: &str) -> Result<Vec<Row>> {
    if !text.contains(": Setting = Setting {") {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for item in syn::parse_file(text)?.items {
        let Item::Const(item) = item else { continue };
        let Expr::Struct(row) = *item.expr else { continue };
        if !row.path.is_ident("Setting") {
            continue;
        }
        let mut read = Row::default();
        for field in &row.fields {
            let syn::Member::Named(name) = &field.member else {
                continue;
            };
            let slot = match name.to_string().as_str() {
                "key" => &mut read.key,
                "variable" => &mut read.variable,
                "way" => &mut read.way,
                "values" => &mut read.values,
                "default" => &mut read.default,
                "about" => &mut read.about,
                "read_by" => &mut read.read_by,
                other => return Err(format!("a setting has no field {other}").into()),
            };
            *slot = value(&field.expr)
                .ok_or_else(|| format!("{}: {name} is no literal that this task reads", item.ident))?;
        }
        rows.push(read);
    }
    Ok(rows)
}

/// The text of a field's value.
fn value(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        Expr::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        Expr::Call(call) => value(call.args.first()?),
        Expr::Reference(reference) => value(&reference.expr),
        Expr::Array(array) => {
            let words: Option<Vec<_>> = array.elems.iter().map(value).collect();
            Some(
                words?
                    .iter()
                    .map(|word| format!("`{word}`"))
                    .collect::<Vec<_>>()
                    .join(" or "),
            )
        }
        _ => None,
    }
}

/// Options of contexts first, then what is not a backend's, then each backend's.
fn order(row: &Row) -> (bool, bool, &str) {
    (row.key.contains('.'), row.way != "Option", &row.key)
}

/// Refuses a variable that is read beside the rows, or whose name no row has.
fn strangers(sources: &[(PathBuf, String)], rows: &[Row], header: &str) -> Result<()> {
    let header: BTreeSet<&str> = header
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    let mut wrong = Vec::new();
    for (file, text) in sources {
        let lines = text.lines().enumerate();
        for (number, line) in lines.filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let mut rest = line;
            while let Some(at) = rest.find("\"THALWEG_") {
                let name: &str = rest[at + 1..].split('"').next().unwrap_or("");
                let before = &rest[..at];
                rest = &rest[at + 1 + name.len()..];
                let word = name
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
                let own = name.starts_with("THALWEG_TEST_")
                    || DEVELOPMENT.iter().any(|row| row.0 == name)
                    || OTHERS.contains(&name);
                if !word || name == "THALWEG_" || own || header.contains(name) {
                    continue;
                }
                let place = format!("{}:{}", file.display(), number + 1);
                if !rows.iter().any(|row| row.variable == name) {
                    wrong.push(format!("{place}: {name} is no row of type `Setting`"));
                } else if ["var(", "var_os("].iter().any(|call| before.ends_with(call)) {
                    wrong.push(format!(
                        "{place}: {name} is read beside its row; use `Setting::from_env`"
                    ));
                }
            }
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

fn page(rows: &[Row]) -> String {
    let mut out = String::from(
        "# Settings\n\n\
         This page is written by `cargo xtask settings` from the rows that the code reads.\n\
         `thalweg doctor` shows which variables are set, and reports those that no setting has.\n",
    );
    let mut part = |title: &str, text: &str, belongs: &dyn Fn(&Row) -> bool| {
        let _ = write!(out, "\n## {title}\n\n{text}\n\n");
        out.push_str(
            "| name | variable | values | default | what it does | read by |\n|---|---|---|---|---|---|\n",
        );
        for row in rows.iter().filter(|row| belongs(row)) {
            let words = |text: &str| {
                if text.contains([' ', '`']) {
                    text.to_owned()
                } else {
                    format!("`{text}`")
                }
            };
            let _ = writeln!(
                out,
                "| `{}` | `{}` | {} | {} | {} | {} |",
                row.key,
                row.variable,
                row.values,
                words(&row.default),
                row.about,
                row.read_by
            );
        }
    };
    part(
        "Options of a context",
        "In code, each is a method of `Context::builder()`. In a TOML file, the name is the key: `ContextBuilder::from_file`.\n\
         The variables are read by `ContextBuilder::from_env`. `threads` is also read where no context sets it.",
        &|row| row.way == "Option",
    );
    part(
        "Options of a session",
        "In code, each is a method of `SessionOptions`, which `Runtime::init` takes. In a TOML file, the name is the key:\n\
         `SessionOptions::from_file`. The variables are read by `SessionOptions::from_env`. `precision_mode`\n\
         and `enable_exception_dump` are options of sessions too: they hold for contexts that do not say them.",
        &|row| row.way == "Session",
    );
    part("Of the process", "These are variables alone.", &|row| {
        row.way == "Variable"
    });
    part(
        "Of backends",
        "In code: `thalweg::host::set_config(name, Some(value))`, before the device is opened. It wins over the variable.",
        &|row| row.way == "Config",
    );
    out.push_str("\n## For development\n\n| variable | what it does |\n|---|---|\n");
    for (name, about) in DEVELOPMENT {
        let _ = writeln!(out, "| `{name}` | {about} |");
    }
    out
}

/// The names that `thalweg doctor` knows.
fn known(rows: &[Row]) -> String {
    let names = rows.iter().map(|row| row.variable.as_str());
    let mut names: Vec<_> = names.chain(DEVELOPMENT.iter().map(|row| row.0)).collect();
    names.sort_unstable();
    let mut out = String::from(
        "//! The variables of `docs/settings.md`; written by `cargo xtask settings`.\n\npub(super) const KNOWN: &[&str] = &[\n",
    );
    for name in names {
        let _ = writeln!(out, "    \"{name}\",");
    }
    out.push_str("];\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        pub const TUNE: Setting = Setting {
            key: "acme.tune", variable: "THALWEG_ACME_TUNE", way: Way::Config, values: Values::OneOf(&["on", "off"]),
            default: "on", about: "It tunes.", read_by: "backend acme",
        };
    "#;

    #[test]
    fn rows_are_read_and_strangers_refused() {
        let rows = rows_of(TEXT).unwrap();
        assert_eq!(
            (rows[0].values.as_str(), rows[0].way.as_str()),
            ("`on` or `off`", "Config")
        );
        assert!(page(&rows).contains(
            "| `acme.tune` | `THALWEG_ACME_TUNE` | `on` or `off` | `on` | It tunes. | backend acme |"
        ));
        let judge = |line: &str| {
            let sources = [(PathBuf::from("a.rs"), line.to_owned())];
            strangers(&sources, &rows, "#define THALWEG_ABI_MAJOR 1").map_err(|error| error.to_string())
        };
        judge(TEXT).unwrap();
        judge("assert_eq!(name, \"THALWEG_ABI_MAJOR\"); env(\"THALWEG_TEST_X\")").unwrap();
        let unknown = judge("std::env::var(\"THALWEG_SECRET\")").unwrap_err();
        assert_eq!(unknown, "a.rs:1: THALWEG_SECRET is no row of type `Setting`");
        assert!(
            judge("env::var_os(\"THALWEG_ACME_TUNE\")")
                .unwrap_err()
                .contains("read beside its row")
        );
        assert!(rows_of(&TEXT.replace("\"It tunes.\"", "concat!(1)")).is_err());
    }
}
