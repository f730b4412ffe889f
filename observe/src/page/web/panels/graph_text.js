// Saved graphs as they are written: `%3: f32[2] = mul %1 %2 # Default/head/mul-op1.mul-2 src/net.rs:12`.

// A call in a comment: its name, and its line where it has one.
function graphCall(comment) {
  const placed = comment.match(/^(.*?) (\S+\.rs:\d+)(?:, |$)/);
  return placed ? { name: placed[1], line: placed[2] } : { name: comment.split(", ", 1)[0], line: "" };
}

// Graphs of a file by their names, `main` and `@0`: nodes by number, and the numbers that it returns.
function graphSections(text) {
  const sections = new Map();
  let section = null;
  for (const line of text.split("\n")) {
    const head = line.match(/^graph (\S+)/);
    if (head) sections.set(head[1], (section = { nodes: new Map(), returns: [] }));
    else if (section && line.startsWith("return")) section.returns = [...line.matchAll(/%(\d+)/g)].map((match) => Number(match[1]));
    else if (section) {
      const node = line.match(/^%(\d+): (\S+) = (\S+)(.*)$/);
      if (!node) continue;
      const [, number, type, op, rest] = node;
      const at = rest.indexOf(" # ");
      const plain = at < 0 ? rest : rest.slice(0, at);
      const inputs = [...plain.matchAll(/ %(\d+)/g)].map((match) => Number(match[1]));
      const bodies = [...plain.matchAll(/=(@\d+)/g)].map((match) => match[1]);
      section.nodes.set(Number(number), { type, op, inputs, bodies, ...(at < 0 ? { name: "", line: "" } : graphCall(rest.slice(at + 3))) });
    }
  }
  return sections;
}

// The nodes of a graph in the order in which they can be computed, with what each needs. Inputs and constants are left out. The nodes of
// a loop's body stand behind the loop, once.
function parseGraph(text) {
  const sections = graphSections(text);
  const nodes = [];
  const known = new Set();
  let inputs = 0;
  const walk = (name, outer) => {
    const section = sections.get(name);
    // What is known by each number: nodes that others read it from.
    const ids = new Map();
    for (const [number, node] of section.nodes) {
      if (node.op === "input") {
        ids.set(number, outer == null ? [] : [outer]);
        if (outer == null) inputs += 1;
        continue;
      }
      const from = [...new Set(node.inputs.flatMap((input) => ids.get(input) ?? []))];
      if (node.op === "full" && !from.length) {
        ids.set(number, []);
        continue;
      }
      const id = nodes.length;
      nodes.push({ id, type: node.type, op: node.op, line: node.line, from, returned: false, ...graphName(node, number) });
      const ends = [id];
      for (const body of node.bodies) {
        if (known.has(body) || !sections.has(body)) continue;
        known.add(body);
        ends.push(...walk(body, id));
      }
      ids.set(number, ends);
    }
    const returned = section.returns.flatMap((number) => ids.get(number) ?? []);
    if (outer == null) for (const id of returned) nodes[id].returned = true;
    return returned;
  };
  if (sections.has("main")) walk("main", null);
  return { nodes, inputs };
}

// Where a node stands: the parts of the network, the call and the primitive of it.
function graphName(node, number) {
  const parts = node.name.split("/").filter(Boolean);
  const last = parts.pop() ?? "";
  const [, call, counted, primitive] = last.match(/^(.*?)(-op\d+)?(\.[^./]+-\d+)?$/);
  if (!call) return { scope: [], call: `${node.op} %${number}`, primitive: "", calls: node.op };
  // Calls that nobody counts are told apart by their number.
  return { scope: parts, call: counted ? call + counted : `${call} %${number}`, primitive: primitive?.slice(1) ?? "", calls: call };
}
