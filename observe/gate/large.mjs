// Opens a recording of ten million kernels in Chromium, served and as a file, and says how long each takes.
//
//   node large.mjs TOOLS CHROMIUM THALWEG FOLDER
//
// FOLDER has the recording; the page is exported into it.

import { spawn } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const [tools, chromium, thalweg, folder] = process.argv.slice(2);
const { default: puppeteer } = await import(createRequire(path.join(tools, "x.js")).resolve("puppeteer-core"));

// Milliseconds that it may take until all is there, and how often it is measured.
const OPENED = 2000;
const TURNS = 5;

// Runs `thalweg view`, until it ends or says where it listens.
function view(...args) {
  const [child, began] = [spawn(thalweg, ["view", ...args, folder], { stdio: ["ignore", "pipe", "inherit"] }), performance.now()];
  process.on("exit", () => child.kill());
  return new Promise((done, failed) => {
    child.stdout.on("data", (text) => {
      const url = String(text).match(/http:\S+/)?.[0];
      if (url) done({ url, child, took: performance.now() - began });
    });
    child.on("exit", (code) => (code ? failed(new Error(`thalweg view ended with ${code}`)) : done({ took: performance.now() - began })));
  });
}

// Notes at each frame whether there is a picture, and whether all slices are there, in milliseconds since the page was asked for.
function watch() {
  const times = (globalThis.times = {});
  const look = () => {
    if (typeof app !== "undefined" && app.view) {
      if (app.view.canvas?.cost > 0) times.frame ??= performance.now();
      if (app.whole) times.whole ??= performance.now();
    }
    if (!times.frame || !times.whole) requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

async function open(browser, url) {
  const page = await browser.newPage();
  await page.evaluateOnNewDocument(watch);
  await page.goto(`${url}#timeline`);
  await page.waitForFunction("globalThis.times?.frame && globalThis.times.whole", { polling: 20 });
  const found = await page.evaluate("({ ...times, events: app.run.tracks.reduce((sum, track) => sum + track.lane.count, 0) })");
  await page.close();
  return found;
}

const file = path.join(folder, "page.html");
const size = (file) => `${(fs.statSync(file).size / 1e6).toFixed(1)} MB`;
const [exported, served] = [await view("--export", file), await view("--port", "0")];
console.log(`the recording has ${size(path.join(folder, "recording.tw"))}; the page is written in ${(exported.took / 1000).toFixed(1)} s with ${size(file)}; a server reads it in ${(served.took / 1000).toFixed(1)} s`);
const browser = await puppeteer.launch({
  executablePath: chromium,
  headless: true,
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  defaultViewport: { width: 1360, height: 860 },
});
let late = 0;
try {
  const ways = [["served", served.url, []], ["as a file", `file://${file}`, []]];
  for (let turn = 0; turn < TURNS; turn++) for (const [, url, found] of ways) found.push(await open(browser, url));
  for (const [way, , found] of ways) {
    const of = (what) => found.map((one) => one[what]).sort((a, b) => a - b);
    const [frames, wholes] = [of("frame"), of("whole")];
    const middle = wholes[TURNS >> 1];
    const range = (times) => `${Math.round(times[0])} to ${Math.round(times.at(-1))} ms`;
    console.log(`${way}: ${found[0].events} events; first frame after ${range(frames)}, all slices after ${range(wholes)}`);
    if (middle > OPENED || found[0].events < 1e7) late += 1;
  }
} finally {
  await browser.close();
  served.child.kill();
}
if (late) console.error(`it should be open after ${OPENED} ms`);
process.exit(late ? 1 : 0);
