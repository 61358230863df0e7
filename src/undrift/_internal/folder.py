"""A folder with one writer at a time and a manifest of its files; nothing else in it is ever replaced or deleted.

```
.undrift/lock         the writer's process id, locked while it writes
.undrift/files.jsonl  the manifest: what wrote a file here, its name, size and SHA-256, noted before it appears
.undrift/tmp-*        files that are being written; renamed into the folder when they are whole
```
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import uuid
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from undrift import store
from undrift._internal import lock_file
from undrift.errors import InputError, ModelFileError, UndriftError

OWN = ".undrift"
"""Name of the sub-folder that holds the lock, the manifest and what is being written."""
MANIFEST, LOCK, TEMPORARY = "files.jsonl", "lock", "tmp-"
READ_ONLY = os.O_RDONLY | lock_file.FLAGS
REMEMBERED_IDENTITIES = 8
"""Identities of a file that are remembered: a writer that was killed may have noted some that never appeared."""
Identity = tuple[int, str] | None
"""Size and digest of a file; None for a file that is ours whatever it holds."""


class Folder:
    """A folder with one writer, who replaces and deletes only what undrift wrote there.

    Parameters
    ----------
    path
        Where it is; made when it is locked.
    what
        What is kept in it, for sentences: "run", "fleet".
    retry
        What to do once a full disk has room again.
    names
        Regular expression of the names we ever write; a manifest that names others was not written by us.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        what: str,
        retry: str = "give the same command again",
        names: str = r"[^/\\\0]+",
    ) -> None:
        self.path, self.what, self.retry = Path(path), what, retry
        self._names = re.compile(names)
        self._files: dict[str, list[Identity]] = {}
        self._unflushed = False  # whether files were renamed that a power cut may still undo

    @contextlib.contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Make the folder and keep other writers out; a folder that nothing was put into vanishes again."""
        own = self.path / OWN
        with explain_disk_errors(self.path, self.retry):
            made, held = self._enter(own)
            try:
                self._read_manifest()
                self._remove_temporaries()
            except BaseException:
                lock_file.release(held, own / LOCK, remove=False)
                raise
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                self._remove_temporaries()
            empty = not any(os.path.lexists(self.path / name) for name in self._files)
            if empty:
                (own / MANIFEST).unlink(missing_ok=True)
            lock_file.release(held, own / LOCK, remove=empty)
            with contextlib.suppress(OSError):  # they may hold what others put there
                for folder in (own, *made) if empty else ():
                    folder.rmdir()

    def _enter(self, own: Path) -> tuple[list[Path], int]:
        """Return the folders that had to be made, deepest first, and the descriptor of the lock."""
        made: list[Path] = []
        while True:
            missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
            made += [folder for folder in missing if folder not in made]
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                own.mkdir(exist_ok=True)
                if own.is_symlink():
                    raise FileExistsError
                return made, lock_file.acquire(own / LOCK, self.path, self.what)
            except FileNotFoundError:  # another writer just left the folder, and removed it as nothing came of it
                continue
            except FileExistsError:  # something else is there, or it was removed while we looked
                if _is_blocked(own, follow=False):
                    raise InputError(f"{own}: a link or a file where undrift keeps its own; remove it") from None
                if _is_blocked(self.path, follow=True):
                    raise

    def knows(self, name: str) -> bool:
        """Whether the manifest names this file, whatever became of it since."""
        return name in self._files

    def is_ours(self, name: str) -> bool:
        """Whether undrift wrote the file of this name, and nobody changed it since."""
        known = self._files.get(name, [])
        path = self.path / name
        if not known or not _is_regular(path):
            return False
        return None in known or _identity(path) in known

    def refuse_foreign(self, names: Iterable[str]) -> None:
        """Refuse if one of the names is taken by something that undrift did not write."""
        for name in names:
            if os.path.lexists(self.path / name) and not self.is_ours(name):
                raise InputError(
                    f"{self.path / name}: this is not a file that undrift wrote there, and it would be overwritten; "
                    "move it away, or choose another folder with --out"
                )

    @contextlib.contextmanager
    def new_file(self, name: str, *, durable: bool = True) -> Iterator[Path]:
        """Give a path to write a file at, whose contents appear under its name when they are whole.

        Parameters
        ----------
        name
            Plain name of the file in the folder.
        durable
            Whether the new name must survive a power cut at once; if not, it does with the next durable file.
        """
        self.refuse_foreign([name])
        temporary = self.path / OWN / f"{TEMPORARY}{uuid.uuid4().hex[:8]}-{name}"
        with explain_disk_errors(self.path, self.retry):
            try:
                yield temporary
                store.flush(temporary)
                self._record(name, _identity(temporary), durable)
                if durable and self._unflushed:  # the names before this one first
                    store.flush_folder(self.path)
                os.replace(temporary, self.path / name)
                self._unflushed = not durable
                if durable:
                    store.flush_folder(self.path)
            finally:
                temporary.unlink(missing_ok=True)

    def put(self, name: str, payload: bytes | Iterable[bytes], *, durable: bool = True) -> None:
        """Write a file, whole or not at all."""
        with self.new_file(name, durable=durable) as temporary, temporary.open("xb") as file:
            file.writelines([payload] if isinstance(payload, bytes) else payload)

    def link(self, old: str, new: str, *, durable: bool = True) -> None:
        """Give a file a second name: a hard link, or a copy where the file system has no links."""
        source = regular_file(self.path, old)
        with self.new_file(new, durable=durable) as temporary:
            try:
                os.link(source, temporary)
            except OSError:
                shutil.copyfile(source, temporary)

    def delete(self, name: str) -> None:
        """Delete a file if it is ours."""
        if self.is_ours(name):
            with explain_disk_errors(self.path, self.retry):
                (self.path / name).unlink()

    def claim(self, *names: str) -> None:
        """Take names for files that change in place, such as a database; refuse those that are taken."""
        self.refuse_foreign(names)
        with explain_disk_errors(self.path, self.retry):
            for name in names:
                if None not in self._files.get(name, []):
                    self._record(name, None)

    def adopt(self, *names: str) -> None:
        """Count files that are there as ours, because the caller knows they are."""
        with explain_disk_errors(self.path, self.retry):
            for name in names:
                path = self.path / name
                if self._names.fullmatch(name) and _is_regular(path) and not self.is_ours(name):
                    self._record(name, _identity(path))

    def next_free_name(self, prefix: str, suffix: str, number: int = 0) -> str:
        """Return the first name with this number or a later one that nothing has."""
        while os.path.lexists(self.path / f"{prefix}{number:06d}{suffix}"):
            number += 1
        return f"{prefix}{number:06d}{suffix}"

    def delete_except(self, keep: Collection[str]) -> None:
        """Delete the files of ours that are not to be kept, and what killed writers left."""
        with explain_disk_errors(self.path, self.retry):
            for name in [name for name in self._files if name not in keep]:
                if self.is_ours(name):
                    (self.path / name).unlink()
                del self._files[name]
            self._remove_temporaries()

    def _read_manifest(self) -> None:
        """Read the names that are still there, and forget the others for good."""
        self._files, path = {}, self.path / OWN / MANIFEST
        if not os.path.lexists(path):
            return
        if not _is_regular(path):
            raise InputError(f"{path}: a link or a folder where undrift keeps its own; remove it")
        with open(os.open(path, READ_ONLY), encoding="utf-8", errors="replace") as file:
            for line in file:
                what, name, identity = _parse_line(line)
                if what not in ("", self.what) and _is_plain(name) and os.path.lexists(self.path / name):
                    raise InputError(
                        f"{self.path}: the folder of a {what[:20]}, not of a {self.what}; choose another with --out"
                    )
                if self._names.fullmatch(name) and _is_plain(name):
                    self._remember(name, identity)
        for name in [name for name in self._files if not os.path.lexists(self.path / name)]:
            del self._files[name]
        lines = [_format_line(self.what, name, one) for name, known in self._files.items() for one in known]
        store.replace(path, "".join(lines).encode())

    def _record(self, name: str, identity: Identity, durable: bool = True) -> None:
        """Record a file in the manifest, before the file itself appears."""
        fd = os.open(self.path / OWN / MANIFEST, os.O_WRONLY | os.O_CREAT | os.O_APPEND | lock_file.FLAGS, 0o666)
        try:
            size = os.fstat(fd).st_size
            try:
                line = memoryview(_format_line(self.what, name, identity).encode())
                while line:  # a disk that fills takes a part first and answers with an error only then
                    line = line[os.write(fd, line) :]
                if durable:
                    os.fsync(fd)
            except BaseException:
                os.ftruncate(fd, size)  # no half line, which would spoil the next one
                raise
        finally:
            os.close(fd)
        self._remember(name, identity)

    def _remember(self, name: str, identity: Identity) -> None:
        self._files.setdefault(name, []).append(identity)
        del self._files[name][:-REMEMBERED_IDENTITIES]

    def _remove_temporaries(self) -> None:
        for file in (self.path / OWN).iterdir():
            if file.name.startswith((TEMPORARY, f".{TEMPORARY}", f".{MANIFEST}.")) and not file.is_dir():
                file.unlink(missing_ok=True)


def regular_file(folder: Path, name: object) -> Path:
    """Return the path of a regular file directly inside a folder; refuse every other name."""
    if not isinstance(name, str) or not _is_plain(name):
        raise ModelFileError(
            f"{folder}: {str(name)[:80]!r} is not the name of a file in this folder; it was tampered with"
        )
    path = folder / name
    if not os.path.lexists(path):
        raise ModelFileError(f"{path}: missing; the folder is damaged, start again")
    if not _is_regular(path):
        raise ModelFileError(f"{path}: a link or a folder where a file should be; it is not followed")
    return path


@contextlib.contextmanager
def explain_disk_errors(path: Path, retry: str = "give the same command again") -> Iterator[None]:
    """Turn what a disk may answer into one sentence; `retry` says how to go on once there is room."""
    try:
        yield
    except OSError as error:
        if isinstance(error, UndriftError) or path.name == OWN:  # whoever gave this path away has the better words
            raise
        reason = (error.strerror or str(error)).lower()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UndriftError(f"{path}: the disk is full; make room, then {retry}") from None
        if error.errno == errno.EFBIG:
            raise UndriftError(
                f"{path}: files may not grow so large here (ulimit -f); allow more, then {retry}"
            ) from None
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            raise InputError(
                f"{path}: a file is in the way of the folder ({reason}); choose another with --out"
            ) from None
        raise write_refused(path, reason) from None


def write_refused(path: Path, reason: str) -> InputError:
    """Return the error about a folder that cannot be written; not every command has --out."""
    return InputError(f"{path}: cannot be written ({reason}); make it writable, or choose another folder")


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..", OWN) and not set(name) & set("/\\\0") and ":" not in name


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _is_blocked(path: Path, *, follow: bool) -> bool:
    """Whether something that is not a folder has this path."""
    try:
        return not stat.S_ISDIR(path.stat(follow_symlinks=follow).st_mode)
    except FileNotFoundError:
        return path.is_symlink()  # a link to nothing


def _identity(path: Path) -> tuple[int, str]:
    with open(os.open(path, READ_ONLY), "rb") as file:
        return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()


def _parse_line(line: str) -> tuple[str, str, Identity]:
    """Return what wrote a file, its name and its identity from a line of the manifest; no name if that is damaged."""
    try:
        words = json.loads(line)
        what, name, size, digest = words["what"], words["name"], words["size"], words["sha256"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "", "", None
    if not isinstance(what, str) or not isinstance(name, str):
        return "", "", None
    if size is None and digest is None:
        return what, name, None
    return (what, name, (size, digest)) if isinstance(size, int) and isinstance(digest, str) else ("", "", None)


def _format_line(what: str, name: str, identity: Identity) -> str:
    size, digest = (None, None) if identity is None else identity
    return json.dumps({"what": what, "name": name, "size": size, "sha256": digest}) + "\n"
