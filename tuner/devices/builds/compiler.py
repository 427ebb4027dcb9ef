"""The abstract interface of compilers, which return builds from the cache or compile them."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.devices import environment
from tuner.devices.builds import build_cache, cached_builds
from tuner.devices.builds.allowance import Allowance
from tuner.devices.builds.build import Build
from tuner.errors import BuildError, DeviceError
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.space.sources.source import Source

# What any compiler builds, if it works at all.
EMPTY = """
#if defined(__CUDACC__)
extern "C" __global__
#elif defined(__OPENCL_VERSION__)
__kernel
#endif
void empty(void) { }
"""
MOST_COMPILATIONS = 3  # of one source whose headers change meanwhile
MOST_MESSAGE = 1000  # characters of the message that lists a source's kernels


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
        return cached_builds.find(self.key(source), source)

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
            if (build := cached_builds.find(self.key(source), source)) is not None:
                return build
            build = self._compiled(source)
            self._check_pinned()
        except DeviceError as missing:
            others = build_cache.newest(self.source_key(source)) if self.portable else []
            build = next(filter(None, (cached_builds.find(other, source, trusted=True) for other in others)), None)
            if build is None:
                raise DeviceError(
                    f"{source.kernel}: {missing}; {build_cache.folder()} has no build of this configuration for "
                    f"{self.architecture} either; install the compiler, set TUNER_CACHE to a copy of another machine's "
                    f"cache, or pass a folder that `tune export --to cubin` wrote to load(binaries=...)"
                ) from None
            return build
        cached_builds.keep(self.key(source), source, build)
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


def missing_kernel(source: Source, kernel: str, reason: str = "") -> str:
    """The message for a source that compiles, but lacks the kernel: it lists the kernels that the source defines."""
    from tuner.space.sources.prototype import prototypes

    found = sorted({p.qualified if p.template is None else f"{p.qualified}<...>" for p in prototypes(source.text)})
    defined = f"it defines {', '.join(found)}" if found else "it defines no kernel"
    if "overloaded function" in reason:
        defined += "; give each a name of its own"
    return shown(f"the source has no kernel {quoted(kernel)}{reason and ': '}{reason}; {defined}", MOST_MESSAGE)
