// Scalars: what trainings noted as numbers, a chart for each tag with a curve for each run.

// More charts than these are drawn only when they are asked for.
const CHARTS = 48;

function scalarTags(app) {
  const tags = new Map();
  for (const summary of shownSummaries(app)) {
    for (const row of summary.scalars) {
      if (!tags.has(row.tag)) tags.set(row.tag, []);
      tags.get(row.tag).push({ ...row, name: summary.name, at: summary.at });
    }
  }
  return [...tags].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
}

function scalarsPanel(app, root) {
  const kept = (app.kept.scalars ??= { filter: "", smooth: 0, log: false, along: "step", all: false, large: new Set() });
  let along;
  let log;
  const tools = (redraw) => {
    const shown = el("output", {}, kept.smooth.toFixed(2));
    const slide = (event) => {
      kept.smooth = Number(event.target.value);
      shown.textContent = kept.smooth.toFixed(2);
      redraw();
    };
    const slider = el("input", { type: "range", min: "0", max: "0.99", step: "0.01", value: String(kept.smooth), oninput: slide });
    along = choice("Along", [["step", "Step"], ["time", "Time"], ["clock", "Clock"]], kept.along, (id) => {
      kept.along = id;
      redraw();
    });
    log = choice("Heights", [["linear", "Linear"], ["log", "Log"]], kept.log ? "log" : "linear", (id) => {
      kept.log = id === "log";
      redraw();
    });
    return [el("label", { class: "slider" }, "Smoothing", slider, shown), along, log, filterField("scalars", kept, redraw)];
  };
  const draw = (body) => {
    const tags = scalarTags(app);
    const fit = tags.filter(([tag]) => fitsFilter(kept.filter, tag));
    if (!fit.length) {
      clear(body, tags.length ? empty("No tag fits the filter") : noScalars(app));
      return [];
    }
    const some = kept.all ? fit : fit.slice(0, CHARTS);
    const curves = some.map(([tag, rows]) => new Curves(tag, rows, kept));
    const boxes = some.map(([tag, rows], at) => scalarBox(tag, rows, curves[at].canvas, kept));
    const rest = fit.length - some.length;
    const more = el("button", { type: "button", class: "action", onclick: () => {
      kept.all = true;
      view.redraw();
    } }, `Show ${plural(rest, "more chart")}`);
    clear(body, el("div", { class: "small" }, boxes), rest ? more : null);
    return curves.map((curve) => curve.canvas);
  };
  const view = notedPanel(app, root, { title: "Scalars", about: "What trainings noted as numbers.", tools, draw });
  const next = (group) => {
    const buttons = [...group.children];
    const at = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
    buttons[(at + 1) % buttons.length].click();
    return true;
  };
  view.key = (event) => !event.target.closest("input") && ((event.key === "l" && next(log)) || (event.key === "x" && next(along)));
  return view;
}

function scalarBox(tag, rows, canvas, kept) {
  const box = el("div", { class: `card box${kept.large.has(tag) ? " large" : ""}` });
  const button = el("button", { type: "button", class: "plain", title: "Larger or smaller", "aria-label": `${tag}: larger or smaller`, onclick: () => {
    if (!kept.large.delete(tag)) kept.large.add(tag);
    box.classList.toggle("large");
  } }, "⤢");
  const seen = rows.reduce((sum, row) => sum + row.seen, 0);
  const drawn = rows.reduce((sum, row) => sum + row.steps.length, 0);
  const thinned = thinnedNote(drawn, seen, "point", "Smallest and largest values are kept");
  const last = rows.length === 1 ? el("span", {}, figure(rows[0].values.at(-1))) : null;
  box.append(el("h2", {}, el("span", { class: "tag", title: tag }, tag), el("span", { class: "grow" }), thinned, last, button), canvas.element);
  return box;
}

function noScalars(app) {
  if (!shownSummaries(app).length) return empty("All runs are hidden", "The buttons above show them.");
  return empty("No scalar was noted", "A training notes its loss by itself, and any number so:", command('summary::scalar("loss", &loss);'));
}

panels.push({ id: "scalars", title: "Scalars", summaries: true, make: scalarsPanel });
