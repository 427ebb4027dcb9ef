"""What a .cu has besides its kernels: standard headers, which NVRTC gets from here, and code of the host, for which the
compiler's log is explained."""

import functools
import re
from pathlib import Path

from tuner import paths
from tuner.space.sources.host_lines import GUARD

_STANDARD = ("assert", "float", "limits", "math", "stddef", "stdint", "stdio", "stdlib", "string")
NAMES = tuple(f"{name}.h" for name in _STANDARD) + tuple(f"c{name}" for name in _STANDARD)  # of standard headers
_GUARDED = f"put code of the host between #ifndef {GUARD} and #endif"
_CONSTANTS = {  # where what a kernel reads is declared: names, and their header
    r"u?int(_least|_fast)?(8|16|32|64)_t|u?int(ptr|max)_t|U?INT(PTR|8|16|32|64)_(MIN|MAX|C)|SIZE_MAX": "cstdint",
    r"INFINITY|NAN|HUGE_VALF?|M_[A-Z0-9_]+": "cmath",
    r"(FLT|DBL)_[A-Z0-9_]+": "cfloat",
    r"CHAR_BIT|U?(SCHAR|CHAR|SHRT|INT|LONG|LLONG)_(MIN|MAX)": "climits",
    r"offsetof": "cstddef",
}
_HINTS = [  # of messages of NVRTC, and the cure
    (
        r"/(?:cub|thrust)/[^(]*\(\d+\): ",
        "include the parts that a kernel uses, such as cub/block/block_scan.cuh; cub.cuh and thrust are for the host",
    ),
    (
        r'cannot open source file "',
        f"put headers that only code of the host needs between #ifndef {GUARD} and #endif; a kernel may have "
        "<cuda/std/limits> and the like; name folders of your own headers in `include:`",
    ),
    (r"without execution space annotations", f"write __device__ before what a kernel calls; {_GUARDED}"),
    (r"marked as a __host__ function|kernel launch could not be processed", _GUARDED),
    (r'identifier "cuda[A-Z]\w*" is undefined', _GUARDED),
    (r'namespace "std" has no member "(?:max|min)"', "write max and min without std::"),
    *((rf'identifier "(?:{names})" is undefined', f"#include <{header}>") for names, header in _CONSTANTS.items()),
]


@functools.cache
def header() -> bytes:
    """The text that stands for each of `NAMES`: the types and constants of all."""
    return Path(__file__).with_name("standard.h").read_bytes()


@functools.cache
def version() -> str:
    """The name of that text."""
    return paths.digest(header())


def explained(log: str) -> str:
    """NVRTC's log, with the cure behind each message that code of the host causes, once. The option that NVRTC itself
    proposes would make device code of it."""
    told, lines = set[str](), list[str]()
    for line in log.splitlines():
        text = line.partition(". Consider using -default-device")[0]
        hint = next((hint for pattern, hint in _HINTS if re.search(pattern, text)), None)
        lines.append(text if hint is None or hint in told else f"{text}; {hint}")
        told |= {hint} if hint else set()
    return "\n".join(lines)
