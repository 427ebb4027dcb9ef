"""The abstract interface of compilers, which return builds from the cache or compile them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.devices import build_cache, environment
from tuner.devices.figures import NO_FIGURES, Figures
from tuner.devices.headers import Headers, may_read
from tuner.devices.interface import Interface
from tuner.errors import BuildError, DeviceError
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.space.sources.source import Source
    from tuner.space.step import Geometry

# What any compiler builds, if it works at all.
EMPTY = """
#if defined(__CUDACC__)
extern "C" __global__
#elif defined(__OPENCL_VERSION__)
__kernel
#endif
void empty(void) { }
"""
MEMORY_SHARE = 0.75  # share of the memory for all builders together
LEAST_MEMORY = 1 << 30  # bytes for each builder
MOST_COMPILATIONS = 3  # of one source whose headers change meanwhile
MOST_MESSAGE = 1000  # characters of the message that lists a source's kernels


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

    def launched(self, kernel: str, geometry: Geometry) -> Geometry:
        """The geometry of a kernel's launch: what the space says, and what the compiler has decided."""
        return self.needs[kernel].met(geometry) if kernel in self.needs else geometry

    def pointers(self, kernel: str) -> int:
        """The number of null pointers that a kernel takes after its arguments."""
        return self.needs[kernel].pointers if kernel in self.needs else 0


