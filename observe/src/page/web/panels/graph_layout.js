// Places of boxes: in layers from top to bottom, each below what it reads from, near the ones that it is joined with.

const BOX = { width: 216, height: 66, gapX: 22, gapY: 46, bend: 14 };

function layoutGraph(count, edges) {
  // Folded parts may read from each other in turn. What leads back is drawn, but moves nothing.
  const forward = edges.filter((edge) => edge.from < edge.to);
  const layer = new Array(count).fill(0);
  const reads = Array.from({ length: count }, () => []);
  for (const edge of forward) reads[edge.to].push(edge.from);
  for (let at = 0; at < count; at++) for (const from of reads[at]) layer[at] = Math.max(layer[at], layer[from] + 1);
  // Long edges bend at a point of each layer between.
  const points = layer.map((at, box) => ({ layer: at, box, width: BOX.width, up: [], down: [], x: 0 }));
  const ways = new Map();
  for (const edge of forward) {
    const way = [points[edge.from]];
    for (let at = layer[edge.from] + 1; at < layer[edge.to] && points.length < 6000; at++) {
      const bend = { layer: at, box: null, width: BOX.bend, up: [], down: [], x: 0 };
      points.push(bend);
      way.push(bend);
    }
    way.push(points[edge.to]);
    for (let at = 1; at < way.length; at++) {
      way[at - 1].down.push(way[at]);
      way[at].up.push(way[at - 1]);
    }
    ways.set(edge, way);
  }
  const layers = [];
  for (const point of points) (layers[point.layer] ??= []).push(point);
  for (let at = 0; at < layers.length; at++) layers[at] ??= [];
  const middle = (others) => others.reduce((sum, other) => sum + other.x, 0) / others.length;
  const place = (row) => {
    let x = 0;
    for (const point of row) {
      point.x = x + point.width / 2;
      x += point.width + BOX.gapX;
    }
  };
  layers.forEach(place);
  // Neighbours decide the order in a layer, downwards and upwards in turn.
  for (let turn = 0; turn < 8; turn++) {
    const side = turn % 2 ? "down" : "up";
    const order = turn % 2 ? [...layers].reverse() : layers;
    for (const row of order) {
      const wanted = new Map(row.map((point) => [point, point[side].length ? middle(point[side]) : point.x]));
      row.sort((a, b) => wanted.get(a) - wanted.get(b));
      place(row);
    }
  }
  // Each goes towards its neighbours as far as those beside it allow.
  for (let turn = 0; turn < 24; turn++) {
    const order = turn % 2 ? [...layers].reverse() : layers;
    for (const row of order) settle(row, (point) => {
      const near = [...point.up, ...point.down];
      return near.length ? middle(near) : point.x;
    });
  }
  const left = points.length ? Math.min(...points.map((point) => point.x - point.width / 2)) : 0;
  for (const point of points) {
    point.x -= left;
    point.y = point.layer * (BOX.height + BOX.gapY);
  }
  const width = points.length ? Math.max(...points.map((point) => point.x + point.width / 2)) : 0;
  return { points: points.slice(0, count), ways, width, height: layers.length * (BOX.height + BOX.gapY) - BOX.gapY };
}

// Moves the points of a layer to where they want to be, apart from each other: groups that touch move together.
function settle(row, wanted) {
  const groups = [];
  for (const point of row) {
    let group = { points: [point], width: point.width, sum: wanted(point) - point.width / 2, left: 0 };
    group.left = group.sum;
    for (;;) {
      const before = groups.at(-1);
      if (!before || before.left + before.width + BOX.gapX <= group.left) break;
      groups.pop();
      const shift = before.width + BOX.gapX;
      const joined = { points: [...before.points, ...group.points], width: shift + group.width, sum: before.sum + group.sum - shift * group.points.length, left: 0 };
      joined.left = joined.sum / joined.points.length;
      group = joined;
    }
    groups.push(group);
  }
  for (const group of groups) {
    let x = group.left;
    for (const point of group.points) {
      point.x = x + point.width / 2;
      x += point.width + BOX.gapX;
    }
  }
}

// The line of an edge, from the lower side of a box to the upper side of another.
function edgeLine(layout, edge) {
  const [from, to] = [layout.points[edge.from], layout.points[edge.to]];
  const way = layout.ways.get(edge);
  if (!way) {
    // Back, around the side.
    const side = Math.max(from.x, to.x) + BOX.width / 2 + 12;
    const [start, end] = [from.y + BOX.height / 2, to.y + BOX.height / 2];
    return `M${from.x + BOX.width / 2} ${start}C${side + 26} ${start} ${side + 26} ${end} ${to.x + BOX.width / 2} ${end}`;
  }
  const at = way.map((point) => [point.x, point.y]);
  let line = `M${at[0][0]} ${at[0][1] + BOX.height}`;
  let y = at[0][1] + BOX.height;
  for (let nth = 1; nth < at.length; nth++) {
    const last = nth === at.length - 1;
    const [x, top] = at[nth];
    const half = (y + top) / 2;
    line += `C${at[nth - 1][0]} ${half} ${x} ${half} ${x} ${top}`;
    if (!last) line += `V${top + BOX.height}`;
    y = top + BOX.height;
  }
  return line;
}
