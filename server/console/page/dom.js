// Elements from text alone: no text becomes markup.
import { printable, states } from "./text.js";

export const byId = (id) => document.getElementById(id);

// An element with properties ("class", "type" and so on), and children: elements or text.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Text of a caller: escaped, and apart from the direction of the text around it.
export function foreign(text, attributes = {}) {
  return make("bdi", { class: "foreign", ...attributes }, printable(text));
}

export function stateTag(state) {
  const { name, sign } = states[state] ?? { name: "–", sign: "" };
  return make("span", { class: "state", "data-state": name },
    make("span", { "aria-hidden": "true" }, sign), name);
}

// Fills a <dl> with pairs of a name and its value; pairs with null are left out.
export function fillFacts(list, facts) {
  list.replaceChildren(...facts.filter(([, value]) => value !== null && value !== "").map(
    ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

// For people who do not see the page.
export function announce(text) {
  byId("announcement").textContent = text;
}

// A table in a box that scrolls sideways on its own. The columns of `numbers` end at the same edge.
export function table(caption, columns, rows, numbers = []) {
  const edge = (index) => (numbers.includes(columns[index]) ? { class: "end" } : {});
  const head = columns.map((name, index) => make("th", { scope: "col", ...edge(index) }, name));
  const row = (cells) => make("tr", {}, ...cells.map((cell, index) => make("td", edge(index), cell)));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("caption", { class: "unseen" }, caption),
      make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows.map(row))));
}

export function notice(level, title, text, ...more) {
  return make("div", { class: "notice", "data-level": level },
    make("p", { class: "notice-title" }, title), make("p", {}, text), ...more);
}

// Opens a dialog; when it ends, the focus is where it was.
export function open(dialog) {
  const before = document.activeElement;
  const restore = () => {
    // The event comes later than the end: the dialog may be open again.
    if (dialog.open) return;
    dialog.removeEventListener("close", restore);
    if (before?.isConnected) before.focus();
  };
  dialog.addEventListener("close", restore);
  dialog.showModal();
}

// Runs `action` on a form's submission, with its buttons disabled meanwhile.
export function onSubmit(form, action) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await whileBusy(form, () => action(new FormData(form)));
  });
}

export async function whileBusy(form, action) {
  if (form.getAttribute("aria-busy") === "true") return;
  form.setAttribute("aria-busy", "true");
  try {
    await action();
  } finally {
    form.setAttribute("aria-busy", "false");
  }
}
