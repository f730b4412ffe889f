//! The machine and the environment, as far as they matter for backends.

use super::known::KNOWN;
use crate::text;
use std::fs;
use std::path::Path;
use thalweg::loader::discover::{PATH_VARIABLE, privileged};
use thalweg::loader::features;
use thalweg::parallel::THREADS;

pub(super) fn machine() -> Vec<[String; 2]> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let huge = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok();
    let mut rows = vec![row(
        "processor",
        format!("{}, {} for this process", model(), text::count(cores, "core")),
    )];
    let names: Vec<_> = features::present().collect();
    for (number, names) in names.chunks(12).enumerate() {
        rows.push(row(if number == 0 { "features" } else { "" }, names.join(" ")));
    }
    rows.push(row("memory", memory()));
    rows.push(row("huge pages", huge_pages(huge.as_deref())));
    rows
}

fn row(name: &str, text: String) -> [String; 2] {
    [name.to_owned(), text]
}

pub(super) fn environment(cache: Option<&Path>) -> Vec<[String; 2]> {
    let value = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let shown = |name: &str| value(name).unwrap_or_else(|| "not set".into());
    let path = match value(PATH_VARIABLE) {
        Some(value) if privileged() => format!("{value} (ignored: the program runs with raised privileges)"),
        _ => shown(PATH_VARIABLE),
    };
    let mut rows = vec![
        row(PATH_VARIABLE, path),
        row(THREADS.variable, threads(value(THREADS.variable).as_deref())),
    ];
    rows.extend(["LD_LIBRARY_PATH", "LD_PRELOAD"].map(|name| row(name, shown(name))));
    // Backends read settings of their own under this prefix.
    let others = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut others: Vec<_> = others
        .filter(|name| {
            name.starts_with("THALWEG_") && ![PATH_VARIABLE, THREADS.variable].contains(&name.as_str())
        })
        .collect();
    others.sort();
    rows.extend(others.iter().map(|name| {
        let note = unknown(name).map_or_else(String::new, |note| format!(" ({note})"));
        row(name, shown(name) + &note)
    }));
    rows.push(row(
        "trials",
        match cache {
            Some(path) if path.exists() => {
                format!("remembered in {}; bad ones are tried again now", path.display())
            }
            Some(path) => format!("to be remembered in {}", path.display()),
            None => "not remembered: neither XDG_CACHE_HOME nor HOME names a folder".into(),
        },
    ));
    rows
}

/// What is wrong with a variable whose name no setting has.
fn unknown(name: &str) -> Option<String> {
    if KNOWN.contains(&name) {
        return None;
    }
    let nearest = KNOWN.iter().map(|known| (distance(name, known), known)).min();
    Some(match nearest {
        Some((0..=4, known)) => format!("not read: no setting has this name; did you mean {known}?"),
        _ => "unknown: no setting has this name, unless a plugin of somebody else reads it".into(),
    })
}

/// How many characters must be inserted, removed or replaced to make one text the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

fn threads(value: Option<&str>) -> String {
    let cores = text::count(
        std::thread::available_parallelism().map_or(1, usize::from),
        "thread",
    );
    match value {
        None => format!("not set ({cores}, one for each core)"),
        Some(value) if value.parse::<usize>().is_ok_and(|number| number > 0) => value.into(),
        Some(value) => format!("{value} (ignored: not a positive number; {cores})"),
    }
}

fn model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.trim().into())
}

fn memory() -> String {
    let Ok(text) = fs::read_to_string("/proc/meminfo") else {
        return "unknown (no /proc/meminfo)".into();
    };
    let bytes = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
            .map(|kib| kib << 10)
    };
    let (Some(total), Some(free)) = (bytes("MemTotal:"), bytes("MemAvailable:")) else {
        return "unknown (/proc/meminfo has another form)".into();
    };
    let whole = format!("{}, {} free", text::bytes(total), text::part(free, total));
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    match limit
        .and_then(|text| text.trim().parse::<u64>().ok())
        .filter(|limit| *limit < total)
    {
        Some(limit) => format!("{whole}; the control group allows {}", text::bytes(limit)),
        None => whole,
    }
}

/// What the setting of transparent huge pages means; the chosen word stands in brackets.
fn huge_pages(setting: Option<&str>) -> String {
    let chosen = setting
        .and_then(|text| text.split_once('[')?.1.split_once(']'))
        .map(|(word, _)| word);
    match chosen {
        Some(word @ ("always" | "madvise")) => format!("{word} (large tensors get them)"),
        Some("never") => "never (large tensors are slower to touch first; \
             `echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled` changes it)"
            .into(),
        Some(other) => other.into(),
        None => "this system does not say".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_explained() {
        assert_eq!(
            huge_pages(Some("always [madvise] never\n")),
            "madvise (large tensors get them)"
        );
        assert!(huge_pages(Some("always madvise [never]\n")).starts_with("never (large tensors are slower"));
        assert_eq!(huge_pages(None), "this system does not say");
        assert_eq!(unknown("THALWEG_OPENCL_CACHE"), None);
        let note = |name| unknown(name).unwrap();
        assert!(note("THALWEG_NUM_THREADS").ends_with("did you mean THALWEG_THREADS?"));
        assert!(note("THALWEG_OPENCL_CASHE").ends_with("did you mean THALWEG_OPENCL_CACHE?"));
        assert!(note("THALWEG_ACME_LIBRARIES_AND_MORE").starts_with("unknown: "));
        assert_eq!((distance("", "abc"), distance("kitten", "sitting")), (3, 3));
        assert_eq!(threads(Some("3")), "3");
        assert!(threads(Some("many")).starts_with("many (ignored: not a positive number; "));
        assert!(threads(None).starts_with("not set ("));
    }
}
