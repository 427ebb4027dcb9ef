"""What every compiler can do: make a binary, or find it in the cache of builds."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass

from tuner.devices import build_cache
from tuner.devices.figures import NO_FIGURES, Figures
from tuner.errors import DeviceError
from tuner.space.source import Source


@dataclass(frozen=True)
class Build:
    """A binary, and what the compiler said of it; `fresh` if it did not come from the cache."""

    binary: bytes
    figures: Figures = NO_FIGURES
    fresh: bool = True


class Compiler(ABC):
    """Makes binaries for one kind and architecture of device; needs no device of that kind unless it says so."""

    kind: str
    architecture: str
    portable = False  # whether its builds run on every device of the architecture, whichever version made them
    tells: tuple[str, ...] = ()  # the figures that every build has

    @abstractmethod
    def name(self) -> str:
        """The compiler and its version: whatever else than the source changes what it makes. Must be cheap to ask,
        since a launch from the cache asks it too. Raises DeviceError where the compiler is missing."""

    @abstractmethod
    def compile(self, source: Source) -> Build:
        """`source` built by the compiler. Raises BuildError with its log."""

    def source_key(self, source: Source) -> str:
        """With this begin the names of all builds of `source` for this architecture."""
        return build_cache.key(self.kind, self.architecture, source.digest)

    def key(self, source: Source) -> str:
        """The name of a build: covers everything that changes what `compile` returns."""
        return f"{self.source_key(source)}-{build_cache.key(self.name())}"

    def build(self, source: Source) -> Build:
        """`source` built, from the cache where it is there.

        Where there is no compiler, what another version of it has built will do, if that runs here. Raises BuildError
        with the log, DeviceError where there is neither build nor compiler.
        """
        try:
            if (known := _known(self.key(source))) is not None:
                return known
            build = self.compile(source)
        except DeviceError as missing:
            others = build_cache.newest(self.source_key(source)) if self.portable else []
            known = next(filter(None, map(_known, others)), None)
            if known is None:
                raise DeviceError(
                    f"{source.kernel}: {missing}; and {build_cache.folder()} holds no build of this configuration for "
                    f"{self.architecture}: name a copy of another machine's with TUNER_CACHE, or a folder that `tune "
                    f"export --to cubin` wrote with load(binaries=...)"
                ) from None
            return known
        self.keep(source, build)
        return build

    def keep(self, source: Source, build: Build) -> None:
        """Put a build into the cache."""
        key = self.key(source)
        build_cache.write(key + build_cache.FIGURES, json.dumps(build.figures.to_json()).encode())
        build_cache.write(key, build.binary)


def _known(name: str) -> Build | None:
    """The build called `name`, if it and what the compiler said of it are in the cache, and whole."""
    binary, said = build_cache.read(name), build_cache.read(name + build_cache.FIGURES)
    if binary is None or said is None:
        return None
    try:
        return Build(binary, Figures.from_json(json.loads(said)), fresh=False)
    except (ValueError, TypeError):  # of another version of ours
        return None
