"""Records in memory: one row per run, made from its outcome; and its loss curve, whole or thinned."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from denseam import __version__
from denseam.rules.fields import Kind
from denseam.studies.schema import COLUMNS, PROBE_COLUMNS, SETTINGS

if TYPE_CHECKING:  # who reads records need not wait for JAX
    from denseam.studies.outcome import Outcome
    from denseam.studies.study import Study

Row = dict[str, Any]


class Records(Sequence[Row]):
    """Rows, one per run, in memory; `skipped` names the files that could not be read."""

    def __init__(self, rows: Iterable[Row], skipped: Iterable[str] = ()) -> None:
        self._rows = list({row["key"]: row for row in rows}.values())
        self.skipped = tuple(skipped)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __add__(self, other: Records) -> Records:
        return Records([*self, *other], (*self.skipped, *other.skipped))

    def studies(self) -> dict[str, Records]:
        """Return the rows of each study by its name (and a part of its id, if a name stands twice)."""
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self:
            groups.setdefault((row["study"], row["study_id"]), []).append(row)
        names = [name for name, _ in groups]
        return {
            name if names.count(name) == 1 else f"{name} ({study_id[:6]})": Records(rows)
            for (name, study_id), rows in groups.items()
        }

    def table(self) -> Any:
        """Return a `pyarrow.Table`."""
        import pyarrow as pa

        return pa.Table.from_pylist(self._rows, schema=_schema())


def row(study: Study, outcome: Outcome) -> Row:
    """Return the record of one run."""
    import jax

    spec, shape = outcome.spec, outcome.spec.shape
    return {
        "key": spec.key,
        "study": study.name,
        "study_id": study.id,
        "scale": spec.scale,
        "features": shape.N,
        "memories": shape.K,
        "samples": shape.P,
        "batch": shape.B,
        "seed": spec.seed,
        "status": outcome.status,
        "diverged_at": outcome.diverged_at,
        "initial_mse": outcome.initial_mse,
        "final_mse": outcome.final_mse,
        "heldout_mse": outcome.heldout_mse,
        "zero_mse": outcome.zero_mse,
        **_settings(study),
        **spec.values,
        "swept": ",".join(study.swept),
        "seconds": outcome.seconds,
        "device": outcome.device,
        "version": __version__,
        "jax": jax.__version__,
        "loss": _floats(outcome.loss),
        **({"probe_steps": _floats(outcome.probe_steps)} if outcome.probes else {}),
        **{PROBE_COLUMNS[name]: _floats(values) for name, values in outcome.probes.items()},
    }


def _settings(study: Study) -> Row:
    """Return the columns of what all runs of a study share: its fields, with names for objects."""
    plain = {name: getattr(study, name) for name in SETTINGS}
    flags = {name: "yes" if plain[name] else "no" for name, p in SETTINGS.items() if p.kind is Kind.FLAG}
    return (
        plain
        | flags
        | {
            "activation": study.lagrangian.name,
            "power": float(getattr(study.lagrangian, "power", 1)),
            "regime": study.regime.name,
            "parameterization": study.rule().name,
            "data": study.source().describe(),
        }
    )


def epochs_of(row: Row) -> list[int]:
    """Return the epochs (from 1) that the loss curve of a run has values of."""
    thinned = row.get("loss_epochs")
    return [int(e) for e in thinned] if thinned else list(range(1, len(row["loss"]) + 1))


def loss_at(row: Row, epoch: int) -> float:
    """Return the loss of an epoch; of the last one before it where the curve was thinned or is shorter."""
    at = bisect.bisect_right(epochs_of(row), epoch) - 1
    return float(row["loss"][max(0, at)])


def thin(records: Iterable[Row], points: int = 32) -> Records:
    """Return the records with loss curves of at most so many epochs, log-spaced, the first and last kept."""

    def one(row: Row) -> Row:
        epochs = epochs_of(row)
        places = sorted({round(i) for i in np.geomspace(1, len(epochs), points)})
        kept = [p - 1 for p in places]
        return row | {
            "loss": [row["loss"][i] for i in kept],
            "loss_epochs": [float(epochs[i]) for i in kept],
        }

    return Records(one(row) if len(row["loss"]) > points else row for row in records)


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"s": pa.string(), "i": pa.int64(), "f": pa.float64(), "l": pa.list_(pa.float32())}
    return pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])


def _floats(values: Iterable[float]) -> list[float]:
    """Return a curve as a plain list."""
    return [float(v) for v in np.asarray(list(values), np.float32)]
