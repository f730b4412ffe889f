//! `thalweg replay` and `thalweg reduce`: programs that were captured in one process are done again by another.
#![allow(clippy::unwrap_used, reason = "a test")]

mod place;

use place::{Place, Run, mode};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg::hal::ir::{OP_SCALAR_OP, ScalarOp};
use thalweg::ops::{ClassLossOptions, ConvOptions};
use thalweg::{Context, Result, Tensor, fori_loop, jit, value_and_grad};
use thalweg_nn::module::{trainable, with_trainable};
use thalweg_nn::{Conv2d, Dense, Flatten, Layer, MaxPool2d, Relu, Sequential};

/// Says which program a child of a test is.
const PROGRAM: &str = "THALWEG_TEST_PROGRAM";

/// Not a test on its own: the program that the children of others are.
#[test]
fn captured_program() {
    let Ok(name) = std::env::var(PROGRAM) else { return };
    let cx = Context::new("cpu").unwrap();
    match name.as_str() {
        "lenet" => lenet(&cx).unwrap(),
        "chain" => chain(&cx).unwrap(),
        "endless" => loop {
            chain(&cx).unwrap();
        },
        _ => panic!("{name}"),
    }
}

fn ramp(shape: &[usize], cx: &Context) -> Tensor {
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|i| (i as f32 * 0.37).sin()).collect();
    Tensor::from_slice(&values, shape, cx)
}

/// Two compiled training steps of LeNet-5 on one image.
fn lenet(cx: &Context) -> Result<()> {
    let mut net = Sequential::new()
        .then(Conv2d::new(1, 6, [5, 5], ConvOptions::new().padding(2), cx)?)
        .then(Relu)
        .then(MaxPool2d::new(2))
        .then(Conv2d::new(6, 16, [5, 5], ConvOptions::new(), cx)?)
        .then(Relu)
        .then(MaxPool2d::new(2))
        .then(Flatten)
        .then(Dense::new(400, 120, cx)?)
        .then(Relu)
        .then(Dense::new(120, 10, cx)?);
    let labels = Tensor::from_slice(&[3_i64], 1, cx);
    let data = (ramp(&[1, 1, 28, 28], cx), labels);
    let step = jit(|net: &Sequential, (x, y): &(Tensor, Tensor)| {
        let loss = |values: &Vec<Tensor>| {
            let net = with_trainable(net, values);
            net.forward(x).cross_entropy(y, ClassLossOptions::new())
        };
        let values = trainable(net);
        let (loss, gradients) = value_and_grad(loss).call(&values);
        let update = |(value, gradient): (&Tensor, &Tensor)| value - gradient * 0.1;
        let values: Vec<Tensor> = values.iter().zip(&gradients).map(update).collect();
        (with_trainable(net, &values), loss)
    });
    for _ in 0..2 {
        let (next, loss) = step.call((&net, &data));
        net = next;
        assert!(loss.item::<f32>()?.is_finite());
    }
    Ok(())
}

/// Five hundred nodes, one of them a tanh.
fn chain(cx: &Context) -> Result<()> {
    let (mut x, w) = (ramp(&[8, 8], cx), ramp(&[8, 8], cx));
    for node in 0..125 {
        x = if node == 80 { x.tanh() } else { x.sin() };
        x = x.matmul(&w);
        x = &x * 0.25;
        x = &x + &w;
    }
    x.to_vec::<f32>()?;
    Ok(())
}

/// A place with the plugin of the reference, and the layer that makes it wrong.
fn prepared() -> Place {
    let place = Place::new();
    let file = place::plugins::built("thalweg_reference");
    place.write("plugins/libthalweg_reference.so", fs::read(file).unwrap());
    place
}

/// Starts a program under the layer `capture`.
fn start(program: &str, contents: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["captured_program", "--exact", "--nocapture"])
        .env(PROGRAM, program)
        .env("THALWEG_LAYERS", "capture")
        .env(
            "THALWEG_LAYER_CAPTURE",
            format!("contents={contents},path={}", path.display()),
        )
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn capture(place: &Place, program: &str, contents: &str) -> PathBuf {
    let path = place.path(&format!("{program}.{contents}.capture"));
    let status = start(program, contents, &path).wait().unwrap();
    assert!(status.success(), "{status}");
    path
}

/// `thalweg replay FILE` with more arguments.
fn replay(place: &Place, file: &Path, args: &[&str]) -> Run {
    let (file, plugins) = (file.display().to_string(), place.plugins());
    let mut all = vec!["replay", &file, "--backend-path", &plugins];
    all.extend(args);
    place.run(&all)
}

