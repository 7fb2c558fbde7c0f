"""The document of a folder as one HTML page that needs nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import string
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from denseam.report.markup import Markup, embedded_json, join, table, tag
from denseam.report.plots.style import MARKERS
from denseam.report.wording import duration, number

_SIGNS = {"TRANSFERS": "✓", "DRIFTS": "↗", "FAILS": "✕", "INCONCLUSIVE": "?"}
_LONG_GRID = 16
#: What the charts need of a study.
_DRAWN = (
    "name", "axis", "letter", "scales", "values", "seeds", "zero", "epochs", "stops", "runs", "curves",
    "probes",
)  # fmt: skip


def render(document: Mapping[str, Any]) -> str:
    """Return the page."""
    style, script = _resource("page.css"), _resource("page.js")
    studies = document["studies"]
    data = {
        "studies": [
            {k: s[k] for k in _DRAWN} | {"colours": colours(len(s["scales"]))} for s in studies
        ],
        "trainings": document["trainings"],
        "markers": MARKERS,
    }  # fmt: skip
    return string.Template(_resource("page.html")).substitute(
        script_hash=_hash(script),
        style_hash=_hash(style),
        version=join([document["version"]]),
        title=join([f"{document['title']}: denseam report"]),
        style=style,
        script=script,
        data=embedded_json(data),
        header=_header(document),
        main=join(_sections(document), "\n"),
        footer=tag("footer", tag("p", f"Made by denseam {document['version']}. This page holds all it shows; "
                                 "it opens without a network.")),
    )  # fmt: skip


def figures_of(document: Mapping[str, Any]) -> list[str]:
    """Return the names of the charts and pictures on the page."""
    found = []
    for s in document["studies"]:
        found += [f"{s['name']}: transfer", f"{s['name']}: collapse"]
        found += [f"{s['name']}: probes"] if s["probes"] else []
    found += [f"{t['place']}: training" for t in document["trainings"]]
    shown = [*document["pictures"], *(p for r in document["recalls"] for p in r["pictures"])]
    return found + [p["name"] for p in shown]


def colours(count: int) -> dict[str, list[str]]:
    """Return a colour per scale for each theme: small ones light, as in the figures, all of them seen."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    def spread(low: float, high: float) -> list[str]:
        shades = mpl.colormaps["viridis_r"]
        return [to_hex(shades(low + (high - low) * i / max(1, count - 1))) for i in range(count)]

    # The lightest yellow is lost on white, the darkest purple on black.
    return {"light": spread(0.26, 1.0), "dark": spread(0.0, 0.64)}


