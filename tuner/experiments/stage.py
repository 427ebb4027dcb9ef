"""Measure one stage: its published constants and its tuned configuration, in the same rounds."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tuner.classes import dataclass
from tuner.errors import SpaceError, TrialError, TunerError, WorkerDied
from tuner.experiments.experiment import PublishedRow
from tuner.experiments.results import Measurement, RowResult
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.results import Final
from tuner.space import operation
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.instance import Instance, checked
from tuner.space.texts import size_text
from tuner.store.lookup import Query
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.tuning import driver
from tuner.tuning.progress import Progress
from tuner.tuning.request import TuningRequest


@dataclass(frozen=True)
class ReproductionRequest:
    """How to reproduce an experiment.

    tune: search, with `budget`, if the store has no record of the size.
    small: measure at the small sizes.
    timeout: seconds per configuration; None for the default of its language.
    results: the user's store.
    """

    device: str | None = None
    budget: str | None = None
    tune: bool = True
    small: bool = False
    timeout: float | None = None
    results: Path | None = None


class Audience(Protocol):
    """Receives progress messages, and supplies a progress listener for each search."""

    def say(self, text: str) -> None: ...

    def listener(self) -> AbstractContextManager[Progress]: ...


class Stage:
    """The rows of one stage at one size, measured by a worker on its device."""

    def __init__(
        self, worker: Supervisor, rows: Sequence[PublishedRow], request: ReproductionRequest, audience: Audience
    ) -> None:
        self._worker, self._rows, self._request, self._audience = worker, rows, request, audience
        self._space, self._scope, self._device = worker.task.space, worker.scope, worker.device
        self._instances: dict[ConfigKey, Instance | str] = {}  # why a configuration is invalid, in place of an Instance
        self._finals: dict[ConfigKey, tuple[Final, Final | None]] = {}  # with the library's in the same rounds

    def measure(self) -> list[RowResult]:
        """Measure all rows."""
        problem = f"{self._space.name} at {size_text(self._scope.sizes)} on {self._device.name}"
        self._audience.say(f"{problem}, for {len(self._rows)} published row{'s' * (len(self._rows) > 1)}")
        tuned, origin = self._tuned()
        self._audience.say(f"  tuned: {origin}")
        configs = [row.config for row in self._rows if isinstance(self._instance(row.config), Instance)]
        configs += [tuned] if tuned else []
        self._time(list({config_key(config): config for config in configs}.values()))
        results = []
        for row in self._rows:
            constants = self._measurement(row, row.config)
            best = self._measurement(row, tuned) if tuned else Measurement(reason=origin)
            library = self._library(row.config) or (self._library(tuned) if tuned else None)
            name, time_ms = (library.library, library.time_ms) if library else (None, None)
            results.append(RowResult(row, constants, best, origin, self._device, self._scope, name, time_ms))
        return results

    def _tuned(self) -> tuple[Config | None, str]:
        """The best configuration for this size and device, from the store or a search, and its origin; or None and the
        reason."""
        record = self._record()
        if record is not None:
            tried = f"{record.evaluated} of {record.configurations} configurations tried"
            return record.config, f"the store's record, {tried}"
        if not self._request.tune:
            return None, "the store has no record of this size, and --no-tune forbids a search"
        stage = self._rows[0].stage
        assert stage is not None
        kernel = str(self._space.files[0]) if stage.endswith((".yaml", ".yml")) else stage
        request = TuningRequest(
            kernel,
            ",".join(f"{name}={value}" for name, value in self._scope.sizes.items()),
            self._device.id,
            budget=self._request.budget,
            timeout=self._worker.task.timeout,
            results=self._request.results,
        )
        try:
            with self._audience.listener() as listener:
                result = driver.tune(request, listener)
        except TunerError as error:
            return None, str(error)
        if result.record is None:
            return None, f"none of {result.evaluated} configurations is valid"
        config = (self._record() or result.record).config
        return config, f"a search now, {result.evaluated} of {result.configurations} configurations tried"

    def _record(self) -> Record | None:
        """The record of this size on this device, if a launch would use its best configuration."""
        store = Store.of(self._space, self._request.results)
        best = store.look_up(Query.of(self._space, self._scope, self._device))
        record = best.record
        return record if record and best.is_exact and record.is_plain and record.config == best.config else None

    def _instance(self, config: Config) -> Instance | str:
        """The instance of `config`; if it is invalid for this problem and device, why."""
        key = config_key(config)
        if key not in self._instances:
            try:
                self._instances[key] = checked(self._space, config, self._scope)
            except SpaceError as error:
                self._instances[key] = str(error)
        return self._instances[key]

    def _time(self, configs: Sequence[Config]) -> None:
        """Verify and time `configs` in the same rounds; each by itself if one of them kills the worker."""
        if not configs:
            return
        try:
            finals = self._worker.finals(configs)
            for config, final in zip(configs, finals.candidates, strict=True):
                self._finals[config_key(config)] = final, finals.library
        except (WorkerDied, TrialError) as error:
            if len(configs) == 1:
                self._finals[config_key(configs[0])] = Final(failure=f"{error.reason}: {error}"), None
                return
            for config in configs:
                self._time([config])

    def _library(self, config: Config) -> Final | None:
        """The vendor library's times in the rounds of `config`; None if it was not measured there."""
        return self._finals.get(config_key(config), (None, None))[1]

    def _measurement(self, row: PublishedRow, config: Config) -> Measurement:
        """The measurement of `config`, with its number of loads from global memory if the row counts them."""
        instance = self._instance(config)
        if isinstance(instance, str):
            return Measurement(config, reason=instance)
        final, library = self._finals[config_key(config)]
        loads = int(row.loads.counted.evaluate(instance.names)) if row.loads else None
        if final.failure is not None:
            return Measurement(config, loads=loads, reason=final.failure, failed=True)
        return Measurement(
            config=config,
            time_ms=final.time_ms,
            spread=final.spread,
            gflops=operation.gflops(self._space.operation, self._scope, final.time_ms),
            vs_library=library.time_ms / final.time_ms if library else None,
            loads=loads,
        )
