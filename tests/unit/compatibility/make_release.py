"""Write one of every file that a version keeps, and what it says of them.

    git worktree add /tmp/release COMMIT
    PYTHONPATH=/tmp/release/src python tests/unit/compatibility/make_release.py tests/unit/compatibility/releases/COMMIT

Only the command line is used, so that the same script serves later versions.
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from denseam.cli import main

SWEEP = "sweep --activation relu --optimizer adam --scales 8,16 --eta0 0.03,0.1,0.3 --seeds 1 --epochs 2 --probes Z --probe-steps 0,3 --workers 1"
TRAIN = "train x.npy --features 16 --optimizer adam --eta0 0.05 --epochs 40"


def call(line, *more):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*line.split(), *more])
    assert code in (0, 1, 2), line
    return out.getvalue()


def stopped(line, folder):
    """Start a training, and stop it after its first steps."""
    slowly = (
        "import sys, time; from denseam.workflow import target; from denseam.cli import main\n"
        "target.SEGMENT_BYTES, target.SAVE_SECONDS = 1, 0.0\n"
        "save = target._Training._save\n"
        "target._Training._save = lambda *a: (save(*a), time.sleep(5))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    child = subprocess.Popen([sys.executable, "-c", slowly, *line.split(), "--out", folder, "--quiet"])
    while not os.path.exists(f"{folder}/state.safetensors"):
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()


def make(folder):
    folder.mkdir(parents=True)
    os.chdir(folder)
    np.save("x.npy", np.random.default_rng(0).standard_normal((120, 16)).astype(np.float32))
    said = {"sweep": SWEEP, "train": TRAIN}
    call(SWEEP, "--out", "runs", "--quiet")
    said["export"] = call("export runs")
    said["verdict"] = json.loads(call("verdict runs --json"))
    call(TRAIN, "--out", "trained", "--quiet")
    said["recall"] = json.loads(
        call("recall trained/memory.safetensors x.npy --samples 4 --steps 2 --out out.npz --json")
    )
    said["outputs"] = np.load("out.npz")["output"].tolist()
    said["loss"] = json.loads(Path("trained/training.json").read_text())["loss"]
    os.remove("out.npz")
    os.remove("trained/state.safetensors")
    stopped(TRAIN, "stopped")
    call(
        "tune x.npy --features 16 --epochs 2 --optimizer adam --scales 4,8,12 --heldout 0.2",
        "--out",
        "tuned",
        "--quiet",
    )
    said["tuned"] = json.loads(Path("tuned/tuned.json").read_text())["recipe"]
    for path in Path().rglob("*"):
        if path.suffix in (".png", ".svg", ".html") or (
            path.is_file() and path.parts[:2] == ("tuned", "runs")
        ):
            path.unlink()
    Path("said.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    threading.Timer(600, os._exit, (1,)).start()
    make(Path(sys.argv[1]).resolve())
    os._exit(0)
