"""A study in a journal file of this machine. The file belongs to one process at a time and survives its sudden end."""

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import optuna
from filelock import BaseFileLock, Timeout
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.storages.journal._storage import JournalOperation

from tuner import paths
from tuner.errors import RequestError
from tuner.store import locks
from tuner.tuning.trial import from_optuna

_EMPTY_TRIAL = json.dumps({
    "op_code": JournalOperation.CREATE_TRIAL,
    "worker_id": "",
    "study_id": 0,
    "datetime_start": "2000-01-01T00:00:00.000000+00:00",
}).encode()  # fmt: skip


def read(path: Path) -> BaseStorage:
    """The storage in the file, as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return JournalStorage(JournalFileBackend(str(path)))


def take(path: Path, problem: str, fresh: bool) -> tuple[BaseStorage, BaseFileLock]:
    """The storage in the file, and the lock that keeps it to this process until it is released.

    Torn lines are mended. A file that cannot be mended is set aside, as is any file if `fresh`. Raises RequestError,
    which names `problem`, where another process has the file.
    """
    paths.private(path.parent)
    lock = locks.of(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RequestError(
            f"{problem} is being tuned by another process; wait for it, stop it, or let both share a database by "
            "--storage"
        ) from None
    try:
        Path(f"{path}.lock").unlink(missing_ok=True)  # Optuna's own, left by a process that was killed as it wrote
        if fresh or not _is_readable(path):
            _set_aside(path)
        return read(path), lock
    except BaseException:
        lock.release()
        raise


def _is_readable(path: Path) -> bool:
    """Whether the file, once mended, holds one of our studies or nothing."""
    _mend(path)
    try:
        storage = read(path)
        for study in storage.get_all_studies():
            for trial in storage.get_all_trials(study._study_id, deepcopy=False):
                from_optuna(trial)
    except (LookupError, TypeError, ValueError, AssertionError, AttributeError):  # JSON, but not of a study
        return False
    return True


def _set_aside(path: Path) -> None:
    """Rename the file, so that its measurements are not lost."""
    if path.exists():
        names = (path.with_suffix(f".{i}.log") for i in itertools.count(1))
        path.rename(next(name for name in names if not name.exists()))


def _mend(path: Path) -> None:
    """Move the torn lines of a crash or a full disk out of a journal: Optuna reads no file that has a bad line.

    Each write is one line. Torn ones move to a file beside it that ends in .torn. Where the first line, which names the
    study, is torn, all lines move.
    """
    if not path.exists():
        return
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    try:
        data = path.read_bytes()
        lines = data.splitlines()
        entries = [_object(line) for line in lines]
        if entries and entries[0] is None:
            entries = [None] * len(lines)
        torn = [line for line, entry in zip(lines, entries, strict=True) if entry is None]
        whole = [(line, entry) for line, entry in zip(lines, entries, strict=True) if entry is not None]
        mended = b"".join(line + b"\n" for line in _fill_gaps(whole))
        if mended == data:
            return
        if torn:
            with path.with_suffix(".torn").open("ab") as file:
                file.writelines(line + b"\n" for line in torn)
        paths.replace(path, mended)
    finally:
        lock.release()


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _fill_gaps(lines: list[tuple[bytes, dict[str, Any]]]) -> list[bytes]:
    """The lines, with an empty trial in the place of each that was lost: later lines count the trials before them."""
    filled: list[bytes] = []
    trials = 0
    for line, entry in lines:
        while isinstance(entry.get("trial_id"), int) and trials <= entry["trial_id"] < len(lines):
            filled.append(_EMPTY_TRIAL)
            trials += 1
        trials += entry.get("op_code") == JournalOperation.CREATE_TRIAL
        filled.append(line)
    return filled
