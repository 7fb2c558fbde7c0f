(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { Chart, finite, live, make, number } = chartsWith(data.markers);

  const symbol = (axis) => (axis === "eta0" ? "η₀" : axis);
  /** Mean of logarithms, as the figures draw it. */
  function mean(values) {
    if (values.some((v) => v <= 0)) return values.reduce((a, b) => a + b, 0) / values.length;
    return Math.exp(values.reduce((a, b) => a + Math.log(b), 0) / values.length);
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

    /** The loss of a run at the horizon; null if it has diverged. */
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
      const base = at.optimum[0], when = finite(at.epoch) ? `after epoch ${at.epoch}` : "after training";
      return {
        label: `Transfer of ${s.name}: loss against ${this.sign} ${when}; ${at.status}`,
        x: { kind: state.logx && s.values[0] > 0 ? "log" : "linear", label: s.axis === "eta0" ? "effective learning rate η₀" : s.axis },
        y: { kind: state.logy ? "log" : "linear", label: s.loss_name, top: 3 * s.zero },
        marks: finite(base) ? [base] : [],
        series,
        table: { caption: `${s.name}: loss ${when}, mean over seeds`, head: [this.sign, ...this.names], rows },
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
