"""Families: kernels that compute the same in different ways, such as the stages of sgemm."""

from __future__ import annotations

from typing import Any

from tuner.space import catalog
from tuner.space.model import Operation, Space


def members(family: str) -> list[Space]:
    """The kernels of a family, in the order of their names: those called `family/...`, if all of them take the same
    arguments and compute the same. None where `family` is the name of a kernel, or of kernels that differ.

    A file that cannot be read is left out: `tune validate` tells what is wrong with it.
    """
    for entries in (_near, _far):
        found = entries()
        if any(entry.name == family for entry in found):
            return []
        within = sorted((e for e in found if e.name.startswith(f"{family}/")), key=lambda entry: entry.name)
        spaces = [space for _, space in catalog.loaded(within, [])]
        if spaces:
            first = _problem(spaces[0].operation)
            return spaces if all(_problem(space.operation) == first for space in spaces) else []
    return []


def _near() -> list[catalog.CatalogEntry]:
    return [*catalog.shipped(), *catalog.own()[0]]


def _far() -> list[catalog.CatalogEntry]:
    return catalog.of_wheels()[0]  # finding these takes long


def _problem(operation: Operation) -> tuple[Any, ...]:
    """What a caller passes, and what is right. How a kernel gets it, as in shapes and strides, is its own affair."""
    arrays = [(array.name, array.dtype, array.role) for array in operation.arrays]
    return operation.sizes, operation.options, operation.types, arrays, operation.reference
