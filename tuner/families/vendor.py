"""The vendor library as a member of a family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tuner.devices import Device
from tuner.devices.arguments import check_count
from tuner.devices.product import ProductLaunch
from tuner.families import products
from tuner.families.beside import BesideWork
from tuner.space import parsing
from tuner.space.config import Config
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.store.lookup import Candidate, Match
from tuner.store.record import Record

MOST_FACTORS = 64  # sets of options whose alpha and beta are cached


class LibraryKernel:
    """The vendor library's routine for one problem, called like a `Kernel`. `record` is the record with its time,
    `because` the reason why it runs, if its match does not say it. `at` is that of its `ProductLaunch`. The candidate
    has a configuration if `space` is of the library (`is_of_library`), whose algorithm then runs."""

    besides = ""  # what else a caller should know of the choice

    def __init__(
        self,
        space: Space,
        scope: Scope,
        device: Device,
        candidate: Candidate,
        launch: ProductLaunch,
        because: str = "",
    ) -> None:
        self.because = because
        self.space, self.scope, self.device, self.candidate = space, space.operation.own(scope), device, candidate
        self._launch, self.at = launch
        self._count, self._plain = len(space.operation.arrays), _factors(self.scope)
        self._factors: dict[str, tuple[float, float]] = {}

    @property
    def name(self) -> str:
        """`library`, with the library's name and version if they are known; the name of its space if that is of the
        library."""
        if self.candidate.config:
            return self.space.name
        record = self.record
        return f"library ({record.library})" if record is not None and record.library else "library"

    @property
    def config(self) -> Config:
        return dict(self.candidate.config)

    @property
    def match(self) -> Match:
        return self.candidate.match

    @property
    def record(self) -> Record | None:
        return self.candidate.record

    def __call__(self, *arrays: Any, stream: Any = None, **options: float) -> None:
        """Enqueue the routine on these arrays, as `Kernel.__call__` does, with the same errors."""
        factors = self._plain if not options else self._factors.get(repr(options)) or self._of(options)
        if len(arrays) != self._count:
            check_count(products.specs(self.space, self.scope), arrays)
        self._launch(arrays, stream, *factors)

    def check(self, *arrays: Any) -> None:
        """Raise ArgumentError if the number of arrays is wrong; a call checks the rest."""
        check_count(products.specs(self.space, self.scope), arrays)

    def _of(self, options: Mapping[str, float]) -> tuple[float, float]:
        """Alpha and beta for these options, cached because programs repeat them."""
        values = {**self.scope.options, **parsing.parse_options(options, self.space.operation, self.scope.types)}
        for name in self.scope.options.keys() - options.keys():
            values[name] = self.scope.options[name]
        if len(self._factors) >= MOST_FACTORS:
            self._factors.clear()
        factors = self._factors[repr(options)] = _factors(replace(self.scope, options=values))
        return factors

    def __repr__(self) -> str:
        return f"<the vendor's library on {self.device.name}, {self.match}>"


def _factors(scope: Scope) -> tuple[float, float]:
    """Alpha and beta as a kernel of the operation gets them."""
    return scope.passed_options["alpha"], scope.passed_options["beta"]


class Substitute(LibraryKernel):
    """The library in place of a kernel that is being built. Once the build has ended, the first call that no graph
    captures calls `ended` with its arrays, after it has enqueued the routine."""

    def substitutes(self, work: BesideWork, ended: Callable[[tuple[Any, ...]], None]) -> None:
        """Wait for this work."""
        self._work, self._ended = work, ended

    def __call__(self, *arrays: Any, stream: Any = None, **options: float) -> None:
        super().__call__(*arrays, stream=stream, **options)
        if self._work.is_done and self.device.lane(stream, arrays[0]) is not None:
            self._ended(arrays)


def load(
    space: Space,
    scope: Scope,
    device: Device,
    candidate: Candidate,
    because: str = "",
    kind: type[LibraryKernel] = LibraryKernel,
) -> LibraryKernel | None:
    """The library's routine for the operation of `space`, as a `kind`; None if there is none or the library is not
    installed. If the candidate has a configuration, that is the library's algorithm."""
    plan = products.product(space, scope)
    algorithm = candidate.config.get("algorithm")
    number = algorithm if isinstance(algorithm, int) else None
    launch = device.product(plan, products.specs(space, scope), number) if plan is not None else None
    return None if launch is None else kind(space, scope, device, candidate, launch, because)
