"""The table of argument dtypes: range, precision, and spelling in each language."""

import functools
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from tuner.classes import cached_property, dataclass

Kind = Literal["real", "complex", "integer", "boolean"]


class Words(NamedTuple):
    """The spelling of a type in each language. A language without the type uses an unsigned integer of its width, but
    Triton has no word for it."""

    c: str
    opencl: str
    cuda: str
    triton: str = ""


@dataclass(frozen=True)
class DType:
    """An element type.

    name: its name in NumPy or ml_dtypes.
    itemsize: bytes per element.
    words: its spelling in each language.
    low, high: the smallest and the largest finite value.
    digits, least_exponent: for floating point, the number of explicit fraction bits, and the exponent of the smallest
        normal number.
    foreign: whether it is a type of ml_dtypes, which NumPy lacks.
    part: for a complex type, the name of the type of its real and imaginary parts.
    """

    name: str
    kind: Kind
    itemsize: int
    words: Words
    low: float = 0
    high: float = 0
    digits: int = 0
    least_exponent: int = 0
    foreign: bool = False
    part: str = ""

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        if not self.foreign:
            return np.dtype(self.name)
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.name))
        return dtype

    def scalar(self, value: float) -> np.generic:
        """`value` as a NumPy scalar of this type."""
        typed: np.generic = self.numpy.type(value)
        return typed

    def rounded(self, value: float) -> float:
        """`value`, which this type holds, as a scalar of this type: the nearest number that it can represent."""
        return value if self.is_exact else float(DTYPES[self.part or self.name].scalar(value))

    @property
    def bits(self) -> np.dtype[Any]:
        """The unsigned integer type with the width of an element, or of one part of a complex element."""
        return np.dtype(f"u{self.itemsize // self.parts}")

    @property
    def parts(self) -> int:
        """The number of parts of an element: 2 for complex types, otherwise 1."""
        return 2 if self.part else 1

    @property
    def is_exact(self) -> bool:
        """Whether outputs must equal their answers exactly: integers and booleans."""
        return self.kind in ("integer", "boolean")

    @property
    def epsilon(self) -> float:
        """The unit round-off: half the distance from 1 to the next larger value; 0 for exact types."""
        return 0.0 if self.is_exact else 2.0 ** -(self.digits + 1)

    @property
    def is_coarse(self) -> bool:
        """Whether it is an 8-bit float: too imprecise for an error bound that does not know the kernel."""
        return self.kind == "real" and self.itemsize == 1

    @property
    def wide(self) -> np.dtype[Any]:
        """The type in which references are computed."""
        widest = {"real": "float64", "complex": "complex128", "boolean": "bool"}
        return np.dtype(widest.get(self.kind) or ("uint64" if self.name == "uint64" else "int64"))

    @property
    def typestrs(self) -> tuple[str, ...]:
        """Its possible `typestr` values in `__cuda_array_interface__`.

        That protocol has none for types of ml_dtypes: libraries report raw bytes, or unsigned integers of that width.
        """
        if not self.foreign:
            return (self.numpy.str,)
        size = self.itemsize
        return self.numpy.str, f"<V{size}", f"|V{size}", self.bits.str

    def is_held_by(self, dtype: np.dtype[Any]) -> bool:
        """Whether an array of `dtype` holds elements of this type, or a view of their bits."""
        return dtype == self.numpy or (self.foreign and dtype in (self.bits, np.dtype(f"V{self.itemsize}")))

    def holds(self, value: float) -> bool:
        """Whether `value` is in the range of this type, and is a whole number if the type is exact."""
        if self.is_exact:
            return value == int(value) and self.low <= int(value) <= self.high
        return abs(value) <= self.high


def _real(name: str, itemsize: int, digits: int, least: int, high: float, words: Words, foreign: bool = False) -> DType:
    return DType(name, "real", itemsize, words, -high, high, digits, least, foreign)


def _complex(part: DType, words: Words) -> DType:
    name, size = f"complex{16 * part.itemsize}", 2 * part.itemsize
    return DType(name, "complex", size, words, part.low, part.high, part.digits, part.least_exponent, part=part.name)


