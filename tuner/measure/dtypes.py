"""How our kernels read an element of each dtype: one line for each."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Element:
    """`stored` is the C type of an element's bits. `real` is the macro that makes a double of them; None for integers,
    whose C type is `whole`."""

    stored: str
    real: str | None = None
    whole: str = ""

    @property
    def macros(self) -> str:
        """What `bench_kernels.cu` needs to know of the type; integers are then compared bit by bit."""
        real = f"#define REAL(bits) {self.real}(bits)\n" if self.real else ""
        return f"#define STORED {self.stored}\n{real}"

    @property
    def tolerant_macros(self) -> str:
        """The same, with what integers need to be compared within a tolerance."""
        if self.real:
            return self.macros
        wide = "unsigned long" if self.whole == "unsigned long" else "long"
        return f"{self.macros}#define WHOLE {self.whole}\n#define WIDE {wide}\n"


ELEMENTS: Mapping[str, Element] = {
    "float16": Element("unsigned short", "half_value"),
    "float32": Element("unsigned int", "FLOAT_OF"),
    "float64": Element("unsigned long", "DOUBLE_OF"),
    "int8": Element("unsigned char", whole="signed char"),
    "uint8": Element("unsigned char", whole="unsigned char"),
    "int16": Element("unsigned short", whole="short"),
    "int32": Element("unsigned int", whole="int"),
    "uint32": Element("unsigned int", whole="unsigned int"),
    "int64": Element("unsigned long", whole="long"),
    "uint64": Element("unsigned long", whole="unsigned long"),
}
