// The frame: panels, runs, themes, keys.

// Each panel: { id, title, about, available(app), make(app, root) }, and make returns { key(event), update(), close() }, each of which may lack.
// Panels with `summaries` show what all runs noted; those with `own(run)` show what that says of one run; the others show its recording.
const panels = [];

const KEYS = [
  ["1 … 9", "open a panel"],
  ["/", "search or filter"],
  ["r", "next run, where there are several"],
  ["t", "light, dark, or as the system"],
  ["?", "this list"],
  ["Esc", "close, or clear the selection"],
  ["Scalars", null],
  ["L", "logarithmic or linear heights"],
  ["X", "along steps, time since the begin, or the clock"],
  ["← →", "point by point, on a chart; also steps of histograms and images, and turns of a surface"],
  ["Graph", null],
  ["Enter", "unfold a box, or select an op"],
  ["Backspace", "fold the part that a box is in"],
  ["↑ ↓ ← →", "next box"],
  ["Timeline", null],
  ["W S", "zoom in and out; also Ctrl and wheel, or + and −"],
  ["A D", "left and right; also arrows, or drag"],
  ["↑ ↓", "scroll the rows; also the wheel"],
  ["0", "all of it"],
  ["F", "zoom to the selection"],
  [", .", "slice before and behind, on the same row"],
  ["Enter N", "next hit of the search; with Shift the one before"],
  ["Shift drag", "measure a stretch of time"],
];

