"""One call of `tune_kernel`: its space, the run, and the rows."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from kernel_tuner import util

from tuner import paths
from tuner.catalog import catalog
from tuner.classes import dataclass
from tuner.door import observation, results, roles, spaces, verification
from tuner.door.cache_file import CacheFile
from tuner.door.calls import arguments as call_arguments
from tuner.door.calls import compiler_options, geometry, script_restrictions
from tuner.door.calls.arguments import ScriptArgument
from tuner.door.calls.call import Call
from tuner.door.calls.goal import Goal
from tuner.door.display import Display
from tuner.door.results import Row
from tuner.errors import NoConfiguration, RequestError
from tuner.measure.method import Method
from tuner.measure.timing.clock import NOISE
from tuner.measure.verify.comparison import UNWRITTEN
from tuner.space.config import Config
from tuner.space.model import Space
from tuner.space.python import written_files
from tuner.space.python.space import PythonSpace
from tuner.space.scope import Scope
from tuner.tuning.crew.crews import Crews
from tuner.tuning.driver import Result, tune_with
from tuner.tuning.request import CheckedRequest, TuningRequest

UNOPTIMISED = "compiled without optimisation, as by Kernel Tuner; pass compiler_options=['-O3'] to have it"
ACCEPTS_ZEROS = "no element of the answer of {name} is over atol={atol:g}: zeros pass, too; pass atol={less:.0e}, say"
ACCEPTS_OTHER_INTEGERS = (
    "elements of the answer of {name} reach {largest}: with rtol={rtol:g}, as in Kernel Tuner, integers that differ "
    "from them by {difference} pass, too; pass verify=, a function that compares them exactly"
)
CHOSEN_ANEW = (
    "the {count} rows of {path} stay there, but what the strategy chooses is measured again, and only that is returned"
)
CONTENT_IS_NEEDED = (
    "some configurations are right only if their outputs hold what the script passes: all are measured again, on "
    "restored outputs"
)


@dataclass(frozen=True)
class Session:
    """A call of `tune_kernel` with the arguments of these names."""

    call: Call
    restrictions: Any
    answer: Sequence[Any] | None
    atol: float
    verify: Callable[..., Any] | None
    observers: Sequence[Any] | None
    metrics: Mapping[str, Any] | None
    goal: Goal
    quiet: bool = False
    verbose: bool = False
    is_partial: bool = False  # whether a strategy or a limit chooses what is measured: then no other rows are returned

    def run(
        self, request: TuningRequest, cache: str | os.PathLike[str] | None, store: Path | None
    ) -> tuple[list[Row], dict[str, Any]]:
        """Tune, and return rows and environment. `request` lacks the kernel.

        cache: the file of earlier rows. With a `store` they are measured again, because its record needs them; so is
            what a strategy or a limit chooses, because the search must be free to choose what the file has.
        store: the folder that keeps the space; a temporary one if None.
        """
        if self.call.language == "c" and spaces.returned(self.call) == "double":
            name = self.call.kernel_name
            raise RequestError(f"kernel_source: {name} returns a double; return a float, which Kernel Tuner reads")
        began = time.perf_counter()
        display = Display(self.call, self.metrics, self.quiet, self.verbose)
        with _folder(store, self.call.kernel_name) as folder, Crews(display.noted) as crews:
            if store is None:  # nothing may be left of a space whose files are temporary
                request = replace(request, results=folder / "results")
            build = functools.partial(self._space, call_arguments.passed(self.call), folder, store)
            observers = observation.written(self.observers, self.call, folder)
            if observers:
                request = replace(request, method=replace(request.method, observers=observers, race=False))
            checked = CheckedRequest.of(replace(request, kernel=build((), {})[1]))
            if store is None and compiler_options.is_unoptimised(self.call):
                display.noted(UNOPTIMISED)  # a space that is kept has tuner's own options
            for note in self._accepted():
                display.noted(note)
            poisoned = self._poisoned(build, checked, crews)
            file, device, cached = None, None, dict[tuple[Any, ...], Row]()
            if cache is not None:
                with crews.on(checked.task, checked.device_ids) as crew:
                    device, file = crew.device, CacheFile(cache, self.call, crew.device.name)
                    is_read = not request.fresh and store is None and not self.is_partial
                    cached = self._valid(file.rows, checked.task.space, crew.scope) if is_read else {}
                if self.is_partial and file.rows:
                    display.noted(CHOSEN_ANEW.format(count=len(file.rows), path=file.path))
                file.begin([self.goal.objective])
                # What is wrong on poisoned outputs may be right on restored ones: it is not known until the end.
                keep = functools.partial(_add_right, file) if poisoned else file.add
                display = replace(display, keep=keep)
            kernel = _kept(*build(poisoned, cached), store)
            result = self._tuned(replace(request, kernel=kernel), crews, display, bool(cached))
            if poisoned and result is not None and roles.need_content(crews, checked, _wrong(result)):
                display.noted(CONTENT_IS_NEEDED)
                kernel = _kept(*build((), cached), store)
                display = display if file is None else replace(display, keep=file.add)
                result = self._tuned(replace(request, kernel=kernel), crews, display, bool(cached))
        rows = [*cached.values(), *map(display.row, result.trials if result is not None else ())]
        if file is not None:
            file.end(rows, [self.goal.objective])
        found = device if result is None else result.device
        iterations = request.method.repeats
        env = {} if found is None else results.environment(found, self.call, self.goal.objective, iterations)
        env |= self._best(result, rows)
        display.ended(rows, env, self.goal.objective)
        return rows, util.get_total_timings(rows, env, 1e3 * (time.perf_counter() - began))

    def _accepted(self) -> Iterator[str]:
        """A note for each answer of which the tolerance accepts zeros, because all elements are small, or other
        integers, because some are large."""
        if self.verify is not None:
            return
        for name, content in call_arguments.answers(self.call, call_arguments.passed(self.call), self.answer).items():
            if not content.size or content.dtype.kind not in "fciu":
                continue
            is_whole = content.dtype.kind in "iu"  # whose abs() of the least is no positive number
            largest = max(int(content.max()), -int(content.min())) if is_whole else float(np.max(np.abs(content)))
            if 0 < largest <= self.atol:
                yield ACCEPTS_ZEROS.format(name=name, atol=self.atol, less=largest / 1000)
            elif is_whole and spaces.RELATIVE * largest >= 1:
                difference = int(spaces.RELATIVE * largest + self.atol)
                yield ACCEPTS_OTHER_INTEGERS.format(
                    name=name, largest=largest, rtol=spaces.RELATIVE, difference=difference
                )

    def _space(
        self,
        arguments: Sequence[ScriptArgument],
        folder: Path,
        store: Path | None,
        poisoned: Collection[str],
        cached: Mapping[tuple[Any, ...], Row],
    ) -> tuple[PythonSpace, Space]:
        """The space, and what is tuned. `poisoned` are the arrays that are so before each run; what is `cached` is
        left out."""
        restrictions = script_restrictions.listed(self.restrictions)
        if cached:
            names = list(self.call.parameters)
            restrictions = [*restrictions, lambda config: tuple(config[name] for name in names) not in cached]
        answers = {} if self.verify is not None else call_arguments.answers(self.call, arguments, self.answer)
        derive = None
        if self.verify is not None:
            derive = verification.derive(self.verify, self.answer, self.atol, self.call, arguments, folder)
        place = "scripts" if store is None else store.resolve().name
        name = f"{place}/{written_files.stem(self.call.kernel_name)}"
        return spaces.space(self.call, arguments, answers, derive, self.atol, poisoned, restrictions, folder, name)

    def _poisoned(
        self,
        build: Callable[[Collection[str], Mapping[tuple[Any, ...], Row]], tuple[PythonSpace, Space]],
        checked: CheckedRequest,
        crews: Crews,
    ) -> frozenset[str]:
        """The arrays with an answer whose content before a run the kernel does not need."""
        names = frozenset(
            argument.name
            for argument, wanted in zip(checked.task.space.operation.arguments, self.answer or (), strict=False)
            if wanted is not None and argument.role == "inout"
        )
        if not names:
            return names
        poisoned = replace(checked.task, space=build(names, {})[1], method=Method(repeats=1))
        return names if roles.may_be_poisoned(crews, checked, poisoned) else frozenset()

    def _valid(self, rows: Mapping[tuple[Any, ...], Row], space: Space, scope: Scope) -> dict[tuple[Any, ...], Row]:
        """The rows of valid configurations: the file may be of a call with other values, restrictions or metrics."""
        names = list(self.call.parameters)
        return {
            values: results.with_metrics(row, self.call, self.metrics)
            for values, row in rows.items()
            if space.valid(dict(zip(names, values, strict=True)), scope)
        }

    def _tuned(self, request: TuningRequest, crews: Crews, display: Display, has_others: bool) -> Result | None:
        """The result; None if all valid configurations are known already.

        If all configurations of an earlier call failed, they are measured again: the script may have another answer,
        whose content is no part of the problem.
        """
        began = datetime.now(UTC)
        try:
            result = tune_with(crews, replace(request, fresh=request.fresh or self.is_partial), display)
            failed = [trial for trial in result.trials if trial.outcome.failure is not None]
            is_old = any(trial.finished is not None and trial.finished.astimezone(UTC) < began for trial in failed)
            if is_old and len(failed) == len(result.trials):
                display.noted("all configurations of an earlier call failed: they are measured again")
                return tune_with(crews, replace(request, fresh=True), display)
            return result
        except NoConfiguration:
            if not has_others:
                raise
            return None

    def _best(self, result: Result | None, rows: Sequence[Row]) -> dict[str, Any]:
        """The entry of the best row; empty if there is none."""
        best = results.best(rows, self.goal.objective, self.goal.is_higher_better)
        is_time = self.goal.objective == "time" and not self.goal.is_higher_better
        if is_time and result is not None and result.record is not None:  # the finals tell better than single trials
            own = geometry.own(result.record.config, self.call)
            ours = next((row for row in rows if all(row[name] == value for name, value in own.items())), None)
            if ours is not None and best is not None and best.get("time", 0.0) >= (1 - NOISE) * ours["time"]:
                best = ours
        return {} if best is None else {"best_config": best}


def _wrong(result: Result) -> list[Config]:
    """The configurations whose result is wrong: first those that left an element unwritten, which are likely to be
    right where that holds what the script passes."""
    wrong = [trial for trial in result.failures if trial.outcome.rejection is not None]
    return [trial.config for trial in sorted(wrong, key=lambda trial: UNWRITTEN not in trial.outcome.log)]


def _add_right(file: CacheFile, row: Row) -> None:
    if not isinstance(row.get("__error__"), results.WrongResultConfig):
        file.add(row)


@contextlib.contextmanager
def _folder(store: Path | None, kernel_name: str) -> Iterator[Path]:
    """The folder of the space's files: one in `store`, or a temporary one."""
    if store is None:
        with tempfile.TemporaryDirectory(prefix="tuner-", dir=paths.temporary()) as temporary:
            yield Path(temporary)
    else:
        folder = store.resolve() / f"{written_files.stem(kernel_name)}.files"
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def _kept(space: PythonSpace, tuned: Space, store: Path | None) -> Space:
    """What is tuned; with a `store`, it is read from the file that this keeps."""
    if store is None:
        return tuned
    if tuned.generated is not None:
        raise RequestError(
            "store: `kernel_source` or `defines` gives each configuration a source of its own, which no space file can "
            "hold; leave `store` out"
        )
    if tuned.computed:
        raise RequestError("store: functions compute the grid, which no space file can hold; leave `store` out")
    file = store.resolve() / f"{space.name.rpartition('/')[2]}.yaml"
    space.to_yaml(file)
    return catalog.load(str(file))
