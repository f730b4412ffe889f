// Rows of the timeline: which there are, how high they are, and how each is drawn.

const SLICE = 19;
const CURVE = 46;
const GROUP = 26;
// Slices of a row in view up to which each is looked at; with more, summaries of blocks are drawn.
const EACH = 65536;
const GUTTER = 200;

// Rows from top to bottom: heads of processes and devices, slices, and curves of memory and figures.
function timelineRows(run, folded) {
  const groups = new Map();
  const group = (name) => groups.get(name) ?? groups.set(name, []).get(name);
  for (const track of run.tracks) group(track.group).push({ kind: "slices", lane: track.lane, name: track.name, depth: track.depth, device: track.kind === "device" });
  for (const memory of run.memory) {
    const { film } = memory;
    group(memory.group).push({ kind: "curve", name: "memory in use", times: film.times, values: film.inUse, steps: true, format: bytes, color: "series-5", zero: true });
  }
  for (const counter of run.counters) {
    group(counter.group).push({ kind: "curve", name: counter.name, times: counter.times, values: counter.values, format: figure, color: "series-3" });
  }
  const rows = [];
  let y = 0;
  const add = (row, height) => {
    rows.push({ ...row, y, height });
    y += height;
  };
  // Devices first: they are what a program waits for.
  const order = [...groups].sort(([, a], [, b]) => b.some((row) => row.device) - a.some((row) => row.device));
  for (const [name, members] of order) {
    add({ kind: "group", name, folded: folded.has(name) }, GROUP);
    if (folded.has(name)) continue;
    for (const row of members) add(row, row.kind === "curve" ? CURVE : SLICE);
  }
  return { rows, height: y + 12 };
}

// The colour of each label: its part of a step, and a shade by its name, so that neighbours can be told apart.
function labelColors(run) {
  const [paper, colors] = [ink.of("surface"), []];
  for (const label of run.labels) {
    const base = ink.of(label.phase);
    const fill = mix(base, paper, [0, 0.16, 0.3][hash(label.name) % 3]);
    colors.push({ fill, text: onColor(fill) });
  }
  return colors;
}

function sliceName(label, run) {
  return label.numbered ? `${label.name} ${run}` : label.name;
}

// Draws slices of a row. What is narrower than a pixel is gathered in a grid of time that does not move with the view.
class SliceBrush {
  constructor(context, { from, to, left, width, labels, colors, mask }) {
    Object.assign(this, { context, from, to, left, labels, colors, mask });
    this.scale = width / (to - from);
    this.right = left + width;
    this.bucket = 2 ** Math.ceil(Math.log2(1 / this.scale));
  }

  x(time) {
    return this.left + (time - this.from) * this.scale;
  }

  draw(lane, y, height) {
    Object.assign(this, { y, height: height - 2, cell: -1 });
    const first = lane.seek(this.from);
    let last = lane.seek(this.to);
    if (last < lane.blocks && lane.starts[last] < this.to) last += 1;
    if (last - first > EACH / 4) this.summaries(lane.coarse, Math.floor(first / BLOCK), Math.ceil(last / BLOCK), BLOCK * BLOCK);
    else if ((last - first) * BLOCK > EACH) this.summaries(lane, first, last, BLOCK);
    else {
      for (let at = first; at < last; at++) {
        if (lane.has(at)) this.slices(lane.block(at));
        else this.summaries(lane, at, at + 1, BLOCK);
      }
    }
    this.flush();
    this.context.globalAlpha = 1;
  }

  slices(block) {
    for (let at = 0; at < block.count; at++) {
      const [start, end] = [block.starts[at], block.ends[at]];
      if (end < this.from) continue;
      if (start > this.to) return;
      if ((end - start) * this.scale >= 1) this.wide(start, end, block.labels[at], block.runs[at]);
      else this.gather(start, end - start, end - start, block.labels[at]);
    }
  }

  // Summaries of so many slices each.
  summaries({ starts, ends, busy: sums, labels }, first, last, slices) {
    for (let at = first; at < last; at++) {
      const [start, end, busy] = [starts[at], ends[at], sums[at]];
      if ((end - start) * this.scale < 2) {
        this.gather(start, busy, busy / slices, labels[at]);
        continue;
      }
      this.flush();
      const [x, width] = [this.x(start), (end - start) * this.scale];
      this.fill(x, width, labels[at], busy / (end - start));
    }
  }

  // Time that belongs to a cell of the grid; the longest slice gives the colour.
  gather(start, busy, longest, label) {
    const cell = Math.floor(start / this.bucket);
    if (cell !== this.cell) {
      this.flush();
      Object.assign(this, { cell, busy: 0, longest: -1, label });
    }
    this.busy += busy;
    if (longest > this.longest) [this.longest, this.label] = [longest, label];
  }

  flush() {
    if (this.cell < 0) return;
    const width = Math.max(1, this.bucket * this.scale);
    this.fill(this.x(this.cell * this.bucket), width, this.label, this.busy / this.bucket);
    this.cell = -1;
  }

