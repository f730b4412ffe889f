// Elements. Texts of recordings come from programs, so they become text nodes and never markup.

function el(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "style") Object.assign(element.style, value);
    else if (name in element && !name.startsWith("aria") && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

function clear(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

// What stands where there is nothing to draw: what is missing, and what to do about it.
function empty(title, ...advice) {
  return el("div", { class: "empty" }, el("h3", {}, title), advice.map((line) => (typeof line === "string" ? el("p", {}, line) : line)));
}

// A command that can be copied.
function command(text) {
  return el("pre", { class: "command" }, text);
}

function swatch(color) {
  return el("span", { class: "swatch", style: { background: color } });
}

// The note that follows the pointer.
const tip = {
  element: null,
  show(x, y, ...children) {
    this.element ??= document.body.appendChild(el("div", { class: "tip", role: "tooltip" }));
    clear(this.element, children);
    this.element.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const left = x + 14 + width > innerWidth - 8 ? x - width - 14 : x + 14;
    const top = y + 14 + height > innerHeight - 8 ? y - height - 14 : y + 14;
    this.element.style.left = `${Math.max(8, left)}px`;
    this.element.style.top = `${Math.max(8, top)}px`;
  },
  hide() {
    if (this.element) this.element.hidden = true;
  },
};

// Rows of a note: a title, and names with values.
function tipRows(title, rows) {
  const row = ([name, value, color]) => [el("dt", {}, color ? swatch(color) : null, name), el("dd", {}, value)];
  return [el("strong", {}, title), el("dl", {}, rows.map(row))];
}

// A switch between a few choices.
function choice(label, options, chosen, choose) {
  const buttons = options.map(([id, text]) =>
    el("button", {
      type: "button",
      "aria-pressed": String(id === chosen),
      onclick: () => {
        for (const button of buttons) button.setAttribute("aria-pressed", String(button === buttons[options.findIndex(([other]) => other === id)]));
        choose(id);
      },
    }, text),
  );
  return el("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

function remembered(name) {
  // A page from a file may have no memory.
  try {
    return localStorage.getItem(`thalweg.${name}`);
  } catch {
    return null;
  }
}

function remember(name, value) {
  try {
    localStorage.setItem(`thalweg.${name}`, value);
  } catch {
    // It is asked again next time.
  }
}