def _integer(name: str, words: Words) -> DType:
    width = int(name.removeprefix("u").removeprefix("int"))
    low, high = (0, 2**width - 1) if name.startswith("u") else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    return DType(name, "integer", width // 8, words, low, high)


_FLOAT32 = _real("float32", 4, 23, -126, (2 - 2.0**-23) * 2.0**127, Words("float", "float", "float", "fp32"))
_FLOAT64 = _real("float64", 8, 52, -1022, (2 - 2.0**-52) * 2.0**1023, Words("double", "double", "double", "fp64"))
_ALL = (
    _real("float16", 2, 10, -14, 65504.0, Words("_Float16", "half", "__half", "fp16")),
    _FLOAT32,
    _FLOAT64,
    _real(
        "bfloat16",
        2,
        7,
        -126,
        (2 - 2.0**-7) * 2.0**127,
        Words("unsigned short", "ushort", "__nv_bfloat16", "bf16"),
        True,
    ),
    _real("float8_e4m3fn", 1, 3, -6, 448.0, Words("unsigned char", "uchar", "__nv_fp8_e4m3", "fp8e4nv"), True),
    _real("float8_e5m2", 1, 2, -14, 57344.0, Words("unsigned char", "uchar", "__nv_fp8_e5m2", "fp8e5"), True),
    _complex(_FLOAT32, Words("float _Complex", "float2", "float2")),
    _complex(_FLOAT64, Words("double _Complex", "double2", "double2")),
    DType("bool", "boolean", 1, Words("_Bool", "uchar", "bool", "i1"), high=1),
    _integer("int8", Words("signed char", "char", "signed char", "i8")),
    _integer("uint8", Words("unsigned char", "uchar", "unsigned char", "u8")),
    _integer("int16", Words("short", "short", "short", "i16")),
    _integer("uint16", Words("unsigned short", "ushort", "unsigned short", "u16")),
    _integer("int32", Words("int", "int", "int", "i32")),
    _integer("uint32", Words("unsigned int", "uint", "unsigned int", "u32")),
    _integer("int64", Words("long", "long", "long", "i64")),
    _integer("uint64", Words("unsigned long", "ulong", "unsigned long", "u64")),
)
DTYPES: Mapping[str, DType] = {dtype.name: dtype for dtype in _ALL}
ALIASES: Mapping[str, str] = {"float8_e4m3": "float8_e4m3fn"}  # CUDA's name


def canonical(name: str) -> str:
    """The name in `DTYPES` for the alias `name`; any other text unchanged."""
    return ALIASES.get(name, name)


def complex_of(part: str) -> str:
    """The complex dtype whose real and imaginary parts have the dtype `part`; empty if there is none."""
    return next((dtype.name for dtype in DTYPES.values() if dtype.part == part), "")


@functools.cache  # NumPy makes a dtype's name anew each time
def of(dtype: np.dtype[Any]) -> DType:
    """The DType of a NumPy dtype."""
    return DTYPES[dtype.name]


def spelling(dtype: str, language: str) -> str:
    """The spelling of the type of this name in `language`."""
    word: str = getattr(DTYPES[dtype].words, language)
    return word


_HEADERS = {
    "float16": "cuda_fp16.h",
    "bfloat16": "cuda_bf16.h",
    "float8_e4m3fn": "cuda_fp8.h",
    "float8_e5m2": "cuda_fp8.h",
}


def prologue(names: Mapping[str, str], language: str) -> str:
    """The includes and pragmas that a source in `language` needs for these types.

    `names` maps names in the space file to dtypes.
    """
    if language == "cuda":  # a template need not name the type that it is instantiated with
        return "".join(
            f"#include <{header}>\n" for header in dict.fromkeys(filter(None, map(_HEADERS.get, names.values())))
        )
    if language != "opencl" or "float16" not in names.values():
        return ""
    return "#ifdef cl_khr_fp16\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#endif\n"
