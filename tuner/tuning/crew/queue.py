"""The queue of a search: proposed configurations, claimed in the ledger and built before a device needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tuner.measure.results import BUILD
from tuner.measure.timing.clock import StageWatch
from tuner.space.config import Config
from tuner.tuning.ledger.trial import Trial

if TYPE_CHECKING:
    from tuner.measure.process.compile_pool import CompilePool
    from tuner.search.search import Search
    from tuner.tuning.ledger.ledger import Ledger

LOOK_AHEAD = 256  # likely configurations that the compile pool may build ahead
READY = 1  # built configurations in reserve for each device
POLL_SECONDS = 0.5  # interval of reading the trials of other processes


class Queue:
    """The configurations that a search has asked for and that have no trial yet.

    A build may take longer than a measurement, so many builds run at once. The condition `changed` guards the queue and
    the search; threads that depend on other threads' trials wait for it. Setting `stopping` ends all waits.
    """

    def __init__(
        self,
        search: Search,
        ledger: Ledger,
        compile_pool: CompilePool,
        timeout: float,
        report: Callable[[Trial], None],
    ) -> None:
        """`report` is called with each trial, of other processes and earlier runs too, while `changed` is held."""
        self._search, self._ledger, self._compile_pool = search, ledger, compile_pool
        self._timeout, self._report = timeout, report
        self.changed, self.stopping = threading.Condition(), False
        self._outstanding = 0  # configurations that this process has claimed
        self._ahead: list[Config] = []  # claimed, but not taken by a device yet
        self._retries: list[Config] = []  # to be claimed again, without asking the search
        self._elsewhere: list[Config] = []  # claimed by other processes
        self._is_over = self._is_given_up = False

    def build_ahead(self) -> None:
        """Start building the configurations that the search is likely to ask for first."""
        with self.changed:
            self._compile_pool.prepare(None, self._likely())

    def likely(self, count: int) -> list[Config]:
        """The configurations that the search is likely to ask for first, at most `count`."""
        with self.changed:
            return [*islice(self._likely(), count)]

    def give_up(self) -> None:
        """Ask for no more configurations, and drop those that no device has taken. The caller holds `changed`."""
        self._is_given_up = True
        self._drop_ahead()

    def put_back(self, config: Config, was_lost: bool = False) -> None:
        """Return a configuration from `take`, for another device to measure. `was_lost` is that of `Ledger.release`.
        The caller holds `changed`."""
        self._retries.append(config)
        self._ledger.release(config, was_lost)
        self._outstanding -= 1
        self.changed.notify_all()

    def end(self, config: Config, trial: Trial | None) -> None:
        """Report the trial of a configuration from `take`; None if another process measures it."""
        with self.changed:
            self._outstanding -= 1
            if trial is not None:
                self._report(trial)
            else:
                self._elsewhere.append(config)
            self.changed.notify_all()

    def take(self, devices: int, watch: StageWatch) -> Config | None:
        """The next configuration to measure, claimed and built; None when the search is over.

        To keep the devices busy, it asks for more until one configuration, and READY more for each of the `devices`,
        are built, but for at most the compile pool's depth. While the search needs results, it asks for at most one for
        each of the `devices`, and READY more. `watch` receives the time that the device waited for a build.
        """
        while not self.stopping:
            with self.changed:
                self._drop_late()
                ahead = list(self._ahead)
            built = [config for config in ahead if self._compile_pool.is_ready(config)]
            depth = self._compile_pool.depth
            most = min(depth, devices + READY) if self._search.needs_results() else depth
            if len(ahead) < most and len(built) <= READY * devices and self._ask():
                continue
            with self.changed:
                for config in built:
                    if config in self._ahead:  # not taken by another device meanwhile
                        self._ahead.remove(config)
                        return config
                if self._is_over and not self._ahead:
                    return None
            if not built:
                with watch.stage(BUILD):
                    left = self._search.seconds_left()  # what is late is dropped at once
                    self._compile_pool.wait_for_any(ahead, min(POLL_SECONDS, left or POLL_SECONDS))
        return None

    def _drop_late(self) -> None:
        """When the time is over, drop the configurations that no device has taken, unless there is no trial yet."""
        if self._ahead and self._search.is_late() and self._ledger.trials:
            self._drop_ahead()

    def _drop_ahead(self) -> None:
        for config in self._ahead:
            self._compile_pool.forget(config)
            self._ledger.release(config)
        self._outstanding -= len(self._ahead)
        self._ahead.clear()

    def _ask(self) -> bool:
        """Claim another configuration for this process, and start building it. False if there is none now."""
        while (config := self._next()) is not None:
            is_claimed = self._ledger.claim(config, self._timeout)
            with self.changed:
                if is_claimed:
                    self._ahead.append(config)
                    self.changed.notify_all()
                    return True
                self._compile_pool.forget(config)
                self._outstanding -= 1
                self._elsewhere.append(config)
        return False

    def _next(self) -> Config | None:
        """Start building the next configuration without a trial, count it in `_outstanding`, and return it.

        None if the search is over, if this process stops, or if the search needs time and the devices have other work.
        """
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
                config = self._retries.pop() if self._retries else self._asked()
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

    def _asked(self) -> Config | None:
        """What the search asks for. A build that would end after all others comes first."""
        late = self._compile_pool.late([config for config in self._search.rest(LOOK_AHEAD) if not self._trial(config)])
        if late is not None:
            self._search.advance(late)
        return self._search.ask()

    def _wait_for_search(self) -> None:
        """Release `changed` while the search computes its next configuration."""
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
        """Report the trials of other processes, and retry their configurations whose claims have ended."""
        for trial in self._ledger.news():
            if self._search.pool.find(trial.config) is not None:  # another process may use other restrictions
                self._report(trial)
        for config in list(self._elsewhere):
            if self._trial(config) is not None or not self._ledger.is_claimed(config):
                self._elsewhere.remove(config)
                self._retries.append(config)
