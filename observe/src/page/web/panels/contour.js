// A loss landscape from above: colours, lines of the same loss, and the way of the weights.

// Viridis, which keeps its order without colours, too.
const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
const LINES = 12;

function viridis(part) {
  const place = Math.min(1, Math.max(0, part)) * (VIRIDIS.length - 1);
  const at = Math.min(VIRIDIS.length - 2, Math.floor(place));
  return mix(VIRIDIS[at], VIRIDIS[at + 1], place - at);
}

const RAMP = Array.from({ length: 256 }, (_, at) => viridis(at / 255));
const RAMP_RGB = RAMP.map(rgb);

// What both drawings of a landscape need: its range, and the part of it that a loss is.
class Relief {
  constructor(plane, log) {
    Object.assign(this, { plane, width: plane.x.length, height: plane.y.length });
    const finite = plane.loss.filter(Number.isFinite);
    this.low = finite.reduce((low, value) => Math.min(low, value), Infinity);
    this.high = finite.reduce((high, value) => Math.max(high, value), -Infinity);
    this.canLog = this.low > 0;
    this.log = log && this.canLog;
  }

  get empty() {
    return this.low > this.high;
  }

  of(value) {
    return this.log ? Math.log(value) : value;
  }

  part(value) {
    const span = this.of(this.high) - this.of(this.low);
    return span > 0 ? (this.of(value) - this.of(this.low)) / span : 0.5;
  }

  ticks(wanted) {
    if (!(this.high > this.low)) return [this.low];
    return this.log ? logTicks(this.low, this.high, wanted) : ticks(this.low, this.high, wanted).values;
  }

  levels() {
    const value = (part) => this.of(this.low) + (this.of(this.high) - this.of(this.low)) * part;
    return Array.from({ length: LINES }, (_, at) => value((at + 0.5) / LINES)).map((level) => (this.log ? Math.exp(level) : level));
  }

  // The loss between the points of the grid; NaN where one of them is none.
  at(x, y) {
    const cell = (axis, value) => {
      let at = 0;
      while (at < axis.length - 2 && axis[at + 1] <= value) at += 1;
      return [at, Math.min(1, Math.max(0, (value - axis[at]) / (axis[at + 1] - axis[at])))];
    };
    const [[column, right], [row, up]] = [cell(this.plane.x, x), cell(this.plane.y, y)];
    const loss = (dx, dy) => this.plane.loss[(row + dy) * this.width + column + dx];
    return (loss(0, 0) * (1 - right) + loss(1, 0) * right) * (1 - up) + (loss(0, 1) * (1 - right) + loss(1, 1) * right) * up;
  }
}

// Lines of the same loss, cell by cell: pairs of points in the axes of the plane.
function isolines(relief, level) {
  const { plane, width, height } = relief;
  const lines = [];
  for (let row = 0; row + 1 < height; row++) {
    for (let column = 0; column + 1 < width; column++) {
      const corners = [[0, 0], [1, 0], [1, 1], [0, 1]].map(([dx, dy]) => [plane.x[column + dx], plane.y[row + dy], plane.loss[(row + dy) * width + column + dx]]);
      if (!corners.every(([, , loss]) => Number.isFinite(loss))) continue;
      const cuts = [];
      corners.forEach(([x, y, loss], at) => {
        const [x2, y2, other] = corners[(at + 1) % 4];
        if (loss < level === other < level) return;
        const part = (level - loss) / (other - loss);
        cuts.push([x + (x2 - x) * part, y + (y2 - y) * part]);
      });
      for (let at = 0; at + 1 < cuts.length; at += 2) lines.push([cuts[at], cuts[at + 1]]);
    }
  }
  return lines;
}

class Contour {
  constructor(plane, log) {
    this.relief = new Relief(plane, log);
    this.plane = plane;
    this.cursor = null;
    this.canvas = pointed((...at) => this.draw(...at), {
      label: `Loss in the plane ${plane.name}; arrow keys go along the way of the weights`,
      choose: (px, py) => {
        this.cursor = this.place(px, py);
        this.stop = null;
      },
      step: (by) => this.step(by),
      note: () => this.note(),
      leave: () => (this.cursor = null),
    });
    this.stop = null;
  }

  place(px, py) {
    const { box, plane } = this;
    if (!box || px < box.left || px > box.right || py < box.top || py > box.bottom) return null;
    const part = (axis, value) => axis[0] + (axis.at(-1) - axis[0]) * value;
    return [part(plane.x, (px - box.left) / (box.right - box.left)), part(plane.y, (box.bottom - py) / (box.bottom - box.top))];
  }

  step(by) {
    const { path } = this.plane;
    if (!path.length) return;
    const at = Math.max(0, Math.min(path.length - 1, (this.stop ?? (by < 0 ? path.length : -1)) + by));
    [this.stop, this.cursor] = [at, [path[at].x, path[at].y]];
  }

  note() {
    if (!this.cursor || !this.box) return null;
    const [x, y] = this.cursor;
    const stop = this.stop === null ? null : this.plane.path[this.stop];
    const rows = [["loss", figure(this.relief.at(x, y))], ["first direction", figure(x)], ["second direction", figure(y)]];
    return { x: this.x(x), y: this.y(y), title: stop ? `${unitOf(this.plane)} ${count(stop.at)}` : "loss", rows };
  }

