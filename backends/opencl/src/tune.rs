//! Which tiles a product takes on a device: found by trying, once, and kept with the compiled programs.

use crate::copy;
use crate::device::OpenClDevice;
use crate::event::ClEvent;
use crate::kernel::ClKernel;
use crate::launch;
use std::sync::Arc;
use std::time::Instant;
use thalweg_cstyle::{MatmulConfig, Routine};
use thalweg_hal::backend::{Bound, Device, Fill, Launch, Region, Tag};
use thalweg_hal::library::{Conv, LibraryOp, Matmul};
use thalweg_hal::tables::LogLevel;
use thalweg_hal::{DType, Error, Result};

/// Timed runs of a configuration, after one that is not; the fastest counts.
const RUNS: u32 = 5;
/// Parts of a hundred that tiles must save to be taken in place of the first: other programs may use the machine meanwhile.
const MARGIN: i64 = 10;

/// A product that stands for its kind: large enough to fill a device, small enough to be over soon. Operands and result are
/// row-major.
struct Trial {
    name: &'static str,
    op: LibraryOp,
    extents: Vec<u64>,
    /// Elements and strides of each parameter.
    operands: [(u64, Vec<i64>); 3],
    gather_extent: u64,
    scalars: Vec<u64>,
}

impl Trial {
    fn matmul() -> Trial {
        const SIZE: u64 = 768;
        let step = SIZE as i64;
        Trial {
            name: "matrix product of 768",
            op: LibraryOp::Matmul(Matmul {
                batch: 0,
                operands: [DType::F32; 2],
                accumulate: DType::F32,
                output: DType::F32,
                epilogue: None,
            }),
            extents: vec![SIZE; 3],
            operands: [
                (SIZE * SIZE, vec![step, 0, 1]),
                (SIZE * SIZE, vec![0, 1, step]),
                (SIZE * SIZE, vec![step, 1]),
            ],
            gather_extent: 0,
            scalars: Vec::new(),
        }
    }

    /// 8 images of 32 channels, 28 × 28, to 64 channels by 3 × 3 taps.
    fn conv() -> Trial {
        let [n, ci, co, side, taps]: [i64; 5] = [8, 32, 64, 28, 3];
        let plane = side * side;
        Trial {
            name: "convolution of 8 × 32 × 28 × 28 to 64 channels",
            op: LibraryOp::Conv(Conv {
                spatial: 2,
                stride: [1, 1, 0],
                dilation: [1, 1, 0],
                padding: [1, 1, 0],
                operands: [DType::F32; 2],
                accumulate: DType::F32,
                output: DType::F32,
                fast: false,
                epilogue: None,
            }),
            extents: [n, 1, co, side, side, ci, taps, taps]
                .map(|extent| extent as u64)
                .to_vec(),
            operands: [
                ((n * ci * plane) as u64, vec![ci * plane, 0, 0, 0, 0, plane, 0, 0]),
                (
                    (co * ci * taps * taps) as u64,
                    vec![0, 0, ci * taps * taps, 0, 0, taps * taps, taps, 1],
                ),
                ((n * co * plane) as u64, vec![co * plane, 0, plane, side, 1]),
            ],
            gather_extent: plane as u64,
            scalars: [side, side, side, 1].map(|scalar| scalar as u64).to_vec(),
        }
    }
}

impl OpenClDevice {
    /// The tiles for an op. Only f32 is searched for, and only where the result can be kept: every configuration is a program
    /// to compile.
    pub(crate) fn tiles(&self, op: &LibraryOp) -> Result<MatmulConfig> {
        let all = MatmulConfig::candidates(&self.target);
        let first = *all
            .first()
            .ok_or_else(|| Error::unsupported("no tile of a matrix product fits the device"))?;
        let (kind, dtypes, trial): (_, _, fn() -> Trial) = match op {
            LibraryOp::Matmul(op) => (0, (op.operands[0], op.accumulate), Trial::matmul),
            LibraryOp::Conv(op) | LibraryOp::ConvGradInput(op) | LibraryOp::ConvGradWeight(op) => {
                (1, (op.operands[0], op.accumulate), Trial::conv)
            }
            LibraryOp::Scatter(_) | LibraryOp::Scan(_) | LibraryOp::Sort(_) | LibraryOp::Attention(_) => {
                return Ok(first);
            }
        };
        if !(dtypes == (DType::F32, DType::F32) && self.config.tune && self.builder.cache.is_on()) {
            return Ok(first);
        }
        let index = *self.tiles[kind].get_or_init(|| self.search(&all, &trial()));
        Ok(all.get(index).copied().unwrap_or(first))
    }

    fn search(&self, all: &[MatmulConfig], trial: &Trial) -> usize {
        let cache = &self.builder.cache;
        let what = format!("tiles of {:?} {:?}", trial.op, trial.extents);
        let key = cache.key(&[&what, &format!("{all:?}"), &self.builder.options]);
        let kept = cache.load(&key).and_then(|bytes| bytes.first_chunk().copied());
        if let Some(index) = kept.map(u64::from_le_bytes) {
            return index as usize;
        }
        let start = Instant::now();
        let (mut best, mut bar) = (0, i64::MAX);
        let mut said = String::new();
        for (index, config) in all.iter().enumerate() {
            match self.time(trial, *config) {
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
            "tried {} tiles of a {} on {} in {seconds:.1} s:{said}",
            all.len(),
            trial.name,
            self.info.name
        );
        self.host.log(LogLevel::Info, "opencl", &message);
        if let Err(error) = cache.store(&key, &(best as u64).to_le_bytes()) {
            let message = format!("the tiles of a {} are not kept on disk: {error}", trial.name);
            self.host.log(LogLevel::Warn, "opencl", &message);
        }
        best
    }

    /// Nanoseconds of a product with these tiles, by the device's clock.
    fn time(&self, trial: &Trial, config: MatmulConfig) -> Result<i64> {
        let routine = Routine::library(&trial.op, config, &self.target)?;
        let kernel = Arc::new(ClKernel::new(trial.op.name(), routine, &self.builder));
        let sizes: Vec<u64> = trial.operands.iter().map(|(elements, _)| elements * 4).collect();
        let total = sizes.iter().sum();
        let chunk = self.reserve(total)?;
        let stream = self.create_stream(0)?;
        let region = |offset: u64, bytes: u64| Region::<Self> {
            chunk: &chunk,
            offset,
            bytes,
        };
        let zeros = Fill {
            region: region(0, total),
            pattern: [0; 8],
            pattern_bytes: 4,
        };
        let bind = |index: usize| Bound {
            region: region(sizes[..index].iter().sum(), sizes[index]),
            strides: &trial.operands[index].1,
            gather_stride: 1,
            gather_extent: if index == 0 { trial.gather_extent } else { 0 },
        };
        let work = Launch {
            kernel: &kernel,
            extents: &trial.extents,
            bindings: &[bind(0), bind(1), bind(2)],
            scalars: &trial.scalars,
        };
        let mut best = i64::MAX;
        // SAFETY: the chunk outlives the stream's work, for which the loop's end waits; the regions lie in it.
        unsafe {
            copy::fill(self, &stream, &zeros, Tag::NONE.into())?;
            for run in 0..=RUNS {
                let (begin, end) = (ClEvent::new(true), ClEvent::new(true));
                let queued = begin
                    .record(&stream)
                    .and_then(|()| launch::submit(self, &stream, &work, Tag::NONE.into()))
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
