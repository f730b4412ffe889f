// Memory: how much was in use when, and whose it was at a chosen moment.

const OWNERS = 7;

// Bytes of each owner behind the event at `until`.
function ownersAt(memory, until) {
  const sums = new Float64Array(memory.owners.length);
  const { owners, changes } = memory.film;
  for (let at = 0; at <= until && at < owners.length; at++) sums[owners[at]] = Math.max(0, sums[owners[at]] + changes[at]);
  return sums;
}

// The largest owners of a run, and for each column what they had when most was in use in it.
function film(memory, from, to, columns) {
  const { times, owners, changes, inUse, reserved } = memory.film;
  const peak = new Float64Array(memory.owners.length);
  const sums = new Float64Array(memory.owners.length);
  for (let at = 0; at < times.length; at++) {
    const owner = owners[at];
    sums[owner] = Math.max(0, sums[owner] + changes[at]);
    if (sums[owner] > peak[owner]) peak[owner] = sums[owner];
  }
  const large = [...peak.keys()].filter((owner) => peak[owner] > 0).sort((a, b) => peak[b] - peak[a]).slice(0, OWNERS);
  const slot = new Int32Array(memory.owners.length).fill(large.length);
  large.forEach((owner, at) => (slot[owner] = at));
  sums.fill(0);
  const current = new Float64Array(large.length + 1);
  const shown = [];
  let [at, used, held] = [0, 0, 0];
  for (let column = 0; column < columns; column++) {
    const until = from + ((column + 1) / columns) * (to - from);
    let [most, best] = [used, null];
    for (; at < times.length && times[at] <= until; at++) {
      const owner = owners[at];
      const before = sums[owner];
      sums[owner] = Math.max(0, before + changes[at]);
      current[slot[owner]] += sums[owner] - before;
      [used, held] = [inUse[at], reserved[at]];
      if (used >= most || !best) [most, best] = [used, Float64Array.from(current)];
    }
    shown.push({ values: best ?? Float64Array.from(current), used: most, held });
  }
  return { large, shown, slot };
}

