"""Tests of many rows: some of them in `make test`, all of them in `make test-slow`."""

import itertools

import pytest


def pairs(row):
    """All pairs of places in a row, with their values."""
    return set(itertools.combinations(enumerate(row), 2))


def covering(rows, parts=pairs, costs=lambda row: 1):
    """Few of the rows, in which every part of any row occurs: greedily by the parts per cost, always the same."""
    rows, chosen = list(rows), []
    has = [set(parts(row)) for row in rows]
    missing = set().union(*has)
    while missing:
        best = max(range(len(rows)), key=lambda i: len(has[i] & missing) / costs(rows[i]))
        chosen.append(rows[best])
        missing -= has[best]
    return chosen


def product(*factors):
    """Parameters of the product of factors; rows that no pair of values needs are slow."""
    rows = list(itertools.product(*factors))
    return sampled(rows, covering(rows))


def diagonal(*factors):
    """Parameters of the product of factors; those are slow whose values all occur in others."""
    rows = list(itertools.product(*factors))
    return sampled(rows, covering(rows, enumerate))


def sampled(rows, few):
    """Parameters of which all but a few are slow."""
    return [
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)), marks=() if row in few else pytest.mark.slow
        )
        for row in rows
    ]
