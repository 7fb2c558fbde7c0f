"""Studies that processes elsewhere train, compared with the same runs trained here."""

import subprocess
import sys
import time
from collections import Counter

import pyarrow.parquet as pq
import pytest

from denseam.studies.documents import from_file
from denseam.studies.runner import run_studies
from denseam.studies.store import Store

#: Columns that say how a run was trained, not what came out.
HOW = {"seconds", "device"}


def table(records):
    return {row["key"]: {k: v for k, v in row.items() if k not in HOW} for row in records}


@pytest.fixture(scope="module")
def study_file(request, tmp_path_factory):
    """The study of a test module, as a file."""
    path = tmp_path_factory.mktemp("study") / "study.toml"
    path.write_text(request.module.STUDY)
    return path


@pytest.fixture(scope="module")
def local(study_file):
    """Its runs, trained in this process."""
    return table(run_studies(from_file(study_file)).records)


def started(program, *arguments, env, **options):
    """Start a program of Python's with arguments."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **options
    )


def ended(process, timeout=60):
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def after_shards(out, count, process):
    """Wait until so many shards are written, with the driver still at work."""
    while len(list((out / "shards").glob("*.parquet"))) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    assert process.poll() is None


def nothing_lost_nothing_doubled(out, local):
    rows = [key for f in (out / "shards").glob("*.parquet") for key in pq.read_table(f)["key"].to_pylist()]
    doubled = [key for key, n in Counter(rows).items() if n > 1]
    assert not doubled
    assert table(Store(out).read()) == local
