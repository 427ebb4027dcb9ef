"""A family: the kernels of one operation, by the folder that they are in or by their names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.catalog import catalog, kernel_names
from tuner.catalog.folders import space_files
from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.space.model import Operation, Space

Kernels = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Family:
    """Kernels that take the same arrays and give the same answers. `name` is the family's, or the first kernel's.
    `address` is what finds it in another process, which may run in another folder; None for a list, and for a kernel
    alone."""

    name: str
    spaces: tuple[Space, ...]
    address: str | None = None

    @property
    def operation(self) -> Operation:
        """What all of them compute: that of the first. Scratch and leading dimensions may differ."""
        return self.spaces[0].operation


def find(kernels: Kernels) -> Family:
    """The family `sgemm`, whose kernels are called `sgemm/...`; that of the space files in a folder; that of the
    kernels in a list, each as `tuner.load` takes it; or a kernel alone.

    Raises RequestError where there is none, and where two of its kernels compute different things.
    """
    if isinstance(kernels, str | Path):
        name, members = str(kernels), _members(str(kernels))
    elif isinstance(kernels, Sequence) and kernels and all(isinstance(kernel, str | Path) for kernel in kernels):
        name, members = "", [str(kernel) for kernel in kernels]
    else:
        raise RequestError(f"family {quoted(kernels)}: write a family such as sgemm, a folder, or a list of kernels")
    spaces = tuple(catalog.load(member) for member in members)
    for space in spaces[1:]:
        if (difference := _difference(spaces[0].operation, space.operation)) is not None:
            raise RequestError(
                f"family {quoted(name or spaces[0].name)}: {spaces[0].name} and {space.name} differ in {difference}; "
                "name kernels of one operation, as a list"
            )
    return Family(name or spaces[0].name, spaces, _address(name.rstrip("/"), spaces) if len(spaces) > 1 else None)


def _address(name: str, spaces: Sequence[Space]) -> str | None:
    """What finds the kernels that `name` finds here: of files of the user's their folder, where it has no others."""
    files = {kernel_names.address(space) for space in spaces}
    folders = {os.path.dirname(file) for file in files}
    if name and all(map(os.path.isabs, files)) and len(folders) == 1:
        (folder,) = folders
        if {str(file) for file in space_files(Path(folder), [])} == files:
            return folder
    return name if name and all(space.name.startswith(f"{name}/") for space in spaces) else None


def _members(name: str) -> list[str]:
    """What `catalog.load` finds the kernels of a family by, in the order of their names."""
    if Path(name).suffix in (".yaml", ".yml"):
        return [name]
    shipped, own = catalog.shipped(), catalog.own()[0]
    found = _called(name, shipped) or _called(name, own)
    if not found and any(entry.name == name for entry in (*shipped, *own)):
        return [name]  # wheels, which take long to look at, are not asked
    if not found and os.path.isdir(name):
        problems: list[str] = []
        found = sorted(str(file) for file in space_files(Path(name), problems))
        if not found:
            raise RequestError(
                f"family {quoted(name)}: {problems[0] if problems else 'no space file is in the folder'}"
            )
    return found or _called(name, catalog.of_wheels()[0]) or [catalog.find(name)[1]]


def _called(name: str, entries: Iterable[catalog.CatalogEntry]) -> list[str]:
    files = {entry.name: str(entry.file) for entry in entries if entry.name.startswith(f"{name.rstrip('/')}/")}
    return [files[each] for each in sorted(files)]


def _difference(one: Operation, other: Operation) -> str | None:
    """What callers of two operations would notice; None if nothing."""
    for what, first, second in (
        ("sizes", list(one.sizes.items()), list(other.sizes.items())),
        ("options", dict(one.options), dict(other.options)),
        ("types", dict(one.types), dict(other.types)),
        ("arrays", _arrays(one), _arrays(other)),
        ("reference", one.reference.meaning, other.reference.meaning),
    ):
        if first != second:
            return f"{what}: {shown(str(first))}, {shown(str(second))}"
    return None


def _arrays(op: Operation) -> list[str]:
    return [f"{a.role} {a.dtype} {a.name}[{', '.join(e.text for e in a.shape or ())}]" for a in op.arrays]
