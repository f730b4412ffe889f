//! Prints and closures of graphs on every backend that runs kernels: eagerly, recorded, compiled, in loops, branches, checkpoints and
//! gradients.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "plugins/context.rs"]
mod context;
mod plugins;

use context::context;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use thalweg::observe::{PrintFile, print};
use thalweg::{Context, DType, Mode, Tensor, checkpoint, cond, fori_loop, grad, jit, scan, while_loop};

/// Prints go where the process says, so that one test at a time prints.
static PRINTS: Mutex<()> = Mutex::new(());

const A15: &str = "\
print Tensor x and Tensor y:
Tensor(shape=[2, 1], dtype=Int32, value=
[[1]
 [1]])
Tensor(shape=[2, 2], dtype=Int32, value=
[[1 1]
 [1 1]])
";

fn direct(path: impl Into<PathBuf>) {
    let cpu = Context::builder().device_target("cpu").print_file_path(path);
    drop(cpu.build().unwrap());
}

/// What `body` prints.
fn printed(body: impl FnOnce()) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let _alone = PRINTS.lock();
    let name = format!("prints-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    direct(&path);
    body();
    direct("");
    if !path.exists() {
        return String::new();
    }
    let mut file = PrintFile::open(&path).unwrap();
    let texts: String = file.by_ref().map(|printout| printout.to_string()).collect();
    assert_eq!(file.cut(), None);
    std::fs::remove_file(path).unwrap();
    texts
}

fn show(x: &Tensor, y: &Tensor) {
    print(("print Tensor x and Tensor y:", x, y));
}

fn a15_in_every_mode(cx: &Context) {
    let (x, y) = (
        Tensor::ones([2, 1], DType::I32, cx),
        Tensor::ones([2, 2], DType::I32, cx),
    );
    assert_eq!(printed(|| show(&x, &y)), A15);
    let both = jit(|x: &Tensor, y: &Tensor| show(x, y));
    for _ in 0..2 {
        assert_eq!(printed(|| both.call((&x, &y))), A15);
    }
    cx.set_mode(Mode::Graph);
    assert_eq!(printed(|| show(&(&x * 1), &(&y * 1))), A15);
    cx.set_mode(Mode::Eager);
    let turn = |x: &Tensor, y: &Tensor| {
        fori_loop(0..12, x.clone(), |_, x| {
            show(&x, y);
            x * 1
        })
    };
    assert_eq!(printed(|| drop(turn(&x, &y))), A15.repeat(12));
    assert_eq!(printed(|| drop(jit(turn).call((&x, &y)))), A15.repeat(12));
    let (x, y) = (x.cast(DType::F32), y.cast(DType::F32));
    let loss = |x: &Tensor, y: &Tensor| {
        show(&x.cast(DType::I32), &y.cast(DType::I32));
        (x * y).sum()
    };
    assert_eq!(printed(|| drop(grad(loss).call((&x, &y)))), A15);
    let compiled = jit(grad(loss));
    let gradient = |text: &str| {
        let mut gradient = None;
        assert_eq!(printed(|| gradient = Some(compiled.call((&x, &y)))), text);
        gradient.unwrap().to_vec::<f32>().unwrap()
    };
    assert_eq!(gradient(A15), [2.0, 2.0]);
}

