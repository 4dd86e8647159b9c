// Plots of the last hour: SVG made from the JSON of /history, again each five seconds.
//
//   <figure class="plot" data-plot="/history?kind=group-lag&name=orders">
//     <figcaption>Lag</figcaption><div class="plot-body"></div>
//   </figure>
//
// The pointer, or the arrow keys, move a line that shows the values at a time.  A table below has
// the same values for readers of a screen.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 190;
const MARGIN = { left: 56, right: 12, top: 10, bottom: 24 };
const AGAIN_MS = 5000;
const TABLE_ROWS_MAX = 60;
const SHORT = ["", " k", " M", " G", " T", " P"];
const BYTES = [" B", " kB", " MB", " GB", " TB", " PB"];

// A number with a unit, as the pages show it: 12.3 k, 4.5 MB, 250 ms.
function shown(value, unit) {
  if (value === null || value === undefined) return "–";
  const steps = unit === "bytes" ? BYTES : SHORT;
  let step = 0;
  let number = value;
  while (Math.abs(number) >= 999.5 && step + 1 < steps.length) {
    number /= 1000;
    step += 1;
  }
  let digits = 0;
  if (!Number.isInteger(number) && Math.abs(number) < 99.95) digits = Math.abs(number) < 10 ? 2 : 1;
  const fixed = number.toFixed(digits);
  const text = (digits ? fixed.replace(/\.?0+$/, "") : fixed) + steps[step];
  return unit === "ms" ? `${text} ms` : text;
}

function clock(timeMs, withSeconds) {
  return new Date(timeMs).toISOString().slice(11, withSeconds ? 19 : 16);
}

function made(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  parent.append(element);
  return element;
}

// A step of 1, 2 or 5 times a power of ten, so that there are about `count` of them.
function niceStep(range, count) {
  const rough = range / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((each) => each * power >= rough) ?? 10;
  return factor * power;
}

function timeStep(spanMs) {
  const seconds = [10, 20, 30, 60, 120, 300, 600, 900].find((each) => spanMs / (each * 1000) <= 6);
  return (seconds ?? 1800) * 1000;
}

class Plot {
  constructor(figure) {
    this.figure = figure;
    this.body = figure.querySelector(".plot-body");
    this.title = figure.querySelector("figcaption").textContent;
    this.data = null;
    this.at = null;
    this.figure.tabIndex = 0;
    this.figure.setAttribute("role", "group");
    this.figure.setAttribute("aria-label", `Plot: ${this.title}`);
    this.figure.addEventListener("keydown", (event) => this.onKey(event));
    this.figure.addEventListener("blur", () => this.showAt(null));
    new ResizeObserver(() => this.draw()).observe(this.body);
    this.read();
  }

  async read() {
    if (!document.hidden) {
      try {
        const response = await fetch(this.figure.dataset.plot, { credentials: "same-origin" });
        if (response.ok) {
          this.data = await response.json();
          this.draw();
        }
      } catch {
        this.figure.dataset.state = "broken"; // the console has stopped; the next read may succeed
      }
    }
    setTimeout(() => this.read(), AGAIN_MS);
  }

  get lines() {
    return this.data?.lines.filter((line) => line.points.some((point) => point[1] !== null)) ?? [];
  }

  draw() {
    const width = Math.floor(this.body.clientWidth);
    if (this.data === null || width < 80) return;
    const isOpen = this.body.querySelector("details")?.open ?? false;
    this.body.replaceChildren();
    if (this.lines.length === 0) {
      const empty = document.createElement("p");
      empty.className = "plot-empty faint";
      empty.textContent = this.data.trouble ?? "No values yet: the console takes one each five seconds.";
      this.body.append(empty);
      return;
    }
    this.scale(width);
    const svg = made("svg", { width, height: HEIGHT, role: "img", "aria-hidden": "true" }, this.body);
    this.drawAxes(svg, width);
    this.lines.forEach((line, index) => this.drawLine(svg, line, index));
    this.cursor = made("line", { class: "plot-cursor", y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }, svg);
    this.dots = this.lines.map((_, index) => made("circle", { class: `plot-dot line-${index + 1}`, r: 3.5 }, svg));
    svg.addEventListener("pointermove", (event) => {
      this.showAt(this.timeAt(event.clientX - svg.getBoundingClientRect().left));
    });
    svg.addEventListener("pointerleave", () => this.showAt(null));
    this.drawLegend();
    this.drawTable(isOpen);
    this.showAt(this.at);
  }

