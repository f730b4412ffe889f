// A chart of numbers over steps or time, a curve for each run.

const ALONG = {
  step: { title: "step", of: (row) => row.steps },
  time: { title: "time since the begin", of: (row) => row.times.map((time) => time - row.times[0]) },
  clock: { title: "clock", of: (row) => row.times },
};

// The mean of what came before, in which each point weighs `weight` of the one behind it; like TensorBoard's.
function smoothed(values, weight) {
  if (!weight) return values;
  let [mean, sum] = [0, 0];
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    mean = mean * weight + (1 - weight) * value;
    sum = sum * weight + (1 - weight);
    return mean / sum;
  });
}

// The index of the value that is nearest to another, among values that rise.
function nearest(values, wanted) {
  let [low, high] = [0, values.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - values[low - 1] < values[low] - wanted ? low - 1 : low;
}

// A height for each value between two others, with its labels. Logarithmic heights have no place for what is not above 0.
function heights(low, high, log, box, wanted) {
  const of = log ? Math.log10 : (value) => value;
  const margin = (of(high) - of(low) || (log ? 1 : Math.abs(high)) || 1) * 0.05;
  const [bottom, top] = [of(low) - margin, of(high) + margin];
  const y = (value) => box.bottom - ((of(value) - bottom) / (top - bottom)) * (box.bottom - box.top);
  return { y, values: log ? logTicks(10 ** bottom, 10 ** top, wanted) : ticks(bottom, top, wanted).values };
}

// Powers of ten, and what lies between them where they are few.
function logTicks(low, high, wanted) {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const within = (factors, every) => {
    const values = [];
    for (let power = from; power <= to; power += every) for (const factor of factors) values.push(factor * 10 ** power);
    return values.filter((value) => value >= low && value <= high);
  };
  const every = Math.max(1, Math.ceil((to - from) / (wanted + 1)));
  const sets = [within([1], every), within([1, 2, 5], 1), ticks(low, high, wanted).values.filter((value) => value > 0)];
  return sets.find((values) => values.length >= 3) ?? sets[2];
}

const CLOCKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800, 2592000];

// Labels along: steps, times in one unit, or the clock.
function alongTicks(along, from, to, wanted) {
  if (along === "step") return { values: ticks(from, to, wanted).values.filter(Number.isInteger), format: count, unit: "" };
  if (along === "time") {
    const scale = timeTicks(from * 1e9, to * 1e9, wanted);
    return { values: scale.values.map((value) => value / 1e9), format: (value) => scale.format(value * 1e9), unit: `, ${scale.unit}` };
  }
  const step = CLOCKS.find((step) => (to - from) / step <= wanted) ?? CLOCKS.at(-1);
  const zone = new Date(from * 1000).getTimezoneOffset() * 60;
  const values = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) values.push(at);
  const options = step >= 86400 ? { dateStyle: "medium" } : { timeStyle: step < 60 ? "medium" : "short" };
  return { values, format: (value) => new Date(value * 1000).toLocaleString("en-GB", options), unit: "" };
}

class Curves {
  // `rows` are { name, color, steps, times, values }, `kept` has { smooth, log, along }.
  constructor(tag, rows, kept) {
    Object.assign(this, { tag, kept });
    this.rows = rows.map((row) => ({ ...row, x: ALONG[kept.along].of(row), y: smoothed(row.values, kept.smooth) }));
    this.cursor = null;
    this.canvas = pointed((...at) => this.draw(...at), {
      label: `${tag} along ${ALONG[kept.along].title}; arrow keys go from point to point`,
      choose: (px) => this.choose(px),
      step: (by) => this.step(by),
      note: () => this.note(),
      leave: () => (this.cursor = null),
    });
  }