  fill(x, width, label, density) {
    const { context } = this;
    context.globalAlpha = (0.35 + 0.65 * Math.min(1, density)) * (this.dims(label) ? 0.15 : 1);
    context.fillStyle = this.colors[label].fill;
    const left = Math.max(this.left, x);
    context.fillRect(left, this.y, Math.min(this.right, x + width) - left, this.height);
  }

  dims(label) {
    return this.mask && !this.mask[label];
  }

  wide(start, end, label, run) {
    this.flush();
    const { context } = this;
    const left = Math.max(this.left, this.x(start));
    const width = Math.min(this.right, this.x(end)) - left;
    context.globalAlpha = this.dims(label) ? 0.15 : 1;
    context.fillStyle = this.colors[label].fill;
    context.fillRect(left, this.y, width > 3 ? width - 0.7 : width, this.height);
    if (width < 22) return;
    const text = fitted(context, sliceName(this.labels[label], run), width - 8);
    if (!text) return;
    context.fillStyle = this.colors[label].text;
    context.textAlign = "left";
    context.fillText(text, left + 4, this.y + this.height / 2 + 0.5);
  }
}

// The first value that is not before `time`.
function seekTime(times, time) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Least and most of so many values each.
const CHUNK = 256;

function chunksOf(values) {
  const length = Math.ceil(values.length / CHUNK);
  const [least, most] = [new Float64Array(length).fill(Infinity), new Float64Array(length).fill(-Infinity)];
  values.forEach((value, at) => {
    if (!Number.isFinite(value)) return;
    const chunk = Math.floor(at / CHUNK);
    least[chunk] = Math.min(least[chunk], value);
    most[chunk] = Math.max(most[chunk], value);
  });
  return { least, most };
}

// A curve of a row: in each pixel all values that it had.
function drawCurve(context, row, { from, to, left, width }, y) {
  const { times, values } = row;
  if (!row.range) {
    row.chunks = chunksOf(values);
    const low = row.chunks.least.reduce((a, b) => Math.min(a, b), Infinity);
    const high = row.chunks.most.reduce((a, b) => Math.max(a, b), -Infinity);
    row.range = low > high ? [0, 1] : [row.zero ? 0 : low, high];
  }
  const [low, high] = row.range;
  const [top, bottom] = [y + 6, y + row.height - 5];
  const at = (value) => (high > low ? bottom - ((value - low) / (high - low)) * (bottom - top) : (top + bottom) / 2);
  const scale = width / (to - from);
  const first = Math.max(0, seekTime(times, from) - 1);
  const points = [];
  let [pixel, least, most, lastY] = [null, 0, 0, null];
  const flush = () => {
    if (pixel !== null) points.push([pixel, least, most, lastY]);
  };
  for (let nth = first; nth < times.length; nth++) {
    // A chunk that lies in one pixel is drawn by its least and most.
    const chunk = nth / CHUNK;
    const last = nth + CHUNK - 1;
    if (pixel !== null && Number.isInteger(chunk) && last < times.length && times[last] < to && (times[last] - times[nth]) * scale < 1 && Number.isFinite(values[last])) {
      const column = Math.floor(left + (times[last] - from) * scale);
      const [low, high] = [at(row.chunks.most[chunk]), at(row.chunks.least[chunk])];
      if (column !== pixel) {
        flush();
        [pixel, least, most] = [column, low, high];
      }
      [least, most, lastY] = [Math.min(least, low), Math.max(most, high), at(values[last])];
      nth = last;
      continue;
    }
    if (!Number.isFinite(values[nth])) continue;
    const x = Math.max(left, Math.min(left + width, left + (times[nth] - from) * scale));
    const height = at(values[nth]);
    const column = Math.floor(x);
    if (column !== pixel) {
      flush();
      [pixel, least, most] = [column, height, height];
    }
    [least, most, lastY] = [Math.min(least, height), Math.max(most, height), height];
    if (times[nth] > to) break;
  }
  flush();
  if (!points.length) return;
  const color = ink.of(row.color);
  context.beginPath();
  let before = null;
  for (const [x, low, high, last] of points) {
    if (before === null) context.moveTo(x, last);
    else if (row.steps) context.lineTo(x, before);
    context.lineTo(x, low);
    if (high > low) context.lineTo(x, high);
    context.lineTo(x, last);
    before = last;
  }
  const end = Math.min(left + width, left + (times[times.length - 1] - from) * scale);
  if (row.steps && before !== null) context.lineTo(Math.max(points.at(-1)[0], end), before);
  context.strokeStyle = color;
  context.lineWidth = 1.3;
  context.stroke();
  if (!row.zero) return;
  context.lineTo(Math.max(points.at(-1)[0], end), bottom);
  context.lineTo(points[0][0], bottom);
  context.closePath();
  context.globalAlpha = 0.18;
  context.fillStyle = color;
  context.fill();
  context.globalAlpha = 1;
}
