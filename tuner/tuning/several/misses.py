"""Tune the misses of look-ups: all misses that earlier processes noted, or each miss at once while a program warms
up."""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tuner import devices
from tuner.devices.conditions import Conditions
from tuner.errors import DeviceError, RequestError, TunerError
from tuner.families import family
from tuner.families.choice import FamilyTable
from tuner.search.budget import Budget
from tuner.space import parsing
from tuner.space.model import Space
from tuner.space.sources.rendering import Version
from tuner.space.texts import problem_text
from tuner.store import missed
from tuner.store.lookup import Query
from tuner.store.missed import Miss
from tuner.store.store import Store
from tuner.tuning.crew.crews import Crews
from tuner.tuning.driver import Result
from tuner.tuning.progress import Progress, Quiet
from tuner.tuning.request import TuningRequest
from tuner.tuning.several.problems import LEAST_SECONDS, NO_TIME, Dropped, Untuned, members, tune_within
from tuner.tuning.several.table import TrialTable

logger = logging.getLogger(__name__)


def remaining() -> list[Miss]:
    """The misses that still have no exact record, most used first. The others are forgotten."""
    misses = missed.read()
    exact = {miss.key for miss in misses if _is_exact(miss)}
    if exact:
        missed.forget(exact)
    return [miss for miss in misses if miss.key not in exact]


def local_devices(misses: Iterable[Miss]) -> dict[tuple[str, str, str], str]:
    """The ids of the devices of this machine of the kinds in `misses`, by `Miss.place`."""
    ids: dict[tuple[str, str, str], str] = {}
    for kind in dict.fromkeys(miss.kind for miss in misses):
        for number in range(devices.count(kind) if kind in devices.BACKENDS else 0):
            with contextlib.suppress(DeviceError):
                device = devices.open_device(f"{kind}:{number}")
                ids.setdefault((kind, device.name, device.conditions.identity), device.id)
                device.close()
    return ids


def tune_missed(misses: Iterable[Miss], seconds: float, progress: Progress) -> Iterator[tuple[Miss, list[Result]]]:
    """Tune `misses` in their order, within about `seconds`, and yield each with its results.

    Each has a share of the remaining time, in proportion to its count. Misses of devices that this machine lacks, and
    those under other conditions than this process has, are skipped. A problem that cannot be tuned does not stop the
    others. A miss that now has a record is forgotten.
    """
    deadline, device_ids = time.monotonic() + seconds, local_devices(misses := list(misses))
    rest = [miss for miss in misses if miss.place in device_ids]
    with Crews(progress.noted) as crews:
        tables: dict[str, TrialTable] = {}
        while rest and (left := deadline - time.monotonic()) > 0:
            share = max(LEAST_SECONDS, left * rest[0].count / sum(miss.count for miss in rest))
            miss = rest.pop(0)
            table = tables.setdefault(miss.kernel, TrialTable())
            try:
                results = _tune(crews, miss, device_ids[miss.place], share, table, progress)
            except RequestError as error:
                progress.noted(f"{miss.kernel}: {error}")
                continue
            if results:
                missed.forget([miss.key])
            yield miss, results


@contextlib.contextmanager
def warm_up(budget: str = "2m") -> Iterator[None]:
    """A `with` block in which `tuner.load` and `tuner.dispatch` tune a problem that has no exact record, then load it.

    The block applies to the thread that enters it. Outside such a block no call tunes. When the budget is spent, calls
    use the best known configuration, and `tune missed` lists their problems, as outside.

    Args:
        budget: The time for the whole block: "90s", "2m", "1h". Each problem gets at most half of the remaining time.
            Default: "2m".

    Raises RequestError if `budget` is not a time.

    Example::

        import tuner

        with tuner.warm_up(budget="10s"):
            kernel = tuner.load("sgemm/00_host_simple", 64)  # tuned first, if there is no exact record
        assert kernel.match == "exact"
    """
    deadline, tables = time.monotonic() + Budget.parse_time(budget, "warm_up: budget"), dict[str, TrialTable]()
    with Crews(logger.info) as crews:

        def tune_now(miss: Miss, device: str) -> bool:
            left = deadline - time.monotonic()
            if left <= 0:
                return missed.keep(miss)
            try:
                table = tables.setdefault(miss.kernel, TrialTable())
                return bool(_tune(crews, miss, device, left / 2, table, Quiet(logger.info)))
            except TunerError as error:
                warnings.warn(f"{miss.kernel}: not tuned: {error}", stacklevel=5)
                return False

        with missed.handled(tune_now):
            yield


def _tune(crews: Crews, miss: Miss, device: str, seconds: float, table: TrialTable, progress: Progress) -> list[Result]:
    """Tune a problem within about `seconds`, and return the results that have a record. Kernels of a family that drop
    out, or for which the time does not suffice, have none."""
    results = None if miss.results is None else Path(miss.results)
    spaces, _, _ = members(miss.kernel, device)
    request = TuningRequest(miss.kernel, None, device, miss.options, miss.types, results=results)
    results_with_record: list[Result] = []
    left_out: list[str] = []
    in_order = spaces if len(spaces) == 1 else _likely_first(spaces, miss, device, results)
    for each in tune_within(crews, request, in_order, dict(miss.sizes), table, progress, seconds):
        if isinstance(each, Untuned) and each.reason == NO_TIME:
            left_out.append(each.kernel)
        elif isinstance(each, Untuned):
            progress.noted(f"{each.kernel}: {each.reason}")
        elif not isinstance(each, Dropped) and each.record is not None:
            results_with_record.append(each)
    if left_out:
        problem = f"{miss.kernel} at {problem_text(miss.sizes, miss.types)}"
        progress.noted(f"{problem}: no time for {', '.join(left_out)}; `tune KERNEL SIZE` tunes one of them")
    return results_with_record


def _likely_first(spaces: Sequence[Space], miss: Miss, device: str, results: Path | None) -> list[Space]:
    """The kernels of a family in the order in which look-ups would choose them for a problem."""
    library = any(space.is_of_library for space in spaces)
    with contextlib.closing(devices.open_device(device)) as opened:
        op = spaces[0].operation
        scope = op.scope(dict(miss.sizes), dict(miss.options), opened.language, opened.limits, dict(miss.types))
        return FamilyTable(spaces, opened, scope, library, results).kernels(miss.sizes)


def _is_exact(miss: Miss) -> bool:
    """Whether a miss now has an exact record, of a current version of its kernel."""
    try:
        spaces = family.find(miss.kernel).spaces
    except RequestError:  # the kernel is unknown now, but may come back
        return False
    return any(_has_exact_record(space, miss) for space in spaces)


def _has_exact_record(space: Space, miss: Miss) -> bool:
    """Whether a look-up finds an exact record of this kernel for a miss."""
    store = Store.of(space, None if miss.results is None else Path(miss.results))
    problem = miss.kind, miss.device, miss.sizes, miss.types
    records = [each for each in store.records if (each.kind, each.device, each.sizes, each.types) == problem]
    for architecture in {record.architecture for record in records}:
        backend = devices.BACKENDS[miss.kind]
        with contextlib.suppress(RequestError):  # the operation no longer has such a problem
            options = parsing.parse_options(miss.options, space.operation, miss.types)
            limits = backend.limits_of(architecture)
            scope = space.operation.scope(dict(miss.sizes), options, backend.language, limits, miss.types)
            conditions = Conditions(miss.conditions)
            about = miss.device, miss.kind, architecture, Version.of(space)
            query = Query(space, scope, *about, conditions=conditions)
            if store.look_up(query).is_exact:
                return True
    return False
