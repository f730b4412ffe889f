// Charts of histograms: all steps as a heat map or as ridges, and the distribution at one step.

// Cells that the values of all steps are spread over.
const CELLS = 96;

// The share of each of `cells` cells between `low` and `high`. Buckets are spread over the cells that they lie in.
function spread(frame, low, high, cells) {
  const shares = new Float64Array(cells);
  const whole = frame.buckets.reduce((sum, count) => sum + count, 0) || 1;
  const place = (value) => Math.min(cells, Math.max(0, ((value - low) / (high - low || 1)) * cells));
  eachBucket(frame, (from, to, number) => {
    const [first, last] = [place(from), place(to)];
    if (last - first < 1e-9) {
      shares[Math.min(cells - 1, Math.floor(first))] += number / whole;
      return;
    }
    for (let cell = Math.floor(first); cell < last; cell++) {
      shares[cell] += ((Math.min(last, cell + 1) - Math.max(first, cell)) / (last - first)) * (number / whole);
    }
  });
  return shares;
}

// Buckets as far as values lie in them.
function eachBucket(frame, take) {
  let before = frame.min ?? frame.limits[0];
  frame.limits.forEach((limit, at) => {
    const [from, to] = [Math.max(before, frame.min ?? before), Math.min(limit, frame.max ?? limit)];
    if (frame.buckets[at] > 0) take(from, Math.max(from, to), frame.buckets[at]);
    before = limit;
  });
}

class Distributions {
  // `kept` has the chosen step as `step`; without one, it is the newest.
  constructor(row, color, kind, kept) {
    const frames = row.frames.filter((frame) => frame.limits.length && frame.count > 0);
    const chosen = frames.findLastIndex((frame) => frame.step <= (kept.step ?? Infinity));
    Object.assign(this, { row, color, kind, kept, frames, at: Math.max(0, chosen) });
    const finite = (values) => values.filter(Number.isFinite);
    this.low = Math.min(...finite(frames.map((frame) => frame.min)));
    this.high = Math.max(...finite(frames.map((frame) => frame.max)));
    if (this.low === this.high) [this.low, this.high] = [this.low - 0.5, this.high + 0.5];
    this.shares = frames.map((frame) => spread(frame, this.low, this.high, CELLS));
    this.most = this.shares.reduce((most, shares) => shares.reduce((most, share) => Math.max(most, share), most), 0) || 1;
    this.all = pointed((...at) => this.drawAll(...at), {
      label: `${row.tag} at each step; arrow keys go from step to step`,
      choose: (px, py) => this.choose(px, py),
      step: (by) => this.select(this.at + by),
      note: () => this.note(),
      leave: () => {},
    });
    this.one = new Canvas((...at) => this.drawOne(...at), { "aria-label": `Distribution of ${row.tag} at one step`, tabIndex: -1 });
  }

  // Steps go upwards in no chart: along in a heat map, downwards in ridges.
  choose(px, py) {
    if (!this.places?.length) return;
    const wanted = this.kind === "heat" ? px : py;
    this.select(this.places.reduce((best, place, at) => (Math.abs(place - wanted) < Math.abs(this.places[best] - wanted) ? at : best), 0));
  }

  select(at) {
    this.at = Math.max(0, Math.min(this.frames.length - 1, at));
    this.kept.step = this.at === this.frames.length - 1 ? null : this.frames[this.at].step;
    this.one.later();
  }

  note() {
    const frame = this.frames[this.at];
    if (!frame || !this.places) return null;
    const [x, y] = this.kind === "heat" ? [this.places[this.at], this.box.top] : [this.box.right - 60, this.places[this.at]];
    const rows = [["values", count(frame.count)], ["smallest", figure(frame.min)], ["mean", figure(frame.mean)], ["largest", figure(frame.max)]];
    return { x, y, title: `step ${count(frame.step)}`, rows };
  }

  drawAll(context, width, height) {
    if (!this.frames.length) return axisTitle(context, "no finite value", width / 2, height / 2, "center");
    if (this.kind === "heat") this.heat(context, width, height);
    else this.ridges(context, width, height);
  }

