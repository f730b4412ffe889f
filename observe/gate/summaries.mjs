// The panels of what trainings noted: `observe/examples/noted.rs` writes it.

import fs from "node:fs";
import path from "node:path";

// A page that keeps what is written on its canvases.
async function written(at, url) {
  const page = await at.open(url);
  await page.evaluate(() => {
    globalThis.words = [];
    const { fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
      globalThis.words.push(text);
      return fillText.call(this, text, ...rest);
    };
  });
  page.words = async () => {
    await at.frames(page);
    return page.evaluate("globalThis.words.splice(0).map((word) => word.replaceAll(THIN, ' '))");
  };
  page.press = async (...names) => {
    for (const name of names) await page.keyboard.press(name);
    await at.frames(page);
  };
  page.tip = () => page.evaluate("tip.element && !tip.element.hidden ? tip.element.innerText.replaceAll(THIN, ' ') : ''");
  page.drawn = (nth) => page.evaluate((nth) => hash(document.querySelectorAll("main canvas")[nth].toDataURL()), nth);
  page.has = async (what, words) => {
    const found = await page.words();
    const missing = words.filter((word) => !found.includes(word));
    at.equal(`${what}: missing on the canvas`, missing, []);
  };
  page.choose = (name) => page.evaluate((name) => [...document.querySelectorAll("main button, main option")].find((button) => button.textContent === name).click(), name);
  return page;
}

const chart = (tag) => `canvas[aria-label^="${tag} "]`;

async function scalars(at, url) {
  const page = await written(at, `${url}#scalars`);
  const rows = await page.evaluate("app.index.summaries.map((summary) => summary.scalars.map((row) => [row.tag, row.seen, row.steps.length, Math.max(...row.values.filter(Number.isFinite))]))");
  const norm = rows[0].find(([tag]) => tag === "gradient/norm");
  at.equal("points of the long scalar", [norm[1], norm[2] > 9000 && norm[2] <= 10000, norm[3]], [30000, true, 40]);
  at.equal("points of the loss", rows[1].find(([tag]) => tag === "loss/auto").slice(1, 3), [600, 600]);
  at.holds("names stay texts", (await page.$eval("main", (main) => main.innerText)).includes("<img src=x onerror=fail()>"));
  at.equal("markup of names", await page.$$eval("main img, main b", (found) => found.length), 0);
  await page.focus(chart("eval/accuracy"));
  await page.press("End");
  at.holds(`End shows the last point: ${await page.tip()}`, /^step 600\s+adam\s+0\.9978\s+sgd <b>\s+0\.9552\s+after\s/.test(await page.tip()));
  await page.press("ArrowLeft");
  at.holds("an arrow goes to the point before", (await page.tip()).startsWith("step 540"));
  await page.words();
  await page.press("x");
  await page.has("along time", ["time since the begin, s", "100"]);
  await page.press("x");
  await page.has("along the clock", ["clock"]);
  await page.press("x", "l");
  await page.has("logarithmic", ["step", "0.001", "1.00e-6", "no value above 0"]);
  await page.press("l");
  await page.has("linear", ["step", "200", "0.8", "40"]);
  // The pointer at the one extreme among 30,000 points.
  const place = await page.$eval(chart("gradient/norm"), (canvas) => {
    canvas.scrollIntoView({ block: "center" });
    const box = canvas.getBoundingClientRect();
    return [box.left + 66 + ((box.width - 78) * 12345) / 30000, box.top + 40];
  });
  await page.mouse.move(...place);
  await at.frames(page);
  at.holds(`the pointer finds the extreme: ${await page.tip()}`, /^step 12 345\s+adam\s+40\s/.test(await page.tip()));
  await page.screenshot({ path: path.join(at.shots, "scalars-pointer.png") });
  await page.mouse.move(2, 2);
  const nth = await page.evaluate((selector) => [...document.querySelectorAll("main canvas")].indexOf(document.querySelector(selector)), chart("loss/auto"));
  const rough = await page.drawn(nth);
  await page.focus(".slider input");
  await page.press("End");
  at.equal("smoothing", await page.$eval(".slider output", (output) => output.textContent), "0.99");
  at.holds("smoothing draws another curve", (await page.drawn(nth)) !== rough);
  // By hand: (1 + 2 · 2) / 3, and (1 + 2 · 2 + 4 · 4) / 7.
  at.equal("smoothed", await page.evaluate("smoothed([1, 2, NaN, 4], 0.5).map((value) => String(Math.round(value * 1000) / 1000))"), ["1", "1.667", "NaN", "3"]);
  await page.press("Home");
  await page.click(".runswitch");
  await page.focus(chart("eval/accuracy"));
  await page.press("Home");
  at.holds(`a run is hidden: ${await page.tip()}`, /^step 60\s+sgd <b>\s+0\.3333\s+after/.test(await page.tip()));
  await page.click(".runswitch");
  await page.type("input[type=search]", "rate LEARN");
  at.equal("the filter", await page.$$eval("main canvas", (found) => found.length), 1);
  await page.click(".box .plain");
  await at.frames(page);
  at.holds("a chart grows", await page.$eval("main canvas", (canvas) => canvas.clientWidth > 1000 && canvas.clientHeight > 300));
  await page.close();
}

