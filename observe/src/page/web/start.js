// Where the data come from: they are in the page, or its server has them and says when they change.

const POLL = 1000;

async function fetched() {
  const answer = await fetch("data", { cache: "no-store" });
  if (!answer.ok) throw new Error(`The server answers: ${answer.status} ${await answer.text()}`);
  return parseData(await answer.arrayBuffer());
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
    live: ["live", "The program records; this page follows."],
    gone: ["server gone", "`thalweg view` has ended. What is shown stays."],
  }[what] ?? ["", ""];
  app.status.className = `status ${what ?? ""}`;
  app.status.textContent = text;
  app.status.title = title;
}

// The data that lie in the page in parts, which are not needed any more then.
function joined(elements) {
  const parts = elements.map((element) => {
    const part = fromBase64(element.textContent);
    element.remove();
    return part;
  });
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all.buffer;
}

async function begin() {
  const inside = [...document.querySelectorAll("script.data")];
  try {
    app.start(inside.length ? parseData(joined(inside)) : await fetched());
  } catch (error) {
    clear(document.getElementById("app"), empty("Nothing can be shown", command(String(error.message ?? error)), "Is `thalweg view` still running?"));
    throw error;
  }
  if (!inside.length) follow();
}

begin();
