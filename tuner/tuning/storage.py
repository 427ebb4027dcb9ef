"""Where studies that are shared lie: in a database, or behind Optuna's gRPC proxy, at a URL."""

from __future__ import annotations

import re
import sys
import time
import warnings
from urllib.parse import urlsplit

import optuna
from optuna.storages import BaseStorage

from tuner.errors import RequestError

DATABASES = ("postgresql", "mysql", "sqlite")
_ATTEMPTS = 10
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


def latest(opened: BaseStorage, name: str, fresh: bool) -> str:
    """The name of the latest study that was called `name`, or of one after it if `fresh`: other processes may be at
    work on it, so it is not deleted."""
    names = {study.study_name for study in opened.get_all_studies()}
    found, generation = name, 1
    while found in names:
        later = f"{name} #{generation + 1}"
        if later not in names and not fresh:
            return found
        found, generation = later, generation + 1
    return found
