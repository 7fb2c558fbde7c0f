"""Make figures: train the missing runs, judge the claims, draw. Existing runs are never trained again."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from denseam import __version__
from denseam.ground.errors import DataWarning, InputError, named, read_entries
from denseam.ground.files import json_table, text_of, write_whole
from denseam.paper.catalog import catalog
from denseam.paper.claims import COMPARED, Judgement, judge
from denseam.paper.drawing import draw_figure
from denseam.paper.figure import Figure
from denseam.paper.missing import Choice, gaps
from denseam.paper.readings import READINGS, Reading
from denseam.paper.results import Results
from denseam.paper.sizes import SIZES, Size
from denseam.report.extras import FINDINGS
from denseam.studies.records import Row, thin
from denseam.studies.runner import Summary, run_specs
from denseam.studies.store import Store
from denseam.training.progress import Progress

RUNS = "runs"
ALL = Choice()


@dataclasses.dataclass(frozen=True)
class Made:
    """One figure: its pictures and judgements, how many runs are missing by reading, and shards set aside."""

    figure: Figure
    files: tuple[Path, ...]
    judgements: tuple[Judgement, ...]
    missing: Mapping[str, int]
    set_aside: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a plain document."""
        return {
            "name": self.figure.name,
            "paper_label": self.figure.paper_label,
            "section": self.figure.section,
            "own": self.figure.own,
            "title": self.figure.title,
            "files": [str(file) for file in self.files],
            "claims": [judgement.to_json() for judgement in self.judgements],
            "remark": self.figure.remark or None,
            "missing": dict(self.missing),
        }


