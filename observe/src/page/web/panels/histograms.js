// Histograms: how values lie, and how that changes over the steps.

// More of them than these are drawn only when they are asked for.
const FILMS = 24;

function histogramsPanel(app, root) {
  const kept = (app.kept.histograms ??= { filter: "", kind: "heat", all: false, chosen: new Map() });
  let kinds;
  const tools = (redraw) => {
    kinds = choice("Chart", [["heat", "Heat map"], ["ridges", "Ridges"]], kept.kind, (id) => {
      kept.kind = id;
      redraw();
    });
    return [kinds, filterField("histograms", kept, redraw)];
  };
  const draw = (body) => {
    const rows = shownSummaries(app).flatMap((summary) => summary.histograms.map((row) => ({ row, summary })));
    rows.sort((a, b) => a.row.tag.localeCompare(b.row.tag, "en", { numeric: true }) || a.summary.at - b.summary.at);
    const fit = rows.filter(({ row }) => fitsFilter(kept.filter, row.tag));
    if (!fit.length) {
      clear(body, rows.length ? empty("No tag fits the filter") : empty("No histogram was noted", "A training notes its first five parameters by itself, and any tensor so:", command('summary::histogram("scores", &scores);')));
      return [];
    }
    const some = kept.all ? fit : fit.slice(0, FILMS);
    const chosen = (name) => kept.chosen.get(name) ?? kept.chosen.set(name, { step: null }).get(name);
    const charts = some.map(({ row, summary }) => new Distributions(row, SERIES[summary.at % SERIES.length], kept.kind, chosen(`${summary.name}: ${row.tag}`)));
    const box = ({ row, summary }, at) => el("div", { class: "card box" }, tagTitle(app, row.tag, summary, thinnedNote(row.frames.length, row.seen, "step", "Those that are shown are spread over the steps")), el("div", { class: "distribution" }, charts[at].all.element, charts[at].one.element));
    const rest = fit.length - some.length;
    const more = el("button", { type: "button", class: "action", onclick: () => {
      kept.all = true;
      view.redraw();
    } }, `Show ${plural(rest, "more chart")}`);
    clear(body, some.map(box), rest ? more : null);
    return charts.flatMap((chart) => [chart.all, chart.one]);
  };
  const view = notedPanel(app, root, { title: "Histograms", about: "How values lie at each step, and beside it at the chosen one.", tools, draw });
  return view;
}

panels.push({ id: "histograms", title: "Histograms", summaries: true, make: histogramsPanel });
