// The page of `thalweg view` in a browser: every panel, keys, windows, colours, size, a run that grows, and what must not be shown.

import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { summaryChecks } from "./summaries.mjs";
import { textChecks } from "./texts.mjs";

// Opening 10⁶ events, and drawing a usual frame of them, may take so many milliseconds.
const OPENED = 2000;
const FRAME = 16;

// Starts `thalweg view`; resolves when it has said where it listens.
function serve(thalweg, folders) {
  const child = spawn(thalweg, ["view", "--port", "0", ...folders], { stdio: ["ignore", "pipe", "ignore"] });
  // A check that throws leaves none behind.
  process.on("exit", () => child.kill());
  return new Promise((ready, failed) => {
    child.on("exit", (code) => failed(new Error(`thalweg view ended with ${code}`)));
    child.stdout.on("data", (text) => {
      const url = String(text).match(/http:\S+/)?.[0];
      if (url) ready({ url, stop: () => child.kill() });
    });
  });
}

function run(program, args) {
  return new Promise((done, failed) => {
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "inherit"] });
    child.on("exit", (code) => (code === 0 ? done() : failed(new Error(`${program} ${args.join(" ")} ended with ${code}`))));
  });
}

export async function checkPage({ browser, thalweg, made, slowed, large, noted, shots, equal, wrong }) {
  fs.mkdirSync(shots, { recursive: true });
  const holds = (what, truth) => truth || wrong.push(what);
  // A folder that is made anew.
  const fresh = (name) => {
    const folder = path.join(shots, name);
    fs.rmSync(folder, { recursive: true, force: true });
    fs.mkdirSync(folder, { recursive: true });
    return folder;
  };

  // A page that notes every error and every request, when `done` holds.
  async function open(url, { width = 1360, height = 860, theme = "light", ready = "main .panel", done = "app.whole" } = {}) {
    const page = await browser.newPage();
    // The browser may report a request as aborted whose answer it has read whole, so failures only explain what is missing.
    [page.asked, page.failed] = [[], []];
    page.on("console", (message) => message.type() === "error" && wrong.push(`${url}: console: ${message.text()}`));
    page.on("pageerror", (error) => wrong.push(`${url}: ${error.stack ?? error}`));
    page.on("request", (request) => page.asked.push(request.url()));
    page.on("requestfailed", (request) => page.failed.push(`${request.url()} failed: ${request.failure()?.errorText}`));
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
    await page.goto(url);
    await page.waitForSelector(ready).catch(async (error) => {
      throw new Error(`${url}: no ${ready} in "${await page.evaluate("document.body.innerText")}"; asked: ${page.asked.concat(page.failed)}`, { cause: error });
    });
    await page.waitForFunction(done);
    return page;
  }

  const frames = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const panelIds = (page) => page.evaluate("app.shownPanels().map((panel) => panel.id)");
  async function show(page, id) {
    // A page behind another is not drawn.
    await page.bringToFront();
    await page.evaluate(`location.hash = "${id}"`);
    await page.waitForSelector(`main .panel.${id}`);
    await frames(page);
  }

  // What stands on the page, and what is drawn on its canvases.
  const seen = (page) =>
    page.evaluate(() => ({ text: document.querySelector("main").innerText, drawn: [...document.querySelectorAll("main canvas")].map((canvas) => hash(canvas.toDataURL())) }));

  // Boxes that lie over each other, or stick out of the window.
  const misplaced = (page) =>
    page.evaluate(() => {
      const found = [];
      const root = document.documentElement;
      if (root.scrollWidth > innerWidth) found.push(`the page is ${root.scrollWidth} wide, its window ${innerWidth}`);
      const boxes = (selector) => [...document.querySelectorAll(selector)].map((element) => [element, element.getBoundingClientRect()]).filter(([, box]) => box.width && box.height);
      for (const group of [boxes("header > *"), boxes("nav > a"), boxes("main .panel > *"), boxes(".heading > *, .heading .tools > *").filter(([element]) => !element.matches(".tools")), boxes(".cards > *"), boxes(".bar > *"), boxes(".runswitches > *"), boxes(".noted > *, .noted h2 > *, .noted canvas, .noted img").filter(([element]) => !element.querySelector("h2, canvas, img"))]) {
        group.forEach(([a, one], at) => {
          for (const [b, two] of group.slice(at + 1)) {
            const over = Math.min(one.right, two.right) - Math.max(one.left, two.left) > 1 && Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > 1;
            if (over) found.push(`${a.className || a.tagName} lies over ${b.className || b.tagName}`);
          }
        });
      }
      return found;
    });

  async function panels(url) {
    for (const [width, height] of [[1360, 860], [420, 800]]) {
      for (const theme of ["light", "dark"]) {
        const page = await open(url, { width, height, theme });
        for (const id of await panelIds(page)) {
          await show(page, id);
          const { text, drawn } = await seen(page);
          holds(`${id}: nothing is shown`, text.length > 20);
          if (["timeline", "steps", "memory", "figures", "scalars", "histograms", "landscape"].includes(id)) holds(`${id}: nothing is drawn`, drawn.length > 0);
          equal(`${id} at ${width}, ${theme}: places`, await misplaced(page), []);
          await page.screenshot({ path: path.join(shots, `${id}-${width > 700 ? "wide" : "narrow"}-${theme}.png`) });
        }
        await page.close();
      }
    }
  }

  // A page from a file shows what the served one shows, and asks nobody.
  async function exported(url, folders) {
    const file = path.join(shots, `${path.basename(folders[0])}.html`);
    await run(thalweg, ["view", "--export", file, ...folders]);
    const [served, alone] = [await open(url), await open(`file://${file}`)];
    for (const id of await panelIds(served)) {
      await show(served, id);
      await show(alone, id);
      equal(`export: ${id}`, await seen(alone), await seen(served));
    }
    const foreign = (page, own) => page.asked.filter((asked) => !asked.startsWith("data:") && asked !== own);
    equal("requests of the export", foreign(alone, `file://${file}`).filter((asked) => !asked.startsWith(`file://${file}#`)), []);
    equal("requests of the served page", [...new Set(foreign(served, url).filter((asked) => !asked.startsWith(`${url}#`)))].filter((asked) => asked !== `${url}data` && asked !== `${url}state`), []);
    await served.close();
    await alone.close();
  }

  // The slices of the page are those of trace.json, which Perfetto was shown.
  async function slices(url) {
    const page = await open(`${url}#timeline`);
    const found = await page.evaluate(() => {
      const all = [];
      for (const track of app.run.tracks) {
        const lane = track.lane;
        for (let at = 0; at < lane.blocks; at++) {
          const block = lane.decode(at);
          for (let nth = 0; nth < block.count; nth++) all.push([block.starts[nth], block.ends[nth] - block.starts[nth], sliceName(app.run.labels[block.labels[nth]], block.runs[nth])]);
        }
      }
      return all;
    });
    const nanos = (text) => Number(text.replace(".", ""));
    const lines = fs.readFileSync(path.join(made, "trace.json"), "utf8").split("\n").filter((line) => line.includes('"ph":"X"'));
    const expected = lines.map((line) => [nanos(line.match(/"ts":([0-9.]+)/)[1]), nanos(line.match(/"dur":([0-9.]+)/)[1]), JSON.parse(line.replace(/,$/, "")).name]);
    const order = (a, b) => a[0] - b[0] || a[1] - b[1] || (a[2] < b[2] ? -1 : a[2] > b[2] ? 1 : 0);
    found.sort(order);
    expected.sort(order);
    equal("number of slices", found.length, expected.length);
    const first = expected.findIndex((slice, at) => JSON.stringify(slice) !== JSON.stringify(found[at]));
    if (first >= 0) equal(`slice ${first}`, found[first], expected[first]);
    const table = JSON.parse(fs.readFileSync(path.join(made, "op_table.json"), "utf8"));
    equal("ops", await page.evaluate("app.run.ops"), table.ops);
    await page.close();
  }

  async function keys(url) {
    const page = await open(`${url}#overview`);
    const press = async (...names) => {
      for (const name of names) await page.keyboard.press(name);
      await frames(page);
    };
    const view = () => page.evaluate("({ from: app.kept.timeline.from, to: app.kept.timeline.to })");
    const selected = () => page.evaluate("app.kept.timeline.selected && { start: app.kept.timeline.selected.slice.start, ops: app.run.labels[app.kept.timeline.selected.slice.label].ops.map((op) => op.name).join() }");
    await press("2");
    await page.waitForSelector("main .panel.timeline");
    equal("key 2", await page.evaluate("app.panel.id"), "timeline");
    const whole = await view();
    await press("w", "w");
    const zoomed = await view();
    holds("key w zooms", zoomed.to - zoomed.from < (whole.to - whole.from) * 0.6);
    await press("d");
    holds("key d moves", (await view()).from > zoomed.from);
    await press("0");
    holds("key 0 shows all", (await view()).to - (await view()).from >= whole.to * 0.98);
    await press("/");
    await page.keyboard.type("fc1/linear");
    await press("Enter");
    const hit = await selected();
    holds(`the search finds ${hit?.ops}`, hit?.ops.includes("fc1/linear"));
    holds("the search counts", /\d+ hits/.test(await page.$eval(".hits", (element) => element.innerText)));
    await page.screenshot({ path: path.join(shots, "timeline-search.png") });
    await page.focus(".stage canvas");
    await press(".");
    holds("key . goes on", (await selected()).start > hit.start);
    await press(",");
    equal("key , goes back", (await selected()).start, hit.start);
    await press("f");
    const near = await view();
    holds("key f zooms to the slice", near.from <= hit.start && near.to - near.from < 1e6);
    await frames(page);
    await page.screenshot({ path: path.join(shots, "timeline-selected.png") });
    await press("Escape");
    equal("key Escape", await selected(), null);
    await press("?");
    holds("key ? lists keys", await page.$("dialog[open]"));
    await page.screenshot({ path: path.join(shots, "keys.png") });
    await press("Escape");
    holds("key Escape closes the list", !(await page.$("dialog[open]")));
    await press("t", "t");
    equal("key t", await page.evaluate("document.documentElement.dataset.theme"), "dark");
    await press("t");
    await press("4");
    await page.waitForSelector("main .panel.ops");
    await press("/");
    await page.keyboard.type("conv1 relu");
    equal("the filter", await page.$$eval("tbody tr:not(.space)", (rows) => rows.length), 1);
    await page.focus(".scroller");
    await press("ArrowDown");
    holds("an arrow picks a row", await page.$("tr.picked"));
    await press("r");
    equal("key r", await page.evaluate("app.at"), 1);
    await page.close();
  }

  // A fused kernel lists its ops, and arrows lead from a run to its kernels and back.
  async function arrows(url) {
    const page = await open(`${url}#timeline`);
    const found = await page.evaluate(() => {
      const { view, run } = app;
      const of = (device, fits) => {
        for (const row of view.rows.filter((row) => row.kind === "slices" && row.device === device)) {
          for (let at = 0; at < row.lane.count; at++) {
            const slice = row.lane.slice(Math.floor(at / BLOCK), at % BLOCK);
            if (fits(run.labels[slice.label])) return { row, slice };
          }
        }
        return null;
      };
      const fused = of(true, (label) => label.ops?.length > 1);
      view.select(fused);
      const text = view.detail.innerText;
      const back = partners(view, fused).map(({ slice }) => run.labels[slice.label].kind);
      const first = of(false, (label) => label.kind === "run");
      view.zoom(first.slice.start - 20000, first.slice.start + 400000);
      view.select(first);
      return { ops: run.labels[fused.slice.label].ops.map((op) => text.includes(op.name) && text.includes(op.line)), back, kernels: partners(view, first).length };
    });
    equal("ops of a fused kernel", found.ops, [true, true]);
    equal("arrows back", found.back, ["run"]);
    equal("arrows of a run", found.kernels, 20);
    await frames(page);
    await page.screenshot({ path: path.join(shots, "timeline-arrows.png") });
    const box = await (await page.$(".stage canvas")).boundingBox();
    await page.mouse.move(box.x + 420, box.y + box.height / 2);
    await page.keyboard.down("Shift");
    await page.mouse.down();
    await page.mouse.move(box.x + 700, box.y + box.height / 2, { steps: 4 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    holds("a stretch is measured", /% busy/.test((await page.$eval(".timeline .detail", (element) => element.innerText)).replace(/\s/g, " ")));
    await page.close();
  }

  // A page whose slices never come shows blocks of them, and says that it lacks something.
  async function cut(url, [folder]) {
    const [whole, file] = ["whole", "cut"].map((name) => path.join(shots, `${name}.html`));
    await run(thalweg, ["view", "--export", whole, folder]);
    const text = fs.readFileSync(whole, "utf8");
    const late = text.lastIndexOf("<!--");
    holds("slices come behind the program", late > text.lastIndexOf("<script>"));
    fs.writeFileSync(file, text.slice(0, late));
    const page = await open(`file://${file}#timeline`, { ready: ".stage canvas", done: "app.status.textContent === 'incomplete'" });
    await frames(page);
    const blocks = await page.evaluate(() => {
      const { view } = app;
      const { lane } = view.rows.find((row) => row.device);
      view.search.value = "matmul";
      view.find();
      return { has: lane.has(0), count: lane.block(0).count, hits: view.hits.innerText, beside: lane.beside({ block: 0, nth: 0 }, 1), hit: view.hit(700, 200)?.slice ?? null };
    });
    equal("slices that never came", blocks, { has: false, count: 0, hits: "0 hits", beside: null, hit: null });
    const [there, lacking] = [await seen(await open(`file://${whole}#timeline`, { ready: ".stage canvas" })), await seen(page)];
    holds("blocks are drawn instead", lacking.drawn.length === 1 && lacking.drawn[0] !== there.drawn[0]);
    await page.screenshot({ path: path.join(shots, "cut.png") });
    // What failed is the reading of the data.
    for (let at = wrong.length - 1; at >= 0; at--) if (/The data end after \d+ of \d+ bytes/.test(wrong[at])) wrong.splice(at, 1);
    await page.close();
  }

  // Arrows pick steps one by one, and one alone is marked.
  async function steps(url) {
    const page = await open(`${url}#steps`);
    const marked = async () => (await seen(page)).drawn[0];
    const none = await marked();
    await page.keyboard.press("ArrowRight");
    await frames(page);
    const first = await marked();
    equal("the first step", await page.$eval(".steps .detail .title", (element) => element.firstChild.textContent), "Step 1");
    await page.keyboard.press("ArrowRight");
    await frames(page);
    equal("the second step", await page.$eval(".steps .detail .title", (element) => element.firstChild.textContent), "Step 2");
    holds("each is marked by itself", new Set([none, first, await marked()]).size === 3);
    await page.close();
  }

  async function size() {
    const server = await serve(thalweg, [large]);
    const began = performance.now();
    const page = await open(`${server.url}#timeline`, { ready: ".stage canvas" });
    await page.waitForFunction("app.view?.canvas?.cost > 0", { polling: 10 });
    const opened = Math.round(performance.now() - began);
    const costs = await page.evaluate(async () => {
      const { view } = app;
      const costs = [];
      for (let frame = 0; frame < 90; frame++) {
        if (frame === 30) view.zoom(view.end * 0.4, view.end * 0.45);
        if (frame === 60) view.zoom(view.end * 0.42, view.end * 0.421);
        if (frame < 15) view.zoomAt(700, 0.93);
        else view.pan(0.02);
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        costs.push(view.canvas.cost);
      }
      return costs.sort((a, b) => a - b);
    });
    const events = await page.evaluate("app.run.tracks.reduce((sum, track) => sum + track.lane.count, 0)");
    const [middle, late] = [costs[45], costs[85]];
    console.log(`page: ${events} events open in ${opened} ms; a frame takes ${middle.toFixed(1)} ms, 95 of 100 at most ${late.toFixed(1)} ms`);
    holds(`${events} events open in ${opened} ms, not ${OPENED}`, opened < OPENED && events >= 1e6);
    holds(`a frame takes ${middle} ms`, middle < FRAME);
    await show(page, "steps");
    await show(page, "memory");
    await page.screenshot({ path: path.join(shots, "memory-large.png") });
    await page.close();
    server.stop();
  }

  async function compares(folders) {
    const server = await serve(thalweg, folders);
    const page = await open(`${server.url}#compare`);
    const verdict = await page.$eval(".verdict", (element) => element.innerText);
    holds(`compare finds the slowed op: ${verdict}`, /slower most is Default\/conv2\/conv2d/.test(verdict));
    const first = await page.$eval("tbody tr:not(.space)", (row) => row.innerText);
    holds(`compare lists it first: ${first}`, first.startsWith("Default/conv2/conv2d"));
    await page.screenshot({ path: path.join(shots, "compare.png") });
    // A page whose server ends keeps what it shows.
    server.stop();
    await page.waitForFunction("app.status.textContent === 'server gone'", { timeout: 15000 });
    holds("the page stays", (await page.$eval(".verdict", (element) => element.innerText)) === verdict);
    // What failed is the question whether there is news.
    for (let at = wrong.length - 1; at >= 0; at--) if (wrong[at].includes("ERR_CONNECTION_REFUSED")) wrong.splice(at, 1);
    await page.close();
  }

  // A folder that is empty, a recording that begins there and grows, and a file that is none. The folder's name would be markup.
  async function grows() {
    const [folder, broken] = [fresh("<img src=x onerror=fail()>"), fresh("broken")];
    fs.writeFileSync(path.join(broken, "recording.tw"), "this is no recording");
    const server = await serve(thalweg, [folder, broken]);
    const page = await open(server.url);
    const text = () => page.$eval("main", (element) => element.innerText);
    holds("an empty folder says what to do", /No recording yet[^]*THALWEG_PROFILE/.test(await text()));
    await page.screenshot({ path: path.join(shots, "empty.png") });
    const whole = fs.readFileSync(path.join(made, "recording.tw"));
    const file = path.join(folder, "recording.tw");
    fs.writeFileSync(file, whole.subarray(0, whole.length / 2));
    await page.waitForFunction("app.run.kernels_run > 0", { timeout: 15000 });
    const half = await page.evaluate("app.run.kernels_run");
    fs.writeFileSync(file, whole);
    await page.waitForFunction(`app.run.kernels_run > ${half}`, { timeout: 15000 });
    equal("kernels of a recording that grew", await page.evaluate("app.run.kernels_run"), 2000 + 1);
    equal("live", await page.$eval(".status", (element) => element.textContent), "live");
    holds("texts of a run stay texts", (await text()).includes("<img src=x onerror=fail()>") && (await text()).includes("a processor <b>&amp;</b>"));
    equal("markup of a run", await page.$$eval("main img, main b", (found) => found.length), await page.$$eval("main .legend b", (found) => found.length));
    await page.keyboard.press("r");
    holds("a broken file says so", /cannot be read[^]*recording\.tw/.test(await text()));
    await page.screenshot({ path: path.join(shots, "broken.png") });
    await page.close();
    server.stop();
  }

  const timed = async (name, check) => {
    const began = performance.now();
    await check();
    console.log(`page: ${name}: ${Math.round((performance.now() - began) / 100) / 10} s`);
  };
  const folders = [made, slowed];
  const server = await serve(thalweg, folders);
  for (const [name, check] of Object.entries({ panels, slices, keys, arrows, steps, exported, cut, size, compares, grows })) {
    await timed(name, () => check(name === "compares" ? folders : server.url, folders));
  }
  const helpers = { open, show, frames, serve: (folders) => serve(thalweg, folders), fresh, noted, made, shots, equal, holds };
  for (const [name, check] of Object.entries(textChecks)) await timed(name, () => check(helpers, server.url));
  server.stop();
  const summaries = await serve(thalweg, [noted]);
  for (const [name, check] of Object.entries({ panels, exported })) await timed(`${name} of summaries`, () => check(summaries.url, [noted]));
  for (const [name, check] of Object.entries(summaryChecks)) await timed(name, () => check(helpers, summaries.url));
  summaries.stop();
}