#[track_caller]
fn succeeds(run: &Run, parts: &[&str]) {
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{}", run.out);
    for part in parts {
        assert!(run.out.contains(part), "{part:?} is not in:\n{}", run.out);
    }
}

#[test]
fn a_lenet_step_is_replayed_bit_for_bit_and_on_other_backends() {
    let place = prepared();
    let file = capture(&place, "lenet", "data");
    let run = replay(&place, &file, &["--check"]);
    succeeds(
        &run,
        &["2 results read back, with the bits of the captured program"],
    );
    let run = replay(&place, &file, &["--times", "2"]);
    succeeds(&run, &["all work takes", "kernel", "conv", "matmul"]);
    let run = replay(&place, &file, &["--target", "reference", "--against", "cpu"]);
    succeeds(&run, &["first too far apart", "no op is too far apart", "conv"]);
    let run = replay(&place, &file, &["--list"]);
    succeeds(&run, &["kernel 0x", "outer=", "copy to host"]);
    // The same device twice has the same bits.
    let text = file.display().to_string();
    let run = replay(&place, &file, &["--compare", &text, "--tolerance", "0"]);
    succeeds(&run, &["no op is too far apart"]);
}

#[test]
fn an_opencl_device_does_the_same_work() {
    let place = prepared();
    let file = place::plugins::built("thalweg_opencl");
    place.write("plugins/libthalweg_opencl.so", fs::read(file).unwrap());
    let devices = place.run(&["devices", "--backend-path", &place.plugins()]);
    if !devices.out.contains("opencl:0 ") {
        place::plugins::skip::skip("opencl", &devices.out);
        return;
    }
    let file = capture(&place, "lenet", "data");
    let (plugins, path) = (place.plugins(), file.display().to_string());
    let args = [
        "replay",
        &path,
        "--backend-path",
        &plugins,
        "--target",
        "opencl",
        "--against",
        "cpu",
    ];
    let mut command = place.command(&args);
    // A driver that compiles calls the linker.
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let run = place.finish(&mut command);
    succeeds(&run, &["no op is too far apart"]);
}

#[test]
fn contents_stay_in_the_house_when_they_are_asked_to() {
    let place = prepared();
    let data = fs::read(capture(&place, "chain", "data")).unwrap();
    // The last element of the weights, and of what is computed with them.
    let element = (63.0_f32 * 0.37).sin().to_le_bytes();
    let has = |bytes: &[u8]| bytes.windows(4).any(|window| window == element);
    assert!(has(&data));
    for contents in ["hash", "seed"] {
        let file = capture(&place, "chain", contents);
        assert!(!has(&fs::read(&file).unwrap()));
        let run = replay(&place, &file, &["--check"]);
        assert_eq!(run.code, Some(1));
        let text = "the capture does not have the bytes that came from the host; capture with contents=data";
        assert!(run.err.starts_with(&format!("error: {text}")), "{}", run.err);
        let run = replay(&place, &file, &["--target", "reference", "--against", "cpu"]);
        succeeds(&run, &["no op is too far apart"]);
    }
}

#[test]
fn what_a_killed_program_has_done_is_replayed() {
    let place = prepared();
    let path = place.path("killed.capture");
    let mut child = start("endless", "data", &path);
    let begun = Instant::now();
    // Behind some results.
    while fs::metadata(&path).map_or(0, |data| data.len()) < 2 << 20 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is captured");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let run = replay(&place, &path, &["--check"]);
    succeeds(
        &run,
        &["results read back, with the bits of the captured program"],
    );
}

#[test]
fn wrong_files_are_one_line_and_cut_ones_are_good_to_the_cut() {
    let place = prepared();
    let file = capture(&place, "chain", "data");
    let whole = fs::read(&file).unwrap();
    let cut = place.write("cut.capture", &whole[..whole.len() / 2]);
    succeeds(
        &replay(&place, &cut, &["--check"]),
        &[
            "the file ends early, because a frame is cut",
            "0 results read back",
        ],
    );
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    let damaged = place.write("damaged.capture", damaged);
    succeeds(
        &replay(&place, &damaged, &["--check"]),
        &["the file ends early, because"],
    );
    for (bytes, why) in [
        (&b"#!/bin/sh"[..], "this is no capture"),
        (&whole[..8], "the capture has no whole record"),
        (
            &b"THALCAP\x07"[..],
            "a capture of version 7; this program reads version 1",
        ),
    ] {
        let path = place.write("wrong.capture", bytes);
        let run = replay(&place, &path, &[]);
        assert_eq!(
            (run.code, run.err),
            (Some(1), format!("error: DIR/wrong.capture: {why}\n"))
        );
    }
    // A capture never takes the place of another.
    let again = start("chain", "data", &file).wait().unwrap();
    assert!(!again.success());
    assert_eq!(fs::read(&file).unwrap(), whole);
}

