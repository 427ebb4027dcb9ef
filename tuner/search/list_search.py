"""`ListSearch`: the default strategy as ask and tell over a list of configurations, for any tuner's own loop."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence

from tuner.quoting import shown
from tuner.search.pool import Pool
from tuner.search.pool_gp import PoolGP
from tuner.space.config import Config, Value


class ListSearch:
    """Ask which configuration of a list to try next, and tell what it took.

    The caller compiles, verifies and measures, in whatever language, and keeps its own budget. Any number of
    configurations may be in progress at a time, and results may be told in any order, from any thread. No configuration
    is asked for twice. A Gaussian process models the results; the next configuration has the largest expected
    improvement: see `tuner.search.pool_gp.PoolGP` for the algorithm and its sources.

    Args:
        configurations: The valid configurations, each a value for each parameter, by its name. All have the same
            parameters, and none occurs twice.
        seed: A random seed. Default: None, a different search each time.
        first: Configurations to try first, in this order, such as the one in use today, or the best of another device.
            Those that are not in the list are left out.
        block: Names of the parameters whose product is the number of threads per block, which the model then uses as a
            further feature. Default: none.

    Raises ValueError for an empty or inconsistent list of configurations.

    Example::

        from tuner.search import ListSearch

        configurations = [{"threads": t, "items": i} for t in (32, 64, 128) for i in (1, 2, 4) if t * i <= 256]
        search = ListSearch(configurations, seed=1, first=[{"threads": 64, "items": 1}])
        while (config := search.ask()) is not None:
            ms = 1 + abs(config["threads"] * config["items"] - 128) / 128  # here a formula; usually a measurement
            search.tell(config, ms)
        assert search.best["threads"] * search.best["items"] == 128
    """

    def __init__(
        self,
        configurations: Iterable[Mapping[str, Value]],
        *,
        seed: int | None = None,
        first: Iterable[Mapping[str, Value]] = (),
        block: Sequence[str] = (),
    ) -> None:
        """See the class."""
        given = [dict(config) for config in configurations]
        names = list(given[0]) if given else []
        for config in given:
            if config.keys() != set(names):
                raise ValueError(
                    f"the configuration {shown(str(config))} has other parameters than {', '.join(names)}; "
                    "give each configuration a value for each parameter"
                )
            for name, value in config.items():
                if not _is_comparable(value):
                    raise ValueError(
                        f"{name} = {shown(str(value))}: cannot be compared; give a number, string or tuple"
                    )
        self._pool = Pool({name: _values(config[name] for config in given) for name in names}, _tuples(given, names))
        self._model = PoolGP(self._pool, seed, (), block)
        self._first = self._pool.rows_of(config for config in first if all(map(_is_comparable, config.values())))
        self._results: dict[int, float] = {}  # by row, of those that did not fail
        self._lock = threading.Lock()

    def ask(self) -> Config | None:
        """The next configuration to try; None when each was asked for or told."""
        with self._lock:
            while self._first:
                if self._model.claim(row := self._first.pop(0)):
                    return self._pool.config(row)
            asked = self._model.ask()
            return None if asked is None else self._pool.config(asked)

    def tell(self, config: Mapping[str, Value], value: float | None) -> None:
        """Report the result of a configuration, whether or not it was asked for: lower is better, such as a time in ms.

        None says that it failed: it did not compile, did not run, or gave wrong results. So does a value that is not
        finite. The model learns from failures, too: it takes them for slow, and avoids what is like them. Told twice,
        the latest result counts.

        Raises ValueError if the configuration is not in the list, or if the value is no number.
        """
        try:
            result = math.nan if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{shown(str(value))[:80]!r} is no result; tell a number, or None for a failure") from None
        with self._lock:
            row = self._pool.find(config) if all(map(_is_comparable, config.values())) else None
            if row is None:
                raise ValueError(f"{shown(str(dict(config)))} is not in the list of configurations")
            self._model.tell(row, (result,) if math.isfinite(result) else None)
            self._results.pop(row, None)
            if math.isfinite(result):
                self._results[row] = result

    @property
    def best(self) -> Config | None:
        """The configuration with the lowest result so far; None if each that was told has failed."""
        with self._lock:
            return self._pool.config(min(self._results, key=self._results.__getitem__)) if self._results else None


def _is_comparable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:  # also of a tuple that holds a list
        return False
    return True


def _values(occurring: Iterable[Value]) -> list[Value]:
    """The values of a parameter: numbers in ascending order, which the model uses; others as they first occur."""
    values = list(dict.fromkeys(occurring))
    return sorted(values) if all(isinstance(value, int | float) for value in values) else values


def _tuples(configs: Iterable[Mapping[str, Value]], names: Sequence[str]) -> Iterable[Sequence[Value]]:
    return ([config[name] for name in names] for config in configs)
