"""The compiler's input: the text of a configuration, and the steps that launch its kernels."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from tuner import paths
from tuner.classes import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.space.step import Geometry

GUARD = "__CUDACC_RTC__"  # defined by NVRTC, not by nvcc


@dataclass(frozen=True)
class Origin:
    """Where a source comes from, for a compiler that runs its file: the file, the folder from which its modules are
    imported, and its package, empty if it is in none."""

    file: Path
    root: Path
    package: str


@dataclass(frozen=True)
class Source:
    """The text of one configuration, its kernels, and its compiler options. Equal Sources give equal builds.

    kernels: the names as the source spells them, such as `add<64>`; a build maps them to names in its binary.
    compiler: the one that the space file chooses; empty for the default of the language.
    origin: of a kernel in a Python file. The text has all that matters of it, so equal sources may differ in it.
    """

    text: str
    kernels: tuple[str, ...]
    options: tuple[str, ...]
    compiler: str = ""
    origin: Origin | None = field(default=None, compare=False)

    @property
    def digest(self) -> str:
        """A hash of text, kernel names, options and chosen compiler; it does not depend on its version, nor on a
        device."""
        chosen = (f"compiler {self.compiler}",) if self.compiler else ()
        return paths.digest(*chosen, *self.options, *self.kernels, self.text)

    @property
    def kernel(self) -> str:
        """The kernel names, for messages."""
        return ", ".join(self.kernels)


@dataclass(frozen=True)
class StepSource:
    """One step of a configuration: its source, its kernel, and how it is launched."""

    source: Source
    kernel: str
    geometry: Geometry
    arguments: tuple[str, ...]
