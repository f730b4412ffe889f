//! Where prints go: the screen, files, and what is left of them when the program ends.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use thalweg::graph::Graph;
use thalweg::observe::{PrintFile, PrintItem, print};
use thalweg::{Context, DType, Tensor, jit};

const CHILD: &str = "THALWEG_TEST_PRINTS";

fn child(test: &str, file: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1", "-q"]);
    command.env(CHILD, "1").env("THALWEG_PRINT_FILE_PATH", file);
    command
}

/// Runs the rest of a test in a process of its own, which prints into `file`; the screen of it. `None` there.
fn apart(test: &str, file: &str) -> Option<Output> {
    match std::env::var_os(CHILD) {
        Some(_) => None,
        None => Some(child(test, file).output().unwrap()),
    }
}

fn context() -> Context {
    let builder = thalweg::context::ContextBuilder::from_env().unwrap();
    builder.device_target("cpu").build().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("prints-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn texts(path: &Path) -> Vec<String> {
    let file = PrintFile::open(path).unwrap();
    file.map(|printout| printout.to_string()).collect()
}

#[test]
fn the_screen_shows_them_whole() {
    let Some(run) = apart("the_screen_shows_them_whole", "") else {
        let cx = context();
        print("begin");
        let ones = Tensor::ones([2, 1], DType::I32, &cx);
        jit(|x: &Tensor| print(("ones", x, true, 7, 0.5))).call(&ones);
        print(Tensor::zeros([0, 3], DType::F32, &cx));
        print([&Tensor::scalar(1.5_f32, &cx)]);
        print(Tensor::arange(0, 1500, 1, &cx));
        print(ones.matmul(&ones));
        print("end");
        // No destructor runs.
        std::process::exit(0);
    };
    let screen = String::from_utf8(run.stdout).unwrap();
    let shown = &screen[screen.find("begin").unwrap()..];
    let (head, tail) = shown.split_at(shown.find("Tensor(shape=[1500]").unwrap());
    assert_eq!(
        head,
        "begin\nones\nTensor(shape=[2, 1], dtype=Int32, value=\n[[1]\n [1]])\ntrue\n7\n0.5\n\
         Tensor(shape=[0, 3], dtype=Float32, value=\n[])\nTensor(shape=[], dtype=Float32, value= 1.5)\n"
    );
    assert!(tail.contains(" 750 ") && tail.contains("1499])\n"), "{tail}");
    assert!(
        tail.contains("Tensor(error=matmul: inner sizes differ: [2, 1] × [2, 1]"),
        "{tail}"
    );
    assert!(tail.ends_with("end\n"), "{tail}");
}

#[test]
fn a19_an_old_file_stays() {
    let folder = folder("a19");
    let path = folder.join("print.data");
    std::fs::write(&path, "old bytes").unwrap();
    let Some(run) = apart("a19_an_old_file_stays", path.to_str().unwrap()) else {
        let cx = context();
        print(("in the file", &Tensor::ones([1], DType::Bool, &cx)));
        // The same file, from another context.
        let _other = context();
        print("and more");
        return;
    };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(!String::from_utf8_lossy(&run.stdout).contains("in the file"));
    assert_eq!(std::fs::read(&path).unwrap(), b"old bytes");
    let names = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let new: Vec<PathBuf> = names.filter(|name| *name != path).collect();
    let [new] = &new[..] else { panic!("{new:?}") };
    let seconds = new
        .to_str()
        .unwrap()
        .strip_prefix(path.to_str().unwrap())
        .unwrap();
    assert!(seconds[1..].parse::<u64>().unwrap() > 1_700_000_000, "{seconds}");
    let wanted = [
        "in the file\nTensor(shape=[1], dtype=Bool, value=\n[ True])\n",
        "and more\n",
    ];
    let found = texts(new);
    assert_eq!(found.len(), 2);
    assert_eq!(found[1], wanted[1]);
    assert_eq!(
        found[0].replace("[ True]", "[True]"),
        wanted[0].replace("[ True]", "[True]")
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_killed_process_leaves_what_it_printed() {
    let folder = folder("killed");
    let path = folder.join("print.data");
    if std::env::var_os(CHILD).is_some() {
        let cx = context();
        let step = jit(|x: &Tensor| {
            print(("step", x));
            x + 1.0
        });
        let mut x = Tensor::zeros([64], DType::F32, &cx);
        loop {
            x = step.call(&x);
            eprintln!("stepped");
        }
    }
    for steps in [1, 7, 30] {
        let mut run = child("a_killed_process_leaves_what_it_printed", path.to_str().unwrap())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let said = std::io::BufReader::new(run.stderr.take().unwrap());
        let lines = std::io::BufRead::lines(said).map(Result::unwrap);
        let stepped = lines.filter(|line| line.contains("stepped")).take(steps).count();
        run.kill().unwrap();
        run.wait().unwrap();
        let mut file = PrintFile::open(&path).unwrap();
        let found: Vec<_> = file.by_ref().collect();
        assert_eq!((stepped, file.cut()), (steps, None));
        assert!(found.len() >= steps, "{} of {steps}", found.len());
        for (at, printout) in found.iter().enumerate() {
            assert!(printout.to_string().starts_with("step\nTensor(shape=[64]"));
            let PrintItem::Tensor { bytes, .. } = &printout.items[1] else {
                panic!("{printout}")
            };
            assert_eq!(bytes[..4], (at as f32).to_le_bytes());
        }
        std::fs::remove_file(&path).unwrap();
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_folder_is_no_file() {
    let build = |path: &Path| {
        Context::builder()
            .device_target("nothing")
            .print_file_path(path)
            .build()
    };
    let folder = folder("folder");
    let error = build(&folder).unwrap_err().to_string();
    let wanted = format!("print_file_path is {folder:?}: it is a folder");
    assert!(error.starts_with(&wanted), "{error}");
    let under_file = folder.join("file/print.data");
    std::fs::write(folder.join("file"), "").unwrap();
    let error = build(&under_file).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("print_file_path is {under_file:?}: ")),
        "{error}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_no_file_takes_is_on_the_screen() {
    let path = "/dev/full/print.data";
    let Some(run) = apart("what_no_file_takes_is_on_the_screen", "/proc/thalweg/print.data") else {
        let _cx = context();
        print("not lost");
        print("nor this");
        return;
    };
    let screen = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(screen.contains("not lost\nnor this\n"), "{path} {screen}");
}

#[test]
fn prints_are_text_of_graphs() {
    let cx = Context::new("cpu").unwrap();
    let x = Tensor::ones(2, DType::F32, &cx);
    let graph = jit(|x: &Tensor| {
        print(("a \"b\", #c\n\u{e9}]", &(x * 2.0), ""));
        x + 1.0
    });
    let graph = graph.graph(&x).unwrap();
    let text = graph.to_text();
    let read = Graph::parse(&text).unwrap();
    assert_eq!(read.to_text(), text);
    assert!(graph.to_dot().contains("print"));
    let rewritten = thalweg::graph::rewrite(&read).to_text();
    assert!(rewritten.contains(": token = print %"), "{rewritten}");
    let seeing = jit(|x: &Tensor| x.inspect(|_: &Tensor| Ok(())));
    let error = Graph::parse(&seeing.graph(&x).unwrap().to_text())
        .unwrap_err()
        .to_string();
    assert!(error.contains("a text has no closure of a program"), "{error}");
}
