// Where the time of each step goes: bars of data, forward, backward, update and idle.

const MARGIN = { left: 62, right: 12, top: 12, bottom: 40 };

// Steps as columns of pixels: where there are more steps than columns, each column is the mean of some, with their longest as a line.
// `first` and `last` are places among the steps.
function stepColumns(steps, room) {
  const each = Math.max(1, Math.ceil(steps.length / Math.max(1, room / 3)));
  const columns = [];
  for (let first = 0; first < steps.length; first += each) {
    const until = Math.min(steps.length, first + each);
    const mean = (name) => total(steps[name].subarray(first, until)) / (until - first);
    const longest = steps.time.subarray(first, until).reduce((a, b) => Math.max(a, b), 0);
    const column = { first, last: until - 1, number: until - first, time: mean("time"), longest };
    for (const part of PARTS) column[part] = mean(part);
    columns.push(column);
  }
  return columns;
}

// Draws them, and returns where each lies.
function drawStepBars(context, width, height, { steps, mode, clip, small, picked = null }) {
  const box = { left: small ? 46 : MARGIN.left, right: width - MARGIN.right, top: small ? 6 : MARGIN.top + 14, bottom: height - (small ? 24 : MARGIN.bottom) };
  const columns = stepColumns(steps, box.right - box.left);
  const most = mode === "share" ? 1 : columns.reduce((most, column) => Math.max(most, column.longest), 0) || 1;
  const usual = [...columns].sort((a, b) => a.time - b.time)[Math.floor((columns.length - 1) * 0.98)]?.time ?? most;
  const cut = mode !== "share" && clip && most > 2.5 * usual;
  const top = mode === "share" ? 1 : (cut ? usual * 1.35 : most * 1.04);
  const y = (value) => box.bottom - (value / top) * (box.bottom - box.top);
  const axis = mode === "share" ? { ...ticks(0, 1, 4), format: (value) => `${Math.round(value * 100)}${THIN}%` } : timeTicks(0, top, small ? 3 : 6);
  axisY(context, box, axis.values.map((value) => [value, y(value)]), axis.format);
  const pitch = (box.right - box.left) / Math.max(1, columns.length);
  const gap = pitch > 6 ? Math.min(3, pitch * 0.18) : pitch > 3 ? 0.6 : 0;
  const bar = Math.min(46, pitch - gap);
  columns.forEach((column, at) => {
    const x = box.left + at * pitch + (pitch - bar) / 2;
    let sum = 0;
    for (const part of PARTS) {
      const value = mode === "share" ? column[part] / (column.time || 1) : column[part];
      if (!value) continue;
      const [from, to] = [y(sum), Math.max(box.top, y(sum + value))];
      sum += value;
      if (from <= box.top) break;
      context.fillStyle = ink.of(part);
      context.fillRect(x, to, bar, from - to);
    }
    if (mode !== "share" && column.time > top) {
      context.fillStyle = ink.of("surface");
      context.fillRect(x - 1, box.top + 7, bar + 2, 3);
    } else if (mode !== "share" && column.longest > column.time * 1.02) {
      context.fillStyle = mix(ink.of("faint"), ink.of("surface"), 0.45);
      context.fillRect(x + bar / 2 - 0.5, Math.max(box.top, y(column.longest)), 1, y(column.time) - Math.max(box.top, y(column.longest)));
    }
    if (picked !== null && picked >= column.first && picked <= column.last) {
      context.strokeStyle = ink.of("selected");
      context.lineWidth = 2;
      context.strokeRect(x - 1, box.top, bar + 2, box.bottom - box.top);
    }
  });
  const numberOf = (at) => steps.step[at] ?? 1;
  const [first, last] = [numberOf(0), numberOf(steps.length - 1)];
  const numbers = columns.length < 2 ? [first] : ticks(first, last, Math.max(2, (box.right - box.left) / 90)).values;
  const columnOf = (step) => columns.findIndex((column) => numberOf(column.first) <= step && step <= numberOf(column.last));
  const labels = numbers.map((step) => [step, columnOf(step)]).filter(([, at]) => at >= 0).map(([step, at]) => [step, box.left + (at + 0.5) * pitch]);
  axisX(context, box, labels, (value) => String(value));
  axisTitle(context, mode === "share" ? "share of a step" : small ? axis.unit : `time of a step, ${axis.unit}`, small ? 4 : 14, small ? box.top + 2 : 12);
  if (!small) axisTitle(context, "step", (box.left + box.right) / 2, height - 9, "center");
  return { box, columns, pitch, cut };
}

