"use strict";
// The page of one field: portrait, time series, diagram. RATES[frame][member](x, f) writes dx/dt at the state x
// into f: the field of each value of the parameter (one without), the members of an ensemble after it.

// Okabe and Ito, Color Universal Design (2008), as the package's plots; told apart by dashes too.
const INK = ["#d55e00", "#0072b2", "#009e73", "#8e3b80", "#e69f00", "#56b4e9"];
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [5, 5], [12, 3]];
const NULLCLINES = ["#0072b2", "#e69f00"];
const STABLE = "#000000", UNSTABLE = "#8e3b80", UNSURE = "#7f7f7f", FLOW = "#9a9a9a", DATA = "#555555";
const LEGEND = "Filled: stable. Open: unstable. Half filled: saddle. Squares: the flow turns. " +
  "Grey with a question mark: the stability is not determined. Dashed: unstable cycle.";

// Of a fixed point: `stable` is null where its eigenvalues do not tell.
const ink = (stable) => (stable === null ? UNSURE : stable ? STABLE : UNSTABLE);
const filling = (kind, stable) => (kind.startsWith("saddle") ? "half" : stable ? "full" : "none");
const MARGIN = { left: 58, right: 12, top: 12, bottom: 40 };
const ARROWS = 21, NODES = 121, FAR = 500, MOST_STEPS = 40000, TOLERANCE = 1e-9, PIECES = 4;

// --- fields and integration ---

function tabulated({ low, high, n, dim, values }) {
  // Tensor products of cubics through the four nearest nodes; not a number outside the box.
  const bytes = Uint8Array.from(atob(values), (letter) => letter.charCodeAt(0));
  const table = new Float32Array(bytes.buffer);
  const first = new Array(dim), weights = Array.from({ length: dim }, () => new Float64Array(4));
  const taps = 4 ** dim;
  return (x, f) => {
    f.fill(0);
    for (let i = 0; i < dim; i++) {
      const place = ((x[i] - low[i]) / (high[i] - low[i])) * (n - 1);
      if (!(place >= 0 && place <= n - 1)) { f.fill(NaN); return; }
      first[i] = Math.min(Math.max(Math.floor(place), 1), n - 3);
      const s = place - first[i], w = weights[i];
      w[0] = (-s * (s - 1) * (s - 2)) / 6;
      w[1] = ((s + 1) * (s - 1) * (s - 2)) / 2;
      w[2] = (-(s + 1) * s * (s - 2)) / 2;
      w[3] = ((s + 1) * s * (s - 1)) / 6;
    }
    for (let tap = 0; tap < taps; tap++) {
      let weight = 1, node = 0;
      for (let i = 0, rest = tap; i < dim; i++, rest >>= 2) {
        weight *= weights[i][rest & 3];
        node = node * n + first[i] + (rest & 3) - 1;
      }
      for (let k = 0; k < dim; k++) f[k] += weight * table[node * dim + k];
    }
  };
}

