"""The valid configurations of a space as a pool. Once listed or drawn, they are cached on disk."""

import contextlib
import io
import logging
import time
import zipfile
from pathlib import Path

import numpy as np

from tuner import paths
from tuner.search.enumeration import enumerated
from tuner.search.pool import Pool
from tuner.space.default import check_launchable
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.version import VERSION

logger = logging.getLogger(__name__)
FORMAT = 3  # of the cached lists
MOST_LISTS = 64  # in the cache
MOST_BYTES = 1 << 25  # of a cached list


def listed(space: Space, scope: Scope) -> Pool:
    """Every valid configuration, or a random sample if they are too many to list.

    Raises NoConfiguration if none is valid or can be launched, and the other errors of `enumerated`.
    """
    check_launchable(space, scope)
    file = _file(space, scope)
    pool = None if file is None else _read(file, space)
    if pool is not None:
        logger.debug("%s: %d valid configurations, from the cache", space.name, len(pool))
        return pool
    began = time.perf_counter()
    pool = enumerated(space, scope)
    logger.debug("%s: %d valid configurations, listed in %.3f s", space.name, len(pool), time.perf_counter() - began)
    if file is not None:
        _store(file, pool)
    return pool


def counted(space: Space, scope: Scope) -> int | None:
    """The number of valid configurations; None if their list is not cached. Raises RequestError as `folder` does."""
    file = _file(space, scope)
    pool = None if file is None else _read(file, space)
    return None if pool is None or pool.is_sample else pool.valid


def _file(space: Space, scope: Scope) -> Path | None:
    """The file of the list; None if a function of Python decides, whose text does not say what it does."""
    if any(restriction.that.is_python for restriction in space.restrictions):
        return None
    return folder() / paths.digest(*_conditions(space, scope))


def folder() -> Path:
    """The folder of the cached lists. Raises RequestError if other users may write to it."""
    return paths.private(paths.cache() / "configurations")


def _conditions(space: Space, scope: Scope) -> list[str]:
    """Everything that determines which configurations are valid, and their order: the cache key."""
    expressions = [*(r.that for r in space.restrictions), *space.derived.values()]
    used = frozenset().union(*(expression.names for expression in expressions))
    return [
        f"{FORMAT} {VERSION}",
        repr(list(space.parameters.items())),
        repr([expression.text for expression in expressions] + list(space.derived)),
        repr(sorted((name, value) for name, value in scope.names.items() if name in used)),
    ]


def _read(file: Path, space: Space) -> Pool | None:
    """The pool in a file; None if it does not exist or is corrupt."""
    with contextlib.suppress(ValueError, EOFError, LookupError, zipfile.BadZipFile):
        if (data := paths.read_checked(file)) is not None:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                rows, valid = arrays["rows"], arrays["valid"]
            if rows.ndim == 2 and rows.shape[1] == len(space.parameters):
                return Pool.of_rows(space.parameters, rows, int(valid[0]) if valid.size else None)
    return None


def _store(file: Path, pool: Pool) -> None:
    """Write the pool unless it exceeds MOST_BYTES, and remove the oldest lists."""
    if pool.rows.nbytes > MOST_BYTES:
        return
    buffer = io.BytesIO()
    valid = np.array([float(pool.valid)] if pool.is_sample else [])  # as a float, because it may exceed 64 bits
    np.savez(buffer, rows=pool.rows, valid=valid)
    with contextlib.suppress(OSError):  # the next run lists them again
        paths.write_checked(file, buffer.getvalue())
        lists = sorted(file.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in lists[MOST_LISTS:]:
            old.unlink(missing_ok=True)
