// Logs: the lines that programs, libraries and backends told.

const LOG_LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
const LOG_LINE = /^\[(DEBUG|INFO|WARNING|ERROR|CRITICAL)\] ([^(]*)\((\d+),(\d+),(.*?)\):(\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3}) \[(.*?)\] (.*)$/;

// The lines of a file. What is no line of a log, as the begin of one that was cut, is left out.
function logLines(file) {
  const lines = [];
  for (const text of file.text.split("\n")) {
    const found = text.match(LOG_LINE);
    if (!found) continue;
    const [, level, module, pid, thread, program, when, place, said] = found;
    lines.push({ level: LOG_LEVELS.indexOf(level), module, pid, thread, program, when, place, said, file: file.name });
  }
  return lines;
}

// All lines of a run in the order in which they came.
function runLog(run) {
  const lines = run.texts.logs.flatMap(logLines);
  lines.forEach((line, at) => (line.at = at));
  return lines.sort((a, b) => (a.when < b.when ? -1 : a.when > b.when ? 1 : a.at - b.at)).map((line, at) => Object.assign(line, { at }));
}

function levelChip(level) {
  const name = LOG_LEVELS[level];
  return el("span", { class: `level ${name.toLowerCase()}` }, name);
}

function logDetail(line) {
  return [
    el("div", { class: "title" }, levelChip(line.level), el("span", { class: "where" }, line.place)),
    el("p", { class: "said" }, line.said),
    facts([["time", line.when.replace(/-(\d\d:)/, " $1")], ["module", line.module], ["program", line.program], ["process", line.pid], ["thread", line.thread], ["file", line.file]]),
  ];
}

function logsPanel(app, root) {
  const kept = (app.kept.logs ??= { level: 0, module: "", filter: "" });
  const notes = el("div", { class: "notesplace" });
  const modules = el("span", { class: "picker" });
  let lines = [];
  const wanted = () => lines.filter((line) => line.level >= kept.level && (!kept.module || line.module === kept.module));
  const show = () => table.renew(wanted());
  const levels = choice("Least level", LOG_LEVELS.map((name, level) => [level, name === "DEBUG" ? "All" : name[0] + name.slice(1).toLowerCase()]), kept.level, (level) => {
    kept.level = level;
    show();
  });
  const text = (name) => (line) => line[name];
  const columns = [
    { id: "at", title: "Time", left: true, width: 152, value: (line) => line.at, text: (line) => line.when.slice(11), cell: (line) => el("span", { class: "name" }, line.when.slice(11)) },
    { id: "level", title: "Level", left: true, width: 96, value: text("level"), text: (line) => LOG_LEVELS[line.level], cell: (line) => levelChip(line.level) },
    { id: "module", title: "Module", left: true, wide: true, width: 110, value: text("module"), text: text("module") },
    { id: "said", title: "Text", left: true, value: text("said"), text: text("said") },
    { id: "place", title: "Where", left: true, wide: true, width: 180, value: text("place"), text: text("place"), cell: (line) => el("span", { class: "where" }, shortLine(line.place, 21)) },
  ];
  const words = (line) => `${line.said} ${line.module} ${line.place} ${line.program} ${line.pid} ${line.thread}`;
  const table = new Table({ name: "log", note: "line", columns, rows: [], sort: "at", words, pick: logDetail });
  table.descending = false;
  const update = () => {
    lines = runLog(app.run);
    const names = [...new Set(lines.map((line) => line.module))].sort();
    const option = (name) => el("option", { value: name, selected: name === kept.module }, name || "All modules");
    clear(modules, el("select", { "aria-label": "Module", onchange: (event) => {
      kept.module = event.target.value;
      show();
    } }, ["", ...names].map(option)));
    const said = [...app.run.texts.notes, ...app.run.texts.logs.filter((file) => file.cut).map((file) => `${file.name}: only its end is shown`)];
    clear(notes, said.length ? el("ul", { class: "notes" }, said.map((note) => el("li", {}, note))) : null);
    show();
  };
  table.filter.value = kept.filter;
  table.filter.addEventListener("input", () => (kept.filter = table.filter.value));
  clear(root, heading("Logs", "The lines of a run in the order in which they came. A row shows all of its line.", levels, modules), notes, table.element);
  update();
  return { update, close: () => table.close() };
}

panels.push({ id: "logs", title: "Logs", own: (run) => run.texts.logs.length > 0, make: logsPanel });
