"""A pool: the finite list of valid configurations that a strategy chooses from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from tuner.space.model import Config, Value

MOST_COMBINATIONS = 2**62  # a configuration is looked up by one 64-bit number


class Pool:
    """Configurations as positions among the values of their parameters: two bytes a value, so that 10^6 fit easily.

    `rows` has the shape (configurations, parameters); a configuration is known by its place in it.
    """

    def __init__(self, parameters: Mapping[str, Sequence[Value]], configurations: Iterable[Sequence[Value]]) -> None:
        """`configurations` hold one value for each of `parameters`, in their order.

        Raises ValueError where there is none, one twice, one with a value that its parameter does not have, or more
        than MOST_COMBINATIONS combinations of values.
        """
        self.names = tuple(parameters)
        self.values = tuple(tuple(values) for values in parameters.values())
        self._positions: list[dict[object, int]] = [{v: i for i, v in enumerate(values)} for values in self.values]
        listed = list(configurations)
        if not listed:
            raise ValueError("a pool without configurations; give at least one")
        dtype = np.uint16 if max(map(len, self.values), default=0) <= 2**16 else np.uint32
        self.rows = np.empty((len(listed), len(self.names)), dtype=dtype)
        for column, (name, positions) in enumerate(zip(self.names, self._positions, strict=True)):
            try:
                found = map(positions.__getitem__, map(itemgetter(column), listed))
                self.rows[:, column] = np.fromiter(found, dtype=dtype, count=len(listed))
            except KeyError as error:
                raise ValueError(f"{name} = {error.args[0]!r}; allowed: {list(positions)}") from None
        self._radix, combinations = [], 1
        for values in self.values:
            self._radix.append(combinations)
            combinations *= len(values)
        if combinations > MOST_COMBINATIONS:
            raise ValueError(f"{combinations} combinations of values; at most {MOST_COMBINATIONS} can be told apart")
        codes = self.rows.astype(np.int64) @ np.array(self._radix, dtype=np.int64)
        self._order = np.argsort(codes, kind="stable")
        self._codes = codes[self._order]
        twice = np.flatnonzero(self._codes[1:] == self._codes[:-1])
        if twice.size:
            raise ValueError(f"the configuration {self.config(int(self._order[twice[0]]))} is there twice")

    def __len__(self) -> int:
        return len(self.rows)

    def config(self, row: int) -> Config:
        """The configuration at `row`."""
        return {n: v[p] for n, v, p in zip(self.names, self.values, self.rows[row].tolist(), strict=True)}

    def find(self, config: Mapping[str, object]) -> int | None:
        """The row of `config`; None where it is not in the pool."""
        code = 0
        for name, positions, radix in zip(self.names, self._positions, self._radix, strict=True):
            position = positions.get(config.get(name))
            if position is None:
                return None
            code += position * radix
        place = int(np.searchsorted(self._codes, code))
        return int(self._order[place]) if place < len(self) and self._codes[place] == code else None

    def row(self, config: Mapping[str, object]) -> int:
        """The row of `config`. Raises ValueError where it is not in the pool."""
        found = self.find(config)
        if found is None:
            raise ValueError(f"{dict(config)} is not in the pool")
        return found

    def known(self, configs: Iterable[Mapping[str, object]]) -> list[int]:
        """The rows of those `configs` that are in the pool, each once."""
        return [row for row in dict.fromkeys(map(self.find, configs)) if row is not None]


def spread(
    pool: Pool, count: int, taken: Sequence[int], free: NDArray[np.bool_], rng: np.random.Generator, sample: int = 2000
) -> list[int]:
    """`count` rows far from one another and from `taken`: of a random sample, always the one that is farthest from the
    nearest of those before. That is the greedy farthest-point design (Gonzalez, 1985).

    A parameter adds 1 to a distance where it differs, and the difference of positions, scaled to [0, 1] (Gower's
    distance has the one or the other). The first makes all values of a parameter appear, the second its extremes.
    """
    rows = rng.permutation(np.flatnonzero(free))[:sample]
    scale = np.array([max(1, len(values) - 1) for values in pool.values], dtype=np.float32)
    points = pool.rows[rows] / scale

    def apart(point: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray((points != point).sum(axis=1) + np.abs(points - point).sum(axis=1))

    nearest = np.full(len(rows), np.inf, dtype=np.float32)
    for row in taken:
        nearest = np.minimum(nearest, apart(pool.rows[row] / scale))
    chosen: list[int] = []
    while len(chosen) < min(count, len(rows)):
        best = int(np.argmax(nearest))
        chosen.append(int(rows[best]))
        nearest = np.minimum(nearest, apart(points[best]))
        nearest[best] = -1.0
    return chosen
