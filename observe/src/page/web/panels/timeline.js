// The timeline: what ran when, on every thread and stream.

const RULER = 26;
const STEPS = 18;
const OVERVIEW = 30;
const ARROWS = 400;

class Timeline {
  constructor(app, root) {
    this.app = app;
    this.kept = app.kept.timeline ??= {};
    this.folded = this.kept.folded ??= new Set();
    this.canvas = new Canvas((context, width, height) => this.draw(context, width, height), {
      "aria-label": "Timeline. Keys: W and S zoom, A and D move, / searches, ? lists all.",
      onpointerdown: (event) => this.press(event),
      onpointermove: (event) => this.move(event),
      onpointerup: (event) => this.release(event),
      onpointerleave: () => tip.hide(),
      ondblclick: (event) => this.zoomTo(this.hit(...this.canvas.at(event))?.slice),
    });
    this.canvas.element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.search = el("input", { type: "search", placeholder: "Search kernels and ops", "aria-label": "Search", value: this.kept.search ?? "", oninput: () => this.find() });
    this.hits = el("span", { class: "hits", "aria-live": "polite" });
    const whole = el("button", { type: "button", class: "action", title: "All of it (0)", onclick: () => this.zoom(0, this.end) }, "Whole run");
    this.detail = el("div", { class: "detail" });
    clear(root, heading("Timeline", null, this.search, this.hits, whole), el("div", { class: "stage" }, this.canvas.element), this.detail);
    this.load();
    this.find();
    if (this.kept.goal) this.zoom(...this.kept.goal);
    this.kept.goal = null;
  }

  load() {
    const { run } = this.app;
    this.run = run;
    this.end = Math.max(1, run.end);
    this.lay();
    this.colors = null;
    this.kept.from ??= 0;
    this.kept.to ??= this.end * 1.01;
    this.describe();
  }

  lay() {
    ({ rows: this.rows, height: this.whole } = timelineRows(this.run, this.folded));
    const { kept } = this;
    kept.scroll = Math.max(0, Math.min(kept.scroll ?? 0, this.whole - 60));
    const row = kept.selected && this.rows.find((row) => row.lane === kept.selected.row.lane);
    kept.selected = row ? { row, slice: kept.selected.slice } : null;
    this.partnersOf = null;
  }

  // Recordings have grown. A view of all of them stays one.
  update() {
    const { kept } = this;
    const all = kept.from <= 0 && kept.to >= this.end;
    if (all) kept.to = this.app.run.end * 1.01;
    this.load();
    this.find();
    this.canvas.later();
  }

  // The slices have come. What was found and described knew those before alone.
  complete() {
    this.partnersOf = null;
    this.find();
    this.describe();
    this.canvas.later();
  }

  repaint() {
    this.colors = null;
    this.canvas.later();
  }

  close() {
    this.canvas.close();
    this.searching = null;
  }

  get left() {
    return this.canvas.width < 620 ? 96 : GUTTER;
  }

  zoom(from, to) {
    const least = 20;
    const margin = this.end * 0.02;
    let span = Math.min(this.end + 2 * margin, Math.max(least, to - from));
    from = Math.max(-margin, Math.min(this.end + margin - span, from + (to - from - span) / 2));
    [this.kept.from, this.kept.to] = [from, from + span];
    this.canvas.later();
  }

  zoomAt(x, factor) {
    const { from, to } = this.kept;
    const time = this.timeAt(x);
    this.zoom(time - (time - from) * factor, time + (to - time) * factor);
  }

  pan(part) {
    const { from, to } = this.kept;
    const by = (to - from) * part;
    const margin = this.end * 0.02;
    const shift = Math.max(-margin - from, Math.min(this.end + margin - to, by));
    this.zoom(from + shift, to + shift);
  }

  zoomTo(slice) {
    if (!slice) return;
    const time = Math.max(100, slice.end - slice.start);
    this.zoom(slice.start - time, slice.end + time);
  }

  scroll(by) {
    const room = Math.max(0, this.whole - (this.canvas.height - this.top));
    this.kept.scroll = Math.max(0, Math.min(room, this.kept.scroll + by));
    this.canvas.later();
  }

  get top() {
    return OVERVIEW + RULER + (this.run.step_count ? STEPS : 0);
  }

  timeAt(x) {
    const { from, to } = this.kept;
    return from + ((x - this.left) / (this.canvas.width - this.left)) * (to - from);
  }

  xOf(time) {
    const { from, to } = this.kept;
    return this.left + ((time - from) / (to - from)) * (this.canvas.width - this.left);
  }