// Dormand and Prince, A family of embedded Runge-Kutta formulae, J. Comput. Appl. Math. 6 (1980) 19: table 2.
const STAGES = [
  [1 / 5],
  [3 / 40, 9 / 40],
  [44 / 45, -56 / 15, 32 / 9],
  [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
  [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
  [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
];
const ERROR = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40];

function integrate(rates, start, span, size) {
  // States along a trajectory from `start` over the time `span` (negative: backwards), errors relative to `size`.
  // Each step is given with points between its ends, on the cubic through states and slopes.
  const d = start.length, sign = Math.sign(span), end = Math.abs(span);
  const k = Array.from({ length: 7 }, () => new Float64Array(d));
  let x = Float64Array.from(start), y = new Float64Array(d), t = 0;
  const found = { t: [0], x: [Array.from(x)], status: "" };
  const slope = (at, out) => { rates(at, out); if (sign < 0) for (let i = 0; i < d; i++) out[i] = -out[i]; };
  slope(x, k[0]);
  if (!k[0].every(Number.isFinite)) return { ...found, status: "the field is not defined there" };
  const speed = Math.max(...size.map((s, i) => Math.abs(k[0][i]) / s));
  let h = Math.min(end / 100, speed > 0 ? 0.01 / speed : end);
  for (let step = 0; t < end; step++) {
    if (step > MOST_STEPS) return { ...found, status: `given up at ${short(sign * t)}: too stiff` };
    h = Math.min(h, end - t);
    for (let s = 0; s < 6; s++) {
      for (let i = 0; i < d; i++) {
        let sum = 0;
        for (let r = 0; r <= s; r++) sum += STAGES[s][r] * k[r][i];
        y[i] = x[i] + h * sum;
      }
      slope(y, k[s + 1]);
    }
    let worst = 0;
    for (let i = 0; i < d; i++) {
      let sum = 0;
      for (let r = 0; r < 7; r++) sum += ERROR[r] * k[r][i];
      const allowed = TOLERANCE * Math.max(size[i], Math.abs(x[i]), Math.abs(y[i]));
      const share = Math.abs(h * sum) / allowed;
      worst = share > worst || Number.isNaN(share) ? share : worst;
    }
    if (worst <= 1) {
      for (let piece = 1; piece <= PIECES; piece++) {
        const s = piece / PIECES, r = 1 - s;
        found.t.push(sign * (t + s * h));
        found.x.push(Array.from(x, (v, i) => piece === PIECES ? y[i] :
          r * r * (1 + 2 * s) * v + s * r * r * h * k[0][i] + s * s * (3 - 2 * s) * y[i] - s * s * r * h * k[6][i]));
      }
      t = t + h >= end * (1 - 1e-14) ? end : t + h;
      [x, y] = [y, x];
      [k[0], k[6]] = [k[6], k[0]];
      if (x.some((v, i) => Math.abs(v - start[i]) > FAR * size[i])) {
        return { ...found, status: `far away at ${short(sign * t)}` };
      }
    }
    const factor = Number.isNaN(worst) ? 0.1 : Math.min(5, Math.max(0.2, 0.9 * worst ** -0.2));
    h *= worst === 0 ? 5 : factor;
    if (h < 1e-13 * end) return { ...found, status: `stops at ${short(sign * t)}: not defined beyond` };
  }
  return found;
}

function short(value) { return Number(value.toPrecision(4)).toString(); }

function zeroLines(values, n) {
  // Segments ((column, row) pairs in units of nodes) where values on an n x n grid change sign.
  const lines = [];
  for (let r = 0; r + 1 < n; r++) {
    for (let c = 0; c + 1 < n; c++) {
      const corners = [[c, r], [c + 1, r], [c + 1, r + 1], [c, r + 1]];
      const v = corners.map(([a, b]) => values[b * n + a]);
      if (!v.every(Number.isFinite)) continue;
      const ends = [];
      for (let e = 0; e < 4; e++) {
        const a = v[e], b = v[(e + 1) % 4];
        if ((a < 0) === (b < 0)) continue;
        const s = a / (a - b), p = corners[e], q = corners[(e + 1) % 4];
        ends.push([p[0] + s * (q[0] - p[0]), p[1] + s * (q[1] - p[1])]);
      }
      for (let e = 0; e + 1 < ends.length; e += 2) lines.push([ends[e], ends[e + 1]]);
    }
  }
  return lines;
}

// --- drawing ---

class Plot {
  // Axes on a canvas: data coordinates of a box, ticks, and what is drawn in them.
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
  }

  open(low, high, labels, top = 0, bottom = 1) {
    // Axes over the share of the canvas from `top` to `bottom`.
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.low = low;
    this.high = high.map((v, i) => (v > low[i] ? v : low[i] + 1));
    this.box = [MARGIN.left, top * height + MARGIN.top, width - MARGIN.right, bottom * height - MARGIN.bottom];
    const c = this.context, [x0, y0, x1, y1] = this.box;
    c.strokeStyle = c.fillStyle = "#333";
    c.lineWidth = 1;
    c.setLineDash([]);
    c.font = "12px system-ui, sans-serif";
    c.strokeRect(x0, y0, x1 - x0, y1 - y0);
    c.textAlign = "center";
    for (const v of ticks(this.low[0], this.high[0], 6)) c.fillText(short(v), this.at([v, low[1]])[0], y1 + 15);
    c.fillText(labels[0], (x0 + x1) / 2, y1 + 31);
    c.textAlign = "right";
    for (const v of ticks(this.low[1], this.high[1], 6)) c.fillText(short(v), x0 - 5, this.at([low[0], v])[1] + 4);
    c.save();
    c.translate(12, (y0 + y1) / 2);
    c.rotate(-Math.PI / 2);
    c.textAlign = "center";
    c.fillText(labels[1], 0, 0);
    c.restore();
    return this;
  }

  blank() {
    const ratio = window.devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = this.canvas;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.fillStyle = "#fff";
    this.context.fillRect(0, 0, width, height);
  }

  at([a, b]) {
    const [x0, y0, x1, y1] = this.box;
    return [
      x0 + ((a - this.low[0]) / (this.high[0] - this.low[0])) * (x1 - x0),
      y1 - ((b - this.low[1]) / (this.high[1] - this.low[1])) * (y1 - y0),
    ];
  }

  value([x, y]) {
    const [x0, y0, x1, y1] = this.box;
    return [
      this.low[0] + ((x - x0) / (x1 - x0)) * (this.high[0] - this.low[0]),
      this.low[1] + ((y1 - y) / (y1 - y0)) * (this.high[1] - this.low[1]),
    ];
  }

  within(draw) {
    const c = this.context, [x0, y0, x1, y1] = this.box;
    c.save();
    c.beginPath();
    c.rect(x0, y0, x1 - x0, y1 - y0);
    c.clip();
    draw(c);
    c.restore();
  }

  line(points, color, { width = 1.5, dash = [], alpha = 1 } = {}) {
    this.within((c) => {
      c.strokeStyle = color;
      c.lineWidth = width;
      c.globalAlpha = alpha;
      c.setLineDash(dash);
      c.beginPath();
      let open = false;
      for (const point of points) {
        if (!point.every(Number.isFinite)) { open = false; continue; }
        const [x, y] = this.at(point).map((v) => Math.max(-1e5, Math.min(1e5, v)));
        if (open) c.lineTo(x, y); else c.moveTo(x, y);
        open = true;
      }
      c.stroke();
    });
  }

  dots(points, color) {
    this.within((c) => {
      c.fillStyle = color;
      for (const point of points) {
        if (!point.every(Number.isFinite)) continue;
        const [x, y] = this.at(point);
        c.fillRect(x - 1.2, y - 1.2, 2.4, 2.4);
      }
    });
  }

  mark(point, color, { radius = 5, fill = "full", square = false, sign = "" } = {}) {
    // Full: stable; none: unstable; half: a saddle. Squares where the flow turns.
    if (!point.every(Number.isFinite)) return;
    this.within((c) => {
      const [x, y] = this.at(point);
      const shape = (x0, width) => {
        c.beginPath();
        if (square) c.rect(x0, y - radius, width, 2 * radius);
        else if (width < 2 * radius) c.arc(x, y, radius, Math.PI / 2, 1.5 * Math.PI);
        else c.arc(x, y, radius, 0, 2 * Math.PI);
      };
      c.lineWidth = 1.6;
      c.strokeStyle = color;
      c.fillStyle = fill === "full" ? color : "#fff";
      shape(x - radius, 2 * radius);
      c.fill();
      c.stroke();
      if (fill === "half") {
        c.fillStyle = color;
        shape(x - radius, radius);
        c.fill();
      }
      if (sign) {
        c.fillStyle = color;
        c.font = `${2 * radius}px sans-serif`;
        c.textAlign = "center";
        c.textBaseline = "middle";
        c.fillText(sign, x, y);
      }
    });
  }
}

function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((m) => m * power >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children); // text stays text, whatever it holds
  return made;
}

