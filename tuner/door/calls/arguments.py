"""The arguments of a call of Kernel Tuner as those of a space."""

from __future__ import annotations

import keyword
import math
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from tuner.classes import dataclass
from tuner.door.calls.call import ELSEWHERE, Call
from tuner.errors import RequestError
from tuner.space.dtypes import DTYPES
from tuner.space.expressions import arithmetic
from tuner.space.scope import DEVICE_NAMES
from tuner.space.sources.prototype import Prototype, prototypes

Array = np.ndarray[Any, np.dtype[Any]]
MOST = 2.0**64  # numbers are expressions in a space
VERIFIED = "verified"  # the derived value that a script's own `verify` function computes


@dataclass(frozen=True)
class ScriptArgument:
    """An argument of the kernel.

    name: its name in the space: the kernel's own where that is free.
    value: a number, or an array in the order of its memory: one in Fortran's order is transposed.
    is_constant: whether the kernel declares that it only reads the array.
    symbol: the variable of the source that takes its content; empty for a parameter of the kernel.
    is_transposed: whether the script's array is in Fortran's order.
    """

    name: str
    value: Array | np.generic
    is_constant: bool = False
    symbol: str = ""
    is_transposed: bool = False
    _written: set[Path] = field(default_factory=set, compare=False, repr=False)  # files that have the content

    @property
    def is_array(self) -> bool:
        return isinstance(self.value, np.ndarray)

    def declared(self, folder: Path, role: str, is_compared: bool) -> dict[str, Any]:
        """The argument as a space declares it. The content of an array is written into `folder`."""
        value = self.value
        if not isinstance(value, np.ndarray):
            value = _as_bits(value) if is_unusual(value) else value
            number = value.item()
            return {
                "name": self.name,
                "dtype": value.dtype.name,
                "value": int(number) if isinstance(number, bool) else number,
            }
        declared: dict[str, Any] = {
            "name": self.name,
            "dtype": value.dtype.name,
            "shape": [int(extent) for extent in value.shape],
            "role": role,
        }
        if role != "out":
            file = folder / f"{self.name}.npy"
            if file not in self._written:  # it may have gigabytes
                np.save(file, value)
                self._written.add(file)
            # What a sparse pattern or an index says is part of the problem; random numbers are not.
            is_drawn = DTYPES[value.dtype.name].kind != "integer"
            declared["fill"] = {"file": file.name, **({"drawn": True} if is_drawn else {})}
        if self.symbol:
            declared["kind"] = "constant"
        if not is_compared and role != "in":
            declared["compared"] = False
        return declared


def passed(call: Call) -> list[ScriptArgument]:
    """The arguments of a call, and after them what it copies into constant memory.

    Raises RequestError for one that is no NumPy array or number, or of a type that is not supported.
    """
    prototype = _prototype(call)
    names = _names(call, prototype)
    constant = [False] * len(names) if prototype is None else [p.is_const for p in prototype.parameters or ()]
    own = [
        ScriptArgument(name, _value(argument, position, call), is_constant, is_transposed=is_fortran(argument))
        for position, (name, argument, is_constant) in enumerate(zip(names, call.arguments, constant, strict=True))
    ]
    symbols = [
        ScriptArgument(name, _array(value, f"cmem_args[{name!r}]"), True, name)
        for name, value in (call.cmem_args or {}).items()
    ]
    return [*own, *symbols]


def _prototype(call: Call) -> Prototype | None:
    name = call.kernel_name.partition("<")[0].rpartition("::")[2].strip()
    found = [each for each in prototypes(call.text) if each.name == name and each.parameters is not None]
    return next((each for each in found if len(each.parameters or ()) == len(call.arguments)), None)


def _names(call: Call, prototype: Prototype | None) -> list[str]:
    """A name for each argument: that of the kernel's parameter if nothing else has it."""
    names = [f"argument_{position}" for position in range(len(call.arguments))]
    if prototype is None:
        return names
    own = [parameter.name for parameter in prototype.parameters or ()]
    return [_free(word, name, own, call) for word, name in zip(own, names, strict=True)]


def _free(word: str, name: str, others: Sequence[str], call: Call) -> str:
    taken = {VERIFIED, *call.parameters, *arithmetic.FUNCTIONS, *DEVICE_NAMES, *(call.cmem_args or {})}
    is_taken = word in taken or others.count(word) > 1 or keyword.iskeyword(word) or not word.isidentifier()
    return name if is_taken or word.startswith(("problem_size_", "blocks_")) else word


