// The panels of logs and graphs: `observe/examples/written.rs` writes them beside the recordings of `made`.

import fs from "node:fs";
import path from "node:path";

const LOG = "rank_0/logs/thalweg.host.me.log.DEBUG.20261120-133600-000000.4711";
// Drawing a graph of 4000 nodes may take so many milliseconds.
const DRAWN = 400;

const plain = (text) => text.replace(/\s/g, " ");

async function logs(at, url) {
  const page = await at.open(`${url}#logs`);
  const said = () => page.$eval(".logs .count", (element) => element.textContent);
  const choose = (name) => page.evaluate((name) => [...document.querySelectorAll(".logs .choice button")].find((button) => button.textContent === name).click(), name);
  at.equal("lines of the log", await said(), "600 lines");
  const first = await page.$eval("tbody tr:not(.space)", (row) => row.innerText);
  at.holds(`the first line is first: ${first}`, /13:36:00\.000\.000\s+DEBUG\s+GRAPH\s+line 0 <b>of the log<\/b>/.test(first));
  at.equal("markup of the log", await page.$$eval("main b, main img", (found) => found.length), 0);
  await choose("Error");
  at.equal("errors", await said(), "60 lines");
  await choose("Warning");
  at.equal("warnings and errors", await said(), "120 lines");
  await page.select(".logs select", "LOADER");
  at.equal("of a module", await said(), "60 lines");
  await page.keyboard.press("/");
  await page.keyboard.type("line 13");
  at.equal("that say something", await said(), "7 of 60 lines");
  await page.focus(".scroller");
  await page.keyboard.press("ArrowDown");
  const detail = plain(await page.$eval(".detail", (element) => element.innerText));
  at.holds(`a line is shown whole: ${detail}`, detail.includes("line 13 <b>of the log</b>") && detail.includes("2026-11-20 13:36:00.130.000") && detail.includes("4712"));
  await at.frames(page);
  await page.screenshot({ path: path.join(at.shots, "logs-picked.png") });
  await page.close();
}

// A log that grows, in a folder that has nothing else.
async function grows(at) {
  const folder = at.fresh("logs alone");
  const whole = fs.readFileSync(path.join(at.made, LOG), "utf8");
  const file = path.join(folder, path.basename(LOG));
  // The last line is being written.
  fs.writeFileSync(file, whole.slice(0, whole.length / 2));
  const server = await at.serve([folder]);
  const page = await at.open(server.url);
  at.equal("panels of a folder with a log", await page.evaluate("app.shownPanels().map((panel) => panel.id)"), ["logs"]);
  const lines = () => page.$eval(".logs .count", (element) => Number.parseInt(element.textContent, 10));
  const half = await lines();
  at.holds(`half of a log has ${half} lines`, half > 200 && half < 400);
  await page.keyboard.press("/");
  await page.keyboard.type("<b>");
  fs.writeFileSync(file, whole);
  await page.waitForFunction("app.view && document.querySelector('.logs .count').textContent === '600 lines'", { timeout: 15000 });
  at.equal("what was typed stays", await page.$eval(".logs input", (input) => input.value), "<b>");
  await page.close();
  server.stop();
}

// Whether no two boxes lie over each other, and lines lead from upper boxes to lower ones.
const placed = (page) =>
  page.evaluate(() => {
    const found = [];
    const boxes = [...document.querySelectorAll(".graphbox")].map((box) => box.getBoundingClientRect());
    boxes.forEach((one, at) => boxes.slice(at + 1).forEach((two) => Math.min(one.right, two.right) - Math.max(one.left, two.left) > 1 && Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > 1 && found.push("boxes lie over each other")));
    const view = graphView;
    for (const edge of view.edges) if (edge.from < edge.to && view.layout.points[edge.from].y >= view.layout.points[edge.to].y) found.push("a line leads up");
    for (const text of document.querySelectorAll(".graphbox > span")) if (text.scrollWidth > text.clientWidth + 1) found.push(`${text.innerText} does not fit`);
    return found;
  });

