"""Supplies NVRTC with the headers that host compilers have, and explains the errors that host code in a .cu file
causes."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from tuner import paths
from tuner.space.sources.library_headers import STANDARD
from tuner.space.sources.source import GUARD

_C = ("assert", "float", "inttypes", "limits", "math", "stddef", "stdint", "stdio", "stdlib", "string")
# Of <cuda.h>, device code needs the version, as GLM does. NVRTC defines that of the compiler only.
_VERSION = b"""#ifndef CUDA_VERSION
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
#endif
"""
# C++ headers that libcu++ has for the device, as <cuda/std/limits>.
_DEVICE = ("algorithm", "array", "complex", "limits", "tuple", "type_traits", "utility")
# What every other header of C++ has, because host compilers include it with most of them.
_WITH_ALL = ("limits", "type_traits", "utility")
# Headers of which no kernel needs anything. NVRTC knows the types of CUDA's own.
_HOST_HEADERS = """
    atomic cctype cerrno charconv condition_variable csetjmp csignal cstdarg cstdbool ctime cwchar
    exception execution initializer_list new optional stdexcept system_error typeindex typeinfo variant ctype.h
    dirent.h dlfcn.h errno.h fcntl.h fenv.h getopt.h libgen.h locale.h malloc.h memory.h pthread.h
    sched.h setjmp.h signal.h stdarg.h stdbool.h strings.h sys/mman.h sys/param.h sys/resource.h sys/stat.h
    sys/time.h sys/timeb.h sys/wait.h time.h unistd.h wchar.h mpi.h nccl.h omp.h cublas_v2.h
    cublasLt.h cudnn.h cufft.h cusolverDn.h cusparse.h cuda_profiler_api.h nvml.h nvrtc.h nvToolsExt.h
    nvtx3/nvToolsExt.h cuda_gl_interop.h driver_functions.h
    channel_descriptor.h cudaEGL.h cudaGL.h cudaProfiler.h cudaTypedefs.h cuda_egl_interop.h cuda_vdpau_interop.h
