"""What a compiler reads: the text of a configuration, and the steps that launch its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner import paths

if TYPE_CHECKING:
    from tuner.space.model import Geometry


@dataclass(frozen=True)
class Source:
    """The text of one configuration, its kernels, and its compiler options. Equal Sources give equal builds.

    `kernels` are the names in the text, such as `add<64>`; a build knows those in its binary.
    """

    text: str
    kernels: tuple[str, ...]
    options: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The name of text, entry points and options, independent of compiler and device."""
        return paths.digest(*self.options, *self.kernels, self.text)

    @property
    def kernel(self) -> str:
        """The names of its kernels, for people."""
        return ", ".join(self.kernels)


@dataclass(frozen=True)
class StepSource:
    """One step of a configuration: a kernel of a source, and how it is launched."""

    source: Source
    kernel: str
    geometry: Geometry
    arguments: tuple[str, ...]