  // The row and the slice at a point.
  hit(x, y) {
    if (y < this.top) return null;
    const at = y - this.top + this.kept.scroll;
    const row = this.rows.find((row) => at >= row.y && at < row.y + row.height);
    if (!row || x < this.left || row.kind !== "slices") return row ? { row } : null;
    const near = ((this.kept.to - this.kept.from) / (this.canvas.width - this.left)) * 2;
    const time = this.timeAt(x);
    let [best, distance] = [null, near];
    const first = Math.max(0, row.lane.seek(time - near));
    for (let block = first; block < row.lane.blocks && row.lane.starts[block] <= time + near; block++) {
      const { count, starts, ends } = row.lane.block(block);
      for (let nth = 0; nth < count; nth++) {
        const away = Math.max(starts[nth] - time, time - ends[nth], 0);
        if (away < distance) [best, distance] = [row.lane.slice(block, nth), away];
        if (away === 0) return { row, slice: best };
      }
    }
    return { row, slice: best };
  }

  press(event) {
    const [x, y] = this.canvas.at(event);
    this.canvas.element.setPointerCapture(event.pointerId);
    tip.hide();
    if (y < OVERVIEW && x >= this.left) this.drag = { over: true };
    else this.drag = { x, y, from: this.kept.from, to: this.kept.to, scroll: this.kept.scroll, measure: event.shiftKey ? this.timeAt(x) : null };
    if (this.drag.over) this.jump(x);
  }

  // The view moves to where the overview is touched.
  jump(x) {
    const time = ((x - this.left) / (this.canvas.width - this.left)) * this.end;
    const half = (this.kept.to - this.kept.from) / 2;
    this.zoom(time - half, time + half);
  }

  move(event) {
    const [x, y] = this.canvas.at(event);
    const { drag, kept } = this;
    if (!drag) return this.hover(event, x, y);
    if (drag.over) return this.jump(x);
    if (Math.hypot(x - drag.x, y - drag.y) > 3) drag.moved = true;
    if (!drag.moved) return;
    this.canvas.element.classList.add("drags");
    if (drag.measure !== null) {
      kept.measured = [drag.measure, this.timeAt(x)].sort((a, b) => a - b);
      this.describe();
      this.canvas.later();
      return;
    }
    const by = ((x - drag.x) / (this.canvas.width - this.left)) * (drag.to - drag.from);
    this.zoom(drag.from - by, drag.to - by);
    kept.scroll = drag.scroll;
    this.scroll(drag.y - y);
  }

  release(event) {
    const { drag } = this;
    this.drag = null;
    this.canvas.element.classList.remove("drags");
    if (!drag || drag.over || drag.moved) return;
    const hit = this.hit(...this.canvas.at(event));
    if (hit?.row.kind === "group") {
      const { name } = hit.row;
      if (!this.folded.delete(name)) this.folded.add(name);
      this.lay();
      this.canvas.later();
      return;
    }
    this.kept.measured = null;
    this.select(hit?.slice ? hit : null);
  }

  wheel(event) {
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? 16 : 1;
    const [x] = this.canvas.at(event);
    tip.hide();
    if (event.ctrlKey || event.metaKey) this.zoomAt(x, Math.exp((event.deltaY * pixels) / 300));
    else {
      const sideways = event.shiftKey ? event.deltaY : event.deltaX;
      if (sideways) this.pan((sideways * pixels) / (this.canvas.width - this.left));
      if (!event.shiftKey && event.deltaY) this.scroll(event.deltaY * pixels);
    }
  }

  hover(event, x, y) {
    const hit = this.hit(x, y);
    this.canvas.element.style.cursor = hit?.slice || hit?.row.kind === "group" ? "pointer" : "";
    if (hit?.slice) tip.show(event.clientX, event.clientY, ...sliceTip(this.run, hit.slice));
    else if (hit?.row.kind === "curve" && x >= this.left) {
      const { row } = hit;
      const at = Math.max(0, Math.min(row.times.length - 1, seekTime(row.times, this.timeAt(x)) - (row.steps ? 1 : 0)));
      if (row.times.length) tip.show(event.clientX, event.clientY, ...tipRows(row.name, [["value", row.format(row.values[at])], ["at", time(row.times[at], 4)]]));
    } else if (hit && x < this.left) tip.show(event.clientX, event.clientY, el("strong", {}, hit.row.name));
    else tip.hide();
  }

  select(hit) {
    this.kept.selected = hit;
    this.describe();
    this.canvas.later();
  }

  // Brings a slice into view.
  reveal(row, slice) {
    const { from, to } = this.kept;
    if (slice.start < from || slice.end > to) {
      const span = Math.max(to - from, (slice.end - slice.start) * 1.2);
      const middle = (slice.start + slice.end) / 2;
      this.zoom(middle - span / 2, middle + span / 2);
    }
    const room = this.canvas.height - this.top;
    if (row.y < this.kept.scroll) this.kept.scroll = row.y;
    else if (row.y + row.height > this.kept.scroll + room) this.kept.scroll = row.y + row.height - room;
    this.select({ row, slice });
  }

