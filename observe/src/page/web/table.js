// A table that is sorted by its heads, filtered by words, and draws the rows that are seen.

const ROW = 30;

// Columns: { id, title, unit, width, value(row) for sorting, text(row), bar(row) from 0 to 1, left, cell(row) }.
class Table {
  constructor({ columns, rows, sort, words, note, pick, name }) {
    Object.assign(this, { columns, all: rows, sort, words, pick, note, name });
    this.descending = true;
    this.picked = null;
    this.filter = el("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${name}`, oninput: () => this.refresh() });
    this.count = el("span", { class: "count", "aria-live": "polite" });
    this.heads = columns.map((column) => this.head(column));
    this.body = el("tbody", {});
    const widths = el("colgroup", {}, columns.map((column) => el("col", { class: column.wide ? "wide" : "", style: { width: column.width ? `${column.width}px` : "auto" } })));
    const least = (columns) => `${columns.reduce((sum, column) => sum + (column.width ?? 220), 0)}px`;
    this.table = el("table", { "aria-label": name }, widths, el("thead", {}, el("tr", {}, this.heads)), this.body);
    this.table.style.setProperty("--least", least(columns));
    this.table.style.setProperty("--least-narrow", least(columns.filter((column) => !column.wide)));
    this.scroller = el("div", { class: "scroller", tabIndex: 0, onscroll: () => this.rows(), onkeydown: (event) => this.key(event) }, this.table);
    this.detail = el("div", { class: "detail", hidden: true });
    this.bar = el("div", { class: "bar" }, this.filter, this.count);
    this.element = el("div", { class: "tabled" }, this.bar, this.scroller, this.detail);
    this.observer = new ResizeObserver(() => this.rows());
    this.observer.observe(this.scroller);
    this.refresh();
  }

  head(column) {
    const title = [column.title, column.unit ? el("span", { class: "unit" }, column.unit) : null];
    const button = el("button", { type: "button", title: column.hint ?? `Sort by ${column.title}`, onclick: () => this.by(column) }, title);
    return el("th", { class: `${column.left ? "left" : "right"}${column.wide ? " wide" : ""}`, scope: "col" }, button);
  }

  by(column) {
    this.descending = this.sort === column.id ? !this.descending : !column.left;
    this.sort = column.id;
    this.refresh();
  }

  // Sorts and filters anew. Each word of the filter must be in a row.
  refresh() {
    const wanted = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => {
      const text = this.words(row).toLowerCase();
      return wanted.every((word) => text.includes(word));
    };
    this.shown = wanted.length ? this.all.filter(fits) : [...this.all];
    const column = this.columns.find((column) => column.id === this.sort) ?? this.columns[0];
    const order = (a, b) => {
      const [x, y] = [column.value(a), column.value(b)];
      if (x == null || y == null) return (x == null) - (y == null);
      const by = typeof x === "string" ? x.localeCompare(y) : x - y;
      return this.descending ? -by : by;
    };
    this.shown.sort(order);
    this.columns.forEach((column, at) => {
      const way = column.id === this.sort ? (this.descending ? "descending" : "ascending") : "none";
      this.heads[at].setAttribute("aria-sort", way);
    });
    const hidden = this.all.length - this.shown.length;
    this.count.textContent = hidden ? `${count(this.shown.length)} of ${plural(this.all.length, this.note)}` : plural(this.all.length, this.note);
    this.scroller.scrollTop = 0;
    this.from = -1;
    this.rows();
  }

  // Other rows, with the filter and the place that the reader has.
  renew(rows) {
    this.all = rows;
    const top = this.scroller.scrollTop;
    this.refresh();
    this.scroller.scrollTop = top;
    this.rows();
  }

  rows() {
    const height = this.scroller.clientHeight || 600;
    const from = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 8);
    const until = Math.min(this.shown.length, from + Math.ceil(height / ROW) + 20);
    if (from === this.from && until === this.until) return;
    [this.from, this.until] = [from, until];
    // Where wide columns are hidden, a cell over more columns than are left would make new ones.
    const colSpan = this.columns.filter((column) => !column.wide).length;
    const space = (rows) => (rows > 0 ? el("tr", { class: "space", "aria-hidden": "true" }, el("td", { colSpan, style: { height: `${rows * ROW}px` } })) : null);
    const none = this.shown.length ? null : el("tr", {}, el("td", { class: "left none", colSpan }, "Nothing fits the filter."));
    clear(this.body, space(from), this.shown.slice(from, until).map((row) => this.row(row)), space(this.shown.length - until), none);
  }

  row(row) {
    const cell = (column) => {
      const content = column.cell ? column.cell(row) : column.text(row);
      const share = column.bar?.(row);
      const bar = share > 0 ? el("span", { class: "fill", style: { width: `${Math.min(1, share) * 100}%` } }) : null;
      return el("td", { class: `${column.left ? "left" : "right"}${column.wide ? " wide" : ""}`, title: column.left ? column.text(row) : null }, bar, el("span", { class: "cell" }, content));
    };
    return el("tr", { class: row === this.picked ? "picked" : "", onclick: () => this.choose(row) }, this.columns.map(cell));
  }

  choose(row) {
    this.picked = row;
    this.from = -1;
    this.rows();
    if (!this.pick) return;
    this.detail.hidden = !row;
    clear(this.detail, row ? this.pick(row) : []);
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !this.shown.length) return;
    event.preventDefault();
    event.stopPropagation();
    const at = Math.min(this.shown.length - 1, Math.max(0, this.shown.indexOf(this.picked) + step));
    this.choose(this.shown[at]);
    const [top, height] = [at * ROW, this.scroller.clientHeight - 2 * ROW];
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + height) this.scroller.scrollTop = top - height;
  }

  close() {
    this.observer.disconnect();
  }
}

// A name with its scope made quiet.
function nameCell(row) {
  return el("span", { class: "name" }, row.scope ? el("span", { class: "scope" }, `${row.scope}/`) : null, row.name);
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value != null && value !== "");
  return el("dl", { class: "facts" }, shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
