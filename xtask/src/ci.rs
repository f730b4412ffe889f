//! Every check of the project, with the time that each takes.

use crate::process::{capture, cargo, command, exists, run as execute};
use crate::suite::{Skip, missing};
use crate::{
    Result, audit, cuda_gate, dtype, guide, header, layering, lines, msrv, new_backend, new_op, package,
    plugins, prose, settings, soak, suite, summaries, target, views,
};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What a check left out, and why.
type Skipped = Vec<Skip>;
type Check = fn(&Path) -> Result<Skipped>;

/// Cheap ones first; a check uses what an earlier one built where it can.
const STEPS: [(&str, Check); 23] = [
    ("format", format),
    ("header", |root| header::run(root, true).map(whole)),
    ("settings", |root| settings::run(root, true).map(whole)),
    ("prose", |root| prose::run(root).map(whole)),
    ("layering", |root| layering::run(root).map(whole)),
    ("lines", |root| lines::run(root).map(whole)),
    ("dtype", |root| dtype::run(root).map(whole)),
    ("audit", |root| audit::run(root, None)),
    ("msrv", msrv::run),
    ("clippy", clippy),
    ("package", |root| package::run(root).map(whole)),
    ("doc", doc),
    ("test", |root| suite::run(root, &[])),
    ("soak", |root| soak::short(root).map(whole)),
    ("conform", conform_all),
    ("guide", |root| guide::run(root, true).map(whole)),
    ("new-backend", |root| new_backend::check(root).map(whole)),
    ("new-op", |root| new_op::check(root).map(whole)),
    ("cuda-gate", cuda_gate::run),
    ("views", views::run),
    ("summaries", summaries::run),
    ("fuzz", fuzz),
    ("benches", benches),
];

fn whole((): ()) -> Skipped {
    Vec::new()
}

/// Runs all steps, or the named ones, and fails when one of them did. A step that leaves something out for want of what is
/// `required` fails too.
pub(crate) fn run(root: &Path, only: &[String], required: &[String]) -> Result<()> {
    let known = |name: &String| STEPS.iter().any(|(step, _)| step == name);
    if let Some(name) = only.iter().find(|name| !known(name)) {
        let names: Vec<_> = STEPS.iter().map(|(step, _)| *step).collect();
        return Err(format!("no step is called {name}; there are {}", names.join(", ")).into());
    }
    let (mut rows, mut skipped) = (Vec::new(), Vec::new());
    for (name, check) in STEPS
        .iter()
        .filter(|(name, _)| only.is_empty() || only.iter().any(|o| o == name))
    {
        println!("\n==== {name}");
        let (start, cpu) = (Instant::now(), children());
        let result = check(root).and_then(|skips| match missing(&skips, required) {
            Some(why) => Err(why.into()),
            None => Ok(skips),
        });
        if let Err(error) = &result {
            eprintln!("error: {error}");
        }
        let cpu = children()
            .zip(cpu)
            .map(|(after, before)| after.saturating_sub(before));
        rows.push((name, start.elapsed(), cpu, result.is_ok()));
        skipped.extend(result.unwrap_or_default());
    }
    println!();
    for (name, time, cpu, passed) in &rows {
        let verdict = if *passed { "passed" } else { "FAILED" };
        println!("{}", line(verdict, name, *time, *cpu));
    }
    let time = rows.iter().map(|(_, time, _, _)| *time).sum();
    let cpu = rows.iter().map(|(_, _, cpu, _)| *cpu).sum();
    println!("{}", line("", "all", time, cpu));
    for Skip { what, why, .. } in &skipped {
        println!("SKIPPED: {what} ({why})");
    }
    let passed = rows.iter().filter(|(_, _, _, passed)| *passed).count();
    let failed = rows.len() - passed;
    println!("{passed} passed, {failed} failed, {} skipped", skipped.len());
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("{failed} of {} steps failed", rows.len()).into())
    }
}

fn line(verdict: &str, name: &str, time: Duration, cpu: Option<Duration>) -> String {
    let line = format!("{verdict:6} {name:12} {:>7.1} s", time.as_secs_f64());
    match cpu {
        Some(cpu) => format!("{line} {:>7.1} CPU s", cpu.as_secs_f64()),
        None => line,
    }
}

/// CPU time of all processes that this one has waited for, and of theirs; nothing where the system does not say.
fn children() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may hold spaces. Ticks of children are fields 16 and 17, 100 a second.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = ticks
        .map(|field| field.parse::<u64>().ok())
        .sum::<Option<u64>>()?;
    Some(Duration::from_millis(ticks * 10))
}

fn format(root: &Path) -> Result<Skipped> {
    execute(&mut cargo(root, &["fmt", "--all", "--check"]))?;
    execute(&mut cargo(
        root,
        &["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"],
    ))
    .map(whole)
}