async function graph(at, url) {
  const page = await at.open(`${url}#graph`);
  const boxes = () => page.$$eval(".graphbox", (found) => found.map((box) => box.getAttribute("aria-label")));
  const text = (label) => page.evaluate((label) => document.querySelector(`.graphbox[aria-label^="${label}"]`)?.innerText.replace(/\s+/g, " ") ?? "", label);
  const press = async (...names) => {
    for (const name of names) await page.keyboard.press(name);
    await at.frames(page);
  };
  at.holds("the traced graph comes first", (await page.$eval("select[aria-label=Graph]", (select) => select.selectedOptions[0].textContent)) === "step, traced");
  at.equal("places of the first view", await placed(page), []);
  at.holds("the first view is folded by part", (await boxes()).some((label) => label.startsWith("Default/conv2, 3 nodes, folded")));
  at.equal("markup of names", await page.$$eval("main img, main b", (found) => found.length), 0);
  at.holds("names stay texts", (await page.$eval("main", (main) => main.innerText)).includes("<img src=x onerror=fail()>"));
  // The time of a part is the sum of its ops, a step.
  const table = JSON.parse(fs.readFileSync(path.join(at.made, "op_table.json"), "utf8"));
  const conv2 = table.ops.filter((row) => row.scope === "Default/conv2").reduce((sum, row) => sum + row.device.self_ns, 0);
  const shown = await page.evaluate((sum) => time(sum / app.run.step_count).replaceAll(THIN, " "), conv2);
  at.holds(`conv2 takes ${shown}: ${await text("Default/conv2")}`, (await text("Default/conv2")).includes(shown));
  // The slowed run stands beside it.
  const [a, b] = await page.$$eval('.graphbox[aria-label^="Default/conv2"] .track span', (bars) => bars.map((bar) => Number.parseFloat(bar.style.width)));
  at.holds(`the slowed run is beside it: ${a} and ${b}`, b > 1.3 * a);
  // The last dump has NaN behind the first layer.
  at.holds(`NaN is shown: ${await text("Default/conv2")}`, (await text("Default/conv2")).includes("6 NaN"));
  at.holds("and not where there is none", !(await text("Default/conv1")).includes("NaN"));
  await page.focus('.graphbox[aria-label^="Default/conv2"]');
  await press("Enter");
  at.holds("Enter unfolds", (await boxes()).some((label) => label.startsWith("Default/conv2/conv2d-op3, 2 nodes, folded")));
  at.equal("places of an unfolded part", await placed(page), []);
  await press("Enter");
  at.holds("and once more", (await boxes()).some((label) => label.startsWith("Default/conv2/conv2d-op3/matmul-2")));
  await press("ArrowDown");
  at.holds("an arrow goes on", (await page.evaluate("document.activeElement.getAttribute('aria-label')")).includes("matmul-2"));
  await press("Backspace", "Backspace");
  at.holds("Backspace folds", (await boxes()).some((label) => label.startsWith("Default/conv2, 3 nodes, folded")));
  await page.select("select[aria-label=Dump]", await page.$eval("select[aria-label=Dump] option", (option) => option.value));
  at.holds("another dump has no NaN", !(await text("Default/conv2")).includes("NaN"));
  await page.focus("input[aria-label='Find in the graph']");
  await page.keyboard.type("conv2 relu");
  await press("Enter");
  const detail = plain(await page.$eval(".graph .detail", (element) => element.innerText));
  at.holds(`the search finds a call: ${detail}`, detail.includes("Default/conv2/relu-op4") && detail.includes("src/net.rs:43") && detail.includes("-5") && /time in made/.test(detail));
  await page.screenshot({ path: path.join(at.shots, "graph-call.png") });
  const began = await page.evaluate(() => {
    const began = performance.now();
    const select = document.querySelector("select[aria-label=Graph]");
    select.value = [...select.options].find((option) => option.textContent === "large, program").value;
    select.dispatchEvent(new Event("change"));
    return performance.now() - began;
  });
  console.log(`page: a graph of 4003 nodes is drawn in ${began.toFixed(0)} ms`);
  at.holds(`a large graph takes ${began} ms`, began < DRAWN);
  at.equal("places of a large graph", await placed(page), []);
  await page.evaluate("[...document.querySelectorAll('.graph .tools button')].find((button) => button.textContent === 'Unfold parts').click()");
  at.holds("not all boxes are drawn", /more are not drawn/.test(await page.$eval(".graphabout", (element) => element.textContent)) && (await boxes()).length === 300);
  at.equal("places of 300 boxes", await placed(page), []);
  await page.screenshot({ path: path.join(at.shots, "graph-large.png") });
  await page.close();
}

export const textChecks = { logs, "logs that grow": grows, graph };
