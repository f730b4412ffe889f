// Graph: a saved graph folded by the parts of the network, with the time of a profile and the figures of a dump on its boxes.

const SVG = "http://www.w3.org/2000/svg";

function drawn(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// `00_step_traced.ir` is step, traced; the graphs of a flight recorder have a number.
function graphTitle(name) {
  const file = name.split("/").at(-1).replace(/\.ir$/, "");
  const saved = file.match(/^(\d+)_(.*)_(traced|rewritten|program)$/);
  return saved ? `${saved[2]}, ${saved[3]}` : file.replace("_", " ");
}

// Traced graphs before others, the largest first.
function firstGraph(graphs) {
  const rank = (file) => (file.name.endsWith("_traced.ir") ? 1e9 : 0) + file.text.length;
  return [...graphs].sort((a, b) => rank(b) - rank(a))[0];
}

function boxPhase(box) {
  const [first] = box.path.slice(1).split("/", 1);
  return { Default: "forward", Gradients: "backward", Update: "update" }[first] ?? "other";
}

class GraphView {
  constructor(app, root) {
    Object.assign(this, { app, root });
    this.kept = app.kept.graph ??= { file: null, dump: null, open: null, focus: null };
    this.stage = el("div", { class: "graphstage", onkeydown: (event) => this.keys(event) });
    this.detail = el("div", { class: "detail", hidden: true });
    this.about = el("p", { class: "graphabout", "aria-live": "polite" });
    this.tools = el("div", { class: "tools" });
    this.notes = el("div", { class: "notesplace" });
    const title = el("div", {}, el("h1", {}, "Graph"), this.about);
    clear(root, el("div", { class: "heading" }, title, this.tools), this.notes, this.stage, this.detail);
    this.update();
  }

  update() {
    const { run } = this.app;
    const { graphs, notes } = run.texts;
    clear(this.notes, notes.length ? el("ul", { class: "notes" }, notes.map((note) => el("li", {}, note))) : null);
    if (!graphs.length) {
      clear(this.tools);
      clear(this.stage, empty("No graph was saved in this run", "A program saves its graphs into the folder that is shown:", command(`THALWEG_SAVE_GRAPHS=1 THALWEG_SAVE_GRAPHS_PATH=${run.folder} ./program`)));
      return;
    }
    this.file = graphs.find((file) => file.name === this.kept.file) ?? firstGraph(graphs);
    this.dumps = dumpsOf(run);
    this.dump = this.dumps.find((dump) => dump.file === this.kept.dump) ?? this.dumps.at(-1);
    const { nodes, inputs } = parseGraph(this.file.text);
    this.inputs = inputs;
    this.tree = graphTree(nodes);
    this.alike = alikeCalls(this.tree);
    this.kept.open ??= firstOpen(this.tree);
    const timed = this.app.runs.filter((run) => run.ops.some((row) => row.device.self_ns));
    // The run that is shown first, then the one that it is compared with.
    this.runs = [run, ...timed.filter((other) => other !== run)].filter((run) => timed.includes(run)).slice(0, 2);
    this.times = this.runs.map((run) => new GraphTimes(run));
    this.toolbar(graphs);
    this.draw();
  }

  toolbar(graphs) {
    const pick = (label, options, chosen, choose) => el("select", { "aria-label": label, onchange: (event) => choose(event.target.value) }, options.map(([id, text]) => el("option", { value: id, selected: id === chosen }, text)));
    const file = pick("Graph", graphs.map((file) => [file.name, graphTitle(file.name)]), this.file.name, (name) => {
      Object.assign(this.kept, { file: name, open: null, focus: null });
      this.update();
    });
    const dump = this.dumps.length
      ? pick("Dump", this.dumps.map((dump) => [dump.file, dump.title]), this.dump.file, (name) => {
          this.kept.dump = name;
          this.update();
        })
      : null;
    const open = (text, set) => el("button", { type: "button", class: "action", onclick: () => this.unfold(set) }, text);
    const search = el("input", { type: "search", placeholder: "Find", "aria-label": "Find in the graph", onkeydown: (event) => event.key === "Enter" && this.find(event.target.value) });
    const held = (select) => select && el("span", { class: "picker" }, select);
    clear(this.tools, held(file), held(dump), open("Unfold parts", allOpen(this.tree)), open("Fold all", new Set()), search);
  }

  unfold(open) {
    Object.assign(this.kept, { open, focus: null });
    this.draw();
  }

  // Opens the way to the first call whose name has each word.
  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    const walk = (box) => {
      if (box !== this.tree && box.kind !== "primitive" && words.every((word) => box.path.toLowerCase().includes(word))) found.push(box);
      if (box.kind === "scope") box.inner.forEach(walk);
    };
    if (words.length) walk(this.tree);
    const at = found.findIndex((box) => box.path === this.kept.focus) + 1;
    const box = found[at % found.length];
    if (!box) return;
    for (let above = box.above; above; above = above.above) this.kept.open.add(above.path);
    this.kept.focus = box.path;
    this.draw();
    this.select(box);
  }

  draw() {
    const all = seenBoxes(this.tree, this.kept.open);
    const boxes = sortedBoxes(all.slice(0, MOST_BOXES));
    const edges = boxEdges(boxes);
    const layout = layoutGraph(boxes.length, edges);
    this.most = Math.max(1, ...boxes.flatMap((box) => this.times.map((times) => times.of(box, this.alike).time)));
    Object.assign(this, { boxes, edges, layout });
    const nodes = this.tree.nodes.length;
    const more = all.length > boxes.length ? ` ${count(all.length - boxes.length)} boxes more are not drawn; fold a part.` : "";
    const time = this.times.length ? " Times are device times" + (this.times[0].per > 1 ? " of a step." : " of the run.") : "";
    this.about.textContent = `${plural(nodes, "node")} in ${plural(all.length, "box").replace("boxs", "boxes")}, ${plural(this.inputs, "input")}.${time}${more}`;
    const [width, height] = [Math.ceil(layout.width) + 60, layout.height + 40];
    this.lines = edges.map((edge) => drawn("path", { d: edgeLine(layout, edge), class: edge.from < edge.to ? "edge" : "edge back" }));
    const lines = drawn("svg", { width, height, viewBox: `-20 -20 ${width} ${height}`, "aria-hidden": "true" }, ...this.lines);
    this.buttons = boxes.map((box, at) => this.box(box, layout.points[at]));
    const field = el("div", { class: "graphfield", role: "group", "aria-label": "Boxes of the graph", style: { width: `${width}px`, height: `${height}px` } }, lines, this.buttons);
    const { scrollLeft: left, scrollTop: top } = this.stage;
    clear(this.stage, field);
    // Of another graph, the first box is seen.
    const middle = (layout.points[0]?.x ?? 0) + 20 - this.stage.clientWidth / 2;
    [this.stage.scrollLeft, this.stage.scrollTop] = this.seen === this.file ? [left, top] : [middle, 0];
    this.seen = this.file;
    const focus = boxes.findIndex((box) => box.path === this.kept.focus);
    if (focus >= 0) {
      this.show(this.buttons[focus]);
      this.mark(focus);
    } else this.detail.hidden = true;
  }

  box(box, point) {
    const last = box.kind === "primitive" ? box.label : box.name;
    const above = box.above === this.tree ? "" : box.above.path.slice(1);
    const folded = unfolds(box);
    const values = box.nodes.length === 1 ? box.nodes[0].type : plural(box.nodes.length, "node");
    const dumped = dumpedOf(box, this.dump);
    const times = this.times.map((times) => times.of(box, this.alike));
    const bars = times.map(({ time: took, shared }, at) => took > 0 && el("span", { class: "took" }, this.times.length > 1 ? el("span", { class: "which" }, "AB"[at]) : null, el("span", { class: "track" }, el("span", { style: { width: `${Math.max(1, (took / this.most) * 100)}%`, background: `var(--${boxPhase(box)})` } })), `${shared ? "~" : ""}${time(took)}`));
    const wrong = dumped && (dumped.nan || dumped.inf || dumped.overflows);
    const [value] = dumped?.values ?? [];
    const range = box.kind === "call" && value?.statistics?.min != null ? `${figure(value.statistics.min)} … ${figure(value.statistics.max)}` : "";
    const said = wrong ? el("span", { class: "wrong" }, [dumped.nan && `${count(dumped.nan)} NaN`, dumped.inf && `${count(dumped.inf)} inf`, !dumped.nan && !dumped.inf && "overflow"].filter(Boolean).join(", ")) : el("span", { class: "range" }, range);
    return el(
      "button",
      {
        type: "button",
        class: `graphbox ${box.kind}${folded ? " folded" : ""}${wrong ? " notnumbers" : ""}`,
        "aria-label": `${box.path.slice(1)}, ${values}${folded ? ", folded" : ""}`,
        title: [box.path.slice(1), box.nodes.length === 1 ? box.nodes[0].line : ""].filter(Boolean).join("\n"),
        style: { left: `${point.x - BOX.width / 2 + 20}px`, top: `${point.y + 20}px`, width: `${BOX.width}px`, height: `${BOX.height}px`, borderLeftColor: `var(--${boxPhase(box)})` },
        onclick: () => this.select(box),
        ondblclick: () => this.toggle(box),
      },
      el("span", { class: "first" }, el("span", { class: "label" }, above ? el("span", { class: "scope" }, `${above.split("/").at(-1)}/`) : null, last), folded ? el("span", { class: "sign", "aria-hidden": "true" }, "+") : null),
      el("span", { class: "second" }, el("span", { class: "type" }, values), said),
      el("span", { class: "third" }, bars),
    );
  }

  // Lines from and to the selected box stand out.
  mark(at) {
    this.buttons.forEach((button, nth) => button.classList.toggle("picked", nth === at));
    this.edges.forEach((edge, nth) => this.lines[nth].classList.toggle("near", edge.from === at || edge.to === at));
  }

  show(button) {
    button.focus({ preventScroll: true });
    button.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  select(box) {
    this.kept.focus = box.path;
    this.mark(this.boxes.indexOf(box));
    const lines = [...new Set(box.nodes.map((node) => node.line).filter(Boolean))];
    const times = this.times.map((times, at) => {
      const { time: took, shared } = times.of(box, this.alike);
      return [this.times.length > 1 ? `time in ${this.runs[at].name}` : "time", took ? `${shared ? "~" : ""}${time(took)}, ${percent(took / times.total)}` : null];
    });
    const dumped = dumpedOf(box, this.dump);
    const links = [
      unfolds(box) ? el("button", { type: "button", class: "action", onclick: () => this.toggle(box) }, "Unfold") : null,
      box.above !== this.tree ? el("button", { type: "button", class: "action", onclick: () => this.fold(box) }, `Fold ${box.above.name}`) : null,
      this.times.length && box.kind !== "primitive" ? el("button", { type: "button", class: "action", onclick: () => this.app.go("timeline", { search: box.kind === "call" ? [box.above.path.slice(1), box.calls].filter(Boolean).join("/") : box.path.slice(1) }) }, "Find in the timeline") : null,
    ];
    this.detail.hidden = false;
    clear(
      this.detail,
      el("div", { class: "title" }, el("span", { class: "name" }, swatch(`var(--${boxPhase(box)})`), box.path.slice(1)), el("span", { class: "where" }, lines.length > 3 ? plural(lines.length, "line") : lines.join(", "))),
      facts([["nodes", count(box.nodes.length)], ["ops", [...new Set(box.nodes.map((node) => node.op))].slice(0, 8).join(", ")], ["type", box.nodes.length === 1 ? box.nodes[0].type : null], ...times, ["returned", box.nodes.some((node) => node.returned) ? "yes" : null]]),
      dumped ? dumpTable(dumped.values.slice(0, 12), this.dump.title) : null,
      el("div", { class: "links" }, links.filter(Boolean)),
    );
  }

  toggle(box) {
    if (!unfolds(box)) return;
    this.kept.open.add(box.path);
    this.kept.focus = inOrder([...box.inner.values()])[0].path;
    this.redrawn();
  }

  fold(box) {
    if (box.above === this.tree) return;
    this.kept.open.delete(box.above.path);
    this.kept.focus = box.above.path;
    this.redrawn();
  }

  redrawn() {
    this.draw();
    const box = this.boxes.find((box) => box.path === this.kept.focus);
    if (box) this.select(box);
  }

  keys(event) {
    const at = this.buttons?.indexOf(document.activeElement) ?? -1;
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const box = this.boxes[at];
    const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (way) this.step(at, way);
    else if (event.key === "Enter" && unfolds(box)) this.toggle(box);
    else if (event.key === "Backspace") this.fold(box);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // The nearest box in a direction; what lies aside counts twice. Up and down follow lines where there are some.
  step(from, [x, y]) {
    const here = this.layout.points[from];
    const joined = new Set(this.edges.flatMap((edge) => (y > 0 && edge.from === from ? [edge.to] : y < 0 && edge.to === from ? [edge.from] : [])));
    let best = null;
    this.layout.points.forEach((point, at) => {
      if (joined.size && !joined.has(at)) return;
      const [dx, dy] = [point.x - here.x, point.y - here.y];
      const ahead = x ? dx * x : dy * y;
      const aside = Math.abs(x ? dy : dx);
      if (at !== from && ahead > 1 && (!best || ahead + 2 * aside < best.far)) best = { at, far: ahead + 2 * aside };
    });
    if (!best) return;
    this.select(this.boxes[best.at]);
    this.show(this.buttons[best.at]);
  }
}

// The figures of values that were dumped.
function dumpTable(values, title) {
  const names = ["min", "max", "mean", "l2", "nan", "inf", "zeros"].filter((name) => values.some((value) => value.statistics?.[name] != null));
  const head = ["value", "type", ...names].map((name, at) => el("th", { scope: "col", class: at < 2 ? "left" : "right" }, name));
  const cell = (value, name) => {
    const said = value.statistics?.[name];
    return el("td", { class: `right${["nan", "inf"].includes(name) && said > 0 ? " wrong" : ""}` }, said == null ? "–" : figure(Number(said)));
  };
  const row = (value) => el("tr", {}, el("td", { class: "left" }, `${value.name.split("/").at(-1)} ${value.slot}`), el("td", { class: "left" }, `${value.dtype}[${value.shape.join(",")}]`), names.map((name) => cell(value, name)));
  return [el("h3", {}, `Dumped, ${title}`), el("div", { class: "dumped" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, values.map(row))))];
}

// The open panel.
let graphView = null;

function graphPanel(app, root) {
  graphView = new GraphView(app, root);
  return { update: () => graphView.update() };
}

panels.push({ id: "graph", title: "Graph", own: (run) => run.texts.graphs.length > 0, make: graphPanel });
