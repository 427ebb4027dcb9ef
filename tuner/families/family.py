"""Find a family: the kernels of one operation, by their folder or by their names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tuner.catalog import catalog, kernel_lists, kernel_names
from tuner.catalog.folders import space_files
from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.space.computation import Operation
from tuner.space.model import Space

Kernels = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Family:
    """Kernels that take the same arrays and compute the same outputs.

    `name` is the family's, or the first kernel's if they were given as a list. `address` is a name or a path with which
    a process in another folder finds the family; None for a list or a single kernel.
    """

    name: str
    spaces: tuple[Space, ...]
    address: str | None = None

    @property
    def operation(self) -> Operation:
        """The operation of the first kernel. Scratch arrays and leading dimensions of the others may differ."""
        return self.spaces[0].operation


def find(kernels: Kernels) -> Family:
    """The family named by `kernels`.

    `kernels` is a name such as "sgemm", for all kernels called `sgemm/...`; a folder of space files; a list of kernels,
    each as `tuner.load` takes it; or one kernel. Raises RequestError if there is none, or if two of the kernels compute
    different operations.
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


def check_no_images(name: str, operation: Operation) -> None:
    """Raise RequestError if an argument is an image, because a dispatcher reads the sizes of a call from arrays."""
    if image := next((a.name for a in operation.arrays if a.kind is not None and a.kind.object_type), None):
        raise RequestError(
            f"family {quoted(name)}: {image} is an image, and a dispatcher reads sizes from arrays; load the kernel "
            "at one size with tuner.load"
        )


def _address(name: str, spaces: Sequence[Space]) -> str | None:
    """The name or path with which another process finds the same kernels; None if there is none.

    For space files of the user, this is their folder, if it contains no other space files.
    """
    files = {kernel_names.address(space) for space in spaces}
    folders = {os.path.dirname(file) for file in files}
    if name and all(map(os.path.isabs, files)) and len(folders) == 1:
        (folder,) = folders
        if {str(file) for file in space_files(Path(folder), [])} == files:
            return folder
    return name if name and all(space.name.startswith(f"{name}/") for space in spaces) else None


def _members(name: str) -> list[str]:
    """The names or paths of a family's kernels, as `catalog.load` takes them, in the order of names."""
    if Path(name).suffix in (".yaml", ".yml"):
        return [name]
    shipped = kernel_lists.shipped()
    if members := _files_below(name, shipped):
        return members  # without the user's own kernels, whose files are read
    own = kernel_lists.own()[0]
    members = _files_below(name, own)
    if not members and any(entry.name == name for entry in (*shipped, *own)):
        return [name]  # without searching wheels, which is slow
    if not members and os.path.isdir(name):
        problems: list[str] = []
        members = sorted(str(file) for file in space_files(Path(name), problems))
        if not members:
            raise RequestError(
                f"family {quoted(name)}: {problems[0] if problems else 'no space file is in the folder'}"
            )
    return members or _files_below(name, kernel_lists.of_wheels()[0]) or [catalog.find(name)[1]]


def _files_below(name: str, entries: Iterable[kernel_lists.CatalogEntry]) -> list[str]:
    """The files of the entries whose names begin with `name/`, sorted by name."""
    files = {entry.name: str(entry.file) for entry in entries if entry.name.startswith(f"{name.rstrip('/')}/")}
    return [files[each] for each in sorted(files)]


def _difference(one: Operation, other: Operation) -> str | None:
    """The first difference between two operations that callers would notice, in words; None if there is none."""
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
