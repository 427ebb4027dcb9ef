"""Builds an instance: its sources are rendered, compiled or read from the cache, and checked against the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.devices.builds import figures
from tuner.devices.builds.figures import Figures
from tuner.errors import ResourceError
from tuner.space.sources.rendering import render

if TYPE_CHECKING:
    from tuner.devices.builds.build import Build
    from tuner.devices.builds.compiler import Compiler
    from tuner.space.instance import Instance
    from tuner.space.sources.source import Source, StepSource


@dataclass(frozen=True)
class Built:
    """A built instance that fits the device's limits: its steps, and the build of each source."""

    instance: Instance
    steps: tuple[StepSource, ...]
    builds: Mapping[Source, Build]
    is_trial: bool = False  # whether each step is launched once, with few blocks, whatever the loops of the space say

    @property
    def launched(self) -> list[StepSource]:
        """The steps that the configuration launches."""
        return [step for number, step in enumerate(self.steps) if number in self.instance.launched]

    @property
    def figures(self) -> Figures:
        """The figures of a launch: the maximum of registers and memory over all steps, and the sum of spills."""
        each = [self._figures(step).launched(step.geometry) for step in self.launched]
        return Figures(
            registers=_over(max, [f.registers for f in each]),
            spills=_over(sum, [f.spills for f in each]),
            shared_memory=_over(max, [f.shared_memory for f in each]),
            local_memory=_over(max, [f.local_memory for f in each]),
        )

    @property
    def occupancy(self) -> float | None:
        """The lowest occupancy of any step, 0 to 1; None if the occupancy of a step is unknown."""
        limits = self.instance.problem.limits
        each = [figures.occupancy(self._figures(step), step.geometry, limits) for step in self.launched]
        known = [share for share in each if share is not None]
        return min(known) if len(known) == len(each) else None

    def check(self) -> None:
        """Raise ResourceError if one block of a step does not fit the device."""
        for step in self.launched:
            try:
                figures.check(self._figures(step), step.geometry, self.instance.problem.limits)
            except ResourceError as error:
                if len(self.steps) == 1:
                    raise
                raise ResourceError(f"{step.kernel}: {error}", error.reason) from None

    def _figures(self, step: StepSource) -> Figures:
        return self.builds[step.source].figures_of(step.kernel)


def build(compiler: Compiler, instance: Instance, exported: Mapping[str, Build] | None = None) -> Built:
    """Build an instance: render its sources, compile them or read the cache, and check the builds against the limits.

    Needs no device. `exported` maps digests of sources to builds, which replace compilation. Raises GeometryError or
    BuildError. Raises ResourceError if one block of a step does not fit the device, and LaunchError if the declared
    arguments do not match the kernels' parameters.
    """
    steps = render(instance)
    sources = dict.fromkeys(step.source for step in steps)
    builds = {source: (exported or {}).get(source.digest) or compiler.build(source) for source in sources}
    steps = tuple(replace(step, geometry=builds[step.source].launched(step.kernel, step.geometry)) for step in steps)
    built = Built(instance, steps, builds)
    built.check()
    for position, step in enumerate(steps):
        if (interface := builds[step.source].interface) is not None:
            from tuner.devices import misfits  # imported only if the compiler reports an interface

            misfits.check(interface, step, position, instance)
    return built


def _over(reduce: Callable[[list[Any]], Any], values: Sequence[Any]) -> Any:
    """`reduce` over all values; None if one is None."""
    return None if None in values else reduce(list(values))
