"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const live = document.getElementById("live");

  // --- small things -----------------------------------------------------------------------------

  const NS = "http://www.w3.org/2000/svg";
  /** Make an element: text only ever gets in as text. */
  function make(name, attributes = {}, ...children) {
    const svg = ["svg", "g", "path", "line", "text", "rect", "clipPath", "defs"].includes(name);
    const element = svg ? document.createElementNS(NS, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  const finite = (v) => v !== null && v !== undefined && Number.isFinite(v);
  const symbol = (axis) => (axis === "eta0" ? "η₀" : axis);
  /** Three digits, without trailing zeros. */
  function number(v, digits = 3) {
    if (!finite(v)) return "none";
    if (v === 0) return "0";
    const size = Math.abs(v);
    if (size >= 1e5 || size < 1e-3) return v.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
    return String(Number(v.toPrecision(digits)));
  }
  /** Mean of logarithms, as the figures draw it. */
  function mean(values) {
    if (values.some((v) => v <= 0)) return values.reduce((a, b) => a + b, 0) / values.length;
    return Math.exp(values.reduce((a, b) => a + Math.log(b), 0) / values.length);
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
  const shape = (i) => SHAPES[data.markers[i % data.markers.length]];
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
   * A chart in a figure; `describe()` says what to draw:
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

    /** Draw one series; return its points, with places, for the pointer and the keyboard. */
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
  /** The same numbers as a table; a very long one is cut, with a word on where the rest is. */
  function table({ caption, head, rows }) {
    const cells = (kind, row) => make("tr", {}, ...row.map((c, i) => make(i && kind !== "th" ? "td" : "th", { scope: kind === "th" ? "col" : "row" }, String(c))));
    const note = rows.length > 200 ? ` (the first 200 of ${rows.length} rows; denseam export gives all)` : "";
    return make("table", {}, make("caption", {}, caption + note), make("thead", {}, cells("th", head)), make("tbody", {}, ...rows.slice(0, 200).map((row) => cells("td", row))));
  }
  const badge = (status) => {
    const signs = { TRANSFERS: "✓", DRIFTS: "↗", FAILS: "✕", INCONCLUSIVE: "?" };
    return make("span", { class: `badge ${status.toLowerCase()}` }, make("span", { "aria-hidden": "true" }, signs[status] || "•"), ` ${status}`);
  };

  // --- a study ----------------------------------------------------------------------------------

  class Study {
    constructor(section, study) {
      Object.assign(this, { section, study });
      const s = study;
      this.stop = s.stops.length - 1;
      this.sign = symbol(s.axis);
      this.names = s.scales.map((v) => `${s.letter} = ${v}`);
      this.palette = s.scales.map((_, i) => [s.colours.light[i], s.colours.dark[i]]);
      // Runs by scale and value.
      this.cells = s.scales.map(() => s.values.map(() => []));
      s.runs.scale.forEach((i, r) => this.cells[i][s.runs.value[r]].push(r));
      this.epochAt = s.stops.map((stop) => s.epochs.indexOf(stop.epoch));
      const base = s.stops[this.stop].optimum[0];
      const log = (v) => (s.values[0] > 0 ? Math.log(v) : v);
      this.nearest = finite(base) ? s.values.reduce((best, v, j) => (Math.abs(log(v) - log(base)) < Math.abs(log(s.values[best]) - log(base)) ? j : best), 0) : Math.floor(s.values.length / 2);
      this.charts = {};
      for (const kind of ["transfer", "collapse", "probes"]) this.block(kind);
    }

    block(kind) {
      const block = this.section.querySelector(`[data-block="${kind}"]`);
      if (!block) return;
      const state = { seeds: true, logx: true, logy: true, value: this.nearest, quantity: 0 };
      const redraw = () => this.charts[kind].draw();
      toggles(block, state, redraw);
      const select = block.querySelector('select[data-act="value"]');
      if (select) {
        const values = kind === "probes" ? this.study.probes.values : this.study.values;
        state.value = Math.max(0, values.indexOf(this.study.values[this.nearest]));
        select.value = state.value;
        select.options[state.value].label += kind === "collapse" ? " (≈ transferred)" : "";
        select.addEventListener("change", () => { state.value = Number(select.value); redraw(); });
      }
      const quantity = block.querySelector('select[data-act="quantity"]');
      quantity?.addEventListener("change", () => { state.quantity = Number(quantity.value); redraw(); });
      const slider = block.querySelector('[data-act="horizon"]');
      slider?.addEventListener("input", () => this.horizon(Number(slider.value), block));
      if (slider) slider.value = this.stop;
      this.charts[kind] = new Chart(block.querySelector("figure"), () => this[kind](state));
    }

    horizon(stop, block) {
      const { stops } = this.study;
      this.stop = stop;
      const { epoch, status, reason } = stops[stop], last = stops[stops.length - 1].epoch;
      block.querySelector("output").textContent = `epoch ${epoch} of ${last}`;
      block.querySelector('[data-act="horizon"]').setAttribute("aria-valuetext", `epoch ${epoch} of ${last}`);
      block.querySelector(".now").replaceChildren(badge(status), " ", make("span", {}, reason));
      this.charts.transfer.draw();
      this.charts.collapse.draw();
    }

    /** The loss of a run at the horizon; null where it has diverged. */
    loss(run) {
      const { runs, curves, stops } = this.study;
      return this.stop === stops.length - 1 ? runs.loss[run] : curves[run][this.epochAt[this.stop]];
    }
    runTip(run) {
      const { runs, scales, values, seeds, letter } = this.study;
      const loss = this.loss(run);
      const gone = runs.loss[run] === null;
      const when = gone ? (finite(runs.diverged_at[run]) ? `diverged at step ${runs.diverged_at[run]}` : "diverged") : "finished";
      return [`${letter} = ${scales[runs.scale[run]]}, seed ${seeds[runs.seed[run]]}`, `${this.sign} = ${number(values[runs.value[run]], 4)}`,
        `loss ${finite(loss) ? number(loss, 4) : "infinite"}`, `status: ${when}`, `run ${runs.key[run]}`];
    }

    transfer(state) {
      const s = this.study, at = s.stops[this.stop];
      const rows = s.values.map((v) => [number(v, 4)]);
      const series = s.scales.map((scale, i) => {
        const dots = [], seeds = [], band = [], lost = [];
        s.values.forEach((x, j) => {
          const here = this.cells[i][j], good = here.filter((r) => finite(this.loss(r))), losses = good.map((r) => this.loss(r));
          for (const r of here) {
            if (!finite(this.loss(r))) lost.push({ x, tip: () => this.runTip(r) });
            else if (state.seeds) seeds.push({ x, y: this.loss(r), tip: () => this.runTip(r) });
          }
          rows[j].push(!here.length ? "missing" : good.length === here.length ? number(mean(losses), 4) : `diverged (${here.length - good.length} of ${here.length})`);
          if (!here.length || good.length < here.length) return;
          const [low, high] = [Math.min(...losses), Math.max(...losses)];
          dots.push({ x, y: mean(losses), tip: () => [this.names[i], `${this.sign} = ${number(x, 4)}`, `mean of ${losses.length} seed${losses.length === 1 ? "" : "s"}: ${number(mean(losses), 4)}`, `range ${number(low, 4)} … ${number(high, 4)}`] });
          band.push({ x, low, high });
        });
        const best = at.optimum[i];
        const ring = finite(best) && dots.length ? { x: best, y: between(dots, best, s.values[0] > 0) } : null;
        return { k: i, name: this.names[i], colours: this.palette[i], dots, seeds, band, crosses: lost, ring };
      });
      const base = at.optimum[0];
      return {
        label: `Transfer of ${s.name}: loss against ${this.sign} after epoch ${at.epoch}; ${at.status}`,
        x: { kind: state.logx && s.values[0] > 0 ? "log" : "linear", label: s.axis === "eta0" ? "effective learning rate η₀" : s.axis },
        y: { kind: state.logy ? "log" : "linear", label: "MSE per feature", top: 3 * s.zero },
        marks: finite(base) ? [base] : [],
        series,
        table: { caption: `${s.name}: loss after epoch ${at.epoch}, mean over seeds`, head: [this.sign, ...this.names], rows },
      };
    }

    collapse(state) {
      const s = this.study, value = s.values[state.value], shownEpochs = s.stops.map((stop) => stop.epoch);
      const rows = shownEpochs.map((e) => [e]);
      const series = s.scales.map((scale, i) => {
        const here = this.cells[i][state.value], dots = [], band = [];
        const lost = here.flatMap((r) => {
          const e = s.curves[r].findIndex((v) => !finite(v));
          return e < 0 ? [] : [{ x: s.epochs[e], tip: () => this.runTip(r) }];
        });
        s.epochs.forEach((x, e) => {
          const losses = here.map((r) => s.curves[r][e]).filter(finite);
          const whole = here.length && losses.length === here.length;
          const row = shownEpochs.indexOf(x);
          if (row >= 0) rows[row].push(!here.length ? "missing" : whole ? number(mean(losses), 4) : "diverged");
          if (!whole) return;
          dots.push({ x, y: mean(losses), tip: () => [this.names[i], `epoch ${x}`, `mean of ${losses.length} seed${losses.length === 1 ? "" : "s"}: ${number(mean(losses), 4)}`] });
          band.push({ x, low: Math.min(...losses), high: Math.max(...losses) });
        });
        const lines = state.seeds && here.length <= 24 ? here.map((r) => s.epochs.map((x, e) => ({ x, y: s.curves[r][e] })).filter((p) => finite(p.y))) : [];
        return { k: i, name: this.names[i], colours: this.palette[i], dots, band, lines, crosses: lost };
      });
      return {
        label: `Loss curves of ${s.name} at ${this.sign} = ${number(value)}`,
        x: { kind: state.logx ? "log" : "linear", label: "epoch" },
        y: { kind: state.logy ? "log" : "linear", label: "training MSE per feature", top: 3 * s.zero },
        marks: this.stop < s.stops.length - 1 ? [s.stops[this.stop].epoch] : [],
        series,
        table: { caption: `${s.name}: training loss at ${this.sign} = ${number(value)}, mean over seeds`, head: ["epoch", ...this.names], rows },
      };
    }

    probes(state) {
      const s = this.study, { probes } = s, q = probes.quantities[state.quantity], value = probes.values[state.value];
      const steps = [...new Set(probes.steps.flat())].sort((a, b) => a - b);
      const rows = steps.map((step) => [step, ...s.scales.map((_, i) => {
        const v = q.sizes[state.value][i][probes.steps[i].indexOf(step)];
        return finite(v) ? number(v, 4) : "none";
      })]);
      const series = s.scales.map((scale, i) => ({
        k: i, name: this.names[i], colours: this.palette[i],
        dots: probes.steps[i].map((x, t) => ({ x, y: q.sizes[state.value][i][t], tip: () => [this.names[i], `step ${x}`, `${q.symbol} = ${number(q.sizes[state.value][i][t], 4)}`] })).filter((p) => finite(p.y)),
      }));
      return {
        label: `${q.symbol} (${q.meaning}) of ${s.name} at ${this.sign} = ${number(value)}`,
        x: { kind: state.logx ? "log1p" : "linear", label: "step" },
        y: { kind: state.logy ? "log" : "linear", label: q.symbol, least: Math.log10(4) },
        series,
        table: { caption: `${s.name}: ${q.symbol} (${q.meaning}) at ${this.sign} = ${number(value)}, mean over seeds`, head: ["step", ...this.names], rows },
      };
    }
  }

  /** The height of a line at a place between its points. */
  function between(dots, x, log) {
    const f = log ? Math.log : (v) => v;
    const right = dots.findIndex((p) => p.x >= x);
    if (right < 0) return dots[dots.length - 1].y;
    if (right === 0 || dots[right].x === x) return dots[right].y;
    const [a, b] = [dots[right - 1], dots[right]], w = (f(x) - f(a.x)) / (f(b.x) - f(a.x));
    return Math.exp((1 - w) * Math.log(a.y) + w * Math.log(b.y));
  }

  function toggles(block, state, redraw) {
    for (const button of block.querySelectorAll("button[aria-pressed]"))
      button.addEventListener("click", () => {
        const act = button.dataset.act;
        state[act] = !state[act];
        button.setAttribute("aria-pressed", String(state[act]));
        redraw();
      });
  }

  function training(section, t) {
    const block = section.querySelector('[data-block="training"]');
    const state = { logx: true, logy: true };
    const dots = (values, name) => t.x.map((x, i) => ({ x, y: values[i], tip: () => [name, `${t.unit} ${x}`, `loss ${number(values[i], 4)}`] })).filter((p) => finite(p.y));
    const chart = new Chart(block.querySelector("figure"), () => {
      const series = [{ k: 0, name: "target", dots: dots(t.loss, "target"), marker: t.x.length < 33 }];
      if (t.band)
        series.unshift({ k: 1, kind: "expected", name: "expected from small models", marker: false, dots: dots(t.band.middle, "expected"), band: t.x.map((x, i) => ({ x, low: t.band.low[i], high: t.band.high[i] })) });
      return {
        label: `Training loss of ${t.place} against the ${t.unit}`,
        x: { kind: state.logx ? "log" : "linear", label: t.unit },
        y: { kind: state.logy ? "log" : "linear", label: "training MSE per feature" },
        marks: finite(t.left_expected_at) ? [t.left_expected_at] : [],
        series,
        table: { caption: `Training loss of ${t.place}`, head: t.band ? [t.unit, "loss", "expected, low", "expected, high"] : [t.unit, "loss"], rows: t.x.map((x, i) => [x, finite(t.loss[i]) ? number(t.loss[i], 4) : "diverged", ...(t.band ? [number(t.band.low[i], 4), number(t.band.high[i], 4)] : [])]) },
      };
    });
    toggles(block, state, () => chart.draw());
  }

  // --- the page ---------------------------------------------------------------------------------

  const theme = document.getElementById("theme"), root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const showTheme = () => {
    theme.textContent = isDark() ? "Light theme" : "Dark theme";
    theme.setAttribute("aria-pressed", String(isDark()));
  };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; showTheme(); });
  dark.addEventListener("change", showTheme);
  showTheme();

  for (const button of document.querySelectorAll('[data-act="copy"]'))
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      live.textContent = `${button.textContent} the command`;
    });

  // On paper every table is open.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of opened) part.open = false; });

  for (const section of document.querySelectorAll("[data-study]")) new Study(section, data.studies[section.dataset.study]);
  for (const section of document.querySelectorAll("[data-training]")) training(section, data.trainings[section.dataset.training]);
})();
