"""Supplies NVRTC with standard C headers, and explains the errors that host code in a .cu file causes."""

import functools
import re
from pathlib import Path

from tuner import paths
from tuner.space.sources.host_lines import GUARD

_STANDARD = ("assert", "float", "limits", "math", "stddef", "stdint", "stdio", "stdlib", "string")
NAMES = tuple(f"{name}.h" for name in _STANDARD) + tuple(f"c{name}" for name in _STANDARD)  # of standard headers
_GUARDED = f"put host code between #ifndef {GUARD} and #endif"
_CONSTANTS = {  # patterns of names, and the header that declares them
    r"u?int(_least|_fast)?(8|16|32|64)_t|u?int(ptr|max)_t|U?INT(PTR|8|16|32|64)_(MIN|MAX|C)|SIZE_MAX": "cstdint",
    r"INFINITY|NAN|HUGE_VALF?|M_[A-Z0-9_]+": "cmath",
    r"(FLT|DBL)_[A-Z0-9_]+": "cfloat",
    r"CHAR_BIT|U?(SCHAR|CHAR|SHRT|INT|LONG|LLONG)_(MIN|MAX)": "climits",
    r"offsetof": "cstddef",
}
_HINTS = [  # patterns of NVRTC's messages, and advice
    (
        r"/(?:cub|thrust)/[^(]*\(\d+\): ",
        "include the parts that a kernel uses, such as cub/block/block_scan.cuh; cub.cuh and thrust are for the host",
    ),
    (
        r'cannot open source file "',
        f"put headers that only host code needs between #ifndef {GUARD} and #endif; a kernel may include "
        "<cuda/std/limits> and the like; list the folders of your own headers in `include:`",
    ),
    (r"without execution space annotations", f"write __device__ before functions that a kernel calls; {_GUARDED}"),
    (r"marked as a __host__ function|kernel launch could not be processed", _GUARDED),
    (r'identifier "cuda[A-Z]\w*" is undefined', _GUARDED),
    (r'namespace "std" has no member "(?:max|min)"', "write max and min without std::"),
    *((rf'identifier "(?:{names})" is undefined', f"#include <{header}>") for names, header in _CONSTANTS.items()),
]


@functools.cache
def header() -> bytes:
    """The text that replaces each header in `NAMES`. It declares the types and constants of all of them."""
    return Path(__file__).with_name("standard.h").read_bytes()


@functools.cache
def version() -> str:
    """The digest of the header text."""
    return paths.digest(header())


def explained(log: str) -> str:
    """NVRTC's log, with advice appended to the messages that host code causes; each advice appears once. Drops NVRTC's
    own advice, an option that would compile host code for the device."""
    given, lines = set[str](), list[str]()
    for line in log.splitlines():
        text = line.partition(". Consider using -default-device")[0]
        hint = next((hint for pattern, hint in _HINTS if re.search(pattern, text)), None)
        lines.append(text if hint is None or hint in given else f"{text}; {hint}")
        given |= {hint} if hint else set()
    return "\n".join(lines)
