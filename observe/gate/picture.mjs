// Draws the picture of the documents: the timeline of a training, with a fused kernel picked.
//
//   node picture.mjs TOOLS CHROMIUM PAGE.html PICTURE.png

import path from "node:path";
import { createRequire } from "node:module";

const [tools, chromium, file, picture] = process.argv.slice(2);
const { default: puppeteer } = await import(createRequire(path.join(tools, "x.js")).resolve("puppeteer-core"));
const browser = await puppeteer.launch({
  executablePath: chromium,
  headless: true,
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  defaultViewport: { width: 1280, height: 720 },
});
const page = await browser.newPage();
await page.goto(`file://${path.resolve(file)}#timeline`);
await page.waitForFunction("app.whole && app.view?.canvas?.cost > 0");
await page.evaluate(() => {
  const { view, run } = app;
  // A step that is usual: neither the first, nor one during which something else ran.
  const steps = [...run.steps.time.keys()].slice(3, 60).map((at) => ({ start: run.steps.start[at], time: run.steps.time[at] }));
  const middle = median(steps.map((step) => step.time));
  const step = steps.reduce((a, b) => (Math.abs(b.time - middle) < Math.abs(a.time - middle) ? b : a));
  view.zoom(step.start - step.time * 0.25, step.start + step.time * 1.3);
  let best = null;
  for (const row of view.rows.filter((row) => row.kind === "slices" && row.device)) {
    for (let at = row.lane.seek(step.start); at < row.lane.blocks && row.lane.starts[at] < step.start + step.time; at++) {
      const { count } = row.lane.block(at);
      for (let nth = 0; nth < count; nth++) {
        const slice = row.lane.slice(at, nth);
        const inside = slice.start > step.start && slice.end < step.start + step.time;
        const ops = run.labels[slice.label].ops?.length ?? 0;
        if (inside && ops === 3 && (!best || slice.end - slice.start > best.slice.end - best.slice.start)) best = { row, slice };
      }
    }
  }
  if (best) view.select(best);
});
await new Promise((done) => setTimeout(done, 300));
await page.screenshot({ path: picture });
await browser.close();
