// What the panels of summaries share: which runs are shown, what cannot be read, and charts that have a place under the pointer.

// Runs that the reader has hidden, by name.
const hidden = new Set();

function shownSummaries(app) {
  return app.index.summaries.filter((summary) => !hidden.has(summary.name));
}

function summaryColor(summary) {
  return `var(--${SERIES[summary.at % SERIES.length]})`;
}

// Switches for the runs, where there are several.
function runSwitches(app, redraw) {
  const { summaries } = app.index;
  if (summaries.length < 2) return null;
  const one = (summary) => {
    const button = el("button", { type: "button", class: "runswitch", "aria-pressed": String(!hidden.has(summary.name)), title: summary.folder, onclick: () => {
      if (!hidden.delete(summary.name)) hidden.add(summary.name);
      button.setAttribute("aria-pressed", String(!hidden.has(summary.name)));
      redraw();
    } }, swatch(summaryColor(summary)), summary.name);
    return button;
  };
  return el("div", { class: "runswitches", role: "group", "aria-label": "Runs" }, summaries.map(one));
}

// What cannot be shown, a line each.
function summaryNotes(app) {
  const notes = app.index.summaries.flatMap((summary) => summary.notes);
  return notes.length ? el("ul", { class: "notes" }, notes.map((note) => el("li", {}, note))) : null;
}

// The first line of a box: a tag, and the run that it is of.
function tagTitle(app, tag, summary, ...rest) {
  const run = summary && app.index.summaries.length > 1 ? el("span", { class: "ofrun" }, swatch(summaryColor(summary)), summary.name) : null;
  return el("h2", {}, el("span", { class: "tag" }, tag), run, rest);
}

// How many of what was noted are drawn, where that is not all.
function thinnedNote(drawn, seen, noun, title) {
  return drawn < seen ? el("span", { class: "soft", title }, `${count(drawn)} of ${plural(seen, noun)}`) : null;
}

// Whether a tag has each word of a filter.
function fitsFilter(filter, tag) {
  const text = tag.toLowerCase();
  return filter.toLowerCase().split(/\s+/).filter(Boolean).every((word) => text.includes(word));
}

function filterField(name, kept, redraw) {
  return el("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${name}`, value: kept.filter, oninput: (event) => {
    kept.filter = event.target.value;
    redraw();
  } });
}

// A panel that is drawn from its tools anew whenever something changes: `draw(body)` returns canvases. What the reader has typed and
// where the page is scrolled to stay.
function notedPanel(app, root, { title, about, tools, draw }) {
  const body = el("div", { class: "noted" });
  const notes = el("div", { class: "notesplace" });
  const switches = el("div", { class: "switchplace" });
  let canvases = [];
  let waits;
  const redraw = () => {
    const top = root.scrollTop;
    const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    canvases.forEach((canvas) => canvas.close());
    tip.hide();
    canvases = draw(body) ?? [];
    root.scrollTop = top;
    if (focused) [...body.querySelectorAll("[aria-label]")].find((element) => element.getAttribute("aria-label") === focused)?.focus({ preventScroll: true });
  };
  const update = () => {
    clearTimeout(waits);
    // What is being read stays.
    if (tip.element && !tip.element.hidden) {
      waits = setTimeout(update, 1000);
      return;
    }
    clear(notes, summaryNotes(app));
    clear(switches, runSwitches(app, redraw));
    redraw();
  };
  clear(root, heading(title, about, tools(redraw)), notes, switches, body);
  update();
  return {
    update,
    redraw,
    repaint: () => canvases.forEach((canvas) => canvas.paint()),
    close: () => {
      clearTimeout(waits);
      canvases.forEach((canvas) => canvas.close());
    },
  };
}

// A canvas with a place that the pointer and arrow keys choose. `choose(x, y)` and `step(by)` return whether there is one, `note()` says
// what is there: { x, y, rows, title }, in the canvas.
function pointed(draw, { label, choose, step, note, leave }) {
  const show = (client) => {
    const found = note();
    if (!found) return tip.hide();
    const box = canvas.element.getBoundingClientRect();
    const [x, y] = client ?? [box.left + found.x, box.top + found.y];
    tip.show(x, y, ...tipRows(found.title, found.rows));
  };
  const gone = () => {
    leave();
    tip.hide();
    canvas.later();
  };
  const keys = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  const canvas = new Canvas(draw, {
    "aria-label": label,
    onpointermove: (event) => {
      choose(...canvas.at(event));
      show([event.clientX, event.clientY]);
      canvas.later();
    },
    onpointerleave: gone,
    onblur: gone,
    onkeydown: (event) => {
      const by = keys[event.key];
      if (event.key === "Escape") gone();
      if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      canvas.ready();
      step(event.shiftKey ? 10 * by : by);
      show();
      canvas.later();
    },
  });
  return canvas;
}
