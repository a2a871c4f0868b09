// A line chart in SVG.

const ns = "http://www.w3.org/2000/svg";
const margin = { left: 58, right: 12, top: 10, bottom: 24 };
const height = 220;

function draw(tag, attributes, text) {
  const element = document.createElementNS(ns, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// The smallest 1, 2 or 5 times a power of ten that is not below `value`.
function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

export class LineChart {
  // `box` holds it; `format` writes a value; `least` is the least top of its scale.
  constructor(box, { title, format, least }) {
    this.box = box;
    this.options = { title, format, least };
    this.lines = [];
    this.now = 0;
    this.minutes = 1;
    new ResizeObserver(() => this.render()).observe(box);
  }

  // Lines of {name, points: [{at, value}]} up to `now`, in milliseconds; a null value is a gap.
  show(lines, now, minutes) {
    this.lines = lines;
    this.now = now;
    this.minutes = minutes;
    this.render();
  }

  render() {
    const width = Math.round(this.box.clientWidth);
    if (width < 80) return;
    const { title } = this.options;
    const window = this.minutes * 60_000;
    const values = this.lines.flatMap((line) => line.points.map((point) => point.value ?? 0));
    const top = niceCeiling(Math.max(this.options.least, ...values));
    const x = (at) => width - margin.right - (this.now - at) / window * (width - margin.left - margin.right);
    const y = (value) => height - margin.bottom - value / top * (height - margin.top - margin.bottom);
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
    svg.setAttribute("aria-label", `${title}. ${this.summary()}`);
    this.drawScale(svg, width, top, x, y);
    this.lines.forEach((line, index) => {
      svg.append(draw("path", { class: "line", "data-line": index, d: this.path(line, x, y) }));
    });
    if (values.length === 0) {
      svg.append(draw("text", { class: "empty", x: width / 2, y: height / 2 }, "no calls yet"));
    }
    this.box.replaceChildren(svg);
  }

  drawScale(svg, width, top, x, y) {
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const value = top * part;
      svg.append(draw("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: y(value), y2: y(value) }));
      if (part % 0.5 === 0) {
        svg.append(draw("text", { class: "scale y", x: margin.left - 8, y: y(value) + 4 }, this.options.format(value)));
      }
    }
    const step = this.minutes > 5 ? 2 : 1;
    for (let minute = 0; minute <= this.minutes; minute += step) {
      svg.append(draw("text", {
        class: "scale", x: x(this.now - minute * 60_000), y: height - 6, "text-anchor": minute === 0 ? "end" : "middle",
      }, minute === 0 ? "now" : `−${minute}${width < 420 ? "" : " min"}`));
    }
  }

  path(line, x, y) {
    let drawn = "";
    let before = null;
    for (const { at, value } of line.points) {
      if (value !== null) drawn += `${before === null ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      before = value;
    }
    return drawn;
  }

  summary() {
    const now = this.lines.map((line) => {
      const last = line.points.at(-1)?.value;
      return `${line.name} ${last === null || last === undefined ? "–" : this.options.format(last)}`;
    });
    return now.length > 0 ? `Now: ${now.join(", ")}.` : "No calls yet.";
  }
}

// The names of the lines and their last values, with a sample of each line.
export function fillLegend(list, lines, format) {
  list.replaceChildren(...lines.map((line, index) => {
    const sample = draw("svg", { class: "sample", viewBox: "0 0 28 8", width: 28, height: 8, "aria-hidden": "true" });
    sample.append(draw("path", { class: "line", "data-line": index, d: "M1 4H27" }));
    const item = document.createElement("li");
    const name = document.createElement("span");
    name.textContent = line.name;
    const value = document.createElement("span");
    value.className = "value";
    const last = line.points.at(-1)?.value;
    value.textContent = last === null || last === undefined ? "–" : format(last);
    item.append(sample, name, value);
    return item;
  }));
}
