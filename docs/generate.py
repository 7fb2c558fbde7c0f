"""Generate the pages that show data of the library, so that they always agree with it. Needs no Sphinx."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from docs import found, recorded, stacked

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "denseam"
GENERATED = ROOT / "docs" / "_generated"
T = TypeVar("T")


def write() -> None:
    """Write every page under `_generated`; unchanged files are not touched."""
    GENERATED.mkdir(exist_ok=True)
    pages = {
        "quantities.md": quantities(),
        "commands.md": commands(),
        **gallery(),
        "statements.md": statements(),
        "steps.md": steps(),
        "layers.md": layers(),
        "rooms.md": rooms_page(),
        "api.md": api(),
        **{
            name: fragment()
            for part in (recorded, found, stacked)
            for name, fragment in part.FRAGMENTS.items()
        },
    }
    for name, text in pages.items():
        page = GENERATED / name
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
    calibration(GENERATED / "calibration")
    _draw_transfer()


def quantities() -> str:
    """Return the table of quantities that can be measured during training."""
    from denseam.training.quantities import QUANTITIES

    return recorded.table(
        ("name", "group", "symbol", "meaning", "only for"),
        [(f"`{name}`", q.group, q.symbol, q.meaning, q.needs) for name, q in QUANTITIES.items()],
    )


def gallery() -> dict[str, str]:
    """Return all claims, and all figures with their findings, judged and drawn from the records."""
    from denseam.paper.catalog import catalog

    made = _draw_gallery()
    pages = {"gallery-claims.md": _claims_table(made)}
    for page, chosen in GALLERIES.items():
        sections = [_figure_section(figure, made[figure.name]) for figure in filter(chosen, catalog())]
        pages[f"{page}.md"] = "\n".join(line for section in sections for line in section) + "\n"
    return pages


def statements() -> str:
    """Return what the paper says, sentence by sentence, and what tests it."""
    from denseam.paper.catalog import catalog
    from denseam.paper.statements import STATEMENTS, claims_about

    figures, rows = catalog(), []
    for statement in STATEMENTS:
        by_figure: dict[str, list[str]] = {}
        for figure, claim in claims_about(statement, figures):
            tests = dict.fromkeys(type(test).__name__ for _, test in claim.tests)
            by_figure.setdefault(figure.name, []).append(f"{claim.text} (`{'`, `'.join(tests)}`)")
        cells = [f"[{name}]({place_of(name)}): {' '.join(texts)}" for name, texts in by_figure.items()]
        cells += [statement.otherwise] if statement.otherwise else []
        rows.append((f"`{statement.place}`", statement.text, "; ".join(cells)))
    return recorded.table(("place", "statement, in our words", "claims and their tests, or the reason"), rows)


#: Page of the gallery → which figures it shows.
GALLERIES: dict[str, Callable[[Any], bool]] = {
    "gallery-paper": lambda figure: figure.paper_label is not None,
    "gallery-text": lambda figure: figure.section is not None,
    "gallery-own": lambda figure: figure.own,
}


def place_of(name: str) -> str:
    """Return the page and the anchor of a figure."""
    from denseam.paper.catalog import catalog

    (figure,) = (figure for figure in catalog() if figure.name == name)
    (page,) = (page for page, chosen in GALLERIES.items() if chosen(figure))
    return f"{page}.md#figure-{name}"


#: With PART=k/n every n-th is made, from the k-th on, of what takes long: pictures of the gallery, tutorials.
PART = os.environ.get("PART") or "0/1"


def in_part(items: Sequence[T]) -> Sequence[T]:
    """Return those that are made in this part; without PART, all."""
    k, n = map(int, PART.split("/"))
    return items[k::n]


def _draw_gallery() -> dict[str, Any]:
    """Draw and judge all figures if the records or the code have changed; return the findings.

    Figures that are not in this part are only judged.
    """
    from denseam.paper.catalog import catalog
    from denseam.paper.gallery import make_figures
    from denseam.paper.sizes import SIZES

    out = GENERATED / "gallery"
    inputs = [*recorded.RECORDS.rglob("*.parquet"), *recorded.RECORDS.rglob("*.npz")]
    for room in ("analysis", "paper", "report/plots"):  # judge, claim and draw
        inputs += (SOURCE / room).rglob("*.py")
    digest = _digest(inputs)
    stamp, documents = out / "digest", out / "documents.json"
    made_here = digest if PART == "0/1" else f"{digest} {PART}"
    sufficient = (digest, made_here)  # all of them, or this part
    if not stamp.is_file() or stamp.read_text() not in sufficient:
        shutil.rmtree(out, ignore_errors=True)
        for folder in ("runs", "examples"):
            shutil.copytree(recorded.RECORDS / folder, out / folder)
        figures = catalog()
        whole: dict[str, Any] = {figure.name: None for figure in figures}
        drawn = in_part(figures)
        judged = [figure for figure in figures if figure not in drawn]
        for chosen, formats in ((drawn, ("png",)), (judged, ())):
            for made in make_figures(chosen, SIZES["paper"], out, train=False, formats=formats):
                whole[made.figure.name] = made.to_json()
        documents.write_text(json.dumps(whole), encoding="utf-8")
        stamp.write_text(made_here)
    found: dict[str, Any] = json.loads(documents.read_text(encoding="utf-8"))
    return found


def _draw_transfer() -> None:
    """Draw the one picture of the first page: the loss against the learning rate, not centred and centred."""
    from denseam.paper.experiments import RELU_SGD, RELU_SGD_PLAIN
    from denseam.report.plots.panels import mark_divergences, share_limits, sweep_panel
    from denseam.report.plots.style import canvas, plain_log_ticks, save

    results = recorded.results()["trained"]
    with canvas(1, 2, 8.6, 3.3) as (figure, axes):
        for ax, setting in zip(axes[0], (RELU_SGD_PLAIN, RELU_SGD), strict=True):
            sweep_panel(ax, list(results.rows(setting)), results.verdict(setting), setting.label)
        share_limits(axes[0])
        for ax in axes[0]:
            mark_divergences(ax)
            plain_log_ticks(ax.yaxis)
        axes[0, 1].legend(loc="upper left", bbox_to_anchor=(0.05, 1), fontsize=8)
        save(figure, GENERATED, "transfer", ("png",))


def calibration(out: Path) -> None:
    """Write tables and pictures of the calibration, judged from its records, if these or the code changed."""
    from calibration.report import write as write_report

    home = ROOT / "calibration"
    inputs = [path for kind in ("parquet", "json", "py") for path in home.glob(f"*.{kind}")]
    inputs += [*(SOURCE / "analysis").rglob("*.py"), SOURCE / "report" / "plots" / "style.py"]
    digest = _digest(inputs)
    stamp = out / "digest"
    if not stamp.is_file() or stamp.read_text() != digest:
        write_report(out)
        stamp.write_text(digest)


def _digest(paths: list[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()


#: File of `docs/steps` → its title.
STEPS = {
    "h200": "One H200, with the constants of the table; nothing was fitted to these rows",
    "two": "Two virtual devices on two cores, with rates measured in the same run",
    "eight": "Eight virtual devices on the same two cores, with rates measured in the same run",
}


def steps() -> str:
    """Return measured times of single steps (`docs/steps`) beside the current predictions of the roofline."""
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
        lines += [f"**{title}**; ms per step, and measured / predicted:", "", recorded.table(heads, rows)]
    _draw_steps(points)
    picture = [
        "```{figure} _generated/steps.png", ":alt: Measured against predicted time of a step", ":width: 60%",
        "", "Each point is a step of one model. In the band, it agrees with the plan to 25 %.", "```", "",
    ]  # fmt: skip
    return "\n".join([*picture, *lines])


def layers() -> str:
    """Return what `examples/layers.py` found: a row for each layer, and exponents at three steps."""
    kept = json.loads((ROOT / "docs" / "layers.json").read_text())["layers"]
    titles = [f"{r['layer']}, {'rescaled' if r['rescaled'] else 'as usual'}" for r in kept]
    rows = []
    for title, result in zip(titles, kept, strict=True):
        check, verdict = result["check"], result["verdict"]
        best, loss = (_listed(verdict[key].values()) for key in ("optimum_eta0", "best_loss"))
        largest = list(verdict["regret"].values())[-1]
        regret = "infinite, runs diverge" if largest is None else f"{100 * largest:.1f} %"
        rows.append((title, check["status"], best, loss, regret, verdict["status"]))
    sizes = ", ".join(kept[0]["verdict"]["optimum_eta0"])
    heads = ("", "check", f"best rate at N = {sizes}", "MSE there", "regret at the largest", "verdict")
    lines = [recorded.table(heads, rows)]
    for title, result in zip(titles, kept, strict=True):
        lines += [f"Exponents in N, {title}, at steps 0, 4 and 16:", "", _exponents(result["check"])]
    return "\n".join(lines)


def _listed(values: Any) -> str:
    return ", ".join("none" if value is None else f"{value:.2g}" for value in values)


def _exponents(check: dict[str, Any]) -> str:
    def cells(steps: dict[str, float | None]) -> list[str]:
        return ["not finite" if slope is None else f"{slope:+.2f}" for slope in steps.values()]

    rows = [(f"`{name}`", *cells(steps)) for name, steps in check["exponents"].items()]
    return recorded.table(("quantity", "0", "4", "16"), rows)


def _predicted_and_measured(name: str) -> dict[tuple[Any, ...], dict[str, tuple[float, float]]]:
    """Return predicted and measured seconds of a step for each shape, mesh and optimizer."""
    from denseam.cli.bench import REGIME
    from denseam.rules import Shape
    from denseam.workflow.roofline import Device, device, estimate

    kept = json.loads((ROOT / "docs" / "steps" / f"{name}.json").read_text())
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
        ax.set(xlim=ends, xlabel="predicted seconds per step", ylabel="measured seconds per step")
        ax.legend(loc="upper left")
        save(figure, GENERATED, "steps", ("png",))


def rooms() -> list[str]:
    """Return the packages of the library in the order of the import contract, from the bottom up."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    entries = [entry for layer in reversed(layers) for entry in layer.split(" | ")]
    return [entry for entry in entries if (SOURCE / entry).is_dir()]


