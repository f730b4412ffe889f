// The table of ops: each op at one place of the user's code.

function opColumns(run) {
  const most = run.ops.reduce((most, row) => Math.max(most, row.share), 0) || 1;
  const device = (name) => (row) => row.device[name] || null;
  const shown = (row, value) => (value ? `${row.estimated ? "~" : ""}${time(value)}` : "–");
  return [
    { id: "name", title: "Op", left: true, value: opName, text: opName, cell: nameCell },
    { id: "where", title: "Where", left: true, width: 158, value: (row) => row.line, text: (row) => row.line, cell: (row) => el("span", { class: "where" }, shortLine(row.line)) },
    { id: "calls", title: "Calls", width: 72, value: (row) => row.calls, text: (row) => count(row.calls) },
    { id: "device", title: "Device", width: 92, value: device("self_ns"), text: (row) => shown(row, row.device.self_ns), hint: "Time on devices. ~ marks shares of fused kernels, which are estimated." },
    { id: "share", title: "Share", width: 84, value: (row) => row.share, text: (row) => (row.share ? percent(row.share) : "–"), bar: (row) => row.share / most },
    { id: "mean", title: "Mean", width: 84, value: device("mean_ns"), text: (row) => shown(row, row.device.mean_ns), hint: "Device time of a call" },
    { id: "p99", title: "p99", width: 84, value: device("p99_ns"), text: (row) => shown(row, row.device.p99_ns), hint: "99 % of the calls took at most this" },
    { id: "host", title: "Host", width: 84, value: (row) => row.host.self_ns || null, text: (row) => (row.host.self_ns ? time(row.host.self_ns) : "–"), hint: "Time on the host that no op inside it took" },
    { id: "flops", title: "FLOP/s", width: 78, value: (row) => row.flops_per_s, text: (row) => rate(row.flops_per_s, ""), hint: "Estimated operations a second" },
    { id: "bytes", title: "Bytes/s", width: 84, value: (row) => row.bytes_per_s, text: (row) => rate(row.bytes_per_s, "B"), hint: "Estimated bytes read and written a second" },
  ];
}

function timesFacts(title, times) {
  if (!times.total_ns) return null;
  const names = { self_ns: "self", total_ns: "total", mean_ns: "mean", min_ns: "shortest", p50_ns: "p50", p99_ns: "p99", max_ns: "longest" };
  return [el("h3", {}, title), facts(Object.entries(names).map(([id, name]) => [name, time(times[id])]))];
}

function opDetail(app, row) {
  const look = () => app.go("timeline", { search: opName(row) });
  return [
    el("div", { class: "title" }, el("span", { class: "name" }, swatch(`var(--${opPhase(row)})`), opName(row)), el("span", { class: "where" }, row.line)),
    facts([["shapes", row.shapes], ["calls", count(row.calls)]]),
    timesFacts(row.estimated ? "On devices, estimated from fused kernels" : "On devices", row.device),
    timesFacts("On the host", row.host),
    el("div", { class: "links" }, el("button", { type: "button", class: "action", onclick: look }, "Find in the timeline")),
  ];
}

function opsPanel(app, root) {
  const { run } = app;
  if (!run.ops.length) {
    clear(root, heading("Ops"), empty("No op was recorded", "A profile records ops unless it is told not to: `task_trace` and `op_trace` of its options."));
    return {};
  }
  const table = new Table({ name: "ops", note: "op", columns: opColumns(run), rows: run.ops, sort: "device", words: (row) => `${opName(row)} ${row.line} ${row.shapes}`, pick: (row) => opDetail(app, row) });
  clear(root, heading("Ops", "A row is an op at one place of your code. ~ marks times that fused ops share by estimated cost."), table.element);
  return { close: () => table.close() };
}

panels.push({ id: "ops", title: "Ops", make: opsPanel });