// --- the page ---

class Explorer {
  constructor(scene, rates) {
    Object.assign(this, { scene, rates });
    this.dim = scene.states.length;
    this.size = scene.low.map((v, i) => scene.high[i] - v);
    this.axes = this.dim > 1 ? [0, 1] : [0];
    this.held = scene.low.map((v, i) => v + this.size[i] / 2);
    this.mark = [0.5, 0.5];
    this.frame = 0;
    this.starts = [];
    this.portrait = new Plot(document.getElementById("portrait"));
    this.series = new Plot(document.getElementById("series"));
    this.diagram = new Plot(document.querySelector("#diagram canvas"));
    this.controls();
    this.listen();
    this.draw();
  }

  get field() { return this.rates[this.frame][0]; }
  get objects() { return this.scene.frames[this.frame]; }
  get unit() { return this.scene.timeUnit ? ` [${this.scene.timeUnit}]` : ""; }
  name(i) { return this.scene.units[i] ? `${this.scene.states[i]} [${this.scene.units[i]}]` : this.scene.states[i]; }
  shown(layer) { return this.layers[layer]?.checked; }

  controls() {
    const { scene } = this;
    document.getElementById("span").value = scene.span;
    document.getElementById("note").textContent = scene.note ? `The page holds ${scene.note}.` : "";
    if (this.dim > 2) {
      const choices = ["across", "up"].map((label, k) => {
        const select = element("select");
        scene.states.forEach((name, i) => select.append(element("option", { value: i, textContent: name })));
        select.value = this.axes[k];
        select.addEventListener("change", () => this.turn(k, Number(select.value)));
        return [element("label", {}, `${label} `, select), select];
      });
      this.choices = choices.map(([, select]) => select);
      document.getElementById("axes").append(...choices.map(([label]) => label));
      this.slices();
    }
    if (scene.parameter) this.slider();
    const offered = { arrows: "flow", nullclines: "nullclines", points: "fixed points", cycles: "cycles" };
    if (scene.data.length) Object.assign(offered, { data: "data", support: "hatch what no data support" });
    if (scene.members) offered.members = `ensemble (${scene.members})`;
    this.layers = {};
    for (const [layer, label] of Object.entries(offered)) {
      const box = element("input", { type: "checkbox", checked: true, id: `layer-${layer}` });
      box.addEventListener("change", () => this.draw());
      this.layers[layer] = box;
      document.getElementById("layers").append(element("label", {}, box, ` ${label}`));
    }
  }