function memoryPanel(app, root) {
  const { run } = app;
  if (!run.memory.length) {
    clear(root, heading("Memory"), empty("Memory was not recorded", "It is recorded when a profile is asked for it:", command('observe::Profile::to("out").memory(true).start(&cx)?')));
    return {};
  }
  const kept = (app.kept.memory ??= { device: 0 });
  let [memory, drawn, peak, slots] = [null, null, null, null];
  const box = (width, height) => ({ left: 72, right: width - 12, top: 26, bottom: height - 40 });
  const end = () => Math.max(1, run.end);
  const timeAt = (x) => ((x - drawn.left) / (drawn.right - drawn.left)) * end();
  const eventAt = (moment) => Math.max(0, Math.min(memory.film.times.length - 1, seekTime(memory.film.times, moment + 0.5) - 1));

  const chart = new Canvas((context, width, height) => {
    drawn = box(width, height);
    const columns = Math.max(1, Math.floor(drawn.right - drawn.left));
    const key = `${columns} ${kept.device} ${end()}`;
    if (chart.key !== key) [chart.key, chart.film] = [key, film(memory, 0, end(), columns)];
    const { large, shown } = chart.film;
    const held = kept.reserved ? shown.reduce((most, column) => Math.max(most, column.held), 0) : 0;
    const top = Math.max(peak.most, held) * 1.06 || 1;
    const y = (value) => drawn.bottom - (value / top) * (drawn.bottom - drawn.top);
    const [, unit] = scaled(top, ["B", "kB", "MB", "GB", "TB"], 1000);
    const factor = 1000 ** ["B", "kB", "MB", "GB", "TB"].indexOf(unit);
    const marks = ticks(0, top / factor, 8);
    axisY(context, drawn, marks.values.map((value) => [value, y(value * factor)]), (value) => String(Number(value.toPrecision(6))));
    shown.forEach((column, at) => {
      let sum = 0;
      column.values.forEach((value, owner) => {
        if (value <= 0) return;
        context.fillStyle = owner < large.length ? ink.series(owner) : ink.of("other");
        context.fillRect(drawn.left + at, y(sum + value), 1.02, y(sum) - y(sum + value));
        sum += value;
      });
    });
    if (kept.reserved) {
      context.strokeStyle = ink.of("soft");
      context.setLineDash([4, 3]);
      context.beginPath();
      shown.forEach((column, at) => context.lineTo(drawn.left + at, y(column.held)));
      context.stroke();
      context.setLineDash([]);
    }
    const scale = timeTicks(0, end(), (drawn.right - drawn.left) / 110);
    const x = (time) => drawn.left + (time / end()) * (drawn.right - drawn.left);
    axisX(context, drawn, scale.values.map((value) => [value, x(value)]), scale.format);
    axisTitle(context, `in use, ${unit}`, 14, 12);
    axisTitle(context, `time, ${scale.unit}`, (drawn.left + drawn.right) / 2, height - 9, "center");
    const line = Math.round(x(memory.film.times[kept.event])) + 0.5;
    context.strokeStyle = ink.of("selected");
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(line, drawn.top - 6);
    context.lineTo(line, drawn.bottom);
    context.stroke();
    context.beginPath();
    context.arc(line, y(memory.film.inUse[kept.event]), 3.5, 0, 7);
    context.fillStyle = ink.of("surface");
    context.fill();
    context.stroke();
  }, {
    "aria-label": "Memory in use. Arrows move the moment.",
    onpointerdown: (event) => {
      chart.element.setPointerCapture(event.pointerId);
      choose(eventAt(timeAt(chart.at(event)[0])));
    },
    onpointermove: (event) => {
      if (event.buttons) return choose(eventAt(timeAt(chart.at(event)[0])));
      const [x] = chart.at(event);
      if (!drawn || x < drawn.left || x > drawn.right) return tip.hide();
      const at = eventAt(timeAt(x));
      tip.show(event.clientX, event.clientY, ...tipRows(time(memory.film.times[at], 4), [["in use", bytes(memory.film.inUse[at])], ["reserved", bytes(memory.film.reserved[at])]]));
    },
    onpointerleave: () => tip.hide(),
  });

  const moment = el("div", { class: "card box" });
  const legend = el("div", { class: "legend" });
  const ownerName = (owner) => memory.owners[owner].name;
  const choose = (at) => {
    kept.event = at;
    const sums = ownersAt(memory, at);
    const all = memory.film.inUse[at] || 1;
    const rows = [...sums.keys()].filter((owner) => sums[owner] > 0).sort((a, b) => sums[b] - sums[a]).slice(0, 30);
    const color = (owner) => (slots.slot[owner] < slots.large.length ? `var(--${SERIES[slots.slot[owner]]})` : "var(--other)");
    const line = (owner) => [
      swatch(color(owner)),
      el("span", { class: "name", title: ownerName(owner) }, ownerName(owner)),
      el("span", { class: "where", title: memory.owners[owner].line }, shortLine(memory.owners[owner].line)),
      el("span", { class: "value" }, bytes(sums[owner])),
      el("span", { class: "share" }, percent(sums[owner] / all)),
    ];
    const toPeak = el("button", { type: "button", class: "action", onclick: () => choose(peak.at) }, "Go to the peak");
    clear(
      moment,
      el("h2", {}, `${bytes(memory.film.inUse[at])} in use after ${time(memory.film.times[at], 4)}${at === peak.at ? ", the peak" : ""}`, at === peak.at ? null : toPeak),
      rows.length ? el("div", { class: "owners" }, rows.map(line)) : el("p", { class: "hint" }, "Nothing that was taken while it was recorded is in use."),
    );
    chart.paint();
  };
  const device = (at) => {
    kept.device = at;
    memory = run.memory[at];
    peak = peakOf(memory);
    slots = film(memory, 0, end(), 1);
    kept.event = Math.min(kept.event ?? peak.at, memory.film.times.length - 1);
    chart.key = null;
    chart.paint();
    choose(kept.event);
    const { large } = slots;
    clear(legend, large.map((owner, at) => el("span", {}, swatch(`var(--${SERIES[at]})`), ownerName(owner))), memory.owners.length > large.length ? el("span", {}, swatch("var(--other)"), "others") : null);
  };
  const names = run.memory.map((memory, at) => [at, `${memory.device}${run.recordings.length > 1 ? `, rank ${memory.rank}` : ""}`]);
  const reserve = choice("Reserved memory", [[false, "In use"], [true, "And reserved"]], Boolean(kept.reserved), (value) => {
    kept.reserved = value;
    chart.paint();
  });
  const pickDevice = (at) => {
    kept.event = null;
    device(at);
  };
  clear(
    root,
    heading("Memory", "Click a moment to see whose memory it is. What was taken before the recording began is not known.", names.length > 1 ? choice("Device", names, kept.device, pickDevice) : null, reserve),
    el("div", { class: "card drawn" }, legend, chart.element),
    moment,
  );
  device(Math.min(kept.device, run.memory.length - 1));
  return {
    repaint: () => chart.paint(),
    close: () => chart.close(),
    key: (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by) return false;
      choose(Math.max(0, Math.min(memory.film.times.length - 1, kept.event + by * (event.shiftKey ? 20 : 1))));
      return true;
    },
  };
}

panels.push({ id: "memory", title: "Memory", make: memoryPanel });
