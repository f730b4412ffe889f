// Where the data come from: they are in the page, or its server has them and says when they change.

const POLL = 1000;

async function fetched(started) {
  const answer = await fetch("data", { cache: "no-store" });
  if (!answer.ok) throw new Error(`The server answers: ${answer.status} ${await answer.text()}`);
  return receive(Number(answer.headers.get("Content-Length")), streamed(answer.body.getReader()), started);
}

async function* streamed(reader) {
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

// Follows recordings that grow. Reading them again takes at most a tenth of the time.
async function follow() {
  let [wait, quiet] = [POLL, 0];
  for (;;) {
    await new Promise((done) => setTimeout(done, wait));
    if (document.hidden) continue;
    try {
      const answer = await fetch("state", { cache: "no-store" });
      const state = await answer.text();
      if (state === app.index.state) {
        quiet += 1;
        wait = POLL;
        if (quiet === 5) status(null);
        continue;
      }
      const began = performance.now();
      app.renew(await fetched());
      quiet = 0;
      wait = Math.max(POLL, 9 * (performance.now() - began));
      status("live");
    } catch {
      status("gone");
      wait = 3 * POLL;
    }
  }
}

function status(what) {
  const [text, title] = {
    reading: ["reading …", "Slices come; until they are there, blocks of them are drawn."],
    cut: ["incomplete", "The data ended too early, so slices are missing. Load the page again."],
    live: ["live", "The program records; this page follows."],
    gone: ["server gone", "`thalweg view` has ended. What is shown stays."],
  }[what] ?? ["", ""];
  app.status.className = `status ${what ?? ""}`;
  app.status.textContent = text;
  app.status.title = title;
}

// The data that lie in the page, in comments. The first stand before this program. The browser reads the others while a first frame is
// drawn.
async function* inside() {
  yield* decoded();
  if (document.readyState === "loading") await new Promise((read) => addEventListener("DOMContentLoaded", read));
  yield* decoded();
}

// In turns, so that the page stays awake.
async function* decoded() {
  let began = performance.now();
  for (const comment of [...document.body.childNodes].filter((node) => node.nodeType === Node.COMMENT_NODE)) {
    yield fromBase64(comment.data);
    comment.remove();
    if (performance.now() - began < 50) continue;
    await new Promise((done) => setTimeout(done));
    began = performance.now();
  }
}

async function begin() {
  const data = document.getElementById("data");
  const started = (index) => {
    app.start(index);
    status("reading");
  };
  try {
    if (data) await receive(Number(data.dataset.all), inside(), started);
    else await fetched(started);
    status(null);
    app.complete();
  } catch (error) {
    // What is drawn stays.
    if (app.index) status("cut");
    else clear(document.getElementById("app"), empty("Nothing can be shown", command(String(error.message ?? error)), "Is `thalweg view` still running?"));
    throw error;
  }
  if (!data) follow();
}

begin();
