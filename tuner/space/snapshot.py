"""The files that spaces name. During a run, every later read returns what the first one returned.

Whatever reads such a file reads it here: kernel sources, headers, `.npy` files, Python files and space files. In a
block of `kept`, the bytes that were read first are given again at each later read, also in the child processes that
adopt them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import shown

T = TypeVar("T")
Stamp = tuple[int, int, int]  # inode, modification time in ns, bytes
CHUNK = 1 << 20  # bytes
MOST_BYTES = 40_000_000  # of a file that is kept in memory: 10 million characters, each of up to 4 bytes
MOST_NAMED = 4  # changed files in a message


@dataclass(frozen=True)
class _File:
    """A file as it was read first.

    stamp: from before it was read; None if it is not a regular file.
    real: its path without links.
    data: its bytes; None if they are in `copy`.
    copy: the path of an unnamed temporary copy, which every process of the run can open.
    digest: the SHA-256 of its bytes.
    """

    stamp: Stamp | None
    real: str
    data: bytes | None
    copy: str | None
    digest: str


class _Snapshot:
    """The files that a run has read, by path; None for one that was looked up and did not exist."""

    def __init__(self, files: dict[str, _File | None]) -> None:
        self.files = files
        self.users = 0
        self.values: dict[object, Any] = {}  # what was derived from files: see `once`
        self.reading = threading.RLock()
        self._copies: list[BinaryIO] = []
        self._by_place = dict[str, _File]()  # by path without links: a file may be reached by several paths
        self._said = set[str]()

    def look_up(self, path: Path) -> _File | None:
        """The file, which is read now unless it has been looked up before; None if it is no regular file.

        Raises OSError if it cannot be read.
        """
        with self.reading:
            if str(path) not in self.files and stamp_on_disk(path) is None:
                self.files[str(path)] = None
            return self.files[str(path)] if str(path) in self.files else self._taken(path, _in_memory)

    def read(self, path: Path) -> bytes:
        """The bytes of the file, up to MOST_BYTES. Raises OSError if it cannot be read."""
        with self.reading:
            file = self.files.get(str(path)) or self._taken(path, _in_memory)
            return Path(file.copy).read_bytes() if file.copy is not None else file.data or b""

    def copied(self, path: Path) -> _File:
        """The file, of which an unnamed temporary copy is made unless it has been read before.

        Raises OSError if it cannot be read, and RequestError if there is no room for the copy.
        """
        with self.reading:
            return self.files.get(str(path)) or self._taken(path, self._copied)

    def _taken(self, path: Path, take: Callable[[Path], _File]) -> _File:
        """The file as `take` reads it, unless it has been read by another path."""
        if str(path) in self.files and stamp_on_disk(path) is not None:  # it did not exist when it was looked up
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        place = os.path.realpath(path)
        if place not in self._by_place:
            self._by_place[place] = take(path)
        file = self.files[str(path)] = self._by_place[place]
        return file

    def _copied(self, path: Path) -> _File:
        stamp, contents = stamp_on_disk(path), hashlib.sha256()
        with path.open("rb") as original, contextlib.ExitStack() as unfinished:
            copy = unfinished.enter_context(_temporary_file(path))
            while chunk := original.read(CHUNK):
                contents.update(chunk)
                _write(copy, chunk, path)
            unfinished.pop_all()
            self._copies.append(copy)
        place = f"/proc/{os.getpid()}/fd/{copy.fileno()}"  # also for workers that start later
        return _File(stamp, os.path.realpath(path), None, place, contents.hexdigest())

    def changed(self) -> list[str]:
        """The files that are no longer as they were read, each once."""
        changed = dict[str, str]()  # by path without links: the path that was looked up
        with self.reading:
            for path, file in self.files.items():
                if _has_changed(path, file):
                    changed.setdefault(file.real if file else path, path)
        news = [path for place, path in changed.items() if place not in self._said]
        self._said.update(changed)
        return news

    def close(self) -> None:
        """Release the copies."""
        for copy in self._copies:
            copy.close()


_snapshot: _Snapshot | None = None
_entering = threading.Lock()


@contextlib.contextmanager
def kept(noted: Callable[[str], None]) -> Iterator[None]:
    """A block in which each file is read from disk once. At its end `noted` is told which files have changed since.

    A block inside another one, or beside it in another thread, uses the files of the first.
    """
    global _snapshot
    with _entering:
        snapshot = _snapshot = _snapshot or _Snapshot({})
        snapshot.users += 1
    try:
        yield
    finally:
        tell_changes(noted)
        with _entering:
            snapshot.users -= 1
            if not snapshot.users:
                snapshot.close()
                _snapshot = None


def tell_changes(noted: Callable[[str], None]) -> None:
    """Tell `noted` which files have changed since they were read, once; nothing outside a block of `kept`."""
    if _snapshot is not None and (changed := _snapshot.changed()):
        more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        noted(
            f"warning: changed on disk during this run: {', '.join(map(shown, changed[:MOST_NAMED]))}{more}; this run "
            "uses what it read at its start, the next run what is there now"
        )


def is_kept() -> bool:
    """Whether files are read once only."""
    return _snapshot is not None


def once(key: object, make: Callable[[], T]) -> T:
    """What `make` returns; in a block of `kept` it is called once for each `key`."""
    if _snapshot is None:
        return make()
    with _snapshot.reading:
        if key not in _snapshot.values:
            _snapshot.values[key] = make()
        value: T = _snapshot.values[key]
        return value


def read(path: Path) -> bytes:
    """The bytes of a file, up to MOST_BYTES + 1. Raises OSError if it cannot be read."""
    return _bytes_on_disk(path) if _snapshot is None else _snapshot.read(path)


def read_text(path: Path, most: int, errors: str = "strict", encoding: str = "utf-8") -> str:
    """The text of a file of at most `most` characters.

    Raises OSError, UnicodeDecodeError, or RequestError if the file is longer.
    """
    data = read(path)
    text = io.TextIOWrapper(io.BytesIO(data), encoding=encoding, errors=errors).read()
    if len(text) > most:
        size = (stamp(path) or (0, 0, len(data)))[2]
        raise RequestError(f"{shown(path)}: {size} bytes; at most {most:,} characters are allowed")
    return text


def stamp(path: Path) -> Stamp | None:
    """What tells one content of a regular file from another; None if there is no such file."""
    if _snapshot is None:
        return stamp_on_disk(path)
    try:
        file = _snapshot.look_up(path)
    except OSError:
        return stamp_on_disk(path)
    return None if file is None else file.stamp


def stamp_on_disk(path: Path) -> Stamp | None:
    """The stamp of a regular file as it is now; None if there is no such file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_ino, status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def real(path: Path) -> Path:
    """The path without links."""
    file = None if _snapshot is None else _snapshot.files.get(str(path))
    return path.resolve() if file is None else Path(file.real)