  heat(context, width, height) {
    const box = (this.box = { left: 66, right: width - 12, top: 26, bottom: height - 38 });
    axisTitle(context, "value", box.left - 8, 10, "right");
    const steps = this.frames.map((frame) => frame.step);
    const edges = steps.map((step, at) => (at ? (step + steps[at - 1]) / 2 : step - ((steps[1] ?? step + 1) - step) / 2));
    edges.push(steps.at(-1) + (steps.at(-1) - (steps.at(-2) ?? steps.at(-1) - 1)) / 2);
    const x = (step) => box.left + ((step - edges[0]) / (edges.at(-1) - edges[0])) * (box.right - box.left);
    const y = (value) => box.bottom - ((value - this.low) / (this.high - this.low)) * (box.bottom - box.top);
    this.places = steps.map(x);
    const [ground, color] = [ink.of("surface"), ink.of(this.color)];
    const cell = (box.bottom - box.top) / CELLS;
    this.shares.forEach((shares, at) => {
      const [from, to] = [x(edges[at]), x(edges[at + 1])];
      shares.forEach((share, nth) => {
        if (!share) return;
        context.fillStyle = mix(ground, color, 0.06 + 0.94 * Math.sqrt(share / this.most));
        context.fillRect(from, box.bottom - (nth + 1) * cell, to - from + 0.5, cell + 0.5);
      });
    });
    const values = ticks(this.low, this.high, Math.max(2, height / 50)).values;
    axisY(context, box, values.map((value) => [value, y(value)]), figure);
    const scale = alongTicks("step", steps[0], steps.at(-1), (box.right - box.left) / 90);
    axisX(context, box, scale.values.map((value) => [value, x(value)]), scale.format);
    axisTitle(context, "step", (box.left + box.right) / 2, height - 8, "center");
    context.strokeStyle = ink.of("selected");
    context.lineWidth = 1.5;
    context.strokeRect(x(edges[this.at]), box.top, Math.max(2, x(edges[this.at + 1]) - x(edges[this.at])), box.bottom - box.top);
  }

  ridges(context, width, height) {
    const box = (this.box = { left: 66, right: width - 12, top: 46, bottom: height - 38 });
    const room = box.bottom - box.top;
    const y = (at) => (this.frames.length > 1 ? box.top + (at / (this.frames.length - 1)) * room : box.bottom);
    const x = (value) => box.left + ((value - this.low) / (this.high - this.low)) * (box.right - box.left);
    this.places = this.frames.map((_, at) => y(at));
    const every = Math.max(1, Math.ceil(this.frames.length / Math.max(1, room / 7)));
    const tall = Math.min(40, room / 2);
    const order = this.frames.map((_, at) => at).filter((at) => at % every === 0 || at === this.at || at === this.frames.length - 1);
    const [surface, color] = [ink.of("surface"), ink.of(this.color)];
    for (const at of order) {
      const shares = this.shares[at];
      context.beginPath();
      context.moveTo(box.left, y(at));
      shares.forEach((share, nth) => context.lineTo(box.left + ((nth + 0.5) / CELLS) * (box.right - box.left), y(at) - (share / this.most) * tall));
      context.lineTo(box.right, y(at));
      context.fillStyle = mix(surface, color, 0.25 + 0.5 * (at / Math.max(1, this.frames.length - 1)));
      context.fill();
      context.strokeStyle = at === this.at ? ink.of("selected") : surface;
      context.lineWidth = at === this.at ? 1.8 : 1;
      context.stroke();
    }
    const labels = [];
    for (let at = 0; at < this.frames.length; at++) {
      if (!labels.length || y(at) - y(labels.at(-1)) >= 22) labels.push(at);
    }
    context.textAlign = "right";
    context.fillStyle = ink.of("faint");
    for (const at of labels) context.fillText(count(this.frames[at].step), box.left - 8, y(at));
    axisTitle(context, "step", box.left - 8, box.top - 18, "right");
    const values = ticks(this.low, this.high, (box.right - box.left) / 80).values;
    axisX(context, box, values.map((value) => [value, x(value)]), figure);
    axisTitle(context, "value", (box.left + box.right) / 2, height - 8, "center");
  }

  drawOne(context, width, height) {
    const frame = this.frames[this.at];
    if (!frame) return;
    const box = { left: 58, right: width - 10, top: 34, bottom: height - 38 };
    const most = frame.buckets.reduce((most, number) => Math.max(most, number), 0) || 1;
    const x = (value) => box.left + ((value - this.low) / (this.high - this.low)) * (box.right - box.left);
    const y = (value) => box.bottom - (value / (most * 1.05)) * (box.bottom - box.top);
    axisTitle(context, "count", box.left - 8, 12, "right");
    axisTitle(context, `step ${count(frame.step)}, ${plural(frame.count, "value")}`, box.left, 12);
    axisY(context, box, ticks(0, most * 1.05, Math.max(2, height / 60)).values.map((value) => [value, y(value)]), figure);
    context.fillStyle = ink.of(this.color);
    eachBucket(frame, (from, to, number) => context.fillRect(x(from), y(number), Math.max(1.5, x(to) - x(from) - 0.5), box.bottom - y(number)));
    const values = ticks(this.low, this.high, (box.right - box.left) / 70).values;
    axisX(context, box, values.map((value) => [value, x(value)]), figure);
    axisTitle(context, "value", (box.left + box.right) / 2, height - 8, "center");
  }
}
