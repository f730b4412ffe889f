// The user's figures over time: what `observe::counter` was given.

function counterChart(counter, end) {
  let drawn = null;
  const chart = new Canvas((context, width, height) => {
    drawn = { left: 62, right: width - 10, top: 10, bottom: height - 34 };
    const finite = counter.values.filter(Number.isFinite);
    const [low, high] = finite.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
    if (low > high) return axisTitle(context, "no finite value", width / 2, height / 2, "center");
    const margin = (high - low || Math.abs(high) || 1) * 0.06;
    const [bottom, top] = [low - margin, high + margin];
    const y = (value) => drawn.bottom - ((value - bottom) / (top - bottom)) * (drawn.bottom - drawn.top);
    const x = (time) => drawn.left + (time / end) * (drawn.right - drawn.left);
    axisY(context, drawn, ticks(bottom, top, 4).values.map((value) => [value, y(value)]), figure);
    const scale = timeTicks(0, end, (drawn.right - drawn.left) / 90);
    axisX(context, drawn, scale.values.map((value) => [value, x(value)]), scale.format);
    axisTitle(context, `time, ${scale.unit}`, (drawn.left + drawn.right) / 2, height - 6, "center");
    context.save();
    context.beginPath();
    context.rect(drawn.left, drawn.top, drawn.right - drawn.left, drawn.bottom - drawn.top);
    context.clip();
    context.strokeStyle = ink.series(0);
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.beginPath();
    let [column, least, most] = [null, 0, 0];
    const flush = () => {
      if (column === null) return;
      context.lineTo(column, least);
      if (most > least) context.lineTo(column, most);
    };
    counter.values.forEach((value, at) => {
      if (!Number.isFinite(value)) return;
      const [pixel, height] = [Math.round(x(counter.times[at])), y(value)];
      if (pixel !== column) {
        flush();
        [column, least, most] = [pixel, height, height];
      }
      [least, most] = [Math.min(least, height), Math.max(most, height)];
    });
    flush();
    context.stroke();
    if (finite.length === 1) {
      context.fillStyle = ink.series(0);
      context.fillRect(x(counter.times[0]) - 2, y(finite[0]) - 2, 4, 4);
    }
    context.restore();
  }, {
    "aria-label": counter.name,
    onpointermove: (event) => {
      if (!drawn || !counter.times.length) return;
      const [px] = chart.at(event);
      const moment = ((px - drawn.left) / (drawn.right - drawn.left)) * end;
      const at = Math.min(counter.times.length - 1, seekTime(counter.times, moment));
      tip.show(event.clientX, event.clientY, ...tipRows(counter.name, [["value", figure(counter.values[at])], ["at", time(counter.times[at], 4)]]));
    },
    onpointerleave: () => tip.hide(),
  });
  return chart;
}

function countersPanel(app, root) {
  const { run } = app;
  if (!run.counters.length) {
    clear(root, heading("Figures"), empty("No figure was recorded", "A figure that changes in time is recorded so:", command('observe::counter("loss", loss);')));
    return {};
  }
  const charts = run.counters.map((counter) => counterChart(counter, Math.max(1, run.end)));
  const box = (counter, at) => el("div", { class: "card box" }, el("h2", {}, el("span", {}, counter.name, run.recordings.length > 1 ? ` (rank ${counter.rank})` : ""), el("span", {}, figure(counter.values.at(-1)))), charts[at].element);
  clear(root, heading("Figures", "What the program counted while it ran, with its last value."), el("div", { class: "small" }, run.counters.map(box)));
  return { repaint: () => charts.forEach((chart) => chart.paint()), close: () => charts.forEach((chart) => chart.close()) };
}

panels.push({ id: "figures", title: "Figures", make: countersPanel });
