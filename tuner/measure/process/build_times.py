"""How long builds take: the seconds of those that are done, and what they tell about the others."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.space.config import Config, Value

FEWEST = 8  # builds before anything is predicted
MOST = 256  # builds that are remembered, the latest ones
FROM_CACHE = 0.02  # seconds; shorter builds were found in the cache, or are too short to matter
DOUBT = 0.1  # how much a prediction is drawn to the mean of all builds; the weight of a tenth of a build


class BuildTimes:
    """The seconds of builds of one problem.

    The logarithm of a build's time is taken as a sum of one number for each parameter, which depends on its value:
    factors by which loops are unrolled multiply the time. Least squares with a penalty on these numbers, in the form in
    which two configurations are as similar as the number of parameters in which they agree.
    """

    def __init__(self) -> None:
        self._done = deque[tuple[tuple[Value, ...], float]](maxlen=MOST)
        self._is_new = False
        self._codes: dict[Value, int] = {}  # a number for each value
        self._known: NDArray[np.int32]  # the values of the builds, in codes
        self._mean = 0.0
        self._weights: NDArray[np.float64] = np.zeros(0)

    def add(self, config: Config, seconds: float) -> None:
        """Note that the build of `config` has taken so long. Any thread may call this."""
        if seconds > FROM_CACHE:
            self._done.append((_values(config), math.log(seconds)))
            self._is_new = True

    def late(self, configs: Sequence[Config], workers: int) -> int | None:
        """The place of the build that should begin next so that it does not end after all others.

        `configs` are all that are still to be built. Their longest build is such a one if it is predicted to take
        longer than the `workers` need for all. None if it is not, or if too little is known.
        """
        if len(configs) < 2 or len(self._done) < FEWEST:
            return None
        if self._is_new:
            self._is_new = False
            self._fit(list(self._done))
        similar = _agreements(self._coded([_values(config) for config in configs]), self._known)
        seconds = np.exp(self._mean + similar @ self._weights)
        longest = int(seconds.argmax())
        return longest if seconds[longest] * workers >= seconds.sum() else None

    def _fit(self, done: Sequence[tuple[tuple[Value, ...], float]]) -> None:
        logs = np.array([log for _, log in done])
        self._known = self._coded([values for values, _ in done])
        self._mean = float(logs.mean())
        similar = _agreements(self._known, self._known) + DOUBT * np.eye(len(done))
        self._weights = np.asarray(np.linalg.solve(similar, logs - self._mean), np.float64)

    def _coded(self, rows: Sequence[Sequence[Value]]) -> NDArray[np.int32]:
        return np.array([[self._codes.setdefault(value, len(self._codes)) for value in row] for row in rows], np.int32)


def _values(config: Config) -> tuple[Value, ...]:
    return tuple(value for _, value in sorted(config.items()))


def _agreements(some: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.float64]:
    """The number of columns in which a row of `some` equals one of `others`, for each pair."""
    return np.asarray((some[:, None] == others[None]).sum(2), np.float64)