/// The layer that gives the reference another op in the place of tanh.
fn wrong(place: &Place) -> String {
    let folder = format!("wrong.{}", std::process::id());
    let layer = place::plugins::layer_of("tests/plugins/wrong_c/wrong.c", &folder, "wrong", &[]);
    let file = place.write("plugins/libthalweg_layer_wrong.so", fs::read(layer).unwrap());
    mode(&file, 0o755);
    let code = |op: ScalarOp| OP_SCALAR_OP + op.code();
    format!("reference {} {}", code(ScalarOp::Tanh), code(ScalarOp::Sqrt))
}

#[test]
fn one_wrong_op_of_five_hundred_nodes_is_found_and_stands_alone() {
    let place = prepared();
    let file = capture(&place, "chain", "data");
    let option = wrong(&place);
    let (bin, plugins) = (place.path("bin/thalweg"), place.plugins());
    let arguments = format!("--target reference --against cpu --backend-path '{plugins}'");
    let found = |file: &Path| {
        let mut args = vec!["replay", file.to_str().unwrap()];
        args.extend([
            "--target",
            "reference",
            "--against",
            "cpu",
            "--backend-path",
            &plugins,
        ]);
        let mut command = place.command(&args);
        command
            .env("THALWEG_LAYERS", "wrong")
            .env("THALWEG_TEST_WRONG", &option);
        place.finish(&mut command)
    };
    let run = found(&file);
    assert_eq!(run.code, Some(1), "{}{}", run.out, run.err);
    assert!(run.out.contains("1 op too far apart"), "{}{}", run.out, run.err);
    let row = run.out.lines().nth(2).unwrap();
    assert!(row.starts_with("tanh "), "{row}");

    let small = place.path("small.capture");
    let command = format!("'{}' replay {{}} {arguments} --differs", bin.display());
    let args = [
        "reduce",
        file.to_str().unwrap(),
        "--while",
        &command,
        "--out",
        small.to_str().unwrap(),
    ];
    let mut reduce = place.command(&args);
    reduce
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("THALWEG_LAYERS", "wrong")
        .env("THALWEG_TEST_WRONG", &option);
    let begun = Instant::now();
    let run = place.finish(&mut reduce);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    succeeds(&run, &["reduced to 1 in"]);
    let before: usize = run.out.split(' ').next().unwrap().parse().unwrap();
    assert!(before >= 500, "{}", run.out);
    // The small file still shows it, and says nothing else.
    let run = found(&small);
    assert_eq!(run.code, Some(1), "{}{}", run.out, run.err);
    assert!(
        run.out.contains("1 packet done twice, 1 op too far apart"),
        "{}",
        run.out
    );
    let list = replay(&place, &small, &["--list"]);
    succeeds(&list, &["tanh"]);
    assert!(fs::metadata(&small).unwrap().len() < 2048);
    // No candidate is left.
    let left = fs::read_dir(place.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        !left
            .into_iter()
            .any(|name| name.to_string_lossy().contains("candidate"))
    );
}

/// Reduces a graph in text as long as the reference and the CPU differ; the text of the result.
fn reduced_graph(place: &Place, text: &str, option: &str) -> (String, Run) {
    let file = place.write("whole.ir", text.as_bytes()).display().to_string();
    let small = place.path("small.ir").display().to_string();
    let (bin, plugins) = (place.path("bin/thalweg"), place.plugins());
    let command = format!(
        "'{}' replay {{}} --target reference --against cpu --backend-path '{plugins}' --differs",
        bin.display()
    );
    let args = ["reduce", &file, "--while", &command, "--out", &small];
    let mut reduce = place.command(&args);
    reduce
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("THALWEG_LAYERS", "wrong")
        .env("THALWEG_TEST_WRONG", option);
    let run = place.finish(&mut reduce);
    (fs::read_to_string(&small).unwrap_or_default(), run)
}