  slices() {
    // Where the states that are not drawn are held, and where trajectories start in them.
    const bar = document.getElementById("slices");
    bar.replaceChildren();
    this.scene.states.forEach((name, i) => {
      if (this.axes.includes(i)) return;
      const input = element("input", { type: "number", step: "any", value: Number(this.held[i].toPrecision(6)) });
      input.addEventListener("change", () => { this.held[i] = Number(input.value); this.draw(); });
      bar.append(element("label", {}, `${name} held at `, input));
    });
  }

  slider() {
    const { name, values } = this.scene.parameter;
    const range = element("input", { type: "range", id: "slider", min: 0, max: values.length - 1, value: 0 });
    const shown = element("output", { textContent: short(values[0]) });
    range.setAttribute("aria-label", name);
    range.addEventListener("input", () => {
      this.frame = Number(range.value);
      shown.textContent = short(values[this.frame]);
      this.again();
    });
    const bar = document.getElementById("parameter");
    bar.append(element("label", {}, `${name} `, range), shown);
    bar.hidden = document.getElementById("diagram").hidden = false;
  }

  turn(k, state) {
    const other = 1 - k;
    if (this.axes[other] === state) this.axes[other] = this.axes[k];
    this.axes[k] = state;
    this.choices.forEach((select, i) => { select.value = this.axes[i]; });
    this.slices();
    this.draw();
  }

