//! The tasks of a convolution by transformed tiles: some panels of rows of one block of tiles.

use super::{Plan, panel_len};
use crate::library::conv::forward::Finished;
use crate::library::conv::forward::deal::Kept;
use crate::library::conv::forward::direct::ZEROS;
use crate::library::conv::forward::rows::{PITCH, TURNED, cut};
use crate::library::conv::forward::store::{Runs, Storing, target_of};
use crate::library::conv::geometry::{Block, reach};
use crate::library::conv::operands::Rows;
use crate::library::conv::planes::SLACK;
use crate::library::conv::steps::{LATER, PLACES, Place, Step, StepArgs, TOGETHER};
use crate::library::conv::tile::Run;
use crate::library::conv::winograd::{Elements, Sums, TAPS};
use crate::library::gemm::{Panel, Scratch, Stored, piece};
use std::ops::Range;

/// Lines of tiles of one sample in a block.
struct Segment {
    sample: usize,
    /// The first line of tiles in the sample, and the first tile in the block.
    line: usize,
    tile: usize,
    lines: usize,
}

/// The memory of a task.
struct Room<S> {
    /// What a block takes from, with neighbouring channels.
    copy: *mut S,
    transform: *mut S,
    sums: *mut S,
    lines: *mut S,
    turned: *mut S,
    /// Accumulators of all.
    len: usize,
}

