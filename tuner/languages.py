"""Two tables without imports: the languages of kernels, and the kinds of devices that run them."""

from collections.abc import Mapping
from dataclasses import dataclass

# Each kind is a package in devices/ with a BACKEND. A kernel runs on the first of these kinds that supports it.
KINDS = (
    "cuda",
    "opencl",
    "host",
)


@dataclass(frozen=True)
class Language:
    """A language of kernels.

    name: its name in space files.
    title: its usual spelling.
    suffix: the suffix of files that this package writes.
    suffixes: suffixes of files that this package reads, in order of preference.
    has_grid: kernels run in blocks of threads; if false, they are functions that are called once.
    has_compute_capability: devices have a compute capability, to which expressions may refer.
    dynamic_shared_memory: a launch may add shared memory to what the source declares.
    has_cpp_names: kernels may be templates, and may be in namespaces.
    counts_threads: the driver takes a launch's global size in threads; if false, in blocks.
    has_clusters: a launch may be cooperative, and its blocks may form clusters.
    compilers: those that a space file may choose from, the default first.
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
    compilers: tuple[str, ...] = ()


# With portable.h, one file is valid CUDA and OpenCL, so each of the two languages accepts both suffixes.
LANGUAGES: Mapping[str, Language] = {
    language.name: language
    for language in (
        Language(
            "cuda",
            "CUDA",
            ".cu",
            (".cu", ".cl"),
            has_compute_capability=True,
            has_cpp_names=True,
            has_clusters=True,
            compilers=("nvrtc", "nvcc"),
        ),
        Language("opencl", "OpenCL", ".cl", (".cu", ".cl"), dynamic_shared_memory=False, counts_threads=True),
        Language("c", "C", ".c", (".c",), has_grid=False),
    )
}
