//! Records of a driver that traces its work by itself.

use super::raw::{Measure, Raw};
use super::{Command, Recorder, Submission};

impl Recorder {
    /// Records a command of which a driver has told start and end, in nanoseconds of [`now`](crate::clock::now). What overlaps has
    /// different rows.
    ///
    /// ```
    /// use thalweg_hal::clock::now;
    /// use thalweg_hal::kit::profile::{Command, Recorder};
    /// use thalweg_hal::tables::ProfileKind;
    ///
    /// let recorder = Recorder::new();
    /// recorder.start(ProfileKind::Launch.bit(), 1000)?;
    /// let submission = recorder.submission(1).unwrap();
    /// let start = now() + 1000;
    /// recorder.record_traced(&submission, Command::LAUNCH, (start, start + 500), 2);
    /// recorder.lose(3);
    /// let lost = recorder.drain(10, |record| assert_eq!((record.start_ns, record.row), (start, 2)));
    /// assert_eq!(lost, (1, 3));
    /// # Ok::<(), thalweg_hal::Error>(())
    /// ```
    pub fn record_traced(&self, submission: &Submission, command: Command, times: (u64, u64), row: u32) {
        if submission.wants(command.kind) {
            let raw = Raw::new(submission, command, times, row, Measure::Traced);
            self.ring.push(submission.session, &raw.words());
        }
    }

    /// Counts records that were lost before they came here.
    pub fn lose(&self, count: u64) {
        self.control.lock().lost += count;
    }
}