const app = {
  runs: [],
  at: 0,
  // Whether all data have come.
  whole: false,
  panel: null,
  view: null,
  // What each panel keeps while another is open.
  kept: {},

  get run() {
    return this.runs[this.at];
  },

  start(index) {
    this.take(index);
    this.frame();
    addEventListener("hashchange", () => this.open(location.hash.slice(1)));
    addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
    this.theme(remembered("theme") ?? "auto");
    this.open(location.hash.slice(1) || "overview");
  },

  // All data are there; until then, panels draw what they have.
  complete() {
    this.whole = true;
    this.view?.complete?.();
  },

  take(index) {
    this.index = index;
    this.runs = index.runs;
    this.at = Math.min(this.at, Math.max(0, this.runs.length - 1));
  },

  // Recordings have grown: the open panel is drawn with the new ones.
  renew(index) {
    this.take(index);
    this.chooser();
    this.menu();
    if (this.view?.update && this.shows(this.panel)) this.view.update();
    else this.open(this.panel.id, true);
  },

  frame() {
    this.nav = el("nav", { "aria-label": "Panels" });
    this.picker = el("div", { class: "picker" });
    this.status = el("span", { class: "status" });
    this.themes = el("button", { type: "button", class: "plain", onclick: () => this.nextTheme() });
    const help = el("button", { type: "button", class: "plain", title: "Keys (?)", "aria-label": "Keys", onclick: () => this.help() }, "?");
    this.main = el("main", { tabIndex: -1 });
    const brand = el("a", { class: "brand", href: "#overview" }, "thalweg");
    const header = el("header", {}, brand, this.picker, el("span", { class: "grow" }), this.status, this.themes, help);
    clear(document.getElementById("app"), header, this.nav, this.main);
    this.chooser();
    this.menu();
  },

  shownPanels() {
    const summaries = this.index.summaries.length > 0;
    const own = (panel) => panel.own && this.runs.some(panel.own);
    const others = summaries || panels.some(own);
    const recordings = !others || this.runs.some((run) => run.error || run.recordings.length);
    return panels.filter((panel) => (panel.own ? own(panel) : panel.summaries ? summaries : recordings) && (panel.available?.(this) ?? true));
  },

  // Whether there is what a panel draws.
  shows(panel) {
    return panel.summaries || Boolean(panel.own && this.run) || Boolean(this.run && !this.run.error && this.run.recordings.length);
  },

  menu() {
    const link = (panel, at) =>
      el("a", { href: `#${panel.id}`, "aria-current": panel === this.panel ? "page" : null }, panel.title, el("kbd", { "aria-hidden": "true" }, at < 9 ? String(at + 1) : ""));
    clear(this.nav, this.shownPanels().map(link));
  },

  chooser() {
    const { runs } = this;
    if (runs.length < 2) {
      const name = runs[0]?.name ?? "";
      clear(this.picker, el("span", { class: "run", title: name }, name));
      return;
    }
    const options = runs.map((run, at) => el("option", { value: String(at), selected: at === this.at }, `${"ABCDEFGHIJ"[at] ?? at + 1}  ${run.name}`));
    clear(this.picker, el("select", { "aria-label": "Run", onchange: (event) => this.show(Number(event.target.value)) }, options));
  },

  show(at) {
    this.at = at;
    this.kept = {};
    this.chooser();
    this.menu();
    this.open(this.panel.id, true);
  },

  open(id, again = false) {
    const shown = this.shownPanels();
    const panel = shown.find((panel) => panel.id === id) ?? shown[0];
    if (panel === this.panel && !again) return;
    this.view?.close?.();
    tip.hide();
    this.panel = panel;
    this.menu();
    document.title = `${panel.title} · ${this.run?.name ?? "thalweg"}`;
    const root = el("section", { class: `panel ${panel.id}`, "aria-label": panel.title });
    clear(this.main, root);
    const { run } = this;
    if (!this.shows(panel)) this.view = missing(root, run);
    else this.view = panel.make(this, root) ?? {};
    this.nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  },

  // Goes to a panel with something to show there.
  go(id, kept) {
    this.kept[id] = { ...this.kept[id], ...kept };
    if (this.panel.id === id) this.open(id, true);
    else location.hash = id;
  },

  theme(name) {
    this.themed = name;
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    const [sign, text] = { auto: ["◐", "as the system"], light: ["○", "light"], dark: ["●", "dark"] }[name];
    clear(this.themes, sign);
    this.themes.title = `Colours: ${text} (t)`;
    this.themes.setAttribute("aria-label", `Colours: ${text}`);
    this.repaint();
  },

  nextTheme() {
    const next = { auto: "light", light: "dark", dark: "auto" }[this.themed];
    remember("theme", next);
    this.theme(next);
  },

  repaint() {
    ink.forget();
    this.view?.repaint?.();
  },

  help() {
    const close = () => dialog.remove();
    const row = ([key, what]) => (what ? [el("dt", {}, key.split(" ").map((one) => (one === "…" ? " … " : el("kbd", {}, one)))), el("dd", {}, what)] : el("h3", {}, key));
    const button = el("button", { type: "button", class: "plain close", "aria-label": "Close", onclick: close }, "×");
    const dialog = el("dialog", { class: "help", onclose: close, onclick: (event) => event.target === dialog && close() }, el("h2", {}, "Keys"), button, el("dl", {}, KEYS.map(row)));
    document.body.append(dialog);
    dialog.showModal();
  },

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
    const field = event.target.closest("input, select, textarea");
    if (field) {
      if (event.key === "Escape") field.blur();
      if (field.tagName !== "INPUT" || event.key !== "Enter") return;
    }
    if (this.view?.key?.(event)) {
      event.preventDefault();
      return;
    }
    if (field) return;
    const at = "123456789".indexOf(event.key);
    if (at >= 0 && this.shownPanels()[at]) location.hash = this.shownPanels()[at].id;
    else if (event.key === "?") this.help();
    else if (event.key === "t") this.nextTheme();
    else if (event.key === "r" && this.runs.length > 1) this.show((this.at + 1) % this.runs.length);
    else if (event.key === "/") {
      const search = this.main.querySelector("input[type=search]");
      if (!search) return;
      search.focus();
      search.select();
    } else return;
    event.preventDefault();
  },
};

// A run without a recording, or with one that cannot be read.
function missing(root, run) {
  const nothing = !run?.error || /: no recording\.tw here, and no event files/.test(run.error);
  const folder = run?.folder ?? "out";
  const quoted = /^[\w./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`;
  clear(
    root,
    nothing
      ? empty(
          "No recording yet",
          "Any program with thalweg records what runs when it is told where to:",
          command(`THALWEG_PROFILE=${quoted} ./program`),
          "A training notes loss, histograms and images there:",
          command(`model.train(3, &data, SummaryCollector::to(${JSON.stringify(folder)}))?;`),
          "This page shows them as soon as they begin.",
        )
      : empty("This recording cannot be read", command(run.error), "`thalweg trace --repair DIR` cuts a damaged recording at its last whole frame. The other panels show the other runs, where there are some."),
  );
  return {};
}

// Head of a panel: what it is, and its tools.
function heading(title, about, ...tools) {
  return el("div", { class: "heading" }, el("div", {}, el("h1", {}, title), about ? el("p", {}, about) : null), el("div", { class: "tools" }, tools));
}
