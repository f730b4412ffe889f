//! Makes summaries of two trainings that never ran: `noted DIR`. They lie in `DIR/adam` and `DIR/sgd <b>`.
//!
//! The page is tested with them: they have everything that a training notes, a scalar of 30,000 points with one extreme, values that are
//! no numbers, and names that would be markup.
#![allow(clippy::print_stdout, reason = "an example")]

use std::f64::consts::TAU;
use std::fs;
use std::path::Path;
use thalweg_summary::{Data, Event, Histogram, Image, Value, Writer};

const STEPS: i64 = 600;
/// Points of the long scalar.
const POINTS: i64 = 30_000;
const SIDE: usize = 40;

/// Even numbers from a seed, from 0 to 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.next()).ln()).sqrt() * (TAU * self.next()).cos()
    }
}

/// A ring that grows with the steps, in colours.
fn picture(part: f64) -> thalweg_summary::Result<Image> {
    let mut pixels = Vec::new();
    for (row, column) in (0..32).flat_map(|row| (0..32).map(move |column| (row, column))) {
        let (x, y) = (f64::from(column) - 15.5, f64::from(row) - 15.5);
        let near = (-(x.hypot(y) - 3.0 - 11.0 * part).powi(2) / 6.0).exp();
        let colour = [0.25 + 0.75 * near, 0.3 + 0.5 * near * part, 0.45 - 0.3 * near];
        pixels.extend(colour.map(|part| (part * 255.0) as u8));
    }
    Image::png(32, 32, 3, &pixels)
}

/// Digits that fill with the steps, in grey.
fn batch(random: &mut Random) -> thalweg_summary::Result<Image> {
    let pixels: Vec<u8> = (0..64 * 16)
        .map(|_| (random.next().powi(3) * 255.0) as u8)
        .collect();
    Image::png(64, 16, 1, &pixels)
}

fn values(step: i64, rate: f64, random: &mut Random) -> thalweg_summary::Result<Vec<Value>> {
    let part = step as f64 / STEPS as f64;
    let loss = 0.05 + 2.3 * (-part * rate).exp() * (1.0 + 0.15 * random.normal());
    let mut values = vec![
        Value::new("loss/auto", Data::Scalar(loss as f32)),
        Value::new("learning_rate", Data::Scalar((1e-3 * (1.0 - part) + 1e-6) as f32)),
    ];
    if step % 60 == 0 {
        let accuracy = 1.0 - 0.9 * (-part * rate * 1.5).exp();
        values.push(Value::new("eval/accuracy", Data::Scalar(accuracy as f32)));
        values.push(Value::new("images/ring", Data::Image(picture(part)?)));
        values.push(Value::new("input_data/auto", Data::Image(batch(random)?)));
    }
    if step == 300 {
        values.push(Value::new("<img src=x onerror=fail()>", Data::Scalar(f32::NAN)));
        values.push(Value::new("loss/auto", Data::Scalar(f32::NAN)));
    }
    if step % 20 == 1 {
        let narrow = 1.0 - 0.8 * part;
        let weights = Histogram::of((0..2000).map(|_| random.normal() * narrow));
        values.push(Value::new("conv1/weight/auto", Data::Histogram(weights)));
        let two = Histogram::of((0..2000).map(|at| f64::from(at % 2) * 4.0 * part + random.normal() * 0.4));
        values.push(Value::new("features", Data::Histogram(two)));
    }
    Ok(values)
}

/// A bowl with waves, and the way down into it.
fn landscapes() -> serde_json::Value {
    let axis = |from: f64, to: f64| -> Vec<f64> {
        (0..SIDE)
            .map(|at| from + (to - from) * at as f64 / (SIDE - 1) as f64)
            .collect()
    };
    let plane = |name: &str, path: serde_json::Value| {
        let (x, y) = (axis(-4.0, 2.0), axis(-2.0, 2.0));
        let loss = |x: f64, y: f64| {
            0.05 + 0.2 * (x * x + 2.0 * y * y) + 0.25 * (1.0 - (2.0 * x).cos() * (3.0 * y).cos())
        };
        let rows: Vec<Vec<f64>> = (y.iter())
            .map(|&y| x.iter().map(|&x| loss(x, y)).collect())
            .collect();
        serde_json::json!({"name": name, "x": x, "y": y, "loss": rows, "path": path})
    };
    let stop = |at: usize| {
        let rest = 1.0 - at as f64 / 9.0;
        serde_json::json!({"at": 1 + at * 66, "x": -3.4 * rest, "y": 1.3 * rest * (3.0 * rest).cos()})
    };
    let way: Vec<_> = (0..10).map(stop).collect();
    let last = serde_json::json!([{"at": 600, "x": 0.0, "y": 0.0}]);
    serde_json::json!({"landscapes": [plane("step 1-595", way.into()), plane("result", last)]})
}

fn make(folder: &Path, optimizer: &str, rate: f64) -> Result<(), Box<dyn std::error::Error>> {
    let mut random = Random(7);
    let mut writer = Writer::create(folder, None)?;
    let began = 1_795_000_000.0;
    let mut write = |step: i64, values| {
        let mut event = Event::now(step, values);
        event.wall_time = began + step as f64 * 0.25;
        writer.write(&event)
    };
    for step in 1..=STEPS {
        write(step, values(step, rate, &mut random)?)?;
    }
    for step in 1..=POINTS {
        let value = if step == 12_345 { 40.0 } else { random.normal() };
        write(
            step,
            vec![Value::new("gradient/norm", Data::Scalar(value as f32))],
        )?;
    }
    let lineage = serde_json::json!({
        "train": {
            "network": "Net", "loss": "cross_entropy", "optimizer": optimizer, "learning_rate": 1e-3, "epochs": 30,
            "batches": 20, "batch_size": 8, "samples": 160, "parameters": 330, "device": "cpu:0", "epochs_done": 30,
            "steps_done": STEPS, "last_loss": 0.05 + 2.3 * (-rate).exp(), "ended": true,
        },
        "dataset_graph": {"samples": 160, "batch": 8, "shuffle": 1},
        "custom": {"author": "a <b>name</b>", "trial": rate},
        "eval": {"epoch": 30, "figures": {"accuracy": 1.0 - 0.9 * (-rate * 1.5).exp()}},
    });
    fs::write(folder.join("lineage.json"), lineage.to_string())?;
    fs::write(folder.join("landscape.json"), landscapes().to_string())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("name a folder")?;
    let folder = Path::new(&folder);
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    make(&folder.join("adam"), "Adam", 4.0)?;
    make(&folder.join("sgd <b>"), "Sgd", 2.0)?;
    println!("{}", folder.display());
    Ok(())
}
