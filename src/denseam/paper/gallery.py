"""Make figures: train the missing runs, judge the claims, draw. Existing runs are never trained again."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from denseam import __version__
from denseam.errors import InputError
from denseam.files import write_whole
from denseam.paper.catalog import catalog
from denseam.paper.claims import Finding
from denseam.paper.drawing import draw_figure
from denseam.paper.figure import Figure
from denseam.paper.results import Results
from denseam.paper.sizes import SIZES, Size
from denseam.studies.records import Row, thin
from denseam.studies.runner import Summary, run_specs
from denseam.studies.store import Store
from denseam.training.progress import Progress

RUNS = "runs"


@dataclasses.dataclass(frozen=True)
class Made:
    """One figure: its pictures and findings; or the number of missing runs, and shards set aside."""

    figure: Figure
    files: tuple[Path, ...]
    findings: tuple[Finding, ...]
    missing: int = 0
    set_aside: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "name": self.figure.name,
            "paper_label": self.figure.paper_label,
            "title": self.figure.title,
            "files": [str(file) for file in self.files],
            "claims": [finding.to_json() for finding in self.findings],
            "remark": self.figure.remark or None,
            "missing": self.missing,
        }


def make_figures(
    figures: Iterable[Figure],
    size: Size,
    out: str | os.PathLike[str],
    *,
    train: bool = True,
    formats: Sequence[str] = ("png", "svg"),
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    executor: Executor | None = None,
    made: Callable[[Made], None] = lambda _: None,
) -> list[Made]:
    """Make figures one after the other; each is drawn as soon as its runs are finished.

    Parameters
    ----------
    figures, size
        From `catalog.find` and `sizes.SIZES`.
    out
        The folder of pictures and findings; runs of all figures go to its folder 'runs'.
    train
        Whether to train missing runs; otherwise figures with missing runs are skipped.
    formats
        File formats of the pictures.
    progress, stop, executor
        As in `denseam.sweep`.
    made
        Called with each figure when it is done.
    """
    folder, every = Path(out), []
    rows: dict[str, Row] = _rows(folder)
    for figure in figures:
        aside: tuple[str, ...] = ()
        if train:
            trained = train_figure(
                figure, size, folder, rows.keys(), progress=progress, stop=stop, executor=executor,
            )  # fmt: skip
            if trained is not None:
                rows, aside = _rows(folder), tuple(map(str, trained.set_aside))
        done = dataclasses.replace(_make(figure, size, folder, rows, formats), set_aside=aside)
        every.append(done)
        made(done)
    return every


def _make(figure: Figure, size: Size, folder: Path, rows: Mapping[str, Row], formats: Sequence[str]) -> Made:
    results = Results(rows, size, folder)
    missing = sum(results.missing(setting) for setting in figure.settings)
    missing += sum(examples.read(size, folder) is None for examples in figure.examples)
    if missing:
        return Made(figure, (), (), missing)
    findings = judge(figure, results)
    files = draw_figure(figure, findings, results, folder, formats)
    done = Made(figure, tuple(files), findings)
    document = {"schema": 1, "version": __version__, "size": size.name, **done.to_json()}
    document["files"] = [file.name for file in files]
    write_whole(folder / f"{figure.name}.json", json.dumps(document, indent=1, ensure_ascii=False).encode())
    return done


def judge(figure: Figure, results: Results) -> tuple[Finding, ...]:
    """Return the findings on the claims of a figure."""
    own = figure.paper_label is None
    return tuple(dataclasses.replace(claim.judge(results), own=own) for claim in figure.claims)


def train_figure(
    figure: Figure,
    size: Size,
    folder: Path,
    present: Collection[str],
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    executor: Executor | None = None,
) -> Summary | None:
    """Train the runs that a figure needs and that are not present; return None if there were none to train.

    Several processes may work on one folder.
    """
    todo, seen = [], set(present)
    for study in (study for setting in figure.settings for study in setting.studies(size)):
        specs = [spec for spec in study.runs() if spec.key not in seen]
        seen |= {spec.key for spec in specs}
        if specs:
            todo.append((study, specs))
    summary = None
    if todo:
        summary = run_specs(todo, folder / RUNS, progress=progress, stop=stop, executor=executor)
    for examples in figure.examples:
        if examples.read(size, folder) is None:
            examples.make(size, folder, progress)
    return summary


def compact(figures: Iterable[Figure], size: Size, folder: Path, target: Path) -> Path:
    """Write the runs of figures as one shard with thinned curves, and the examples."""
    figures, rows = list(figures), _rows(folder)
    keys = dict.fromkeys(
        spec.key
        for figure in figures
        for setting in figure.settings
        for study in setting.studies(size)
        for spec in study.runs()
    )
    store = Store(target / RUNS)
    store.prepare()
    for examples in (examples for figure in figures for examples in figure.examples):
        path = examples.path(size, target)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, examples.path(size, folder).read_bytes())
    return store.write(list(thin(rows[key] for key in keys)))


def _rows(folder: Path) -> dict[str, Row]:
    """Return the runs in a folder, by their keys."""
    if not (folder / RUNS / "shards").is_dir():
        return {}
    return {row["key"]: row for row in Store(folder / RUNS).read()}


def write_findings(folder: Path, size: Size) -> Path:
    """Write a Markdown table of claims, measurements and verdicts of all figures of one size in a folder."""
    lines = ["| figure | claim | measured | verdict |", "|---|---|---|---|"]
    for document in _findings_in(folder):
        if document["size"] != size.name:
            continue
        for n, finding in enumerate(document["claims"]):
            name = "" if n else f"`{document['paper_label'] or document['name']}`"
            cells = (name, finding["claim"], finding["measured"], finding["verdict"])
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    path = folder / "findings.md"
    write_whole(path, ("\n".join(lines) + "\n").encode())
    return path


def _findings_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the documents of the figures in a folder, in the order of the catalog."""
    for path in (folder / f"{figure.name}.json" for figure in catalog()):
        if path.is_file():
            try:
                document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise InputError(f"{path}: damaged ({error}); delete the file to make it again") from None
            yield document


def size_of(name: str) -> Size:
    """Return a size by its name."""
    if name not in SIZES:
        raise InputError(f"size must be 'laptop' or 'paper', got {name!r}")
    return SIZES[name]
