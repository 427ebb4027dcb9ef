"""Where studies lie: a journal file on this machine, or a database or Optuna's gRPC proxy at a URL."""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.storages.journal._storage import JournalOperation

from tuner import paths
from tuner.errors import RequestError

DATABASES = ("postgresql", "mysql", "sqlite")
_ATTEMPTS = 10
_LONG_AGO = "2000-01-01T00:00:00.000000+00:00"
EXAMPLES = "postgresql+psycopg://user@host/name, mysql+pymysql://user@host/name, sqlite:///file.db, grpc://host:13000"


def at(url: str) -> BaseStorage:
    """The storage at `url`. Raises RequestError for a URL of another kind, or where a package for it is missing; what
    is wrong with the storage itself is one of `errors()`."""
    scheme = url.partition(":")[0]
    kind = scheme.partition("+")[0]
    if kind == "sqlite" and (url.rstrip("/").endswith(":") or ":memory:" in url):
        raise RequestError(f"--storage {url!r}: a database in memory ends with the process; write sqlite:///file.db")
    if kind not in (*DATABASES, "grpc"):
        raise RequestError(f"--storage {shown(url)!r}: there is no such storage; write a URL such as {EXAMPLES}")
    try:
        if kind == "grpc":
            host = urlsplit(url)
            if host.hostname is None or host.port is None:
                raise RequestError(f"--storage {shown(url)!r}: write grpc://host:port")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                return optuna.storages.GrpcStorageProxy(host=host.hostname, port=host.port)
        return _database(url)
    except ImportError:
        package = "grpcio" if kind == "grpc" else scheme.partition("+")[2] or "its driver"
        raise RequestError(f"--storage {shown(url)}: pip install {package}, which speaks to it") from None
    except (ValueError, RuntimeError) as error:  # no URL; or a database of another version of Optuna
        raise RequestError(f"--storage {shown(url)}: {error}; write a URL such as {EXAMPLES}") from None


def _database(url: str) -> BaseStorage:
    """The storage in a database, made if need be; where another process is making it too, once that is done."""
    for attempt in range(_ATTEMPTS):
        try:
            return optuna.storages.get_storage(url)
        except errors() as error:
            making = type(error).__name__ == "IntegrityError" or "already exists" in str(error)
            if not making or attempt + 1 == _ATTEMPTS:
                raise
            time.sleep(0.5)
    raise AssertionError


def shown(url: str) -> str:
    """`url` without a password."""
    return re.sub(r"(//[^/@:]*):[^/@]*@", r"\1:***@", url)


def errors() -> tuple[type[Exception], ...]:
    """What a storage raises where it cannot be read or written."""
    found: list[type[Exception]] = [OSError, optuna.exceptions.StorageInternalError]
    for module, name in (("sqlalchemy.exc", "SQLAlchemyError"), ("grpc", "RpcError")):
        if module in sys.modules:
            found.append(getattr(sys.modules[module], name))
    return tuple(found)


def reason(error: Exception) -> str:
    """What one of `errors()` says, in a line."""
    details = getattr(error, "details", None)  # of gRPC, whose text is a dump
    text = (isinstance(error, OSError) and error.strerror) or (details() if callable(details) else str(error))
    return str(text).strip().partition("\n")[0]


def in_file(path: Path) -> BaseStorage:
    """The storage in a journal file of Optuna's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return JournalStorage(JournalFileBackend(str(path)))


def mend(path: Path) -> None:
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
