// The parts of a network, the calls in them and the primitives of these, folded and unfolded.

// Boxes that are drawn at once, and up to which the first view unfolds.
const MOST_BOXES = 300;
const FIRST_BOXES = 20;

function graphTree(nodes) {
  const make = (kind, name, above) => ({ kind, name, above, path: above ? `${above.path}/${name}` : "", inner: new Map(), nodes: [], first: Infinity, done: 0 });
  const root = make("scope", "all", null);
  const inside = (box, kind, name) => {
    const key = `${kind} ${name}`;
    if (!box.inner.has(key)) box.inner.set(key, make(kind, name, box));
    return box.inner.get(key);
  };
  for (const node of nodes) {
    let box = root;
    for (const part of node.scope) box = inside(box, "scope", part);
    box = inside(box, "call", node.call);
    box.calls = node.calls;
    const leaf = inside(box, "primitive", `${node.primitive || node.op} %${node.id}`);
    leaf.label = node.primitive || node.op;
    for (let at = leaf; at; at = at.above) {
      at.nodes.push(node);
      at.first = Math.min(at.first, node.id);
      at.done = Math.max(at.done, node.id);
    }
  }
  return root;
}

// A call of one primitive has nothing to unfold.
function unfolds(box) {
  return box.kind === "scope" ? box.inner.size > 0 : box.kind === "call" && box.inner.size > 1;
}

// Forward, backward and update, and boxes of one of them in the order in which they are done.
function inOrder(boxes) {
  const rank = (box) => ["Gradients", "Update"].indexOf(box.path.slice(1).split("/", 1)[0]);
  return boxes.sort((a, b) => rank(a) - rank(b) || a.done - b.done);
}

// The same, but each behind what it reads from, as far as parts do not read from each other in turn.
function sortedBoxes(all) {
  const boxes = inOrder([...all]);
  const edges = boxEdges(boxes);
  const waits = boxes.map(() => 0);
  const readers = boxes.map(() => []);
  for (const { from, to } of edges) {
    waits[to] += 1;
    readers[from].push(to);
  }
  const rest = new Set(boxes.keys());
  const sorted = [];
  while (rest.size) {
    // Of parts that read from each other in turn, the one that begins first.
    const turns = [...rest];
    const next = turns.find((at) => waits[at] === 0) ?? turns.reduce((a, b) => (boxes[b].first < boxes[a].first ? b : a));
    rest.delete(next);
    sorted.push(boxes[next]);
    for (const to of readers[next]) waits[to] -= 1;
  }
  return sorted;
}

// The boxes that are seen: what is open gives way to what is in it.
function seenBoxes(root, open) {
  const boxes = [];
  const walk = (box) => {
    if (box === root || (open.has(box.path) && unfolds(box))) for (const inner of box.inner.values()) walk(inner);
    else boxes.push(box);
  };
  walk(root);
  return inOrder(boxes);
}

// Parts are open at first, level by level, as long as few boxes are seen. A part in which there is one part alone is no level.
function firstOpen(root) {
  let open = new Set();
  for (;;) {
    const next = new Set(open);
    for (const box of seenBoxes(root, open)) {
      let at = box;
      while (at.kind === "scope") {
        next.add(at.path);
        const [inner] = at.inner.values();
        if (at.inner.size > 1 || inner.kind !== "scope") break;
        at = inner;
      }
    }
    if (next.size === open.size || seenBoxes(root, next).length > FIRST_BOXES) return open;
    open = next;
  }
}

function allOpen(root) {
  const open = new Set();
  const walk = (box) => {
    if (box.kind !== "scope") return;
    open.add(box.path);
    box.inner.forEach(walk);
  };
  walk(root);
  return open;
}

// Which boxes read from which, each pair once.
function boxEdges(boxes) {
  const of = new Map();
  boxes.forEach((box, at) => box.nodes.forEach((node) => of.set(node.id, at)));
  const edges = new Map();
  boxes.forEach((box, to) => {
    for (const node of box.nodes) {
      for (const id of node.from) {
        const from = of.get(id);
        if (from != null && from !== to) edges.set(from * boxes.length + to, { from, to });
      }
    }
  });
  return [...edges.values()];
}

// Device time by part and by call. Where a run has steps, it is that of a step.
class GraphTimes {
  constructor(run) {
    this.per = run.step_count ? run.step_count / Math.max(1, run.recordings.length) : 1;
    this.scopes = new Map();
    this.calls = new Map();
    this.total = 0;
    for (const row of run.ops) {
      const took = row.device.self_ns / this.per;
      if (!took) continue;
      this.total += took;
      const add = (map, key) => map.set(key, (map.get(key) ?? 0) + took);
      add(this.calls, `${row.scope} ${row.name} ${row.line}`);
      let path = "";
      for (const part of row.scope.split("/").filter(Boolean)) add(this.scopes, (path += `/${part}`));
    }
  }

  // The time of a box; calls of one op at one line share theirs.
  of(box, alike) {
    if (box.kind === "scope") return { time: this.scopes.get(box.path) ?? 0, shared: false };
    if (box.kind === "primitive") return { time: 0, shared: false };
    const key = callKey(box);
    return { time: (this.calls.get(key) ?? 0) / (alike.get(key) ?? 1), shared: alike.get(key) > 1 };
  }
}

function callKey(box) {
  return `${box.above.path.slice(1)} ${box.calls} ${box.nodes[0].line}`;
}

// How many calls of the whole graph are one op at one line.
function alikeCalls(root) {
  const alike = new Map();
  const walk = (box) => {
    if (box.kind === "call") alike.set(callKey(box), (alike.get(callKey(box)) ?? 0) + 1);
    else box.inner.forEach(walk);
  };
  walk(root);
  return alike;
}

// Dumps of a run: the values that calls returned, by the names of the calls.
function dumpsOf(run) {
  const dumps = [];
  for (const file of run.texts.dumps) {
    let read = null;
    try {
      read = JSON.parse(file.text);
    } catch {
      // It is none of ours.
    }
    if (read?.format !== 1 || !Array.isArray(read.values)) continue;
    const values = new Map();
    for (const value of read.values) {
      if (value?.io !== "output") continue;
      if (!values.has(value.name)) values.set(value.name, []);
      values.get(value.name).push(value);
    }
    const title = read.error ? "call that failed" : `iteration ${read.iteration}`;
    dumps.push({ title: `${title}, ${read.device ?? ""}`, file: file.name, values });
  }
  return dumps;
}

// What a dump has of a box, and how many elements of it are no numbers.
function dumpedOf(box, dump) {
  if (!dump || box.kind === "primitive") return null;
  if (box.kind === "call") {
    const values = dump.values.get(box.path.slice(1)) ?? [];
    return values.length ? dumpSums(values) : null;
  }
  const values = [];
  const walk = (inner) => (inner.kind === "call" ? values.push(...(dump.values.get(inner.path.slice(1)) ?? [])) : inner.inner.forEach(walk));
  walk(box);
  return values.length ? dumpSums(values) : null;
}

function dumpSums(values) {
  const sum = (name) => values.reduce((sum, value) => sum + (Number(value.statistics?.[name]) || 0), 0);
  return { values, nan: sum("nan"), inf: sum("inf"), overflows: values.some((value) => value.overflows) };
}
