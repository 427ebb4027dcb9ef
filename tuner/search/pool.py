"""A pool: the finite list of valid configurations that a strategy chooses from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuner.space.config import config_key

if TYPE_CHECKING:
    from tuner.space.config import Config, Value

MOST_CODE = 2**62  # a configuration is encoded in a 64-bit integer
SAMPLE = 2000  # rows that a farthest-point design chooses from


def type_of_positions(parameters: Mapping[str, Sequence[Value]]) -> type[np.unsignedinteger]:
    """The type of the elements of `Pool.rows`."""
    return np.uint16 if max(map(len, parameters.values()), default=0) <= 2**16 else np.uint32


class _Step(NamedTuple):
    """How a code is extended by the position of a value, one of `radix`.

    If the code would become too large, it is first replaced by its position among the codes that occur, `ranks`.
    """

    ranks: NDArray[np.int64] | None
    radix: int


class Pool:
    """Configurations, stored as positions of their values: two bytes per value, so 10^6 configurations fit easily.

    `rows` has the shape [configurations, parameters]. A configuration is identified by its row number. `valid` is the
    number of valid configurations of the space, an estimate if the pool is a random sample of them (`is_sample`).
    """

    valid: int
    is_sample = False

    def __init__(self, parameters: Mapping[str, Sequence[Value]], configurations: Iterable[Sequence[Value]]) -> None:
        """`configurations` hold one value for each of `parameters`, in their order.

        Raises ValueError for an empty list, a duplicate configuration, or a value that its parameter does not have.
        """
        table = list(configurations)
        dtype = type_of_positions(parameters)
        rows = np.empty((len(table), len(parameters)), dtype=dtype)
        for column, (name, values) in enumerate(parameters.items()):
            positions = {value: position for position, value in enumerate(values)}
            try:
                entries = map(positions.__getitem__, map(itemgetter(column), table))
                rows[:, column] = np.fromiter(entries, dtype=dtype, count=len(table))
            except KeyError as error:
                raise ValueError(f"{name} = {error.args[0]!r}; allowed: {list(positions)}") from None
        self._set(parameters, rows)

    @classmethod
    def of(cls, parameters: Mapping[str, Sequence[Value]], configs: Iterable[Config]) -> Pool:
        """The pool of these configurations. Raises ValueError as the constructor does."""
        return cls(parameters, ([config[name] for name in parameters] for config in configs))

    @classmethod
    def of_rows(
        cls, parameters: Mapping[str, Sequence[Value]], rows: NDArray[np.integer], valid: int | None = None
    ) -> Pool:
        """The pool with these `rows`. If they are a sample, `valid` is the estimated number of valid configurations.

        Raises ValueError as the constructor does.
        """
        pool = cls.__new__(cls)
        pool._set(parameters, rows)
        if valid is not None:
            pool.valid, pool.is_sample = max(valid, len(rows)), True
        return pool

    def including(self, configs: Iterable[Mapping[str, Value]]) -> Pool:
        """The pool with those `configs` that it lacks; all their values must be values of the parameters."""
        lacking = {config_key(config): dict(config) for config in configs if self.find(config) is None}
        if not lacking:
            return self
        parameters = dict(zip(self.names, self.values, strict=True))
        added = Pool.of(parameters, lacking.values())
        rows = np.concatenate([self.rows, added.rows.astype(self.rows.dtype)])
        return Pool.of_rows(parameters, rows, self.valid if self.is_sample else None)

    def _set(self, parameters: Mapping[str, Sequence[Value]], rows: NDArray[np.integer]) -> None:
        self.names, self.rows = tuple(parameters), rows
        self.values = tuple(tuple(values) for values in parameters.values())
        self._positions: list[dict[object, int]] = [{v: i for i, v in enumerate(values)} for values in self.values]
        if not len(rows):
            raise ValueError("a pool without configurations; give at least one")
        self.valid = len(rows)
        self._steps: list[_Step] = []
        codes, most = np.zeros(len(rows), np.int64), 1
        for column, values in zip(rows.T, self.values, strict=True):
            ranks = None
            if most * len(values) > MOST_CODE:
                ranks, codes = np.unique(codes, return_inverse=True)
                most = len(ranks)
            self._steps.append(_Step(ranks, len(values)))
            codes, most = codes * len(values) + column, most * len(values)
        self._order = np.argsort(codes, kind="stable")
        self._codes = codes[self._order]
        repeats = np.flatnonzero(self._codes[1:] == self._codes[:-1])
        if repeats.size:
            raise ValueError(f"the configuration {self.config(int(self._order[repeats[0]]))} occurs twice")

    @property
    def words(self) -> str:
        """The number of valid configurations: `1314`, or `about 3,200,000,000` if it is an estimate."""
        if not self.is_sample:
            return str(self.valid)
        digits = 10 ** max(0, len(str(self.valid)) - 2)
        return f"about {round(self.valid / digits) * digits:,}"

    def __len__(self) -> int:
        return len(self.rows)

    def config(self, row: int) -> Config:
        """The configuration at `row`."""
        return {n: v[p] for n, v, p in zip(self.names, self.values, self.rows[row].tolist(), strict=True)}

    def configs(self) -> Iterator[Config]:
        """All configurations, by row."""
        return map(self.config, range(len(self)))

    def find(self, config: Mapping[str, object]) -> int | None:
        """The row of `config`; None if it is not in the pool."""
        code = 0
        for name, positions, step in zip(self.names, self._positions, self._steps, strict=True):
            position = positions.get(config.get(name))
            if position is None:
                return None
            if step.ranks is not None:
                rank = int(np.searchsorted(step.ranks, code))
                if rank == len(step.ranks) or step.ranks[rank] != code:
                    return None
                code = rank
            code = code * step.radix + position
        place = int(np.searchsorted(self._codes, code))
        return int(self._order[place]) if place < len(self) and self._codes[place] == code else None

    def row(self, config: Mapping[str, object]) -> int:
        """The row of `config`. Raises ValueError if it is not in the pool."""
        row = self.find(config)
        if row is None:
            raise ValueError(f"{dict(config)} is not in the pool")
        return row

    def rows_of(self, configs: Iterable[Mapping[str, object]]) -> list[int]:
        """The rows of those `configs` that are in the pool, each once."""
        return [row for row in dict.fromkeys(map(self.find, configs)) if row is not None]


def farthest_points(
    pool: Pool, count: int, origins: Sequence[int], free: NDArray[np.bool_], rng: np.random.Generator
) -> list[int]:
    """`count` free rows, far from one another and from the rows `origins`.

    The greedy farthest-point design (Gonzalez, 1985) over a random sample of SAMPLE rows: each row has the largest
    distance to the nearest row chosen before. A parameter that differs contributes 1 to the distance, so that all its
    values appear, plus the difference of positions, scaled to 0 to 1, so that its extremes appear. (Gower's distance
    has only one of the two.)
    """
    rows = rng.permutation(np.flatnonzero(free))[:SAMPLE]
    scale = np.array([max(1, len(values) - 1) for values in pool.values], dtype=np.float32)
    points = pool.rows[rows] / scale

    def distances(point: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray((points != point).sum(axis=1) + np.abs(points - point).sum(axis=1))

    nearest = np.full(len(rows), np.inf, dtype=np.float32)
    for row in origins:
        nearest = np.minimum(nearest, distances(pool.rows[row] / scale))
    design: list[int] = []
    while len(design) < min(count, len(rows)):
        farthest = int(np.argmax(nearest))
        design.append(int(rows[farthest]))
        nearest = np.minimum(nearest, distances(points[farthest]))
        nearest[farthest] = -1.0
    return design
