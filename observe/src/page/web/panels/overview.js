// The first look: how long, with what, and what a reader should know.

// The parts of a step as one bar.
function partsBar(parts, whole) {
  const piece = ([name, value]) => (value > 0 ? el("span", { title: `${name} ${time(value)}`, style: { width: `${(value / whole) * 100}%`, background: `var(--${name})` } }) : null);
  return el("div", { class: "parts" }, parts.map(piece));
}

function sumParts(steps) {
  return PARTS.map((part) => [part, total(steps[part])]);
}

function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

function partsLegend(parts, format) {
  return el("div", { class: "legend" }, parts.filter(([, value]) => value > 0).map(([name, value]) => el("span", {}, swatch(`var(--${name})`), name, el("b", {}, format(value)))));
}

function median(values) {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function peakOf(memory) {
  let [at, most] = [0, 0];
  memory.film.inUse.forEach((value, nth) => {
    if (value > most) [at, most] = [nth, value];
  });
  return { at, most };
}

function figureCard(title, big, ...lines) {
  return el("div", { class: "card figure" }, el("h2", {}, title), el("div", { class: "big" }, big), lines.filter(Boolean).map((line) => el("p", {}, line)));
}

function overview(app, root) {
  const { run } = app;
  const [first] = run.recordings;
  const cards = [];
  if (run.step_count) {
    const { time: times, step: numbers } = run.steps;
    const longest = times.reduce((longest, value, at) => (value > times[longest] ? at : longest), 0);
    cards.push(figureCard("A step, median", time(median(times)), `mean ${time(total(times) / times.length)} of ${plural(times.length, "step")}`, `longest ${time(times[longest])}, step ${numbers[longest]}`));
  }
  cards.push(figureCard("Whole run", time(run.end), `devices worked ${time(run.device_time)}`));
  cards.push(figureCard("Kernels and copies", count(run.kernels_run), run.kernels_run ? `mean ${time(run.device_time / run.kernels_run)}` : "none was recorded"));
  for (const memory of run.memory.slice(0, 2)) {
    const { at, most } = peakOf(memory);
    cards.push(figureCard(`Memory of ${memory.device}, peak`, bytes(most), `after ${time(memory.film.times[at] ?? 0)}`));
  }
  const charts = [];
  const boxes = [];
  if (run.step_count) {
    const parts = sumParts(run.steps);
    const whole = parts.reduce((sum, [, value]) => sum + value, 0) || 1;
    const chart = new Canvas((context, width, height) => drawStepBars(context, width, height, { steps: run.steps, mode: "time", clip: true, small: true }), { "aria-label": "Time of each step" });
    charts.push(chart);
    boxes.push(el("div", { class: "card box" }, el("h2", {}, "Where the time of steps goes", el("a", { href: "#steps" }, "Steps")), partsBar(parts, whole), partsLegend(parts, (value) => percent(value / whole)), chart.element));
  }
  boxes.push(el("div", { class: "card box" }, el("h2", {}, "Ops with most device time", el("a", { href: "#ops" }, "All ops")), topOps(run)));
  const pairs = [
    ["program", first?.program],
    ["recorded", new Date(run.origin / 1e6).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "medium" })],
    ["devices", [...new Set(run.recordings.flatMap((recording) => recording.devices))].join(", ")],
    ["process", run.recordings.map((recording) => `${recording.pid}${run.recordings.length > 1 ? ` (rank ${recording.rank})` : ""}`).join(", ")],
    ["thalweg", first?.version],
    ["recording", run.recordings.map((recording) => recording.path).join(", ")],
  ];
  const about = el("div", { class: "card box runs" }, el("h2", {}, "The run"), el("dl", {}, pairs.filter(([, value]) => value).map(([name, value]) => [el("dt", {}, name), el("dd", { class: name === "recording" ? "mono" : "" }, value)])));
  const failures = run.recordings.flatMap((recording) => recording.instants.filter((instant) => instant.failure));
  const notes = [...run.notes, ...failures.slice(0, 5).map((failure) => `after ${time(failure.time)}: ${failure.text}`)];
  clear(
    root,
    heading(run.name, null),
    notes.length ? el("ul", { class: "notes" }, notes.map((note) => el("li", {}, note))) : null,
    el("div", { class: "cards" }, cards),
    boxes.length > 1 ? el("div", { class: "two" }, boxes) : boxes,
    about,
  );
  return { repaint: () => charts.forEach((chart) => chart.paint()), close: () => charts.forEach((chart) => chart.close()) };
}

function topOps(run) {
  const rows = run.ops.filter((row) => row.device.self_ns > 0).slice(0, 9);
  if (!rows.length) return el("p", { class: "hint" }, "No kernel was recorded. A profile records them unless it is told not to; a device that cannot time them says so above.");
  const most = rows[0].device.self_ns;
  const line = (row) => [
    el("span", { class: "name", title: `${opName(row)}  ${row.line}` }, el("bdi", {}, opName(row))),
    el("div", { class: "track" }, el("span", { style: { width: `${(row.device.self_ns / most) * 100}%`, background: `var(--${opPhase(row)})` } })),
    el("span", { class: "value" }, `${row.estimated ? "~" : ""}${time(row.device.self_ns)}`),
    el("span", { class: "share" }, percent(row.share)),
  ];
  return el("div", { class: "bars" }, rows.map(line));
}

// The part of a step that an op belongs to, by its scope.
function opPhase(row) {
  const first = row.scope.split("/", 1)[0];
  return { "": "other", Gradients: "backward", Update: "update" }[first] ?? "forward";
}

panels.push({ id: "overview", title: "Overview", make: overview });
