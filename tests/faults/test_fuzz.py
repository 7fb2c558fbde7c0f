"""Thousands of bad inputs: each ends soon, with a documented exit code and one line, and nothing wrong is taken."""

import json
import time

import pytest

from denseam.workflow.goals import target_study
from denseam.workflow.memory import Memory
from denseam.workflow.recipe import Recipe, write_result
from tests.faults import fuzzing, tally
from tests.faults.commands import TRAIN, call, prepared
from tests.faults.fuzz import AREAS, cases
from tests.faults.kills import context

#: Cases in the sample.
SAMPLE = 250
#: Cases of one process.
BATCH = 200


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    folder = prepared(tmp_path_factory.getbasetemp())
    words = [str(folder / word) if word == "x.npy" else word for word in TRAIN.split()]
    code, _, err = call(*words, "--out", folder / "trained")
    assert code == 0, err
    (folder / "memory.safetensors").write_bytes((folder / "trained" / "memory.safetensors").read_bytes())
    Memory.load(folder / "trained").save_pretrained(folder / "hub")
    (folder / "tuned").mkdir()
    write_result(
        folder / "tuned",
        {"status": "TRANSFERS"},
        Recipe(target_study(str(folder / "x.npy"), features=16), 0.1),
    )
    return folder


@pytest.mark.parametrize("area", AREAS)
def test_bad_input_is_refused(area, given, tmp_path):
    every = list(enumerate(cases(given)))
    assert len(every) >= 3000
    assert {case.area for _, case in every} == set(AREAS)
    of_area = [(number, case) for number, case in every if case.area == area]
    few = max(5, round(SAMPLE * len(of_area) / len(every)))
    chosen = tally.chosen(of_area, few, f"fuzz {area}")
    began, results, wrong, done = time.monotonic(), tmp_path / "results", {}, set()
    forking = context()
    results.touch()
    for first in range(0, len(chosen), BATCH):
        left = chosen[first : first + BATCH]
        while left:
            process = forking.Process(target=fuzzing.run, args=(left, given, str(results)))
            process.start()
            process.join(BATCH * 5)
            if process.is_alive():
                process.kill()
                process.join()
            for line in results.read_text().splitlines():
                number, problem, _ = json.loads(line)
                done.add(number)
                if problem:
                    wrong[number] = problem
            left = [(number, case) for number, case in left if number not in done]
            if left:  # the first of these killed the process, or hangs where no signal can end it
                wrong[left[0][0]] = f"the process ended with {process.exitcode}"
                done.add(left.pop(0)[0])
    tally.add("fuzz", area, tried=len(chosen), wrong=len(wrong), seconds=time.monotonic() - began)
    cases_of = dict(chosen)
    shown = [f"{number} {_short(cases_of[number])}: {wrong[number]}" for number in sorted(wrong)]
    assert not wrong, f"{len(wrong)} of {len(chosen)}\n" + "\n".join(shown[:400])


def _short(case):
    files = {n: c[:300] if len(case.files) == 1 else len(c) for n, c in case.files.items()}
    return f"{' '.join(case.arguments)[:300]!r} {str(files)[:400]}"