def room_imports() -> Counter[tuple[str, str]]:
    """Count the imports from one entry of `src/denseam` into another, module by module.

    Imports that only type checkers see do not count.
    """
    import grimp

    graph = grimp.build_graph("denseam", exclude_type_checking_imports=True, cache_dir=None)
    edges: Counter[tuple[str, str]] = Counter()
    for module in graph.modules - {"denseam"}:
        for imported in graph.find_modules_directly_imported_by(module) - {"denseam"}:
            pair = (module.split(".")[1], imported.split(".")[1])
            if pair[0] != pair[1]:
                edges[pair] += 1
    return edges


def rooms_page() -> str:
    """Return a picture of the rooms, drawn from the imports, and a table of their files."""
    edges = room_imports()
    _draw_rooms(rooms(), edges)
    picture = f"""\
```{{figure}} _generated/rooms.svg
:alt: The rooms as a staircase, with the number of imports between rooms
:width: 100%

Drawn from the imports in the code. The row of a room shows how many imports its modules make from the room
of each column. Including the files outside the rooms, imports join {len(edges)} pairs of entries of
`src/denseam`.
```
"""
    rows = []
    for room in rooms():
        parts = [p for p in sorted((SOURCE / room).iterdir()) if p.suffix == ".py" or _is_package(p)]
        names = [f"{p.name}/" if p.is_dir() else p.stem for p in parts if p.name != "__init__.py"]
        rows.append((f"`{room}/`", _summary(room), ", ".join(f"`{name}`" for name in names)))
    return f"{picture}\n{recorded.table(('room', 'content', 'files'), rows)}"


