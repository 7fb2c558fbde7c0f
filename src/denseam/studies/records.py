"""Records: one row per run, made from its outcome, and its loss curve, whole or thinned.

The columns of a run's settings come from the fields of the description; those of its outcome are listed here.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from denseam import __version__
from denseam.ground.arrow import pyarrow
from denseam.ground.display import Drawn
from denseam.ground.errors import InputError, shown
from denseam.rules.fields import Kind, Parameter, parameters, short
from denseam.rules.regimes import regime_letter
from denseam.studies.description import AXES, REGIME, Description
from denseam.training.quantities import QUANTITIES

if TYPE_CHECKING:  # reading records should not wait for JAX
    from denseam.studies.runs import Outcome
    from denseam.studies.study import RunSpec, Study

#: The column of each quantity measured while training; its values belong to `probe_steps`.
PROBE_COLUMNS: Mapping[str, str] = {name: f"probe_{name}" for name in QUANTITIES}

#: Columns that only some runs have: those that were probed, and those whose curve was thinned (the epochs
#: that are left). Files always hold these columns, so that they open as one table; rows in memory hold them
#: only if they have a value.
OPTIONAL: tuple[str, ...] = ("loss_epochs", "probe_steps", *PROBE_COLUMNS.values())

_KINDS = {Kind.NUMBER: "f", Kind.NUMBERS: "f", Kind.WHOLE: "i"}

#: Fields that say which runs there are, not what each run is.
_OF_THE_STUDY = {"scales", "seeds", "probes", "probe_steps", "name"}

#: The settings that all runs of a study share.
SETTINGS: Mapping[str, Parameter] = {
    p.name: p for p in (*parameters(Description).values(), REGIME) if p.name not in _OF_THE_STUDY
}

#: The columns that an outcome has by the same name.
_ENDINGS = (
    "status", "diverged_at", "initial_mse", "final_mse", "heldout_mse", "zero_mse", "seconds", "device"
)  # fmt: skip

#: Which loss a verdict or a forecast is about, and its column.
By = Literal["training", "heldout"]
LOSSES: Mapping[By, str] = {"training": "final_mse", "heldout": "heldout_mse"}

#: Column → kind: s text, i whole number, f float, l list of floats.
COLUMNS: Mapping[str, str] = {
    "key": "s", "study": "s", "study_id": "s", "scale": "i",
    "features": "i", "memories": "i", "samples": "i", "batch": "i",
    "eta0": "f", "seed": "i", "status": "s", "diverged_at": "i",
    "initial_mse": "f", "final_mse": "f", "heldout_mse": "f", "zero_mse": "f",
    **{name: _KINDS.get(p.kind, "s") for name, p in SETTINGS.items()},
    **{axis: "f" for axis in AXES if axis != "eta0"},
    "swept": "s", "seconds": "f", "device": "s", "version": "s", "jax": "s", "loss": "l",
    **dict.fromkeys(OPTIONAL, "l"),
}  # fmt: skip

#: What the loss of our own runs is called.
LOSS = "MSE per feature"

Row = dict[str, Any]


def _cell(described: Parameter, value: Any) -> Any:
    """Return the value of a field as its column holds it: a flag is 'yes' or 'no'."""
    if described.kind is Kind.FLAG and value is not None:
        return "yes" if value else "no"
    return value


#: The value of a column that a shard lacks: runs that are older than a field have its default.
LATER: Mapping[str, object] = {name: _cell(p, p.default) for name, p in {**SETTINGS, **AXES}.items()}


def with_defaults(rows: list[Row], columns: Iterable[str]) -> list[Row]:
    """Return rows in which empty cells of these columns hold the default of their field, if it has one."""
    defaults = {column: LATER[column] for column in columns if LATER.get(column) is not None}
    if not defaults:
        return rows
    return [row | {c: v for c, v in defaults.items() if c in row and row[c] is None} for row in rows]


#: Two records of one run contradict each other if their losses differ by more than this share. Rounding, as
#: on another device, changes them by less.
ROUNDING = 1e-3


class Records(Drawn, Sequence[Row]):
    """Rows in memory, one per run: the first of those with the same key.

    Attributes
    ----------
    skipped
        The files that could not be read, with the reason.
    contradictions
        Runs of which there are two records with different losses, a sentence each.
    """

    def __init__(
        self, rows: Iterable[Row], skipped: Iterable[str] = (), contradictions: Iterable[str] = ()
    ) -> None:
        kept: dict[str, Row] = {}
        for row in _checked(rows):
            kept.setdefault(row["key"], row)
        self._rows = list(kept.values())
        self.skipped = tuple(skipped)
        self.contradictions = tuple(contradictions)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __add__(self, other: Records) -> Records:
        mine = {row["key"]: row for row in self}
        against = [
            f"run {row['key'][:12]}: {differing}; the first is used"
            for row in other
            if row["key"] in mine and (differing := difference(mine[row["key"]], row))
        ]
        known = (*self.contradictions, *other.contradictions, *against)
        return Records([*self, *other], (*self.skipped, *other.skipped), known)

    def __repr__(self) -> str:
        studies = {(row.get("study"), row.get("study_id")) for row in self}
        scales = sorted({row["scale"] for row in self if "scale" in row})
        diverged = sum(row.get("status") == "diverged" for row in self)
        parts = [f"{len(self)} runs, {diverged} diverged", f"studies: {len(studies)}"]
        if scales:
            parts.append(f"scales: {short(scales)}")
        if self.skipped:
            parts.append(f"files skipped: {len(self.skipped)}")
        return f"<Records: {'; '.join(parts)}>"

    def studies(self) -> dict[str, Records]:
        """Return the rows of each study by its name (and part of its id, if a name occurs twice)."""
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
        pa = pyarrow()
        own = all("size_name" not in row for row in self)
        return pa.Table.from_pylist(self._rows, schema=_schema() if own else None)

    def to_pandas(self) -> Any:
        """Return a pandas `DataFrame` with a row for each run."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise InputError("to_pandas needs pandas: pip install pandas") from None
        return self.table().to_pandas()