def make_figures(
    figures: Iterable[Figure],
    size: Size,
    out: str | os.PathLike[str],
    *,
    choice: Choice = ALL,
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
    choice
        The readings, and which of their missing runs to train.
    train
        Whether to train missing runs.
    formats
        File formats of the pictures; without any, figures are judged only.
    progress, stop, executor
        As in `denseam.sweep`.
    made
        Called with each figure when it is done.
    """
    folder, every = Path(out), []
    rows = rows_in(folder)
    by_reading = _results(rows, size, folder, choice.readings)
    for figure in figures:
        aside: tuple[str, ...] = ()
        if train:
            trained = train_figures(
                [figure], size, folder, choice, rows, progress=progress, stop=stop, executor=executor
            )
            if trained is not None:
                rows |= {row["key"]: row for row in trained.records}  # as they were read back
                by_reading = _results(rows, size, folder, choice.readings)
                aside = tuple(map(str, trained.set_aside))
        done = dataclasses.replace(_make(figure, size, folder, by_reading, formats), set_aside=aside)
        every.append(done)
        made(done)
    return every


def _results(
    rows: Mapping[str, Row], size: Size, folder: Path, readings: Iterable[Reading]
) -> dict[str, Results]:
    """Return the results of each reading, which keep what they have judged."""
    return {reading.name: Results(rows, size, reading, folder) for reading in readings}


def _make(
    figure: Figure, size: Size, folder: Path, by_reading: Mapping[str, Results], formats: Sequence[str]
) -> Made:
    judgements = judged(figure, by_reading)
    missing: dict[str, int] = {}
    files: list[Path] = []
    for name, results in by_reading.items():
        if results.reading not in figure.readings:
            continue
        lacking = sum(results.missing(setting) for setting in figure.settings)
        lacking += sum(not results.is_measured(measurement) for measurement in figure.measurements)
        if lacking:
            missing[name] = lacking
        elif formats and not (figure.pinned and files):
            files += draw_figure(figure, results, folder, formats)
    done = Made(figure, tuple(files), judgements, missing)
    if files:
        document = {"schema": 2, "version": __version__, "size": size.name, **done.to_json()}
        document["files"] = [file.name for file in files]
        text = json.dumps(document, indent=1, ensure_ascii=False)
        write_whole(folder / f"{figure.name}.json", text.encode())
    return done


def judged_in(folder: Path, size: Size, figures: Iterable[Figure]) -> dict[str, tuple[Judgement, ...]]:
    """Return the judgements on the claims of figures from the runs in a folder, by the figures' names."""
    by_reading = _results(rows_in(folder), size, folder, READINGS.values())
    return {figure.name: judged(figure, by_reading) for figure in figures}


def judged(figure: Figure, by_reading: Mapping[str, Results]) -> tuple[Judgement, ...]:
    """Return the judgements on the claims of a figure."""
    return tuple(judge(claim, by_reading, figure.own) for claim in figure.claims)


def train_figures(
    figures: Sequence[Figure],
    size: Size,
    folder: Path,
    choice: Choice,
    present: Mapping[str, Row] | None = None,
    *,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    executor: Executor | None = None,
) -> Summary | None:
    """Train chosen runs that figures need and that are not present; return None if there were none to train.

    Several processes may work on one folder.
    """
    todo = gaps(figures, size, rows_in(folder) if present is None else present, choice)
    summary = None
    if todo:
        runs = [(gap.study, list(gap.specs)) for gap in todo]
        summary = run_specs(runs, folder / RUNS, progress=progress, stop=stop, executor=executor)
    if choice.part == choice.parts:
        for figure in figures:
            for measurement in figure.measurements:
                for reading in figure.readings:
                    if reading in choice.readings and not measurement.path(size, reading, folder).is_file():
                        measurement.make(size, reading, folder, progress)
    return summary


def compact(figures: Iterable[Figure], size: Size, folder: Path, target: Path) -> Path:
    """Write the runs of figures in all readings as one shard with thinned curves, and the measurements."""
    figures, rows = list(figures), rows_in(folder)
    readings = READINGS.values()
    keys = dict.fromkeys(
        spec.key
        for figure in figures
        for setting in figure.settings
        for reading in readings
        for spec in setting.whole_study(size, reading).runs()
    )
    store = Store(target / RUNS)
    store.prepare()
    for figure in figures:
        for measurement in figure.measurements:
            for reading in readings:
                path = measurement.path(size, reading, folder)
                if path.is_file():
                    copy = measurement.path(size, reading, target)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(copy, path.read_bytes())
    return store.write(list(thin(rows[key] for key in keys if key in rows)))


def rows_in(folder: Path) -> dict[str, Row]:
    """Return the runs in a folder, by their keys."""
    if not (folder / RUNS / "shards").is_dir():
        return {}
    records = Store(folder / RUNS).read()
    for what in (*(f"skipped {name}" for name in records.skipped), *records.contradictions):
        warnings.warn(what, DataWarning, stacklevel=2)
    return {row["key"]: row for row in records}


def write_findings(folder: Path, size: Size) -> Path:
    """Write a Markdown table of claims and verdicts of all figures of one size in a folder."""
    lines = [f"| figure | claim | {' | '.join(READINGS)} |", "|---|---|" + "---|" * len(READINGS)]
    for document in _findings_in(folder):
        if document.get("size") != size.name:
            continue
        for n, claim in enumerate(document["claims"]):
            name = "" if n else f"`{document['paper_label'] or document['name']}`"
            cells = (name, claim["claim"], *cells_of(claim["readings"]))
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    path = folder / "findings.md"
    write_whole(path, ("\n".join(lines) + "\n").encode())
    return path


def cells_of(findings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return verdict and numbers in each reading; those of a claim that compares readings come first."""
    said = {name: f"{finding['verdict']}: {finding['measured']}" for name, finding in findings.items()}
    if COMPARED in said:
        return [said[COMPARED], *[""] * (len(READINGS) - 1)]
    return [said.get(name, "–") for name in READINGS]


def _findings_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Give the documents of the figures in a folder, in the order of the catalog."""
    for path in (folder / f"{figure.name}.json" for figure in catalog()):
        if path.is_file():
            with named(f"{path}: damaged"):
                document = json_table(text_of(path))
                if document.get("schema") != 2:
                    continue
                read_entries(document, FINDINGS)
            yield document


def size_of(name: str) -> Size:
    """Return a size by its name."""
    if name not in SIZES:
        raise InputError(f"size must be 'laptop' or 'paper', got {name!r}")
    return SIZES[name]
