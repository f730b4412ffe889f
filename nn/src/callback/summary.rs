//! The callback that collects what happens in a training.

mod plan;

use super::{Callback, RunContext};
use crate::error::Result;
use crate::summary::landscape::Kept;
use crate::summary::lineage::{self, Lineage};
use crate::summary::noted::{Entry, Kind};
use crate::summary::record::{Due, Record};
use crate::summary::{
    Custom, ExportOptions, LandscapeOptions, SpecifiedData, SummaryError, SummaryOptions, network, values,
};
use plan::{Plan, TensorPlan};
use regex_lite::Regex;
use std::path::{Path, PathBuf};
use thalweg::options::by_name::{near, wrong};
use thalweg_summary::hparams::{Status, session_end, session_start};
use thalweg_summary::{Content, Data, Value};

/// Parameters that have histograms unless an expression picks others.
const HISTOGRAMS: usize = 5;

/// Collects what happens in a training into files that TensorBoard reads: loss, histograms of parameters, images of the data, the
/// graph, hyperparameters, and what [`summary`](crate::summary) notes.
///
/// Collecting changes no bit of what is trained. A disk that is full costs the summary, not the training; the log says so once.
///
/// ```no_run
/// use thalweg_nn::callback::SummaryCollector;
/// # fn train(callbacks: impl thalweg_nn::callback::Callback) {}
/// train(SummaryCollector::to("runs/1").collect_freq(50));
/// // $ tensorboard --logdir runs
/// ```
pub struct SummaryCollector {
    options: SummaryOptions,
    session: Option<Session>,
}

/// The other name of [`SummaryCollector`].
pub type SummaryMonitor = SummaryCollector;

impl SummaryCollector {
    /// Collects everything that is collected by default, into `output/summary/rank_0`.
    pub fn new() -> SummaryCollector {
        SummaryCollector::with(SummaryOptions::default())
    }

    /// As [`SummaryCollector::new`], into this folder, which is made; `{r}` in it is the rank.
    pub fn to(folder: impl Into<PathBuf>) -> SummaryCollector {
        let mut collector = SummaryCollector::new();
        collector.options.summary_dir = folder.into().to_string_lossy().into_owned();
        collector
    }

    /// What these options say.
    pub fn with(options: SummaryOptions) -> SummaryCollector {
        SummaryCollector {
            options,
            session: None,
        }
    }

    /// Collects step 1 and the multiples of `steps`, 10 unless changed.
    #[must_use]
    pub fn collect_freq(mut self, steps: u64) -> SummaryCollector {
        self.options.collect_freq = steps;
        self
    }

    /// Collects tensors at step 1 and the multiples of `steps`.
    #[must_use]
    pub fn collect_tensor_freq(mut self, steps: u64) -> SummaryCollector {
        self.options.collect_tensor_freq = Some(steps);
        self
    }

    /// What is collected.
    #[must_use]
    pub fn specified(mut self, data: SpecifiedData) -> SummaryCollector {
        self.options.collect_specified_data = data;
        self
    }

    /// Whether what [`specified`](SummaryCollector::specified) does not say is collected; it is unless changed.
    #[must_use]
    pub fn keep_default_action(mut self, keep: bool) -> SummaryCollector {
        self.options.keep_default_action = keep;
        self
    }

    /// Has histograms of the parameters whose name begins with a match of this regular expression.
    #[must_use]
    pub fn histograms(mut self, expression: impl Into<String>) -> SummaryCollector {
        self.options.collect_specified_data.histogram_regular = Some(expression.into());
        self
    }

    /// Keeps weights for [`summary::landscape`](crate::summary::landscape()).
    #[must_use]
    pub fn landscape(mut self, options: LandscapeOptions) -> SummaryCollector {
        self.options.collect_specified_data.collect_landscape = Some(options);
        self
    }

    /// Adds a hyperparameter.
    #[must_use]
    pub fn custom(mut self, name: impl Into<String>, value: Custom) -> SummaryCollector {
        self.options.custom_lineage_data.insert(name.into(), value);
        self
    }

