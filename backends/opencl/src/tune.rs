//! Which tiles a matrix product takes on a device: found by trying, once, and kept with the compiled programs.

use crate::copy;
use crate::device::OpenClDevice;
use crate::event::ClEvent;
use crate::kernel::ClKernel;
use crate::launch::Prepared;
use std::sync::Arc;
use std::time::Instant;
use thalweg_cstyle::{MatmulConfig, Routine};
use thalweg_hal::backend::{Bound, Device, Fill, Launch, Region, Tag};
use thalweg_hal::library::Matmul;
use thalweg_hal::tables::LogLevel;
use thalweg_hal::{DType, Error, Result};

/// Rows, columns and depth of the product that is timed: large enough to fill a device, small enough to be over soon.
const SIZE: u64 = 768;
/// Timed runs of a configuration, after one that is not; the fastest counts.
const RUNS: u32 = 5;
/// Parts of a hundred that tiles must save to be taken in place of the first: other programs may use the machine meanwhile.
const MARGIN: i64 = 10;

impl OpenClDevice {
    /// The tiles for an op. Only f32 is searched for, and only where the result can be kept: every configuration is a program
    /// to compile.
    pub(crate) fn tiles(&self, op: &Matmul) -> Result<MatmulConfig> {
        let all = MatmulConfig::candidates(&self.target);
        let first = *all
            .first()
            .ok_or_else(|| Error::unsupported("no tile of a matrix product fits the device"))?;
        let plain = (op.dtype, op.accumulate) == (DType::F32, DType::F32);
        if !(plain && self.config.tune && self.builder.cache.is_on()) {
            return Ok(first);
        }
        let index = *self.tiles.get_or_init(|| self.search(&all));
        Ok(all.get(index).copied().unwrap_or(first))
    }

    fn search(&self, all: &[MatmulConfig]) -> usize {
        let cache = &self.builder.cache;
        let key = cache.key(&["tiles of matmul f32", &format!("{all:?}"), &self.builder.options]);
        let kept = cache.load(&key).and_then(|bytes| bytes.first_chunk().copied());
        if let Some(index) = kept.map(u64::from_le_bytes) {
            return index as usize;
        }
        let start = Instant::now();
        let (mut best, mut bar) = (0, i64::MAX);
        let mut said = String::new();
        for (index, config) in all.iter().enumerate() {
            match self.time(*config) {
                Ok(time) => {
                    said.push_str(&format!("\n{config:?}: {:.3} ms", time as f64 / 1e6));
                    if time < bar {
                        (best, bar) = (
                            index,
                            if index == 0 {
                                time / 100 * (100 - MARGIN)
                            } else {
                                time
                            },
                        );
                    }
                }
                Err(error) => said.push_str(&format!("\n{config:?}: {error}")),
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let message = format!(
            "tried {} tiles of a matrix product of {SIZE} on {} in {seconds:.1} s:{said}",
            all.len(),
            self.info.name
        );
        self.host.log(LogLevel::Info, "opencl", &message);
        if let Err(error) = cache.store(&key, &(best as u64).to_le_bytes()) {
            let message = format!("the tiles of a matrix product are not kept on disk: {error}");
            self.host.log(LogLevel::Warn, "opencl", &message);
        }
        best
    }

    /// Nanoseconds of a product with these tiles, by the device's clock.
    fn time(&self, config: MatmulConfig) -> Result<i64> {
        let op = Matmul {
            batch: 0,
            dtype: DType::F32,
            accumulate: DType::F32,
            output: DType::F32,
            epilogue: None,
        };
        let routine = Routine::matmul(&op, config, &self.target)?;
        let kernel = Arc::new(ClKernel::new("matmul", routine, &self.builder));
        let bytes = SIZE * SIZE * 4;
        let chunk = self.reserve(3 * bytes)?;
        let stream = self.create_stream(0)?;
        let region = |index: u64, count: u64| Region::<Self> {
            chunk: &chunk,
            offset: index * bytes,
            bytes: count * bytes,
        };
        let zeros = Fill {
            region: region(0, 3),
            pattern: [0; 8],
            pattern_bytes: 4,
        };
        let step = SIZE as i64;
        let strides: [&[i64]; 3] = [&[step, 0, 1], &[0, 1, step], &[step, 1]];
        let bind = |index: usize| Bound {
            region: region(index as u64, 1),
            strides: strides[index],
            gather_stride: 0,
            gather_extent: 0,
        };
        let launch = Launch {
            kernel: &kernel,
            extents: &[SIZE, SIZE, SIZE],
            bindings: &[bind(0), bind(1), bind(2)],
            scalars: &[],
        };
        let prepared = Prepared::new(&launch)?.ok_or_else(|| Error::internal("a product of nothing"))?;
        let mut best = i64::MAX;
        // SAFETY: the chunk outlives the stream's work, for which the loop's end waits; the regions lie in it.
        unsafe {
            copy::fill(self, &stream, &zeros, Tag::NONE)?;
            for run in 0..=RUNS {
                let (begin, end) = (ClEvent::new(true), ClEvent::new(true));
                let queued = begin
                    .record(&stream)
                    .and_then(|()| prepared.submit(self.api, &self.context, &stream, Tag::NONE))
                    .and_then(|()| end.record(&stream));
                stream.synchronize().and(queued)?;
                if run > 0 {
                    best = best.min(begin.elapsed(&end)?);
                }
            }
        }
        Ok(best)
    }
}
