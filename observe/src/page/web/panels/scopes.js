// The parts of the network as a tree, with the time of forward, backward and update of each.

const KINDS = ["forward", "backward", "update", "other"];

// The part of the network that an op belongs to: that of its gradient and of its update is the same.
function partOf(scope) {
  const parts = scope.split("/").filter(Boolean);
  if (parts[0] === "Gradients" || parts[0] === "Update") parts.shift();
  if (parts[0] === "Default") parts.shift();
  return parts;
}

function scopeTree(run) {
  const node = (name, path) => ({ name, path, inner: new Map(), calls: 0, time: 0, forward: 0, backward: 0, update: 0, other: 0 });
  const root = node("all", "");
  for (const row of run.ops) {
    const took = row.device.self_ns;
    if (!took) continue;
    const kind = opPhase(row);
    const scope = partOf(row.scope);
    const path = kind === "other" && !scope.length ? ["outside of the network", row.name] : [...scope, `${row.name}`];
    let at = root;
    const add = (node) => {
      node.time += took;
      node[kind] += took;
      node.calls += row.calls;
    };
    add(at);
    path.forEach((name, depth) => {
      const leaf = depth === path.length - 1;
      const key = leaf ? `${name} ${row.line}` : name;
      if (!at.inner.has(key)) at.inner.set(key, { ...node(name, `${at.path}/${key}`), line: leaf ? row.line : "" });
      at = at.inner.get(key);
      add(at);
    });
  }
  return root;
}

function scopesPanel(app, root) {
  const { run } = app;
  const kept = (app.kept.scopes ??= { open: new Set([""]) });
  const tree = scopeTree(run);
  if (!tree.time) {
    clear(root, heading("Network"), empty("No part of a network has device time", "Layers of thalweg-nn name themselves. Parts of your own are named so:", command('let _scope = observe::scope("encoder");')));
    return {};
  }
  if (!kept.known) {
    kept.known = true;
    for (const inner of tree.inner.values()) if (inner.time > tree.time / 10) kept.open.add(inner.path);
  }
  const list = el("div", { class: "card tree", role: "tree", "aria-label": "Parts of the network" });
  const toggle = (path) => {
    if (!kept.open.delete(path)) kept.open.add(path);
    draw();
  };
  const line = (node, depth) => {
    const folded = !kept.open.has(node.path);
    const button = node.inner.size
      ? el("button", { type: "button", "aria-label": `${folded ? "Open" : "Close"} ${node.name}`, onclick: () => toggle(node.path) }, folded ? "▸" : "▾")
      : el("span", { class: "leafed" });
    const own = KINDS.map((kind) => [kind, node[kind]]).filter(([, value]) => value > 0);
    const bar = el("div", { class: "parts", title: own.map(([kind, value]) => `${kind} ${time(value)}`).join(", ") }, own.map(([kind, value]) => el("span", { style: { width: `${(value / tree.time) * 100}%`, background: `var(--${kind})` } })));
    return el(
      "div",
      { class: `node${node.inner.size ? "" : " op"}`, role: "treeitem", "aria-level": depth + 1, "aria-expanded": node.inner.size ? String(!folded) : null, ondblclick: () => node.inner.size && toggle(node.path) },
      el("div", { class: "label", style: { paddingLeft: `${depth * 18}px` } }, button, el("span", { class: "name", title: node.line ? `${node.name}  ${node.line}` : node.name }, node.name)),
      bar,
      el("span", { class: "value" }, time(node.time)),
      el("span", { class: "right" }, percent(node.time / tree.time)),
      el("span", { class: "right" }, count(node.calls)),
    );
  };
  const draw = () => {
    const lines = [];
    const walk = (node, depth) => {
      lines.push(line(node, depth));
      if (!kept.open.has(node.path)) return;
      for (const inner of [...node.inner.values()].sort((a, b) => b.time - a.time)) walk(inner, depth + 1);
    };
    walk(tree, 0);
    const head = el("div", { class: "node head" }, el("span", { class: "label" }, "Part of the network"), el("span", {}, "Device time"), el("span", { class: "right" }, "Time"), el("span", { class: "right" }, "Share"), el("span", { class: "right" }, "Calls"));
    clear(list, head, lines);
  };
  const all = () => {
    const walk = (node) => {
      if (node.inner.size) kept.open.add(node.path);
      node.inner.forEach(walk);
    };
    walk(tree);
    draw();
  };
  const none = () => {
    kept.open = new Set([""]);
    draw();
  };
  const tools = [el("button", { type: "button", class: "action", onclick: all }, "Unfold all"), el("button", { type: "button", class: "action", onclick: none }, "Fold all")];
  const legend = partsLegend(KINDS.map((kind) => [kind, tree[kind]]), (value) => percent(value / tree.time));
  clear(root, heading("Network", "The parts of the network and their ops. Forward, backward and update of a part stand together.", tools), legend, list);
  draw();
  return {};
}

panels.push({ id: "scopes", title: "Network", make: scopesPanel });
