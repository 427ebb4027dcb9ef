"""The valid configurations of a space as a pool, cached on disk once enumerated."""

import contextlib
import importlib.metadata
import io
import logging
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuner import paths
from tuner.search.pool import Pool
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.version import VERSION

logger = logging.getLogger(__name__)
MOST_LISTS = 64  # in the cache
MOST_BYTES = 1 << 25  # of a cached list


def listed(space: Space, scope: Scope) -> Pool:
    """Every valid configuration. Raises the errors of `enumerate_space`."""
    file = _file(space, scope)
    rows = _read(file, space)
    if rows is not None:
        logger.debug("%s: %d valid configurations, from the cache", space.name, len(rows))
        return Pool.of_rows(space.parameters, rows)
    from tuner.search.enumeration import enumerate_space  # Kernel Tuner takes long to import

    began = time.perf_counter()
    pool = Pool(space.parameters, enumerate_space(space, scope).list)
    logger.debug("%s: %d valid configurations, listed in %.3f s", space.name, len(pool), time.perf_counter() - began)
    _store(file, pool.rows)
    return pool


def counted(space: Space, scope: Scope) -> int | None:
    """The number of valid configurations; None if their list is not cached. Raises RequestError as `folder` does."""
    rows = _read(_file(space, scope), space)
    return None if rows is None else len(rows)


def is_likely_cached(space: Space) -> bool:
    """Whether the cache has a list of this space, at whatever size."""
    return any(folder().glob(f"{_beginning(space)}*"))


def _file(space: Space, scope: Scope) -> Path:
    return folder() / f"{_beginning(space)}{paths.digest(*_conditions(space, scope))}"


def folder() -> Path:
    """The folder of the cached lists. Raises RequestError if other users may write to it."""
    return paths.private(paths.cache() / "configurations")


def _beginning(space: Space) -> str:
    return f"{paths.digest(space.name)[:16]}-"


def _conditions(space: Space, scope: Scope) -> list[str]:
    """Everything that determines which configurations are valid, and their order: the cache key."""
    expressions = [*(r.that for r in space.restrictions), *space.derived.values()]
    used = frozenset().union(*(expression.names for expression in expressions))
    return [
        f"{VERSION} {importlib.metadata.version('kernel_tuner')}",
        repr(list(space.parameters.items())),
        repr([expression.text for expression in expressions] + list(space.derived)),
        repr(sorted((name, value) for name, value in scope.names.items() if name in used)),
    ]


def _read(file: Path, space: Space) -> NDArray[np.integer] | None:
    """The rows in a file; None if it does not exist or is corrupt."""
    with contextlib.suppress(ValueError, EOFError):
        if (data := paths.read_checked(file)) is not None:
            rows: NDArray[np.integer] = np.load(io.BytesIO(data), allow_pickle=False)
            if rows.ndim == 2 and rows.shape[1] == len(space.parameters):
                return rows
    return None


def _store(file: Path, rows: NDArray[np.integer]) -> None:
    """Write the rows unless they exceed MOST_BYTES, and remove the oldest lists."""
    if rows.nbytes > MOST_BYTES:
        return
    buffer = io.BytesIO()
    np.save(buffer, rows)
    with contextlib.suppress(OSError):  # the next run lists them again
        paths.write_checked(file, buffer.getvalue())
        lists = sorted(file.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in lists[MOST_LISTS:]:
            old.unlink(missing_ok=True)