def _like(number: float) -> str:
    """A type of NumPy that holds a number of Python."""
    if isinstance(number, bool | int):
        return next((name for name in ("int32", "int64", "uint64") if DTYPES[name].holds(number)), "float64")
    return "float32"


def is_unusual(value: np.generic) -> bool:
    """Whether a number is none that an expression can be: NaN, infinite, or from 2**64 on."""
    return value.dtype.kind not in "biu" and not abs(float(value)) < MOST


def _as_bits(value: np.generic) -> np.generic:
    """The unsigned integer of the same bits, which a device gets in the same way."""
    bits: np.generic = np.frombuffer(value.tobytes(), f"u{value.dtype.itemsize}")[0]
    return bits


def _value(argument: Any, position: int, call: Call) -> Array | np.generic:
    where = f"arguments[{position}]"
    if isinstance(argument, np.generic):
        _check_type(argument.dtype, where)
        if is_unusual(argument) and call.language == "c":
            raise RequestError(
                f"{where}: {argument}: in C, numbers from 2**64 on, infinities and NaN are passed in arrays only; "
                f"write the number into the source, or {ELSEWHERE}"
            )
        return argument
    if isinstance(argument, bool | int | float):
        raise RequestError(
            f"{where}: {argument!r}: write a NumPy number, such as numpy.{_like(argument)}({argument!r})"
        )
    return _array(argument, where)


def is_fortran(argument: Any) -> bool:
    """Whether an array is in Fortran's order only. Its memory is passed as it is, which is that of its transpose."""
    return bool(getattr(getattr(argument, "flags", None), "fnc", False))


def _array(argument: Any, where: str) -> Array:
    """The content of an array of NumPy, CuPy or torch, in the order of its memory."""
    if hasattr(argument, "param_key"):
        raise RequestError(
            f"{where}: {type(argument).__name__}: arguments that depend on a parameter are not supported; pass one "
            f"array and convert it in the kernel, to a type that the parameter names, or {ELSEWHERE}"
        )
    argument = content(argument)
    if not isinstance(argument, np.ndarray):
        raise RequestError(f"{where}: of type {type(argument).__name__}; pass an array or a number of NumPy")
    if argument.size == 0:
        raise RequestError(f"{where}: an array without elements; leave it out, or give it at least one")
    array = np.ascontiguousarray(argument.T if is_fortran(argument) else argument)
    if array.dtype == np.bool_ or array.dtype.fields is not None:
        return array.reshape(-1).view(np.uint8)
    _check_type(array.dtype, where)
    return array


def content(argument: Any) -> Any:
    """An array of CuPy or torch as one of NumPy; anything else as it is."""
    package = type(argument).__module__.partition(".")[0]
    if package == "cupy":
        return argument.get(order="A")
    return argument.detach().cpu().numpy() if package == "torch" else argument


def _check_type(dtype: np.dtype[Any], where: str) -> None:
    if dtype.name not in DTYPES or not dtype.isnative:
        raise RequestError(
            f"{where}: of {dtype}; pass one of {', '.join(name for name in DTYPES if 'float8' not in name)}"
        )


def _is_comparable(dtype: np.dtype[Any]) -> bool:
    """Whether an answer may be of this type: numbers, booleans and structures."""
    return dtype.kind in "biufc" or dtype.fields is not None or dtype.name in DTYPES


def answers(call: Call, arguments: Sequence[ScriptArgument], answer: Sequence[Any] | None) -> dict[str, Array]:
    """The expected content of each array that has one, by name. Raises RequestError if one fits no array."""
    if answer is None:
        return {}
    if len(answer) != len(call.arguments):
        raise RequestError(f"answer: {len(answer)} elements; {len(call.arguments)} arguments: write None for an input")
    expected: dict[str, Array] = {}
    for position, (argument, wanted) in enumerate(zip(arguments, answer, strict=False)):
        if wanted is None:
            continue
        if not argument.is_array:
            continue  # a kernel cannot write a number that is passed by value
        array, shape = np.asarray(content(wanted)), np.shape(call.arguments[position])
        if argument.is_transposed and array.size == math.prod(shape):
            array = array.reshape(shape).T
        if not _is_comparable(array.dtype):
            raise RequestError(f"answer[{position}]: of {array.dtype}; pass numbers for {argument.name}")
        array = np.ascontiguousarray(array)
        if array.dtype.fields is not None or array.dtype == np.bool_:
            array = array.reshape(-1).view(np.uint8)
        if array.size != argument.value.size:
            raise RequestError(
                f"answer[{position}]: {array.size} elements; {argument.name} has {argument.value.size}; give it as many"
            )
        expected[argument.name] = array.reshape(argument.value.shape)
    return expected