  listen() {
    const canvas = this.portrait.canvas, press = (id, act) => document.getElementById(id).addEventListener("click", act);
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect();
      const [a, b] = this.portrait.value([event.clientX - box.left, event.clientY - box.top]);
      const [[l0, l1], [h0, h1]] = [this.portrait.low, this.portrait.high];
      if (a < l0 || a > h0 || b < l1 || b > h1) return;
      this.mark = [(a - l0) / (h0 - l0), (b - l1) / (h1 - l1)];
      this.start(this.stateAt([a, b]));
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
    press("clear", () => { this.starts = []; this.say(""); this.draw(); });
    press("png", () => this.png());
    press("python", () => this.python());
    for (const id of ["span", "backwards"]) document.getElementById(id).addEventListener("change", () => this.again());
    window.addEventListener("resize", () => this.draw());
  }

  key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] };
    if (event.key in moves) {
      const step = event.shiftKey ? 0.002 : 0.02;
      this.mark = this.mark.map((v, i) => Math.min(1, Math.max(0, v + step * moves[event.key][i])));
      const at = this.marked();
      this.say(this.axes.map((state, i) => `${this.scene.states[state]} ${short(at[i])}`).join(", "));
      this.draw();
    } else if (event.key === "Enter" || event.key === " ") this.start(this.stateAt(this.marked()));
    else if (event.key === "Backspace" || event.key === "Delete") { this.starts.pop(); this.draw(); }
    else return;
    event.preventDefault();
  }

  marked() {
    const { low, high } = this.portrait;
    return this.mark.map((share, i) => low[i] + share * (high[i] - low[i]));
  }

  stateAt(point) {
    const x = this.held.slice();
    this.axes.forEach((state, i) => { x[state] = point[i]; });
    return x;
  }

  start(x) {
    // Integrate from the state x and draw; what is returned is kept in `starts`.
    const begun = performance.now(), run = this.run(x);
    this.starts.push(run);
    this.draw();
    run.milliseconds = performance.now() - begun;
    const end = run.paths[0].x.at(-1).map(short).join(", ");
    this.say(run.paths.map((path) => path.status).find(Boolean) || `ends at ${end}`);
    return run;
  }

  run(x) {
    const span = Math.abs(Number(document.getElementById("span").value)) || this.scene.span;
    const over = (rates, time) => integrate(rates, x, time, this.size);
    const paths = [over(this.field, span)];
    if (document.getElementById("backwards").checked) paths.push(over(this.field, -span));
    const members = this.rates[this.frame].slice(1).map((rates) => over(rates, span));
    return { x, span, paths, members };
  }

  again() {
    this.starts = this.starts.map(({ x }) => this.run(x));
    this.draw();
  }

  say(text) { document.getElementById("status").textContent = text; }

  // One state is drawn with its rate against it, else two states.
  place(x) {
    if (this.dim > 1) return this.axes.map((state) => x[state]);
    const f = [0];
    this.field(x, f);
    return [x[0], f[0]];
  }

  draw() {
    this.drawPortrait();
    this.drawSeries();
    if (this.scene.parameter) this.drawDiagram();
    this.list();
  }

  drawPortrait() {
    const plot = this.portrait, { scene } = this;
    plot.blank();
    const { low, high, labels } = this.dim > 1 ? this.plane() : this.rateAxes();
    plot.open(low, high, labels);
    if (this.shown("support")) this.hatch();
    if (this.shown("arrows")) this.arrows();
    if (this.shown("nullclines")) this.nullclines();
    if (this.dim === 1) this.rateCurve();
    if (this.shown("data")) {
      for (const { x } of scene.data) {
        const seen = x.map((row) => this.place(row.map((v) => v ?? NaN)));
        plot.line(seen, DATA, { width: 0.8, alpha: 0.6 });
        plot.dots(seen, DATA);
      }
    }
    if (this.shown("cycles")) {
      for (const { orbit, stable } of this.objects.cycles) {
        plot.line(orbit.map((x) => this.place(x)), stable ? STABLE : UNSTABLE, { width: 2, dash: stable ? [] : [5, 4] });
      }
    }
    this.starts.forEach((run, k) => {
      const color = INK[k % INK.length], dash = DASHES[k % DASHES.length];
      if (this.shown("members")) {
        for (const path of run.members) plot.line(path.x.map((x) => this.place(x)), color, { width: 0.7, alpha: 0.35 });
      }
      for (const path of run.paths) plot.line(path.x.map((x) => this.place(x)), color, { width: 2, dash });
      plot.mark(this.place(run.x), color, { radius: 3.5 });
    });
    if (this.shown("points")) {
      for (const { x, kind, stable } of this.objects.points) {
        const look = { fill: filling(kind, stable), square: kind.includes("focus"), sign: stable === null ? "?" : "" };
        plot.mark(this.place(x), ink(stable), look);
      }
    }
    const [x, y] = plot.at(this.marked());
    plot.within((c) => {
      c.strokeStyle = "#000";
      c.lineWidth = 1;
      c.strokeRect(x - 6, y, 12, 0);
      c.strokeRect(x, y - 6, 0, 12);
    });
  }

  plane() {
    const pick = (values) => this.axes.map((state) => values[state]);
    return { low: pick(this.scene.low), high: pick(this.scene.high), labels: this.axes.map((state) => this.name(state)) };
  }

  rateAxes() {
    const values = this.rateValues().map(([, v]) => v).filter(Number.isFinite);
    const low = Math.min(0, ...values), high = Math.max(0, ...values), room = 0.05 * (high - low || 1);
    const labels = [this.name(0), `rate of ${this.scene.states[0]}`];
    return { low: [this.scene.low[0], low - room], high: [this.scene.high[0], high + room], labels };
  }

  rateValues() {
    return Array.from({ length: 301 }, (_, k) => this.place([this.scene.low[0] + (k / 300) * this.size[0]]));
  }

  rateCurve() {
    const { low, high } = this.portrait;
    this.portrait.line([[low[0], 0], [high[0], 0]], FLOW, { dash: [2, 3] });
    this.portrait.line(this.rateValues(), NULLCLINES[0]);
  }

  grid(n) {
    // The field's two components on n x n nodes of the plane.
    const { low, high } = this.portrait, f = new Float64Array(this.dim);
    const values = [new Float64Array(n * n), new Float64Array(n * n)];
    for (let r = 0; r < n; r++) {
      for (let c = 0; c < n; c++) {
        const at = [low[0] + (c / (n - 1)) * (high[0] - low[0]), low[1] + (r / (n - 1)) * (high[1] - low[1])];
        this.field(this.stateAt(at), f);
        this.axes.forEach((state, i) => { values[i][r * n + c] = f[state]; });
      }
    }
    return values;
  }

  arrows() {
    if (this.dim === 1) return;
    const plot = this.portrait, [across, up] = this.grid(ARROWS + 2), n = ARROWS + 2;
    const [x0, y0, x1, y1] = plot.box, width = x1 - x0, height = y1 - y0, reach = (0.4 * width) / ARROWS;
    plot.within((c) => {
      c.strokeStyle = c.fillStyle = FLOW;
      c.lineWidth = 1;
      for (let r = 1; r <= ARROWS; r++) {
        for (let q = 1; q <= ARROWS; q++) {
          const dx = (across[r * n + q] / (plot.high[0] - plot.low[0])) * width;
          const dy = (-up[r * n + q] / (plot.high[1] - plot.low[1])) * height, length = Math.hypot(dx, dy);
          if (!(length > 0 && Number.isFinite(length))) continue;
          const [u, v] = [(dx / length) * reach, (dy / length) * reach];
          const [x, y] = [x0 + (q / (n - 1)) * width, y1 - (r / (n - 1)) * height];
          c.beginPath();
          c.moveTo(x - u, y - v);
          c.lineTo(x + u, y + v);
          c.lineTo(x + 0.45 * u - 0.35 * v, y + 0.45 * v + 0.35 * u);
          c.moveTo(x + u, y + v);
          c.lineTo(x + 0.45 * u + 0.35 * v, y + 0.45 * v - 0.35 * u);
          c.stroke();
        }
      }
    });
  }

  nullclines() {
    if (this.dim === 1) return;
    const plot = this.portrait, { low, high } = plot, view = JSON.stringify([this.frame, this.axes, this.held]);
    if (this.known?.view === view) {
      this.known.lines.forEach((points, i) => plot.line(points, NULLCLINES[i], { width: 1.6, dash: i ? [2, 3] : [] }));
      return;
    }
    const lines = this.grid(NODES).map((values) => {
      const points = [];
      for (const [a, b] of zeroLines(values, NODES)) {
        for (const [c, r] of [a, b]) {
          points.push([low[0] + (c / (NODES - 1)) * (high[0] - low[0]), low[1] + (r / (NODES - 1)) * (high[1] - low[1])]);
        }
        points.push([NaN, NaN]);
      }
      return points;
    });
    this.known = { view, lines };
    this.nullclines();
  }

  hatch() {
    // Cells that the data do not support, while the other states are held where this was worked out.
    const [i, j] = [...this.axes].sort((a, b) => a - b), cells = this.scene.support[`${i},${j}`];
    const middle = this.scene.low.map((v, k) => v + this.size[k] / 2);
    const moved = this.held.some((v, k) => !this.axes.includes(k) && Math.abs(v - middle[k]) > 0.02 * this.size[k]);
    if (!cells || moved) return;
    const plot = this.portrait, n = Math.sqrt(cells.length), turned = this.axes[0] > this.axes[1];
    const [x0, y0, x1, y1] = plot.box, width = (x1 - x0) / n, height = (y1 - y0) / n;
    plot.within((c) => {
      c.beginPath();
      for (let r = 0; r < n; r++) {
        for (let q = 0; q < n; q++) if (!cells[turned ? q * n + r : r * n + q]) c.rect(x0 + q * width, y1 - (r + 1) * height, width + 0.5, height + 0.5);
      }
      c.clip();
      c.strokeStyle = "#c4c4c4";
      c.lineWidth = 1;
      c.beginPath();
      for (let s = x0 - (y1 - y0); s < x1; s += 9) { c.moveTo(s, y1); c.lineTo(s + (y1 - y0), y0); }
      c.stroke();
    });
  }

  drawSeries() {
    const plot = this.series, { scene, starts } = this;
    plot.blank();
    const paths = starts.flatMap((run) => run.paths), data = this.shown("data") ? scene.data : [];
    const times = [0, ...data.flatMap(({ t }) => t.map((v) => v - t[0])), ...paths.map((path) => path.t.at(-1))];
    let first = 0, last = 0;
    for (const t of times) { first = Math.min(first, t); last = Math.max(last, t); }
    for (let i = 0; i < this.dim; i++) {
      let [low, high] = [scene.low[i], scene.high[i]];
      for (const path of paths) {
        for (const x of path.x) {
          if (Math.abs(x[i] - scene.low[i]) < 3 * this.size[i]) { low = Math.min(low, x[i]); high = Math.max(high, x[i]); }
        }
      }
      plot.open([first, low], [last || scene.span, high], [`t${this.unit}`, this.name(i)], i / this.dim, (i + 1) / this.dim);
      for (const { t, x } of data) {
        plot.dots(t.map((v, k) => [v - t[0], x[k][i] ?? NaN]), DATA);
      }
      starts.forEach((run, k) => {
        const color = INK[k % INK.length], dash = DASHES[k % DASHES.length];
        const curve = (path) => path.x.map((x, m) => [path.t[m], x[i]]);
        if (this.shown("members")) for (const path of run.members) plot.line(curve(path), color, { width: 0.7, alpha: 0.35 });
        for (const path of run.paths) plot.line(curve(path), color, { width: 1.8, dash });
      });
    }
  }

  drawDiagram() {
    const plot = this.diagram, { scene } = this, { name, values } = scene.parameter, state = this.axes[0];
    plot.blank();
    plot.open([values[0], scene.low[state]], [values.at(-1), scene.high[state]], [name, this.name(state)]);
    plot.line([[values[this.frame], scene.low[state]], [values[this.frame], scene.high[state]]], FLOW, { dash: [4, 3] });
    scene.frames.forEach(({ points, cycles }, k) => {
      for (const { x, stable } of points) {
        plot.mark([values[k], x[state]], ink(stable), { radius: 2.5, fill: stable ? "full" : "none" });
      }
      for (const { orbit, stable } of cycles) {
        const along = orbit.map((x) => x[state]), look = { radius: 2.5, square: true, fill: stable ? "full" : "none" };
        for (const end of [Math.min(...along), Math.max(...along)]) plot.mark([values[k], end], stable ? "#0072b2" : UNSTABLE, look);
      }
    });
  }

  list() {
    const { points, cycles } = this.objects, states = this.scene.states;
    const row = (tag, cells) => element("tr", {}, ...cells.map((text) => element(tag, { textContent: text })));
    const rows = points.map(({ x, kind, eigenvalues, supported }) =>
      row("td", [...x.map((v) => (v === null ? "" : short(v))), kind, eigenvalues, supported ? "yes" : "no"]));
    const table = element("table", {}, row("th", [...states, "kind", "eigenvalues", "supported by data"]), ...rows);
    const lines = cycles.map(({ period, kind }) => element("li", { textContent: `cycle, ${kind}, period ${short(period)}` }));
    const legend = element("p", { textContent: LEGEND });
    document.getElementById("objects").replaceChildren(table, element("ul", {}, ...lines), legend);
  }

  // --- what one takes along ---

  png() {
    const parts = [this.portrait.canvas, this.series.canvas], sheet = document.createElement("canvas");
    sheet.width = parts.reduce((sum, part) => sum + part.width, 0);
    sheet.height = Math.max(...parts.map((part) => part.height));
    const c = sheet.getContext("2d");
    c.fillStyle = "#fff";
    c.fillRect(0, 0, sheet.width, sheet.height);
    let x = 0;
    for (const part of parts) { c.drawImage(part, x, 0); x += part.width; }
    sheet.toBlob((blob) => {
      const link = element("a", { href: URL.createObjectURL(blob), download: "portrait.png" });
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }

  python() {
    const area = document.getElementById("code");
    area.value = this.script();
    area.hidden = false;
    area.focus();
    area.select();
  }

  script() {
    // Python that draws this view. JSON's strings and numbers are Python's too; null stands nowhere in them.
    const { scene } = this, text = JSON.stringify, { equations } = this.objects;
    const lines = ["import numpy as np", "", "import fim_dynsys", "from fim_dynsys import analyze, plot", ""];
    const region = `[${scene.low.map((v, i) => `(${v}, ${scene.high[i]})`).join(", ")}]`;
    if (scene.folder !== null && !scene.parameter) {
      const held = scene.inputs ? `.at_input(${text(scene.inputs)})` : "";
      lines.push(`field = fim_dynsys.load_fitted(${text(scene.folder)}).field_${held}`);
    }
    else if (equations.length) lines.push(`field = fim_dynsys.SymbolicField(${text(equations)}, state_names=${text(scene.states)})`);
    else lines.push("field = ...  # the field that the page was made of");
    if (scene.parameter) lines.push(`# ${scene.parameter.name.replace(/\s+/g, " ")} = ${scene.parameter.values[this.frame]}`);
    lines.push(`region = ${region}`, "points = analyze.fixed_points(field, region)", "shown = [points]");
    if (this.starts.length) {
      lines.push(`starts = np.array(${text(this.starts.map((run) => run.x))})`);
      lines.push(`paths = fim_dynsys.simulate(field, starts, np.linspace(0, ${this.starts[0].span}, 1000))`, "shown.append(paths)");
    }
    const states = this.dim > 2 ? `, states=${text(this.axes.map((state) => scene.states[state]))}` : "";
    lines.push(`plot.phase_portrait(field, *shown, region=region${states}).figure.savefig("portrait.png")`);
    return lines.join("\n") + "\n";
  }
}
