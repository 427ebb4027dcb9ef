"""The rows of one stage: what the published constants and the tuned configuration take, in the same rounds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuner.errors import SpaceError, TrialError, TunerError, WorkerDied
from tuner.experiments.published import PublishedRow
from tuner.experiments.results import Measurement, Reproduced
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.results import Final
from tuner.space import operation
from tuner.space.model import Config, size_text
from tuner.store.lookup import Asked
from tuner.store.store import Record, Store
from tuner.tuning import driver


@dataclass(frozen=True)
class ReproductionRequest:
    """How to reproduce. `tune`: search where the store has no record of the size, `budget` being what each search may
    spend; `small`: at the small sizes; `timeout` is in seconds, for one configuration (None: what its device needs)."""

    device: str | None = None
    budget: str | None = None
    tune: bool = True
    small: bool = False
    timeout: float | None = None
    results: Path | None = None


class Audience(Protocol):
    """Told what is measured, and asked who listens to a search."""

    def say(self, text: str) -> None: ...

    def listener(self) -> AbstractContextManager[driver.Progress]: ...


class Stage:
    """The rows of one stage at one size, on a device that is open."""

    def __init__(
        self, worker: Supervisor, rows: Sequence[PublishedRow], request: ReproductionRequest, audience: Audience
    ) -> None:
        self._worker, self._rows, self._request, self._audience = worker, rows, request, audience
        self._space, self._scope, self._device = worker.task.space, worker.scope, worker.device
        self._finals: list[tuple[Config, Final, Final | None]] = []

    def reproduced(self) -> list[Reproduced]:
        """The rows, measured."""
        where = f"{self._space.name} at {size_text(self._scope.sizes)} on {self._device.name}"
        self._audience.say(f"{where}, for {len(self._rows)} published row{'s' * (len(self._rows) > 1)}")
        tuned, origin = self._tuned()
        self._audience.say(f"  tuned: {origin}")
        wanted = [row.config for row in self._rows if self._broken(row.config) is None] + ([tuned] if tuned else [])
        self._measure([config for position, config in enumerate(wanted) if config not in wanted[:position]])
        made = []
        for row in self._rows:
            constants = self._measured(row, row.config)
            best = self._measured(row, tuned) if tuned else Measurement(reason=origin)
            library = self._library(row.config) or (self._library(tuned) if tuned else None)
            name, time_ms = (library.library, library.time_ms) if library else (None, None)
            made.append(Reproduced(row, constants, best, origin, self._device, self._scope, name, time_ms))
        return made

    def _tuned(self) -> tuple[Config | None, str]:
        """The best configuration known for this size on this device, and where it is from; or why there is none."""
        stored = self._stored()
        if stored is not None:
            return stored.config, f"the store's record, of {stored.evaluated} of {stored.configurations} configurations"
        if not self._request.tune:
            return None, "the store has no record of this size, and --no-tune leaves out the search"
        stage = self._rows[0].stage
        assert stage is not None
        kernel = str(self._space.files[0]) if stage.endswith((".yaml", ".yml")) else stage
        request = driver.TuningRequest(
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
        config = (self._stored() or result.record).config
        return config, f"searched for now, {result.evaluated} of {result.configurations} configurations"

    def _stored(self) -> Record | None:
        """The record of this size on this device, if its best is what is launched here."""
        store = Store(self._space.name, self._request.results)
        found = store.look_up(Asked.of(self._space, self._scope, self._device))
        record = found.record
        exact = found.match == "exact" and not found.stale and record is not None and record.is_plain
        return record if record is not None and exact and record.config == found.config else None

    def _broken(self, config: Config) -> str | None:
        """Why the configuration cannot be used here, if so."""
        try:
            self._space.checked(config, self._scope)
        except SpaceError as error:
            return str(error)
        return None

    def _measure(self, configs: Sequence[Config]) -> None:
        """Verify and measure the configurations in the same rounds; each by itself where one takes the others down."""
        if not configs:
            return
        try:
            finals = self._worker.finals(configs)
            self._finals += [(c, f, finals.library) for c, f in zip(configs, finals.candidates, strict=True)]
        except (WorkerDied, TrialError) as error:
            if len(configs) == 1:
                self._finals.append((configs[0], Final(failure=f"{error.reason}: {error}"), None))
                return
            for config in configs:
                self._measure([config])

    def _library(self, config: Config) -> Final | None:
        return next((library for one, _, library in self._finals if one == config), None)

    def _measured(self, row: PublishedRow, config: Config) -> Measurement:
        broken = self._broken(config)
        if broken is not None:
            return Measurement(config, reason=broken)
        final = next(final for one, final, _ in self._finals if one == config)
        library = self._library(config)
        names = self._space.names(config, self._scope)
        loads = int(row.loads.counted.evaluate(names)) if row.loads else None
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
