"""Commands that are killed again and again, at random times, end with the result of one that never was."""

import random
import signal
import time

import pytest

from denseam.ground.files import clear_leftovers
from tests.faults import tally
from tests.faults.commands import COMMANDS, clear, pictures, prepared
from tests.faults.kills import KILLS, context, ended, start, words

#: A command that is killed more often than this in a row is then left to end.
MOST = 6
#: Seconds after which a command hangs.
HANGS = 120


@pytest.fixture(scope="module")
def forking():
    return context()


def killed_until_done(forking, command, given, folder, rng, seconds, wanted):
    """Kill a command at random times until it ends by itself; return the kills, and what is wrong."""
    out, log, kills, wrong = folder / command.out, folder.parent / "log", 0, []
    clear(out)
    while True:
        process = start(forking, command.arguments(given, folder), log)
        last = kills >= min(wanted, MOST)
        how = rng.choice([signal.SIGKILL, signal.SIGTERM])
        code = ended(process, HANGS if last else rng.expovariate(2 / seconds))
        if code is None and last:
            process.kill()
            return kills, [*wrong, "hangs"]
        if code is None:
            kills += 1
            (process.kill if how == signal.SIGKILL else process.terminate)()
            code = ended(process, HANGS)
            if how == signal.SIGKILL and code == -signal.SIGKILL:
                continue
            if code in (143, -signal.SIGTERM):
                continue
        if code not in command.codes:
            return kills, [*wrong, f"exit code {code} after {how.name}: {words(log)[-300:]}"]
        return kills, wrong


def abandoned(out):
    """Clear what killed processes have left, as the next command does a second later."""
    time.sleep(1.1)
    top = out if out.is_dir() else out.parent
    for folder in (top, *(path for path in top.rglob("*") if path.is_dir())):
        clear_leftovers(folder)


@pytest.mark.parametrize("name", [name for name, (_, few) in KILLS.items() if few or tally.FULL])
def test_kills_cost_no_result(name, forking, tmp_path_factory):
    parent = tmp_path_factory.getbasetemp()
    given, folder, command = prepared(parent), parent / f"{name}-killed", COMMANDS[name]
    folder.mkdir()
    out, rng, began = folder / command.out, random.Random(f"kills of {name}"), time.monotonic()
    process = start(forking, command.arguments(given, folder), parent / "log")
    assert ended(process, HANGS) in command.codes, words(parent / "log")
    clear(out)
    at = time.monotonic()
    assert (
        ended(start_again := start(forking, command.arguments(given, folder), parent / "log"), HANGS)
        is not None
    )
    assert start_again.exitcode in command.codes
    seconds, reference = time.monotonic() - at, command.result(out)
    total, wrong, wanted = (
        0,
        [],
        max(1, round(KILLS[name][0] * tally.SHARE)) if tally.FULL else KILLS[name][1],
    )
    while total < wanted:
        kills, problems = killed_until_done(forking, command, given, folder, rng, seconds, wanted - total)
        total += kills
        if not problems:
            abandoned(out)
            try:
                if command.result(out) != reference:
                    problems = ["the result is wrong"]
                pictures(folder)
            except Exception as error:
                problems = [repr(error)]
        wrong += problems
    tally.add("kills", name, tried=total, wrong=len(wrong), seconds=time.monotonic() - began)
    assert not wrong, "\n".join(wrong[:20])
