"""The storage of a shared study at a URL: a database, or Optuna's gRPC proxy."""

import sys
import time
import warnings
from collections.abc import Sequence
from urllib.parse import urlsplit

import optuna
from optuna.storages import BaseStorage

from tuner.errors import OptionError, RequestError
from tuner.tuning.ledger.address import DATABASES, EXAMPLES, kind, masked, scrubbed

_ATTEMPTS = 10

GENERATION = " #"  # in the name of a study that --fresh began, before its number


def at(url: str) -> BaseStorage:
    """The storage at `url`.

    Raises OptionError if the URL has an unknown kind or a package for it is missing, and one of `errors()` if the
    storage itself fails.
    """
    where = f"{masked(url)!r}"
    if kind(url) == "sqlite" and (url.rstrip("/").endswith(":") or ":memory:" in url):
        raise OptionError(f"{where}: a database in memory ends with the process; write sqlite:///file.db", "storage")
    if kind(url) not in (*DATABASES, "grpc"):
        raise OptionError(f"{where}: unknown kind of storage; write a URL such as {EXAMPLES}", "storage")
    try:
        return _proxy(url) if kind(url) == "grpc" else _database(url)
    except ImportError:
        package = "grpcio" if kind(url) == "grpc" else url.partition(":")[0].partition("+")[2] or "its driver"
        raise OptionError(f"{where}: a Python package is missing; run pip install {package}", "storage") from None
    except (ValueError, RuntimeError) as error:  # not a URL, or a database of another version of Optuna
        raise OptionError(f"{where}: {reason(error, url)}; write a URL such as {EXAMPLES}", "storage") from None


def _proxy(url: str) -> BaseStorage:
    """Optuna's gRPC proxy."""
    host = urlsplit(url)
    if host.hostname is None or host.port is None:
        raise OptionError(f"{masked(url)!r}: write grpc://host:port", "storage")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.storages.GrpcStorageProxy(host=host.hostname, port=host.port)


def _database(url: str) -> BaseStorage:
    """The storage in a database, with its tables created if necessary.

    Waits while another process creates them, and while the server starts.
    """
    import sqlalchemy

    from tuner.tuning.ledger.database import Database

    if "@" in (sqlalchemy.make_url(url).host or ""):
        raise OptionError(f"{masked(url)!r}: the host contains an @; write an @ in a password as %40", "storage")
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
    """The exceptions that mean that a storage cannot be read or written."""
    kinds: list[type[Exception]] = [OSError, optuna.exceptions.StorageInternalError]
    for module, name in (("sqlalchemy.exc", "SQLAlchemyError"), ("grpc", "RpcError")):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return tuple(kinds)


def _cause(error: BaseException) -> BaseException:
    """The original error behind Optuna's, which blames invalid data, or behind SQLAlchemy's of a second attempt."""
    if isinstance(error, optuna.exceptions.StorageInternalError) and error.__cause__ is not None:
        return _cause(error.__cause__)
    if type(error).__name__ == "PendingRollbackError" and error.__context__ is not None:
        return _cause(error.__context__)
    return error


def check(error: Exception, handled: BaseException | None) -> None:
    """Raise `error` again unless it is one of `errors`, or the interrupt that it hides: if one comes while Optuna takes
    or gives back the lock of a file, Optuna fails to give back what it does not have. `handled` is what was being
    handled before."""
    cause = error.__context__
    while cause is not None and cause is not handled:
        if not isinstance(cause, Exception):
            raise cause from None
        cause = cause.__context__
    if not isinstance(error, errors()):
        raise error


def may_pass(error: Exception) -> bool:
    """Whether an error may be temporary: a restarting server, a broken connection, or a lock that is held."""
    cause = _cause(error)
    kinds = [type_.__name__ for type_ in type(cause).__mro__]
    if "RpcError" in kinds:
        return "UNAVAILABLE" in str(cause)
    if "sqlite3" in str(cause):
        return "locked" in str(cause)
    return not {"OperationalError", "InterfaceError", "PendingRollbackError"}.isdisjoint(kinds)


def reason(error: Exception, url: str) -> str:
    """The message of an error of the storage at `url`, on one line and without passwords."""
    cause = _cause(error)
    cause = getattr(cause, "orig", None) or cause  # the driver's error; SQLAlchemy's text contains the SQL statement
    details = getattr(cause, "details", None)  # a method of gRPC errors, whose str() is a dump
    text = (isinstance(cause, OSError) and cause.strerror) or (details() if callable(details) else str(cause))
    return scrubbed(str(text).strip().partition("\n")[0], url)


def unusable(error: Exception, where: str, advice: str) -> RequestError:
    """The error that ends a run, because the ledger at the URL or path `where` failed for good."""
    return RequestError(f"{masked(where)}: the ledger cannot be used: {reason(error, where)}; {advice}")


def latest(storage: BaseStorage, candidates: Sequence[str], fresh: bool) -> str:
    """The name of the latest generation of the first of `candidates` that exists, or of a new generation if `fresh`.

    Older generations stay, because other processes may still use them.
    """
    names = {study.study_name for study in storage.get_all_studies()}
    generations = [next((name for name in candidates if name in names), candidates[0])]
    while generations[-1] in names:
        generations.append(f"{generations[0]}{GENERATION}{len(generations) + 1}")
    return generations[-1] if fresh or len(generations) == 1 else generations[-2]
