"""Tune several problems in one run: a kernel at several sizes, or the kernels of a family.

The problems share devices, processes and builds. A search begins with the store's best configurations at near sizes,
including those that the run has just found. Each kernel of a family is tried with a small part of the budget, and
dropped if it is far behind the best.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tuner import devices
from tuner.classes import dataclass
from tuner.errors import DeviceError, RequestError
from tuner.families import family
from tuner.quoting import quoted
from tuner.search.budget import Budget
from tuner.space.model import Space
from tuner.space.size_lists import WeightedSize
from tuner.store.lookup import size_distance
from tuner.tuning.crew.crews import Crews
from tuner.tuning.driver import Result, tune_with
from tuner.tuning.exploration import FINALS_SECONDS, explored
from tuner.tuning.progress import Progress
from tuner.tuning.request import UNTUNABLE, CheckedRequest, TuningRequest, requests_at, why_untunable
from tuner.tuning.several.table import HOPELESS, LEAST_TRIAL, NEAR, Setting, TrialTable

BEHIND = 2.0  # times the best of its family: a kernel that is slower in its short trial is dropped
TRIAL_SHARE = 5  # a short trial has the budget divided by this
TRIAL = 20  # configurations of a short trial, if there is no budget
LEAST_SECONDS = 5.0  # within which a problem is tuned, or not at all
LEAST_SEARCH = 1.0  # seconds of that
NO_TIME = "the time does not suffice for it"


@dataclass(frozen=True)
class Dropped:
    """A kernel of a family that was dropped at a size.

    `value` is the kernel's best objective, `best` that of the family. If `near` is given, both are from that other
    size, and the kernel was not tried at this one.
    """

    kernel: str
    sizes: dict[str, int]
    value: float
    best: float
    near: dict[str, int] | None = None


@dataclass(frozen=True)
class Untuned:
    """A problem that cannot be tuned, and why."""

    kernel: str
    sizes: dict[str, int]
    reason: str


def members(kernel: str, device: str | None) -> tuple[list[Space], str | None, list[str]]:
    """The kernels that `kernel` names, the device for all of them, and messages for the user.

    `kernel` is a kernel or a family. Kernels of a family that do not run on the device are left out. If `device` is
    None, it is one of the kind on which most of them run. Raises RequestError if none runs on the device.
    """
    spaces = family.find(kernel).spaces
    if len(spaces) == 1:
        return [*spaces], device, []
    kinds = [devices.split(name.strip())[0] for name in device.split(",")] if device not in (None, "all") else []
    if not kinds:
        available = [kind for space in spaces for kind in devices.kinds_of(space) if devices.count(kind)]
        kinds = [kind for kind, _ in Counter(available).most_common(1)]
        device = device or (f"{kinds[0]}:0" if kinds else None)
    running = [space for space in spaces if set(kinds) <= {*devices.kinds_of(space)}]
    others = [space.name for space in spaces if space not in running]
    if not running:
        raise RequestError(f"{quoted(kernel)}: none of its kernels runs on {device or 'a device of this machine'}")
    notes = [f"{name}: left out, because it does not run on {kinds[0]}" for name in others]
    if of_library := [space for space in running if space.is_of_library]:
        try:
            devices.compiler_for(kinds[0], devices.BACKENDS[kinds[0]].common[0]).chosen(of_library[0].compiler).name()
        except DeviceError as missing:  # which is no reason not to tune the others
            notes += [f"{space.name}: left out: {missing}" for space in of_library]
            running = [space for space in running if not space.is_of_library] or running
    return running, device, notes


def tune_sizes(
    request: TuningRequest, spaces: Sequence[Space], sizes: Sequence[WeightedSize], progress: Progress
) -> Iterator[Result | Dropped | Untuned]:
    """Tune each of `spaces` at each of `sizes`, in descending order of weight, and yield each result when it is ready.

    `request` has all settings. Its budget is for each kernel, at each size at which it is not dropped. Raises as
    `driver.tune` does, but a size without a valid configuration, or too large for the memory, only yields Untuned.
    """
    with Crews(progress.noted) as crews:
        history = TrialTable()
        for size in sorted(sizes, key=lambda each: -each.weight):
            yield from tune_at(crews, request, spaces, size.sizes, history, progress)


def tune_at(
    crews: Crews,
    request: TuningRequest,
    spaces: Sequence[Space],
    sizes: dict[str, int],
    history: TrialTable,
    progress: Progress,
) -> Iterator[Result | Dropped | Untuned]:
    """Tune each of `spaces` at one size, as `tune_sizes` does. `history` has their trials at other sizes."""
    requests = requests_at(request, spaces, sizes)
    if len(requests) > 1:
        last_first = dict(reversed(requests.items()))
        for each in dropped(crews, last_first, sizes, history, progress, trial_budget(request)):
            del requests[each.kernel]
            yield each
    for name, remaining in requests.items():
        try:
            yield tune_with(crews, remaining, progress)
        except UNTUNABLE as error:
            yield Untuned(name, sizes, why_untunable(name, error))


def tune_within(
    crews: Crews,
    request: TuningRequest,
    spaces: Sequence[Space],
    sizes: dict[str, int],
    history: TrialTable,
    progress: Progress,
    seconds: float,
) -> Iterator[Result | Dropped | Untuned]:
    """Tune a kernel, or the kernels of a family, at one size within about `seconds`, and yield each result.

    The kernels are tried in the order of `spaces`, for half of the time. Then the best ones are tuned: each has half of
    the time that is left, the last one all of it. At least one is tuned; those that time does not suffice for are
    Untuned. Raises as `tune_sizes` does.
    """
    began = time.monotonic()
    requests, values = requests_at(request, spaces, sizes), dict[str, float]()
    if len(requests) > 1:
        trial = Budget(seconds=seconds / 2 / TRIAL_SHARE).text()
        for each in dropped(crews, requests, sizes, history, progress, trial, began + seconds / 2):
            del requests[each.kernel]
            yield each
        values = history.best(sizes)
    names, is_begun = sorted(requests, key=lambda name: values.get(name, math.inf)), False
    for number, name in enumerate(names):
        left = began + seconds - time.monotonic()
        if is_begun and left < LEAST_SECONDS:
            yield Untuned(name, sizes, NO_TIME)
            continue
        own = left / 2 if number < len(names) - 1 else left
        budget = Budget(seconds=max(LEAST_SEARCH, own if len(spaces) == 1 else own - FINALS_SECONDS)).text()
        try:
            yield tune_with(crews, replace(requests[name], budget=budget), progress)
            is_begun = True
        except UNTUNABLE as error:
            yield Untuned(name, sizes, why_untunable(name, error))


def dropped(
    crews: Crews,
    requests: Mapping[str, TuningRequest],
    sizes: dict[str, int],
    history: TrialTable,
    progress: Progress,
    budget: str | None,
    until: float = math.inf,
) -> list[Dropped | Untuned]:
    """Try the kernels of a family at a size in their order, each with a small `budget`, and return those to drop.

    `until` is the time by `time.monotonic` after which no kernel is tried once one has a time. `history` has their
    trials at other sizes, from this run and from the device's records; the new trials are added.
    """
    gone: list[Dropped | Untuned] = []
    trials = TrialTable()
    checked = {name: CheckedRequest.of(replace(request, budget=budget)) for name, request in requests.items()}
    for name, each in checked.items():
        if time.monotonic() > until and trials.best(sizes):
            gone.append(Untuned(name, sizes, NO_TIME))
            continue
        if hopeless := _hopeless(name, sizes, history):
            gone.append(hopeless)
            continue
        try:
            with explored(crews, each, progress) as search:
                trials.add(sizes, name, search.trials)
                history.add(sizes, name, search.trials)
                if not history.is_recalled:
                    spaces = [other.task.space for other in checked.values()]
                    history.recall(Setting(spaces, search.crew.scope, search.crew.device, each.request.results))
        except UNTUNABLE as error:
            gone.append(Untuned(name, sizes, why_untunable(name, error)))
    values = trials.best(sizes)
    if not values:  # a kernel that is far behind at other sizes may be the only valid one at this size
        return [each for each in gone if isinstance(each, Untuned)]
    best = min(values.values())
    return gone + [Dropped(name, sizes, value, best) for name, value in values.items() if value > BEHIND * best]


def _hopeless(kernel: str, sizes: dict[str, int], history: TrialTable) -> Dropped | None:
    """The kernel, dropped if it is hopeless at a size; None if not.

    It is hopeless if it was far behind at the nearest size tried, provided that this is near; otherwise if it was far
    behind at all sizes tried, provided that they are several.
    """
    others = history.sizes_of(kernel)
    near = min(others, key=lambda other: size_distance(other, sizes), default=None)
    if near is None or (len(others) == 1 and size_distance(near, sizes) > NEAR):
        return None
    judged = [near] if size_distance(near, sizes) <= NEAR else others
    bests = [history.best(other) for other in judged]
    if any(values[kernel] <= HOPELESS * min(values.values()) for values in bests):
        return None
    values = history.best(near)
    return Dropped(kernel, sizes, values[kernel], min(values.values()), near)


def trial_budget(request: TuningRequest) -> str | None:
    """The budget of a kernel's short trial, as a part of the request's."""
    budget = Budget.parse(request.budget)
    seconds = None if budget.seconds is None else budget.seconds / TRIAL_SHARE
    if budget.evaluations is None and seconds is not None:
        return Budget(seconds=seconds).text()
    return Budget(max(LEAST_TRIAL, (budget.evaluations or TRIAL * TRIAL_SHARE) // TRIAL_SHARE), seconds).text()
