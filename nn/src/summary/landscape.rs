//! Loss landscapes: the loss in a plane through the weights that a training passed (Li et al. 2018).

mod plane;

use super::error::SummaryError;
use super::options::{LandscapeOptions, Unit};
use super::sink::Sink;
use crate::callback::RunContext;
use crate::checkpoint;
use crate::data::{Batch, Column, Loader};
use crate::error::Result;
use crate::model::Model;
use crate::module::{Layer, PartMut, VisitorMut};
use indicatif::{ProgressBar, ProgressStyle};
use plane::Plane;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::IsTerminal;
use std::path::Path;
use thalweg::options::by_name::wrong;
use thalweg::{DType, Shape, Tensor, Tree, interchange};

/// Where weights lie in a summary's folder.
const WEIGHTS: &str = "ckpt_dir";
/// What was kept, beside them.
const METADATA: &str = "train_metadata.json";
/// The landscapes.
const FILE: &str = "landscape.json";
/// Weights of a training unless intervals say more.
const SPREAD: u64 = 10;

/// Weights that a training keeps.
pub(crate) struct Kept {
    options: LandscapeOptions,
    intervals: Vec<Vec<u64>>,
    /// The unit with which the training ends.
    last: u64,
    /// Steps or epochs at which weights are kept.
    wanted: BTreeSet<u64>,
    /// File and loss of those that were.
    kept: BTreeMap<u64, (String, Option<f64>)>,
    batches: u64,
}

impl Kept {
    /// What a training of so many epochs of so many batches keeps.
    pub(crate) fn plan(options: &LandscapeOptions, epochs: u64, batches: u64) -> Result<Kept> {
        let (last, units) = match options.unit {
            Unit::Step => (epochs.saturating_mul(batches), "steps"),
            Unit::Epoch => (epochs, "epochs"),
        };
        let refused = |value: String, why: &str| {
            SummaryError::from(wrong(
                "intervals",
                value,
                &format!("the training has {last} {units}{why}"),
            ))
        };
        let given = options.intervals.iter().flatten();
        if let Some(beyond) = given.copied().find(|&at| at > last) {
            return Err(refused(beyond.to_string(), "").into());
        }
        let mut intervals = options.intervals.clone();
        if options.create_landscape.train && intervals.is_empty() {
            if last < 3 {
                return Err(refused("none".to_owned(), ", and a landscape needs 3").into());
            }
            let count = last.min(SPREAD);
            // The first is 1 and the last is the last.
            let at = |number: u64| 1 + u128::from(last - 1) * u128::from(number) / u128::from(count - 1);
            intervals.push((0..count).map(|number| at(number) as u64).collect());
        }
        if !options.create_landscape.train {
            intervals.clear();
        }
        let mut wanted: BTreeSet<u64> = intervals.iter().flatten().copied().collect();
        if options.create_landscape.result {
            wanted.insert(last);
        }
        Ok(Kept {
            options: options.clone(),
            intervals,
            last,
            wanted,
            kept: BTreeMap::new(),
            batches,
        })
    }

    /// Keeps the weights of a step.
    pub(crate) fn step(&mut self, sink: &mut Sink, run: &RunContext<'_>) -> Result<()> {
        match self.options.unit {
            Unit::Step => self.keep(run.cur_step_num, sink, run),
            Unit::Epoch => Ok(()),
        }
    }

    /// Keeps the weights of an epoch.
    pub(crate) fn epoch(&mut self, sink: &mut Sink, run: &RunContext<'_>) -> Result<()> {
        match self.options.unit {
            Unit::Step => Ok(()),
            Unit::Epoch => self.keep(run.cur_epoch_num, sink, run),
        }
    }

    fn keep(&mut self, at: u64, sink: &mut Sink, run: &RunContext<'_>) -> Result<()> {
        if !self.wanted.contains(&at) || self.kept.contains_key(&at) {
            return Ok(());
        }
        let name = format!("{}_{at:08}.safetensors", self.unit());
        let loss = run.loss_value()?;
        let weights = run.model.trainable();
        sink.beside(&format!("{WEIGHTS}/{name}"), |path| {
            checkpoint::save(path, &weights, &BTreeMap::new())
        });
        self.kept.insert(at, (name, loss));
        let metadata = self.metadata();
        sink.beside(&format!("{WEIGHTS}/{METADATA}"), |path| {
            write_json(path, &metadata)
        });
        Ok(())
    }

