"""Several problems in one run: a kernel at several sizes, or the kernels of a family.

Devices, processes and builds are shared. A search begins with what the store knows of near sizes, which is what the
run has just learned there. Of a family, each kernel is tried with a small part of the budget, and those that are far
behind the best are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner import devices
from tuner.errors import RequestError
from tuner.families import family
from tuner.quoting import quoted
from tuner.search.budget import Budget
from tuner.space.model import Space
from tuner.space.size_lists import WeightedSize
from tuner.store.lookup import size_distance
from tuner.tuning.crew.crew import Crews
from tuner.tuning.driver import Result, tune_with
from tuner.tuning.exploration import Progress, explored
from tuner.tuning.request import UNTUNABLE, CheckedRequest, TuningRequest, requests_at
from tuner.tuning.several.table import HOPELESS, LEAST_TRIAL, NEAR, Setting, TrialTable

BEHIND = 2.0  # times the best of its family: a kernel that is as slow after its trial is dropped
TRIAL_SHARE = 5  # a trial has the budget divided by this
TRIAL = 20  # configurations, where there is no budget


@dataclass(frozen=True)
class Dropped:
    """A kernel of a family that was left out at a size: its best took `value`, the best of the family `best`, in what
    is minimised. `near`: both are of this other size, and it was not tried here."""

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

    A name is a kernel's or a family's. Of a family, those that do not run on the device are left out; where `device` is
    not given, it is the one that most of them run on. Raises RequestError.
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
    return running, device, [f"left out, for it does not run on {kinds[0]}: {name}" for name in others]


def tune_sizes(
    request: TuningRequest, spaces: Sequence[Space], sizes: Sequence[WeightedSize], progress: Progress
) -> Iterator[Result | Dropped | Untuned]:
    """Tune each of `spaces` at each of `sizes`, those of the greatest weight first; `request` says how.

    Every size has the whole budget, and every kernel that is not dropped there. What comes to an end is given at once.
    Raises as `driver.tune` does; a size that has no configuration, or does not fit in memory, stops no other.
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
    """Tune each of `spaces` at one size, as `tune_sizes` does. `history` knows how they did at other sizes."""
    requests = requests_at(request, spaces, sizes)
    if len(requests) > 1:
        for each in dropped(crews, requests, sizes, history, progress, trial_budget(request)):
            del requests[each.kernel]
            yield each
    for name, stays in requests.items():
        try:
            yield tune_with(crews, stays, progress)
        except UNTUNABLE as error:
            yield Untuned(name, sizes, str(error))


def dropped(
    crews: Crews,
    requests: Mapping[str, TuningRequest],
    sizes: dict[str, int],
    history: TrialTable,
    progress: Progress,
    budget: str | None,
) -> list[Dropped | Untuned]:
    """Those that drop out when each kernel of a family is tried at a size with a small `budget`.

    `history` knows how they did at other sizes, in this run and in the records of the device; the trials are added. The
    last stages are tried first.
    """
    gone: list[Dropped | Untuned] = []
    trials = TrialTable()
    checked = {name: CheckedRequest.of(replace(request, budget=budget)) for name, request in requests.items()}
    for name, each in reversed(checked.items()):
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
            gone.append(Untuned(name, sizes, str(error)))
    values = trials.best(sizes)
    if not values:  # then who is far behind elsewhere may be the only one that serves this size
        return [each for each in gone if isinstance(each, Untuned)]
    best = min(values.values())
    return gone + [Dropped(name, sizes, value, best) for name, value in values.items() if value > BEHIND * best]


def _hopeless(kernel: str, sizes: dict[str, int], history: TrialTable) -> Dropped | None:
    """The kernel, if it was far behind at the nearest size at which it was tried, and that is near; or at all sizes at
    which it was tried, and these are several."""
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
    """The budget of a trial, a part of the request's."""
    budget = Budget.parse(request.budget)
    if budget.seconds is not None:
        return Budget(seconds=budget.seconds / TRIAL_SHARE).text()
    return Budget(evaluations=max(LEAST_TRIAL, (budget.evaluations or TRIAL * TRIAL_SHARE) // TRIAL_SHARE)).text()