def _resource(name: str) -> str:
    return resources.files("denseam.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the source expression that lets a browser run this very text and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- words and numbers -----------------------------------------------------------------------------


def _symbol(axis: str) -> str:
    return "η₀" if axis == "eta0" else axis


def _count(many: int, word: str) -> str:
    return f"{many:,} {word}{'' if many == 1 else 's'}"


def _badge(status: str) -> Markup:
    sign = tag("span", _SIGNS.get(status, "•"), aria_hidden="true")
    return tag("span", sign, " ", status, class_=f"badge {status.lower()}")


def _command(text: str) -> Markup:
    copy = tag("button", "Copy", type="button", class_="copy", data_act="copy")
    # An option and its value stay on a line where there is room.
    first, *options = text.split(" --")
    parts = join([tag("span", part) for part in (first, *(f"--{option}" for option in options))], " ")
    return tag("div", tag("pre", tag("code", parts), tabindex="0"), copy, class_="command")


# --- sections --------------------------------------------------------------------------------------


def _header(document: Mapping[str, Any]) -> Markup:
    studies = document["studies"]
    parts = [_count(sum(s["count"] for s in studies), "run"),
             f"{len(studies)} {'study' if len(studies) == 1 else 'studies'}"] if studies else []  # fmt: skip
    return tag(
        "header",
        tag("div", tag("p", "denseam report", class_="eyebrow"), tag("h1", document["title"]),
            tag("p", join([*parts, tag("code", document["folder"])], " · "), class_="meta")),
        tag("button", "Dark theme", type="button", id="theme", aria_pressed="false"),
    )  # fmt: skip


def _sections(document: Mapping[str, Any]) -> Iterator[Markup]:
    if document["claims"]:
        yield _claims(document["claims"])
    yield _verdicts(document)
    if document["skipped"]:
        yield _skipped(document["skipped"])
    for i, study in enumerate(document["studies"]):
        yield _study(i, study)
    if document["tuned"]:
        yield _tuned(document["tuned"])
    for i, training in enumerate(document["trainings"]):
        yield _training(i, training)
    for recall in document["recalls"]:
        yield _recall(recall)
    if document["pictures"]:
        yield tag("section", tag("h2", "Pictures"), *map(_picture, document["pictures"]))
    if document["absent"]:
        yield _absent(document["absent"])


def _verdicts(document: Mapping[str, Any]) -> Markup:
    cards = [_card(i, s) for i, s in enumerate(document["studies"])]
    if not cards:
        cards = [tag("p", "There is no verdict: no runs at several sizes lie here.", class_="note")]
    return tag("section", tag("h2", "Verdict"), *cards, tag("p", document["note"], class_="note")
               if document["note"] else None, aria_label="Verdict")  # fmt: skip


def _claims(claims: Sequence[Mapping[str, str]]) -> Markup:
    rows = [(c["figure"], c["claim"], c["measured"], c["verdict"]) for c in claims]
    head = ("figure", "claim", "measured", "verdict")
    found = table("What the figures here claim, and what was found", head, rows)
    return tag("section", tag("h2", "Claims"), found, aria_label="Claims")


def _card(i: int, study: Mapping[str, Any]) -> Markup:
    v = study["verdict"]
    flags = [*v["flags"]]
    return tag(
        "article",
        tag("p", _badge(v["status"]), " ", tag("a", study["name"], href=f"#study-{i}"), class_="head"),
        tag("p", v["reason"], class_="reason"),
        tag("ul", *(tag("li", flag) for flag in flags)) if flags else None,
        tag("p", tag("strong", "Next: "), v["next"]) if v["next"] else None,
        class_=f"card {v['status'].lower()}",
    )  # fmt: skip


def _skipped(skipped: Sequence[str]) -> Markup:
    return tag(
        "section",
        tag("h2", "Passed over"),
        tag("p", "These files could not be read. Nothing on this page is from them."),
        tag("ul", *(tag("li", tag("code", what)) for what in skipped)),
        class_="warn",
    )


def _absent(absent: Sequence[Mapping[str, str]]) -> Markup:
    rows = [(a["what"], tag("code", a["command"])) for a in absent]
    return tag(
        "section", tag("h2", "Not in this folder"),
        table("Parts that are not here, and the commands that make them", ("what", "how"), rows, False),
        class_="absent",
    )  # fmt: skip


# --- a study ---------------------------------------------------------------------------------------


def _study(i: int, s: Mapping[str, Any]) -> Markup:
    letter, symbol = s["letter"], _symbol(s["axis"])
    scales = ", ".join(map(str, s["scales"]))
    lede = (
        f"{letter} = {scales}; {_count(len(s['values']), 'value')} of {symbol}; "
        f"{_count(len(s['seeds']), 'seed')}; {_count(s['epochs'][-1], 'epoch')}. "
        f"{_count(s['count'], 'run')}, {s['diverged']} of them diverged."
    )
    return tag(
        "section",
        tag("h2", s["name"], " ", _badge(s["verdict"]["status"]), id=f"name-{i}"),
        tag("p", lede, " ", s["left_out"], class_="lede"),
        _missing(s["missing"]),
        _transfer(i, s, symbol),
        tag("div", _collapse(i, s, symbol), _probes(i, s, symbol), class_="pair"),
        _settings(s),
        _reproduce(s),
        class_="study", id=f"study-{i}", data_study=i, aria_labelledby=f"name-{i}",
    )  # fmt: skip


def _missing(missing: Mapping[str, Any]) -> Markup | None:
    if not missing["count"]:
        return None
    more = [tag("li", f"and {missing['more']} more such lines")] if missing["more"] else []
    return tag(
        "div",
        tag("p", tag("strong", f"{_count(missing['count'], 'run')} missing"), " of the grid that the runs at "
            "hand span. Run the sweep again: it resumes. A size, value or seed without any run cannot be "
            "named here."),
        tag("ul", *(tag("li", line) for line in missing["named"]), *more),
        class_="note warn",
    )  # fmt: skip


def _toggle(act: str, text: str) -> Markup:
    return tag("button", text, type="button", data_act=act, aria_pressed="true")


def _toolbar(name: str, *more: Markup) -> Markup:
    return tag("div", *more, _toggle("seeds", "Seeds"), _toggle("logx", "Log x"), _toggle("logy", "Log y"),
               class_="toolbar", role="group", aria_label=name)  # fmt: skip


def _chart(kind: str, caption: str) -> Markup:
    return tag("figure", tag("div", class_="plot"), tag("div", class_="legend", aria_hidden="true"),
               tag("figcaption", caption),
               tag("details", tag("summary", "The numbers of this chart"), tag("div", class_="numbers")),
               data_chart=kind)  # fmt: skip


def _select(identity: str, act: str, label: str, options: Sequence[tuple[object, str]]) -> Markup:
    chosen = (tag("option", text, value=value) for value, text in options)
    return tag("span", tag("label", label, for_=identity), tag("select", *chosen, id=identity, data_act=act),
               class_="field")  # fmt: skip


def _transfer(i: int, s: Mapping[str, Any], symbol: str) -> Markup:
    letter, stops = s["letter"], s["stops"]
    caption = (
        f"Loss (mean squared error per feature) against {symbol}, a line for each {letter}: the mean over "
        "seeds, and their range. Rings mark the best value of each size; the dotted line is the value that "
        "would be transferred, the best of the smallest size; crosses along the top are runs that diverged."
    )
    now = tag("p", _badge(stops[-1]["status"]), " ", tag("span", stops[-1]["reason"]), class_="now",
              aria_live="polite")  # fmt: skip
    slider = tag(
        "div",
        tag("label", "Horizon", for_=f"horizon-{i}"),
        tag("input", type="range", id=f"horizon-{i}", data_act="horizon", min=0, max=len(stops) - 1, step=1,
            value=len(stops) - 1, disabled=len(stops) < 2, aria_valuetext=f"epoch {stops[-1]['epoch']}"),
        tag("output", f"epoch {stops[-1]['epoch']} of {stops[-1]['epoch']}", for_=f"horizon-{i}"),
        class_="horizon",
    )  # fmt: skip
    return tag(
        "div",
        tag("h3", "Transfer"),
        tag("div", _toolbar(f"Transfer chart of {s['name']}"), slider, class_="row"),
        now,
        _chart("transfer", caption),
        _optima(s, symbol),
        class_="block", data_block="transfer",
    )  # fmt: skip


def _optima(s: Mapping[str, Any], symbol: str) -> Markup:
    def regret(row: Mapping[str, Any]) -> str:
        if row["base"]:
            return "(base)"
        if row["diverges"]:
            return "diverges"
        if row["regret"] is None:
            return "unknown"
        text = f"{100 * row['regret']:.2f} %"
        low, high = row["regret_ci"] or (None, None)
        return text if low is None or high is None else f"{text} [{100 * low:.2f}, {100 * high:.2f}]"

    rows = [
        (row["scale"], number(row["optimum"]), number(row["best_loss"]), regret(row),
         "beyond the grid" if row["edge"] is None else number(row["edge"]))
        for row in s["verdict"]["rows"]
    ]  # fmt: skip
    head = (s["letter"], f"best {symbol}", "best loss", "regret, 95 % interval", "edge of stability")
    return table(f"{s['name']}: what each size says at the end of training", head, rows)


def _collapse(i: int, s: Mapping[str, Any], symbol: str) -> Markup:
    collapse = s["verdict"]["collapse"]
    if collapse is None:
        text = (
            "Collapse: not measured. It needs two sizes, two seeds and curves that stay finite at the value "
            "that would be transferred."
        )
    else:
        text = (
            f"Collapse: {collapse:.2g}. Loss curves of the sizes differ {collapse:.2g} times as much as "
            "those of two seeds at the smallest size; near 1, sizes cannot be told apart from seeds."
        )
    options = [(j, number(v)) for j, v in enumerate(s["values"])]
    return tag(
        "div",
        tag("h3", "Collapse"),
        _toolbar(f"Loss curves of {s['name']}", _select(f"value-{i}", "value", f"at {symbol} =", options)),
        _chart("collapse", text),
        class_="block", data_block="collapse",
    )  # fmt: skip


def _probes(i: int, s: Mapping[str, Any], symbol: str) -> Markup:
    probes = s["probes"]
    if not probes:
        return tag(
            "div", tag("h3", "Probes"),
            tag("p", "Nothing was measured while these models trained. Sweep with ",
                tag("code", "--probes all"), " to see the sizes of states and updates here.", class_="note"),
            class_="block",
        )  # fmt: skip
    quantities = [(j, f"{q['symbol']}: {q['meaning']}") for j, q in enumerate(probes["quantities"])]
    values = [(j, number(v)) for j, v in enumerate(probes["values"])]
    return tag(
        "div",
        tag("h3", "Probes"),
        _toolbar_of_probes(i, s["name"], symbol, quantities, values),
        _chart("probes", "What was measured at a step, a line for each size: the mean over seeds. Where the "
               "lines lie on each other, the size of the model does not matter."),
        class_="block", data_block="probes",
    )  # fmt: skip


def _toolbar_of_probes(
    i: int,
    name: str,
    symbol: str,
    quantities: Sequence[tuple[object, str]],
    values: Sequence[tuple[object, str]],
) -> Markup:
    return tag(
        "div",
        _select(f"quantity-{i}", "quantity", "quantity", quantities),
        _select(f"probed-{i}", "value", f"at {symbol} =", values),
        _toggle("logx", "Log x"), _toggle("logy", "Log y"),
        class_="toolbar", role="group", aria_label=f"Probes of {name}",
    )  # fmt: skip


def _settings(s: Mapping[str, Any]) -> Markup:
    grids = [(name, _grid(values)) for name, values in s["grids"].items()]
    fixed = [(k, _setting(v)) for k, v in s["settings"].items() if k not in s["grids"]]
    versions = [(name if name != "version" else "denseam", ", ".join(v)) for name, v in s["versions"].items()]
    versions += [("runs", f"{s['count']:,}"), ("time in all runs", duration(s["seconds"] or 0.0))]
    return tag(
        "div",
        tag("h3", "Settings"),
        *(part for title, pairs in (("Varied", grids), ("Fixed", fixed), ("Where it ran", versions))
          for part in (tag("h4", title), _facts(pairs))),
        class_="block settings",
    )  # fmt: skip


def _facts(pairs: Sequence[tuple[str, str]]) -> Markup:
    return tag(
        "dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_="facts"
    )


def _setting(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _grid(values: Sequence[Any]) -> str:
    if len(values) <= _LONG_GRID:
        return ", ".join(map(_short, values))
    return f"{_short(values[0])} … {_short(values[-1])} ({len(values)} values)"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _reproduce(s: Mapping[str, Any]) -> Markup:
    c = s["command"]
    checked = "Parsed again, it asks for the very runs on this page." if c["checked"] else None
    return tag(
        "div",
        tag("h3", "Reproduce"),
        _command(c["text"]) if c["text"] else None,
        tag("p", join([t for t in (checked, *c["notes"]) if t], " "), class_="hint"),
        class_="block reproduce",
    )  # fmt: skip


# --- beside the runs -------------------------------------------------------------------------------


def _tuned(t: Mapping[str, Any]) -> Markup:
    facts: list[tuple[str, str]] = []
    if t["recommended"]:
        low, high = t["eta0_ci"] or (None, None)
        between = f" [{number(low)}, {number(high)}]" if low is not None else ""
        facts.append(("use η₀", f"{number(t['eta0'])}{between}"))
        facts += [(f"use {k}", number(v)) for k, v in (t["constants"] or {}).items()]
        facts.append(("base", str(t["base"])))
    shape = t["target"] or {}
    facts.append(("target", ", ".join(f"{k} = {v}" for k, v in shape.items() if v is not None)))
    facts += [(k, number(v, 4)) for k, v in (t["parameters"] or {}).items()]
    facts += [("sizes tuned at", ", ".join(map(str, t["scales"] or []))), ("seeds", str(t["seeds"])),
              ("data", str(t["data"]))]  # fmt: skip
    cost = t["cost"]
    if cost.get("share") is not None and cost.get("runs") is not None:
        facts.append(("cost", f"{cost['runs']} runs, {duration(cost['seconds'] or 0)}; "
                      f"{100 * cost['share']:.2g} % of a sweep at the target"))  # fmt: skip
    others = [tag("li", _badge(str(v["status"])), f" {v['axis']}: {v['reason']}") for v in t["verdicts"]]
    refused = None if t["recommended"] else tag("p", "No learning rate is recommended. ", t["advice"] or "",
                                                class_="note warn")  # fmt: skip
    return tag("section", tag("h2", "Tuned recipe ", _badge(str(t["status"]))), refused,
               tag("ul", *others, class_="plain"),
               _facts(facts))  # fmt: skip


def _training(i: int, t: Mapping[str, Any]) -> Markup:
    if t["status"] == "stopped":
        text = f"Not finished: {t['step']} steps are saved. Run the same denseam train again, and it goes on."
    elif t["status"] == "diverged":
        text = f"It diverged at step {t['diverged_at']}; no model was written."
    else:
        heldout = "" if t["heldout_mse"] is None else f", {number(t['heldout_mse'], 4)} on held-out samples"
        text = f"MSE {number(t['final_mse'], 4)} per feature{heldout}; predicting zero gives "
        text += f"{number(t['zero_mse'], 4)}. It took {duration(t['seconds'] or 0)}."
    if t.get("left_expected_at") is not None:
        text += f" The loss left what the small models predict after epoch {t['left_expected_at']} "
        text += f"({t['left_expected']})."
    elif t["band"]:
        text += " It stayed within what the small models predict."
    caption = f"Training loss of {t['place']}" + (", and the range the small models let expect." if t["band"]
                                                  else ". No range was expected of it.")  # fmt: skip
    bar = tag("div", _toggle("logx", "Log x"), _toggle("logy", "Log y"), class_="toolbar", role="group",
              aria_label=f"Training chart of {t['place']}")  # fmt: skip
    return tag("section", tag("h2", "Training" if t["place"] == "." else f"Training: {t['place']}"),
               tag("p", text, class_="lede"),
               tag("div", bar, _chart("training", caption), class_="block", data_block="training"),
               data_training=i)  # fmt: skip


def _recall(r: Mapping[str, Any]) -> Markup:
    rows = [
        (number(x["noise"]), x["samples"], x["at_rest"], number(x["steps"]), number(x["energy_start"], 4),
         number(x["energy_end"], 4))
        for x in r["levels"]
    ]  # fmt: skip
    head = ("noise", "samples", "at rest", "steps, mean", "energy at first", "energy in the end")
    return tag("section", tag("h2", "Recall" if r["place"] == "." else f"Recall: {r['place']}"),
               table(f"What was recalled in {r['place']}", head, rows) if rows else
               tag("p", "The arrays (recalled.npz) are not here.", class_="note"),
               *map(_picture, r["pictures"]))  # fmt: skip


def _picture(p: Mapping[str, str]) -> Markup:
    return tag("figure", tag("img", src=p["src"], alt=f"Picture {p['name']}"),
               tag("figcaption", p["name"]), class_="picture")  # fmt: skip
