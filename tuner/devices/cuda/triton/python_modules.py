"""The modules of kernels, in the process in which Triton compiles: as that is, this is a script without tuner."""

import ast
import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

Json = dict[str, Any]


def loaded(request: Json, folder: str) -> ModuleType:
    """The module of the kernel. Where torch is not installed, something stands in for it."""
    try:
        return found(request, folder)
    except ModuleNotFoundError as error:
        stand_in = executed("stand_in", Path(__file__).with_name("stand_in.py"))
        if error.name is None or error.name.partition(".")[0] != stand_in.NAME:
            raise
        stand_in.install()
        try:
            return found(request, folder)
        except Exception:
            raise error from None


def found(request: Json, folder: str) -> ModuleType:
    """The module of the kernel: the part of its file that it needs, under the file's own name and package.

    First without running the files of the packages around it, which often import a library and torch; then not
    those of other packages below the same folder either; then all.
    """
    path, package, root = Path(folder, os.path.basename(request["file"])), request["package"], request["root"]
    path.write_text(request["text"])
    name = f"{package}.{path.stem}" if package else path.stem
    if root:
        sys.path.insert(0, root)
    if not package:
        return executed(name, path)
    before, finder = {*sys.modules}, Packages(root)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: enter(package, root),
        lambda: sys.meta_path.insert(0, finder),
        lambda: importlib.import_module(package),
    )
    first: Exception | None = None
    for way in ways:
        try:
            way()
            return executed(name, path)
        except Exception as error:  # the kernel may need what its packages do when they are imported
            first = first or error
            for each in {*sys.modules} - before:
                del sys.modules[each]
        finally:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
    assert first is not None
    raise first


class Packages(MetaPathFinder, Loader):
    """Finds the packages below a folder, and runs none of their files."""

    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """A package below the folder."""
        place = os.path.join(self.root, *name.split("."))
        if not os.path.isfile(os.path.join(place, "__init__.py")):
            return None
        spec = ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = [place]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Define what the file says in literals."""
        vars(module).update(literals(Path(module.__path__[0], "__init__.py")))


def enter(package: str, root: str) -> None:
    """Define a package and those around it without running their files."""
    names = package.split(".")
    for count in range(1, len(names) + 1):
        name = ".".join(names[:count])
        if name not in sys.modules:
            module = sys.modules[name] = ModuleType(name)
            module.__path__ = [os.path.join(root, *names[:count])]
            vars(module).update(literals(Path(*module.__path__, "__init__.py")))


def literals(file: Path) -> Json:
    """The numbers and texts at the top level of a file, such as __version__."""
    found: Json = {}
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for node in ast.parse(file.read_text()).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                    found[name] = value
    return found


def executed(name: str, path: Path) -> ModuleType:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def files_of(function: Any, compiler: str, visited: set[Any]) -> set[str]:
    """The files of a kernel and of the functions that it reaches, without those of its compiler, a folder."""
    file = os.path.abspath(function.fn.__code__.co_filename)
    if function in visited or file.startswith(compiler + os.sep):
        return set()
    visited.add(function)
    names, scope = function.fn.__code__.co_names, function.fn.__globals__
    reached = [scope[name] for name in names if name in scope]
    reached += [getattr(module, name, None) for module in reached if isinstance(module, ModuleType) for name in names]
    found = {file}
    for each in reached:
        if type(each) is type(function):
            found |= files_of(each, compiler, visited)
    return found
