//! Profiles: recordings that a program asks for.

use super::metrics::{Measured, Metric};
use super::Schedule;
use super::schedule::Plan;
use crate::context::Context;
use crate::error::Result;
use crate::record::error::ProfileError;
use crate::record::recording::SpanKind;
use crate::record::session::{self, Options, Session};
use crate::record::{calls, clock, environment, span, switch};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What is recorded and where to: made by [`Profile::to`].
#[must_use = "nothing is recorded before `start`"]
pub struct ProfileBuilder {
    folder: PathBuf,
    bits: u32,
    steps: Option<std::result::Result<Schedule, ProfileError>>,
    metric: Option<Metric>,
    ready: Option<Ready>,
}

/// What hears of a recording that is whole.
type Ready = Box<dyn FnMut(&Path) + Send>;

/// While it lives, what runs is recorded, in all threads and on all devices of the process. A process has one at a time.
///
/// ```no_run
/// use thalweg::{Context, observe};
/// let cx = Context::auto()?;
/// let _profile = observe::Profile::to("out").memory(true).start(&cx)?;
/// // model.train(3, &train, ())?;
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// The file is `rank_0/recording.tw` in the folder, with the rank that `THALWEG_RANK` or `RANK_ID` says. A recording that is there is
/// replaced. What was recorded is written at least every 100 ms, so a program that ends by force leaves a file that is good up to then.
pub struct Profile {
    folder: PathBuf,
    rank: u32,
    bits: u32,
    settings: String,
    schedule: Option<Schedule>,
    measured: Option<Measured>,
    ready: Option<Ready>,
    context: Context,
    session: Option<Session>,
    /// Of this step, which counts from 0.
    plan: Plan,
    step: u64,
    // Ticks at which the step began, and how many steps others noted by then.
    begun: (u64, u64),
}

impl ProfileBuilder {
    fn with(mut self, bits: u32, on: bool) -> ProfileBuilder {
        if on {
            self.bits |= bits;
        } else {
            self.bits &= !bits;
        }
        self
    }

    /// Whether kernels, copies and fills are recorded; they are unless this says no.
    pub fn kernels(self, on: bool) -> ProfileBuilder {
        self.with(switch::RUNS, on)
    }

    /// Whether calls of ops on the host are recorded; they are unless this says no.
    pub fn ops(self, on: bool) -> ProfileBuilder {
        self.with(switch::OPS, on)
    }

    /// Whether memory that is taken and given back is recorded; it is not unless this says so.
    pub fn memory(self, on: bool) -> ProfileBuilder {
        self.with(switch::MEMORY, on)
    }

    /// What is measured of the hardware of the context's device. [`Metric::ArithmeticUtilization`] and [`Metric::Memory`] take some
    /// tenths of a second at the start, in which the device shows what it can do.
    pub fn metric(mut self, metric: Metric) -> ProfileBuilder {
        self.metric = Some(metric);
        self
    }

    /// Which steps are recorded. A step ends with [`Profile::step`]. Each cycle is a recording of its own, in `cycle_1` and so on
    /// where there may be several.
    pub fn schedule(mut self, schedule: Schedule) -> ProfileBuilder {
        self.steps = Some(schedule.check().map(|()| schedule));
        self
    }

    /// Records these steps alone, counted from 1: the schedule that keeps them once.
    pub fn steps(mut self, steps: RangeInclusive<u64>) -> ProfileBuilder {
        self.steps = Some(Schedule::of_steps(*steps.start(), *steps.end()));
        self
    }

    /// What is called with the folder of each recording of the schedule when it is whole.
    pub fn on_trace_ready(mut self, ready: impl FnMut(&Path) + Send + 'static) -> ProfileBuilder {
        self.ready = Some(Box::new(ready));
        self
    }

    /// Begins to record. The device of `cx` takes part at once, others when they are used.
    ///
    /// # Errors
    /// Those of [`ProfileError`]: a profile runs, the folder cannot be written, a value of the schedule or the rank is wrong. Those
    /// of the device, where what its metric needs fails.
    pub fn start(self, cx: &Context) -> Result<Profile> {
        let schedule = self.steps.transpose()?;
        let measured = self.metric.map(|metric| Measured::new(metric, cx)).transpose()?;
        let mut profile = Profile {
            rank: environment::rank()?,
            settings: settings(self.bits, schedule),
            folder: self.folder,
            bits: self.bits,
            schedule,
            measured,
            ready: self.ready,
            context: cx.clone(),
            session: None,
            plan: Plan::Nothing,
            step: 0,
            begun: (0, 0),
        };
        profile.enter()?;
        Ok(profile)
    }
}

