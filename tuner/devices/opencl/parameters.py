"""Reads the sizes of kernels' parameters from a program that was built with ARGUMENT_INFO."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pyopencl as cl

from tuner.devices.builds.interface import Interface
from tuner.errors import BuildError
from tuner.space.dtypes import DTYPES

ARGUMENT_INFO = "-cl-kernel-arg-info"
_POINTER = 8  # bytes
_VECTOR = re.compile(r"(\w*?[a-z])(2|3|4|8|16)?")
# Types of objects, which have no size.
_OBJECT = re.compile(r"(?:image[123]d\w*|sampler)_t")
_NUMBERS = {dtype.words.opencl: dtype.itemsize for dtype in DTYPES.values() if not dtype.part}


def interface(program: cl.Program, kernels: Iterable[str], build_more: Callable[[str], cl.Program]) -> Interface | None:
    """The interface of these kernels of `program`; None if the driver does not tell their parameters.

    `build_more` builds the program's source with a text behind it. It is called only where a parameter is a structure
    or has a type of the source's own.
    """
    types: dict[str, list[str]] = {}
    try:
        for name in kernels:
            kernel = cl.Kernel(program, name)
            info = [kernel.get_arg_info(i, cl.kernel_arg_info.TYPE_NAME) for i in range(kernel.num_args)]
            types[name] = [_plain(str(each)) for each in info]
    except cl.Error:
        return None
    sizes = {each: size_of(each) for named in types.values() for each in named}
    sizes |= _measured([each for each, size in sizes.items() if not size and not is_object(each)], build_more)
    objects = {name: tuple(each if is_object(each) else "" for each in named) for name, named in types.items()}
    return Interface(
        {name: tuple(sizes[each] for each in named) for name, named in types.items()},
        objects={name: named for name, named in objects.items() if any(named)},
    )


def is_object(type_name: str) -> bool:
    """Whether a type is that of an object, such as an image or a sampler."""
    return _OBJECT.fullmatch(type_name) is not None


def _plain(type_name: str) -> str:
    """A type without the access qualifier of an image, which some drivers put before it."""
    return last if is_object(last := type_name.rpartition(" ")[2]) else type_name


def size_of(type_name: str) -> int:
    """Bytes of a pointer, a number or a vector of numbers; 0 for any other type."""
    if type_name.endswith("*"):
        return _POINTER
    match = _VECTOR.fullmatch(type_name)
    if match is None:
        return 0
    width = int(match[2] or 1)
    return _NUMBERS.get(match[1], 0) * (4 if width == 3 else width)


def _required_size(kernel: cl.Kernel) -> int:
    """The work-group size along x that the source of `kernel` requires."""
    (device,) = kernel.context.devices
    sizes: Any = kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device)
    return int(sizes[0])


def _measured(types: list[str], build_more: Callable[[str], cl.Program]) -> dict[str, int]:
    """The bytes of these types as the compiler sees them, without those that are not known at the end of the source.

    The compiler computes each as the required work-group size of an empty kernel, which is never launched.
    """
    if not types:
        return {}
    names = {each: f"tuner_size_{position}" for position, each in enumerate(types)}
    attribute = "__attribute__((reqd_work_group_size(sizeof({}), 1, 1)))"
    text = "".join(f"\n__kernel {attribute.format(each)} void {name}(void) {{}}" for each, name in names.items())
    try:
        program = build_more(text)
        return {each: _required_size(cl.Kernel(program, name)) for each, name in names.items()}
    except (BuildError, cl.Error):  # a type within a block
        return {}
