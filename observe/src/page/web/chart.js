// Drawing: colours, and canvases that are as sharp as the screen.

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';
// Colours of owners and series: Okabe and Ito's, told apart by the colour-blind.
const SERIES = ["series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7", "series-8"];

const ink = {
  known: new Map(),
  probe: null,
  // The colour of a name as the present theme has it: `#1f77b4`.
  of(name) {
    let color = this.known.get(name);
    if (!color) {
      this.probe ??= document.body.appendChild(el("span", { hidden: true }));
      this.probe.style.color = `var(--${name}, var(--other))`;
      const channels = getComputedStyle(this.probe).color.match(/[\d.]+/g).slice(0, 3);
      color = `#${channels.map((value) => Math.round(Number(value)).toString(16).padStart(2, "0")).join("")}`;
      this.known.set(name, color);
    }
    return color;
  },
  series(at) {
    return this.of(SERIES[at % SERIES.length]);
  },
  forget() {
    this.known.clear();
  },
};

function rgb(hex) {
  const number = Number.parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

// `part` of the way from one colour to another.
function mix(from, to, part) {
  const [a, b] = [rgb(from), rgb(to)];
  const channel = (at) => Math.round(a[at] + (b[at] - a[at]) * part);
  return `#${[0, 1, 2].map((at) => channel(at).toString(16).padStart(2, "0")).join("")}`;
}

// Black or white, whichever can be read on a colour.
function onColor(hex) {
  const [r, g, b] = rgb(hex).map((value) => (value / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.27 ? "#14161a" : "#ffffff";
}

function hash(text) {
  let value = 0;
  for (let at = 0; at < text.length; at++) value = (Math.imul(value, 31) + text.charCodeAt(at)) | 0;
  return value >>> 0;
}

// A canvas that fills its parent, and is drawn at most once a frame.
class Canvas {
  constructor(draw, props = {}) {
    this.element = el("canvas", { tabIndex: 0, ...props });
    this.draw = draw;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
    this.cost = 0;
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.element;
    const ratio = devicePixelRatio || 1;
    if (!width || !height) return;
    [this.width, this.height] = [width, height];
    this.element.width = Math.round(width * ratio);
    this.element.height = Math.round(height * ratio);
    this.context = this.element.getContext("2d");
    this.context.scale(ratio, ratio);
    this.paint();
  }

  // Draws it, where a key came before its first frame: only what is drawn has places.
  ready() {
    if (!this.context) this.resize();
  }

  paint() {
    if (!this.context) return;
    const began = performance.now();
    this.context.clearRect(0, 0, this.width, this.height);
    this.context.font = FONT;
    this.context.textBaseline = "middle";
    this.draw(this.context, this.width, this.height);
    this.cost = performance.now() - began;
  }

  later() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      this.paint();
    });
  }

  close() {
    this.observer.disconnect();
  }

  // Where the pointer is in the canvas.
  at(event) {
    const box = this.element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

// Text that ends in … where it does not fit.
function fitted(context, text, width) {
  if (width < 14) return "";
  const letters = Math.floor(width / 6.1);
  if (text.length <= letters) return text;
  if (context.measureText(text).width <= width) return text;
  return letters > 2 ? `${text.slice(0, letters - 1)}…` : "";
}

// Lines and labels of the values upwards. `at` maps a value to a height.
function axisY(context, { left, right, top, bottom }, values, format) {
  context.textAlign = "right";
  context.lineWidth = 1;
  for (const [value, y] of values) {
    if (y < top - 1 || y > bottom + 1) continue;
    context.strokeStyle = ink.of("grid");
    context.beginPath();
    context.moveTo(left, Math.round(y) + 0.5);
    context.lineTo(right, Math.round(y) + 0.5);
    context.stroke();
    context.fillStyle = ink.of("faint");
    context.fillText(format(value), left - 8, y);
  }
}

// Labels of the values along, which keep apart.
function axisX(context, { left, right, bottom }, values, format) {
  context.textAlign = "center";
  context.strokeStyle = ink.of("line");
  context.beginPath();
  context.moveTo(left, bottom + 0.5);
  context.lineTo(right, bottom + 0.5);
  context.stroke();
  context.fillStyle = ink.of("faint");
  let until = -Infinity;
  for (const [value, x] of values) {
    if (x < left - 1 || x > right + 1) continue;
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, bottom);
    context.lineTo(Math.round(x) + 0.5, bottom + 4);
    context.stroke();
    const text = format(value);
    const half = context.measureText(text).width / 2;
    const middle = Math.min(Math.max(x, left + half - 6), right - half + 6);
    if (middle - half < until + 8) continue;
    context.fillText(text, middle, bottom + 14);
    until = middle + half;
  }
}

function axisTitle(context, text, x, y, align = "left") {
  context.textAlign = align;
  context.fillStyle = ink.of("soft");
  context.fillText(text, x, y);
}

// Labels of an axis of time: one unit for all of them, as fine as its steps.
function timeTicks(from, to, wanted) {
  const { step, values } = ticks(from, to, wanted);
  const [unit, name] = timeUnit(Math.max(Math.abs(to), step));
  const decimals = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / unit) + 1e-9)));
  return { values, format: (value) => `${(value / unit).toFixed(decimals)}`, unit: name };
}