async function histograms(at, url) {
  const page = await written(at, `${url}#histograms`);
  await page.focus(chart("features"));
  await page.press("Home");
  await page.has("the distribution at the first step", ["step 1, 2 000 values", "count", "value"]);
  at.holds(`a note on the step: ${await page.tip()}`, /^step 1\s+values\s+2 000/.test(await page.tip()));
  await page.press("ArrowRight", "ArrowRight");
  await page.has("two steps on", ["step 41, 2 000 values"]);
  const heat = await page.drawn(0);
  await page.choose("Ridges");
  await page.has("ridges", ["step", "value", "1", "81"]);
  at.holds("ridges are drawn", (await page.drawn(0)) !== heat);
  at.equal("the step stays", await page.evaluate("app.kept.histograms.chosen.get('adam: features').step"), 41);
  await page.screenshot({ path: path.join(at.shots, "histograms-ridges.png") });
  // All values of a step are in its cells, wherever its buckets end.
  const sums = await page.evaluate("app.index.summaries.flatMap((summary) => summary.histograms.flatMap((row) => row.frames.map((frame) => spread(frame, -7, 9, 96).reduce((sum, share) => sum + share, 0))))");
  at.holds("shares of a step", sums.length === 120 && sums.every((sum) => Math.abs(sum - 1) < 1e-9));
  await page.close();
}

async function images(at, url) {
  const page = await written(at, `${url}#images`);
  const seen = () => page.$$eval("main img", (all) => all.map((image) => [image.alt, image.naturalWidth, image.src.slice(0, 22)]));
  at.equal("the newest images", (await seen())[0], ["images/ring, step 600", 32, "data:image/png;base64,"]);
  const last = await page.$eval("main img", (image) => image.src);
  await page.focus(".slider input");
  await page.press("Home", "ArrowRight");
  await page.waitForFunction("[...document.querySelectorAll('main img')].every((image) => image.complete)");
  at.equal("images of the second step", (await seen()).map(([alt, width]) => [alt, width]), [["images/ring, step 120", 32], ["images/ring, step 120", 32], ["input_data/auto, step 120", 64], ["input_data/auto, step 120", 64]]);
  at.holds("another picture", (await page.$eval("main img", (image) => image.src)) !== last);
  await page.choose("Large");
  at.holds("large images", await page.$eval("main img", (image) => image.clientWidth >= 500));
  await page.close();
}

async function lineage(at, url) {
  const page = await written(at, `${url}#lineage`);
  const cells = () => page.$$eval("tbody tr:not(.space)", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));
  const heads = await page.$$eval("th", (heads) => heads.map((head) => head.innerText));
  at.equal("what differs", heads, ["Run", "eval/accuracy", "trial", "last_loss", "optimizer"]);
  at.equal("runs", (await cells()).map((row) => [row[0], row[4]]), [["adam", "Adam"], ["sgd <b>", "Sgd"]]);
  await page.click("th:nth-child(4) button");
  at.equal("sorted by the loss", (await cells()).map(([name]) => name), ["sgd <b>", "adam"]);
  await page.choose("All");
  at.equal("the order stays", (await cells()).map(([name]) => name), ["sgd <b>", "adam"]);
  await page.focus(".scroller");
  await page.press("ArrowDown");
  const detail = await page.$eval(".detail", (element) => element.innerText);
  at.holds(`a row shows all: ${detail}`, ["a <b>name</b>", "cross_entropy", '"shuffle":1', "0.001"].every((word) => detail.includes(word)));
  at.equal("markup of lineage", await page.$$eval("main b", (found) => found.length), 0);
  await page.screenshot({ path: path.join(at.shots, "lineage-all.png") });
  await page.close();
}

