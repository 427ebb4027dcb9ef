"""The order of measured configurations, of all kernels of a family, at a size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tuner.classes import cached_property
from tuner.devices import Device
from tuner.devices.product import HostTimes
from tuner.families.known import Known, distance
from tuner.prediction import launch_overhead
from tuner.prediction.amounts import Array
from tuner.prediction.grids import Sizes
from tuner.space.scope import Scope
from tuner.store.lookup import Match

if TYPE_CHECKING:
    from tuner.families.forecast import Forecast
    from tuner.prediction.library_tiles import LibraryTiles

SHORT_MS = 0.03  # a shorter kernel may end before the host has enqueued the next one
# A kernel that takes more than LONGEST times the library's time on the device does not win by saving host time,
# because programs that capture calls in a CUDA graph wait only for the device. The kernel's time counts as longer by
# its uncertainty, so a kernel within 1.05 is expected to take less time than the library. At the sizes of four lists of
# 16-bit products, with models without these, none of 48 kernels above 1 and within 1.025 lost over 3 %, and two of 53
# above that and within 1.05 (H200).
LONGEST = 1.025
# Where a call of the library takes a program at least GAIN times as long, as where it splits sums and is two launches,
# a kernel within LONGER counts, too: at twelve such sizes, kernels took at most 1.03 times torch's time on the device,
# 0.94 on average, and calls in a row 0.7 (H200).
LONGER, GAIN = 1.15, 1.5
NEAR = 0.1  # if no time model is trusted, this device's times at sizes within this distance precede a sibling's


class Ranked(NamedTuple):
    """A measured configuration with its match.

    `sizes` are those at which it was measured, or the problem's if its time is predicted. `regret` is the expected
    regret. `sibling` is the device whose times are used, empty for this device.
    """

    known: Known
    match: Match
    sizes: Sizes
    regret: float | None = None
    sibling: str = ""


class Ranking:
    """The configurations that were measured on a device, or on a sibling of it, in order at any size."""

    def __init__(
        self,
        recorded: Mapping[Sizes, list[Known]],
        own: Forecast,
        sibling: Forecast | None,
        device: Device,
        library: bool,
        types: Mapping[str, str] | None,
        has_other_conditions: bool,
        tiles: LibraryTiles,
    ) -> None:
        """`recorded` are the configurations with records, by size; `own` and `sibling` are the forecasts. `library`:
        whether the vendor library is a candidate. `types` are the types of the times, if not the problem's own.
        `has_other_conditions`: whether the times were measured under other conditions than the device's. `tiles` tells
        how the library would tile a problem."""
        self._recorded, self._own, self._sibling = recorded, own, sibling
        self._device, self._library, self._types, self._tiles = device, library, types, tiles
        self._own_match: Match = "nearest_size" if has_other_conditions else "exact"

    def at(self, scope: Scope) -> Iterator[Ranked]:
        """The measured configurations, best first: exact matches, then the predicted ones.

        If the time model is not trusted, the configurations of the nearest sizes replace the predicted ones. Then come
        this device's configurations at sizes within NEAR, the sibling's configurations, and this device's at others.

        The library, if it is a candidate, precedes kernels that were not measured near this size, unless the library
        was measured and the model predicts its time, too.
        """
        key = tuple(scope.sizes.values())
        if key in self._recorded:
            yield from self._ordered(self._recorded[key], scope, key, self._own_match, self._own.launch_ms)
        if self._own.regret is not None:
            ranked = self._for_callers(*self._own.ranked(scope), scope, self._own.launch_ms)
            if not self._is_fair(self._own, ranked, key):
                yield self._unmeasured(key)
            for known in ranked:
                of_types = "" if self._types is None else f"{', '.join(self._types.values())}"
                yield Ranked(known, "predicted", key, self._own.regret, known.sibling or of_types)
            return
        nearest = self._own.nearest(key)
        near = [sizes for sizes in nearest if distance(sizes, key) <= NEAR]
        yield from self._at(self._own, scope, near, "nearest_size")
        others: list[Sizes] = []
        if self._sibling is not None:
            name = self._sibling.device
            ranked = self._for_callers(*self._sibling.ranked(scope), scope, self._sibling.launch_ms)
            if ranked and not self._is_fair(self._sibling, ranked, key):
                yield self._unmeasured(key)
            for known in ranked:
                yield Ranked(known, "architecture", key, sibling=name)
            others = self._sibling.nearest(key)
            while others and distance(others[0], key) <= NEAR:
                for entry in self._at(self._sibling, scope, [others.pop(0)], "architecture"):
                    yield entry._replace(sibling=name)
        if self._library:
            yield self._unmeasured(key)
        for entry in self._at(self._sibling, scope, others, "architecture") if self._sibling is not None else ():
            yield entry._replace(sibling=self._sibling.device if self._sibling is not None else "")
        yield from self._at(self._own, scope, nearest[len(near) :], "nearest_size")

    def _is_fair(self, forecast: Forecast, ranked: Sequence[Known], sizes: Sizes) -> bool:
        """Whether kernels may precede the library: it is no candidate, its time is predicted, or `sizes` are near to
        measured ones."""
        return not self._library or any(each.space is None for each in ranked) or forecast.is_near(sizes, NEAR)

    def _unmeasured(self, sizes: Sizes) -> Ranked:
        """The library, whatever was measured."""
        return Ranked(Known(None, {}), "default", sizes)

    def _at(self, forecast: Forecast, scope: Scope, sizes: Iterable[Sizes], match: Match) -> Iterator[Ranked]:
        """The configurations measured at each of these sizes in turn, fastest first."""
        for each in sizes:
            measured = [known for known in forecast.known if each in known.times]
            yield from self._ordered(measured, scope, each, match, forecast.launch_ms)

    def _ordered(
        self, measured: Sequence[Known], scope: Scope, sizes: Sizes, match: Match, launch_ms: float | None
    ) -> Iterator[Ranked]:
        """The configurations `measured` at these sizes, with this launch overhead, fastest first for calls at those of
        `scope`."""
        best = min((known.times[sizes] for known in measured if known.space is not None), default=math.inf)
        times = np.array([self._exact_time(known, sizes, best) for known in measured])
        order = times.argsort(kind="stable")
        for known in self._for_callers(times[order], [measured[each] for each in order], scope, launch_ms):
            yield Ranked(known, match, sizes)

    def _for_callers(self, times: Array, known: list[Known], scope: Scope, launch_ms: float | None) -> list[Known]:
        """Order configurations by the time that a program waits for each of many calls, shortest first.

        `times` are theirs in ms, ascending, with the launch overhead `launch_ms`, for which calls in a row do not wait.
        A call takes at least as long as the host takes for it. A kernel that takes more than LONGEST times the
        library's time on the device, or LONGER times if it saves that much, does not precede the library."""
        if not self._library or not known or times[0] >= SHORT_MS or (host := self._host_times) is None:
            return known
        launches = np.array([each.launches for each in known])
        device_ms = launch_overhead.removed(times, launch_ms)
        own_ms = np.maximum(device_ms, host.of_steps(launches))
        # A second launch of the library's, of which its tiles tell, matters beside shorter times alone.
        is_shorter = device_ms[0] < host.library_ms + host.kernel_ms
        of_library_ms = np.maximum(device_ms, host.of_library(self._tiles(scope) if is_shorter else None))
        library = next(([number] for number, each in enumerate(known) if each.space is None), [])
        longest = np.where(own_ms * GAIN <= of_library_ms[library].min(initial=math.inf), LONGER, LONGEST)
        may_precede = (launches > 0) & (times <= longest * times[library].min(initial=math.inf))
        return [known[each] for each in np.where(may_precede, own_ms, of_library_ms).argsort(kind="stable").tolist()]

    @cached_property
    def _host_times(self) -> HostTimes | None:
        """Measured when they are first needed, because it takes some milliseconds."""
        return self._device.host_times()

    def _exact_time(self, known: Known, sizes: Sizes, best: float) -> float:
        """The time in ms of a configuration; for the library, scaled to the run that measured the best kernel.

        `best` is the best kernel's time, infinite if no kernel was measured.
        """
        if known.space is not None or sizes not in known.records or not math.isfinite(best):
            return known.times[sizes]
        record, _ = known.records[sizes]
        assert record.library_ms is not None
        return best * record.library_ms / record.time_ms
