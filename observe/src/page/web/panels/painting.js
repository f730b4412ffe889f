// How the timeline is drawn.

Object.assign(Timeline.prototype, {
  draw(context, width, height) {
    this.colors ??= labelColors(this.run);
    const { left, top } = this;
    const view = { from: this.kept.from, to: this.kept.to, left, width: width - left };
    this.drawRows(context, view, height);
    context.fillStyle = ink.of("surface");
    context.fillRect(0, 0, width, top);
    this.drawOverview(context, width);
    this.drawRuler(context, view);
    if (this.run.step_count) this.drawSteps(context, view);
    context.strokeStyle = ink.of("line");
    context.beginPath();
    context.moveTo(0, top + 0.5);
    context.lineTo(width, top + 0.5);
    context.moveTo(left + 0.5, 0);
    context.lineTo(left + 0.5, height);
    context.stroke();
  },

  drawRows(context, view, height) {
    const { kept, top, mask } = this;
    const brush = new SliceBrush(context, { ...view, labels: this.run.labels, colors: this.colors, mask });
    const shown = this.rows.filter((row) => row.y + row.height > kept.scroll && row.y < kept.scroll + height - top);
    const area = new Path2D();
    area.rect(view.left, top, view.width, height - top);
    context.save();
    context.clip(area);
    this.drawGrid(context, view, top, height);
    for (const row of shown) {
      const y = top + row.y - kept.scroll;
      if (row.kind === "slices") brush.draw(row.lane, y, row.height);
      else if (row.kind === "curve") drawCurve(context, row, view, y);
    }
    context.restore();
    for (const row of shown) this.drawHead(context, row, top + row.y - kept.scroll, view);
    context.save();
    context.clip(area);
    this.drawMeasured(context, top, height);
    this.drawSelection(context, top);
    context.restore();
  },

  drawHead(context, row, y, { left, width }) {
    context.fillStyle = ink.of(row.kind === "group" ? "ground" : "surface");
    context.fillRect(0, y, row.kind === "group" ? left + width : left, row.height);
    context.textAlign = "left";
    if (row.kind === "group") {
      context.fillStyle = ink.of("text");
      context.font = `600 ${FONT}`;
      context.fillText(`${row.folded ? "▸" : "▾"}  ${row.name}`, 10, y + row.height / 2 + 0.5);
      context.font = FONT;
      return;
    }
    if (row.kind === "slices" && row.depth > 0) return;
    context.fillStyle = ink.of("soft");
    const room = left - 30;
    const name = left < GUTTER ? row.name.replace("default stream, ", "") : row.name;
    context.fillText(fitted(context, name, room), 22, y + (row.kind === "curve" ? 13 : row.height / 2));
    if (row.kind !== "curve" || !row.range) return;
    context.fillStyle = ink.of("faint");
    context.fillText(fitted(context, `${row.format(row.range[0])} … ${row.format(row.range[1])}`, room), 22, y + 29);
  },

  drawGrid(context, { from, to, left, width }, top, height) {
    context.strokeStyle = ink.of("grid");
    context.lineWidth = 1;
    context.beginPath();
    for (const value of ticks(from, to, width / 110).values) {
      const x = Math.round(left + ((value - from) / (to - from)) * width) + 0.5;
      context.moveTo(x, top);
      context.lineTo(x, height);
    }
    context.stroke();
  },

  drawRuler(context, { from, to, left, width }) {
    const y = OVERVIEW + RULER / 2;
    const { values, format, unit } = timeTicks(from, to, width / 110);
    context.fillStyle = ink.of("faint");
    context.strokeStyle = ink.of("line");
    context.textAlign = "left";
    context.beginPath();
    for (const value of values) {
      const x = left + ((value - from) / (to - from)) * width;
      if (x < left - 1) continue;
      context.moveTo(Math.round(x) + 0.5, OVERVIEW + RULER - 7);
      context.lineTo(Math.round(x) + 0.5, OVERVIEW + RULER);
      if (x < left + width - 40) context.fillText(format(value), x + 4, y);
    }
    context.stroke();
    context.textAlign = "right";
    context.fillText(`time in ${unit}`, left - 10, y);
  },

  // The steps of training as bands; in view they are numbered.
  drawSteps(context, { from, to, left, width }) {
    const y = OVERVIEW + RULER;
    const { start: starts, time: times, step: numbers } = this.run.steps;
    const scale = width / (to - from);
    context.save();
    context.beginPath();
    context.rect(left, y, width, STEPS);
    context.clip();
    let until = -Infinity;
    for (let at = Math.max(0, seekTime(starts, from) - 1); at < starts.length; at++) {
      if (starts[at] > to) break;
      const [x, end] = [left + (starts[at] - from) * scale, left + (starts[at] + times[at] - from) * scale];
      if (end < until + 1) {
        // The next step that is seen.
        at = Math.max(at, seekTime(starts, from + (until + 1 - left) / scale) - 2);
        continue;
      }
      context.fillStyle = ink.of(at % 2 ? "step" : "epoch");
      const begin = Math.max(x, until, left);
      context.fillRect(begin, y + 2, Math.max(1, end - begin - 0.7), STEPS - 4);
      until = end;
      const text = end - begin > 30 ? fitted(context, end - begin > 62 ? `step ${numbers[at]}` : String(numbers[at]), end - begin - 6) : "";
      context.fillStyle = ink.of("soft");
      context.textAlign = "left";
      if (text) context.fillText(text, begin + 4, y + STEPS / 2 + 0.5);
    }
    context.restore();
    context.fillStyle = ink.of("faint");
    context.textAlign = "right";
    context.fillText("steps", left - 10, y + STEPS / 2);
  },

  // How busy the devices are in the whole run, and which part of it is in view.
  drawOverview(context, width) {
    const { left } = this;
    const room = width - left;
    const lanes = this.rows.filter((row) => row.kind === "slices" && row.device).map((row) => row.lane);
    const all = lanes.length ? lanes : this.rows.filter((row) => row.kind === "slices" && row.depth === 0).map((row) => row.lane);
    const cells = Math.max(1, Math.floor(room / 2));
    const key = `${cells} ${all.length} ${this.end}`;
    if (this.busyKey !== key) [this.busyKey, this.busy] = [key, busyCells(all, this.end, cells)];
    const most = Math.max(1e-9, ...this.busy);
    context.fillStyle = mix(ink.of("accent"), ink.of("surface"), 0.45);
    this.busy.forEach((value, at) => {
      const height = (value / most) * (OVERVIEW - 6);
      context.fillRect(left + (at / cells) * room, OVERVIEW - height, room / cells, height);
    });
    const [x, end] = [this.kept.from, this.kept.to].map((time) => left + (Math.max(0, Math.min(1, time / this.end))) * room);
    context.fillStyle = ink.of("ground");
    context.globalAlpha = 0.72;
    context.fillRect(left, 0, x - left, OVERVIEW);
    context.fillRect(end, 0, left + room - end, OVERVIEW);
    context.globalAlpha = 1;
    context.strokeStyle = ink.of("accent");
    context.strokeRect(x + 0.5, 0.5, Math.max(2, end - x - 1), OVERVIEW - 1);
    context.fillStyle = ink.of("faint");
    context.textAlign = "right";
    context.fillText(all === lanes ? "devices busy" : "host busy", left - 10, OVERVIEW / 2);
  },

  drawMeasured(context, top, height) {
    const { measured } = this.kept;
    if (!measured) return;
    const [from, to] = measured.map((time) => this.xOf(time));
    context.fillStyle = ink.of("accent");
    context.globalAlpha = 0.14;
    context.fillRect(from, top, to - from, height - top);
    context.globalAlpha = 1;
    context.fillRect(from, top, 1, height - top);
    context.fillRect(to - 1, top, 1, height - top);
  },

  drawSelection(context, top) {
    const { selected } = this.kept;
    if (!selected) return;
    const { row, slice } = selected;
    const place = (row, slice) => ({ x: this.xOf(slice.start), end: this.xOf(slice.end), y: top + row.y - this.kept.scroll });
    const own = place(row, slice);
    context.strokeStyle = ink.of("selected");
    context.globalAlpha = 0.55;
    for (const other of partners(this, selected)) {
      const there = place(other.row, other.slice);
      const [a, b] = row.device ? [there, own] : [own, there];
      const [x, y] = [a.end, a.y + SLICE / 2];
      const [toX, toY] = [b.x, b.y + SLICE / 2];
      if (Math.max(x, toX) < this.left || Math.min(x, toX) > this.canvas.width) continue;
      const bend = Math.max(18, Math.abs(toX - x) / 2);
      context.lineWidth = 1.2;
      context.beginPath();
      context.moveTo(x, y);
      context.bezierCurveTo(x + bend, y, toX - bend, toY, toX, toY);
      context.moveTo(toX - 5, toY - 3);
      context.lineTo(toX, toY);
      context.lineTo(toX - 5, toY + 3);
      context.stroke();
    }
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(own.x, own.y, Math.max(2, own.end - own.x - 0.7), row.height - 2);
  },
});

// What part of each cell of the run some row is busy.
function busyCells(lanes, end, cells) {
  const busy = new Float64Array(cells);
  for (const lane of lanes) {
    for (let at = 0; at < lane.blocks; at++) {
      const [start, stop] = [lane.starts[at], lane.ends[at]];
      const density = lane.busy[at] / Math.max(1, stop - start);
      const [first, last] = [start, stop].map((time) => Math.min(cells - 1, Math.floor((time / end) * cells)));
      for (let cell = first; cell <= last; cell++) {
        const [from, to] = [(cell / cells) * end, ((cell + 1) / cells) * end];
        busy[cell] += (density * Math.max(0, Math.min(stop, to) - Math.max(start, from))) / (end / cells);
      }
    }
  }
  return busy;
}
