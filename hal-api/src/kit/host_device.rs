//! What devices share whose work runs on host threads and in host memory.

use crate::status::{Error, Result};
use crate::tables::MemoryInfo;

/// Free and total memory of the system, or of the control group that holds the process if that allows less.
pub fn memory_info() -> Result<MemoryInfo> {
    let unknown =
        |why: &str| Error::unsupported(format!("the system's memory is not known: /proc/meminfo {why}"));
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|e| unknown(&e.to_string()))?;
    let bytes = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
            .map(|kib| kib * 1024)
    };
    match (bytes("MemAvailable:"), bytes("MemTotal:")) {
        (Some(free), Some(total)) => Ok(within_group(MemoryInfo { free, total })),
        _ => Err(unknown("has no line MemAvailable or MemTotal")),
    }
}

fn within_group(system: MemoryInfo) -> MemoryInfo {
    let read = |name: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{name}"))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    match read("memory.max") {
        Some(total) if total < system.total => {
            let left = total.saturating_sub(read("memory.current").unwrap_or(0));
            MemoryInfo {
                free: system.free.min(left),
                total,
            }
        }
        _ => system,
    }
}

/// Inside `impl Device for …`: streams and events by [`Queue`](crate::kit::queue::Queue) and
/// [`Event`](crate::kit::event::Event). `submit` remains to be written. With a [`Recorder`](crate::kit::profile::Recorder) in the
/// field that is named, as in `queue_streams!(recorder)`, the device is profiled too, and `submit_profiled` remains as well.
#[macro_export]
macro_rules! queue_streams {
    ($recorder:ident) => {
        $crate::queue_streams!();

        fn profiler(&self) -> ::std::option::Option<&::std::sync::Arc<$crate::kit::profile::Recorder>> {
            ::std::option::Option::Some(&self.$recorder)
        }

        fn wait_event_profiled(
            &self,
            stream: &Self::Stream,
            event: &Self::Event,
            submission: &$crate::kit::profile::Submission,
        ) -> $crate::Result<()> {
            event.hold_up_profiled(stream, &self.$recorder, submission)
        }
    };
    () => {
        type Stream = $crate::kit::queue::Queue;
        type Event = $crate::kit::event::Event;

        fn create_stream(&self, _priority: i32) -> $crate::Result<Self::Stream> {
            Ok($crate::kit::queue::Queue::new("stream"))
        }

        fn is_idle(&self, stream: &Self::Stream) -> $crate::Result<bool> {
            Ok(stream.is_idle())
        }

        fn synchronize(&self, stream: &Self::Stream) -> $crate::Result<()> {
            stream.synchronize()
        }

        fn position(&self, stream: &Self::Stream) -> u64 {
            stream.position()
        }

        fn passed(&self, stream: &Self::Stream, position: u64) -> bool {
            stream.passed(position)
        }

        fn create_event(&self, timing: bool) -> $crate::Result<Self::Event> {
            Ok($crate::kit::event::Event::new(timing))
        }

        fn record(&self, event: &Self::Event, stream: &Self::Stream) -> $crate::Result<()> {
            event.record(stream)
        }

        fn wait_event(&self, stream: &Self::Stream, event: &Self::Event) -> $crate::Result<()> {
            event.hold_up(stream)
        }

        fn query_event(&self, event: &Self::Event) -> $crate::Result<bool> {
            Ok(event.query())
        }

        fn wait_for_event(
            &self,
            event: &Self::Event,
            timeout: ::std::option::Option<::std::time::Duration>,
        ) -> $crate::Result<()> {
            event.wait(timeout)
        }

        fn elapsed(&self, start: &Self::Event, end: &Self::Event) -> $crate::Result<i64> {
            start.elapsed(end)
        }
    };
}
