//! Makes what a training that never ran wrote beside its recording: `written DIR` writes a log, saved graphs and two dumps.
//!
//! The page is tested with them, beside the recording of `made`: calls have the same names and lines. Some texts would be markup.
#![allow(clippy::print_stdout, reason = "an example")]

use serde_json::json;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Lines of the log.
const LINES: u64 = 600;
const LAYERS: [&str; 5] = ["conv1", "conv2", "fc1", "fc2", "fc3"];

/// The text of a graph, a node at a time.
struct Text {
    text: String,
    next: usize,
}

impl Text {
    fn node(&mut self, ty: &str, op: &str, inputs: &[usize], name: &str, line: u32) -> usize {
        let inputs: String = inputs.iter().map(|input| format!(" %{input}")).collect();
        let comment = match name {
            "" => String::new(),
            name => format!(" # {name} src/net.rs:{line}"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "%{}: {ty} = {op}{inputs}{comment}", self.next);
        self.next += 1;
        self.next - 1
    }
}

/// A step of a training: five layers, their gradients and updates.
fn graph() -> String {
    let mut text = Text {
        text: "# device cpu:0\ngraph main\n".to_owned(),
        next: 0,
    };
    let ty = "f32[32,16]";
    let mut x = text.node(ty, "input", &[], "", 0);
    let weights: Vec<usize> = LAYERS
        .iter()
        .map(|_| text.node(ty, "input", &[], "", 0))
        .collect();
    let one = text.node("f32[]", "full value=1.0", &[], "Default/full", 0);
    let mut inner = Vec::new();
    for (at, layer) in LAYERS.iter().enumerate() {
        let (line, call) = (40 + 2 * at as u32, 2 * at + 1);
        let op = if at < 2 { "conv2d" } else { "linear" };
        let name = format!("Default/{layer}/{op}-op{call}");
        let turned = text.node(
            ty,
            "permute axes=[1,0]",
            &[weights[at]],
            &format!("{name}.permute-1"),
            line,
        );
        let product = text.node(ty, "matmul", &[x, turned], &format!("{name}.matmul-2"), line);
        let relu = format!("Default/{layer}/relu-op{}", call + 1);
        inner.push(x);
        x = text.node(ty, "max", &[product, one], &relu, line + 1);
    }
    let loss = text.node(
        "f32[]",
        "reduce_sum axes=[0,1]",
        &[x],
        "Default/<img src=x onerror=fail()>/sum-op11",
        50,
    );
    let mut slope = text.node(
        ty,
        "expand",
        &[loss],
        "Gradients/Default/<img src=x onerror=fail()>/sum-op11.expand-1",
        50,
    );
    let mut returned = vec![loss];
    for (at, layer) in LAYERS.iter().enumerate().rev() {
        let (line, call) = (40 + 2 * at as u32, 2 * at + 1);
        let op = if at < 2 { "conv2d" } else { "linear" };
        let name = format!("Gradients/Default/{layer}/{op}-op{call}");
        let of_weight = text.node(
            ty,
            "matmul",
            &[inner[at], slope],
            &format!("{name}.matmul-1"),
            line,
        );
        slope = text.node(
            ty,
            "matmul",
            &[slope, weights[at]],
            &format!("{name}.matmul-2"),
            line,
        );
        let scaled = text.node(
            ty,
            "mul",
            &[of_weight, one],
            &format!("Update/{layer}/mul-op{}", 12 + 2 * at),
            90,
        );
        returned.push(text.node(
            ty,
            "sub",
            &[weights[at], scaled],
            &format!("Update/{layer}/sub-op{}", 13 + 2 * at),
            91,
        ));
    }
    let returned: String = returned.iter().map(|node| format!(" %{node}")).collect();
    text.text + "return" + &returned + "\n"
}

/// Many parts with many ops, and a loop.
fn large() -> String {
    let mut text = Text {
        text: "graph @0\n%0: f32[] = input\n%1: f32[] = exp %0 # Default/solver/exp-op9000 src/net.rs:200\nreturn %1\n\
               graph main\n%0: f32[] = input\n%1: token = repeat %0 body=@0 trips=3 # Default/solver/fori_loop-op8999 src/net.rs:199\n\
               %2: f32[] = result %1 index=0 # Default/solver/fori_loop-op8999 src/net.rs:199\n"
            .to_owned(),
        next: 3,
    };
    let mut last = 2;
    for at in 0..4000 {
        let name = format!("Default/layers/{}/block/add-op{at}", at / 40);
        let before = if at % 40 > 3 { last - 3 } else { last };
        last = text.node("f32[4]", "add", &[last, before], &name, 100);
    }
    text.text + &format!("return %{last}\n")
}

fn log() -> String {
    let mut text = String::new();
    for at in 0..LINES {
        let (level, module) = match at % 10 {
            3 => ("WARNING", "LOADER"),
            7 => ("ERROR", "OPENCL"),
            even if even % 2 == 0 => ("DEBUG", "GRAPH"),
            _ => ("INFO", "NN"),
        };
        let (second, millis) = (at / 100, at % 100 * 10);
        let _ = writeln!(
            text,
            "[{level}] {module}(4711,4712,made):2026-11-20-13:36:{second:02}.{millis:03}.000 [runtime/src/loader/registry.rs:{}] line {at} <b>of the log</b>",
            300 + at % 7
        );
    }
    text
}

/// The manifest of an iteration, in which the second layer makes NaN if `wrong`.
fn manifest(iteration: u64, wrong: bool) -> String {
    let mut values = Vec::new();
    for (at, layer) in LAYERS.iter().enumerate() {
        let op = if at < 2 { "conv2d" } else { "linear" };
        for (op, call) in [(op, 2 * at + 1), ("relu", 2 * at + 2)] {
            let nan = if wrong && at > 0 { 3 } else { 0 };
            values.push(json!({
                "name": format!("Default/{layer}/{op}-op{call}"), "op": op, "io": "output", "slot": 0, "dtype": "f32", "shape": [32, 16],
                "line": format!("src/net.rs:{}", 40 + call - 1), "file": null, "bytes": 2048,
                "statistics": {"min": -1.25 * call as f64, "max": 2.5 * call as f64, "mean": 0.125, "l2": 11.0, "nan": nan, "inf": 0, "zeros": 7, "count": 512},
            }));
        }
    }
    json!({"format": 1, "net": "Net", "iteration": iteration, "step": iteration + 1, "device": "cpu:0", "values": values}).to_string()
}

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .ok_or_else(|| std::io::Error::other("name a folder"))?;
    let folder = Path::new(&folder);
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)
    };
    let logs = log();
    let higher = |line: &&str| line.starts_with("[WARNING]") || line.starts_with("[ERROR]");
    let warnings: String = logs
        .lines()
        .filter(higher)
        .map(|line| format!("{line}\n"))
        .collect();
    write(
        "rank_0/logs/thalweg.host.me.log.DEBUG.20261120-133600-000000.4711",
        &logs,
    )?;
    write(
        "rank_0/logs/thalweg.host.me.log.WARNING.20261120-133600-000000.4711",
        &warnings,
    )?;
    write("graphs/00_step_traced.ir", &graph())?;
    write("graphs/01_step_pass1_pruned.ir", &graph())?;
    write("graphs/02_large_program.ir", &large())?;
    write("dump/Net/device_0/iteration_0/manifest.json", &manifest(0, false))?;
    write("dump/Net/device_0/iteration_7/manifest.json", &manifest(7, true))?;
    println!("{}", folder.display());
    Ok(())
}
