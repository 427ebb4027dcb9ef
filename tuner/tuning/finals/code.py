"""The code of finalists: which of them have equal machine code, so that only noise makes their times differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner import devices
from tuner.errors import DeviceError, EnvironmentTrouble, SpaceError
from tuner.space.config import config_key
from tuner.space.instance import Instance

if TYPE_CHECKING:
    from tuner.devices.builds.build import Build
    from tuner.devices.builds.compiler import Compiler
    from tuner.measure.process.supervisor import Supervisor
    from tuner.space.config import Config, ConfigKey
    from tuner.space.sources.source import Source


class Code:
    """Tells whether configurations of a worker's problem certainly have the same code and launch, by cached builds."""

    def __init__(self, worker: Supervisor) -> None:
        self._worker = worker
        self._builds: dict[Source, Build | None] = {}
        self._known: dict[frozenset[ConfigKey], bool] = {}
        try:
            device = worker.device
            self._compiler: Compiler | None = devices.compiler_for(device.kind, device.architecture)
        except DeviceError:
            self._compiler = None  # the text of the sources may still tell

    def is_same(self, one: Config, other: Config) -> bool:
        """Whether two configurations certainly have the same code and launch. False if that could not be proven."""
        from tuner.devices.builds import equal_code

        pair = frozenset((config_key(one), config_key(other)))
        if pair not in self._known:
            space, scope = self._worker.task.space, self._worker.scope
            first, second = (Instance(space, config, scope) for config in (one, other))
            try:
                self._known[pair] = equal_code.is_same(first, second, self._cached)
            except (DeviceError, EnvironmentTrouble, SpaceError):
                self._known[pair] = False
        return self._known[pair]

    def _cached(self, source: Source) -> Build | None:
        if source not in self._builds:
            self._builds[source] = None if self._compiler is None else self._compiler.cached(source)
        return self._builds[source]
