//! Networks of 8 bits beside the same in f32, with weights and inputs of `benches/peers/int8.py`: times, and the error against f32.
#![expect(clippy::print_stdout, reason = "the rows are what the program is for")]

use clap::Parser;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use thalweg::parallel::Pool;
use thalweg::{Context, Result, Tensor};
use thalweg_benches::int8::{Pair, pairs};
use thalweg_benches::median;

/// Measures networks of 8 bits and the same in f32, and prints JSON.
#[derive(Parser)]
#[command(name = "int8")]
struct Options {
    /// What `int8.py prepare` wrote.
    folder: PathBuf,
    /// Threads to use.
    threads: usize,
    /// Seconds of repetition for each row.
    seconds: f64,
    /// Measures the networks that have this text in their name and form.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(rows) => {
            println!("{}", Value::from(rows));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Vec<Value>> {
    let cx = Context::new("cpu")?;
    Pool::global().set_threads(options.threads);
    let mut rows = Vec::new();
    for pair in pairs(&options.folder, &cx)? {
        // A profile of one form is not to hold the other.
        let (error, same) = match options.only.is_empty() {
            true => errors(&pair)?,
            false => (0.0, 0.0),
        };
        for (form, network) in [("f32", &pair.float), ("int8", &pair.integer)] {
            if !format!("{} {form}", pair.name).contains(&options.only) {
                continue;
            }
            let mut failed = None;
            let time = median(
                Duration::try_from_secs_f64(options.seconds).unwrap_or_default(),
                || {
                    let y = network(&pair.inputs[0]);
                    let done = y.shape().and_then(|_| Ok(cx.device().synchronize()?));
                    failed = failed.take().or(done.err());
                },
            );
            if let Some(error) = failed {
                return Err(error);
            }
            let (error, same) = if form == "f32" { (0.0, 1.0) } else { (error, same) };
            rows.push(json!({
                "library": "thalweg", "case": pair.name, "form": form, "threads": options.threads,
                "ms": time.as_secs_f64() * 1e3, "error": error, "top1": same,
            }));
        }
    }
    Ok(rows)
}

/// The error in the 2-norm over all inputs, relative to the outputs in f32, and the share of rows with the same greatest element.
fn errors(pair: &Pair) -> Result<(f64, f64)> {
    let (mut off, mut size, mut same, mut rows) = (0.0, 0.0, 0.0, 0.0);
    for x in &pair.inputs {
        let (float, integer) = ((pair.float)(x), (pair.integer)(x));
        let squares = |of: Tensor| -> Result<f64> { Ok(f64::from(of.square().sum().item::<f32>()?)) };
        off += squares(&integer - &float)?;
        size += squares(float.clone())?;
        let greatest = |of: &Tensor| of.argmax_axes(-1).to_vec::<i64>();
        let (float, integer) = (greatest(&float)?, greatest(&integer)?);
        same += float.iter().zip(&integer).filter(|(a, b)| a == b).count() as f64;
        rows += float.len() as f64;
    }
    Ok(((off / size).sqrt(), same / rows))
}
