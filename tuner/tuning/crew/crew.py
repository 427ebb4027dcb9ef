"""The crew: workers for one or more devices of a kind, which share one search and one ledger."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tuner import devices
from tuner.devices import DeviceInfo
from tuner.devices.environment import NOT_STORED
from tuner.errors import EnvironmentTrouble, RequestError
from tuner.measure.process import scratch
from tuner.measure.process.attempts import with_retries
from tuner.measure.process.compile_pool import CompilePool
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.process.task import Task
from tuner.space.scope import Scope
from tuner.tuning.crew.run import POLL_SECONDS, CrewRun
from tuner.tuning.ledger.trial import RESUME

if TYPE_CHECKING:
    from tuner.measure.results import Outcome
    from tuner.search.search import Search
    from tuner.space.config import Config
    from tuner.space.model import Space
    from tuner.tuning.ledger.ledger import Ledger
    from tuner.tuning.progress import Progress

END_SECONDS = 5.0  # that threads have to end; a thread that still waits for a server is left running


class Crew:
    """A worker for each device, and compile workers for all of them. Call `close` at the end.

    In a block of `on` the crew works on one task. Only there `device`, `scope` and `lead` are valid: the description of
    the first device, the problem on it, and its worker. Devices and processes stay open between two blocks.
    """

    def __init__(self, task: Task, device_ids: Sequence[str], noted: Callable[[str], None]) -> None:
        """`task` is the first one. `noted` is called with messages for the user."""
        self.task = task
        self._noted = noted
        self._products = scratch.file()
        self._device_ids = device_ids
        first, *others = device_ids
        self.lead = Supervisor(task, first, self._products)
        self._workers = [self.lead, *(Supervisor(task, each, self._products, follows=True) for each in others)]
        self._compile_pool: CompilePool | None = None
        self.is_closed = False

    @contextlib.contextmanager
    def on(self, task: Task) -> Iterator[Crew]:
        """Enter a block in which the crew works on `task`. An error in it closes the crew.

        Entering raises DeviceError if a device cannot be used, RequestError if the devices differ in kind.
        """
        try:
            self._turn_to(task)
            yield self
        except EnvironmentTrouble as error:
            self.close()
            text = f"{error}; {RESUME}"
            raise EnvironmentTrouble(text, error.reason) from None
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def detour(self, task: Task) -> Iterator[None]:
        """Enter a block in which the lead alone works on `task`, a variant of its own one. Raises as `on` does."""
        own = self.lead.task
        self._lead_to(task)
        try:
            yield
        finally:
            self._lead_to(own)

    def _lead_to(self, task: Task) -> None:
        self.lead.settle()
        self._products.truncate(0)  # discard another task's products
        self._have_turn(self.lead, task)

    def _turn_to(self, task: Task) -> None:
        self.task = task
        for worker in self._workers:
            worker.settle()  # so that none writes products after the next line
        self._products.truncate(0)  # discard another task's products
        if self._compile_pool is None:
            self._compile_pool = with_retries(self._open_pool, self._noted)
        self._have_turn(self.lead)
        with ThreadPoolExecutor(len(self._workers)) as pool:
            try:
                list(pool.map(self._have_turn, self._workers[1:]))
            except BaseException:
                for worker in self._workers:  # so that leaving the thread pool does not wait for them
                    worker.kill()
                raise
        for worker in self._workers[1:]:
            _check_alike(self.lead, worker)
        self._compile_pool.switch_to(task.space, self.scope, self.device, self.lead.compiler)

    def _have_turn(self, worker: Supervisor, task: Task | None = None) -> None:
        with_retries(functools.partial(worker.switch_to, task or self.task), self._noted)

    def _open_pool(self) -> CompilePool:
        modules = devices.compiler_modules(self._device_ids[0], self.task.space)
        return CompilePool(self.task.timeout, self._device_ids, modules)

    def close(self) -> None:
        """Stop all processes. No block may follow."""
        self.is_closed = True
        processes = [*self._workers, *([self._compile_pool] if self._compile_pool is not None else [])]
        with ThreadPoolExecutor(len(processes)) as pool:  # a process that holds a device takes a while to end
            list(pool.map(lambda process: process.close(), processes))
        self._products.close()

    def build_ahead(self, configs: Sequence[Config]) -> None:
        """Start building the first of these configurations."""
        assert self._compile_pool is not None
        self._compile_pool.prepare(None, configs)

    def build(self, config: Config, space: Space | None = None) -> None:
        """Build a configuration, of another source of the kernel if `space` is given. Raises as `CompilePool.wait`."""
        assert self._compile_pool is not None
        space = space or self.task.space
        compiler = self.lead.compiler if space.compiler == self.task.space.compiler else None
        self._compile_pool.switch_to(space, self.scope, self.device, compiler)
        self._compile_pool.wait(config)

    def first_built(self, configs: Sequence[Config]) -> Config:
        """One of these configurations, of which `build_ahead` builds some: the first one that is built.

        Raises as `Supervisor.get_ready` does.
        """
        assert self._compile_pool is not None
        self.lead.get_ready()  # while builds go on
        while (config := self._compile_pool.first_built(configs, POLL_SECONDS)) is None:
            pass
        return config

    def measured(self, config: Config) -> Outcome:
        """The outcome of a configuration on the first device, beside any search. Raises as `CompilePool.wait` and
        `Supervisor.measure` do."""
        assert self._compile_pool is not None
        self.lead.get_ready()  # while builds go on
        self._compile_pool.wait(config)
        return self.lead.measure(config)

    @property
    def device(self) -> DeviceInfo:
        """The first device."""
        return self.lead.device

    @property
    def scope(self) -> Scope:
        """The problem on the first device."""
        return self.lead.scope

    @property
    def headers(self) -> str:
        """A digest of the user's headers that the task's builds read: see `Backend.surrounding`."""
        return devices.BACKENDS[self.device.kind].surrounding(self.task.space)

    def run(self, search: Search, ledger: Ledger, progress: Progress, given: bool = False) -> int:
        """Measure the configurations that the search asks for until it is over.

        `given` marks the trials as chosen by the caller instead of a search. Returns the number of trials, including
        those of earlier runs. An interrupt stops the workers and releases their claims. Raises RequestError if the
        ledger cannot be written, EnvironmentTrouble if no device is left or the machine stays in trouble.
        """
        assert self._compile_pool is not None
        run = CrewRun(self.task, self._compile_pool, search, ledger, progress, self._noted, given)
        try:
            for worker in self._workers:
                run.start(worker, self.lead)
            run.wait()
        finally:
            if run.at_work:
                run.stop()
                ledger.give_up()
                self._compile_pool.close()
                for worker in self._workers:
                    worker.kill()
                run.wait(END_SECONDS)
        if run.error is not None:
            raise run.error
        self._compile_pool.pause()  # what was dropped when the time was over need not be built
        if run.trouble is not None and all(t.outcome.failure in NOT_STORED for t in ledger.trials):
            raise run.trouble  # nothing was measured at all
        return run.count


def _check_alike(lead: Supervisor, other: Supervisor) -> None:
    for attribute in ("name", "toolchain", "conditions"):
        first, second = getattr(lead.device, attribute), getattr(other.device, attribute)
        if first != second:
            raise RequestError(
                f"{lead.device.id} is {first or 'as usual'}, {other.device.id} is {second or 'as usual'}: devices of "
                "different kinds do not share a study; tune on each by itself"
            )