/// What was asked for, as lines.
fn settings(bits: u32, schedule: Option<Schedule>) -> String {
    let word = |bit| if bits & bit != 0 { "on" } else { "off" };
    let mut lines = format!(
        "kernels={}\nops={}\nmemory={}\n",
        word(switch::RUNS),
        word(switch::OPS),
        word(switch::MEMORY)
    );
    if let Some(Schedule {
        wait,
        warmup,
        active,
        repeat,
        skip_first,
    }) = schedule
    {
        lines += &format!(
            "wait={wait}\nwarmup={warmup}\nactive={active}\nrepeat={repeat}\nskip_first={skip_first}\n"
        );
    }
    lines
}

impl Profile {
    /// A profile into a folder, which is made if need be: kernels, ops and stretches of time.
    pub fn to(folder: impl AsRef<Path>) -> ProfileBuilder {
        ProfileBuilder {
            folder: folder.as_ref().to_owned(),
            bits: switch::ALL & !switch::MEMORY,
            steps: None,
            metric: None,
            ready: None,
        }
    }

    /// Ends a step of the schedule and begins the next. Without a schedule it only says where steps end.
    ///
    /// # Errors
    /// A recording that ends or begins here cannot be written.
    pub fn step(&mut self) -> Result<()> {
        let number = self.step + 1;
        if self.session.is_some() && span::steps() == self.begun.1 {
            span::since(self.begun.0, SpanKind::Step, "", number);
        }
        let ended = match self.plan {
            Plan::Active { last: true, .. } => self.end(),
            Plan::Active { .. } | Plan::WarmUp | Plan::Nothing => Ok(()),
        };
        self.step = number;
        // The next recording may begin, also if this one went wrong.
        ended.and(self.enter())
    }

    /// Ends the profile, which dropping it does too.
    ///
    /// # Errors
    /// The file could not be written to its end; it is good up to its last whole frame.
    pub fn finish(mut self) -> Result<()> {
        self.end()
    }

    /// The folder of a cycle's recording.
    fn folder(&self, cycle: u64) -> PathBuf {
        let folder = environment::folder_of_rank(&self.folder, self.rank);
        match self.schedule {
            Some(schedule) if schedule.repeat != 1 => folder.join(format!("cycle_{cycle}")),
            _ => folder,
        }
    }

    /// Begins the current step.
    fn enter(&mut self) -> Result<()> {
        let before = self.plan;
        self.plan = match self.schedule {
            Some(schedule) => schedule.plan(self.step),
            // One recording without end.
            None => Plan::Active {
                cycle: 1,
                last: false,
            },
        };
        match self.plan {
            Plan::Nothing => {}
            Plan::WarmUp if self.session.is_none() => self.record(None)?,
            Plan::WarmUp => {}
            Plan::Active { cycle, .. } => {
                if before == Plan::WarmUp {
                    // What was recorded so far is thrown away.
                    self.session = None;
                }
                if self.session.is_none() {
                    self.record(Some(self.folder(cycle)))?;
                }
            }
        }
        calls::restart();
        self.begun = (clock::ticks(), span::steps());
        Ok(())
    }

    fn record(&mut self, folder: Option<PathBuf>) -> Result<()> {
        let session = session::start(&Options {
            bits: self.bits | switch::SPANS,
            folder,
            rank: self.rank,
            settings: self.settings.clone(),
        })?;
        self.context.engine().attach(switch::on());
        if let Some(measured) = &self.measured {
            measured.begin();
        }
        self.session = Some(session);
        Ok(())
    }

    /// Ends the recording that runs.
    fn end(&mut self) -> Result<()> {
        let Some(session) = self.session.take() else {
            return Ok(());
        };
        if let Some(measured) = &self.measured {
            measured.end();
        }
        if let Some(file) = session.stop()?
            && let (Some(ready), Some(folder)) = (&mut self.ready, file.parent())
        {
            ready(folder);
        }
        Ok(())
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // The writer has told what went wrong.
        let _ = self.end();
    }
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Profile({}, step {})", self.folder.display(), self.step + 1)
    }
}