@dataclass(frozen=True)
class Allowance:
    """The limits of one compiler process: CPU time in seconds, and address space in bytes."""

    seconds: int
    memory: int

    @staticmethod
    def shared(seconds: float) -> Allowance:
        """The allowance of each of `most_builders()` builders, if a build may take `seconds` of wall time."""
        return Allowance(math.ceil(2 * seconds), int(MEMORY_SHARE * _memory()) // most_builders())


def most_builders() -> int:
    """The largest number of concurrent builders: one more than there are CPU cores, if memory suffices. Workers that
    hold devices count, since they build, too."""
    return max(1, min(len(os.sched_getaffinity(0)) + 1, int(MEMORY_SHARE * _memory()) // LEAST_MEMORY))


def _memory() -> int:
    """The memory that this process may use, in bytes: the machine's, or the limit of its container if that is lower."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in ("memory.max", "memory/memory.limit_in_bytes"):  # of control groups, versions 2 and 1
        with contextlib.suppress(OSError, ValueError):  # no such file, or no limit
            memory = min(memory, int(Path("/sys/fs/cgroup", file).read_text(encoding="ascii")))
    return memory


class Compiler(ABC):
    """Compiles for one kind of device and one architecture. Only OpenCL needs an open device."""

    kind: str
    architecture: str
    portable = False  # whether builds of all its versions run on every device of the architecture
    tells: tuple[str, ...] = ()  # the figures that it reports for every build
    allowance: Allowance | None = None  # limits of the processes that it starts; None: no limit
    pinned: str | None = None  # the `name` that it must keep during a run; None: any
    forks = False  # whether it may build in a fork of this process, which then has no threads and no open device

    @abstractmethod
    def name(self) -> str:
        """A text with the compiler, its version, and everything else except the source that changes its builds. Must be
        cheap, because a launch from the cache calls it too. Raises DeviceError if the compiler is missing, or
        EnvironmentTrouble if it has gone since this object was made."""

    @abstractmethod
    def compile(self, source: Source) -> Build:
        """Compile `source`. Raises BuildError with the compiler's log."""

    def surroundings(self, source: Source) -> str:
        """What besides the compiler's name decides which files it reads for `source`, such as the folders that an
        environment variable names. Empty if nothing does; as cheap as `name`."""
        return ""

    def folders(self) -> list[Path]:
        """The folders in which it writes temporary files."""
        import tempfile  # slow to import; a launch compiles nothing

        return [Path(tempfile.gettempdir())]

    def chosen(self, compiler: str) -> Compiler:
        """The compiler that a space file chooses by this name, for the same architecture and within the same allowance;
        this one for an empty name."""
        return self

    def source_key(self, source: Source) -> str:
        """The common prefix of the cache names of all builds of `source` for this architecture."""
        return paths.digest(self.kind, self.architecture, source.digest)

    def key(self, source: Source) -> str:
        """The cache name of a build. It covers everything that changes the result of `compile`."""
        chosen = self.chosen(source.compiler)
        return f"{self.source_key(source)}-{paths.digest(chosen.name() + chosen.surroundings(source))}"

    def cached(self, source: Source) -> Build | None:
        """The build of `source` in the cache; None if there is none. Raises as `name` does."""
        return _from_cache(self.key(source), source)

    def build(self, source: Source) -> Build:
        """The build of `source` by the compiler that it chooses, from the cache or newly compiled.

        A build in the cache serves only if none of the files has changed that the compiler read for it. If the compiler
        is missing and its builds are portable, a cached build of another compiler version is used. Raises BuildError
        with the compiler's log, DeviceError if there is neither a build nor a compiler, EnvironmentTrouble if the
        machine caused the failure.
        """
        return self.chosen(source.compiler)._build(source)

    def _build(self, source: Source) -> Build:
        try:
            self._check_pinned()
            if (build := _from_cache(self.key(source), source)) is not None:
                return build
            build = self._compiled(source)
            self._check_pinned()
        except DeviceError as missing:
            others = build_cache.newest(self.source_key(source)) if self.portable else []
            build = next(filter(None, (_from_cache(other, source, trusted=True) for other in others)), None)
            if build is None:
                raise DeviceError(
                    f"{source.kernel}: {missing}; {build_cache.folder()} has no build of this configuration for "
                    f"{self.architecture} either; install the compiler, set TUNER_CACHE to a copy of another machine's "
                    f"cache, or pass a folder that `tune export --to cubin` wrote to load(binaries=...)"
                ) from None
            return build
        self.keep(source, build)
        return build

    def pin(self, name: str | None) -> str | None:
        """Pin the compiler to `name`, or to its present name if that is None. Returns the name; None if the compiler is
        missing."""
        with contextlib.suppress(DeviceError):
            name = name or self.name()
        self.pinned = name
        return name

    def _check_pinned(self) -> None:
        """Raise EnvironmentTrouble if the compiler is not the one with which the run began."""
        if self.pinned is not None and self.name() != self.pinned:
            what = "the compiler has changed since this run began, and times of two compilers are not comparable"
            raise environment.trouble(environment.CHANGED, what)

    def check(self) -> None:
        """Raise EnvironmentTrouble if the compiler does not even build an empty kernel."""
        from tuner.space.sources.source import Source  # a launch from the cache checks nothing

        try:
            self._attempt(Source(EMPTY, ("empty",), ()))
        except BuildError as error:
            line = shown(str(error).partition("\n")[0])
            what = f"the compiler does not build an empty kernel: {line}"
            raise environment.trouble(environment.OTHER, what) from None

    def _compiled(self, source: Source) -> Build:
        """Compile `source`, and again if a header changes meanwhile: the build may be of its former content. If one
        keeps changing, the headers of the build count as unknown. Raises as `_compile` does."""
        for _ in range(MOST_COMPILATIONS):
            began = time.time_ns()
            build = self._compile(source)
            with contextlib.suppress(OSError):
                if build.headers is None or build.headers.is_older_than(began):
                    return build
        return replace(build, headers=None)

    def _compile(self, source: Source) -> Build:
        """Compile `source`. Raises BuildError only if the compiler speaks of the source, or fails on it twice while it
        builds an empty kernel. Raises EnvironmentTrouble if anything else fails."""
        try:
            return self._attempt(source)
        except BuildError as error:
            if error.reason != BuildError.reason or environment.speaks_of_source(str(error)):
                raise
        self.check()
        return self._attempt(source)

    def _attempt(self, source: Source) -> Build:
        what = f"compiling {source.kernel}"
        try:
            return self.compile(source)
        except BuildError as error:
            trouble = environment.of_log(str(error), what, self.folders())
            if trouble is None:
                raise
            if trouble.reason == environment.NO_MEMORY and self.allowance and environment.has(self.allowance.memory):
                log = f"it needs more than the {self.allowance.memory >> 20} MiB that a compiler may use: {error}"
                raise BuildError(log, "compile memory") from None
        except (OSError, MemoryError) as error:
            trouble = environment.of_error(error)
            if trouble.reason == environment.NO_SPACE:  # in the words in which a compiler's log would say it
                trouble = environment.of_log(str(error), what, self.folders()) or trouble
        raise trouble

    def keep(self, source: Source, build: Build) -> None:
        """Write a build to the cache, unless it is unknown which files the compiler read for it."""
        if build.headers is None and may_read(source.text, source.options):
            return
        key = self.key(source)
        _keep_metadata(key, replace(build, headers=build.headers or Headers()))
        build_cache.write(key, build.binary)


def _keep_metadata(name: str, build: Build) -> None:
    """Write everything but the binary of a build to the cache."""
    metadata = {
        "figures": {kernel: figures.to_json() for kernel, figures in build.figures.items()},
        "entries": dict(build.entries),
        "interface": build.interface and build.interface.to_json(),
        "headers": build.headers and build.headers.to_json(),
        **needs_json(build),
    }
    build_cache.write(name + build_cache.FIGURES, json.dumps(metadata).encode())


def _from_cache(name: str, source: Source, trusted: bool = False) -> Build | None:
    """The cached build `name`. None if it is missing or damaged, or if a file has changed that its compiler read.

    A build of an earlier version does not say which files that were. It serves if its source includes none, or if it is
    `trusted`.
    """
    binary, figures = build_cache.read(name), build_cache.read(name + build_cache.FIGURES)
    if binary is None or figures is None:
        return None
    try:
        metadata = json.loads(figures)
        by_kernel = {kernel: Figures.from_json(data) for kernel, data in metadata["figures"].items()}
        layout = metadata.get("interface")  # missing in builds of earlier versions
        interface = None if layout is None else Interface.from_json(layout)
        needs = needs_from(metadata)
        build = Build(
            binary, by_kernel, fresh=False, entries=dict(metadata["entries"]), interface=interface, needs=needs
        )
        if metadata.get("headers") is None:
            return build if trusted or not may_read(source.text, source.options) else None
        kept = Headers.from_json(metadata["headers"])
    except (ValueError, TypeError, AttributeError, KeyError):  # written by another version of this package
        return None
    headers = kept.now()
    if headers is None:
        return None
    build = replace(build, headers=headers)
    if headers != kept:  # other times, but the same content: it need not be read again
        _keep_metadata(name, build)
    return build


def needs_json(build: Build) -> dict[str, Any]:
    """What the kernels of a build need of their launches, as a part of JSON data; empty if nothing."""
    return {"needs": {kernel: asdict(needs) for kernel, needs in build.needs.items()}} if build.needs else {}


def needs_from(data: Mapping[str, Any]) -> dict[str, Needs]:
    """What `needs_json` wrote."""
    return {str(kernel): Needs(**needs) for kernel, needs in data.get("needs", {}).items()}


def missing_kernel(source: Source, kernel: str, reason: str = "") -> str:
    """The message for a source that compiles, but lacks the kernel: it lists the kernels that the source defines."""
    from tuner.space.sources.prototype import prototypes

    found = sorted({p.qualified if p.template is None else f"{p.qualified}<...>" for p in prototypes(source.text)})
    defined = f"it defines {', '.join(found)}" if found else "it defines no kernel"
    return shown(f"the source has no kernel {quoted(kernel)}{reason and ': '}{reason}; {defined}", MOST_MESSAGE)