    fn unit(&self) -> &'static str {
        match self.options.unit {
            Unit::Step => "step",
            Unit::Epoch => "epoch",
        }
    }

    fn metadata(&self) -> Value {
        let weights: serde_json::Map<_, _> = (self.kept.iter())
            .map(|(at, (file, loss))| (at.to_string(), json!({"file": file, "loss": loss})))
            .collect();
        let create = self.options.create_landscape;
        json!({
            "unit": self.unit(),
            "steps_per_epoch": self.batches,
            "landscape_size": self.options.landscape_size,
            "num_samples": self.options.num_samples,
            "create_landscape": {"train": create.train, "result": create.result},
            "intervals": self.intervals,
            "last": self.last,
            "weights": weights,
        })
    }
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    Ok(interchange::replace_file(path, text.as_bytes())?)
}

/// The loss in a plane.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Landscape {
    /// `step 1-20` or `epoch 1-20` for the plane of the way between them, `result` for random directions from the last weights.
    pub name: String,
    /// Distances from the last weights along the first direction.
    pub x: Vec<f64>,
    /// Distances along the second one.
    pub y: Vec<f64>,
    /// The loss at each `y`, and there at each `x`.
    pub loss: Vec<f64>,
    /// The weights of the training: step or epoch, and where they lie in the plane.
    pub path: Vec<(u64, [f64; 2])>,
}

/// Computes the landscapes of a training whose [`SummaryCollector`](crate::callback::SummaryCollector) had `collect_landscape`, and
/// writes them to `landscape.json` in its folder. The model has the structure of the trained one; it stays as it is. The loss of a
/// point is the mean over the first samples of `data`, as many as `num_samples` said. A bar on standard error shows how far it is.
///
/// # Errors
/// The folder has no weights, or those of another network; the weights moved in fewer than two directions; data or device fail.
pub fn landscape<N: Layer + Tree + Send + Sync + 'static>(
    folder: impl AsRef<Path>,
    model: &Model<N>,
    data: &Loader,
) -> Result<Vec<Landscape>> {
    let folder = folder.as_ref();
    let plan = read(&folder.join(WEIGHTS))?;
    let batches = model.batches_of_samples(data, plan.samples)?;
    let mut planes = Vec::new();
    for interval in &plan.intervals {
        planes.push(plan.plane_of_way(interval, model)?);
    }
    if plan.result {
        planes.push(plan.plane_of_result(model)?);
    }
    let bar = bar((planes.len() * plan.size * plan.size) as u64);
    let mut landscapes = Vec::new();
    for plane in planes {
        landscapes.push(measured(plane, plan.size, (model, &batches), &bar)?);
    }
    bar.finish_and_clear();
    write_json(&folder.join(FILE), &described(&landscapes))?;
    Ok(landscapes)
}

fn bar(points: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(points);
    if let Ok(style) = ProgressStyle::with_template("landscape {bar:32} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar
}

/// Parameters of a network by name, as numbers.
struct Weights {
    parts: Vec<Part>,
}

/// A parameter.
struct Part {
    name: String,
    shape: Shape,
    dtype: DType,
}

impl Weights {
    fn of<N: Layer + Tree + Send + Sync + 'static>(model: &Model<N>) -> Result<Weights> {
        let part = |(name, value): (String, Tensor)| {
            Ok(Part {
                name,
                shape: value.shape()?,
                dtype: value.dtype()?,
            })
        };
        let parts = crate::module::trainable_named(model.net()).into_iter().map(part);
        Ok(Weights {
            parts: parts.collect::<Result<_>>()?,
        })
    }

    /// A network with these numbers.
    fn put<N: Layer + Tree>(&self, net: &N, numbers: &[f64], cx: &thalweg::Context) -> N {
        let mut rest = numbers;
        let mut values = HashMap::new();
        for part in &self.parts {
            let (own, others) = rest.split_at(part.shape.elements().min(rest.len()));
            rest = others;
            let value = Tensor::from_vec(own.to_vec(), part.shape, cx).cast(part.dtype);
            values.insert(part.name.as_str(), value);
        }
        let mut net = net.clone();
        net.set_training(false);
        net.visit_mut(&mut VisitorMut::new(&mut |path, part| {
            if let (PartMut::Parameter(parameter), Some(value)) = (part, values.remove(path)) {
                parameter.set_value(value);
            }
        }));
        net
    }
}

/// The loss at each point of a plane.
fn measured<N: Layer + Tree + Send + Sync + 'static>(
    plane: Plane,
    size: usize,
    (model, batches): (&Model<N>, &[Batch]),
    bar: &ProgressBar,
) -> Result<Landscape> {
    let (x, y) = plane.axes(size);
    let weights = Weights::of(model)?;
    let mut loss = Vec::with_capacity(size * size);
    for &second in &y {
        for &first in &x {
            let net = weights.put(model.net(), &plane.point(first, second), model.place());
            loss.push(model.loss_of(&net, batches)?);
            bar.inc(1);
        }
    }
    Ok(Landscape {
        name: plane.name,
        x,
        y,
        loss,
        path: plane.path,
    })
}