  describe() {
    const { selected, measured } = this.kept;
    if (measured) clear(this.detail, measuredDetail(this.run, measured));
    else if (selected) clear(this.detail, sliceDetail(this, selected));
    else clear(this.detail, el("p", { class: "hint" }, "Click a slice to see its ops, place and arrows. Ctrl and wheel zooms, dragging moves, Shift and dragging measures, ? lists the keys."));
  }

  find() {
    const text = this.search.value.trim().toLowerCase();
    this.kept.search = text;
    const fits = (label) => label.name.toLowerCase().includes(text) || label.ops?.some((op) => op.name.toLowerCase().includes(text) || op.line.includes(text));
    this.mask = text ? Uint8Array.from(this.run.labels, (label) => (fits(label) ? 1 : 0)) : null;
    this.canvas.later();
    this.tally(text);
  }

  // Counts the hits, in turns so that the page stays awake.
  async tally(text) {
    const mine = (this.searching = {});
    if (!text) return clear(this.hits);
    if (!this.mask.includes(1)) return clear(this.hits, "no hit");
    let [hits, began] = [0, performance.now()];
    for (const { lane } of this.rows.filter((row) => row.kind === "slices")) {
      for (let at = 0; at < lane.blocks; at++) {
        for (const label of lane.decode(at).labels) hits += this.mask[label];
        if (at % 256 || performance.now() - began < 12) continue;
        clear(this.hits, `${count(hits)} …`);
        await new Promise((done) => setTimeout(done));
        if (this.searching !== mine) return;
        began = performance.now();
      }
    }
    clear(this.hits, plural(hits, "hit"));
  }

  // Goes to the hit behind or before the selection, in the order of time.
  next(step) {
    if (!this.mask?.includes(1)) return;
    const here = this.kept.selected?.slice.start ?? (step > 0 ? -1 : Infinity);
    let best = null;
    for (const row of this.rows.filter((row) => row.kind === "slices")) {
      const slice = nextHit(row.lane, this.mask, here, step);
      if (slice && (!best || (slice.start - best.slice.start) * step < 0)) best = { row, slice };
    }
    if (best) this.reveal(best.row, best.slice);
  }

  key(event) {
    const { key, shiftKey } = event;
    if (event.target === this.search && key !== "Enter" && key !== "Escape") return false;
    const middle = this.left + (this.canvas.width - this.left) / 2;
    const { selected } = this.kept;
    const beside = (step) => selected && selected.row.lane.beside(selected.slice, step);
    const act = {
      w: () => this.zoomAt(middle, 0.7), "+": () => this.zoomAt(middle, 0.7), "=": () => this.zoomAt(middle, 0.7),
      s: () => this.zoomAt(middle, 1 / 0.7), "-": () => this.zoomAt(middle, 1 / 0.7),
      a: () => this.pan(-0.2), d: () => this.pan(0.2), arrowleft: () => this.pan(-0.1), arrowright: () => this.pan(0.1),
      arrowup: () => this.scroll(-60), arrowdown: () => this.scroll(60), pageup: () => this.scroll(-400), pagedown: () => this.scroll(400),
      0: () => this.zoom(0, this.end),
      f: () => this.zoomTo(selected?.slice),
      ",": () => beside(-1) && this.reveal(selected.row, beside(-1)),
      ".": () => beside(1) && this.reveal(selected.row, beside(1)),
      enter: () => this.next(shiftKey ? -1 : 1), n: () => this.next(shiftKey ? -1 : 1),
      escape: () => {
        this.kept.measured = null;
        if (this.search.value && document.activeElement !== this.canvas.element) this.search.value = "";
        this.find();
        this.select(null);
        this.canvas.element.focus();
      },
    }[key.toLowerCase()];
    if (!act) return false;
    act();
    return true;
  }
}

// The nearest slice of the mask that begins behind `here`, or before it.
function nextHit(lane, mask, here, step) {
  let at = Math.min(lane.blocks - 1, here === Infinity ? lane.blocks - 1 : lane.seek(here));
  for (; at >= 0 && at < lane.blocks; at += step) {
    const block = lane.decode(at);
    let found = null;
    for (let nth = 0; nth < block.count; nth++) {
      if (!mask[block.labels[nth]] || (block.starts[nth] - here) * step <= 0) continue;
      found = nth;
      if (step > 0) break;
    }
    if (found !== null) return lane.slice(at, found);
  }
  return null;
}

panels.push({ id: "timeline", title: "Timeline", make: (app, root) => new Timeline(app, root) });
