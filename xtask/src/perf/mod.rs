//! Our cases and those of the peers in turns on this machine, at each instruction set that it has.

mod chart;
mod results;

use crate::process::{cargo, command, run as execute};
use crate::{Result, target};
use clap::Args;
pub(crate) use results::median;
use results::{Results, Row};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// All rows that are compared, by their names in `benches/peers/cases.py`: ops, products, convolutions, attention, networks.
const CASES: &str = "add_1,add_1e7,gelu_1e7,softmax_1024x1024,layernorm_4096x768,sum_axis0_4096,sum_axis1_4096,argmax_1e7,\
                     transpose_4096,sort_1e6,sort_1024x1024,cumsum_axis0_4096,cumsum_axis1_4096,embedding_4096x768,\
                     matmul_64,matmul_256,matmul_512,matmul_1024,matmul_2048,matmul_32x128,gemv_4096,\
                     matmul_bf16_1024,matmul_i8_1024,matmul_u8_i8_1024,\
                     conv_8x64x56_3x3,conv_8x3x224_7x7_s2,conv_depthwise_8x128x28,maxpool_8x64x112,\
                     attention_12x512,attention_causal_8x2048,attention_decode_32x2048,energy_1e8,energy_chunked,\
                     mlp_step_b128,lenet5_step_b64,resnet18_b1,resnet18_b8,encoder6_b1,encoder6_b8,mobilenet_b1,mobilenet_b8,\
                     resnet18_step_b8,mobilenet_step_b8,unet_step_b4,encoder6_step_b8,gpt_step_b4,lstm_step_b32";

/// What is measured.
#[derive(Args)]
pub(crate) struct Options {
    /// Cases, as `benches/peers/cases.py` names them, with `,` between them.
    #[arg(long, value_delimiter = ',', default_value = CASES)]
    cases: Vec<String>,
    /// Instruction sets of ours, as `cpu.isa` names them, with `,` between them; those that the processor lacks are left out.
    #[arg(long, value_delimiter = ',', default_value = "best,avx2")]
    isas: Vec<String>,
    /// Peers, with `,` between them; those that are not installed are named and left out.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "numpy,onnxruntime,torch,jax,candle,burn"
    )]
    peers: Vec<String>,
    /// How often everybody has a turn; the median of the turns counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of repetition of a peer for each case of a turn.
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,
    /// Everybody sees a processor without AVX-512, AMX and VNNI, by `benches/peers/avx2.c`; the results have a page of their own.
    #[arg(long)]
    as_avx2: bool,
}

/// What hides instruction sets from a program: nothing, or a library that is loaded before it.
struct Hidden(Option<String>);

impl Hidden {
    fn new(root: &Path, folder: &Path, as_avx2: bool) -> Result<Hidden> {
        if !as_avx2 {
            return Ok(Hidden(None));
        }
        let library = text(&folder.join("avx2.so"))?.to_owned();
        let words = [
            "-O2",
            "-Wall",
            "-Wextra",
            "-shared",
            "-fPIC",
            "-o",
            &library,
            "benches/peers/avx2.c",
        ];
        execute(&mut command(root, "cc", &words))?;
        let hidden = Hidden(Some(library));
        // Where CPUID does not fault, this says so.
        output(hidden.from(command(root, "true", &[])))?;
        Ok(hidden)
    }

    fn from(&self, mut command: Command) -> Command {
        if let Some(library) = &self.0 {
            command.env("LD_PRELOAD", library);
        }
        command
    }

