// The table of kernels: one row for a kernel with the same shape and the same ops.

function kernelColumns(run) {
  const all = run.device_time || 1;
  const most = run.kernels.reduce((most, row) => Math.max(most, row.times.total_ns), 0) || 1;
  const fused = (row) => row.ops.map((op) => op.name).join(", ");
  const which = (row) => (row.ops.length > 1 ? [el("span", { class: "chip" }, `${row.ops.length} ops`), " "] : []);
  return [
    { id: "name", title: "Kernel", left: true, width: 176, value: (row) => row.name, text: (row) => row.name, cell: (row) => el("span", { class: "name" }, swatch(`var(--${row.phase})`), row.name) },
    { id: "ops", title: "Ops in it", left: true, value: fused, text: fused, cell: (row) => [...which(row), el("span", { class: "name" }, fused(row))] },
    { id: "shape", title: "Shape", left: true, width: 150, value: (row) => row.shape, text: (row) => row.shape, cell: (row) => el("span", { class: "where" }, row.shape) },
    { id: "calls", title: "Calls", width: 72, value: (row) => row.calls, text: (row) => count(row.calls) },
    { id: "total", title: "Total", width: 84, value: (row) => row.times.total_ns, text: (row) => time(row.times.total_ns) },
    { id: "share", title: "Share", width: 84, value: (row) => row.times.total_ns, text: (row) => percent(row.times.total_ns / all), bar: (row) => row.times.total_ns / most },
    { id: "mean", title: "Mean", width: 82, value: (row) => row.times.mean_ns, text: (row) => time(row.times.mean_ns) },
    { id: "p99", title: "p99", width: 82, value: (row) => row.times.p99_ns, text: (row) => time(row.times.p99_ns) },
    { id: "flops", title: "FLOP/s", width: 82, value: (row) => row.flops_per_s, text: (row) => rate(row.flops_per_s, "") },
    { id: "bytes", title: "Bytes/s", width: 82, value: (row) => row.bytes_per_s, text: (row) => rate(row.bytes_per_s, "B") },
  ];
}

function kernelDetail(app, row) {
  const look = () => app.go("timeline", { search: row.name });
  return [
    el("div", { class: "title" }, el("span", { class: "name" }, swatch(`var(--${row.phase})`), row.name), el("span", { class: "chip" }, row.kind), row.bracketed ? el("span", { class: "chip" }, "times bracketed by events") : null),
    facts([["shapes", row.shape], ["calls", count(row.calls)]]),
    timesFacts("Device time of a call", row.times),
    row.ops.length > 1 ? el("h3", {}, `${row.ops.length} ops run in it; shares are estimated`) : null,
    opList(row.ops),
    el("div", { class: "links" }, el("button", { type: "button", class: "action", onclick: look }, "Find in the timeline")),
  ];
}

function kernelsPanel(app, root) {
  const { run } = app;
  if (!run.kernels.length) {
    clear(root, heading("Kernels"), empty("No kernel was recorded", "A profile records kernels unless it is told not to. A device that cannot time its kernels says so in the overview."));
    return {};
  }
  const words = (row) => `${row.name} ${row.shape} ${row.ops.map((op) => `${op.name} ${op.line}`).join(" ")}`;
  const table = new Table({ name: "kernels", note: "kernel", columns: kernelColumns(run), rows: run.kernels, sort: "total", words, pick: (row) => kernelDetail(app, row) });
  clear(root, heading("Kernels", "A row is a kernel, copy or fill with the same shape and the same ops."), table.element);
  return { close: () => table.close() };
}

panels.push({ id: "kernels", title: "Kernels", make: kernelsPanel });
