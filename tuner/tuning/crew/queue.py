"""The configurations of a search that are under way: asked for, claimed, and built ahead of the devices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tuner.measure.results import BUILD
from tuner.measure.timing.clock import StageWatch
from tuner.space.config import Config
from tuner.tuning.ledger.trial import Trial

if TYPE_CHECKING:
    from tuner.measure.process.compile_pool import CompilePool
    from tuner.search.strategies import Search
    from tuner.tuning.ledger.ledger import Ledger

LOOK_AHEAD = 256  # likely configurations that are considered for compiling ahead
READY = 1  # configurations that are built before a device needs them
POLL_SECONDS = 0.5  # between looks at the trials of other processes


class Queue:
    """The configurations of a search that are under way: asked for, claimed, and built ahead of the devices.

    A build may take longer than a measurement, so many are under way at once. `changed` guards them, and the search;
    threads that depend on the trials of others wait for it. `stopping` ends their waits.
    """

    def __init__(
        self,
        search: Search,
        ledger: Ledger,
        compile_pool: CompilePool,
        timeout: float,
        report: Callable[[Trial], None],
    ) -> None:
        """`report` is called with each trial that somebody else has made, while `changed` is held."""
        self._search, self._ledger, self._compile_pool = search, ledger, compile_pool
        self._timeout, self._report = timeout, report
        self.changed, self.stopping = threading.Condition(), False
        self._outstanding = 0  # configurations that this process has claimed
        self._ahead: list[Config] = []  # those of them that no device has
        self._retries: list[Config] = []  # asked for by the search before
        self._elsewhere: list[Config] = []  # claimed by other processes
        self._is_over = self._is_given_up = False

    def build_ahead(self) -> None:
        """Begin to build what the search is likely to ask for first."""
        with self.changed:
            self._compile_pool.prepare(None, self._likely())

    def give_up(self) -> None:
        """Ask for nothing more, and measure nothing but what a device has. `changed` is held."""
        self._is_given_up = True
        self._drop_ahead()

    def put_back(self, config: Config) -> None:
        """Give up a configuration that `take` gave: another device is to measure it. `changed` is held."""
        self._retries.append(config)
        self._ledger.release(config)
        self._outstanding -= 1

    def end(self, config: Config, trial: Trial | None) -> None:
        """Report the trial of a configuration that `take` gave; None where another process measures it."""
        with self.changed:
            self._outstanding -= 1
            if trial is not None:
                self._report(trial)
            else:
                self._elsewhere.append(config)
            self.changed.notify_all()

    def take(self, devices: int, watch: StageWatch) -> Config | None:
        """The next configuration to measure, claimed and built; None when the search is over.

        As many are under way as keep the devices busy: others are asked for until one, and READY more for each device,
        are built. `watch` hears how long the device has had to wait for a build.
        """
        while not self.stopping:
            with self.changed:
                self._drop_late()
                ahead = list(self._ahead)
            built = [config for config in ahead if self._compile_pool.is_ready(config)]
            if len(ahead) < self._compile_pool.depth and len(built) <= READY * devices and self._ask():
                continue
            with self.changed:
                for config in built:
                    if config in self._ahead:  # no other device has taken it
                        self._ahead.remove(config)
                        return config
                if self._is_over and not self._ahead:
                    return None
            if not built:
                with watch.stage(BUILD):
                    self._compile_pool.wait_for_any(ahead, POLL_SECONDS)
        return None

    def _drop_late(self) -> None:
        """Give up what is not measured when time is over, once anything is."""
        if self._ahead and self._search.is_late() and self._ledger.trials:
            self._drop_ahead()

    def _drop_ahead(self) -> None:
        for config in self._ahead:
            self._compile_pool.forget(config)
            self._ledger.release(config)
        self._outstanding -= len(self._ahead)
        self._ahead.clear()

    def _ask(self) -> bool:
        """Claim another configuration for this process, and begin to build it. False where there is none now."""
        while (config := self._next()) is not None:
            is_ours = self._ledger.claim(config, self._timeout)
            with self.changed:
                if is_ours:
                    self._ahead.append(config)
                    self.changed.notify_all()
                    return True
                self._compile_pool.forget(config)
                self._outstanding -= 1
                self._elsewhere.append(config)
        return False

    def _next(self) -> Config | None:
        """The next configuration without a trial, counted in `_outstanding`, and its build begun. None where the search
        is over; where it has to wait, and there is something to measure meanwhile; and where this process stops."""
        with self.changed:
            while not self.stopping:
                if self._is_given_up:
                    self._is_over = True
                    return None
                if self._ledger.shared:
                    self._read_news()
                if not self._retries and not self._search.ready():
                    if self._ahead:
                        return None
                    self._wait_for_search()
                    continue
                config = self._retries.pop() if self._retries else self._search.ask()
                if config is None:
                    self._is_over = not self._outstanding and not self._elsewhere and not self._retries
                    if self._is_over or self._ahead:
                        return None
                    self.changed.wait(POLL_SECONDS)
                    continue
                trial = self._trial(config)
                if trial is not None:
                    self._report(trial)
                    continue
                self._outstanding += 1
                self._compile_pool.prepare(config, self._likely())
                return config
        return None

    def _wait_for_search(self) -> None:
        """Let others have `changed` while the search thinks."""
        self.changed.release()
        try:
            self._search.wait(POLL_SECONDS)
        finally:
            self.changed.acquire()

    def _likely(self) -> Iterator[Config]:
        return (config for config in self._search.likely(LOOK_AHEAD) if self._trial(config) is None)

    def _trial(self, config: Config) -> Trial | None:
        return self._ledger.known(config, self._timeout)

    def _read_news(self) -> None:
        """Report the trials of other processes, and retry the configurations that they no longer claim."""
        for trial in self._ledger.news():
            if self._search.pool.find(trial.config) is not None:  # another process may have other restrictions
                self._report(trial)
        for config in list(self._elsewhere):
            if self._trial(config) is not None or not self._ledger.is_claimed(config):
                self._elsewhere.remove(config)
                self._retries.append(config)
