"""Everything that a kernel in a Python file reaches: its own file, and the user's modules beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tuner.classes import dataclass
from tuner.space import snapshot
from tuner.space.jit import part
from tuner.space.jit.part import EVERYTHING, Imported, Part
from tuner.space.values import python_function

MOST_FILES = 200


@dataclass(frozen=True)
class Closure:
    """What a kernel reaches.

    own: the part of its own file.
    code: everything that it reaches, without comments, in an order that does not depend on where the files are.
    root: the folder from which its modules are imported.
    package: the package of its file; empty if it is in none.
    """

    own: Part
    code: str
    root: Path
    package: str


def of(file: Path, kernel: str) -> Closure:
    """What the function `kernel` of a Python file reaches. Raises SpaceError if a file cannot be read."""
    root, package = _place(file)
    own = _part(file, frozenset({kernel}), kernel)
    asked = dict[Path, frozenset[str]]()
    queue = [*_files(file, own, root)]
    while queue:
        path, names = queue.pop()
        known = asked.get(path, frozenset())
        if not names <= known and len(asked) < MOST_FILES and path != file:
            asked[path] = known | names
            queue += _files(path, _part(path, asked[path]), root)
    others = (f"{path.relative_to(root)}\n{_part(path, names).code}" for path, names in sorted(asked.items()))
    return Closure(own, "\0".join([own.code, *others]), root, package)


def _part(file: Path, names: frozenset[str], kernel: str = "") -> Part:
    return python_function.read(file, lambda text: part.of(text, names, kernel))


def _place(file: Path) -> tuple[Path, str]:
    """The folder from which a file's modules are imported, and the package that it is in."""
    folder, packages = file.parent, list[str]()
    while os.path.isfile(folder / "__init__.py") and folder != folder.parent:
        packages.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(packages)


def _files(file: Path, own: Part, root: Path) -> Iterator[tuple[Path, frozenset[str]]]:
    """The modules below `root` that a part of a file imports, each with the names that it takes from them."""
    for each in own.imports:
        base = root if not each.level else file.parent.joinpath(*[".."] * (each.level - 1))
        module = Path(os.path.normpath(base)).joinpath(*filter(None, each.module.split(".")))
        for name in sorted(each.names):  # a name may be a module
            if (found := _module(module / name)) is not None and found.is_relative_to(root):
                yield found, frozenset({EVERYTHING})
        if (found := _module(module)) is not None and found.is_relative_to(root):
            yield found, _asked(each)


def _asked(imported: Imported) -> frozenset[str]:
    return imported.names or frozenset({EVERYTHING})


def _module(path: Path) -> Path | None:
    """The file of a module or package; None if there is none."""
    candidates = (path.with_name(f"{path.name}.py"), path / "__init__.py") if path.name else ()
    return next((each for each in candidates if snapshot.stamp(each)), None)
