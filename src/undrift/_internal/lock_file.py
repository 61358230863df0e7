"""A lock file: one writer at a time; the lock goes with the process, however that ends.

Written by hand, in place of a library such as filelock: the refusal names the process that holds the lock, links and
files of others are left alone, and a writer can remove the file without taking the lock from the next one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path

from undrift.errors import InputError

FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
"""Open the very file that is named: no link is followed, and a pipe does not make us wait."""
MAX_BYTES = 20
"""Bytes of a process id; a longer file is somebody else's."""
LOCKED_BYTE = 1 << 30
"""Byte that is locked on Windows, where nobody can read what is locked: far behind the process id."""


def acquire(path: Path, where: Path, what: str) -> int:
    """Lock the file at `path` and return its descriptor; FileNotFoundError if its folder vanished meanwhile.

    Parameters
    ----------
    path
        The lock file; it is made if it is not there. It holds the writer's process id and nothing else.
    where, what
        The folder and what is being written there, for the sentence that refuses a second writer.
    """
    while True:
        fd = _open(path)
        try:
            if not _lock(fd, path):
                raise InputError(f"{where}: {_owner(fd)} is writing this {what}; wait for it to end")
            # The last writer may have removed the file after we opened it: then another one may hold a new file.
            if os.path.samestat(os.fstat(fd), os.lstat(path)):
                _write_owner(fd)
                return fd
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def release(fd: int, path: Path, *, remove: bool) -> None:
    """Give the lock up, and remove its file if asked to."""
    if remove and os.name == "posix":  # before giving it up, so that nobody else's lock is removed
        path.unlink(missing_ok=True)
    os.close(fd)
    if remove and os.name != "posix":  # an open file cannot be removed there
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _open(path: Path) -> int:
    not_ours = InputError(f"{path}: what is there is not a lock of undrift's (a link, or another file); remove it")
    if path.is_symlink():
        raise not_ours
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | FLAGS, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise not_ours from None
        raise
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES or found.st_nlink > 1:
        os.close(fd)
        raise not_ours
    return fd


def _lock(fd: int, path: Path) -> bool:
    """Whether the lock is ours now."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"{path}: this file system has no locks ({reason}); choose a folder on a local disk") from None
    return True


def _owner(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    text = os.read(fd, MAX_BYTES).decode("ascii", "replace").strip()
    if text == str(os.getpid()):
        return "another thread of this process"
    return f"another process (pid {text})" if text.isdigit() else "another process"


def _write_owner(fd: int) -> None:
    """Write our process id, as long as every other, so that the file is never cut."""
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, f"{os.getpid():<{MAX_BYTES - 1}}\n".encode("ascii"))