"""
_CUB = tuple(
    [f"block/block_{part}" for part in ("adjacent_difference", "discontinuity", "exchange", "histogram", "load")]
    + [f"block/block_{part}" for part in ("radix_sort", "reduce", "scan", "shuffle", "store")]
    + [f"warp/warp_{part}" for part in ("reduce", "scan")]
)
_GUARDED = f"put host code between #ifndef {GUARD} and #endif"
_CONSTANTS = {  # patterns of names, and the header that declares them
    r"(uint|u?int_(least|fast))(8|16|32|64)_t|u?int(ptr|max)_t|U?INT(PTR|8|16|32|64)_(MIN|MAX|C)|SIZE_MAX": "cstdint",
    r"(FLT|DBL)_[A-Z0-9_]+": "cfloat",
    r"offsetof": "cstddef",
}
_TAKEN_AS_EMPTY = re.compile(
    r"^[^\n]*#warning directive: (\S+) is not found, and taken as empty\n[^\n]*#warning[^\n]*\n[ ^]*\n\n?", re.MULTILINE
)
# What nvcc has without a header, because it includes <limits.h>, <math.h> and <stdlib.h> before each file.
_C_TYPES = r"uint|ushort|ulong|int(?:8|16|32|64)_t"
_C_CONSTANTS = (
    r"INFINITY|NAN|HUGE_VALF?|M_(?:PI(?:_[24])?|[12]_PI|2_SQRTPI|SQRT(?:2|1_2)|E|LN(?:2|10)|LOG(?:2|10)E)"
    r"|CHAR_BIT|U?(?:SCHAR|CHAR|SHRT|INT|LONG|LLONG)_(?:MIN|MAX)"
)
_OF_C = rf"\b(?:{_C_TYPES}|{_C_CONSTANTS})\b"
_OWN = (  # declared by the source itself
    rf"\btypedef\b[^;{{}}]*?\b({_C_TYPES})\s*[;,[]|(?:\busing\s+|#\s*define\s+)({_C_TYPES}|{_C_CONSTANTS})\b"
    rf"|\b(?:float|double|int|long|auto)\s+({_C_CONSTANTS})\s*[={{]"
)
_REGISTER = re.compile(r"(?:^|[;{(])[ \t]*(?:const\s+)?register\s+\w", re.MULTILINE)
_ERROR = re.compile(r"^[^\n]*: (?:catastrophic )?error\b", re.MULTILINE)
_WARNING = re.compile(r"^[^\n]*: warning\b[^\n]*\n(?:[^\n]+\n)*\n*|^Remark: The warnings[^\n]*\n\n?", re.MULTILINE)
_HINTS = [  # patterns of NVRTC's messages, and advice
    (
        r"/(?:cub|thrust)/[^(]*\(\d+\): ",
        "include the parts that a kernel uses, such as cub/block/block_scan.cuh, or write `compiler: nvcc` in the "
        "space file; cub.cuh and thrust are for the host",
    ),
    (r'cannot open source file "curand', "pip install nvidia-curand"),
    (r'cannot open source file "(?:cub|cuda|nv|thrust)/', "pip install nvidia-cuda-cccl"),
    (
        r'cannot open source file "(?:cuda_(?:fp|bf)\w+|mma|cooperative_groups|cuda_runtime\w*|vector_types)\.h',
        "pip install nvidia-cuda-runtime nvidia-cuda-crt",
    ),
    (
        r'cannot open source file "',
        f"put headers that only host code needs between #ifndef {GUARD} and #endif; a kernel may include "
        "<cuda/std/limits> and the like; list the folders of your own headers in `include:`",
    ),
    (
        r"without execution space annotations",
        f"write __device__ before functions that a kernel calls; {_GUARDED}; or write `compiler: nvcc` in the space "
        "file if a library's header has them",
    ),
    (r"marked as a __host__ function|kernel launch could not be processed", _GUARDED),
    (r'identifier "cuda[A-Z]\w*" is undefined', _GUARDED),
    (
        r'overloaded function "(?:tex|surf)(?:[123]D|1Dfetch|Cubemap)|\b(?:texture|surface) is not a template',
        "CUDA 12 removed texture and surface references: let the kernel take a cudaTextureObject_t, and write `kind: "
        "texture` in the space file; let it write to a plain array in place of a surface",
    ),
    (
        r'namespace "cub" has no member "(?:Max|Min|Sum|Equality|Difference|Division)"',
        "CUDA 13 removed the functors of cub: write cuda::maximum<>{}, cuda::minimum<>{} or cuda::std::plus<>{}",
    ),
    (r'namespace "std" has no member "(?:max|min)"', "write max and min without std::"),
    *((rf'identifier "(?:{names})" is undefined', f"#include <{header}>") for names, header in _CONSTANTS.items()),
]


@functools.cache
def headers() -> Mapping[str, bytes]:
    """The text of each header, by name.

    Each of the C headers declares the types and constants of all of them. A C++ header that libcu++ has is that one, in
    the namespace std; another one declares what is in most of them. The headers of the host are empty.
    """
    standard = Path(__file__).with_name("standard.h").read_bytes()
    return {
        **dict.fromkeys(_HOST_HEADERS.split(), b"\n"),
        **{name: _in_std(*_WITH_ALL).encode() for name in STANDARD},
        **{name: _in_std(name).encode() for name in _DEVICE},
        **{name: standard for part in _C for name in (f"{part}.h", f"c{part}")},
        "sys/types.h": standard,
        "cuda.h": standard + _VERSION,
        "cub/cub.cuh": "".join(f"#include <cub/{part}.cuh>\n" for part in _CUB).encode(),
    }


def _in_std(*names: str) -> str:
    """Headers of libcu++, if it is installed, with their names in std."""
    includes = "".join(f"#include <cuda/std/{name}>\n" for name in names)
    return (
        f"#if __has_include(<cuda/std/{names[0]}>)\n{includes}namespace std {{ using namespace cuda::std; }}\n#endif\n"
    )


def accepted_by_nvcc(text: str) -> list[str]:
    """The options for what nvcc accepts in a CUDA file and NVRTC does not: types and constants of the C library, such
    as `uint` and `INFINITY`, unless the text declares its own, and `register`, which C++17 has no longer."""
    used = {*re.findall(_OF_C, text)}.difference(name for own in re.findall(_OWN, text) for name in own)
    return ["--pre-include=cstdlib"] * bool(used) + ["-Dregister="] * (_REGISTER.search(text) is not None)


@functools.cache
def version() -> str:
    """The digest of the headers."""
    return paths.digest(*(f"{name}\n{text.decode()}" for name, text in headers().items()))


def explained(log: str) -> str:
    """NVRTC's log, with advice appended to the messages that host code causes; each advice appears once. Drops
    warnings beside errors, and NVRTC's own advice, an option that would compile host code for the device."""
    given, lines, empty = set[str](), list[str](), _taken_as_empty(log)
    log = _TAKEN_AS_EMPTY.sub("", log)
    for line in (_WARNING.sub("", log) if _ERROR.search(log) else log).splitlines():
        text = line.partition(". Consider using -default-device")[0]
        hint = _hint(text)
        if empty and " error: " in text:
            hint, empty = empty, ""
        lines.append(text if hint is None or hint in given else f"{text}; {hint}")
        given |= {hint} if hint else set()
    return "\n".join(lines)


def _hint(text: str) -> str | None:
    return next((hint for pattern, hint in _HINTS if re.search(pattern, text)), None)


def _taken_as_empty(log: str) -> str:
    """The headers that were not found and taken as empty, with the packages that have them; empty if there are none."""
    names = list(dict.fromkeys(_TAKEN_AS_EMPTY.findall(log)))
    hints = dict.fromkeys(_hint(f'cannot open source file "{name[1:-1]}"') for name in names)
    packages = [hint for hint in hints if hint and hint.startswith("pip install")]
    return "; ".join([f"not found, and taken as empty: {', '.join(names)}", *packages]) if names else ""