#[test]
fn one_wrong_op_of_a_graph_in_text_stands_alone() {
    let place = prepared();
    let option = wrong(&place);
    let cx = Context::new("cpu").unwrap();
    let function = jit(|(x, w): &(Tensor, Tensor)| {
        let mut x = x.clone();
        for node in 0..125 {
            x = if node == 80 { x.tanh() } else { x.sin() };
            x = &(x.matmul(w) * 0.25) + w;
        }
        x
    });
    let graph = function.graph(&(ramp(&[8, 8], &cx), ramp(&[8, 8], &cx))).unwrap();
    assert!(graph.nodes().len() >= 500, "{} nodes", graph.nodes().len());
    let begun = Instant::now();
    let (small, run) = reduced_graph(&place, &graph.to_text(), &option);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    succeeds(&run, &["nodes reduced to 2 in"]);
    assert_eq!(
        small,
        "graph main\n%0: f32[1,1] = input\n%1: f32[1,1] = tanh %0\nreturn %1\n"
    );
    // Without the layer nothing is wrong with it.
    let file = place.write("right.ir", small.as_bytes());
    let run = replay(&place, &file, &["--target", "reference", "--against", "cpu"]);
    succeeds(
        &run,
        &["a graph of 2 nodes", "tanh", "1 result, none is too far apart"],
    );
    let whole = place.path("whole.ir");
    let run = replay(&place, &whole, &["--target", "reference", "--times", "2"]);
    succeeds(&run, &["all work takes"]);
    succeeds(&replay(&place, &file, &["--list"]), &["%1: f32[1,1] = tanh %0"]);
}

#[test]
fn a_wrong_op_in_a_loop_stands_alone() {
    let place = prepared();
    let option = wrong(&place);
    let cx = Context::new("cpu").unwrap();
    let function = jit(|x: &Tensor| {
        let turn = |_: &Tensor, x: Tensor| (&x * 0.5).tanh() + x.sin();
        fori_loop(0..50, x.exp(), turn).cos()
    });
    let graph = function.graph(&ramp(&[4], &cx)).unwrap();
    assert!(graph.to_text().contains("token"), "{}", graph.to_text());
    let (small, run) = reduced_graph(&place, &graph.to_text(), &option);
    succeeds(&run, &["nodes reduced to 2 in"]);
    assert!(small.contains("tanh %0") && !small.contains("token"), "{small}");
}

#[test]
fn graphs_in_text_that_cannot_be_done_are_one_line() {
    let place = prepared();
    let wrong = place.write(
        "wrong.ir",
        b"graph main\n%0: f32[2] = input\n%1: f32[3] = neg %0\nreturn %1\n",
    );
    let run = replay(&place, &wrong, &[]);
    let text = "error: DIR/wrong.ir: line 3: neg gives f32[2], not f32[3]";
    assert!(run.code == Some(1) && run.err.starts_with(text), "{}", run.err);
    let good = place.write(
        "good.ir",
        b"graph main\n%0: f32[2] = input\n%1: f32[2] = neg %0\nreturn %1\n",
    );
    let run = replay(&place, &good, &["--check"]);
    let text = "error: a graph in text has no results to compare with; compare two devices with --against\n";
    assert_eq!((run.code, run.err.as_str()), (Some(1), text));
}

/// Reduces with a question about the list of packets; the list of the result.
fn reduced(place: &Place, file: &Path, question: &str) -> String {
    let (bin, small) = (place.path("bin/thalweg"), place.path("small.capture"));
    let command = format!(
        "'{}' replay {{}} --list > '{}'; {question}",
        bin.display(),
        place.path("list").display()
    );
    let args = [
        "reduce",
        file.to_str().unwrap(),
        "--while",
        &command,
        "--out",
        small.to_str().unwrap(),
    ];
    let mut reduce = place.command(&args);
    reduce.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    succeeds(&place.finish(&mut reduce), &["reduced to"]);
    let list = replay(place, &small, &["--list"]);
    succeeds(&list, &[]);
    list.out
}

#[test]
fn packets_that_are_wrong_together_stay_together() {
    let place = prepared();
    let file = capture(&place, "chain", "data");
    let question =
        "grep -q 'tanh at' ../list && grep -q 'matmul at' ../list && grep -q 'copy to host' ../list";
    let list = reduced(&place, &file, question);
    let packets: Vec<&str> = list
        .lines()
        .filter(|line| line.contains(" at ") || line.contains("copy"))
        .collect();
    assert_eq!(packets.len(), 3, "{list}");
    assert!(
        packets[0].contains("matmul [1, 1, 1]") || packets[1].contains("matmul [1, 1, 1]"),
        "{list}"
    );
    // What only a program shows is reduced with its program.
    let list = reduced(&place, &file, "grep -q 'run program' ../list");
    assert_eq!(list.matches("run program").count(), 1, "{list}");
    assert!(list.lines().count() < 6, "{list}");
}

#[test]
fn a_command_that_never_holds_reduces_nothing() {
    let place = prepared();
    let file = capture(&place, "chain", "hash");
    let mut reduce = place.command(&["reduce", file.to_str().unwrap(), "--while", "false"]);
    reduce.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let run = place.finish(&mut reduce);
    assert_eq!(run.code, Some(1));
    assert!(
        run.err.starts_with("error: the command does not end with 0 for"),
        "{}",
        run.err
    );
    assert!(!place.path("chain.hash.capture.reduced").exists());
}
