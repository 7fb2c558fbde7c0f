"""Pages that are data of the library, written from it so that they cannot differ. Needs no Sphinx."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GENERATED = Path(__file__).parent / "_generated"


def write() -> None:
    """Write every page under `_generated`; a page that has not changed keeps its time."""
    GENERATED.mkdir(exist_ok=True)
    pages = {
        "quantities.md": quantities(),
        "commands.md": commands(),
        "gallery.md": gallery(),
        "steps.md": steps(),
    }
    for name, text in pages.items():
        page = GENERATED / name
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def quantities() -> str:
    """Return the table of what can be measured while training."""
    from denseam.training.quantities import QUANTITIES

    return _table(
        ("name", "group", "symbol", "what it is", "only for"),
        [(f"`{name}`", q.group, q.symbol, q.meaning, q.needs) for name, q in QUANTITIES.items()],
    )


def gallery() -> str:
    """Return every figure with its findings, judged and drawn from the records beside this file."""
    from denseam.paper.catalog import catalog
    from denseam.paper.sizes import SIZES

    made = _draw_gallery()
    heads = ("claims", "reproduced", "only if", "not reproduced", "undecided")
    summary = []
    for name, own in (("of the paper", False), ("of our own", True)):
        found = [c for d in made.values() if (d["paper_label"] is None) == own for c in d["claims"]]
        kinds = [(c["condition"] and "only if") or c["outcome"] for c in found]
        summary.append((f"{len(found)} {name}", *(str(kinds.count(kind)) for kind in heads[1:])))
    lines = [_table(heads, summary), "## All claims", "", _claims_table(made)]
    for title, own in (("The paper's figures", False), ("Studies of our own", True)):
        lines += [f"## {title}", ""]
        for figure in catalog():
            if (figure.paper_label is None) == own:
                lines += _figure_section(figure, made[figure.name], SIZES["paper"])
    return "\n".join(lines) + "\n"


def _draw_gallery() -> dict[str, Any]:
    """Draw and judge all figures, unless neither records nor code have changed; return the findings."""
    from denseam.paper.catalog import catalog
    from denseam.paper.gallery import make_figures
    from denseam.paper.sizes import SIZES

    here = Path(__file__).parent
    records, out = here / "gallery", GENERATED / "gallery"
    source = here.parent / "src" / "denseam"
    inputs = [*records.rglob("*.parquet"), *records.rglob("*.npz")]
    inputs += [*(source / "analysis").glob("*.py"), *(source / "paper").glob("*.py")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(inputs))).hexdigest()
    stamp = out / "digest"
    if not stamp.is_file() or stamp.read_text() != digest:
        shutil.rmtree(out, ignore_errors=True)
        for part in ("runs", "examples"):
            shutil.copytree(records / part, out / part)
        made = make_figures(catalog(), SIZES["paper"], out, train=False, formats=("png",))
        lacking = [one.figure.name for one in made if one.missing]
        if lacking:
            raise RuntimeError(f"the records in {records} lack runs of {', '.join(lacking)}")
        stamp.write_text(digest)
    return {f.name: json.loads((out / f"{f.name}.json").read_text(encoding="utf-8")) for f in catalog()}


#: File of `docs/steps` → what it is.
STEPS = {
    "h200": "One H200, with the constants of the table; nothing was fitted to these rows",
    "two": "Two virtual devices on two cores, with rates measured in the same run",
    "eight": "Eight virtual devices on the same two cores, with rates measured in the same run",
}


def steps() -> str:
    """Return steps of one model that were measured (`docs/steps`) beside what the roofline says today."""
    heads = ("N", "K", "B", "mesh", "SGD, predicted", "measured", "Adam, predicted", "measured", "ratios")
    lines, points = [], {}
    for name, title in STEPS.items():
        found = _predicted_and_measured(name)
        points[title.partition(",")[0]] = [pair for both in found.values() for pair in both.values()]
        rows = []
        for place, both in found.items():
            pairs = (both["sgd"], both["adam"])
            times = (f"{1e3 * value:.3g}" for pair in pairs for value in pair)
            ratios = ", ".join(f"{measured / predicted:.2f}" for predicted, measured in pairs)
            rows.append((*map(str, place), *times, ratios))
        lines += [f"**{title}**; ms per step, and measured over predicted:", "", _table(heads, rows)]
    _draw_steps(points)
    picture = [
        "```{figure} _generated/steps.png", ":alt: Measured against predicted time of a step", ":width: 60%",
        "", "Each point is a step of one model; in the band it is within a quarter of the plan.", "```", "",
    ]  # fmt: skip
    return "\n".join([*picture, *lines])


def _predicted_and_measured(name: str) -> dict[tuple[Any, ...], dict[str, tuple[float, float]]]:
    """Return predicted and measured seconds of a step for each shape, mesh and optimizer."""
    from denseam.cli.bench import REGIME
    from denseam.rules import Shape
    from denseam.workflow.roofline import Device, device, estimate

    kept = json.loads((Path(__file__).parent / "steps" / f"{name}.json").read_text())
    where = Device(**kept["rates"]) if "rates" in kept else device(name)
    found: dict[tuple[Any, ...], dict[str, tuple[float, float]]] = {}
    for row in kept["rows"]:
        shape = REGIME.shape(row["features"])
        if "memories" in row:
            shape = Shape(N=row["features"], K=row["memories"], P=row["batch"], B=row["batch"])
        mesh = row.get("mesh", "memories=1,batch=1")
        predicted = estimate(shape, row["optimizer"], where, *map(int, re.findall(r"=(\d+)", mesh)))
        place = (shape.N, shape.K, shape.B, mesh.replace(",", ", "))
        pair = (predicted.step_seconds, row["measured_seconds"])
        found.setdefault(place, {})[row["optimizer"]] = pair
    return found


def _draw_steps(points: dict[str, list[tuple[float, float]]]) -> None:
    from denseam.report.plots.style import FAINT, MARKERS, canvas, save

    with canvas(1, 1, 4.6, 4.0) as (figure, axes):
        ax = axes[0, 0]
        for (name, pairs), marker in zip(points.items(), MARKERS, strict=False):
            predicted, measured = zip(*pairs, strict=True)
            ax.loglog(predicted, measured, marker, ms=4, mfc="none", label=name)
        ends = ax.get_xlim()
        ax.plot(ends, ends, color=FAINT, lw=1, zorder=0)
        ax.fill_between(
            ends, [v / 1.25 for v in ends], [v * 1.25 for v in ends], color=FAINT, alpha=0.2, lw=0
        )
        ax.set(xlim=ends, xlabel="predicted, seconds a step", ylabel="measured, seconds a step")
        ax.legend(loc="upper left")
        save(figure, GENERATED, "steps", ("png",))


def _claims_table(made: dict[str, Any]) -> str:
    rows = []
    for name, document in made.items():
        for n, claim in enumerate(document["claims"]):
            link = "" if n else f"[{name}](#figure-{name})"
            rows.append((link, claim["claim"], claim["measured"], claim["verdict"]))
    return _table(("figure", "claim", "measured", "verdict"), rows)


def _figure_section(figure: Any, document: dict[str, Any], size: Any) -> list[str]:
    label = f" (`{figure.paper_label}`)" if figure.paper_label else ""
    lines = [f"(figure-{figure.name})=", f"### {figure.name}{label}", "", f"{figure.title}.", ""]
    lines += [
        f"```{{figure}} _generated/gallery/{figure.name}.png", f":alt: {figure.title}", ":width: 100%",
        ":target: " + f"_images/{figure.name}.png", "```", "",
    ]  # fmt: skip
    for claim in document["claims"]:
        verdict = claim["verdict"][0].upper() + claim["verdict"][1:]
        lines.append(f"- {claim['claim']} **{verdict}**: {claim['measured']}.")
    lines += ["", figure.remark, ""] if figure.remark else [""]
    return lines


def commands() -> str:
    """Return a table of all commands, and a section for each: text, usage, arguments and options."""
    found = list(registered())
    rows = [(f"[`{name}`](#{_anchor(name)})", _first_line(command)) for name, command, _ in found]
    return "\n".join([_table(("command", "what it does"), rows), *(_section(*one) for one in found)])


def registered() -> Iterator[tuple[str, Any, int]]:
    """Give the full name, the command and its depth, groups before what is in them."""
    import typer

    from denseam.cli import app

    def below(name: str, command: Any, depth: int) -> Iterator[tuple[str, Any, int]]:
        for word, inner in command.commands.items():
            if not inner.hidden:
                yield f"{name} {word}", inner, depth
                if hasattr(inner, "commands"):
                    yield from below(f"{name} {word}", inner, depth + 1)

    return below("denseam", typer.main.get_command(app), 0)


def options(command: Any) -> list[Any]:
    """Return what is written with dashes, but for --help."""
    return [
        p
        for p in command.params
        if p.param_type_name == "option" and not getattr(p, "hidden", False) and p.name != "help"
    ]


def arguments(command: Any) -> list[Any]:
    """Return what is written without."""
    return [p for p in command.params if p.param_type_name == "argument"]


def _section(name: str, command: Any, depth: int) -> str:
    usage = [name]
    for p in options(command):
        usage += [f"{p.opts[0]} {_metavar(p)}"] * bool(p.required)
    for p in arguments(command):
        many = _metavar(p) + (" …" if p.nargs == -1 else "")
        usage.append(many if p.required else f"[{many}]")
    usage += ["COMMAND …"] * hasattr(command, "commands")
    usage += ["[OPTIONS]"] * any(not p.required for p in options(command))
    rows = [(f"`{_metavar(p)}`", *_meaning(p)) for p in arguments(command)]
    rows += [
        (" ".join(f"`{o}`" for o in (*p.opts, *p.secondary_opts)), *_meaning(p)) for p in options(command)
    ]
    parts = [
        f"({_anchor(name)})=",
        f"{'#' * (depth + 2)} {name}",
        "",
        textwrap.dedent(command.help or ""),
        "",
    ]
    parts += ["```", *_wrapped(usage), "```", ""]
    if rows:
        parts.append(_table(("", "meaning", "default"), rows))
    return "\n".join(parts)


def _anchor(name: str) -> str:
    return "command-" + name.removeprefix("denseam ").replace(" ", "-")


def _first_line(command: Any) -> str:
    return (command.help or "").strip().partition("\n")[0]


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.strip("_").upper())


def _meaning(parameter: Any) -> tuple[str, str]:
    """Return what a parameter means, and what is taken where it is not given.

    Defaults that are found later, as from the data or the regime, stand in the help, in brackets at its end.
    """
    text, default = parameter.help or "", parameter.default
    if parameter.required:
        return text, "required"
    if not (default is None or default is False or default == () or callable(default)):
        return text, f"`{default}`"
    if default is None and not getattr(parameter, "is_flag", False):
        if found := re.fullmatch(r"(.+) \(([^()]+)\)\.", text):
            return f"{found[1]}.", found[2]
        if found := re.search(r"(\S+) \(default\)", text):
            return text.replace(" (default)", ""), found[1]
    return text, ""


def _wrapped(words: list[str]) -> list[str]:
    lines = textwrap.wrap(" ".join(w.replace(" ", "\0") for w in words), 88, subsequent_indent="    ")
    return [line.replace("\0", " ") for line in lines]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(c.replace("|", r"\|").replace("\n", " ") for c in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
