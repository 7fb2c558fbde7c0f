"""The results of a setting at one size: records, verdicts, and curves at one learning rate."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from denseam.analysis.transfer import Verdict, horizon, verdict
from denseam.errors import InputError
from denseam.paper.examples import Examples
from denseam.paper.settings import Setting
from denseam.paper.sizes import Size
from denseam.studies.records import PROBE_COLUMNS, Records, Row, epochs_of, thin

Array = Float[np.ndarray, "..."]


class Results:
    """The records of one size, by setting."""

    def __init__(self, rows: Mapping[str, Row], size: Size, out: Path | None = None) -> None:
        self.size, self._out = size, out
        self._by_key = rows
        self._records = functools.cache(self._read)
        self._verdicts = functools.cache(self._judge)

    def rows(self, setting: Setting) -> Records:
        """Return the finished runs of a setting."""
        return self._records(setting)

    def missing(self, setting: Setting) -> int:
        """Return how many runs of a setting are missing."""
        total = sum(len(study.runs()) for study in setting.studies(self.size))
        return total - len(self.rows(setting))

    def verdict(self, setting: Setting, epoch: int | None = None) -> Verdict:
        """Return the verdict on a setting's learning rate, at the end or at an epoch."""
        return self._verdicts(setting, epoch)

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

    def examples(self, examples: Examples) -> dict[str, Any]:
        """Return a comparison of recall."""
        comparison = None if self._out is None else examples.read(self.size, self._out)
        if comparison is None:
            raise InputError("the examples of recall have not been made yet")
        return comparison

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
        keys = [spec.key for study in setting.studies(self.size) for spec in study.runs()]
        return Records(self._by_key[key] for key in keys if key in self._by_key)

    def _judge(self, setting: Setting, epoch: int | None) -> Verdict:
        (judged,) = verdict(self.rows(setting), epoch=epoch)
        return judged
