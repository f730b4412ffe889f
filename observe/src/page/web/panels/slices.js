// What is said of a slice, and the slices that belong to it.

function sliceTip(run, slice) {
  const label = run.labels[slice.label];
  const rows = [["takes", time(slice.end - slice.start, 4)], ["begins", time(slice.start, 5)]];
  if (label.shape && label.kind !== "run") rows.push(["shape", label.shape]);
  const ops = (label.ops ?? []).slice(0, 4).map((op) => [op.name, op.percent < 100 ? `~${op.percent}${THIN}%` : ""]);
  const more = (label.ops?.length ?? 0) - ops.length;
  if (more > 0) ops.push([`and ${more} more`, ""]);
  return tipRows(sliceName(label, slice.run), [...rows, ...ops]);
}

// The kernels of a run, or the run of a kernel: what an arrow leads to.
function partners(timeline, { row, slice }) {
  if (timeline.partnersOf === slice) return timeline.partnersFound;
  const label = timeline.run.labels[slice.label];
  const found = [];
  if (slice.run !== 0 && (label.kind === "run" || row.device)) {
    for (const other of timeline.rows.filter((other) => other.kind === "slices" && other.device !== row.device)) {
      for (const partner of other.lane.ofRun(slice.run)) {
        const kind = timeline.run.labels[partner.label].kind;
        // A kernel that began before its run is of another run with the same number, or of another clock.
        if (row.device ? kind === "run" && partner.start <= slice.start : partner.start >= slice.start) found.push({ row: other, slice: partner });
        if (found.length >= ARROWS) break;
      }
    }
  }
  [timeline.partnersOf, timeline.partnersFound] = [slice, found];
  return found;
}

function opList(ops) {
  if (!ops?.length) return null;
  const share = ({ percent }) => (percent === 0 ? `<1${THIN}%` : percent < 100 ? `~${percent}${THIN}%` : "");
  const row = (op) => [el("span", { class: "share" }, share(op)), el("span", { class: "name" }, op.name), el("span", { class: "where", title: op.line }, shortLine(op.line, 60))];
  return el("div", { class: "opslist" }, [...ops].sort((a, b) => b.percent - a.percent).map(row));
}

// The number of the step in which a moment lies.
function stepAt({ steps }, time) {
  const at = steps.start.findIndex((start, at) => time >= start && time < start + steps.time[at]);
  return at < 0 ? null : steps.step[at];
}

function sliceDetail(timeline, selected) {
  const { run } = timeline;
  const { row, slice } = selected;
  const label = run.labels[slice.label];
  const took = slice.end - slice.start;
  const found = partners(timeline, selected);
  const perSecond = (what) => (label[what] && took ? (label[what] * 1e9) / took : null);
  const sum = found.reduce((sum, other) => sum + other.slice.end - other.slice.start, 0);
  // Steps are cut where the devices are, which the host is ahead of.
  const step = row.device ? stepAt(run, slice.start) : null;
  const pairs = [
    ["takes", time(took, 4)],
    ["begins", time(slice.start, 6)],
    ["step", step !== null && el("a", { href: "#steps" }, String(step))],
    [label.kind === "run" ? "stream" : "shapes", label.shape],
    ["function", label.program],
    ["speed, estimated", perSecond("flops") && rate(perSecond("flops"), "FLOP/s")],
    ["memory, estimated", perSecond("bytes") && rate(perSecond("bytes"), "B/s")],
    ["times", label.bracketed && "bracketed by events around it"],
    [row.device ? "given by" : "gives", found.length ? (row.device ? `run of ${time(sum)}` : `${plural(found.length, "kernel")} with ${time(sum)}${found.length >= ARROWS ? ", and more" : ""}`) : null],
  ];
  const go = (text, act) => el("button", { type: "button", class: "action", onclick: act }, text);
  const links = [go("Zoom to it (F)", () => timeline.zoomTo(slice))];
  if (found.length) links.push(go(row.device ? "To its run" : "To its first kernel", () => timeline.reveal(found[0].row, found[0].slice)));
  return [
    el("div", { class: "title" }, el("span", { class: "name" }, swatch(ink.of(label.phase)), sliceName(label, slice.run)), el("span", { class: "chip" }, label.kind), el("span", { class: "where" }, row.name)),
    facts(pairs),
    label.ops?.length > 1 ? el("p", { class: "hint" }, `${label.ops.length} ops run in this kernel; their shares are estimated:`) : null,
    opList(label.ops),
    el("div", { class: "links" }, links),
  ];
}

// A stretch of time: how long it is, and how busy the devices are in it.
function measuredDetail(run, [from, to]) {
  const busy = run.tracks.filter((track) => track.kind === "device").map((track) => {
    let [sum, slices] = [0, 0];
    const { lane } = track;
    for (let at = lane.seek(from); at < lane.blocks && lane.starts[at] < to; at++) {
      if (lane.starts[at] >= from && lane.ends[at] <= to) {
        sum += lane.busy[at];
        slices += Math.min(BLOCK, lane.count - at * BLOCK);
        continue;
      }
      const { count, starts, ends } = lane.block(at);
      for (let nth = 0; nth < count; nth++) {
        const part = Math.min(ends[nth], to) - Math.max(starts[nth], from);
        if (part > 0) [sum, slices] = [sum + part, slices + 1];
      }
    }
    return [`${track.group}, ${track.name}${track.depth ? `, lane ${track.depth}` : ""}`, `${percent(sum / (to - from))} busy, ${plural(slices, "slice")}`];
  });
  return [el("div", { class: "title" }, `${time(to - from, 4)} from ${time(from, 5)}`), facts(busy)];
}
