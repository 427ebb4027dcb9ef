"""The study in a journal file: one process at a time owns the file, which survives the sudden end of that process."""

import io
import itertools
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import optuna
from filelock import BaseFileLock, Timeout
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import BaseJournalBackend, JournalFileBackend, JournalFileSymlinkLock

from tuner import paths
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.store import locks
from tuner.tuning.ledger.journal_lines import Form, Lines


class _Copy(BaseJournalBackend):
    """A read-only backend of the readable lines of a journal."""

    def __init__(self, lines: Lines) -> None:
        self._entries = lines.entries

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        return self._entries[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        raise io.UnsupportedOperation("this journal is read only")


def read(path: Path) -> BaseStorage:
    """A read-only storage of the readable lines of a file, which is not changed."""
    return _storage(_Copy(Lines(path.read_bytes())))


def _storage(backend: BaseJournalBackend) -> BaseStorage:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return JournalStorage(backend)


def take(path: Path, problem: str, form: Form, fresh: bool) -> tuple[BaseStorage, BaseFileLock, str | None]:
    """The storage in the file, the lock by which this process owns it, and a message for the user, or None.

    Unreadable lines are moved to a file beside it that ends in .torn. `fresh` renames the file and starts a new one.
    Raises RequestError, which names `problem`, if another process owns the file.
    """
    paths.private(path.parent)
    lock = locks.of(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RequestError(
            f"{problem} is being tuned by another process; wait for it, stop it, or let both share a database with "
            "--storage"
        ) from None
    try:
        Path(f"{path}.lock").unlink(missing_ok=True)  # Optuna's lock, left by a process that was killed while writing
        if fresh:
            _set_aside(path)
        note = _mend(path, form)
        return _storage(JournalFileBackend(str(path))), lock, note
    except BaseException:
        lock.release()
        raise


def _set_aside(path: Path) -> None:
    """Rename the file, so that its trials are not lost."""
    if path.exists():
        names = (path.with_suffix(f".{i}.log") for i in itertools.count(1))
        path.rename(next(name for name in names if not name.exists()))


def _mend(path: Path, form: Form) -> str | None:
    """Move unreadable lines out of a journal, because Optuna rejects a file with such a line.

    They result from a crash, a full disk, or another program. Returns a message for the user, or None.
    """
    if not path.exists():
        return None
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    try:
        data = path.read_bytes()
        lines = Lines(data, form)
        if lines.data == data:
            return None
        torn = path.with_suffix(".torn")
        if lines.torn:
            with torn.open("ab") as file:
                file.writelines(line + b"\n" for line in lines.torn)
        paths.replace(path, lines.data)
    finally:
        lock.release()
    if not lines.torn:
        return None
    return (
        f"{shown(path)}: {len(lines.torn)} of its lines cannot be read; they are now in {torn.name}, and their "
        "trials are measured again"
    )
