//! A callback of one's own: stops when the loss is low enough, and leaves word for the one behind it.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use thalweg::{Context, Mode};
use thalweg_nn::callback::{Callback, RunContext, TimeMonitor};
use thalweg_nn::data::{Loader, Rows, Samples};
use thalweg_nn::{Dense, Model, Result, Sequential, Tanh, loss, optim::Adam};

/// Stops at a loss.
struct StopBelow(f64);

impl Callback for StopBelow {
    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let loss = run.loss_value()?.unwrap_or(f64::NAN);
        if loss < self.0 {
            run.values.insert("reached".into(), Box::new(loss));
            run.request_stop();
        }
        Ok(())
    }
}

/// Says how it ended.
struct Say;

impl Callback for Say {
    fn end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        match run.value::<f64>("reached") {
            Some(loss) => println!("stopped in epoch {} at a loss of {loss:.5}", run.cur_epoch_num),
            None => println!("all epochs ran"),
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    let cx = Context::new(&std::env::args().nth(1).unwrap_or("auto".into()))?;
    cx.set_seed(1);
    cx.set_mode(Mode::Graph);
    let x: Vec<f32> = (0..200).map(|i| i as f32 / 100.0 - 1.0).collect();
    let y: Vec<f32> = x.iter().map(|x| (3.0 * x).sin()).collect();
    let data = Loader::new(Samples::new(Rows::new(x, &[1])?, Rows::new(y, &[1])?)?, 20).shuffle(1);
    let net = Sequential::new()
        .then(Dense::new(1, 32, &cx)?)
        .then(Tanh)
        .then(Dense::new(32, 1, &cx)?);
    let mut model = Model::new(net, loss::mse, Adam::new(0.01), &cx);
    let mut time = TimeMonitor::new();
    model.train(500, &data, (StopBelow(0.002), &mut time, Say))?;
    println!(
        "{:.1} µs a step in the last epoch",
        time.per_step().unwrap_or_default().as_secs_f64() * 1e6
    );
    Ok(())
}
