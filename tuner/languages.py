"""Tables without imports: the languages of kernels, and the kinds of devices that run them."""

from collections.abc import Mapping

from tuner.classes import dataclass

# Each kind is a package in devices/ with a BACKEND. A kernel runs on the first of these kinds that supports it.
KINDS = (
    "cuda",
    "opencl",
    "host",
)

# The suffixes of files in C and C++ that may hold host code of kernels.
OF_PROGRAMS = (".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hip", ".hpp", ".hxx", ".inl")

# The compiler of kernels whose configurations are algorithms of the vendor's library, by their numbers in the order in
# which it offers them: another order for each problem, device and version of the library.
ALGORITHMS = "cublaslt"


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
            compilers=("nvrtc", "nvcc", ALGORITHMS),
        ),
        Language("opencl", "OpenCL", ".cl", (".cu", ".cl"), dynamic_shared_memory=False, counts_threads=True),
        Language("c", "C", ".c", (".c",), has_grid=False),
    )
}


@dataclass(frozen=True)
class PythonLanguage:
    """A language whose kernels are functions of Python files, and which one more compiler of another language compiles.

    A space in it counts as one of that language wherever devices, types and limits are concerned.

    name: its name in space files.
    title: its usual spelling.
    of: the name of the other language.
    compiler: the name of the compiler.
    suffix: the suffix of its files.
    """

    name: str
    title: str
    of: str
    compiler: str
    suffix: str = ".py"


PYTHON_LANGUAGES: Mapping[str, PythonLanguage] = {
    language.name: language for language in (PythonLanguage("triton", "Triton", "cuda", "triton"),)
}


def compilers(language: str) -> tuple[str, ...]:
    """The names of all compilers of a language, the default first."""
    others = (each.compiler for each in PYTHON_LANGUAGES.values() if each.of == language)
    return (*LANGUAGES[language].compilers, *others)
