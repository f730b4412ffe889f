// Numbers for people. Times come in nanoseconds.

const THIN = "\u202f";
const UNITS = [
  [1, "ns"],
  [1e3, "µs"],
  [1e6, "ms"],
  [1e9, "s"],
];

// Three digits that count: 1.23, 12.3, 123.
function digits(value, count = 3) {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  return value.toFixed(Math.min(6, Math.max(0, count - 1 - size)));
}

function timeUnit(time) {
  const size = Math.abs(time);
  return [...UNITS].reverse().find(([unit]) => size >= unit) ?? UNITS[0];
}

function time(ns, count = 3) {
  const [unit, name] = timeUnit(ns);
  return `${unit === 1 ? Math.round(ns) : digits(ns / unit, count)}${THIN}${name}`;
}

function scaled(value, units, base) {
  let at = 0;
  while (Math.abs(value) >= base && at < units.length - 1) {
    value /= base;
    at += 1;
  }
  return [value, units[at]];
}

function bytes(count) {
  const [value, unit] = scaled(count, ["B", "kB", "MB", "GB", "TB"], 1000);
  return `${unit === "B" ? Math.round(value) : digits(value)}${THIN}${unit}`;
}

function rate(value, what) {
  if (value == null) return "–";
  const [size, unit] = scaled(value, ["", "k", "M", "G", "T", "P"], 1000);
  return `${digits(size)}${THIN}${unit}${what}`;
}

const integers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
function count(number) {
  return integers.format(number).replaceAll(",", THIN);
}

function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

function percent(part, decimals = 1) {
  return `${(part * 100).toFixed(decimals)}${THIN}%`;
}

// A figure of the user's.
function figure(value) {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : digits(value, 4).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

// Round values between two others, about `wanted` of them.
function ticks(low, high, wanted) {
  const span = high - low;
  if (!(span > 0) || !(wanted > 0)) return { step: 1, values: [low] };
  const rough = span / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999);
  const values = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) values.push(at * step);
  return { step, values };
}

// The last part of a path is what tells places apart.
function shortLine(line) {
  const parts = line.split("/");
  return parts.length > 3 ? `…/${parts.slice(-2).join("/")}` : line;
}

function opName(row) {
  return row.scope ? `${row.scope}/${row.name}` : row.name;
}
