"""Compiled programs on disk: which are kept, and how the option switches them off."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import denseam
from denseam.training.cache import tidy

WHOLE = zlib.compress(bytes(10_000) + os.urandom(1000))


def entry(folder, name, content=WHOLE, used=None):
    path = folder / f"{name}-cache"
    path.write_bytes(content)
    if used is not None:
        os.utime(path, (used, used))
    return path


@pytest.mark.parametrize("content", [b"", WHOLE[:-1], WHOLE[:500] + b"?" + WHOLE[501:]])
def test_a_damaged_entry_is_removed(tmp_path, content):
    tidy(tmp_path)
    whole, damaged = entry(tmp_path, "whole"), entry(tmp_path, "damaged", content)
    tidy(tmp_path)
    assert whole.exists()
    assert not damaged.exists()


def test_entries_are_looked_into_once(tmp_path):
    tidy(tmp_path)
    old = entry(tmp_path, "old", WHOLE[:-1], used=1e9)
    tidy(tmp_path)
    assert old.exists()


def test_the_oldest_go_if_there_are_too_many(tmp_path):
    paths = [entry(tmp_path, f"p{i}", used=1e9 + i) for i in range(5)]
    tidy(tmp_path, most=3 * len(WHOLE))
    assert [path.exists() for path in paths] == [False, False, True, True, True]


#: Trains a small study in a process of its own, and counts the programs that were kept before and after it.
SWEEP = (
    "sweep --activation relu --optimizer sgd --scales 8 --eta0 0.1 --seeds 1 --epochs 1 --quiet --json --out"
)


def kept(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*-cache")}


def test_programs_are_kept_unless_the_option_says_no(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | {
        "XDG_CACHE_HOME": str(tmp_path)
    }

    def run(*options, out):
        command = [sys.executable, "-m", "denseam", *options, *SWEEP.split(), str(tmp_path / out)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert done.stderr == ""

    programs = tmp_path / "denseam" / "programs"
    run("--no-cache", out="one")
    assert not kept(programs)
    run(out="two")
    before = kept(programs)
    (training,) = (name for name in before if name.startswith("jit_advance"))
    for name in before:  # a killed writer leaves such entries: they are compiled and kept again
        (programs / name).write_bytes(before[name][:-9])
    run(out="three")
    assert training in kept(programs)
    assert all(zlib.decompress(content) for content in kept(programs).values())


def test_python_keeps_programs_where_jax_was_told_to():
    assert denseam.keep_programs() == Path(os.environ["JAX_COMPILATION_CACHE_DIR"])


@pytest.mark.parametrize("first", ["", "import jax; "])
def test_python_keeps_programs_in_a_folder(tmp_path, first):
    code = f"{first}import denseam, sys; denseam.keep_programs({str(tmp_path)!r}); assert bool({first!r}) == ('jax' in sys.modules); "
    code += "import jax; assert jax.config.jax_compilation_cache_dir == " + repr(str(tmp_path))
    subprocess.run([sys.executable, "-c", code], check=True)
