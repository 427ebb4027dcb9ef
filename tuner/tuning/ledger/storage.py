"""Storages of shared studies, at a URL: a database, or Optuna's gRPC proxy."""

import sys
import time
import warnings
from collections.abc import Sequence
from urllib.parse import urlsplit

import optuna
from optuna.storages import BaseStorage

from tuner.errors import RequestError
from tuner.tuning.ledger.address import DATABASES, EXAMPLES, kind, masked, scrubbed

_ATTEMPTS = 10


def at(url: str) -> BaseStorage:
    """The storage at `url`.

    Raises RequestError for a URL of another kind, or where a package for it is missing, and one of `errors()` where the
    storage itself fails.
    """
    where = f"--storage {masked(url)!r}"
    if kind(url) == "sqlite" and (url.rstrip("/").endswith(":") or ":memory:" in url):
        raise RequestError(f"{where}: a database in memory ends with the process; write sqlite:///file.db")
    if kind(url) not in (*DATABASES, "grpc"):
        raise RequestError(f"{where}: there is no such storage; write a URL such as {EXAMPLES}")
    try:
        return _proxy(url) if kind(url) == "grpc" else _database(url)
    except ImportError:
        package = "grpcio" if kind(url) == "grpc" else url.partition(":")[0].partition("+")[2] or "its driver"
        raise RequestError(f"{where}: pip install {package} to use it") from None
    except (ValueError, RuntimeError) as error:  # not a URL, or a database of another version of Optuna
        raise RequestError(f"{where}: {reason(error, url)}; write a URL such as {EXAMPLES}") from None


def _proxy(url: str) -> BaseStorage:
    """Optuna's gRPC proxy."""
    host = urlsplit(url)
    if host.hostname is None or host.port is None:
        raise RequestError(f"--storage {masked(url)!r}: write grpc://host:port")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.storages.GrpcStorageProxy(host=host.hostname, port=host.port)


def _database(url: str) -> BaseStorage:
    """The storage in a database, whose tables are created if need be. Waits while another process creates them, and
    while the server starts."""
    import sqlalchemy

    from tuner.tuning.ledger.database import Database

    if "@" in (sqlalchemy.make_url(url).host or ""):
        raise RequestError(f"--storage {masked(url)!r}: write an @ in a password as %40")
    for attempt in range(_ATTEMPTS):
        try:
            return optuna.storages.get_storage(Database(url))
        except errors() as error:
            creating = type(error).__name__ == "IntegrityError" or "already exists" in str(error)
            starting = "is starting up" in str(error) or "is shutting down" in str(error)
            if not (creating or starting) or attempt + 1 == _ATTEMPTS:
                raise
            time.sleep(0.5)
    raise AssertionError


def errors() -> tuple[type[Exception], ...]:
    """The errors of a storage that cannot be read or written."""
    kinds: list[type[Exception]] = [OSError, optuna.exceptions.StorageInternalError]
    for module, name in (("sqlalchemy.exc", "SQLAlchemyError"), ("grpc", "RpcError")):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return tuple(kinds)


def _cause(error: BaseException) -> BaseException:
    """What is behind Optuna's error, which blames invalid data, and behind SQLAlchemy's of a second attempt."""
    if isinstance(error, optuna.exceptions.StorageInternalError) and error.__cause__ is not None:
        return _cause(error.__cause__)
    if type(error).__name__ == "PendingRollbackError" and error.__context__ is not None:
        return _cause(error.__context__)
    return error


def may_pass(error: Exception) -> bool:
    """Whether one of `errors()` comes of a server that restarts, a connection that is cut, or a lock that is held."""
    cause = _cause(error)
    kinds = [type_.__name__ for type_ in type(cause).__mro__]
    if "RpcError" in kinds:
        return "UNAVAILABLE" in str(cause)
    if "sqlite3" in str(cause):
        return "locked" in str(cause)
    return not {"OperationalError", "InterfaceError", "PendingRollbackError"}.isdisjoint(kinds)


def reason(error: Exception, url: str) -> str:
    """The message of one of `errors()` of the storage at `url`, in one line and without a password."""
    cause = _cause(error)
    cause = getattr(cause, "orig", None) or cause  # a driver's own error; SQLAlchemy's has the statement too
    details = getattr(cause, "details", None)  # gRPC's method; the error's own text is a dump
    text = (isinstance(cause, OSError) and cause.strerror) or (details() if callable(details) else str(cause))
    return scrubbed(str(text).strip().partition("\n")[0], url)


def unusable(error: Exception, where: str, advice: str) -> RequestError:
    """What ends a run where the ledger at the URL or path `where` fails for good."""
    return RequestError(f"{masked(where)}: the ledger cannot be used: {reason(error, where)}; {advice}")


def latest(storage: BaseStorage, candidates: Sequence[str], fresh: bool) -> str:
    """The name of the latest generation of the first of these studies that there is, or of a new one if `fresh`.

    The old ones stay, because other processes may be at work on them.
    """
    names = {study.study_name for study in storage.get_all_studies()}
    generations = [next((name for name in candidates if name in names), candidates[0])]
    while generations[-1] in names:
        generations.append(f"{generations[0]} #{len(generations) + 1}")
    return generations[-1] if fresh or len(generations) == 1 else generations[-2]
