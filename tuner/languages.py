"""Two tables that import nothing: the languages that kernels are written in, and the kinds of device that run them."""

from collections.abc import Mapping
from dataclasses import dataclass

# Each kind is a package in devices/ that has a BACKEND. A kernel runs on the first kind that it can.
KINDS = (
    "cuda",
    "opencl",
    "host",
)


@dataclass(frozen=True)
class Language:
    """A language.

    name: its name in space files.
    title: its usual spelling.
    suffix: of files that the package writes.
    suffixes: of files that the package reads, in order of preference.
    has_grid: its kernels run in blocks of threads; otherwise they are functions, called once.
    has_compute_capability: its devices have a compute capability, which expressions may compare.
    dynamic_shared_memory: a launch may add shared memory to what the source declares.
    has_cpp_names: its kernels may be templates, and stand in namespaces.
    counts_threads: a launch's global size counts threads; otherwise it counts blocks.
    has_clusters: blocks of a launch may form clusters, or all run at once.
    """

    name: str
    title: str
    suffix: str
    suffixes: tuple[str, ...]
    has_grid: bool = True
    has_compute_capability: bool = False
    dynamic_shared_memory: bool = True
    has_cpp_names: bool = False
    counts_threads: bool = False
    has_clusters: bool = False


# With portable.h, one file is both CUDA and OpenCL; so each language may have either suffix.
LANGUAGES: Mapping[str, Language] = {
    language.name: language
    for language in (
        Language(
            "cuda", "CUDA", ".cu", (".cu", ".cl"), has_compute_capability=True, has_cpp_names=True, has_clusters=True
        ),
        Language("opencl", "OpenCL", ".cl", (".cu", ".cl"), dynamic_shared_memory=False, counts_threads=True),
        Language("c", "C", ".c", (".c",), has_grid=False),
    )
}