function stepsPanel(app, root) {
  const { run } = app;
  const kept = (app.kept.steps ??= { mode: "time", clip: true, step: null });
  if (!run.step_count) {
    clear(root, heading("Steps"), empty("No step was recorded", "`Model::train` marks steps by itself. A loop of your own marks them so:", command('let _step = observe::range("step");')));
    return {};
  }
  const ranks = [...new Set(run.steps.rank)];
  kept.rank ??= ranks[0];
  const shownSteps = () => (ranks.length > 1 ? run.steps.ofRank(kept.rank) : run.steps);
  let steps = shownSteps();
  let drawn = null;
  const chart = new Canvas((context, width, height) => (drawn = drawStepBars(context, width, height, { steps, ...kept, picked: kept.step })), {
    "aria-label": "Time of each step, in parts",
    onpointermove: (event) => hover(event),
    onpointerleave: () => tip.hide(),
    onclick: (event) => pick(event),
  });
  const columnAt = (event) => {
    const [x] = chart.at(event);
    return drawn?.columns[Math.floor((x - drawn.box.left) / drawn.pitch)];
  };
  const hover = (event) => {
    const column = columnAt(event);
    if (!column) return tip.hide();
    const many = column.number > 1;
    const [first, last] = [column.first, column.last].map((at) => steps.step[at]);
    const title = many ? `steps ${first} to ${last}, mean of ${column.number}` : `step ${first}`;
    const rows = PARTS.filter((part) => column[part] > 0).map((part) => [part, time(column[part]), ink.of(part)]);
    tip.show(event.clientX, event.clientY, ...tipRows(title, [...rows, ["all", time(column.time)], ...(many ? [["longest", time(column.longest)]] : [])]));
  };
  const pick = (event) => {
    const column = columnAt(event);
    kept.step = column?.first ?? null;
    say();
    chart.paint();
  };
  const detail = el("div", { class: "detail" });
  const legend = el("div", {});
  const say = () => {
    const parts = sumParts(steps);
    const whole = parts.reduce((sum, [, value]) => sum + value, 0) || 1;
    clear(legend, partsLegend(parts, (value) => `${time(value / steps.length)}  ${percent(value / whole, 0)}`));
    const { step: at } = kept;
    detail.hidden = at === null;
    if (at === null) return;
    const [start, took] = [steps.start[at], steps.time[at]];
    const shown = PARTS.filter((part) => steps[part][at] > 0).map((part) => [part, steps[part][at]]);
    const look = () => app.go("timeline", { goal: [start - took * 0.05, start + took * 1.05] });
    clear(
      detail,
      el("div", { class: "title" }, `Step ${steps.step[at]}`, el("span", { class: "chip" }, time(took, 4))),
      partsBar(shown, took || 1),
      facts(shown.map(([name, value]) => [name, `${time(value)}, ${percent(value / (took || 1))}`])),
      el("div", { class: "links" }, el("button", { type: "button", class: "action", onclick: look }, "Show in the timeline")),
    );
  };
  const set = (name) => (value) => {
    kept[name] = value;
    if (name === "rank") [kept.step, steps] = [null, shownSteps()];
    say();
    chart.paint();
  };
  const tools = [
    ranks.length > 1 ? choice("Rank", ranks.map((rank) => [rank, `rank ${rank}`]), kept.rank, set("rank")) : null,
    choice("Scale", [["time", "Time"], ["share", "Share"]], kept.mode, set("mode")),
    choice("Long steps", [[true, "Cut long steps"], [false, "All heights"]], kept.clip, set("clip")),
  ];
  clear(root, heading("Steps", "Each instant of a step counts once. Data counts where the devices have nothing to do.", tools), el("div", { class: "card drawn" }, legend, chart.element), detail);
  say();
  return {
    repaint: () => chart.paint(),
    close: () => chart.close(),
    key: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return false;
      kept.step = Math.max(0, Math.min(steps.length - 1, (kept.step ?? (by > 0 ? -1 : steps.length)) + by));
      say();
      chart.paint();
      return true;
    },
  };
}

panels.push({ id: "steps", title: "Steps", make: stepsPanel });