  scale(width) {
    const times = this.lines.flatMap((line) => line.points.map((point) => point[0]));
    const values = this.lines.flatMap((line) => line.points.map((point) => point[1] ?? 0));
    this.endMs = Math.max(...times);
    this.startMs = Math.min(Math.min(...times), this.endMs - 60000);
    const highest = Math.max(...values, 0);
    this.step = niceStep(highest > 0 ? highest : 4, 4);
    this.top = Math.max(this.step, Math.ceil(highest / this.step) * this.step);
    const plotWidth = width - MARGIN.left - MARGIN.right;
    const plotHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
    this.x = (timeMs) => MARGIN.left + ((timeMs - this.startMs) / (this.endMs - this.startMs)) * plotWidth;
    this.y = (value) => MARGIN.top + (1 - value / this.top) * plotHeight;
    this.timeAt = (x) => this.startMs + ((x - MARGIN.left) / plotWidth) * (this.endMs - this.startMs);
  }

  drawAxes(svg, width) {
    for (let value = 0; value <= this.top * 1.0001; value += this.step) {
      const y = Math.round(this.y(value)) + 0.5;
      made("line", { class: "plot-grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }, svg);
      const label = made("text", { class: "plot-label", x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, svg);
      label.textContent = shown(value, this.data.unit);
    }
    const step = timeStep(this.endMs - this.startMs);
    let labelEnd = 0;
    for (let timeMs = Math.ceil(this.startMs / step) * step; timeMs <= this.endMs; timeMs += step) {
      const x = Math.round(this.x(timeMs)) + 0.5;
      const y = HEIGHT - MARGIN.bottom;
      made("line", { class: "plot-grid", x1: x, x2: x, y1: y, y2: y + 4 }, svg);
      const anchor = x > width - 40 ? "end" : "middle";
      if (x - (anchor === "end" ? 85 : 60) < labelEnd) continue;
      labelEnd = x;
      const label = made("text", { class: "plot-label", x, y: y + 17, "text-anchor": anchor }, svg);
      label.textContent = clock(timeMs, step < 60000);
    }
  }

  drawLine(svg, line, index) {
    let path = "";
    let isDown = false;
    for (const [timeMs, value] of line.points) {
      if (value === null) {
        continue; // sizes have a value in some samples only, so a gap is no break
      }
      path += `${isDown ? "L" : "M"}${this.x(timeMs).toFixed(1)} ${this.y(value).toFixed(1)}`;
      isDown = true;
    }
    if (this.lines.length === 1) {
      const known = line.points.filter((point) => point[1] !== null);
      const [first, last] = [this.x(known[0][0]), this.x(known[known.length - 1][0])];
      made("path", { class: "plot-area line-1", d: `${path}L${last} ${this.y(0)}L${first} ${this.y(0)}Z` }, svg);
    }
    made("path", { class: `plot-line line-${index + 1}`, d: path }, svg);
    const known = line.points.filter((point) => point[1] !== null);
    if (known.length === 1) {
      const [[timeMs, value]] = known;
      const at = { cx: this.x(timeMs), cy: this.y(value), r: 3 };
      made("circle", { class: `plot-dot line-${index + 1}`, ...at }, svg);
    }
  }

  drawLegend() {
    const legend = document.createElement("div");
    legend.className = "plot-legend";
    this.when = document.createElement("span");
    this.when.className = "plot-when";
    this.values = this.lines.map((line, index) => {
      const entry = document.createElement("span");
      const swatch = document.createElement("i");
      swatch.className = `line-${index + 1}`;
      const value = document.createElement("b");
      entry.append(swatch, document.createTextNode(`${line.name} `), value);
      legend.append(entry);
      return value;
    });
    legend.append(this.when);
    this.body.append(legend);
  }

  // The last known point of a line up to a time.
  pointAt(line, timeMs) {
    let found = null;
    for (const point of line.points) {
      if (point[1] === null) continue;
      if (point[0] > timeMs && found !== null) break;
      found = point;
    }
    return found;
  }

  showAt(timeMs) {
    this.at = timeMs;
    if (!this.values) return;
    const isShown = timeMs !== null;
    const time = Math.min(Math.max(timeMs ?? this.endMs, this.startMs), this.endMs);
    this.cursor.setAttribute("visibility", isShown ? "visible" : "hidden");
    this.cursor.setAttribute("x1", this.x(time));
    this.cursor.setAttribute("x2", this.x(time));
    this.lines.forEach((line, index) => {
      const point = this.pointAt(line, time);
      this.values[index].textContent = `${shown(point?.[1], this.data.unit)}`;
      const dot = this.dots[index];
      dot.setAttribute("visibility", isShown && point ? "visible" : "hidden");
      if (point) {
        dot.setAttribute("cx", this.x(point[0]));
        dot.setAttribute("cy", this.y(point[1]));
      }
    });
    const unit = ["bytes", "ms"].includes(this.data.unit) ? "" : ` · ${this.data.unit}`;
    this.when.textContent = `${isShown ? clock(time, true) : "now"}${unit}`;
  }

  onKey(event) {
    if (event.target !== this.figure || !this.values) return;
    const step = (this.endMs - this.startMs) / 60;
    const at = this.at ?? this.endMs;
    const moves = { ArrowLeft: at - step, ArrowRight: at + step, Home: this.startMs, End: this.endMs, Escape: null };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const to = moves[event.key];
    this.showAt(to === null ? null : Math.min(Math.max(to, this.startMs), this.endMs));
    if (this.said === undefined) {
      this.said = document.createElement("span");
      this.said.className = "unseen";
      this.said.setAttribute("role", "status");
      this.figure.append(this.said);
    }
    const values = this.lines.map((line, index) => `${line.name} ${this.values[index].textContent}`);
    this.said.textContent = `${this.when.textContent}: ${values.join(", ")}`;
  }

  drawTable(isOpen) {
    const details = document.createElement("details");
    details.open = isOpen;
    const summary = document.createElement("summary");
    summary.textContent = "As a table";
    details.append(summary);
    const fill = () => {
      if (details.open && !details.querySelector("table")) details.append(this.table());
    };
    details.addEventListener("toggle", fill);
    fill();
    this.body.append(details);
  }

  table() {
    const box = document.createElement("div");
    box.className = "table";
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const name of ["Time", ...this.lines.map((line) => line.name)]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      head.append(cell);
    }
    const times = this.lines[0].points.map((point) => point[0]);
    const stride = Math.max(1, Math.ceil(times.length / TABLE_ROWS_MAX));
    const body = table.createTBody();
    for (let index = times.length - 1; index >= 0; index -= stride) {
      const row = body.insertRow();
      const when = document.createElement("th");
      when.scope = "row";
      when.textContent = clock(times[index], true);
      row.append(when);
      for (const line of this.lines) {
        const cell = row.insertCell();
        cell.className = "n";
        cell.textContent = shown(this.pointAt(line, times[index])?.[1], this.data.unit);
      }
    }
    box.append(table);
    return box;
  }
}

for (const figure of document.querySelectorAll("figure[data-plot]")) new Plot(figure);
