"""A disk of 64 kB: each command fits, or ends with 74 and one line; with more room the same command is right."""

import shutil
import subprocess

import pytest

from tests.faults.commands import COMMANDS, call, nothing_computed_twice, pictures, prepared

#: Command → whether its result does not fit into 64 kB.
TOO_LARGE = {"sweep": True, "train": False, "figure": True, "export csv": False}


def _mount(*words):
    tool = shutil.which("mount")
    return tool is not None and subprocess.run([tool, *words], capture_output=True).returncode == 0


@pytest.fixture
def disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    if not _mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)):
        pytest.skip("only root can mount a disk of 64 kB")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_disk_of_64_kB_is_full(name, disk, tmp_path_factory):
    given, command = prepared(tmp_path_factory.getbasetemp()), COMMANDS[name]
    with nothing_computed_twice():
        free = tmp_path_factory.mktemp("free")
        command.reset(given, free)
        assert call(*command.arguments(given, free))[0] in command.codes
        reference = command.result(free / command.out)

        command.reset(given, disk)
        code, _, err = call(*command.arguments(given, disk))
        if TOO_LARGE[name]:
            assert code == 74, err
            assert err.count("denseam: ") == 1, err
            assert "No space left on device" in err
        else:
            assert code in command.codes, err

        assert _mount("-o", "remount,size=64m", str(disk))
        code, _, err = call(*command.arguments(given, disk))
        assert code in command.codes, err
        assert command.result(disk / command.out) == reference
        pictures(disk)
