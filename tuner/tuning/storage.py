"""Storages of shared studies, at a URL: a database, or Optuna's gRPC proxy."""

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
    """The storage at `url`.

    Raises RequestError for a URL of another kind, or where a package for it is missing, and one of `errors()` where the
    storage itself fails.
    """
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
        raise RequestError(f"--storage {shown(url)}: pip install {package} to use it") from None
    except (ValueError, RuntimeError) as error:  # not a URL, or a database of another version of Optuna
        raise RequestError(f"--storage {shown(url)}: {error}; write a URL such as {EXAMPLES}") from None


def _database(url: str) -> BaseStorage:
    """The storage in a database, whose tables are created if need be. Waits while another process creates them."""
    for attempt in range(_ATTEMPTS):
        try:
            return optuna.storages.get_storage(url)
        except errors() as error:
            creating = type(error).__name__ == "IntegrityError" or "already exists" in str(error)
            if not creating or attempt + 1 == _ATTEMPTS:
                raise
            time.sleep(0.5)
    raise AssertionError


def shown(url: str) -> str:
    """`url` without a password."""
    return re.sub(r"(//[^/@:]*):[^/@]*@", r"\1:***@", url)


def errors() -> tuple[type[Exception], ...]:
    """The errors of a storage that cannot be read or written."""
    kinds: list[type[Exception]] = [OSError, optuna.exceptions.StorageInternalError]
    for module, name in (("sqlalchemy.exc", "SQLAlchemyError"), ("grpc", "RpcError")):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return tuple(kinds)


def reason(error: Exception) -> str:
    """The message of one of `errors()`, in one line."""
    details = getattr(error, "details", None)  # gRPC's method; the error's own text is a dump
    text = (isinstance(error, OSError) and error.strerror) or (details() if callable(details) else str(error))
    return str(text).strip().partition("\n")[0]


def latest(storage: BaseStorage, name: str, fresh: bool) -> str:
    """The name of the latest generation of the study called `name`, or of a new one if `fresh`.

    The old ones stay, because other processes may be at work on them.
    """
    names = {study.study_name for study in storage.get_all_studies()}
    generations = [name]
    while generations[-1] in names:
        generations.append(f"{name} #{len(generations) + 1}")
    return generations[-1] if fresh or len(generations) == 1 else generations[-2]
