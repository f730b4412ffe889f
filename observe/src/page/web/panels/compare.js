// Two runs side by side: where the second is slower or faster than the first.

// Device time of each op by its name and scope: lines of code move between two versions of a program.
function timesByOp(run, per) {
  const all = new Map();
  for (const row of run.ops) {
    const key = opName(row);
    const op = all.get(key) ?? { time: 0, calls: 0, line: row.line, name: row.name, scope: row.scope };
    op.time += row.device.self_ns / per;
    op.calls += row.calls / per;
    all.set(key, op);
  }
  return all;
}

function compared(a, b) {
  const steps = a.step_count > 0 && b.step_count > 0;
  const ranks = (run) => Math.max(1, run.recordings.length);
  const per = (run) => (steps ? run.step_count / ranks(run) : 1);
  const [first, second] = [timesByOp(a, per(a)), timesByOp(b, per(b))];
  const rows = [];
  for (const key of new Set([...first.keys(), ...second.keys()])) {
    const [one, two] = [first.get(key), second.get(key)];
    const known = two ?? one;
    const [before, after] = [one?.time ?? 0, two?.time ?? 0];
    if (before || after) rows.push({ name: known.name, scope: known.scope, line: known.line, a: before, b: after, by: after - before, times: before > 0 ? after / before : null, callsA: one?.calls ?? 0, callsB: two?.calls ?? 0 });
  }
  rows.sort((x, y) => Math.abs(y.by) - Math.abs(x.by));
  const sum = (run) => run.ops.reduce((sum, row) => sum + row.device.self_ns, 0) / per(run);
  return { rows, steps, a: sum(a), b: sum(b) };
}

function verdict(a, b, { rows, steps, a: before, b: after }) {
  const what = steps ? "device time of a step" : "device time of the run";
  const factor = after / (before || 1);
  const rest = Math.abs(factor - 1) < 0.01 ? "the same within 1 %" : factor > 1 ? `${digits(factor)} times as long` : `${digits(1 / factor)} times as short`;
  const [slower] = rows.filter((row) => row.by > 0).sort((x, y) => y.by - x.by);
  const [faster] = rows.filter((row) => row.by < 0).sort((x, y) => x.by - y.by);
  const said = (row) => [el("b", { class: "name" }, opName(row)), ` (${row.by > 0 ? "+" : "−"}${time(Math.abs(row.by))}${row.times ? `, × ${digits(row.times)}` : ""})`];
  return el(
    "div",
    { class: "card verdict" },
    `The ${what} is `, el("b", {}, rest), ` in ${b.name} as in ${a.name}: ${time(before)} and ${time(after)}. `,
    slower && slower.by > before * 0.001 ? ["What got slower most is ", said(slower), ". "] : null,
    faster && -faster.by > before * 0.001 ? ["What got faster most is ", said(faster), "."] : null,
  );
}

function deltaBar(row, most) {
  const width = (Math.abs(row.by) / most) * 50;
  const style = row.by > 0 ? { left: "50%", width: `${width}%`, background: "var(--backward)" } : { right: "50%", width: `${width}%`, background: "var(--forward)" };
  return el("span", { class: "delta" }, el("span", { style }));
}

function comparePanel(app, root) {
  const kept = (app.kept.compare ??= { a: 0, b: 1 });
  const draw = () => {
    const [a, b] = [app.runs[kept.a], app.runs[kept.b]];
    const tools = [side("a"), " with ", side("b")];
    if (a.error || b.error || a === b) {
      clear(root, heading("Compare", null, tools), empty(a === b ? "Choose two runs that are not the same" : "One of the runs cannot be read", a.error || b.error || ""));
      return;
    }
    const result = compared(a, b);
    const most = result.rows.reduce((most, row) => Math.max(most, Math.abs(row.by)), 0) || 1;
    const unit = result.steps ? "a step" : "";
    const columns = [
      { id: "name", title: "Op", left: true, value: opName, text: opName, cell: nameCell },
      { id: "where", title: "Where", left: true, width: 170, value: (row) => row.line, text: (row) => row.line, cell: (row) => el("span", { class: "where" }, shortLine(row.line)) },
      { id: "a", title: "A", unit, width: 104, value: (row) => row.a, text: (row) => (row.a ? time(row.a) : "–") },
      { id: "b", title: "B", unit, width: 104, value: (row) => row.b, text: (row) => (row.b ? time(row.b) : "–") },
      { id: "by", title: "B − A", width: 104, value: (row) => Math.abs(row.by), text: (row) => (row.by ? `${row.by > 0 ? "+" : "−"}${time(Math.abs(row.by))}` : "0") },
      { id: "delta", title: "Faster | slower", width: 170, value: (row) => row.by, text: () => "", cell: (row) => deltaBar(row, most) },
      { id: "times", title: "B ∕ A", width: 92, value: (row) => row.times, text: (row) => (row.times ? `× ${digits(row.times, row.times < 0.1 ? 2 : 3)}` : row.a ? "gone" : "new") },
    ];
    draw.table?.close();
    const table = (draw.table = new Table({ name: "compared ops", note: "op", columns, rows: result.rows, sort: "by", words: (row) => `${opName(row)} ${row.line}` }));
    clear(root, heading("Compare", "Ops of the same name and scope, by how much their device time differs.", tools), verdict(a, b, result), result.steps ? sides(a, b) : null, table.element);
  };
  const side = (which) => {
    const options = app.runs.map((run, at) => el("option", { value: String(at), selected: at === kept[which] }, run.name));
    const choose = (event) => {
      kept[which] = Number(event.target.value);
      draw();
    };
    return el("label", { class: "picker" }, `${which.toUpperCase()} `, el("select", { "aria-label": `Run ${which.toUpperCase()}`, onchange: choose }, options));
  };
  draw();
  return { close: () => draw.table?.close(), update: draw };
}

// The mean step of both, to one scale.
function sides(a, b) {
  const mean = (run) => sumParts(run.steps).map(([part, value]) => [part, value / run.step_count]);
  const whole = (parts) => parts.reduce((sum, [, value]) => sum + value, 0);
  const most = Math.max(whole(mean(a)), whole(mean(b))) || 1;
  const line = (run, letter) => {
    const parts = mean(run);
    return el("div", { class: "side" }, el("span", { class: "name", title: run.name }, `${letter}  ${run.name}`), partsBar(parts, most), el("span", { class: "value" }, time(whole(parts))));
  };
  return el("div", { class: "card sides" }, line(a, "A"), line(b, "B"));
}

panels.push({ id: "compare", title: "Compare", available: (app) => app.runs.length > 1, make: comparePanel });
