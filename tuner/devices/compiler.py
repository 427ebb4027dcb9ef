"""The interface of compilers, and builds from the cache or a compiler."""

from __future__ import annotations

import contextlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.devices import build_cache, environment
from tuner.devices.figures import NO_FIGURES, Figures
from tuner.devices.interface import Interface
from tuner.errors import BuildError, DeviceError
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.space.sources.source import Source

MEMORY_SHARE = 0.75  # of the memory, for all builders together
LEAST_MEMORY = 1 << 30  # bytes of a builder
MOST_MESSAGE = 1000  # characters of what a source defines


@dataclass(frozen=True)
class Build:
    """A binary, and the figures that its compiler reported of each kernel. `fresh` if it did not come from the cache.

    `entries` are the names in the binary of kernels that have another one there than in the source, as in C++.
    `interface` is what launches must give; None where the compiler does not tell.
    """

    binary: bytes
    figures: Mapping[str, Figures] = field(default_factory=dict)
    fresh: bool = True
    entries: Mapping[str, str] = field(default_factory=dict)
    interface: Interface | None = None

    def figures_of(self, kernel: str) -> Figures:
        """The figures of a kernel, by its name in the source."""
        return self.figures.get(kernel, NO_FIGURES)

    def entry(self, kernel: str) -> str:
        """The name of a kernel in the binary."""
        return self.entries.get(kernel, kernel)


@dataclass(frozen=True)
class Allowance:
    """What one process of a compiler may take: seconds of a processor, and bytes of address space."""

    seconds: int
    memory: int

    @staticmethod
    def shared(seconds: float) -> Allowance:
        """For each of `most_builders`, which may have so many seconds for a build."""
        return Allowance(math.ceil(2 * seconds), int(MEMORY_SHARE * _memory()) // most_builders())


def most_builders() -> int:
    """How many builders may work at once: one more than there are processors, as far as memory goes. Workers that hold
    devices are among them, since they build, too."""
    return max(1, min(len(os.sched_getaffinity(0)) + 1, int(MEMORY_SHARE * _memory()) // LEAST_MEMORY))


def _memory() -> int:
    """The bytes of memory that this process may use: the machine's, or what its container grants."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in ("memory.max", "memory/memory.limit_in_bytes"):  # of control groups, versions 2 and 1
        with contextlib.suppress(OSError, ValueError):  # there is none, or no limit
            memory = min(memory, int(Path("/sys/fs/cgroup", file).read_text(encoding="ascii")))
    return memory


class Compiler(ABC):
    """Compiles for one kind and architecture of device. Needs no device of that kind, except for OpenCL."""

    kind: str
    architecture: str
    portable = False  # whether builds of all its versions run on every device of the architecture
    tells: tuple[str, ...] = ()  # the figures that every build has
    allowance: Allowance | None = None  # of the processes that it starts; None: no limit

    @abstractmethod
    def name(self) -> str:
        """The compiler, its version, and all else besides the source that changes its builds. Must be cheap: a launch
        from the cache calls it too. Raises DeviceError if the compiler is missing."""

    @abstractmethod
    def compile(self, source: Source) -> Build:
        """Compile `source`. Raises BuildError with the log."""

    def folders(self) -> list[Path]:
        """Where it writes temporary files."""
        import tempfile  # slow to import; a launch compiles nothing

        return [Path(tempfile.gettempdir())]

    def source_key(self, source: Source) -> str:
        """The common beginning of the names of all builds of `source` for this architecture."""
        return paths.digest(self.kind, self.architecture, source.digest)

    def key(self, source: Source) -> str:
        """The name of a build. It covers everything that changes what `compile` returns."""
        return f"{self.source_key(source)}-{paths.digest(self.name())}"

    def build(self, source: Source) -> Build:
        """The build of `source`, from the cache if it is there.

        If the compiler is missing, a build of another version serves, provided that it is portable. Raises BuildError
        with the log, DeviceError if there is neither a build nor a compiler, EnvironmentTrouble if the machine is to
        blame.
        """
        try:
            if (build := _from_cache(self.key(source))) is not None:
                return build
            build = self._compile(source)
        except DeviceError as missing:
            others = build_cache.newest(self.source_key(source)) if self.portable else []
            build = next(filter(None, map(_from_cache, others)), None)
            if build is None:
                raise DeviceError(
                    f"{source.kernel}: {missing}; and {build_cache.folder()} holds no build of this configuration for "
                    f"{self.architecture}: name a copy of another machine's cache with TUNER_CACHE, or a folder that "
                    f"`tune export --to cubin` wrote with load(binaries=...)"
                ) from None
            return build
        self.keep(source, build)
        return build

    def _compile(self, source: Source) -> Build:
        what = f"compiling {source.kernel}"
        try:
            return self.compile(source)
        except BuildError as error:
            found = environment.of_log(str(error), what, self.folders())
            if found is None:
                raise
            if found.reason == environment.NO_MEMORY and self.allowance and environment.has(self.allowance.memory):
                log = f"it needs more than the {self.allowance.memory >> 20} MiB that a compiler may take: {error}"
                raise BuildError(log, "compile memory") from None
        except (OSError, MemoryError) as error:
            found = environment.of_error(error)
            if found is None:
                raise
        raise found

    def keep(self, source: Source, build: Build) -> None:
        """Write a build to the cache."""
        key = self.key(source)
        told = {
            "figures": {kernel: figures.to_json() for kernel, figures in build.figures.items()},
            "entries": dict(build.entries),
            "interface": build.interface and build.interface.to_json(),
        }
        build_cache.write(key + build_cache.FIGURES, json.dumps(told).encode())
        build_cache.write(key, build.binary)


def _from_cache(name: str) -> Build | None:
    """The build called `name`; None if the cache lacks it or its figures, or either is damaged."""
    binary, figures = build_cache.read(name), build_cache.read(name + build_cache.FIGURES)
    if binary is None or figures is None:
        return None
    try:
        told = json.loads(figures)
        by_kernel = {kernel: Figures.from_json(data) for kernel, data in told["figures"].items()}
        layout = told.get("interface")  # a build of an earlier version has none
        interface = None if layout is None else Interface.from_json(layout)
        return Build(binary, by_kernel, fresh=False, entries=dict(told["entries"]), interface=interface)
    except (ValueError, TypeError, AttributeError, KeyError):  # written by another version of this package
        return None


def missing_kernel(source: Source, kernel: str, reason: str = "") -> str:
    """The message for a source that compiles, but has no such kernel: it lists what there is."""
    from tuner.space.sources.prototype import prototypes

    found = sorted({p.qualified if p.template is None else f"{p.qualified}<...>" for p in prototypes(source.text)})
    there = f"it defines {', '.join(found)}" if found else "it defines no kernel"
    return shown(f"the source has no kernel {quoted(kernel)}{reason and ': '}{reason}; {there}", MOST_MESSAGE)
