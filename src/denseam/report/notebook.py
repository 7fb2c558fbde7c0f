"""What a notebook shows of studies, records, verdicts, checks and scales; `ground.display` loads this."""

from __future__ import annotations

import functools
import html as escaping
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from denseam.analysis.coordinates.judge import Check
from denseam.analysis.sentences import percent
from denseam.analysis.verdicts import Verdict
from denseam.report.plots.coordinates import check_figure
from denseam.report.plots.optima import verdict_figure
from denseam.report.plots.transfer import transfer_figure
from denseam.report.wording import number
from denseam.rules import Scales
from denseam.studies.documents import to_document
from denseam.studies.records import Records
from denseam.studies.study import Study

#: Status → the colour of its word; the others are plain.
_COLOURS = {
    "TRANSFERS": "#1b7837", "PASS": "#1b7837", "DRIFTS": "#b35806", "FAILS": "#b2182b", "FAIL": "#b2182b",
}  # fmt: skip


@functools.singledispatch
def plot(thing: Any) -> Any:
    """Return the figure of a thing."""
    raise NotImplementedError(type(thing).__name__)


@functools.singledispatch
def html(thing: Any) -> str:
    """Return a thing as a piece of HTML."""
    raise NotImplementedError(type(thing).__name__)


plot.register(Records, transfer_figure)
plot.register(Verdict, verdict_figure)
plot.register(Check, check_figure)


@html.register
def _(scales: Scales) -> str:
    shape = ", ".join(f"{letter} = {size}" for letter, size in _sizes(scales).items())
    always = ("s1", "s2", "eta_W", "eta_b", "eta_c", "W_std")
    known = ("shape", "optimizer", "rule", "constants")
    others = [name for name in vars(scales) if name not in (*known, *always) and getattr(scales, name) != 1]
    rows = [(name, number(getattr(scales, name), 4)) for name in (*always, *others)]
    return _titled(f"Scales for {scales.optimizer}", shape) + _table(("", "value"), rows)


def _sizes(scales: Scales) -> Mapping[str, int]:
    return {letter: size for letter in "NKPB" if (size := getattr(scales.shape, letter)) is not None}


@html.register
def _(study: Study) -> str:
    rows = [(key, _value(value)) for key, value in to_document(study).items() if key != "name"]
    return _titled(study.name, f"{len(study.runs())} runs") + _table(("", "value"), rows)


def _value(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_value, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@html.register
def _(records: Records) -> str:
    rows = []
    for name, runs in records.studies().items():
        scales = sorted({row["scale"] for row in runs})
        lost = sum(row["status"] == "diverged" for row in runs)
        rows.append((name, str(len(runs)), _value(scales), str(lost)))
    return _titled("Records", f"{len(records)} runs") + _table(("study", "runs", "scales", "diverged"), rows)


@html.register
def _(v: Verdict) -> str:
    rows = [
        (str(scale), number(value), number(v.best_loss.get(scale), 4), _regret(v, scale))
        for scale, value in sorted(v.optimum.items())
    ]
    heads = (v.scale_letter, f"best {v.axis}", v.loss_name, "regret")
    sentences = [v.reason, *v.flags, v.next_step]
    return _titled(v.name, v.status) + _paragraph(filter(None, sentences)) + _table(heads, rows)


def _regret(v: Verdict, scale: int) -> str:
    if scale not in v.regret:
        return ""
    return "diverges" if math.isinf(v.regret[scale]) else percent(v.regret[scale])


@html.register
def _(check: Check) -> str:
    judged = [(name, status) for name, status in check.desiderata.items()]
    wrong = [
        (s.name, str(s.step), number(s.slope), number(s.expected))
        for s in check.failing()[:8]  # the first ones are the causes, the others follow
    ]
    parts = [_titled(check.name, check.status), _paragraph(filter(None, [check.reason]))]
    parts.append(_table(("desideratum", "status"), judged))
    if wrong:
        parts.append(_table(("quantity", "step", f"exponent in {check.letter}", "expected"), wrong))
    return "".join(parts)


def _titled(title: str, remark: str) -> str:
    colour = f' style="color: {_COLOURS[remark]}"' if remark in _COLOURS else ""
    return f"<p><strong>{escaping.escape(title)}</strong> <span{colour}>{escaping.escape(remark)}</span></p>"


def _paragraph(sentences: Iterable[str]) -> str:
    text = escaping.escape(" ".join(sentences))
    return f"<p>{text}</p>" if text else ""


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(kind: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{kind}>{escaping.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', heads)}</thead><tbody>{body}</tbody></table>"
