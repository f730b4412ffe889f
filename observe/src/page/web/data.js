// Reads what `thalweg view` makes of recordings and summaries: an index in JSON, and columns behind it. `page/data.rs` and `page/lane.rs` write them.

const MAGIC = "TWPAGE\0\x04";
const HEAD = 24;
const BLOCK = 64;
const SUCCESSORS = 4096;
const [OTHER_LABEL, OTHER_RUN] = [1, 2];
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

// What is shown of a block whose slices have not come yet.
const ABSENT = { count: 0, starts: [], ends: [], labels: [], runs: [] };

// A row of slices that do not overlap, decoded block by block as it is drawn. Its summaries are there from the begin; slices come later.
class Lane {
  constructor(heap, blocks) {
    this.count = blocks.count;
    this.bytes = heap.late(blocks.slices);
    this.came = () => heap.came(blocks.slices);
    this.successors = heap.words(blocks.successors);
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

  // Whether the slices of a block are there.
  has(at) {
    return this.came() >= (this.offsets[at + 1] ?? this.bytes.length);
  }

  block(at) {
    const known = this.decoded.get(at);
    if (known) return known;
    if (!this.has(at)) return ABSENT;
    if (this.decoded.size > 8192) this.decoded.clear();
    const block = this.decode(at);
    this.decoded.set(at, block);
    return block;
  }

  decode(at) {
    if (!this.has(at)) return ABSENT;
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
    let [time, run, label] = [this.starts[at], 0, 0];
    for (let slice = 0; slice < count; slice++) {
      const first = numbers.next();
      time += Math.floor(first / 4);
      block.starts[slice] = time;
      time += numbers.next();
      block.ends[slice] = time;
      label = first & OTHER_LABEL ? numbers.next() : this.successors[label % SUCCESSORS];
      block.labels[slice] = label;
      if (first & OTHER_RUN) run += numbers.signed();
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
    return at < 0 || at >= this.count || !this.has(Math.floor(at / BLOCK)) ? null : this.slice(Math.floor(at / BLOCK), at % BLOCK);
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

// All bytes of the data, which come in parts: first what the first frame needs, then what is needed when one looks closer.
class Heap {
  constructor(length) {
    this.buffer = new ArrayBuffer(length);
    this.filled = 0;
  }

  take(part) {
    if (part.length > this.buffer.byteLength - this.filled) throw new Error("There are more data than were announced; load the page again.");
    new Uint8Array(this.buffer).set(part, this.filled);
    this.filled += part.length;
  }

  // The index, as soon as it and the columns of the first frame are there; null before.
  open() {
    if (this.filled < Math.min(HEAD, this.buffer.byteLength)) return null;
    const magic = String.fromCharCode(...new Uint8Array(this.buffer, 0, Math.min(8, this.filled)));
    if (magic !== MAGIC) throw new Error("These are no data of this version of thalweg; load the page again.");
    const head = new DataView(this.buffer, 8);
    const [length, lateStart] = [0, 8].map((at) => Number(head.getBigUint64(at, true)));
    if (this.filled < lateStart) return null;
    [this.start, this.lateStart] = [Math.ceil((HEAD + length) / 8) * 8, lateStart];
    return JSON.parse(new TextDecoder().decode(new Uint8Array(this.buffer, HEAD, length)));
  }

  bytes(place) {
    return new Uint8Array(this.buffer, this.start + place.at, place.bytes);
  }

  late(place) {
    return new Uint8Array(this.buffer, this.lateStart + place.at, place.bytes);
  }

  // How many bytes of a late place are there.
  came(place) {
    return this.filled - this.lateStart - place.at;
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

// The steps of a run in columns: `steps.time[at]` is the time of one. A column is made when it is first asked for.
class Steps {
  constructor(length, column) {
    this.length = length;
    for (const name of ["rank", "step", "start", "time", ...PARTS]) lazy(this, name, () => column(name));
  }

  static read(heap, length, places) {
    return new Steps(length, (name) => {
      const [numbers, column] = [new Numbers(heap.bytes(places[name])), new Float64Array(length)];
      let start = 0;
      for (let at = 0; at < length; at++) column[at] = name === "start" ? (start += numbers.signed()) : numbers.next();
      return column;
    });
  }

  ofRank(rank) {
    const some = [...this.rank.keys()].filter((at) => this.rank[at] === rank);
    return new Steps(some.length, (name) => Float64Array.from(some, (at) => this[name][at]));
  }
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

// Takes data of so many bytes as they come. `started` is called with the index when there is enough for the first frame.
async function receive(length, parts, started) {
  const heap = new Heap(length);
  let index = null;
  for await (const part of parts) {
    heap.take(part);
    if (index) continue;
    index = heap.open();
    if (!index) continue;
    unfoldIndex(heap, index);
    started?.(index);
  }
  if (!index || heap.filled < length) throw new Error(`The data end after ${heap.filled} of ${length} bytes; load the page again.`);
  return index;
}

function unfoldIndex(heap, index) {
  for (const run of index.runs) {
    for (const track of run.tracks) track.lane = new Lane(heap, track.blocks);
    for (const kind of ["logs", "graphs", "dumps"]) {
      for (const file of run.texts[kind]) {
        const place = file.text;
        lazy(file, "text", () => new TextDecoder().decode(heap.bytes(place)));
      }
    }
    const places = run.steps;
    run.steps = Steps.read(heap, run.step_count, places);
    for (const memory of run.memory) lazy(memory, "film", () => readMemory(heap, memory));
    for (const counter of run.counters) {
      counter.times = heap.floats(counter.times);
      counter.values = heap.floats(counter.values);
    }
  }
  index.summaries = index.runs.flatMap((run) => run.summaries);
  index.summaries.forEach((summary, at) => unfold(heap, summary, at));
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
