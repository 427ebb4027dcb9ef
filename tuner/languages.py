"""The languages that kernels are written in: a leaf that space/ and devices/ both read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """A language.

    name: what space files call it.
    title: its own name.
    suffix: of the files that are written in it; `suffixes`: of the files that are read as it, the preferred first.
    has_grid: its kernels run in blocks of threads; else they are functions that are called once.
    has_compute_capability: its devices have one, which expressions may compare.
    dynamic_shared_memory: a launch may ask for more shared memory than the source declares.
    """

    name: str
    title: str
    suffix: str
    suffixes: tuple[str, ...]
    has_grid: bool = True
    has_compute_capability: bool = False
    dynamic_shared_memory: bool = True


# portable.h makes one file CUDA and OpenCL, so either suffix may be either language.
LANGUAGES: Mapping[str, Language] = {
    language.name: language
    for language in (
        Language("cuda", "CUDA", ".cu", (".cu", ".cl"), has_compute_capability=True),
        Language("opencl", "OpenCL", ".cl", (".cu", ".cl"), dynamic_shared_memory=False),
        Language("c", "C", ".c", (".c",), has_grid=False),
    )
}