  range() {
    let [low, high, left, right] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const row of this.rows) {
      for (const values of [row.values, row.y]) {
        for (const value of values) {
          if (!Number.isFinite(value) || (this.kept.log && value <= 0)) continue;
          if (value < low) low = value;
          if (value > high) high = value;
        }
      }
      if (!row.x.length) continue;
      left = Math.min(left, row.x[0]);
      right = Math.max(right, row.x.at(-1));
    }
    return { low, high, left, right };
  }

  draw(context, width, height) {
    this.box = null;
    const { low, high, left, right } = this.range();
    if (low > high) {
      axisTitle(context, this.kept.log ? "no value above 0" : "no finite value", width / 2, height / 2, "center");
      return;
    }
    const box = { left: 66, right: width - 12, top: 10, bottom: height - 38 };
    const { y, values } = heights(low, high, this.kept.log, box, Math.max(2, height / 50));
    axisY(context, box, values.map((value) => [value, y(value)]), figure);
    const x = (value) => box.left + (right > left ? (value - left) / (right - left) : 0.5) * (box.right - box.left);
    const scale = alongTicks(this.kept.along, left, right, (box.right - box.left) / 90);
    axisX(context, box, scale.values.map((value) => [value, x(value)]), scale.format);
    axisTitle(context, ALONG[this.kept.along].title + scale.unit, (box.left + box.right) / 2, height - 8, "center");
    Object.assign(this, { box, x, y, left, right });
    context.save();
    context.beginPath();
    context.rect(box.left, box.top - 4, box.right - box.left, box.bottom - box.top + 4);
    context.clip();
    // A curve that lies below another one shines through.
    context.globalAlpha = this.rows.length > 1 ? 0.8 : 1;
    for (const row of this.rows) this.row(context, row);
    context.restore();
    this.point(context);
  }

  row(context, row) {
    const color = ink.series(row.at);
    context.lineJoin = "round";
    if (this.kept.smooth) this.line(context, row.x, row.values, mix(ink.of("surface"), color, 0.3), 1);
    this.line(context, row.x, row.y, color, 1.5);
    // What is no number has no height; a cross at the foot tells of it.
    context.strokeStyle = ink.of("warn");
    context.lineWidth = 1.5;
    context.beginPath();
    row.values.forEach((value, at) => {
      if (Number.isFinite(value)) return;
      const [px, py] = [this.x(row.x[at]), this.box.bottom - 6];
      for (const way of [1, -1]) {
        context.moveTo(px - 3.5, py - 3.5 * way);
        context.lineTo(px + 3.5, py + 3.5 * way);
      }
    });
    context.stroke();
  }

  line(context, xs, ys, color, width) {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.beginPath();
    let [drawn, last] = [0, null];
    xs.forEach((value, at) => {
      if (!Number.isFinite(ys[at]) || (this.kept.log && ys[at] <= 0)) return;
      const point = [this.x(value), this.y(ys[at])];
      if (drawn++) context.lineTo(...point);
      else context.moveTo(...point);
      last = point;
    });
    context.stroke();
    context.fillStyle = color;
    if (drawn === 1) context.fillRect(last[0] - 2.5, last[1] - 2.5, 5, 5);
  }

  point(context) {
    if (this.cursor === null) return;
    const px = this.x(this.cursor);
    context.strokeStyle = ink.of("faint");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(px, this.box.top);
    context.lineTo(px, this.box.bottom);
    context.stroke();
    for (const row of this.rows) {
      const at = nearest(row.x, this.cursor);
      const value = row.y[at];
      if (!Number.isFinite(value) || (this.kept.log && value <= 0)) continue;
      context.fillStyle = ink.series(row.at);
      context.strokeStyle = ink.of("surface");
      context.lineWidth = 1.5;
      context.beginPath();
      context.arc(this.x(row.x[at]), this.y(value), 4, 0, 7);
      context.fill();
      context.stroke();
    }
  }

  // The point nearest to a place in the canvas, of any run.
  choose(px) {
    if (!this.box) return;
    const wanted = this.left + ((px - this.box.left) / (this.box.right - this.box.left)) * (this.right - this.left);
    const places = this.rows.filter((row) => row.x.length).map((row) => row.x[nearest(row.x, wanted)]);
    places.sort((a, b) => Math.abs(a - wanted) - Math.abs(b - wanted));
    this.cursor = places[0] ?? null;
  }

  step(by) {
    const row = this.rows.reduce((a, b) => (b.x.length > a.x.length ? b : a));
    if (!this.box || !row.x.length) return;
    const at = this.cursor === null ? (by < 0 ? row.x.length : -1) : nearest(row.x, this.cursor);
    this.cursor = row.x[Math.max(0, Math.min(row.x.length - 1, at + by))];
  }

  note() {
    if (this.cursor === null || !this.box) return null;
    const found = this.rows.filter((row) => row.x.length).map((row) => ({ row, at: nearest(row.x, this.cursor) }));
    const rows = found.map(({ row, at }) => {
      const beside = row.x[at] === this.cursor ? "" : ` at step ${count(row.steps[at])}`;
      const plain = this.kept.smooth ? ` (${figure(row.values[at])})` : "";
      return [row.name, `${figure(row.y[at])}${plain}${beside}`, `var(--${SERIES[row.at % SERIES.length]})`];
    });
    const { row, at } = found.find(({ row, at }) => row.x[at] === this.cursor) ?? found[0];
    const since = time((row.times[at] - row.times[0]) * 1e9);
    return { x: this.x(this.cursor), y: this.box.top, title: `step ${count(row.steps[at])}`, rows: [...rows, ["after", since]] };
  }
}
