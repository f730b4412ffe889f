//! How much slower a debug build of a user's program is.

use crate::Result;
use crate::first_build::User;
use crate::process::run as execute;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Most times of the release build.
const MOST: f64 = 1.5;
/// Pairs of runs.
const PAIRS: usize = 7;
/// What [`PROGRAM`] measures.
const CASES: usize = 2;

/// Prints a name and milliseconds a line.
const PROGRAM: &str = r#"use std::time::{Duration, Instant};
use thalweg::{Context, DType, Error, Tensor};

fn least(name: &str, cx: &Context, run: impl Fn() -> Tensor) -> Result<(), Error> {
    let (begun, mut least) = (Instant::now(), Duration::MAX);
    while begun.elapsed() < Duration::from_millis(400) {
        let start = Instant::now();
        let result = run();
        cx.device().synchronize()?;
        least = least.min(start.elapsed());
        drop(result);
    }
    println!("{name} {}", least.as_secs_f64() * 1e3);
    Ok(())
}

fn main() -> Result<(), Error> {
    let cx = Context::new("cpu")?;
    let randn = |shape: [usize; 2]| Tensor::randn(shape, DType::F32, &cx);
    let (a, b, rows) = (randn([512, 512]), randn([512, 512]), randn([1024, 1024]));
    cx.device().synchronize()?;
    least("matmul 512x512x512", &cx, || a.matmul(&b))?;
    least("softmax 1024x1024", &cx, || rows.softmax(1))?;
    Ok(())
}
"#;

/// Builds the program both ways, runs the builds in turns, and compares the medians of what each run found least.
pub(crate) fn run(root: &Path) -> Result<()> {
    let user = User::with(root, PROGRAM)?;
    execute(&mut user.cargo(&["build"]))?;
    execute(&mut user.cargo(&["build", "--release"]))?;
    let mut found = BTreeMap::<String, [Vec<f64>; 2]>::new();
    for _ in 0..PAIRS {
        for (build, folder) in ["debug", "release"].into_iter().enumerate() {
            let output = Command::new(user.folder.join("target").join(folder).join("first")).output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            }
            for (name, ms) in times(&String::from_utf8(output.stdout)?) {
                found.entry(name.to_owned()).or_default()[build].push(ms);
            }
        }
    }
    if found.len() != CASES {
        return Err(format!("the program measured {} cases of {CASES}", found.len()).into());
    }
    println!("{:<22}{:>12}{:>12}{:>8}", "ms", "debug", "release", "times");
    let mut slow = Vec::new();
    for (name, runs) in found {
        let [debug, release] = runs.map(crate::perf::median);
        let ratio = debug / release;
        println!("{name:<22}{debug:>12.3}{release:>12.3}{ratio:>8.2}");
        if ratio > MOST {
            slow.push(name);
        }
    }
    match slow.is_empty() {
        true => Ok(()),
        false => Err(format!("over {MOST} times of the release build: {}", slow.join(", ")).into()),
    }
}

fn times(output: &str) -> impl Iterator<Item = (&str, f64)> {
    output.lines().filter_map(|line| {
        let (name, ms) = line.rsplit_once(' ')?;
        Some((name, ms.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_and_a_time() {
        let lines: Vec<_> = times("matmul 2x2 0.5\nnone\n").collect();
        assert_eq!(lines, [("matmul 2x2", 0.5)]);
    }
}