/// Everything that runs bodies, once or more: what `f` prints in eager code, it prints compiled, and in each gradient of both.
fn order_is_that_of_calls(cx: &Context) {
    let x = Tensor::from_slice(&[3.0_f32, 5.0], 2, cx);
    let first = |x: &Tensor| x.index(0);
    let f = |x: &Tensor| {
        print(("begin", &first(x)));
        let inner = |x: &Tensor| {
            print(("block", &first(x)));
            x.square()
        };
        let y = checkpoint(inner).call(x);
        print("behind the block");
        let y = fori_loop(0..10, y, |at, y| {
            print(("turn", at, &first(&y)));
            y * 0.5
        });
        let (y, _) = scan(
            |y: Tensor, z: Tensor| {
                print(("slice", &z));
                (y + &z, z)
            },
            y,
            &Tensor::arange(0, 9, 1, cx).cast(DType::F32),
        );
        // Nobody uses it.
        print(("unused", &(x * 7.0)));
        let y = while_loop(
            |y: &Tensor| {
                print(("test", &first(y)));
                first(y).lt(300.0)
            },
            |y| {
                print(("grow", &first(&y)));
                y * 3.0
            },
            y,
        );
        let y = cond(
            &first(x).gt(0.0),
            |y: &Tensor| {
                print(("positive", &first(y)));
                y * 2.0
            },
            |y: &Tensor| {
                print("negative");
                y * -2.0
            },
            &y,
        );
        print("twice");
        print("twice");
        y.sum()
    };
    let eager = printed(|| drop(f(&x)));
    let lines = |of: &str| eager.lines().filter(|line| *line == of).count();
    let counts = [
        "begin", "block", "turn", "slice", "unused", "test", "grow", "positive", "negative", "twice",
    ];
    assert_eq!(counts.map(lines), [1, 1, 10, 9, 1, 3, 2, 1, 0, 2], "{eager}");
    let compiled = jit(f);
    for _ in 0..2 {
        assert_eq!(printed(|| drop(compiled.call(&x))), eager);
    }
    let mut gradients = Vec::new();
    assert_eq!(printed(|| gradients.push(grad(f).call(&x))), eager);
    let compiled = jit(grad(f));
    assert_eq!(printed(|| gradients.push(compiled.call(&x))), eager);
    assert_eq!(
        gradients[0].to_vec::<f32>().unwrap(),
        gradients[1].to_vec::<f32>().unwrap()
    );
    cx.set_mode(Mode::Graph);
    assert_eq!(printed(|| drop(f(&x))), eager);
    cx.set_mode(Mode::Eager);
    let negative = printed(|| drop(jit(f).call(&(&x * 0.0))));
    assert!(
        negative.contains("negative") && !negative.contains("positive"),
        "{negative}"
    );
}

/// Prints change no bit, and closures see what prints show.
fn closures_see_values(cx: &Context) {
    let x = Tensor::from_slice(&[0.1_f32, 0.7, -3.3], 3, cx);
    let plain = |x: &Tensor| ((x * 1.7).exp() / 3.1).tanh().sum();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let seeing = move |x: &Tensor| {
        let sink = Arc::clone(&sink);
        let y = (x * 1.7).exp().inspect(move |y: &Tensor| {
            sink.lock().unwrap().push(y.to_vec::<f32>()?);
            match y.max().item::<f32>()? > 100.0 {
                true => Err("it grows".into()),
                false => Ok(()),
            }
        });
        (y / 3.1).tanh().sum()
    };
    let bits = |y: Tensor| y.item::<f32>().unwrap().to_bits();
    let wanted = bits(plain(&x));
    let compiled = jit(seeing.clone());
    let gradient = jit(grad(seeing.clone())).call(&x).to_vec::<f32>().unwrap();
    assert_eq!(gradient, grad(plain).call(&x).to_vec::<f32>().unwrap());
    assert_eq!(bits(seeing(&x)), wanted);
    assert_eq!(bits(compiled.call(&x)), wanted);
    assert_eq!(bits(jit(plain).call(&x)), wanted);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen, vec![(&x * 1.7).exp().to_vec::<f32>().unwrap(); 3]);
    for result in [seeing(&(&x * 10.0)), compiled.call(&(&x * 10.0))] {
        let error = result.item::<f32>().unwrap_err().to_string();
        assert!(
            error.starts_with("inspect: it grows\n  at tests/tests/prints.rs:"),
            "{error}"
        );
    }
    assert_eq!(bits(compiled.call(&x)), wanted);
}

macro_rules! backends {
    ($($name:ident = $target:literal, $plugin:literal;)*) => { $(
        mod $name {
            use super::context;

            #[test]
            fn a15_in_every_mode() {
                if let Some(cx) = context($target, $plugin) {
                    super::a15_in_every_mode(&cx);
                }
            }

            #[test]
            fn order_is_that_of_calls() {
                if let Some(cx) = context($target, $plugin) {
                    super::order_is_that_of_calls(&cx);
                }
            }

            #[test]
            fn closures_see_values() {
                if let Some(cx) = context($target, $plugin) {
                    super::closures_see_values(&cx);
                }
            }
        }
    )* };
}

backends! {
    cpu_embedded = "cpu", false;
    cpu_plugin = "cpu", true;
    reference_plugin = "reference", true;
    opencl_plugin = "opencl", true;
}