  draw(context, width, height) {
    const { relief, plane } = this;
    this.box = null;
    if (relief.empty) return axisTitle(context, "no finite loss", width / 2, height / 2, "center");
    const box = { left: 58, right: width - 84, top: 24, bottom: height - 38 };
    const part = (axis, value) => (value - axis[0]) / (axis.at(-1) - axis[0]);
    this.x = (value) => box.left + part(plane.x, value) * (box.right - box.left);
    this.y = (value) => box.bottom - part(plane.y, value) * (box.bottom - box.top);
    this.box = box;
    this.colours(context, box);
    context.lineWidth = 1;
    for (const level of relief.levels()) {
      context.strokeStyle = relief.part(level) > 0.55 ? "rgb(0 0 0 / 38%)" : "rgb(255 255 255 / 42%)";
      context.beginPath();
      for (const [[x1, y1], [x2, y2]] of isolines(relief, level)) {
        context.moveTo(this.x(x1), this.y(y1));
        context.lineTo(this.x(x2), this.y(y2));
      }
      context.stroke();
    }
    this.way(context);
    const round = (axis, room) => ticks(axis[0], axis.at(-1), room).values;
    this.labels(context, box, round(plane.y, Math.max(2, height / 60)));
    axisX(context, box, round(plane.x, (box.right - box.left) / 70).map((value) => [value, this.x(value)]), figure);
    axisTitle(context, "along the first direction", (box.left + box.right) / 2, height - 8, "center");
    axisTitle(context, "along the second direction", 6, 10);
    this.scale(context, box, width);
    if (!this.cursor) return;
    context.strokeStyle = "#ffffff";
    context.lineWidth = 2;
    context.beginPath();
    context.arc(this.x(this.cursor[0]), this.y(this.cursor[1]), 7, 0, 7);
    context.stroke();
  }

  // Labels upwards, without lines through the picture.
  labels(context, box, values) {
    context.textAlign = "right";
    context.fillStyle = ink.of("faint");
    for (const value of values) context.fillText(figure(value), box.left - 8, this.y(value));
  }

  colours(context, box) {
    const [wide, high] = [Math.round(box.right - box.left), Math.round(box.bottom - box.top)];
    if (wide < 2 || high < 2) return;
    const picture = context.createImageData(wide, high);
    const { plane, relief } = this;
    for (let row = 0; row < high; row++) {
      const y = plane.y[0] + (plane.y.at(-1) - plane.y[0]) * (1 - row / (high - 1));
      for (let column = 0; column < wide; column++) {
        const loss = relief.at(plane.x[0] + (plane.x.at(-1) - plane.x[0]) * (column / (wide - 1)), y);
        if (!Number.isFinite(loss)) continue;
        const [r, g, b] = RAMP_RGB[Math.round(Math.min(1, Math.max(0, relief.part(loss))) * 255)];
        picture.data.set([r, g, b, 255], (row * wide + column) * 4);
      }
    }
    const sheet = el("canvas", { width: wide, height: high });
    sheet.getContext("2d").putImageData(picture, 0, 0);
    context.drawImage(sheet, box.left, box.top, box.right - box.left, box.bottom - box.top);
  }

  way(context) {
    const { path } = this.plane;
    const points = path.map((stop) => [this.x(stop.x), this.y(stop.y)]);
    drawWay(context, points, path.map((stop) => `${count(stop.at)}`), this.box);
  }

  scale(context, box, width) {
    const left = width - 66;
    for (let y = 0; y < box.bottom - box.top; y++) {
      context.fillStyle = RAMP[Math.round((1 - y / (box.bottom - box.top)) * 255)];
      context.fillRect(left, box.top + y, 12, 1.5);
    }
    context.textAlign = "left";
    context.fillStyle = ink.of("faint");
    for (const value of this.relief.ticks(5)) context.fillText(figure(value), left + 18, box.bottom - this.relief.part(value) * (box.bottom - box.top));
    axisTitle(context, "loss", left, 10);
  }
}

// Steps or epochs, which the name of a plane begins with.
function unitOf(plane) {
  return plane.name.startsWith("epoch") ? "epoch" : "step";
}

// The way of the weights: its stops, and labels of the first and the last one.
function drawWay(context, points, labels, box) {
  if (!points.length) return;
  const line = (color, width) => {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.beginPath();
    points.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
  };
  context.lineJoin = "round";
  line("rgb(0 0 0 / 55%)", 4);
  line("#ffffff", 2);
  points.forEach(([x, y], at) => {
    const end = at === points.length - 1;
    context.fillStyle = end ? "#d1551a" : "#ffffff";
    context.strokeStyle = "rgb(0 0 0 / 70%)";
    context.lineWidth = 1;
    context.beginPath();
    context.arc(x, y, end ? 5 : 3.2, 0, 7);
    context.fill();
    context.stroke();
  });
  const ends = [...new Set([0, points.length - 1])];
  ends.forEach((at) => wayLabel(context, points[at], points[at === 0 ? 1 : at - 1], labels[at], box));
}

// A label beside a point, on the side where the way does not go on.
function wayLabel(context, [x, y], next, text, box) {
  const width = context.measureText(text).width + 8;
  const left = Math.min(Math.max(next && next[0] > x ? x - 9 - width : x + 9, box.left), box.right - width);
  const top = Math.max(box.top, y - 8);
  context.fillStyle = "rgb(16 18 20 / 78%)";
  context.fillRect(left, top, width, 16);
  context.fillStyle = "#ffffff";
  context.textAlign = "left";
  context.fillText(text, left + 4, top + 8);
}
