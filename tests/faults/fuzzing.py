"""Runs fuzzed cases in a process of its own, where nothing is trained: a study that is accepted ends with 130."""

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

#: A case hangs if it computes for so many seconds, however loaded the machine is, or waits for so many.
COMPUTES, WAITS = 20, 120
#: Bytes that a case may take.
MEMORY = 12 << 30
ACCEPTED = 130
CODES = {0, 1, 2, 64, 74, ACCEPTED}


class Hang(BaseException):
    pass


def _hang(*_):
    raise Hang


def _accepted(*_arguments, **_options):
    raise KeyboardInterrupt


def _nothing_is_trained():
    from denseam.cli import bench
    from denseam.studies import runner
    from denseam.workflow import target

    runner.train_studies = _accepted
    resume = target._Training._resume

    def run(self):
        target.check_folder(self.out)
        if (self.out / target.STATE).exists():
            self.on.begin(lambda start: target.build(self.study, self.spec, start, self.dtype))
            resume(self)
        raise KeyboardInterrupt

    target._Training.run = run
    del bench


def call(arguments):
    from denseam.cli import main

    out, err = io.StringIO(), io.StringIO()
    signal.signal(signal.SIGALRM, _hang)
    signal.signal(signal.SIGPROF, _hang)
    signal.alarm(WAITS)
    signal.setitimer(signal.ITIMER_PROF, COMPUTES)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(arguments))
    except Hang:
        code = None
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    return code, out.getvalue(), err.getvalue()


def problem(case, folder, given):
    """Run a case; return what is wrong with how it ends, or None."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    arguments = [word.replace("GIVEN", str(given)) for word in case.arguments]
    code, out, err = call(arguments)
    if code is None:
        return f"hangs: computes for {COMPUTES} s, or waits for {WAITS} s"
    if code not in CODES:
        return f"exit code {code}: {err[-200:]}"
    if "Traceback" in err or "Traceback" in out:
        return f"traceback: {err[-300:]}"
    said = [line for line in err.splitlines() if line.startswith("denseam:")]
    if code in (64, 74) and len(said) != 1:
        return f"not one line: {err[-300:]!r}"
    if case.refused and code != 64:
        return f"not refused: exit code {code}: {(out + err)[-200:]}"
    if "--json" in case.arguments and code in (0, 1, 2):
        if "NaN" in out or "Infinity" in out:
            return f"not strict JSON: {out[:200]}"
        json.loads(out)
    if case.original and code in (0, 1, 2):
        _, right, _ = call([word.replace("GIVEN", str(given)) for word in case.original])
        if _same(out) != _same(right):
            return f"silent nonsense: {out[:200]}"
    return None


def _same(text):
    document = json.loads(text)
    document.pop("files", None)
    return document


def run(cases, given, results):
    """Run the cases one after the other; what is wrong with each goes to a file as it is found."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.stdin = io.StringIO()
    _nothing_is_trained()
    with open(results, "a") as file:
        for number, case in cases:
            folder = Path(tempfile.mkdtemp(prefix="fuzz"))
            os.chdir(folder)
            began = time.monotonic()
            try:
                wrong = problem(case, folder, given)
            except BaseException as error:
                wrong = f"{type(error).__name__}: {error}"[:300]
            finally:
                os.chdir("/")
                shutil.rmtree(folder, ignore_errors=True)
            print(json.dumps([number, wrong, round(time.monotonic() - began, 3)]), file=file, flush=True)
