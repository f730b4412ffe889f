// A loss landscape as a surface, seen from above at a slant. It turns with the pointer and with arrow keys.

// Points of a side that are drawn; finer planes are drawn with every second point, or fewer.
const FACETS = 72;

class Surface {
  // `kept` has the angles { turn, tilt } in radians.
  constructor(plane, log, kept) {
    Object.assign(this, { plane, kept, relief: new Relief(plane, log) });
    this.drag = null;
    const turn = (by, tilt) => {
      kept.turn += by;
      kept.tilt = Math.min(1.45, Math.max(0.12, kept.tilt + tilt));
      this.canvas.later();
    };
    const keys = { ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.08], ArrowDown: [0, -0.08] };
    this.canvas = new Canvas((...at) => this.draw(...at), {
      class: "surface",
      "aria-label": `Surface of the loss in the plane ${plane.name}; arrow keys turn it`,
      onpointerdown: (event) => {
        this.drag = this.canvas.at(event);
        this.canvas.element.setPointerCapture(event.pointerId);
      },
      onpointermove: (event) => {
        if (!this.drag) return;
        const [x, y] = this.canvas.at(event);
        turn((this.drag[0] - x) * 0.01, (y - this.drag[1]) * 0.01);
        this.drag = [x, y];
      },
      onpointerup: () => (this.drag = null),
      onpointercancel: () => (this.drag = null),
      onkeydown: (event) => {
        const by = keys[event.key];
        if (!by || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        event.stopPropagation();
        turn(...by);
      },
    });
  }

  // From the plane's axes, and a part of the range of losses, to the canvas. Depth grows away from the eye.
  project(x, y, part) {
    const { plane, kept } = this;
    const side = (axis, value) => (2 * (value - axis[0])) / (axis.at(-1) - axis[0]) - 1;
    const [u, v] = [side(plane.x, x), side(plane.y, y)];
    const across = u * Math.cos(kept.turn) - v * Math.sin(kept.turn);
    const depth = u * Math.sin(kept.turn) + v * Math.cos(kept.turn);
    const up = depth * Math.sin(kept.tilt) + (part * 1.3 - 0.65) * Math.cos(kept.tilt);
    return [this.middle[0] + across * this.scale, this.middle[1] - up * this.scale, depth];
  }

  draw(context, width, height) {
    const { relief, plane } = this;
    if (relief.empty) return axisTitle(context, "no finite loss", width / 2, height / 2, "center");
    this.scale = Math.min((width - 110) / 2.83, (height - 56) / (2.83 * Math.sin(this.kept.tilt) + 1.3 * Math.cos(this.kept.tilt)));
    this.middle = [width / 2 + 14, height / 2 - 4];
    this.frame(context);
    for (const facet of this.facets()) {
      context.beginPath();
      facet.corners.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      const color = RAMP[Math.round(Math.min(1, Math.max(0, facet.part)) * 255)];
      context.fillStyle = color;
      context.fill();
      context.strokeStyle = mix(color, "#000000", 0.22);
      context.lineWidth = 0.6;
      context.stroke();
    }
    const stops = plane.path.map((stop) => [stop, relief.at(stop.x, stop.y)]).filter(([, loss]) => Number.isFinite(loss));
    const points = stops.map(([stop, loss]) => this.project(stop.x, stop.y, relief.part(loss)));
    drawWay(context, points, stops.map(([stop]) => count(stop.at)), { left: 0, right: width, top: 0 });
  }

  // Pieces of the surface, the farthest first.
  facets() {
    const { plane, relief } = this;
    const { width, height } = relief;
    const thin = (count) => {
      const every = Math.ceil((count - 1) / FACETS);
      const some = [];
      for (let at = 0; at < count - 1; at += every) some.push(at);
      return [...some, count - 1];
    };
    const [columns, rows] = [thin(width), thin(height)];
    const points = rows.map((row) => columns.map((column) => {
      const loss = plane.loss[row * width + column];
      return Number.isFinite(loss) ? { part: relief.part(loss), at: this.project(plane.x[column], plane.y[row], relief.part(loss)) } : null;
    }));
    const facets = [];
    for (let row = 0; row + 1 < rows.length; row++) {
      for (let column = 0; column + 1 < columns.length; column++) {
        const four = [points[row][column], points[row][column + 1], points[row + 1][column + 1], points[row + 1][column]];
        if (!four.every(Boolean)) continue;
        const mean = (of) => four.reduce((sum, point) => sum + of(point), 0) / 4;
        facets.push({ corners: four.map((point) => point.at), part: mean((point) => point.part), depth: mean((point) => point.at[2]) });
      }
    }
    return facets.sort((a, b) => b.depth - a.depth);
  }

  // The foot, its directions, and the heights at its left corner.
  frame(context) {
    const { plane, relief } = this;
    const [x0, x1, y0, y1] = [plane.x[0], plane.x.at(-1), plane.y[0], plane.y.at(-1)];
    const corners = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]];
    const foot = corners.map(([x, y]) => this.project(x, y, 0));
    context.strokeStyle = ink.of("line");
    context.lineWidth = 1;
    context.beginPath();
    foot.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    context.stroke();
    // Names stand at the two edges that are nearest to the eye.
    const edges = foot.map((point, at) => ({ at, a: point, b: foot[(at + 1) % 4] }));
    const near = [edges.filter(({ at }) => at % 2 === 0), edges.filter(({ at }) => at % 2 === 1)].map((two) => two.sort((one, other) => one.a[2] + one.b[2] - other.a[2] - other.b[2])[0]);
    near.forEach(({ a, b }, which) => {
      const [x, y] = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
      axisTitle(context, which ? "second direction" : "first direction", x + (x < this.middle[0] ? -8 : 8), y + 14, x < this.middle[0] ? "right" : "left");
    });
    const left = corners[foot.reduce((best, point, at) => (point[0] < foot[best][0] ? at : best), 0)];
    const height = (part) => this.project(...left, part);
    context.beginPath();
    context.moveTo(...height(0).slice(0, 2));
    context.lineTo(...height(1).slice(0, 2));
    context.stroke();
    context.textAlign = "right";
    context.fillStyle = ink.of("faint");
    let above = Infinity;
    for (const value of relief.ticks(4)) {
      const [x, y] = height(relief.part(value));
      if (above - y < 13) continue;
      above = y;
      context.fillText(figure(value), x - 8, y);
    }
    const [x, y] = height(1);
    axisTitle(context, "loss", x - 8, y - 16, "right");
  }
}