    /// Whether a program finds AVX-512.
    fn leaves_avx512(&self) -> bool {
        self.0.is_none() && has_avx512()
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    std::is_x86_feature_detected!("avx512f")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_avx512() -> bool {
    false
}

/// Measures, prints best / ours with the geometric mean, and keeps the results of this model of processor.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let peers = root.join("benches/peers");
    let cpu = output(command(root, "python3", &["benches/peers/run.py", "--cpu"]))?;
    let folder = target(root).join("perf");
    std::fs::create_dir_all(&folder)?;
    let hidden = Hidden::new(root, &folder, options.as_avx2)?;
    let mut results = Results::read(&root.join("benches/results"), cpu.trim(), options.as_avx2)?;
    execute(&mut cargo(
        root,
        &[
            "build",
            "--release",
            "--package",
            "thalweg-benches",
            "--bin",
            "targets",
        ],
    ))?;
    let targets = target(root).join("release/targets");
    let mut left_out = Vec::new();
    let mut isas = Vec::new();
    for isa in &options.isas {
        // The best is AVX2 already.
        if isa == "avx2" && !hidden.leaves_avx512() && options.isas.iter().any(|isa| isa == "best") {
            continue;
        }
        // A row that takes no time: whether the device opens.
        match output(hidden.from(ours(root, &targets, isa, &["eager add_1"]))) {
            Ok(_) => isas.push(isa.as_str()),
            Err(error) => left_out.push(format!("thalweg at {isa}: {}", first_line(&error.to_string()))),
        }
    }
    let mut present = Vec::new();
    for peer in &options.peers {
        if options.as_avx2 && matches!(peer.as_str(), "candle" | "burn") {
            left_out.push(format!("{peer}: it was compiled for this processor"));
            continue;
        }
        match missing(&peers, peer) {
            None => present.push(peer.as_str()),
            Some(why) => left_out.push(format!("{peer}: {why}")),
        }
    }
    for line in &left_out {
        println!("left out: {line}");
    }
    let mut rows = Vec::new();
    for round in 1..=options.rounds.max(1) {
        println!("turn {round} of {}", options.rounds.max(1));
        for isa in &isas {
            let file = folder.join("ours.json");
            let mut words = vec!["--json", text(&file)?];
            words.extend(options.cases.iter().map(String::as_str));
            output(hidden.from(ours(root, &targets, isa, &words)))?;
            rows.extend(of_ours(&file, isa, &options.cases)?);
        }
        for peer in &present {
            let file = folder.join("peer.json");
            let measured = output(hidden.from(command(
                root,
                peers.join(".venv/bin/python"),
                &[
                    "benches/peers/run.py",
                    "--libraries",
                    peer,
                    "--cases",
                    &options.cases.join(","),
                    "--no-limits",
                    "--seconds",
                    &options.seconds.to_string(),
                    "--json",
                    text(&file)?,
                ],
            )));
            match measured.and_then(|_| of_peer(&file)) {
                Ok((measured, failed)) => {
                    rows.extend(measured);
                    for line in failed {
                        println!("left out: {line}");
                        left_out.push(line);
                    }
                }
                // A peer that breaks costs its own column alone.
                Err(error) => println!("left out: {peer}: {}", last_line(&error.to_string())),
            }
        }
        // Kept after each turn, so that a run that is stopped has not been for nothing.
        results.take(rows.clone(), left_out.clone());
        results.write()?;
    }
    println!("\n{}", results.table());
    Ok(())
}

/// Our program at an instruction set.
fn ours(root: &Path, targets: &Path, isa: &str, words: &[&str]) -> Command {
    let mut ours = command(root, targets, words);
    ours.env("THALWEG_CPU_ISA", isa);
    ours
}

/// What a command prints; its errors are those of a person's terminal.
fn output(mut command: Command) -> Result<String> {
    let shown = crate::process::shown(&command);
    let done = (command.stderr(Stdio::piped()).output()).map_err(|error| format!("{shown}: {error}"))?;
    match done.status.success() {
        true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        false => Err(format!("`{shown}` failed: {}", String::from_utf8_lossy(&done.stderr)).into()),
    }
}

/// Why a peer cannot be measured, if so.
fn missing(peers: &Path, peer: &str) -> Option<String> {
    let python = peers.join(".venv/bin/python");
    let how = "benches/peers/setup.sh installs it";
    if !peers.join(".venv/bin/limits").is_file() {
        return Some(format!("not installed; {how}"));
    }
    if matches!(peer, "candle" | "burn") {
        let built = peers.join(".venv/rust/release/libpeers.so").is_file();
        return (!built).then(|| format!("not built; {how}"));
    }
    let module = peer.split('.').next().unwrap_or(peer);
    let imported = Command::new(python)
        .args(["-c", &format!("import numpy, {module}")])
        .stderr(Stdio::null())
        .status();
    (!imported.is_ok_and(|status| status.success())).then(|| format!("not installed; {how}"))
}

fn of_ours(file: &Path, isa: &str, cases: &[String]) -> Result<Vec<Row>> {
    let stored: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let mut rows = Vec::new();
    for value in &stored {
        let mut row = Row::of(value, format!("thalweg {isa}"), true)?;
        row.limit = value["limit_ms"].as_f64().unwrap_or(0.0);
        // Filters of the program are parts of names.
        if cases.contains(&row.case) {
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Its rows with a right answer, and what of it failed.
fn of_peer(file: &Path) -> Result<(Vec<Row>, Vec<String>)> {
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let rows = stored["rows"].as_array().ok_or("no rows")?;
    let exact = rows.iter().filter(|row| row["error"].is_null());
    let rows = exact.map(|value| {
        let word = |key: &str| value[key].as_str().unwrap_or_default();
        Row::of(value, format!("{} {}", word("library"), word("version")), false)
    });
    let failed = stored["failed"].as_array().into_iter().flatten();
    let lines = failed.filter_map(Value::as_str).map(str::to_owned);
    Ok((rows.collect::<Result<_>>()?, lines.collect()))
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .ok_or_else(|| format!("{} is no text", path.display()).into())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::of_peer;

    #[test]
    fn a_wrong_answer_is_no_row_and_a_failure_has_a_line() {
        let stored = r#"{"rows": [
            {"case": "a", "threads": 1, "library": "numpy", "version": "2", "ms": 3.0},
            {"case": "b", "threads": 1, "library": "numpy", "version": "2", "ms": 4.0, "error": 0.02}
        ], "failed": ["numpy, threads 2: killed"]}"#;
        let file = std::env::temp_dir().join(format!("thalweg-peer-{}.json", std::process::id()));
        std::fs::write(&file, stored).unwrap();
        let (rows, failed) = of_peer(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.case.as_str(), row.who.as_str(), row.ms))
            .collect();
        assert_eq!(rows, [("a", "numpy 2", 3.0)]);
        assert_eq!(failed, ["numpy, threads 2: killed"]);
    }
}
