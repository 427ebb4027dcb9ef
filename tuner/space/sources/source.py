"""The compiler's input: the text of a configuration, and the steps that launch its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner import paths

if TYPE_CHECKING:
    from tuner.space.model import Geometry

GUARD = "__CUDACC_RTC__"  # defined by NVRTC, not by nvcc


@dataclass(frozen=True)
class Source:
    """The text of one configuration, its kernels, and its compiler options. Equal Sources give equal builds.

    kernels: the names as the source spells them, such as `add<64>`; a build maps them to names in its binary.
    """

    text: str
    kernels: tuple[str, ...]
    options: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A hash of text, kernel names and options; it does not depend on compiler or device."""
        return paths.digest(*self.options, *self.kernels, self.text)

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
