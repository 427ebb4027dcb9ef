"""How our kernels read an element of each dtype: one line for each."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Element:
    """`stored` is the C type of an element's bits. `real` is the macro that makes a double of them; None for a type
    that must hold the very bits of its reference."""

    stored: str
    real: str | None = None

    @property
    def macros(self) -> str:
        """What `bench_kernels.cu` needs to know of the type."""
        real = f"#define REAL(bits) {self.real}(bits)\n" if self.real else ""
        return f"#define STORED {self.stored}\n{real}"


ELEMENTS: Mapping[str, Element] = {
    "float16": Element("unsigned short", "half_value"),
    "float32": Element("unsigned int", "FLOAT_OF"),
    "float64": Element("unsigned long", "DOUBLE_OF"),
    "int8": Element("unsigned char"),
    "uint8": Element("unsigned char"),
    "int16": Element("unsigned short"),
    "int32": Element("unsigned int"),
    "uint32": Element("unsigned int"),
    "int64": Element("unsigned long"),
    "uint64": Element("unsigned long"),
}
