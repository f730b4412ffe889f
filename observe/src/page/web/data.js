// Reads what `thalweg view` makes of recordings and summaries: an index in JSON, and columns behind it. `page/data.rs` and `page/lane.rs` write them.

const MAGIC = "TWPAGE\0\x03";
const BLOCK = 64;
const PARTS = ["data", "forward", "backward", "update", "communication", "other", "idle"];

// Numbers as LEB128, one after the other.
class Numbers {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
      factor *= 128;
    }
  }

  signed() {
    const value = this.next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}

// A row of slices that do not overlap, decoded block by block as it is drawn.
class Lane {
  constructor(heap, blocks) {
    this.count = blocks.count;
    this.bytes = heap.bytes(blocks.slices);
    this.starts = heap.floats(blocks.starts);
    this.ends = heap.floats(blocks.ends);
    this.busy = heap.floats(blocks.busy);
    this.offsets = heap.words(blocks.offsets);
    this.labels = heap.words(blocks.labels);
    this.firstRuns = heap.words(blocks.first_runs);
    this.lastRuns = heap.words(blocks.last_runs);
    this.decoded = new Map();
  }

  get blocks() {
    return this.starts.length;
  }

  // Summaries of 64 blocks each, for rows of millions of slices.
  get coarse() {
    if (this.summed) return this.summed;
    const length = Math.ceil(this.blocks / BLOCK);
    const [starts, ends, busy] = [0, 0, 0].map(() => new Float64Array(length));
    const labels = new Uint32Array(length);
    for (let at = 0; at < length; at++) {
      const last = Math.min(this.blocks, (at + 1) * BLOCK) - 1;
      [starts[at], ends[at]] = [this.starts[at * BLOCK], this.ends[last]];
      const often = new Map();
      for (let block = at * BLOCK; block <= last; block++) {
        busy[at] += this.busy[block];
        often.set(this.labels[block], (often.get(this.labels[block]) ?? 0) + 1);
      }
      [[labels[at]]] = [...often].sort(([, a], [, b]) => b - a);
    }
    return (this.summed = { starts, ends, busy, labels });
  }

