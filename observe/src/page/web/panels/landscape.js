// Landscape: the loss in a plane through the weights of a training, from above and as a surface.

function landscapePanel(app, root) {
  const kept = (app.kept.landscape ??= { chosen: null, log: false, turn: -0.65, tilt: 0.62 });
  const place = el("span", { class: "picker" });
  const planes = () => shownSummaries(app).flatMap((summary) => summary.landscapes.map((plane) => ({ plane, summary, id: `${summary.name}: ${plane.name}` })));
  const tools = (redraw) => [
    place,
    choice("Loss", [["linear", "Linear"], ["log", "Log"]], kept.log ? "log" : "linear", (id) => {
      kept.log = id === "log";
      redraw();
    }),
  ];
  const draw = (body) => {
    const all = planes();
    const chosen = all.find((one) => one.id === kept.chosen) ?? all[0];
    const options = all.map((one) => el("option", { value: one.id, selected: one === chosen }, app.index.summaries.length > 1 ? one.id : one.plane.name));
    const choose = (event) => {
      kept.chosen = event.target.value;
      view.redraw();
    };
    clear(place, all.length ? el("select", { "aria-label": "Landscape", onchange: choose }, options) : null);
    if (!chosen) {
      clear(body, empty("No landscape was computed", "With the option collect_landscape a training keeps weights. Afterwards this computes the loss around them:", command('thalweg_nn::summary::landscape("runs/1", &model, &data)?;')));
      return [];
    }
    const [contour, surface] = [new Contour(chosen.plane, kept.log), new Surface(chosen.plane, kept.log, kept)];
    const low = contour.relief;
    const refused = kept.log && !low.canLog ? el("p", { class: "hint" }, "Some losses are not above 0, so colours and heights are linear.") : null;
    const last = chosen.plane.path.at(-1);
    const said = facts([
      ["smallest loss", figure(low.low)],
      ["largest loss", figure(low.high)],
      ["at the last weights", last ? figure(low.at(last.x, last.y)) : null],
      ["points", `${low.width} × ${low.height}`],
      ["weights of the way", count(chosen.plane.path.length)],
    ]);
    const box = (title, canvas) => el("div", { class: "card box" }, el("h2", {}, title), canvas.element);
    clear(body, refused, el("div", { class: "two landscapes" }, box("From above", contour.canvas), box("Surface", surface.canvas)), el("div", { class: "card box" }, said));
    return [contour.canvas, surface.canvas];
  };
  const view = notedPanel(app, root, { title: "Landscape", about: "The loss in a plane through the weights; the line is the way that they took, from white to red.", tools, draw });
  return view;
}

panels.push({ id: "landscape", title: "Landscape", summaries: true, make: landscapePanel });
