//! Records as they are kept until they are handed out.

use super::ring::Words;
use super::{Command, Submission};
use crate::clock::{Line, Scale};
use crate::tables::{ProfileFlag, ProfileKind, ProfileRecord};

/// How the times of a record were taken.
#[derive(Clone, Copy)]
pub(super) enum Measure {
    Ticks,
    DeviceExact,
    DeviceBracketed,
    /// Nanoseconds of the clock, which a driver took.
    Traced,
}

impl Measure {
    fn of_code(code: u8) -> Measure {
        let all = [
            Measure::Ticks,
            Measure::DeviceExact,
            Measure::DeviceBracketed,
            Measure::Traced,
        ];
        all.into_iter()
            .find(|measure| *measure as u8 == code)
            .unwrap_or(Measure::Ticks)
    }
}

/// A record whose ticks are not turned into times yet.
#[derive(Clone, Copy)]
pub(super) struct Raw {
    correlation: u64,
    stream: u64,
    queued: u64,
    times: (u64, u64),
    /// The kernel of a launch, the bytes of anything else. Of memory the start is the buffer, because all times are one.
    detail: u64,
    packet: u32,
    row: u32,
    index: u16,
    kind: u8,
    measure: Measure,
}

impl Raw {
    #[inline(always)]
    pub(super) fn new(
        submission: &Submission,
        command: Command,
        times: (u64, u64),
        row: u32,
        measure: Measure,
    ) -> Raw {
        let detail = match command.kind {
            ProfileKind::Launch => submission.kernel,
            ProfileKind::Copy
            | ProfileKind::Fill
            | ProfileKind::Wait
            | ProfileKind::Callback
            | ProfileKind::Alloc
            | ProfileKind::Free
            | ProfileKind::Reserve
            | ProfileKind::Release => command.bytes,
        };
        Raw {
            correlation: submission.correlation,
            stream: submission.stream,
            queued: submission.queued,
            times,
            detail,
            packet: submission.packet,
            row,
            index: command.index.min(u16::MAX.into()) as u16,
            kind: command.kind as u8,
            measure,
        }
    }

    #[inline(always)]
    pub(super) fn words(&self) -> Words {
        let joined = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let rest = u32::from(self.index) | u32::from(self.kind) << 16 | (self.measure as u32) << 24;
        [
            self.correlation,
            self.stream,
            self.queued,
            self.times.0,
            self.times.1,
            self.detail,
            joined(self.packet, self.row),
            u64::from(rest),
        ]
    }

    pub(super) fn of_words(words: Words) -> Raw {
        let [correlation, stream, queued, start, end, detail, places, rest] = words;
        Raw {
            correlation,
            stream,
            queued,
            times: (start, end),
            detail,
            packet: places as u32,
            row: (places >> 32) as u32,
            index: rest as u16,
            kind: (rest >> 16) as u8,
            measure: Measure::of_code((rest >> 24) as u8),
        }
    }

    pub(super) fn record(&self, scale: &Scale, line: &Line) -> ProfileRecord {
        let queued_ns = scale.nanoseconds(self.queued);
        let (start, end) = self.times;
        // Clocks of devices are known to a microsecond or so.
        let turned = |start: u64, end: u64| {
            let start = start.max(queued_ns);
            (start, end.max(start))
        };
        let kind = ProfileKind::from_code(self.kind.into());
        let ((start_ns, end_ns), object, bytes) = match kind {
            Some(ProfileKind::Alloc | ProfileKind::Free | ProfileKind::Reserve | ProfileKind::Release) => {
                ((queued_ns, queued_ns), start, self.detail)
            }
            Some(
                ProfileKind::Launch
                | ProfileKind::Copy
                | ProfileKind::Fill
                | ProfileKind::Wait
                | ProfileKind::Callback,
            )
            | None => {
                let times = match self.measure {
                    Measure::Ticks => turned(scale.nanoseconds(start), scale.nanoseconds(end)),
                    Measure::DeviceExact | Measure::DeviceBracketed => turned(line.at(start), line.at(end)),
                    Measure::Traced => turned(start, end),
                };
                match kind {
                    Some(ProfileKind::Launch) => (times, self.detail, 0),
                    _ => (times, 0, self.detail),
                }
            }
        };
        let flag = match self.measure {
            Measure::Ticks | Measure::DeviceExact | Measure::Traced => ProfileFlag::Exact,
            Measure::DeviceBracketed => ProfileFlag::Bracketed,
        };
        ProfileRecord {
            correlation: self.correlation,
            stream: self.stream,
            object,
            bytes,
            queued_ns,
            start_ns,
            end_ns,
            packet: self.packet,
            command: self.index.into(),
            row: self.row,
            kind: self.kind.into(),
            flags: flag.bit(),
            reserved: 0,
        }
    }
}