def difference(one: Row, other: Row) -> str:
    """Return how two records of one run contradict each other; '' if they do not."""
    if any(name not in row for name in ("status", "final_mse") for row in (one, other)):
        return ""
    losses = float(one["final_mse"]), float(other["final_mse"])
    if one["status"] == other["status"] and math.isclose(*losses, rel_tol=ROUNDING):
        return ""
    (a, b), (c, d) = ((row["status"], f"{loss:.6g}") for row, loss in zip((one, other), losses, strict=True))
    return f"two records contradict each other ({a} with {b}, and {c} with {d})"


def _checked(rows: Iterable[Row]) -> list[Row]:
    """Return rows, or refuse what is none; a table of another tool has no keys (`dam.verdict` takes it)."""
    listed = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, str) else [rows]
    for row in listed:
        if not (isinstance(row, Mapping) and "key" in row):
            raise InputError(f"rows must be records, each with the key of its run, got {shown(row)}")
    return listed


def row(study: Study, outcome: Outcome) -> Row:
    """Return the record of one run."""
    return {
        **settings_of(study, outcome.spec),
        **{name: getattr(outcome, name) for name in _ENDINGS},
        "loss": _floats(outcome.loss),
        **({"probe_steps": _floats(outcome.probe_steps)} if outcome.probes else {}),
        **{PROBE_COLUMNS[name]: _floats(values) for name, values in outcome.probes.items()},
    }


def settings_of(study: Study, spec: RunSpec) -> Row:
    """Return what is known of a run before it is trained: its part of the record."""
    import jax

    shape = spec.shape
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
        **_settings(study),
        "epochs": study.epochs_at(shape),
        "steps": shape.T,
        **spec.values,
        "swept": ",".join(study.swept),
        "version": __version__,
        "jax": jax.__version__,
    }


def _settings(study: Study) -> Row:
    """Return the columns that all runs of a study share: its fields, with names for objects."""
    return {name: _cell(p, getattr(study, name)) for name, p in SETTINGS.items()} | {
        "activation": study.lagrangian.name,
        "power": float(getattr(study.lagrangian, "power", 1)),
        "regime": study.regime.name,
        "parameterization": study.rule().name,
        "schedule": study.learning_schedule.name,
        "feature_activation": _feature_name(study.feature_activation),
        "data": study.source().describe(),
    }


def _feature_name(features: Any) -> str:
    """Return the activation of the features as text; somebody's own by its name."""
    return features if isinstance(features, str) else str(features.name)


def size_name(row: Row) -> str:
    """Return the name of the size that grows: N, K, B, P, E or T, or that of its column in a table."""
    return str(row.get("size_name") or regime_letter(row["regime"]))


def loss_name(row: Row) -> str:
    """Return the name of the loss: that of its column, if the run is from a table."""
    return str(row.get("loss_name") or LOSS)


def by_loss(records: Records, by: By) -> Records:
    """Return the records with the held-out loss instead of the training loss, if it is requested."""
    if by == "training":
        return records
    kept = ({k: v for k, v in row.items() if k != "loss"} for row in records)  # the curves are of training
    named = (row | {"loss_name": "held-out MSE", "final_mse": _known(row[LOSSES[by]])} for row in kept)
    return Records(named, records.skipped, records.contradictions)


def has_heldout(records: Iterable[Row]) -> bool:
    """Return whether every run that did not diverge has a held-out loss."""
    left = (row for row in records if row["status"] != "diverged")
    return all(math.isfinite(_known(row.get(LOSSES["heldout"]))) for row in left)


def _known(loss: float | None) -> float:
    """Return a loss; infinity for that of a run that diverged."""
    return math.inf if loss is None else loss


def has_curves(records: Iterable[Row]) -> bool:
    """Return whether every record has its loss curve; tables usually do not."""
    return all(row.get("loss") is not None for row in records)


def epochs_of(row: Row) -> list[int]:
    """Return the epochs (from 1) for which the loss curve of a run has values."""
    thinned = row.get("loss_epochs")
    return [int(e) for e in thinned] if thinned else list(range(1, len(row["loss"]) + 1))


def loss_at(row: Row, epoch: int) -> float:
    """Return the loss of an epoch, or of the last one before it that a thinned or shorter curve has."""
    at = bisect.bisect_right(epochs_of(row), epoch) - 1
    return float(row["loss"][max(0, at)])


def thin(records: Iterable[Row], points: int = 32) -> Records:
    """Return the records with curves of at most `points` epochs, log-spaced, with the first and the last."""
    return Records(_thinned(row, points) if len(row["loss"]) > points else row for row in records)


def _thinned(row: Row, points: int) -> Row:
    epochs = epochs_of(row)
    kept = sorted({round(place) - 1 for place in np.geomspace(1, len(epochs), points)})
    return row | {"loss": [row["loss"][i] for i in kept], "loss_epochs": [float(epochs[i]) for i in kept]}


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"s": pa.string(), "i": pa.int64(), "f": pa.float64(), "l": pa.list_(pa.float32())}
    return pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])


def _floats(values: Iterable[float]) -> list[float]:
    """Return a curve as a plain list."""
    return [float(v) for v in np.asarray(list(values), np.float32)]
