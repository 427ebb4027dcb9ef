"""A study in a journal file of this machine, which belongs to one process at a time and survives what ends one."""

from __future__ import annotations

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

_LONG_AGO = "2000-01-01T00:00:00.000000+00:00"


def read(path: Path) -> BaseStorage:
    """The storage in the file, as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return JournalStorage(JournalFileBackend(str(path)))


def take(path: Path, problem: str, fresh: bool) -> tuple[BaseStorage, BaseFileLock]:
    """The storage in the file, and the lock that makes it this process's until it is released.

    What is torn is mended; a file that is beyond that, or is to be begun `fresh`, is set aside. Raises RequestError,
    which names `problem`, where another process has it.
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
        Path(f"{path}.lock").unlink(missing_ok=True)  # Optuna's own, of a process that was killed as it wrote
        if fresh or not _is_readable(path):
            _set_aside(path)
        return read(path), lock
    except BaseException:
        lock.release()
        raise


def _is_readable(path: Path) -> bool:
    """Whether the file, without its torn lines, holds a study of ours or nothing."""
    _mend(path)
    try:
        opened = read(path)
        for study in opened.get_all_studies():
            for trial in opened.get_all_trials(study._study_id, deepcopy=False):
                from_optuna(trial)
    except (LookupError, TypeError, ValueError, AssertionError, AttributeError):  # JSON, but not of a study
        return False
    return True


def _set_aside(path: Path) -> None:
    """Keep the file under another name, so that what was measured is not lost."""
    if path.exists():
        aside = (path.with_suffix(f".{i}.log") for i in itertools.count(1))
        path.rename(next(path for path in aside if not path.exists()))


def _mend(path: Path) -> None:
    """Move what a crash or a full disk left torn out of a journal: Optuna can read none of a file with one bad line.

    Each write is one line. The bad ones go to a file beside it that ends in .torn; where the line that names the study
    is among them, the whole file does. Later lines count the trials before them, so in the place of a trial that was
    lost, an empty one is put.
    """
    if not path.exists():
        return
    lock = JournalFileSymlinkLock(str(path))
    lock.acquire()
    try:
        data = path.read_bytes()
        lines = data.splitlines()
        read = [_object(line) for line in lines]
        usable = bool(read) and read[0] is not None
        torn = [line for line, entry in zip(lines, read, strict=True) if entry is None or not usable]
        kept = _counted(
            [(line, entry) for line, entry in zip(lines, read, strict=True) if entry is not None and usable]
        )
        mended = b"".join(line + b"\n" for line in kept)
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


def _counted(lines: list[tuple[bytes, dict[str, Any]]]) -> list[bytes]:
    """The lines, with an empty trial before each that speaks of one more than there are."""
    made: list[bytes] = []
    trials = 0
    for line, entry in lines:
        while isinstance(entry.get("trial_id"), int) and trials <= entry["trial_id"] < len(lines):
            empty = {
                "op_code": JournalOperation.CREATE_TRIAL,
                "worker_id": "",
                "study_id": 0,
                "datetime_start": _LONG_AGO,
            }
            made.append(json.dumps(empty).encode())
            trials += 1
        trials += entry.get("op_code") == JournalOperation.CREATE_TRIAL
        made.append(line)
    return made
