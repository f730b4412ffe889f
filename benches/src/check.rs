//! Checks a machine with the prebuilt programs of a kit (`cargo xtask gpu-kit`): `check --kit FOLDER [--small] [--cpu] [OUT]`.
//!
//! Runs the conformance kit, the acceptance rows, every op test, a training and the device's figures on the first CUDA device, or with
//! `--cpu` on the CPU. Where `python3` has PyTorch, its figures stand beside. Writes `results.json` and `results.txt`. Ends
//! with 1 when something failed, and with 3 and one line that says why when there is no CUDA device.
#![expect(
    clippy::print_stdout,
    reason = "progress and the table are what the program is for"
)]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The longest that a step may take.
const LIMIT: Duration = Duration::from_secs(1800);
/// Processes of the conformance kit. On an H200, eleven beside the op tests took longer than one would.
const JOBS: &str = "4";
/// What is asked of a device, in its own figures: the case, the figure that is the measure, and the least share of it.
const SHARES: [(&str, &str, f64); 5] = [
    ("map relu(a * b + c)", "copy on the device, read and write", 0.85),
    (
        "softmax of rows of 1024",
        "copy on the device, read and write",
        0.85,
    ),
    (
        "layer norm of rows of 1024",
        "copy on the device, read and write",
        0.85,
    ),
    ("energy_copied", "copy to the device, pinned", 0.9),
    ("energy_copied_streams", "copy to the device, pinned", 0.9),
];
/// What is asked of a device in nanoseconds.
const TIMES: [(&str, f64); 1] = [("graph, a kernel of it", 1500.0)];
/// Share of PyTorch's rate that is asked of what PyTorch was measured for too.
const PEER: f64 = 0.95;

/// Exit code where there is no CUDA device.
const NO_DEVICE: u8 = 3;

/// What a run came to.
enum Verdict {
    Passed,
    Failed,
    /// There is no CUDA device, and why.
    NoDevice(String),
}

struct Check {
    kit: PathBuf,
    out: PathBuf,
    small: bool,
    steps: Vec<Step>,
}

/// How a step ended: `passed`, `failed` or `skipped`.
struct Step {
    name: String,
    outcome: &'static str,
    seconds: f64,
    detail: String,
}

struct Finished {
    text: String,
    passed: bool,
    detail: String,
}

