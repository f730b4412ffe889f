//! What a device can do, as it showed before a recording.

/// The most that a device was seen to do in a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peaks {
    flops: Option<f64>,
    bytes: Option<f64>,
}

impl Peaks {
    /// Takes a counter: `cpu:0 peak flop/s`.
    pub(crate) fn add(&mut self, name: &str, value: f64) {
        let known = value.is_finite() && value > 0.0;
        let value = known.then_some(value);
        if name.ends_with(" peak flop/s") {
            self.flops = value;
        } else if name.ends_with(" peak byte/s") {
            self.bytes = value;
        }
    }

    /// What parts of the peaks some work in nanoseconds is.
    pub(crate) fn parts(self, flops: u64, bytes: u64, time: u64) -> (Option<f64>, Option<f64>) {
        let part = |count: u64, peak: Option<f64>| {
            let peak = peak.filter(|_| count > 0 && time > 0)?;
            Some(count as f64 * 1e9 / time as f64 / peak)
        };
        (part(flops, self.flops), part(bytes, self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_parts_of_what_was_seen() {
        let mut peaks = Peaks::default();
        assert_eq!(peaks.parts(100, 100, 100), (None, None));
        peaks.add("cpu:0 peak flop/s", 4e9);
        peaks.add("cpu:0 peak byte/s", f64::NAN);
        assert_eq!(peaks.parts(100, 100, 100), (Some(0.25), None));
        assert_eq!(peaks.parts(0, 100, 0), (None, None));
    }
}