def _is_package(path: Path) -> bool:
    return (path / "__init__.py").is_file()


def _summary(room: str) -> str:
    """Return the first line of a room's docstring, without importing it."""
    tree = ast.parse((SOURCE / room / "__init__.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def _draw_rooms(names: list[str], edges: Counter[tuple[str, str]]) -> None:
    """Draw a staircase: names on the diagonal, imports to the left, a description to the right."""
    from matplotlib.patches import FancyBboxPatch

    from denseam.report.plots.style import FAINT, INK, canvas, save, scale_colours

    colours = scale_colours(len(names))
    with canvas(1, 1, 9.2, 4.8) as (figure, axes):
        ax = axes[0, 0]
        for y, room in enumerate(names):
            ax.plot([-0.5, y - 0.5], [y, y], color=FAINT, lw=0.5, alpha=0.5, zorder=0)
            ax.plot([y, y], [y + 0.4, len(names) - 0.5], color=FAINT, lw=0.5, alpha=0.5, zorder=0)
            box = FancyBboxPatch(
                (y - 0.48, y - 0.36), 0.96, 0.72, boxstyle="round,pad=0,rounding_size=0.1",
                fc=colours[y], ec="none", mutation_aspect=1.6,
            )  # fmt: skip
            ax.add_patch(box)
            dark = sum(colours[y][:3]) < 1.5
            ax.text(y, y, room, ha="center", va="center", fontsize=8, color="white" if dark else INK)
            ax.text(y + 0.6, y, _summary(room).partition(":")[0], ha="left", va="center")
            for x, other in enumerate(names[:y]):
                if count := edges[room, other]:
                    ax.scatter(x, y, s=70 + 14 * count, color=colours[x], alpha=0.55, lw=0)
                    ax.text(x, y, str(count), ha="center", va="center", fontsize=7)
        ax.set(xlim=(-0.6, len(names) + 0.9), ylim=(len(names) - 0.4, -0.6))
        ax.set_axis_off()
        save(figure, GENERATED, "rooms", ("svg",))


def api() -> str:
    """Return the reference of all modules, room by room; the command line has a page of its own."""
    lines = []
    for name in [*rooms(), "sklearn", "testing"]:
        if name == "cli":
            continue
        lines += [f"## denseam.{name}", ""]
        files = sorted((SOURCE / name).rglob("*.py")) if (SOURCE / name).is_dir() else [SOURCE / f"{name}.py"]
        for file in files:
            module = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
            if module != f"denseam.{name}":
                lines += [f"### {module}", ""]
            # Names that a room re-exports are documented where they are defined.
            lines += ["```{eval-rst}", f".. automodule:: {module}", "   :ignore-module-all:"]
            # The bridge uses the same names as the library, which would make link targets ambiguous.
            lines += ["   :no-index:"] if name == "torch" else []
            lines += ["```", ""]
    return "\n".join(lines)


def _claims_table(made: dict[str, Any]) -> str:
    from denseam.paper.claims import COMPARED
    from denseam.paper.readings import READINGS

    rows = []
    for name, document in made.items():
        for n, claim in enumerate(document["claims"]):
            words = {reading: finding["verdict"] for reading, finding in claim["readings"].items()}
            cells = (
                [f"compares readings: {words[COMPARED]}", *[""] * 2]
                if COMPARED in words
                else [words.get(reading, "–") for reading in READINGS]
            )
            rows.append(("" if n else f"[{name}]({place_of(name)})", claim["claim"], *cells))
    return recorded.table(("figure", "claim", *READINGS), rows)


def _figure_section(figure: Any, document: dict[str, Any]) -> list[str]:
    from denseam.paper.readings import READINGS

    label = f" (`{figure.paper_label}`)" if figure.paper_label else ""
    lines = [f"(figure-{figure.name})=", f"## {figure.name}{label}", ""]
    for name in (Path(file).name for file in document["files"]):
        reading = READINGS.get(Path(name).stem.removeprefix(f"{figure.name}-"))
        words = f"{figure.title}, {reading.words}" if reading else figure.title
        lines += [
            f"```{{figure}} _generated/gallery/{name}", f":alt: {words}", ":width: 100%",
            ":target: " + f"_images/{name}", "", f"{words}.", "```", "",
        ]  # fmt: skip
    for claim in document["claims"]:
        lines.append(f"- {claim['claim']}")
        lines += [
            f"  - *{reading}*: **{finding['verdict']}**: {finding['measured']}."
            for reading, finding in claim["readings"].items()
        ]
    lines += ["", figure.remark, ""] if figure.remark else [""]
    return lines


def commands() -> str:
    """Return a table of all commands, and a section for each: description, usage, arguments and options."""
    found = list(registered())
    rows = [(f"[`{name}`](#{_anchor(name)})", _first_line(command)) for name, command, _ in found]
    return "\n".join([recorded.table(("command", "what it does"), rows), *(_section(*one) for one in found)])


def registered() -> Iterator[tuple[str, Any, int]]:
    """Yield the full name, the command and its depth; groups come before their commands."""
    from denseam.cli import app

    def below(name: str, command: Any, depth: int) -> Iterator[tuple[str, Any, int]]:
        for word, inner in command.commands.items():
            if not inner.hidden:
                yield f"{name} {word}", inner, depth
                if hasattr(inner, "commands"):
                    yield from below(f"{name} {word}", inner, depth + 1)

    return below("denseam", app, 0)


def options(command: Any) -> list[Any]:
    """Return the options of a command, except --help."""
    return [
        p
        for p in command.params
        if p.param_type_name == "option" and not getattr(p, "hidden", False) and p.name != "help"
    ]


def arguments(command: Any) -> list[Any]:
    """Return the positional arguments of a command."""
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
    rows = [
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
    if command.examples:
        parts += ["For example:", "", "```", *command.examples, "```", ""]
    if rows:
        parts.append(recorded.table(("option", "meaning", "allowed", "default"), rows))
    return "\n".join(parts)


def _anchor(name: str) -> str:
    return "command-" + name.removeprefix("denseam ").replace(" ", "-")


def _first_line(command: Any) -> str:
    return (command.help or "").strip().partition("\n")[0]


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.strip("_").upper())


def _meaning(option: Any) -> tuple[str, str, str]:
    """Return the meaning of an option, the allowed values, and the default."""
    described = getattr(option, "described", None)
    if described is not None:
        unit = f" In units of {described.unit}." if described.unit else ""
        belongs = f" For {described.belongs[0]} `{described.belongs[1]}`." if described.belongs else ""
        default = "required" if described.required else described.default_shown()
        several = "; several values are swept" if described.swept else ""
        return described.help + unit + belongs, described.requirement + several, default
    if option.required:
        return option.help, "", "required"
    default = option.default
    if isinstance(option.show_default, str):
        return option.help, "", option.show_default
    shown = isinstance(default, str | int | float) and not isinstance(default, bool)
    return option.help, "", f"`{default}`" if shown else ""


def _wrapped(words: list[str]) -> list[str]:
    lines = textwrap.wrap(" ".join(w.replace(" ", "\0") for w in words), 88, subsequent_indent="    ")
    return [line.replace("\0", " ") for line in lines]