fn main() -> ExitCode {
    match run() {
        Ok(Verdict::Passed) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::FAILURE,
        Ok(Verdict::NoDevice(why)) => {
            println!("{why}");
            ExitCode::from(NO_DEVICE)
        }
        Err(error) => {
            println!("check: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Verdict, Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let at = words.iter().position(|word| word == "--kit");
    let kit = at
        .and_then(|at| words.get(at + 1))
        .ok_or("usage: check --kit FOLDER [--small] [--cpu] [OUT]")?;
    let known = ["--kit", "--small", "--cpu"];
    let is_unknown = |word: &&String| word.starts_with("--") && !known.contains(&word.as_str());
    if let Some(word) = words.iter().find(is_unknown) {
        return Err(format!("unknown option {word}; there are {}", known.join(", ")).into());
    }
    let rest = words
        .iter()
        .enumerate()
        .filter(|(index, word)| !word.starts_with("--") && at.is_none_or(|at| *index != at + 1));
    let kit = PathBuf::from(kit).canonicalize()?;
    let out = rest
        .map(|(_, word)| PathBuf::from(word))
        .next()
        .unwrap_or_else(|| kit.clone());
    fs::create_dir_all(&out)?;
    let mut check = Check {
        kit,
        out: out.canonicalize()?,
        small: words.iter().any(|word| word == "--small"),
        steps: Vec::new(),
    };
    let survey: Value = serde_json::from_str(
        &check
            .execute("devices", "thalweg", &["devices", "--json"], &[])
            .text,
    )
    .map_err(|error| format!("`thalweg devices --json`: {error}"))?;
    let (target, cuda) = match cuda_of(&survey) {
        _ if words.iter().any(|word| word == "--cpu") => ("cpu".to_owned(), false),
        Ok(target) => (target, true),
        Err(why) => {
            let line = format!("no CUDA device: {why}; nothing was checked (`--cpu` checks the CPU)");
            check.steps.push(Step {
                name: "everything".into(),
                outcome: "skipped",
                seconds: 0.0,
                detail: line.clone(),
            });
            check.write(&survey, "none", &BTreeMap::new())?;
            return Ok(Verdict::NoDevice(line));
        }
    };
    let figures = check.all(&target, cuda);
    println!("\n{}", check.write(&survey, &target, &figures)?);
    Ok(match check.steps.iter().any(|step| step.outcome == "failed") {
        true => Verdict::Failed,
        false => Verdict::Passed,
    })
}

/// The first CUDA device, or why there is none.
fn cuda_of(survey: &Value) -> Result<String, String> {
    let rows = |key: &str| survey[key].as_array().cloned().unwrap_or_default();
    let is_cuda = |row: &Value| {
        row["target"]
            .as_str()
            .is_some_and(|target| target.starts_with("cuda"))
    };
    let text = |row: &Value, key: &str| row[key].as_str().map(str::to_owned);
    if let Some(target) = rows("devices")
        .iter()
        .find(|row| is_cuda(row))
        .and_then(|row| text(row, "target"))
    {
        return Ok(target);
    }
    let reason = rows("unusable")
        .iter()
        .find(|row| is_cuda(row))
        .and_then(|row| text(row, "reason"));
    Err(reason.unwrap_or_else(|| "there is no CUDA plugin in the kit".into()))
}

/// A case's figures: its unit, ours, and PyTorch's.
#[derive(Default)]
struct Figure {
    unit: String,
    ours: Option<f64>,
    torch: Option<f64>,
}

impl Check {
    fn all(&mut self, target: &str, cuda: bool) -> BTreeMap<String, Figure> {
        let plugin = if cuda {
            self.kit
                .join("bin/backends/libthalweg_cuda.so")
                .display()
                .to_string()
        } else {
            "cpu".into()
        };
        let cores = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .to_string();
        let mut conform = vec!["conform", &plugin, "--jobs", JOBS];
        if self.small {
            conform.extend(["--filter", "memory/*"]);
        }
        self.step(&format!("conformance of {target}"), "thalweg", &conform, &[]);
        let data = self.kit.join("data").display().to_string();
        let env = [
            ("THALWEG_TEST_TARGET", target),
            ("THALWEG_TEST_DATA", data.as_str()),
        ];
        self.step(
            &format!("acceptance rows on {target}"),
            "acceptance",
            &["--test-threads=1"],
            &env,
        );
        self.step(
            &format!("op tests on {target}"),
            "ops",
            &["chosen::", &format!("--test-threads={cores}")],
            &env,
        );
        let weights = self.out.join("digits").display().to_string();
        let epochs = if self.small { "1" } else { "15" };
        let train = ["--device-target", target, "--epochs", epochs, "--out", &weights];
        let text = self.step(&format!("training of LeNet-5 on {target}"), "digits", &train, &[]);
        if let Some(line) = text.lines().rev().find(|line| line.contains("test accuracy")) {
            self.detail(line);
        }
        let mut figures = BTreeMap::new();
        let mut arguments = vec!["--target", target];
        arguments.extend(self.small.then_some("--small"));
        let text = self.step(&format!("figures of {target}"), "device", &arguments, &[]);
        self.collect(&mut figures, &text, |figure, value| figure.ours = Some(value));
        let name = "figures of PyTorch";
        if python() {
            let script = self.kit.join("compare.py").display().to_string();
            let mut arguments = vec![script.as_str(), if cuda { "cuda" } else { "cpu" }];
            arguments.extend(self.small.then_some("--small"));
            let text = self.step(name, "python3", &arguments, &[]);
            self.collect(&mut figures, &text, |figure, value| figure.torch = Some(value));
        } else {
            self.note(name, "skipped", "there is no python3".into());
        }
        figures
    }

    /// Writes the results, and returns them as a table.
    fn write(
        &self,
        survey: &Value,
        target: &str,
        figures: &BTreeMap<String, Figure>,
    ) -> Result<String, Box<dyn std::error::Error>> {
        let document = self.document(survey, target, figures);
        let file = |name: &str| self.out.join(name);
        fs::write(file("results.json"), serde_json::to_string_pretty(&document)?)?;
        let table = self.table(target, figures);
        fs::write(file("results.txt"), &table)?;
        Ok(table)
    }

    /// Figures of lines of JSON; what a line says against its case is the step's detail.
    fn collect(&mut self, into: &mut BTreeMap<String, Figure>, text: &str, put: impl Fn(&mut Figure, f64)) {
        let mut refused = Vec::new();
        for line in text.lines() {
            let Ok(row) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let case = row["case"].as_str().unwrap_or_default().to_owned();
            if let Some(error) = row["error"].as_str() {
                refused.push(format!("{case}: {error}"));
            } else if let (Some(value), Some(unit)) = (row["value"].as_f64(), row["unit"].as_str()) {
                let figure = into.entry(case).or_default();
                figure.unit = unit.to_owned();
                put(figure, value);
            }
        }
        let Some(step) = self.steps.last_mut().filter(|_| !refused.is_empty()) else {
            return;
        };
        step.detail = refused.join("; ");
        // A figure that cannot be had is a failure, a library that is not there is not.
        if step.outcome == "passed" {
            step.outcome = if step.name.ends_with("PyTorch") {
                "skipped"
            } else {
                "failed"
            };
        }
    }

    fn note(&mut self, name: &str, outcome: &'static str, detail: String) {
        println!("{:8} {name}: {detail}", outcome.to_uppercase());
        self.steps.push(Step {
            name: name.to_owned(),
            outcome,
            seconds: 0.0,
            detail,
        });
    }

    fn detail(&mut self, line: &str) {
        if let Some(step) = self.steps.last_mut() {
            step.detail = line.trim().to_owned();
        }
    }

    /// Runs a step, notes how it ended, and returns what it wrote.
    fn step(&mut self, name: &str, program: &str, arguments: &[&str], env: &[(&str, &str)]) -> String {
        println!("…        {name}");
        let start = Instant::now();
        let Finished { text, passed, detail } = self.execute(name, program, arguments, env);
        let outcome = if passed { "passed" } else { "failed" };
        println!("{outcome:8} {name}: {detail}");
        self.steps.push(Step {
            name: name.to_owned(),
            outcome,
            seconds: start.elapsed().as_secs_f64(),
            detail,
        });
        text
    }

    /// Runs a program of the kit, or one of the system; what it writes goes to a file of its own too.
    fn execute(&self, name: &str, program: &str, arguments: &[&str], env: &[(&str, &str)]) -> Finished {
        let own = self.kit.join("bin").join(program);
        let log = self.out.join(format!("{}.log", name.replace([' ', ':'], "-")));
        let failed = |detail: String| Finished {
            text: String::new(),
            passed: false,
            detail,
        };
        let (written, errors) = match (File::create(&log), File::create(log.with_extension("err"))) {
            (Ok(written), Ok(errors)) => (written, errors),
            (Err(error), _) | (_, Err(error)) => return failed(format!("{}: {error}", log.display())),
        };
        let mut command = Command::new(if own.is_file() {
            own.as_path()
        } else {
            Path::new(program)
        });
        command
            .args(arguments)
            .envs(env.iter().copied())
            .stdout(written)
            .stderr(errors);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return failed(format!("{program}: {error}")),
        };
        let start = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if start.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(50)),
                Ok(None) => {
                    // It may have ended just now.
                    let _ = child.kill();
                    let _ = child.wait();
                    return failed(format!(
                        "not done after {} s; see {}",
                        LIMIT.as_secs(),
                        log.display()
                    ));
                }
                Err(error) => return failed(format!("{program}: {error}")),
            }
        };
        let text = fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        let detail = match last {
            Some(line) if status.success() => line.trim().to_owned(),
            _ => format!("{status}; see {}", log.display()),
        };
        Finished {
            passed: status.success(),
            detail,
            text,
        }
    }

    fn document(&self, survey: &Value, target: &str, figures: &BTreeMap<String, Figure>) -> Value {
        let steps: Vec<Value> = (self.steps.iter())
            .map(|step| {
                json!({ "name": step.name, "outcome": step.outcome, "seconds": step.seconds, "detail": step.detail })
            })
            .collect();
        let rows: Vec<Value> = (figures.iter())
            .map(|(case, figure)| {
                json!({ "case": case, "unit": figure.unit, "thalweg": figure.ours, "pytorch": figure.torch,
                        "asked": asked(case, figures).map(|(met, text)| json!({ "met": met, "text": text })) })
            })
            .collect();
        json!({ "schema": 1, "target": target, "small": self.small, "devices": survey, "steps": steps, "figures": rows })
    }

    fn table(&self, target: &str, figures: &BTreeMap<String, Figure>) -> String {
        let mut text = format!("thalweg on {target}\n\n");
        for step in &self.steps {
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "{:8}{:>8.1} s  {}: {}",
                step.outcome, step.seconds, step.name, step.detail
            );
        }
        let _ = writeln!(
            text,
            "\n{:40}{:>10}{:>10}  {:8}asked",
            "figure", "thalweg", "PyTorch", "unit"
        );
        let shown = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        for (case, figure) in figures {
            let judged = asked(case, figures).map_or(String::new(), |(met, text)| {
                format!("{text}: {}", if met { "met" } else { "MISSED" })
            });
            let (ours, torch) = (shown(figure.ours), shown(figure.torch));
            let line = format!("{case:40}{ours:>10}{torch:>10}  {:8}{judged}", figure.unit);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

/// What is asked of a case, and whether it is met.
fn asked(case: &str, figures: &BTreeMap<String, Figure>) -> Option<(bool, String)> {
    let ours = figures.get(case)?.ours?;
    if let Some((_, most)) = TIMES.iter().find(|(name, _)| *name == case) {
        return Some((ours <= *most, format!("at most {most} ns")));
    }
    if let Some((_, measure, share)) = SHARES.iter().find(|(name, ..)| *name == case) {
        let measure_value = figures.get(*measure)?.ours?;
        let percent = 100.0 * ours / measure_value;
        let text = format!("{percent:.0} % of `{measure}`, at least {:.0} %", share * 100.0);
        return Some((ours >= share * measure_value, text));
    }
    let figure = figures.get(case)?;
    let ratio = match (figure.unit.as_str(), figure.torch?) {
        ("ns" | "ms", torch) => torch / ours,
        (_, torch) => ours / torch,
    };
    let text = format!(
        "{:.0} % of PyTorch's rate, at least {:.0} %",
        100.0 * ratio,
        100.0 * PEER
    );
    Some((ratio >= PEER, text))
}

fn python() -> bool {
    Command::new("python3")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_is_a_device_or_a_reason() {
        let with = json!({ "devices": [{ "target": "cpu:0" }, { "target": "cuda:0" }], "unusable": [] });
        assert_eq!(cuda_of(&with).as_deref(), Ok("cuda:0"));
        let without = json!({ "devices": [{ "target": "cpu:0" }],
            "unusable": [{ "target": "cuda", "reason": "libcuda.so.1 was not found" }] });
        assert_eq!(cuda_of(&without).unwrap_err(), "libcuda.so.1 was not found");
    }

    #[test]
    fn what_is_asked_is_judged_by_the_run_itself() {
        let figure = |ours, torch| Figure {
            unit: "GB/s".into(),
            ours: Some(ours),
            torch,
        };
        let mut figures = BTreeMap::new();
        figures.insert("copy on the device, read and write".into(), figure(100.0, None));
        figures.insert("map relu(a * b + c)".into(), figure(84.0, None));
        figures.insert("matmul 4096 f32".into(), figure(96.0, Some(100.0)));
        figures.insert("graph, a kernel of it".into(), figure(1499.0, None));
        let time = |ours| Figure {
            unit: "ms".into(),
            ..figure(ours, Some(1.0))
        };
        figures.insert("resnet18_b8".into(), time(1.04));
        figures.insert("encoder6_b8".into(), time(1.06));
        figures.insert("sum of all".into(), figure(100.0, None));
        assert!(!asked("map relu(a * b + c)", &figures).unwrap().0);
        assert!(asked("matmul 4096 f32", &figures).unwrap().0);
        assert!(asked("graph, a kernel of it", &figures).unwrap().0);
        assert!(asked("resnet18_b8", &figures).unwrap().0);
        assert!(!asked("encoder6_b8", &figures).unwrap().0);
        assert!(asked("sum of all", &figures).is_none());
    }
}
