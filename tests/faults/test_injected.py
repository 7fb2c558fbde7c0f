"""Every open, write, sync and rename of a command fails once, and from then on: nothing is lost, nothing is believed
that is not so, and the same command then gives the right result.
"""

import random
import shutil
import time
import traceback

import pytest

from tests.faults import tally
from tests.faults.commands import COMMANDS, call, clear, nothing_computed_twice, pictures, prepared
from tests.faults.injection import ERRORS, KINDS, ON, ONCE, Fault, injected

#: Faults of each command in the sample; and, in full, how many errors each place has.
SAMPLE = {"tune": 3, "figure": 6, "sweep that was begun": 6}
ERRORS_IN_FULL = {"tune": 2}


def faults(name, counts):
    """Every fault of a command, or a sample of them."""
    rng = random.Random(f"faults of {name}")
    places = [(kind, n, how) for kind in KINDS for n in range(1, counts[kind] + 1) for how in (ONCE, ON)]
    every = []
    for kind, n, how in places:
        for error in rng.sample(ERRORS, ERRORS_IN_FULL.get(name, len(ERRORS))):
            every.append(Fault(kind, n, how, error))
            if kind == "write":
                every.append(Fault(kind, n, how, error, short=True))
    return tally.chosen(every, SAMPLE.get(name, 12), f"sample of {name}")


def snapshot(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def check(command, given, folder, fault, reference):
    """Run a command with a fault and then without; return what is wrong, or None."""
    out = folder / command.out
    command.reset(given, folder)
    before = snapshot(folder)
    with injected(folder, fault) as met:
        code, _, err = call(*command.arguments(given, folder))
    if not met.hit:
        return "the fault was not met"
    if code not in (*command.codes, 64, 74):
        return f"exit code {code}: {err[-300:]}"
    if "Traceback" in err or (code in (64, 74) and err.rstrip("\n").count("\ndenseam:")):
        return f"not one line: {err[-300:]}"
    if code in (64, 74):
        for path, content in before.items():
            if not path.exists() or path.read_bytes() != content:
                return f"{path.name}: lost what was there before"
    elif command.result(out) != reference:
        return f"exit code {code}, but the result is wrong"
    leftovers = [p.name for p in folder.rglob(".*")]
    if leftovers:
        return f"left over: {leftovers}"
    pictures(folder)
    if code in command.codes:
        return None
    code, _, err = call(*command.arguments(given, folder))
    if code not in command.codes:
        return f"again: exit code {code}: {err[-300:]}"
    if command.result(out) != reference:
        return "again: the result is wrong"
    pictures(folder)
    return None


@pytest.mark.parametrize("name", COMMANDS)
def test_a_fault_costs_no_result(name, tmp_path_factory):
    parent = tmp_path_factory.getbasetemp()
    given, folder, command = prepared(parent), parent / f"{name}-out", COMMANDS[name]
    folder.mkdir()
    began = time.monotonic()
    with nothing_computed_twice():
        for _ in range(2):  # what is computed in the first is remembered in the second
            command.reset(given, folder)
            with injected(folder) as counted:
                code, _, err = call(*command.arguments(given, folder))
            assert code in command.codes, err
        reference = command.result(folder / command.out)
        wrong, every = [], faults(name, counted.counts)
        for fault in every:
            try:
                problem = check(command, given, folder, fault, reference)
            except Exception:
                problem = traceback.format_exc(limit=-3)
            if problem:
                wrong.append(f"{fault}: {problem}")
            for left in folder.rglob(".*"):
                clear(left)
    shutil.rmtree(folder)
    tally.add("faults", name, tried=len(every), wrong=len(wrong), seconds=time.monotonic() - began)
    assert not wrong, f"{len(wrong)} of {len(every)}\n" + "\n".join(wrong[:40])