impl<T: Stored> Plan<'_, T> {
    /// Lines of tiles of a sample.
    fn high(&self) -> usize {
        self.tiles[0] / self.job.sizes.samples
    }

    /// The memory of a task from `start` on.
    fn room(&self, start: *mut T::Acc) -> Room<T::Acc> {
        let form = self.form;
        let [high, wide] = [0, 1].map(|i| self.tiles[i].div_ceil(self.pieces[i]));
        let width = self.at_once * self.width;
        let [lines, line] = [high, wide].map(|tiles| tiles * form.positions);
        let each = [
            (lines + TAPS - 1) * (line + TAPS - 1) * self.channels + SLACK,
            form.area() * high * wide * self.channels,
            form.area() * high * wide * width,
            form.positions * line * width,
            TURNED + SLACK,
        ];
        let mut len = 0;
        let [copy, transform, sums, lines, turned] = each.map(|accumulators| {
            let at = start.wrapping_add(len);
            len += accumulators.next_multiple_of(16);
            at
        });
        Room {
            copy,
            transform,
            sums,
            lines,
            turned,
            len,
        }
    }

    /// The samples' parts of lines of tiles.
    fn segments(&self, lines: Range<usize>, wide: usize) -> impl Iterator<Item = Segment> {
        let high = self.high();
        (lines.start / high..lines.end.div_ceil(high)).map(move |sample| {
            let [start, end] = [sample, sample + 1].map(|at| (at * high).clamp(lines.start, lines.end));
            Segment {
                sample,
                line: start - sample * high,
                tile: (start - lines.start) * wide,
                lines: end - start,
            }
        })
    }

    /// Some panels of one block.
    ///
    /// # Safety
    /// The operands are those of [`run`](super::run), and no one else writes these rows of the block.
    pub(super) unsafe fn task(
        &self,
        task: usize,
        kept: &mut Kept,
        finish: Option<&(dyn Fn(&Finished) + Sync)>,
    ) {
        let (part, index) = (task % self.parts, task / self.parts);
        let (down, across) = (index / self.pieces[1], index % self.pieces[1]);
        let lines = piece(self.tiles[0], self.pieces[0], down);
        let columns = piece(self.tiles[1], self.pieces[1], across);
        let tiles = lines.len() * columns.len();
        let len = self.room(std::ptr::null_mut()).len;
        let scratch = (kept.scratch).get_or_insert_with(|| Scratch::take(len * size_of::<T::Acc>()));
        let room = self.room(scratch.start().cast());
        // SAFETY: the scratch memory has the room; the operands are the caller's.
        unsafe {
            if kept.block.replace(index) != Some(index) {
                for segment in self.segments(lines.clone(), columns.len()) {
                    self.copy(&room, &segment, &columns);
                    self.transform(&room, &segment, &columns, tiles);
                }
            }
            let panels = self.job.sizes.rows.div_ceil(self.width);
            for pair in piece(panels.div_ceil(self.at_once), self.parts, part) {
                let panels = pair * self.at_once..panels.min((pair + 1) * self.at_once);
                self.products(&room, &panels, tiles);
                for segment in self.segments(lines.clone(), columns.len()) {
                    self.store(&room, &segment, (&columns, &panels), tiles);
                    if let Some(finish) = finish {
                        finish(&Finished {
                            sample: segment.sample,
                            groups: 0..1,
                            rows: self.rows(&panels),
                            block: self.block(&segment, &columns),
                        });
                    }
                }
            }
        }
    }

    fn rows(&self, panels: &Range<usize>) -> Range<usize> {
        panels.start * self.width..self.job.sizes.rows.min(panels.end * self.width)
    }

    /// The positions of the result.
    fn block(&self, segment: &Segment, columns: &Range<usize>) -> Block {
        let (each, [_, high, wide]) = (self.form.positions, self.job.pass.count());
        let at = [0, segment.line * each, columns.start * each];
        let ends = [(segment.line + segment.lines) * each, columns.end * each];
        Block {
            at,
            size: [1, ends[0].min(high) - at[1], ends[1].min(wide) - at[2]],
        }
    }

    /// Elements of a line of the copy.
    fn line(&self, columns: &Range<usize>) -> usize {
        columns.len() * self.form.positions + TAPS - 1
    }

    /// Turns what the tiles take from; what lies outside of the operand is zero.
    unsafe fn copy(&self, room: &Room<T::Acc>, segment: &Segment, columns: &Range<usize>) {
        let (job, each, pitch) = (self.job, self.form.positions, self.channels);
        let gathered = &job.gathered;
        let [_, down, across] = &job.pass.axes;
        let (low, left) = (
            reach(down, segment.line * each, 1).start,
            reach(across, columns.start * each, 1).start,
        );
        let line = self.line(columns);
        // Elements of a line that exist, counted from its begin.
        let within = |at: isize| at.clamp(0, line as isize).cast_unsigned();
        let there = within(-left)..within(across.extent as isize - left);
        for i in 0..segment.lines * each + TAPS - 1 {
            let (at, to) = (low + i as isize, room.copy.wrapping_add(i * line * pitch));
            let exists = (0..down.extent as isize).contains(&at) && !there.is_empty();
            let there = if exists { there.clone() } else { 0..0 };
            let from = at * gathered.spatial[1] + (left + there.start as isize) * gathered.spatial[2];
            // SAFETY: the caller's contract. What is written past the end of a line is overwritten by what follows.
            unsafe {
                if exists {
                    (self.kernels.pack)(&Panel {
                        dst: to.add(there.start * pitch),
                        pitch,
                        src: gathered.at(segment.sample, 0).wrapping_offset(from),
                        width: job.sizes.channels,
                        w_step: gathered.channel,
                        k_step: gathered.spatial[2],
                        kc: there.len(),
                    });
                }
                to.write_bytes(0, there.start * pitch);
                to.add(there.end * pitch)
                    .write_bytes(0, (line - there.end) * pitch);
            }
        }
    }

    unsafe fn transform(&self, room: &Room<T::Acc>, segment: &Segment, columns: &Range<usize>, tiles: usize) {
        let line = self.line(columns) * self.channels;
        for i in 0..segment.lines {
            let from = room.copy.wrapping_add(i * self.form.positions * line);
            let tile = segment.tile + i * columns.len();
            // SAFETY: the copy has the elements of the tiles, and there is room for their transform.
            unsafe {
                (self.form.elements)(&Elements {
                    from: from.cast_const().cast(),
                    step: self.channels,
                    line,
                    count: columns.len(),
                    to: room.transform.add(tile * self.channels).cast(),
                    channels: self.channels,
                    apart: tiles * self.channels,
                });
            }
        }
    }

    /// Sums the products of each element of the transform over channels: `sums[e][tile][row]`.
    unsafe fn products(&self, room: &Room<T::Acc>, panels: &Range<usize>, tiles: usize) {
        let (channels, size) = (self.job.sizes.channels, size_of::<T::Acc>());
        let packed = panel_len(self.form, &self.job.sizes, self.width);
        let weights = self.weights.wrapping_add(panels.start * packed);
        let width = panels.len() * self.width;
        let place = |tile: usize| Place {
            at: room.transform.wrapping_add(tile * self.channels).cast_const(),
            meets: 1,
            out: (tile * width * size).cast_signed(),
        };
        let places: Vec<Place<T::Acc>> = (0..tiles).map(place).collect();
        let of_element = channels * self.width;
        let slice = channels * LATER;
        let slices = (of_element * size).div_ceil(slice);
        let groups = cut(tiles, PLACES);
        for e in 0..self.form.area() {
            let step = |first: usize| {
                let some = TOGETHER.min(channels - first);
                Step {
                    end: ((e * tiles * self.channels + first + some) * size).cast_signed(),
                    bit: 0,
                    back: -(some * size).cast_signed(),
                    weights: (some * self.width * size).cast_signed(),
                }
            };
            let steps: Vec<Step> = (0..channels).step_by(TOGETHER).map(step).collect();
            let of_step = weights.wrapping_add(e * of_element);
            // The next weights of each panel, or those of the panels behind them.
            let next = match e + 1 < self.form.area() {
                true => of_step.wrapping_add(of_element),
                false => weights.wrapping_add(panels.len() * packed),
            };
            for (index, some) in groups.iter().enumerate() {
                let out = room.sums.wrapping_add(e * tiles * width);
                let later = match index < slices * panels.len() {
                    true => next
                        .wrapping_add(index / slices * packed)
                        .wrapping_byte_add(index % slices * slice)
                        .cast(),
                    false => std::ptr::null(),
                };
                // SAFETY: the transform has the channels of each tile, and there are weights for them and room for the sums.
                unsafe {
                    self.steps[panels.len() - 1][some.len() - 1](&mut StepArgs {
                        accumulate: false,
                        count: some.len(),
                        places: places.as_ptr().add(some.start as usize),
                        meets: 1,
                        steps: steps.as_ptr_range().start,
                        last: steps.as_ptr_range().end,
                        zeros: ZEROS.as_ptr().cast::<T::Acc>().add(TOGETHER),
                        weights: of_step,
                        next_panel: (packed * size).cast_signed(),
                        out,
                        asked: out.wrapping_add(some.start as usize * width),
                        asked_step: (width * size).cast_signed(),
                        later,
                    });
                }
            }
        }
    }

    /// Transforms the sums back and stores them.
    unsafe fn store(
        &self,
        room: &Room<T::Acc>,
        segment: &Segment,
        (columns, panels): (&Range<usize>, &Range<usize>),
        tiles: usize,
    ) {
        let (job, form) = (self.job, self.form);
        let (rows, width) = (self.rows(panels), panels.len() * self.width);
        let Rows { row, spatial, .. } = job.target;
        let [_, high, wide] = self.block(segment, columns).size;
        let line = columns.len() * form.positions;
        let storing = Storing {
            kernels: self.kernels,
            job,
            beside: job.channels(self.kernels).of_result,
            turned: room.turned,
        };
        let target = target_of(job, 0, segment.sample, &self.block(segment, columns));
        let dst = target.wrapping_offset(rows.start as isize * row);
        // Whether lines follow one another in the result, so that what is behind one may be written before the next.
        let dense = spatial[2] == 1 && spatial[1] == wide as isize;
        let run = |column: usize, [y, x]: [usize; 2], count: usize| Run {
            column,
            count,
            at: y as isize * spatial[1] + x as isize * spatial[2],
            room: if dense { (high - y) * wide - x } else { count },
        };
        let mut runs = Runs::new();
        for i in 0..segment.lines {
            let first = i * form.positions;
            let count = form.positions.min(high - first);
            // SAFETY: the sums are there, and there is room for the lines.
            unsafe {
                (form.sums)(&Sums {
                    from: room.sums.add((segment.tile + i * columns.len()) * width).cast(),
                    apart: tiles * width,
                    count: columns.len(),
                    width,
                    to: room.lines.cast(),
                    line: line * width,
                });
            }
            let mut put = |y: usize, lines: usize, x: Range<usize>| {
                runs.clear();
                runs.extend((0..lines).map(|l| run(l * line, [first + y + l, x.start], x.len())));
                let from = room.lines.wrapping_add((y * line + x.start) * width);
                let positions = (lines - 1) * line + x.len();
                // SAFETY: the lines are there, and the result is the caller's.
                unsafe {
                    storing.tiles((from.cast_const(), width), positions, rows.len(), dst, &runs);
                }
            };
            let together = (PITCH / line).max(1);
            for y in (0..count).step_by(together) {
                for x in (0..wide).step_by(PITCH) {
                    put(y, together.min(count - y), x..wide.min(x + PITCH));
                }
            }
        }
    }
}
