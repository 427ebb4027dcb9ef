"""The user's request to tune a kernel, and the same request after it was checked."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.catalog import catalog, kernel_names
from tuner.classes import dataclass
from tuner.errors import NoConfiguration, OptionError, OutOfMemory
from tuner.measure.method import STANDARD, TIMEOUT, Method, check_timeout
from tuner.measure.process.task import Task
from tuner.search import strategies
from tuner.search.budget import Budget
from tuner.space.chosen import Chosen
from tuner.space.model import Space
from tuner.space.texts import number_text
from tuner.store.store import Store
from tuner.tuning.ledger.address import EXAMPLES

UNTUNABLE = (NoConfiguration, OutOfMemory)  # errors of one problem, which do not stop a run over several


def why_untunable(kernel: str, error: NoConfiguration | OutOfMemory) -> str:
    """The message for whoever names the kernel: only that of NoConfiguration begins with its name."""
    return str(error).removeprefix(f"{kernel}: ")


@dataclass(frozen=True)
class TuningRequest:
    """A kernel, its problem, and how to search. None means the default."""

    kernel: str | Space
    size: str | None  # None: the operation's default sizes
    device: str | None = None  # one, several separated by commas, or `all`
    options: Mapping[str, float] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    strategy: str | None = None
    budget: str | None = None
    seed: int = 0
    method: Method = STANDARD
    timeout: float = TIMEOUT
    fresh: bool = False
    verify: int | None = None  # compared runs of the best
    sustained: bool = False  # whether the best also runs back to back for some seconds
    same_bits_as: str | None = None  # `default`, `record` or a configuration: only those with the same outputs
    cluster: str | None = None  # the address of a scheduler of Dask or Ray, whose workers measure
    storage: str | None = None  # the URL of a database, for machines that share one search
    results: Path | None = None
    log: bool = True  # whether what the search measures is kept beside the record
    quick: bool = False  # fewer rounds in the finals, which measure nothing again as in the search
    strategy_options: Mapping[str, Any] | None = None  # of a strategy of Kernel Tuner, which then runs once, as there

    def command(self, kernel: str, device: str) -> str:
        """The command line of this request, such as `tune sgemm/06_tiled 4096 --device cuda:0 --budget 50`.

        It leaves out options at their defaults, the database, whose URL may contain a password, and this machine's
        folders.
        """
        method = self.method
        words = ["tune", kernel, *([self.size] if self.size else []), "--device", self.device or device]
        words += [word for name, value in self.options.items() for word in ("--set", f"{name}={number_text(value)}")]
        words += [word for name, value in self.types.items() for word in ("--type", f"{name}={value}")]
        words += ["--sustained"] * self.sustained
        given = [
            ("--strategy", self.strategy, None),
            ("--budget", self.budget, None),
            ("--seed", self.seed, 0),
            ("--repeats", method.repeats, STANDARD.repeats),
            ("--verify", self.verify, None),
            ("--same-bits-as", self.same_bits_as, None),
            ("--timeout", self.timeout, TIMEOUT),
            ("--as", method.deployment, method.deployment if method.cold else STANDARD.deployment),
            ("--objective", ",".join(method.objectives), ",".join(STANDARD.objectives)),
        ]
        words += [word for name, value, default in given if value != default for word in (name, str(value))]
        flags = ("--full", not method.race), ("--flush", method.cold), ("--fresh", self.fresh)
        words += [flag for flag, is_set in flags if is_set]
        return shlex.join(words)


@dataclass(frozen=True)
class CheckedRequest:
    """A request that was checked, as far as possible without a device.

    `device_ids` are names of this machine's devices, or, with a cluster, kinds or names that its machines may have.
    """

    request: TuningRequest
    task: Task
    device_ids: list[str]
    budget: Budget
    store: Store

    @staticmethod
    def of(request: TuningRequest) -> CheckedRequest:
        """Check a request. Raises RequestError if it is wrong.

        Imports nothing slow, so that the user sees the error at once.
        """
        space = catalog.load(request.kernel)
        chosen = Chosen.parse(space.operation, request.size, request.options, request.types)
        check_timeout(request.timeout)
        budget = Budget.parse(request.budget)
        strategies.check(request.strategy, len(request.method.objectives))
        if request.storage == "":
            raise OptionError(f"'': empty; write a URL such as {EXAMPLES}", "storage")
        store = Store.of(space, request.results)
        store.check_writable()
        task = Task(space, chosen.sizes, chosen.options, request.method, request.timeout, chosen.types)
        if request.cluster is None:
            names = devices.several(space, request.device)
        else:
            from tuner.tuning.crew import cluster  # few runs need one

            cluster.checked(request.cluster)
            names = devices.elsewhere(space, request.device)
        return CheckedRequest(request, task, names, budget, store)


def requests_at(request: TuningRequest, spaces: Iterable[Space], sizes: dict[str, int]) -> dict[str, TuningRequest]:
    """`request` for each of `spaces` at one size, by the space's name."""
    size = ",".join(f"{name}={value}" for name, value in sizes.items())
    return {space.name: replace(request, kernel=kernel_names.address(space), size=size) for space in spaces}