  // The first block that ends behind `time`.
  seek(time) {
    let [low, high] = [0, this.blocks];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ends[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  block(at) {
    const known = this.decoded.get(at);
    if (known) return known;
    if (this.decoded.size > 8192) this.decoded.clear();
    const block = this.decode(at);
    this.decoded.set(at, block);
    return block;
  }

  decode(at) {
    const count = Math.min(BLOCK, this.count - at * BLOCK);
    const block = {
      count,
      starts: new Float64Array(count),
      ends: new Float64Array(count),
      labels: new Uint32Array(count),
      runs: new Uint32Array(count),
    };
    const numbers = new Numbers(this.bytes);
    numbers.at = this.offsets[at];
    let [time, run] = [this.starts[at], 0];
    for (let slice = 0; slice < count; slice++) {
      time += numbers.next();
      block.starts[slice] = time;
      time += numbers.next();
      block.ends[slice] = time;
      block.labels[slice] = numbers.next();
      run += numbers.signed();
      block.runs[slice] = run;
    }
    return block;
  }

  slice(at, nth) {
    const block = this.block(at);
    return { block: at, nth, start: block.starts[nth], end: block.ends[nth], label: block.labels[nth], run: block.runs[nth] };
  }

  // The slice beside another one, or null at an end.
  beside(slice, step) {
    const at = slice.block * BLOCK + slice.nth + step;
    return at < 0 || at >= this.count ? null : this.slice(Math.floor(at / BLOCK), at % BLOCK);
  }

  // Slices of a run; the ranges of the blocks leave out most of them.
  *ofRun(run) {
    for (let at = 0; at < this.blocks; at++) {
      if (run < this.firstRuns[at] || run > this.lastRuns[at]) continue;
      const block = this.block(at);
      for (let nth = 0; nth < block.count; nth++) if (block.runs[nth] === run) yield this.slice(at, nth);
    }
  }
}

class Heap {
  constructor(buffer, start) {
    this.buffer = buffer;
    this.start = start;
  }

  bytes(place) {
    return new Uint8Array(this.buffer, this.start + place.at, place.bytes);
  }

  floats(place) {
    return new Float64Array(this.buffer, this.start + place.at, place.bytes / 8);
  }

  words(place) {
    return new Uint32Array(this.buffer, this.start + place.at, place.bytes / 4);
  }
}

// A value that is made when it is first asked for.
function lazy(object, name, make) {
  let value;
  Object.defineProperty(object, name, { configurable: true, get: () => (value ??= make()) });
}

function readSteps(heap, run) {
  const numbers = new Numbers(heap.bytes(run.steps));
  const steps = [];
  let start = 0;
  for (let at = 0; at < run.step_count; at++) {
    const step = { rank: numbers.next(), step: numbers.next() };
    start += numbers.signed();
    step.start = start;
    step.time = numbers.next();
    for (const part of PARTS) step[part] = numbers.next();
    steps.push(step);
  }
  return steps;
}

// When memory changed, by how much, whose it was, and how much there was then.
function readMemory(heap, memory) {
  const numbers = new Numbers(heap.bytes(memory.events));
  const [times, owners] = [new Float64Array(memory.count), new Uint32Array(memory.count)];
  const [changes, inUse, reserved] = [0, 0, 0].map(() => new Float64Array(memory.count));
  let [time, used, held] = [0, 0, 0];
  for (let at = 0; at < memory.count; at++) {
    time += numbers.next();
    const what = numbers.next();
    const [kind, bytes] = [what % 4, numbers.next()];
    owners[at] = Math.floor(what / 4);
    times[at] = time;
    if (kind < 2) {
      changes[at] = kind === 0 ? bytes : -bytes;
      // What was taken before the recording began is not known.
      used = Math.max(0, used + changes[at]);
    } else held = Math.max(0, held + (kind === 2 ? bytes : -bytes));
    inUse[at] = used;
    reserved[at] = held;
  }
  return { times, owners, changes, inUse, reserved };
}

function parseData(buffer) {
  const magic = String.fromCharCode(...new Uint8Array(buffer, 0, Math.min(8, buffer.byteLength)));
  if (magic !== MAGIC) throw new Error("These are no data of this version of thalweg; load the page again.");
  const length = Number(new DataView(buffer).getBigUint64(8, true));
  const index = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 16, length)));
  const heap = new Heap(buffer, Math.ceil((16 + length) / 8) * 8);
  for (const run of index.runs) {
    for (const track of run.tracks) track.lane = new Lane(heap, track.blocks);
    for (const kind of ["logs", "graphs", "dumps"]) {
      for (const file of run.texts[kind]) {
        const place = file.text;
        lazy(file, "text", () => new TextDecoder().decode(heap.bytes(place)));
      }
    }
    const places = run.steps;
    lazy(run, "steps", () => readSteps(heap, { steps: places, step_count: run.step_count }));
    for (const memory of run.memory) lazy(memory, "film", () => readMemory(heap, memory));
    for (const counter of run.counters) {
      counter.times = heap.floats(counter.times);
      counter.values = heap.floats(counter.values);
    }
  }
  index.summaries = index.runs.flatMap((run) => run.summaries);
  index.summaries.forEach((summary, at) => unfold(heap, summary, at));
  return index;
}

// The columns of what a run noted. `at` is its place among all of them, which its colour follows.
function unfold(heap, summary, at) {
  summary.at = at;
  for (const row of summary.scalars) {
    for (const column of ["steps", "times", "values"]) row[column] = heap.floats(row[column]);
  }
  for (const row of summary.histograms) {
    for (const frame of row.frames) [frame.limits, frame.buckets] = [heap.floats(frame.limits), heap.floats(frame.buckets)];
  }
  for (const row of summary.images) {
    for (const frame of row.frames) {
      const place = frame.file;
      lazy(frame, "url", () => `data:${frame.kind};base64,${toBase64(heap.bytes(place))}`);
    }
  }
  for (const plane of summary.landscapes) plane.loss = heap.floats(plane.loss);
}

function toBase64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const plain = atob(text);
  const bytes = new Uint8Array(plain.length);
  for (let at = 0; at < plain.length; at++) bytes[at] = plain.charCodeAt(at);
  return bytes;
}
