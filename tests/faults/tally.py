"""What was tried, what was handled, and what went wrong: the table of docs/faults.md."""

import json
import os
import random

from tests import ROOT

#: With FULL=1 every case runs, with FULL=0.1 a tenth of them; otherwise a sample of a minute.
SHARE = float(os.environ.get("FULL") or 0)
FULL = SHARE > 0
FILE = ROOT / "docs" / "faults.json"
#: Suite → what was tried in it → its counts.
_rows = {}


def chosen(cases, few, seed):
    """Return all cases, a share of them, or a few; the same ones each time."""
    count = max(1, round(len(cases) * SHARE)) if FULL else min(few, len(cases))
    return cases if count >= len(cases) else random.Random(seed).sample(cases, count)


def add(suite, what, *, tried, wrong, seconds):
    """Note the outcome of many cases."""
    _rows.setdefault(suite, {})[what] = {"tried": tried, "wrong": wrong, "seconds": round(seconds)}


def write(expected):
    """Write the rows of each suite of which one run has tried every case; other suites keep theirs."""
    document = json.loads(FILE.read_text()) if FILE.is_file() else {}
    complete = {suite: rows for suite, rows in _rows.items() if set(rows) == expected[suite]}
    if SHARE >= 1 and complete:
        FILE.write_text(json.dumps(document | complete, indent=1) + "\n")
