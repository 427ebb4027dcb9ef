"""The text of a space's kernel files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.space.expressions import braces
from tuner.space.sources.includes import inlined

if TYPE_CHECKING:
    from tuner.space.model import Space


def of(space: Space, path: Path, macros: Mapping[str, str] | None = None) -> str:
    """The text of one of `space.sources`, with includes expanded (see `inlined`).

    If the space is for CUDA alone, host code is left out, so neither the compiler nor the identity of the code sees it.
    Kernels that ship have none, and their launches need not look for it.
    """
    may_have_host_code = tuple(space.languages) == ("cuda",) and not path.is_relative_to(paths.shipped("kernels"))
    kernels = tuple(braces.pattern(step.kernel) for step in space.steps if step.source == path)
    return inlined(path, space.include, macros, kernels if may_have_host_code else None)
