//! Counters of the hardware that a profile is asked for.

use crate::context::Context;
use crate::error::Result;
use crate::record::span;
use crate::tensor::Tensor;
use crate::hal;
use std::fmt;
use std::time::{Duration, Instant};

/// What is measured of the hardware beside times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// How much of the time kernels ran, copies ran, and nothing did.
    PipeUtilization,
    /// Arithmetic operations a second, as a part of the most that the device was seen to do.
    ArithmeticUtilization,
    /// Bytes a second, as a part of the most that the device was seen to copy.
    Memory,
    /// How many reads the first cache of data served.
    MemoryL0,
    /// In how many cycles the processor could not go on.
    ResourceConflictRatio,
}

impl Metric {
    /// Each.
    pub const ALL: [Metric; 5] = [
        Metric::PipeUtilization,
        Metric::ArithmeticUtilization,
        Metric::Memory,
        Metric::MemoryL0,
        Metric::ResourceConflictRatio,
    ];

    /// `PipeUtilization`, ….
    pub const fn name(self) -> &'static str {
        match self {
            Metric::PipeUtilization => "PipeUtilization",
            Metric::ArithmeticUtilization => "ArithmeticUtilization",
            Metric::Memory => "Memory",
            Metric::MemoryL0 => "MemoryL0",
            Metric::ResourceConflictRatio => "ResourceConflictRatio",
        }
    }

    /// That of a name.
    pub fn of_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The beginning of marks that say what was asked for, and what cannot be measured.
const MARK: &str = "ai_core_metrics ";

/// What a profile measures, from its start to its end.
pub(super) struct Measured {
    metric: Metric,
    device: hal::Device,
    /// The most a second that the device was seen to do, and of what.
    peak: Option<(&'static str, f64)>,
}

impl Measured {
    /// Before anything is recorded.
    ///
    /// # Errors
    /// The device does not do what its peak is measured with.
    pub(super) fn new(metric: Metric, cx: &Context) -> Result<Measured> {
        let peak = match metric {
            Metric::ArithmeticUtilization => Some(("peak flop/s", products(cx)?)),
            Metric::Memory => Some(("peak byte/s", copies(cx)?)),
            Metric::PipeUtilization | Metric::MemoryL0 | Metric::ResourceConflictRatio => None,
        };
        Ok(Measured {
            metric,
            device: cx.device().clone(),
            peak,
        })
    }

    /// The recording has begun.
    pub(super) fn begin(&self) {
        let target = self.device.target();
        span::mark(&format!("{MARK}{} {target}", self.metric));
        if let Some((name, peak)) = self.peak {
            span::counter(&format!("{target} {name}"), peak);
        }
        if self.asks()
            && let Err(why) = self.device.hardware_counters()
        {
            span::mark(&format!("{MARK}unavailable {target} {}", why));
        }
    }

    /// The recording is about to end.
    pub(super) fn end(&self) {
        if !self.asks() {
            return;
        }
        // What can be counted no more was told at the begin.
        for counter in self.device.hardware_counters().unwrap_or_default() {
            let name = format!("{} {}", self.device.target(), counter.name);
            span::counter(&name, counter.value as f64);
        }
    }

    /// Whether it needs counters of the hardware.
    fn asks(&self) -> bool {
        match self.metric {
            Metric::MemoryL0 | Metric::ResourceConflictRatio => true,
            Metric::PipeUtilization | Metric::ArithmeticUtilization | Metric::Memory => false,
        }
    }
}

/// Shorter work says little of a peak.
const LONG: Duration = Duration::from_millis(20);
/// Doublings of the smallest work, at most.
const DOUBLINGS: u32 = 5;

/// The best rate of work that grows until it takes long enough. `work` does a piece of a size, waits for its end, and says how much it
/// was.
fn peak_of(work: impl Fn(usize) -> Result<f64>) -> Result<f64> {
    let mut best = 0.0_f64;
    for doubling in 0..=DOUBLINGS {
        let size = 256 << doubling;
        // Compiles what it needs, and touches its memory.
        work(size)?;
        let mut took = Duration::ZERO;
        for _ in 0..3 {
            let begun = Instant::now();
            let done = work(size)?;
            took = begun.elapsed();
            best = best.max(done / took.as_secs_f64().max(1e-9));
        }
        if took > LONG {
            break;
        }
    }
    Ok(best)
}

/// Operations a second of products of square matrices of f32.
fn products(cx: &Context) -> Result<f64> {
    peak_of(|size| {
        let x = Tensor::full([size, size], 0.5_f32, cx).ok()?;
        let product = x.matmul(&x).ok()?;
        // One element, so that reading costs little.
        product.index((..1, ..1)).to_vec::<f32>()?;
        Ok(2.0 * (size as f64).powi(3))
    })
}

/// Bytes a second that copies on the device read and write.
fn copies(cx: &Context) -> Result<f64> {
    let (device, stream) = (cx.device(), cx.device().default_stream()?);
    peak_of(|size| {
        let bytes = 16 * (size * size) as u64;
        let (from, to) = (device.alloc(bytes)?, device.alloc(bytes)?);
        let copy = hal::Copy::new(hal::Place::buffer(&to, 0), hal::Place::buffer(&from, 0), bytes);
        stream.copy(&copy)?;
        stream.synchronize()?;
        Ok(2.0 * bytes as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_its_name() {
        for metric in Metric::ALL {
            assert_eq!(Metric::of_name(metric.name()), Some(metric));
        }
        assert_eq!(Metric::of_name("Speed"), None);
    }

    #[test]
    fn peaks_are_those_of_a_machine() {
        let cx = Context::new("cpu").unwrap();
        let (flops, bytes) = (products(&cx).unwrap(), copies(&cx).unwrap());
        assert!((1e8..1e16).contains(&flops), "{flops} operations a second");
        assert!((1e8..1e14).contains(&bytes), "{bytes} bytes a second");
    }
}
