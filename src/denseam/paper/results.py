"""The results of a setting at one size: records, verdicts, and curves at one learning rate."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.analysis.transfer import Verdict, horizon, verdict
from denseam.ground.errors import InputError
from denseam.paper.measurement import Measurement
from denseam.paper.readings import Reading
from denseam.paper.settings import Setting
from denseam.paper.sizes import Size
from denseam.studies.records import PROBE_COLUMNS, Records, Row, by_loss, epochs_of, thin

Array = Float[np.ndarray, "..."]


class Results:
    """The records of one size in one reading, by setting."""

    def __init__(
        self, rows: Mapping[str, Row], size: Size, reading: Reading, out: Path | None = None
    ) -> None:
        self.size, self.reading, self._out = size, reading, out
        self._by_key = rows
        self._records = functools.cache(self._read)
        self._verdicts = functools.cache(self._judge)
        self._needed = functools.cache(self._keys_of_needed)

    @property
    def all_rows(self) -> Mapping[str, Row]:
        """The runs of all settings and readings, by their keys."""
        return self._by_key

    def rows(self, setting: Setting) -> Records:
        """Return the finished runs of a setting."""
        return self._records(setting.unlabelled)

    def missing(self, setting: Setting) -> int:
        """Return how many of the runs that a verdict needs are missing."""
        return sum(key not in self._by_key for key in self._needed(setting.unlabelled))

    def verdict(self, setting: Setting, epoch: int | None = None, base: int | None = None) -> Verdict:
        """Return the verdict on a setting's learning rate, at the end or at an epoch, from a scale on."""
        return self._verdicts(setting.unlabelled, epoch, base)

    def curves(
        self, setting: Setting, quantity: str, eta0: float | None = None
    ) -> dict[int, tuple[Array, Array]]:
        """Return the curves of a quantity for each scale: its steps or epochs, and an array seeds × values.

        The quantity is 'loss' (against epochs) or a probe (against steps), at `rate(setting, eta0)`. Values
        are NaN once a run has diverged.
        """
        rows, nearest = self.rows(setting), self.rate(setting, eta0)
        by_scale: dict[int, tuple[Array, Array]] = {}
        for scale in sorted({row["scale"] for row in rows}):
            here = [r for r in rows if r["scale"] == scale and r["eta0"] == nearest]
            if quantity == "loss":
                here = list(thin(here))  # log-spaced, so that distances are the same for thinned records
                x, curves = np.array(epochs_of(here[0]), float), [r["loss"] for r in here]
            else:
                x = np.array(here[0]["probe_steps"], float)
                curves = [r[PROBE_COLUMNS[quantity]] for r in here]
            values = np.array(curves, float)
            by_scale[scale] = x, np.where(np.isfinite(values), values, np.nan)
        return by_scale

    def measured(self, measurement: Measurement) -> dict[str, Any]:
        """Return the arrays of a measurement."""
        arrays = None if self._out is None else measurement.read(self.size, self.reading, self._out)
        if arrays is None:
            raise InputError("recall has not been measured yet")
        return arrays

    def is_measured(self, measurement: Measurement) -> bool:
        """Return whether a measurement has been made."""
        return self._out is not None and measurement.path(self.size, self.reading, self._out).is_file()

    def rate(self, setting: Setting, eta0: float | None = None) -> float:
        """Return the learning rate of the grid that is nearest to `eta0`.

        By default, nearest to the best rate at the smallest scale; the middle of the grid if all diverged.
        """
        rates = sorted({float(row["eta0"]) for row in self.rows(setting)})
        if len(rates) == 1:
            return rates[0]
        if eta0 is None:
            optimum = self.verdict(setting).optimum
            eta0 = optimum[min(optimum)] or rates[len(rates) // 2]
        return min(rates, key=lambda rate: abs(math.log(rate / eta0)))

    def best_by_epoch(self, setting: Setting) -> dict[int, dict[int, float | None]]:
        """Return epoch → scale → best learning rate."""
        (best,) = horizon(self.rows(setting)).values()
        return best

    def _read(self, setting: Setting) -> Records:
        """Return the runs that a verdict needs, and further seeds of which no run is missing."""
        needed = self._needed(setting)
        kept: list[Row] = []
        for _, specs in itertools.groupby(
            setting.whole_study(self.size, self.reading).runs(), key=lambda spec: (spec.scale, spec.seed)
        ):
            keys = [spec.key for spec in specs]
            if needed.issuperset(keys) or all(key in self._by_key for key in keys):
                kept += [self._by_key[key] for key in keys if key in self._by_key]
        return by_loss(Records(kept), setting.by)

    def _keys_of_needed(self, setting: Setting) -> frozenset[str]:
        return frozenset(spec.key for spec in setting.runs(self.size, self.reading))

    def _judge(self, setting: Setting, epoch: int | None, base: int | None) -> Verdict:
        rows = self.rows(setting)
        if base is not None:
            rows = Records(row for row in rows if row["scale"] >= base)
        (judged,) = verdict(rows, epoch=epoch)
        return judged
