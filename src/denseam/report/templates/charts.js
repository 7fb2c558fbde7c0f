"use strict";
/** Charts as SVG: `markers` are the signs of the series, by number. */
const chartsWith = (markers) => {
  const live = document.getElementById("live");

  // --- helpers ----------------------------------------------------------------------------------

  const NS = "http://www.w3.org/2000/svg";
  /** Make an element; text is only ever inserted as text. */
  function make(name, attributes = {}, ...children) {
    const svg = ["svg", "g", "path", "line", "text", "rect", "clipPath", "defs"].includes(name);
    const element = svg ? document.createElementNS(NS, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  const finite = (v) => v !== null && v !== undefined && Number.isFinite(v);
  /** Three digits, without trailing zeros. */
  function number(v, digits = 3) {
    if (!finite(v)) return "none";
    if (v === 0) return "0";
    const size = Math.abs(v);
    if (size >= 1e5 || size < 1e-3) return v.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
    return String(Number(v.toPrecision(digits)));
  }

  const SHAPES = {
    o: "M-1 0A1 1 0 1 0 1 0A1 1 0 1 0 -1 0Z",
    s: "M-.88-.88H.88V.88H-.88Z",
    D: "M0-1.2L1.2 0L0 1.2L-1.2 0Z",
    "^": "M0-1.15L1.1.85H-1.1Z",
    v: "M0 1.15L1.1-.85H-1.1Z",
    P: "M-.4-1.15H.4V-.4H1.15V.4H.4V1.15H-.4V.4H-1.15V-.4H-.4Z",
    X: "M-.6-1.1L0-.5L.6-1.1L1.1-.6L.5 0L1.1.6L.6 1.1L0 .5L-.6 1.1L-1.1.6L-.5 0L-1.1-.6Z",
    "*": "M0-1.3L.35-.45L1.25-.4L.55.15L.8 1.05L0 .5L-.8 1.05L-.55.15L-1.25-.4L-.35-.45Z",
  };
  const shape = (i) => SHAPES[markers[i % markers.length]];
  const round = (v) => Math.round(v * 100) / 100;
  const stamp = (path, x, y, size) =>
    make("path", { d: path, transform: `translate(${round(x)} ${round(y)}) scale(${size})`, "vector-effect": "non-scaling-stroke" });
  /** Many small marks as one path, so that thousands cost one element. */
  const spots = (places, r) => places.map(([x, y]) => `M${round(x - r)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`).join("");
  const crosses = (places, r) => places.map(([x, y]) => `M${round(x - r)} ${round(y - r)}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`).join("");
  const polyline = (places) => places.map(([x, y], i) => `${i ? "L" : "M"}${round(x)} ${round(y)}`).join("");

  // --- scales of the axes -----------------------------------------------------------------------

  const KINDS = {
    linear: [(v) => v, () => true],
    log: [Math.log10, (v) => v > 0],
    log1p: [(v) => Math.log10(1 + v), (v) => v > -1],
  };
  function ticks(low, high, kind, room) {
    const most = Math.max(2, Math.floor(room));
    const inside = (v) => v >= low * (1 - 1e-9) - 1e-12 && v <= high * (1 + 1e-9) + 1e-12;
    if (kind === "log1p") {
      const found = [0];
      for (let v = 1; v <= high; v *= 2) found.push(v);
      const every = Math.ceil(found.length / most);
      return found.filter((v, i) => inside(v) && i % every === 0);
    }
    if (kind === "log") {
      for (const subs of [[1, 1.5, 2, 2.5, 3, 4, 5, 6, 8], [1, 2, 3, 5], [1, 3], [1]]) {
        const found = [];
        for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
          for (const s of subs) if (inside(s * 10 ** e)) found.push(s * 10 ** e);
        if (found.length <= most && found.length >= 2) return found;
        if (subs.length === 1 && found.length > most) {
          const every = Math.ceil(found.length / most);
          return found.filter((_, i) => i % every === 0);
        }
      }
    }
    const raw = (high - low) / most || 1;
    const ten = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((f) => f * ten).find((s) => s >= raw * 0.999);
    const found = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high * (1 + 1e-9); v += step) found.push(Math.abs(v) < step / 1e6 ? 0 : v);
    return found;
  }

  // --- one chart --------------------------------------------------------------------------------

  let charts = 0;
  /**
   * A chart in a figure; `describe()` returns what to draw:
   * {label, x: {kind, label}, y: {kind, label, top}, series: [{k, name, colours, line, band, seeds, crosses, ring, dots}],
   *  marks: [x], table: {caption, head, rows}}; points are {x, y, tip: [title, …lines]}.
   */
  class Chart {
    constructor(figure, describe) {
      this.describe = describe;
      this.plot = figure.querySelector(".plot");
      this.legend = figure.querySelector(".legend");
      this.numbers = figure.querySelector(".numbers");
      this.id = `clip-${charts++}`;
      this.tip = make("div", { class: "tip", hidden: "" });
      this.plot.append(this.tip);
      this.plot.tabIndex = 0;
      this.plot.setAttribute("role", "application");
      this.plot.addEventListener("pointermove", (e) => this.hover(e));
      this.plot.addEventListener("pointerleave", () => this.point(null));
      this.plot.addEventListener("keydown", (e) => this.key(e));
      this.plot.addEventListener("blur", () => this.point(null));
      new ResizeObserver(() => this.plot.clientWidth !== this.width && this.draw()).observe(this.plot);
      this.draw();
    }

    draw() {
      const width = (this.width = this.plot.clientWidth) || 640;
      const spec = this.describe();
      const height = Math.round(Math.min(420, Math.max(250, width * 0.46)));
      const rows = [...new Set(spec.series.filter((s) => s.crosses?.length).map((s) => s.k))];
      const box = { left: 58, right: width - 12, top: 12 + (rows.length ? 11 * rows.length + 6 : 0), bottom: height - 46 };
      const all = spec.series.flatMap((s) => [...(s.dots || []), ...(s.seeds || []), ...(s.band || []).flatMap((b) => [{ x: b.x, y: b.low }, { x: b.x, y: b.high }])]);
      const x = this.axis(spec.x, [...all.map((p) => p.x), ...spec.series.flatMap((s) => (s.crosses || []).map((p) => p.x))], box.left, box.right, 0.03);
      const y = this.axis(spec.y, all.map((p) => p.y).filter((v) => !spec.y.top || v <= spec.y.top), box.bottom, box.top, 0.05);
      const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.label });
      svg.append(make("defs", {}, make("clipPath", { id: this.id }, make("rect", { x: box.left, y: box.top - 8, width: Math.max(0, box.right - box.left), height: box.bottom - box.top + 16 }))));
      this.frame(svg, spec, x, y, box, height);
      const body = make("g", { "clip-path": `url(#${this.id})` });
      for (const at of spec.marks || []) if (finite(x.at(at))) body.append(make("line", { class: "mark", x1: round(x.at(at)), x2: round(x.at(at)), y1: box.top - 8, y2: box.bottom }));
      svg.append(body);
      this.hits = spec.series.map((s) => this.series(svg, body, s, x, y, box, rows));
      if (rows.length) this.sayDiverged(svg, spec, x, box, rows);
      this.cursor = make("path", { class: "cursor", d: "" });
      svg.append(this.cursor);
      this.plot.querySelector("svg")?.remove();
      this.plot.prepend(svg);
      this.plot.setAttribute("aria-label", `${spec.label}. Arrow keys read its points.`);
      this.at = null;
      this.point(null);
      this.drawLegend(spec);
      this.numbers.replaceChildren(table(spec.table));
    }

    axis({ kind, least = 0 }, values, from, to, margin) {
      let [f, allowed] = KINDS[kind];
      if (kind === "log" && !values.every(allowed)) [f, kind] = [KINDS.linear[0], "linear"];
      const seen = values.filter((v) => finite(v));
      let low = Math.min(...chunked(seen, Math.min)), high = Math.max(...chunked(seen, Math.max));
      if (!seen.length) [low, high] = [kind === "log" ? 0.1 : 0, 1];
      let [a, b] = [f(low), f(high)];
      const short = kind === "log" ? Math.max(0, least - (b - a)) / 2 : 0;
      [a, b] = [a - short, b + short];
      const room = (b - a) * margin || 0.5 * (kind === "linear" ? Math.abs(a) || 1 : 0.4);
      [a, b] = [a - room, b + room];
      const back = kind === "log" ? (v) => 10 ** v : kind === "log1p" ? (v) => 10 ** v - 1 : (v) => v;
      return { kind, low: back(a), high: back(b), at: (v) => from + ((f(v) - a) / (b - a)) * (to - from) };
    }

    frame(svg, spec, x, y, box, height) {
      for (const v of ticks(y.low, y.high, y.kind, (box.bottom - box.top) / 42)) {
        svg.append(make("line", { class: "grid", x1: box.left, x2: box.right, y1: round(y.at(v)), y2: round(y.at(v)) }));
        svg.append(make("text", { x: box.left - 8, y: round(y.at(v) + 4), "text-anchor": "end" }, number(v)));
      }
      for (const v of ticks(x.low, x.high, x.kind, (box.right - box.left) / 64)) {
        svg.append(make("line", { class: "axis", x1: round(x.at(v)), x2: round(x.at(v)), y1: box.bottom, y2: box.bottom + 4 }));
        svg.append(make("text", { x: round(x.at(v)), y: box.bottom + 18, "text-anchor": "middle" }, number(v)));
      }
      svg.append(make("path", { class: "axis", d: `M${box.left} ${box.top}V${box.bottom}H${box.right}` }));
      svg.append(make("text", { class: "title", x: (box.left + box.right) / 2, y: height - 6, "text-anchor": "middle" }, spec.x.label));
      svg.append(make("text", { class: "title", transform: `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, spec.y.label));
    }

    /** Draw one series; return its points with their positions, for the pointer and the keyboard. */
    series(svg, body, s, x, y, box, rows) {
      const group = make("g", { class: `series ${s.kind || ""}` });
      colour(group, s.colours);
      const place = (p) => ({ ...p, px: x.at(p.x), py: y.at(p.y) });
      const shown = (p) => finite(p.px) && finite(p.py);
      const dots = (s.dots || []).map(place).filter(shown), seeds = (s.seeds || []).map(place).filter(shown);
      if (s.band?.length > 1) {
        const up = s.band.map((b) => [x.at(b.x), y.at(b.high)]), down = s.band.map((b) => [x.at(b.x), y.at(b.low)]).reverse();
        group.append(make("path", { class: "band", d: `${polyline([...up, ...down])}Z` }));
      }
      group.append(make("path", { class: "line", d: polyline(dots.map((p) => [p.px, p.py])) }));
      for (const line of s.lines || []) group.append(make("path", { class: "thin", d: polyline(line.map((p) => [x.at(p.x), y.at(p.y)])) }));
      group.append(make("path", { class: "seed", d: spots(seeds.map((p) => [p.px, p.py]), 2.2) }));
      if (s.marker !== false) {
        const every = Math.max(1, Math.ceil(dots.length / 14));
        dots.forEach((p, i) => {
          if (i % every && i !== dots.length - 1) return;
          const mark = stamp(shape(s.k), p.px, p.py, 4.2);
          mark.setAttribute("class", "dot");
          group.append(mark);
        });
      }
      body.append(group);
      if (s.ring && finite(x.at(s.ring.x)) && finite(y.at(s.ring.y))) {
        const ring = stamp(SHAPES.o, x.at(s.ring.x), y.at(s.ring.y), 8.5);
        ring.setAttribute("class", "ring");
        group.append(ring);
      }
      const level = box.top - 10 - 11 * rows.indexOf(s.k);
      const lost = (s.crosses || []).map((p) => ({ ...p, px: x.at(p.x), py: level }));
      if (lost.length) {
        const top = make("g", { class: "series" }, make("path", { class: "cross", d: crosses(lost.map((p) => [p.px, p.py]), 3.2) }));
        colour(top, s.colours);
        svg.append(top);
      }
      const hits = [...(seeds.length ? seeds : dots).filter((p) => p.py >= box.top - 9), ...lost].filter((p) => p.tip);
      return hits.sort((a, b) => a.px - b.px);
    }

    sayDiverged(svg, spec, x, box, rows) {
      const places = spec.series.flatMap((s) => (s.crosses || []).map((p) => x.at(p.x)));
      const [first, last] = [Math.min(...chunked(places, Math.min)), Math.max(...chunked(places, Math.max))];
      const y = box.top - 5 - 5.5 * (rows.length - 1);
      if (first - box.left > 80) svg.append(make("text", { class: "bad", x: first - 10, y, "text-anchor": "end" }, "diverged"));
      else if (box.right - last > 80) svg.append(make("text", { class: "bad", x: last + 10, y }, "diverged"));
    }

    drawLegend(spec) {
      this.legend.replaceChildren(
        ...spec.series.filter((s) => s.name).map((s) => {
          const key = make("svg", { viewBox: "0 0 26 14" });
          const group = make("g", { class: `series ${s.kind || ""}` }, make("path", { class: "line", d: "M0 7H26" }));
          if (s.marker !== false) {
            const mark = stamp(shape(s.k), 13, 7, 4.2);
            mark.setAttribute("class", "dot");
            group.append(mark);
          }
          colour(group, s.colours);
          key.append(group);
          return make("span", {}, key, s.name);
        }),
      );
    }

    hover(event) {
      const rect = this.plot.querySelector("svg").getBoundingClientRect();
      const zoom = rect.width / (this.width || rect.width) || 1;
      const [px, py] = [(event.clientX - rect.left) / zoom, (event.clientY - rect.top) / zoom];
      let best = null, near = 30 ** 2;
      for (const series of this.hits)
        for (const hit of series) {
          const d = (hit.px - px) ** 2 + (hit.py - py) ** 2;
          if (d < near) [best, near] = [hit, d];
        }
      this.at = null;
      this.point(best);
    }

    /** Show what a point is; null hides it. */
    point(hit) {
      this.tip.hidden = !hit;
      this.cursor.setAttribute("d", hit ? spots([[hit.px, hit.py]], 8) : "");
      if (!hit) return;
      const [title, ...lines] = hit.tip();
      this.tip.replaceChildren(make("b", {}, title), ...lines.flatMap((line, i) => (i ? [make("br"), line] : [line])));
      const right = hit.px > this.width / 2;
      this.tip.style.left = right ? "auto" : `${hit.px + 14}px`;
      this.tip.style.right = right ? `${this.width - hit.px + 14}px` : "auto";
      this.tip.style.top = `${Math.max(0, hit.py - 20)}px`;
    }

    key(event) {
      const series = this.hits.filter((s) => s.length);
      const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [1, 0], ArrowDown: [-1, 0], Home: [0, -1e9], End: [0, 1e9] };
      if (event.key === "Escape") return this.point(null);
      if (!moves[event.key] || !series.length || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const [ds, di] = moves[event.key];
      const clamp = (v, n) => Math.max(0, Math.min(n - 1, v));
      if (!this.at) this.at = [0, 0];
      else if (ds) {
        const old = series[this.at[0]][this.at[1]], s = clamp(this.at[0] + ds, series.length);
        const distance = (p) => Math.abs(p.px - old.px);
        this.at = [s, series[s].reduce((best, p, i) => (distance(p) < distance(series[s][best]) ? i : best), 0)];
      } else this.at = [this.at[0], clamp(this.at[1] + di, series[this.at[0]].length)];
      const hit = series[this.at[0]][this.at[1]];
      this.point(hit);
      live.textContent = hit.tip().join(", ");
    }
  }

  function chunked(values, least) {
    const found = [];
    for (let i = 0; i < values.length; i += 5000) found.push(least(...values.slice(i, i + 5000)));
    return found;
  }
  function colour(element, colours) {
    if (!colours) return;
    element.style.setProperty("--light", colours[0]);
    element.style.setProperty("--dark", colours[1]);
  }
  /** The same numbers as a table; a very long one is cut, with a note on where to find the rest. */
  function table({ caption, head, rows }) {
    const cells = (kind, row) => make("tr", {}, ...row.map((c, i) => make(i && kind !== "th" ? "td" : "th", { scope: kind === "th" ? "col" : "row" }, String(c))));
    const note = rows.length > 200 ? ` (the first 200 of ${rows.length} rows; denseam export gives all)` : "";
    return make("table", {}, make("caption", {}, caption + note), make("thead", {}, cells("th", head)), make("tbody", {}, ...rows.slice(0, 200).map((row) => cells("td", row))));
  }

  return { Chart, finite, live, make, number };
};
