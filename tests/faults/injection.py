"""Faults of the file system, injected into this process: the n-th open, write, sync or rename in a folder fails."""

import builtins
import contextlib
import dataclasses
import errno
import io
import os

#: What can fail.
KINDS = ("open", "write", "fsync", "rename")
#: How often: once, or from then on.
ONCE, ON = "once", "from then on"
ERRORS = (
    errno.ENOSPC,
    errno.EIO,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EMFILE,
    errno.EFBIG,
    errno.ESTALE,
    errno.ENOENT,
    errno.ENFILE,
    errno.ENOMEM,
    errno.ETIMEDOUT,
)


@dataclasses.dataclass(frozen=True)
class Fault:
    """The n-th call of a kind fails; `short` writes half of the bytes first."""

    kind: str
    n: int
    how: str = ONCE
    error: int = errno.ENOSPC
    short: bool = False

    def __str__(self):
        short = ", half written" if self.short else ""
        return f"{self.kind} {self.n} {self.how}, {errno.errorcode[self.error]}{short}"


class Faults:
    """Counts the calls below a folder, and lets those fail that a fault names."""

    def __init__(self, folder, fault=None):
        self.folder, self.fault = os.path.realpath(folder), fault
        self.counts = dict.fromkeys(KINDS, 0)
        self.hit = 0

    def inside(self, path):
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return False
        return os.path.realpath(os.fspath(path)).startswith(self.folder + os.sep)

    def due(self, kind, path):
        """Count a call; return whether it fails."""
        if not self.inside(path):
            return False
        self.counts[kind] += 1
        fault = self.fault
        if fault is None or fault.kind != kind:
            return False
        fails = self.counts[kind] >= fault.n if fault.how == ON else self.counts[kind] == fault.n
        self.hit += fails
        return fails

    def call(self, kind, path):
        if self.due(kind, path):
            self.fail(path)

    def fail(self, path):
        raise OSError(
            self.fault.error, os.strerror(self.fault.error), None if isinstance(path, int) else str(path)
        )


class Raw(io.FileIO):
    """A file whose writes are counted."""

    def __init__(self, file, mode, faults, **options):
        super().__init__(file, mode, **options)
        self.faults = faults

    def write(self, data):
        where = self.fileno()
        if self.faults.due("write", where):
            if self.faults.fault.short:
                part = memoryview(data).cast("B")
                super().write(part[: len(part) // 2])
            # As the system reports it: without a name.
            raise OSError(self.faults.fault.error, os.strerror(self.faults.fault.error))
        return super().write(data)


@contextlib.contextmanager
def injected(folder, fault=None):
    """Inside, calls below the folder are counted and fail as the fault says."""
    faults = Faults(folder, fault)
    real_open, real_os_open, real_fsync = builtins.open, os.open, os.fsync
    real_renames = {name: getattr(os, name) for name in ("replace", "rename")}

    def open_(
        file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None
    ):
        if not isinstance(file, int):
            faults.call("open", file)
        if not set(mode) & set("wax+") or not faults.inside(file):
            return real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = Raw(file, mode.replace("b", "").replace("t", ""), faults, closefd=closefd, opener=opener)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    def os_open(path, flags, *arguments, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            faults.call("open", path)
        return real_os_open(path, flags, *arguments, **options)

    def fsync(fd):
        faults.call("fsync", fd if isinstance(fd, int) else fd.fileno())
        return real_fsync(fd)

    def renaming(name):
        def rename(source, target, **options):
            faults.call("rename", target)
            return real_renames[name](source, target, **options)

        return rename

    changed = [(builtins, "open", open_), (io, "open", open_), (os, "open", os_open), (os, "fsync", fsync)]
    changed += [(os, name, renaming(name)) for name in real_renames]
    before = [(where, name, getattr(where, name)) for where, name, _ in changed]
    try:
        for where, name, function in changed:
            setattr(where, name, function)
        yield faults
    finally:
        for where, name, function in before:
            setattr(where, name, function)