def has(path: Path) -> bool:
    """Whether the bytes of a file are kept."""
    return _snapshot is not None and _snapshot.files.get(str(path)) is not None


def digest(path: Path) -> str:
    """The SHA-256 of a file, as 64 hexadecimal digits. If it is kept, its bytes are from now on in a copy.

    Raises OSError if it cannot be read.
    """
    if _snapshot is not None:
        return _snapshot.copied(path).digest
    return _digest_on_disk(path)


def place(path: Path) -> Path:
    """Where the bytes of a file can be opened: in its copy if there is one, else where it is."""
    file = None if _snapshot is None else _snapshot.files.get(str(path))
    return path if file is None or file.copy is None else Path(file.copy)


def to_json() -> dict[str, Any] | None:
    """The files that are kept, as JSON data for `adopt`; None outside a block of `kept`."""
    if _snapshot is None:
        return None
    with _snapshot.reading:
        return {path: file and _to_json(file) for path, file in _snapshot.files.items()}


def adopt(data: Mapping[str, Any] | None) -> None:
    """In a child process: from now on, read the files that `to_json` returned in the parent."""
    global _snapshot
    files = None if data is None else {path: file and _from_json(file) for path, file in data.items()}
    _snapshot = None if files is None else _Snapshot(files)


def _bytes_on_disk(path: Path) -> bytes:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        is_small = stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES
        return file.read() if is_small else file.read(MOST_BYTES + 1)  # which reserves that much at once


def _digest_on_disk(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _in_memory(path: Path) -> _File:
    stamp = stamp_on_disk(path)  # before reading, so that a change meanwhile is noticed
    data = _bytes_on_disk(path)
    return _File(stamp, os.path.realpath(path), data, None, hashlib.sha256(data).hexdigest())


def _to_json(file: _File) -> dict[str, Any]:
    data = None if file.data is None else file.data.decode("utf-8", "surrogateescape")
    return {"stamp": file.stamp, "real": file.real, "data": data, "copy": file.copy, "digest": file.digest}


def _from_json(file: Mapping[str, Any]) -> _File:
    data, stamp = file["data"], file["stamp"]
    encoded = None if data is None else data.encode("utf-8", "surrogateescape")
    return _File(stamp and tuple(stamp), file["real"], encoded, file["copy"], file["digest"])


def _temporary_file(path: Path) -> BinaryIO:
    """An unnamed file for a copy of `path`, which disappears with this process. Raises RequestError."""
    import tempfile  # slow to import, and launches do not need it

    try:
        return tempfile.TemporaryFile(prefix="tuner-", buffering=0)
    except OSError as error:
        raise _no_copy(path, error) from None


def _write(copy: BinaryIO, chunk: bytes, path: Path) -> None:
    try:
        while chunk:
            chunk = chunk[copy.write(chunk) :]
    except OSError as error:
        raise _no_copy(path, error) from None


def _no_copy(path: Path, error: OSError) -> RequestError:
    import tempfile

    return RequestError(
        f"{tempfile.gettempdir()}: a copy of {shown(path)}, which this run needs, cannot be written: {error.strerror}; "
        "free some space, or set TMPDIR to another folder"
    )


def _has_changed(path: str, file: _File | None) -> bool:
    """Whether a file has another content than `file`, or exists although it did not, or the other way round."""
    stamp = stamp_on_disk(Path(path))
    if file is None or stamp is None:
        return (file is None or file.stamp is None) != (stamp is None)
    if stamp == file.stamp:
        return False
    try:
        return _digest_on_disk(Path(path)) != file.digest
    except OSError:
        return True
