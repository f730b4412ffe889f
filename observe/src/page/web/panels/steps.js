// Where the time of each step goes: bars of data, forward, backward, update and idle.

const MARGIN = { left: 62, right: 12, top: 12, bottom: 40 };

// Steps as columns of pixels: where there are more steps than columns, each column is the mean of some, with their longest as a line.
function stepColumns(steps, room) {
  const each = Math.max(1, Math.ceil(steps.length / Math.max(1, room / 3)));
  const columns = [];
  for (let at = 0; at < steps.length; at += each) {
    const some = steps.slice(at, at + each);
    const column = { first: some[0], last: some.at(-1), number: some.length, time: 0, longest: 0 };
    for (const part of PARTS) column[part] = 0;
    for (const step of some) {
      column.time += step.time / some.length;
      column.longest = Math.max(column.longest, step.time);
      for (const part of PARTS) column[part] += step[part] / some.length;
    }
    columns.push(column);
  }
  return columns;
}

// Draws them, and returns where each lies.
function drawStepBars(context, width, height, { steps, mode, clip, small, picked }) {
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
    if (picked && picked >= column.first && picked <= column.last) {
      context.strokeStyle = ink.of("selected");
      context.lineWidth = 2;
      context.strokeRect(x - 1, box.top, bar + 2, box.bottom - box.top);
    }
  });
  const [first, last] = [columns[0]?.first.step ?? 1, columns.at(-1)?.last.step ?? 1];
  const numbers = columns.length < 2 ? [first] : ticks(first, last, Math.max(2, (box.right - box.left) / 90)).values;
  const columnOf = (step) => columns.findIndex((column) => column.first.step <= step && step <= column.last.step);
  const labels = numbers.map((step) => [step, columnOf(step)]).filter(([, at]) => at >= 0).map(([step, at]) => [step, box.left + (at + 0.5) * pitch]);
  axisX(context, box, labels, (value) => String(value));
  axisTitle(context, mode === "share" ? "share of a step" : small ? axis.unit : `time of a step, ${axis.unit}`, small ? 4 : 14, small ? box.top + 2 : 12);
  if (!small) axisTitle(context, "step", (box.left + box.right) / 2, height - 9, "center");
  return { box, columns, pitch, cut };
}

function stepsPanel(app, root) {
  const { run } = app;
  const kept = (app.kept.steps ??= { mode: "time", clip: true });
  if (!run.step_count) {
    clear(root, heading("Steps"), empty("No step was recorded", "`Model::train` marks steps by itself. A loop of your own marks them so:", command('let _step = observe::range("step");')));
    return {};
  }
  const ranks = [...new Set(run.steps.map((step) => step.rank))];
  kept.rank ??= ranks[0];
  const steps = () => (ranks.length > 1 ? run.steps.filter((step) => step.rank === kept.rank) : run.steps);
  let drawn = null;
  const chart = new Canvas((context, width, height) => (drawn = drawStepBars(context, width, height, { steps: steps(), ...kept, picked: kept.step })), {
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
    const title = many ? `steps ${column.first.step} to ${column.last.step}, mean of ${column.number}` : `step ${column.first.step}`;
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
    const all = steps();
    const parts = sumParts(all);
    const whole = parts.reduce((sum, [, value]) => sum + value, 0) || 1;
    clear(legend, partsLegend(parts, (value) => `${time(value / all.length)}  ${percent(value / whole, 0)}`));
    const { step } = kept;
    detail.hidden = !step;
    if (!step) return;
    const shown = PARTS.filter((part) => step[part] > 0).map((part) => [part, step[part]]);
    const look = () => app.go("timeline", { goal: [step.start - step.time * 0.05, step.start + step.time * 1.05] });
    clear(
      detail,
      el("div", { class: "title" }, `Step ${step.step}`, el("span", { class: "chip" }, time(step.time, 4))),
      partsBar(shown, step.time || 1),
      facts(shown.map(([name, value]) => [name, `${time(value)}, ${percent(value / (step.time || 1))}`])),
      el("div", { class: "links" }, el("button", { type: "button", class: "action", onclick: look }, "Show in the timeline")),
    );
  };
  const set = (name) => (value) => {
    kept[name] = value;
    if (name === "rank") kept.step = null;
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
      const all = steps();
      const at = Math.max(0, Math.min(all.length - 1, (kept.step ? all.indexOf(kept.step) : by > 0 ? -1 : all.length) + by));
      kept.step = all[at];
      say();
      chart.paint();
      return true;
    },
  };
}

panels.push({ id: "steps", title: "Steps", make: stepsPanel });
