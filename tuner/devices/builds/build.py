"""What a compiler returns: a binary, its figures, and what its kernels need of their launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.devices.builds.figures import NO_FIGURES, Figures
from tuner.devices.builds.headers import Headers
from tuner.devices.builds.interface import Interface

if TYPE_CHECKING:
    from tuner.space.step import Geometry


@dataclass(frozen=True)
class Needs:
    """What a kernel needs of its launch, if its compiler decides that: dynamic shared memory in bytes, threads per
    block, and null pointers after its arguments."""

    shared_memory: int
    threads: int
    pointers: int

    def met(self, geometry: Geometry) -> Geometry:
        """The geometry with this shared memory and these threads."""
        return replace(geometry, shared_memory=self.shared_memory, block=(self.threads, 1, 1))


@dataclass(frozen=True)
class Build:
    """A binary, and the figures that its compiler reported for each kernel. `fresh` if it did not come from the cache.

    `entries` maps a kernel's name in the source to its name in the binary if they differ, as mangled C++ names do.
    `interface` has the sizes of the kernels' parameters; None if the compiler does not report them. `headers` are the
    files that the compiler read besides the source; None if that is not known. `needs` has what kernels need of their
    launches, by their names in the source; most compilers decide none of it.
    """

    binary: bytes
    figures: Mapping[str, Figures] = field(default_factory=dict)
    fresh: bool = True
    entries: Mapping[str, str] = field(default_factory=dict)
    interface: Interface | None = None
    headers: Headers | None = None
    needs: Mapping[str, Needs] = field(default_factory=dict)

    def figures_of(self, kernel: str) -> Figures:
        """The figures of a kernel; `kernel` is its name in the source."""
        return self.figures.get(kernel, NO_FIGURES)

    def entry(self, kernel: str) -> str:
        """The name in the binary of the kernel with this name in the source."""
        return self.entries.get(kernel, kernel)

    def variable(self, name: str) -> str:
        """The name in the binary of the constant-memory variable with this name in the source."""
        return name if self.interface is None else self.interface.variable(name)

    def has_variable(self, name: str) -> bool:
        """Whether the binary certainly has a constant-memory variable with this name in the source."""
        return self.interface is not None and self.interface.variable(name) in self.interface.variables

    def launched(self, kernel: str, geometry: Geometry) -> Geometry:
        """The geometry of a kernel's launch: what the space says, and what the compiler has decided."""
        return self.needs[kernel].met(geometry) if kernel in self.needs else geometry

    def pointers(self, kernel: str) -> int:
        """The number of null pointers that a kernel takes after its arguments."""
        return self.needs[kernel].pointers if kernel in self.needs else 0


def needs_json(build: Build) -> dict[str, Any]:
    """What the kernels of a build need of their launches, as a part of JSON data; empty if nothing."""
    return {"needs": {kernel: asdict(needs) for kernel, needs in build.needs.items()}} if build.needs else {}


def needs_from(data: Mapping[str, Any]) -> dict[str, Needs]:
    """What `needs_json` wrote."""
    return {str(kernel): Needs(**needs) for kernel, needs in data.get("needs", {}).items()}