fn clippy(root: &Path) -> Result<Skipped> {
    let args = [
        "clippy",
        "--workspace",
        "--all-features",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    execute(&mut cargo(root, &args))?;
    // A build of the whole workspace gives the core every feature that any package asks for.
    let bare = [
        "clippy",
        "--package",
        "thalweg",
        "--no-default-features",
        "--",
        "-D",
        "warnings",
    ];
    execute(&mut cargo(root, &bare)).map(whole)
}

fn doc(root: &Path) -> Result<Skipped> {
    let args = ["doc", "--workspace", "--all-features", "--no-deps"];
    execute(cargo(root, &args).env("RUSTDOCFLAGS", "-Dwarnings")).map(whole)
}

/// Lets a command keep OpenCL programs in the build folder: PoCL's own, and those of the backend.
pub(crate) fn programs_kept<'a>(command: &'a mut Command, root: &Path) -> &'a mut Command {
    let folder = target(root).join("opencl");
    for (name, own) in [("POCL_CACHE_DIR", "pocl"), ("THALWEG_OPENCL_CACHE", "programs")] {
        if std::env::var_os(name).is_none() {
            command.env(name, folder.join(own));
        }
    }
    command
}

/// Judges one backend: the path of a plugin, or the name of an embedded one.
pub(crate) fn conform(root: &Path, backend: &str) -> Result<()> {
    let thalweg = plugins::profile(root, false).join("thalweg");
    // Each process opens the devices anew.
    let jobs = std::thread::available_parallelism()?.get().min(8).to_string();
    let mut judge = command(root, thalweg, &["conform", "--jobs", &jobs, backend]);
    // Each program is built once here. To keep one, PoCL compiles its kernels a second time, for work groups of any size.
    programs_kept(&mut judge, root).env("THALWEG_OPENCL_CACHE", "off");
    // A report without a verdict is no pass.
    let output = capture(&mut judge)?;
    let verdict = output.lines().rev().find(|line| line.contains("conformant"));
    match verdict {
        Some(line) if !line.contains("not conformant") => Ok(()),
        Some(line) => Err(format!("{backend}: {line}").into()),
        None => Err(format!("{backend}: `thalweg conform` gave no verdict").into()),
    }
}

/// Backends that the tests have judged by every case: the embedded CPU and the reference.
const JUDGED: &str = "libthalweg_reference.so";

/// Judges those backends that the tests judge by some cases alone: the CPU as a plugin, compiled OpenCL, plain C, CUDA with a GPU.
fn conform_all(root: &Path) -> Result<Skipped> {
    let (mut backends, mut skipped) = (Vec::new(), Vec::new());
    let files = plugins::build(root)?;
    for file in files.iter().filter(|file| plugins::name(file) != JUDGED) {
        match plugins::missing_device(root, file)? {
            Some(why) => skipped.push(Skip {
                needs: plugins::target_of(file),
                what: format!("conformance of {}", plugins::name(file)),
                why,
            }),
            None => backends.push(file.display().to_string()),
        }
    }
    if exists("cc") {
        backends.push(plugins::plain_c(root)?.display().to_string());
    } else {
        skipped.push(Skip {
            needs: "compiler".into(),
            what: "conformance of the backend in plain C".into(),
            why: "there is no `cc`; apt-get install gcc".into(),
        });
    }
    let failed: Vec<_> = backends
        .iter()
        .filter_map(|backend| conform(root, backend).err().map(|error| error.to_string()))
        .collect();
    if failed.is_empty() {
        Ok(skipped)
    } else {
        Err(failed.join("\n").into())
    }
}

fn fuzz(root: &Path) -> Result<Skipped> {
    // The loader and the kernel IR stand between a plugin and the process; the readers of files get a third of the time.
    let first = ["elf", "ir_text", "ir_verify"];
    let mut others = Vec::new();
    for file in std::fs::read_dir(root.join("fuzz/src/bin"))? {
        let path = file?.path();
        others.extend(
            path.file_stem()
                .filter(|target| first.iter().all(|name| target != name))
                .map(OsString::from),
        );
    }
    // In so few seconds, faster code would find no more than it takes to compile.
    let run = |seconds: &str, targets: &[OsString]| {
        let mut run = command(root, "fuzz/run.sh", &[seconds]);
        execute(run.args(targets).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"))
    };
    run("15", &first.map(OsString::from))?;
    run("5", &others).map(whole)
}

/// Runs every benchmark once, unmeasured, with what the tests have built.
fn benches(root: &Path) -> Result<Skipped> {
    let mut args: Vec<OsString> = ["test", "--workspace", "--all-features"]
        .map(OsString::from)
        .into();
    for file in std::fs::read_dir(root.join("benches/benches"))? {
        args.push("--bench".into());
        args.extend(file?.path().file_stem().map(OsString::from));
    }
    let mut benches = cargo(root, &[]);
    execute(benches.args(args)).map(whole)
}
