"""How many claims have which word, in each reading. Claims that ask the same of the same runs count once."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Any

from denseam.paper.claims import COMPARED, Finding, Judgement
from denseam.paper.figure import Figure
from denseam.paper.readings import READINGS

#: The words, in the order of tables.
KINDS = ("reproduced", "only if", "not reproduced", "undecided", "not run")
#: Reading → word → number of claims.
Counts = Mapping[str, collections.Counter[str]]


def kind(finding: Finding) -> str:
    """Return the word under which a finding is counted."""
    conditional = finding.outcome == "reproduced" and finding.condition
    return "only if" if conditional else finding.outcome


def tally(judged: Iterable[tuple[Figure, Iterable[Judgement]]], own: bool) -> Counts:
    """Count the findings on the paper's claims, or on our own."""
    counts = {name: collections.Counter[str]() for name in (*READINGS, COMPARED)}
    seen: set[Any] = set()
    for figure, judgements in judged:
        for judgement in judgements:
            question = judgement.claim.question
            if figure.own is own and question not in seen:
                seen.add(question)
                for reading, finding in judgement.findings.items():
                    counts[reading][kind(finding)] += 1
    return {name: counter for name, counter in counts.items() if counter}