    /// Ends a file before it has more than so many bytes.
    #[must_use]
    pub fn max_file_size(mut self, bytes: u64) -> SummaryCollector {
        self.options.max_file_size = Some(bytes);
        self
    }

    /// Writes tensors to files of NumPy too.
    #[must_use]
    pub fn export_npy(mut self) -> SummaryCollector {
        self.options.export_options = Some(ExportOptions { npy: true });
        self
    }
}

impl Default for SummaryCollector {
    fn default() -> SummaryCollector {
        SummaryCollector::new()
    }
}

impl Callback for SummaryCollector {
    fn begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.options.check()?;
        // One that an earlier call left is ended first.
        self.session = None;
        self.session = Some(Session::begin(&self.options, run)?);
        Ok(())
    }

    fn step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        if let Some(session) = &mut self.session {
            session.step_begin(run.cur_step_num);
        }
        Ok(())
    }

    fn step_done(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.with_session(|options, session| session.step_done(options, run))
    }

    fn epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.with_session(|options, session| session.epoch_end(options, run))
    }

    fn end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.with_session(|options, session| session.end(options, run))?;
        self.session = None;
        Ok(())
    }
}

impl SummaryCollector {
    fn with_session(&mut self, run: impl FnOnce(&SummaryOptions, &mut Session) -> Result<()>) -> Result<()> {
        match &mut self.session {
            Some(session) => run(&self.options, session),
            None => Ok(()),
        }
    }
}

/// One call of `train`.
struct Session {
    record: Record,
    plan: Plan,
    /// Names of the parameters that have histograms.
    histograms: Vec<String>,
    /// Whether the graph is still to come.
    graph: bool,
    lineage: Lineage,
    landscape: Option<Kept>,
    last_loss: Option<f64>,
    ended: bool,
}

impl Session {
    fn begin(options: &SummaryOptions, run: &RunContext<'_>) -> Result<Session> {
        let total = run.epoch_num.saturating_mul(run.batch_num);
        let histograms = histograms(options, run)?;
        let kept = match &options.collect_specified_data.collect_landscape {
            Some(landscape) => Some(Kept::plan(landscape, run.epoch_num, run.batch_num)?),
            None => None,
        };
        let export = options.export_options.as_ref().is_some_and(|export| export.npy);
        let record = Record::with(Path::new(&options.summary_dir), options.max_file_size, export)?;
        let mut session = Session {
            record,
            plan: Plan::new(
                options.collect_freq,
                TensorPlan::new(options.collect_tensor_freq, options.collect_freq, total),
            ),
            histograms,
            graph: options.collects(|data| data.collect_graph),
            lineage: Lineage::default(),
            landscape: kept,
            last_loss: None,
            ended: false,
        };
        session.begin_lineage(options, run);
        Ok(session)
    }

    fn begin_lineage(&mut self, options: &SummaryOptions, run: &RunContext<'_>) {
        if options.collects(|data| data.collect_train_lineage) {
            self.lineage.training(run);
        }
        if let Some(data) = run.train_dataset
            && options.collects(|data| data.collect_dataset_graph)
        {
            self.lineage.data(data);
        }
        self.lineage.custom(&options.custom_lineage_data);
        let settings = self.lineage.settings();
        if !settings.is_empty() {
            let group = options.summary_dir.clone();
            self.record.begin(run.cur_step_num, Due::default());
            self.record.write(vec![session_start(&settings, &group)]);
        }
        self.write_lineage();
    }

    fn write_lineage(&mut self) {
        if !self.lineage.is_empty() {
            let lineage = &self.lineage;
            (self.record.sink()).beside(lineage::FILE, |path| lineage.write(path));
        }
    }

    fn step_begin(&mut self, step: u64) {
        let due = self.plan.begin(step);
        self.record.begin(step, due);
    }

    fn step_done(&mut self, options: &SummaryOptions, run: &mut RunContext<'_>) -> Result<()> {
        let due = self.plan.due();
        self.record.flush()?;
        if std::mem::take(&mut self.graph) {
            self.write_graph(run)?;
        }
        if due.values {
            let values = self.collected(options, run)?;
            self.record.write(values);
        }
        let sink = self.record.sink();
        match &mut self.landscape {
            Some(kept) => kept.step(sink, run),
            None => Ok(()),
        }
    }