async function landscape(at, url) {
  const page = await written(at, `${url}#landscape`);
  await page.focus("main canvas");
  await page.press("End");
  at.holds(`the end of the way: ${await page.tip()}`, /^step 595\s+loss\s+0\.0\d+\s+first direction\s+0\s/.test(await page.tip()));
  await page.has("the contour", ["along the first direction", "along the second direction", "loss", "595"]);
  // Between the points of the grid, the loss is that of the formula to a hundredth of its range.
  const off = await page.evaluate(() => {
    const { landscapes: [plane] } = app.index.summaries[0];
    const relief = new Relief(plane, false);
    const loss = (x, y) => 0.05 + 0.2 * (x * x + 2 * y * y) + 0.25 * (1 - Math.cos(2 * x) * Math.cos(3 * y));
    let most = 0;
    for (let at = 0; at < 1000; at++) {
      const [x, y] = [-4 + 6 * ((at * 0.618) % 1), -2 + (4 * at) / 1000];
      most = Math.max(most, Math.abs(relief.at(x, y) - loss(x, y)));
    }
    const level = 1.5;
    const worst = isolines(relief, level).flat().reduce((worst, [x, y]) => Math.max(worst, Math.abs(relief.at(x, y) - level)), 0);
    return [most / (relief.high - relief.low), worst];
  });
  at.holds(`the loss between points is off by ${off}`, off[0] < 0.01 && off[1] < 1e-9);
  const [above, surface] = [await page.drawn(0), await page.drawn(1)];
  await page.focus("canvas.surface");
  await page.press("ArrowLeft", "ArrowUp");
  await page.has("the surface", ["first direction", "second direction", "loss", "595"]);
  at.holds("arrows turn the surface", (await page.drawn(1)) !== surface);
  await page.choose("Log");
  await page.has("logarithmic losses", ["0.1", "0.5", "5"]);
  at.holds("colours follow the logarithm", (await page.drawn(0)) !== above);
  await page.select("main select", "sgd <b>: result");
  at.equal("another landscape", await page.$eval("main select", (select) => select.value), "sgd <b>: result");
  at.holds("it is told what it shows", /smallest loss[^]*40 × 40/.test(await page.$eval("main", (main) => main.innerText)));
  await page.close();
}

// Summaries that begin in an empty folder and grow, beside a recording, and with a file that is broken.
async function notedLive(at) {
  const folder = at.fresh("noted-live");
  const server = await at.serve([folder]);
  const page = await at.open(server.url);
  const text = () => page.$eval("main", (main) => main.innerText);
  at.holds("an empty folder says how to note values", /SummaryCollector::to/.test(await text()));
  const from = path.join(at.noted, "adam");
  const events = fs.readdirSync(from).find((name) => name.includes("tfevents"));
  const whole = fs.readFileSync(path.join(from, events));
  fs.writeFileSync(path.join(folder, events), whole.subarray(0, 30000));
  await page.waitForFunction("app.panel.id === 'scalars'", { timeout: 15000 });
  const steps = () => page.evaluate("app.index.summaries[0].scalars.find((row) => row.tag === 'loss/auto').steps.at(-1)");
  const before = await steps();
  fs.writeFileSync(path.join(folder, events), whole);
  await page.waitForFunction(`app.index.summaries[0].scalars.find((row) => row.tag === "loss/auto").steps.at(-1) > ${before}`, { timeout: 15000 });
  at.equal("new events appear", await steps(), 600);
  at.equal("live", await page.$eval(".status", (element) => element.textContent), "live");
  fs.writeFileSync(path.join(folder, "events.out.tfevents.broken"), "this is no event file, and long enough to see");
  await page.waitForFunction("/checksum/.test(document.querySelector('.notes')?.innerText)", { timeout: 15000 });
  at.holds("a broken file says so, and the others are shown", /events\.out\.tfevents\.broken: byte 0/.test(await text()) && (await page.$("main canvas")));
  await page.screenshot({ path: path.join(at.shots, "noted-broken.png") });
  fs.copyFileSync(path.join(at.made, "recording.tw"), path.join(folder, "recording.tw"));
  await page.waitForFunction("app.shownPanels().some((panel) => panel.id === 'timeline')", { timeout: 15000 });
  at.equal("the panel stays", await page.evaluate("app.panel.id"), "scalars");
  await at.show(page, "overview");
  at.holds("the recording is shown too", (await text()).includes("Kernels and copies"));
  await page.close();
  server.stop();
}

export const summaryChecks = { scalars, histograms, images, lineage, landscape, notedLive };