fn described(landscapes: &[Landscape]) -> Value {
    let one = |landscape: &Landscape| {
        let rows: Vec<&[f64]> = landscape.loss.chunks(landscape.x.len().max(1)).collect();
        let path: Vec<Value> = (landscape.path.iter())
            .map(|(at, [x, y])| json!({"at": at, "x": x, "y": y}))
            .collect();
        json!({"name": landscape.name, "x": landscape.x, "y": landscape.y, "loss": rows, "path": path})
    };
    json!({"landscapes": landscapes.iter().map(one).collect::<Vec<_>>()})
}

/// What a training kept.
struct Plan {
    folder: std::path::PathBuf,
    unit: String,
    size: usize,
    samples: usize,
    intervals: Vec<Vec<u64>>,
    result: bool,
    last: u64,
    files: BTreeMap<u64, String>,
}

fn read(folder: &Path) -> Result<Plan> {
    let path = folder.join(METADATA);
    let refused = |why: String| SummaryError::Landscape {
        path: path.clone(),
        why,
    };
    let text = fs::read_to_string(&path)
        .map_err(|error| refused(format!("{error}; train with `collect_landscape` first")))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    let plan = plan_of(folder, &value).ok_or_else(|| refused("it is no metadata of weights".to_owned()))?;
    let wanted = plan
        .intervals
        .iter()
        .flatten()
        .chain(plan.result.then_some(&plan.last));
    for at in wanted {
        if !plan.files.contains_key(at) {
            return Err(refused(format!("the training ended before {} {at}", plan.unit)).into());
        }
    }
    Ok(plan)
}

fn plan_of(folder: &Path, value: &Value) -> Option<Plan> {
    let number = |key: &str| usize::try_from(value.get(key)?.as_u64()?).ok();
    let intervals = value.get("intervals")?.as_array()?.iter();
    let interval = |list: &Value| {
        list.as_array()?
            .iter()
            .map(Value::as_u64)
            .collect::<Option<Vec<u64>>>()
    };
    let file = |(at, kept): (&String, &Value)| {
        let name = kept.get("file")?.as_str()?.to_owned();
        // A name alone: weights lie in this folder.
        Some((at.parse().ok()?, name)).filter(|(_, name)| !name.contains('/'))
    };
    let files = value.get("weights")?.as_object()?.iter().map(file);
    Some(Plan {
        folder: folder.to_owned(),
        unit: value.get("unit")?.as_str()?.to_owned(),
        size: number("landscape_size").filter(|size| (3..=256).contains(size))?,
        samples: number("num_samples").filter(|samples| *samples > 0)?,
        intervals: intervals.map(interval).collect::<Option<_>>()?,
        result: value.get("create_landscape")?.get("result")?.as_bool()?,
        last: value.get("last")?.as_u64()?,
        files: files.collect::<Option<_>>()?,
    })
}

impl Plan {
    /// The numbers of the weights at a step or epoch, in the order of the model's parameters.
    fn weights<N: Layer + Tree + Send + Sync + 'static>(
        &self,
        at: u64,
        model: &Model<N>,
    ) -> Result<Vec<f64>> {
        let path = self.folder.join(self.files.get(&at).map_or("", String::as_str));
        let mut file = checkpoint::load(&path, model.place())?;
        let mut numbers = Vec::new();
        for (name, like) in crate::module::trainable_named(model.net()) {
            let value = file.take(&name, &like)?.ok_or_else(|| SummaryError::Landscape {
                path: path.clone(),
                why: format!("there is no parameter {name}; it is of another network"),
            })?;
            numbers.extend(Column::of(&value)?.to_f64());
        }
        Ok(numbers)
    }

    fn plane_of_way<N: Layer + Tree + Send + Sync + 'static>(
        &self,
        interval: &[u64],
        model: &Model<N>,
    ) -> Result<Plane> {
        let ends = (
            interval.first().copied().unwrap_or(0),
            interval.last().copied().unwrap_or(0),
        );
        let name = format!("{} {}-{}", self.unit, ends.0, ends.1);
        let way: Vec<Vec<f64>> = (interval.iter())
            .map(|&at| self.weights(at, model))
            .collect::<Result<_>>()?;
        let plane = Plane::of_way(name.clone(), interval, way);
        Ok(plane.ok_or_else(|| SummaryError::Landscape {
            path: self.folder.clone(),
            why: format!("{name}: the weights moved in fewer than two directions; take a longer interval"),
        })?)
    }

    fn plane_of_result<N: Layer + Tree + Send + Sync + 'static>(&self, model: &Model<N>) -> Result<Plane> {
        let weights = self.weights(self.last, model)?;
        let shapes: Vec<Shape> = Weights::of(model)?.parts.iter().map(|part| part.shape).collect();
        Ok(Plane::around("result".to_owned(), self.last, weights, &shapes))
    }
}
