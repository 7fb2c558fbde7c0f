"""The commands that faults hit: what each writes, and how its result is told apart from another."""

import contextlib
import dataclasses
import functools
import io
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from denseam.cli import main

#: Twelve shards.
MANY = "sweep --activation relu --optimizer sgd --scales 8,16 --eta0 0.01,0.03 --seeds 6 --epochs 1 --workers 1 --quiet"
SWEEP = "sweep --activation relu --optimizer sgd --scales 8,16 --eta0 0.01,0.03,0.1 --seeds 2 --epochs 1 --workers 1 --quiet"
TUNE = "tune isotropic --features 64 --epochs 2 --rho 4 --beta 0.25 --optimizer sgd --quiet"
TRAIN = "train x.npy --features 16 --eta0 0.01 --optimizer sgd --epochs 3 --quiet"
FIGURE = "figure run many-memories --size tiny --reading frozen --quiet"


def call(*arguments):
    """Run the program in this process: exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(a) for a in arguments])
    return code, out.getvalue(), err.getvalue()


@functools.lru_cache(maxsize=1000)
def decoded(shard):
    """The rows of a shard, from its bytes."""
    return pq.read_table(pa.BufferReader(shard)).to_pylist()


def runs(folder):
    """The runs of a folder, from its shards alone; none twice, and every shard as it was written."""
    rows = []
    for path in sorted((folder / "shards").iterdir()):
        assert not path.name.startswith("."), f"left over: {path.name}"
        rows += decoded(path.read_bytes())
    doubled = [key for key, n in Counter(row["key"] for row in rows).items() if n > 1]
    assert not doubled, f"{len(doubled)} runs twice"
    return {
        row["key"]: [row[c] for c in ("final_mse", "heldout_mse", "status", "eta0", "loss")] for row in rows
    }


def model(folder):
    from safetensors.numpy import load_file

    document = json.loads((folder / "training.json").read_text())
    tensors = load_file(folder / "memory.safetensors")
    return document["loss"], {name: value.tobytes() for name, value in tensors.items()}


def tuned(folder):
    document = json.loads((folder / "tuned.json").read_text())
    document.pop("cost", None)
    return document, runs(folder / "runs")


def figure(folder):
    return json.loads((folder / "many-memories.json").read_text()), runs(folder / "runs")


def pictures(folder):
    """Every picture is whole."""
    for path in folder.rglob("*.png"):
        assert path.read_bytes().endswith(b"IEND\xaeB`\x82"), f"half of a picture: {path.name}"
    for path in folder.rglob("*.svg"):
        assert path.read_text().rstrip().endswith("</svg>"), f"half of a picture: {path.name}"


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line, the folder or file that it writes, and the reading of its result.

    `codes` are those of success. `begun` is a folder with a part of the result, from which the command goes on.
    """

    line: str
    out: str
    result: Callable[[Path], object]
    codes: tuple[int, ...] = (0,)
    begun: str | None = None

    def arguments(self, folder, at=None):
        words = [
            str(folder / word) if word in ("runs", "x.npy", "tuned") else word for word in self.line.split()
        ]
        return [*words, "--out", str((at or folder) / self.out)]

    def reset(self, given, folder):
        """Remove an earlier result, and put what is there before the command runs."""
        out = folder / self.out
        clear(out)
        if self.begun is not None:
            shutil.copytree(given / self.begun, out)
        elif out.suffix:
            out.write_text("what was there before")


COMMANDS = {
    "sweep": Command(MANY, "swept", runs),
    "sweep that was begun": Command(MANY, "resumed", runs, begun="begun"),
    "tune": Command(TUNE, "searched", tuned, codes=(0, 1, 2)),
    "train": Command(TRAIN, "trained", model),
    "export csv": Command("export runs", "table.csv", lambda p: p.read_bytes()),
    "export parquet": Command("export runs --format parquet", "table.parquet", lambda p: pq.read_table(p).to_pylist()),
    "report": Command("report runs", "report.html", lambda p: len(p.read_text().partition("</html>")[1])),
    "figure": Command(FIGURE, "figures", figure),
}  # fmt: skip


@functools.cache
def prepared(parent):
    """A folder with data and the runs that some commands read."""
    folder = Path(parent) / "given"
    folder.mkdir()
    data = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
    np.save(folder / "x.npy", data)
    code, _, err = call(*SWEEP.split(), "--out", folder / "runs")
    assert code == 0, err
    code, _, err = call(*MANY.replace("--seeds 6", "--seeds 2").split(), "--out", folder / "begun")
    assert code == 0, err
    return folder


def clear(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@contextlib.contextmanager
def nothing_computed_twice():
    """What has nothing to do with files is remembered, so that a case takes a tenth of a second.

    Runs are trained once; the same rows are encoded once, and a shard with the same bytes is decoded once; all
    pictures of a format are one and the same.
    """
    from matplotlib.figure import Figure

    from denseam.studies import runner, store

    trained, encoded, rows_of, drawn = {}, {}, {}, {}
    train_studies, parquet_bytes = runner.train_studies, store.parquet_bytes
    read_shard, savefig = store._read_shard, Figure.savefig

    def train(todo, *, progress=None, **options):
        which = tuple((study.id, *(spec.key for spec in specs)) for study, specs in todo)
        if which not in trained:
            trained[which] = [(study.id, outcomes) for study, outcomes in train_studies(todo, **options)]
        asked = {study.id: study for study, _ in todo}
        for study_id, outcomes in trained[which]:
            yield asked[study_id], outcomes
            progress.finished(outcomes)

    def encode(records):
        which = repr(list(records))
        if which not in encoded:
            encoded[which] = parquet_bytes(records)
        return encoded[which]

    def rows(path, columns):
        which = (path.name, path.read_bytes(), *columns)
        if which not in rows_of:
            rows_of[which] = read_shard(path, columns)
        return [dict(row) for row in rows_of[which]]

    def save(picture, file, *, format, **options):
        if format not in drawn:
            picture.clear()
            content = io.BytesIO()
            savefig(picture, content, format=format, **options)
            drawn[format] = content.getvalue()
        file.write(drawn[format])

    changed = [
        (runner, "train_studies", train),
        (store, "parquet_bytes", encode),
        (store, "_read_shard", rows),
        (Figure, "savefig", save),
    ]
    before = [(where, name, getattr(where, name)) for where, name, _ in changed]
    try:
        for where, name, function in changed:
            setattr(where, name, function)
        yield
    finally:
        for where, name, function in before:
            setattr(where, name, function)
