"""Tests of a product of factors: some rows in `make test`, all of them in `make test-slow`."""

import itertools

import pytest


def pairs(row):
    """All pairs of places in a row, with their values."""
    return set(itertools.combinations(enumerate(row), 2))


def covering(rows):
    """Few of the rows, in which every pair of values that is in any row is in one: greedily, always the same."""
    rows, found = list(rows), []
    missing = set().union(*map(pairs, rows))
    while missing:
        best = max(rows, key=lambda row: len(pairs(row) & missing))
        found.append(best)
        missing -= pairs(best)
    return found


def product(*factors):
    """Parameters of the product of factors; rows that no pair of values needs are slow."""
    rows = list(itertools.product(*factors))
    return sampled(rows, covering(rows))


def sampled(rows, few):
    """Parameters of which all but a few are slow."""
    return [
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)), marks=() if row in few else pytest.mark.slow
        )
        for row in rows
    ]
