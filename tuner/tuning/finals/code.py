"""The code of finalists: which of them have equal machine code, so that only noise makes their times differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner import devices
from tuner.space.config import config_key
from tuner.space.instance import Instance

if TYPE_CHECKING:
    from tuner.measure.process.supervisor import Supervisor
    from tuner.space.config import Config, ConfigKey


class Code:
    """Tells whether configurations of a worker's problem certainly have the same code and launch, by cached builds."""

    def __init__(self, worker: Supervisor) -> None:
        self._worker, self._builds = worker, devices.cached_builds(worker.device)
        self._known: dict[frozenset[ConfigKey], bool] = {}

    def is_same(self, one: Config, other: Config) -> bool:
        """Whether two configurations certainly have the same code and launch. False if that could not be proven."""
        from tuner.devices.builds import equal_code

        pair = frozenset((config_key(one), config_key(other)))
        if pair not in self._known:
            space, scope = self._worker.task.space, self._worker.scope
            first, second = (Instance(space, config, scope) for config in (one, other))
            self._known[pair] = equal_code.is_same(first, second, self._builds)
        return self._known[pair]
