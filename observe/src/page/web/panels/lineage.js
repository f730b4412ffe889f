// Lineage: hyperparameters and results of each run, in a table.

// Names and values of a run: results in front, then what the user added, then the training.
function lineageOf(summary) {
  const said = summary.lineage ?? {};
  const part = (object, name = (key) => key) => Object.entries(object && typeof object === "object" ? object : {}).map(([key, value]) => [name(key), value]);
  return new Map([
    ...part(said.eval?.figures, (key) => `eval/${key}`),
    ...part(said.custom),
    ...part(said.train),
    ...(said.eval?.epoch == null ? [] : [["eval/epoch", said.eval.epoch]]),
  ]);
}

function lineageText(value) {
  if (value == null) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? count(value) : figure(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function lineagePanel(app, root) {
  const kept = (app.kept.lineage ??= { differing: app.index.summaries.length > 1, sort: "name", descending: false, filter: "" });
  let table;
  const tools = (redraw) => choice("Columns", [["all", "All"], ["differing", "What differs"]], kept.differing ? "differing" : "all", (id) => {
    kept.differing = id === "differing";
    redraw();
  });
  const draw = (body) => {
    if (table) Object.assign(kept, { sort: table.sort, descending: table.descending, filter: table.filter.value });
    const rows = shownSummaries(app).map((summary) => ({ summary, values: lineageOf(summary) }));
    if (!rows.some((row) => row.values.size)) {
      clear(body, empty("No lineage was written", "A training writes its hyperparameters and figures by itself, and yours with the option custom_lineage_data:", command('{"custom_lineage_data": {"author": "…", "trial": 3}}')));
      return [];
    }
    const names = [...new Set(rows.flatMap((row) => [...row.values.keys()]))];
    const differs = (name) => new Set(rows.map((row) => JSON.stringify(row.values.get(name) ?? null))).size > 1;
    const some = kept.differing && rows.length > 1 ? names.filter(differs) : names;
    const column = (name, at) => ({
      id: name,
      title: name,
      left: rows.every((row) => typeof (row.values.get(name) ?? "") !== "number"),
      width: Math.min(260, Math.max(34 + 7 * name.length, ...rows.map((row) => 28 + 8 * lineageText(row.values.get(name)).length))),
      wide: at > 2,
      value: (row) => {
        const value = row.values.get(name);
        return value != null && typeof value === "object" ? JSON.stringify(value) : typeof value === "boolean" ? Number(value) : value;
      },
      text: (row) => lineageText(row.values.get(name)),
    });
    const run = { id: "name", title: "Run", left: true, width: 170, value: (row) => row.summary.name, text: (row) => row.summary.name, cell: (row) => el("span", { class: "name" }, swatch(summaryColor(row.summary)), row.summary.name) };
    const words = (row) => [row.summary.name, ...[...row.values].map(([name, value]) => `${name} ${lineageText(value)}`)].join(" ");
    const pick = (row) => lineageDetail(row);
    table = new Table({ name: "lineage", note: "run", columns: [run, ...some.map(column)], rows, sort: kept.sort, words, pick });
    table.descending = kept.descending;
    table.filter.value = kept.filter;
    table.refresh();
    clear(body, table.element);
    return [table];
  };
  const view = notedPanel(app, root, { title: "Lineage", about: "Hyperparameters and results of each run. A row shows all that was written.", tools, draw });
  return { ...view, repaint: () => {} };
}

function lineageDetail(row) {
  const data = row.summary.lineage?.dataset_graph;
  return [
    el("div", { class: "title" }, el("span", { class: "name" }, row.summary.name), el("span", { class: "where" }, row.summary.folder)),
    facts([...row.values].map(([name, value]) => [name, lineageText(value)])),
    data ? facts([["data", JSON.stringify(data)]]) : null,
  ].filter(Boolean);
}

panels.push({ id: "lineage", title: "Lineage", summaries: true, make: lineagePanel });
