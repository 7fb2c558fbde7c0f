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
    pages = {"quantities.md": quantities(), "commands.md": commands(), "gallery.md": gallery()}
    for name, text in pages.items():
        page = GENERATED / name
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def quantities() -> str:
    """Return the table of what can be measured while training."""
    from denseam.quantities import QUANTITIES

    return _table(
        ("name", "group", "symbol", "what it is", "only for"),
        [(f"`{name}`", q.group, q.symbol, q.meaning, q.needs) for name, q in QUANTITIES.items()],
    )


def gallery() -> str:
    """Return every figure with its findings, judged and drawn from the records beside this file."""
    from denseam.figures.catalog import catalog
    from denseam.figures.sizes import SIZES

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
    from denseam.figures.catalog import catalog
    from denseam.figures.gallery import make_figures
    from denseam.figures.sizes import SIZES

    here = Path(__file__).parent
    records, out = here / "gallery", GENERATED / "gallery"
    source = here.parent / "src" / "denseam"
    inputs = [*records.rglob("*.parquet"), *records.rglob("*.npz"), source / "judgement.py"]
    inputs += (source / "figures").glob("*.py")
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