    fn write_graph(&mut self, run: &RunContext<'_>) -> Result<()> {
        if let (Some(x), Some(y)) = (&run.inputs, &run.targets) {
            let (graph, inputs) = run.model.step_graph(x, y)?;
            let device = run.model.context().device().target().to_owned();
            let drawn = network::drawn(&graph, &inputs, &device);
            (self.record.sink()).write(run.cur_step_num, Content::Graph(drawn));
        }
        Ok(())
    }

    /// What is collected without being noted.
    fn collected(&mut self, options: &SummaryOptions, run: &RunContext<'_>) -> Result<Vec<Value>> {
        let mut collected = Vec::new();
        if options.collects(|data| data.collect_metric)
            && let Some(loss) = &run.loss
        {
            let loss = values::mean(loss)?;
            self.last_loss = Some(f64::from(loss));
            collected.push(Value::new("loss/auto", Data::Scalar(loss)));
        }
        if options.collects(|data| data.collect_input_data)
            && let Some(x) = &run.inputs
            && values::has_images(x)?
        {
            collected.push(values::of(&Entry {
                kind: Kind::Image,
                tag: "input_data/auto".into(),
                value: x.clone(),
            })?);
        }
        if !self.histograms.is_empty() {
            for (name, value) in run.model.trainable() {
                if self.histograms.contains(&name) {
                    collected.push(values::of(&Entry {
                        kind: Kind::Histogram,
                        tag: format!("{name}/auto").into(),
                        value,
                    })?);
                }
            }
        }
        Ok(collected)
    }

    fn epoch_end(&mut self, options: &SummaryOptions, run: &mut RunContext<'_>) -> Result<()> {
        self.record.flush()?;
        if options.collects(|data| data.collect_eval_lineage) && !run.metrics.is_empty() {
            let mut figures: Vec<Value> = (run.metrics.iter())
                .map(|(name, value)| Value::new(format!("eval/{name}"), Data::Scalar(*value as f32)))
                .collect();
            figures.sort_by(|one, other| one.tag.cmp(&other.tag));
            self.record.write(figures);
            self.lineage.evaluation(run);
        }
        self.lineage.progress(run, self.last_loss, false);
        self.write_lineage();
        let sink = self.record.sink();
        match &mut self.landscape {
            Some(kept) => kept.epoch(sink, run),
            None => Ok(()),
        }
    }

    fn end(&mut self, _: &SummaryOptions, run: &mut RunContext<'_>) -> Result<()> {
        self.record.flush()?;
        self.lineage.progress(run, self.last_loss, true);
        self.write_lineage();
        self.ended = true;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.lineage.settings().is_empty() {
            let status = match self.ended {
                true => Status::Success,
                false => Status::Failure,
            };
            self.record.write(vec![session_end(status)]);
        }
    }
}

/// The parameters that have histograms.
fn histograms(options: &SummaryOptions, run: &RunContext<'_>) -> Result<Vec<String>> {
    let names: Vec<String> = run.model.trainable().into_iter().map(|(name, _)| name).collect();
    let refused =
        |expression: &str, why: &str| SummaryError::from(wrong("histogram_regular", expression, why));
    let Some(expression) = &options.collect_specified_data.histogram_regular else {
        let count = if options.keep_default_action {
            HISTOGRAMS
        } else {
            0
        };
        return Ok(names.into_iter().take(count).collect());
    };
    let anchored = Regex::new(&format!("^(?:{expression})"));
    let pattern = anchored.map_err(|error| {
        let why = error.to_string();
        refused(
            expression,
            &format!(
                "it takes a regular expression: {}",
                why.lines().last().unwrap_or_default()
            ),
        )
    })?;
    let picked: Vec<String> = names
        .iter()
        .filter(|name| pattern.is_match(name))
        .cloned()
        .collect();
    if picked.is_empty() {
        let near = near(expression, names.iter().map(String::as_str));
        return Err(refused(expression, &format!("no parameter begins so; {near}")).into());
    }
    Ok(picked)
}
