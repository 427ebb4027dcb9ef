"""Stands in for torch where it is not installed, while the files around a kernel are run: they often name its types and
register operators, and the kernel needs nothing of it.

Whatever is taken from the stand-in, or made by a call of it, is one, too. Whoever needs to know its value, such as a
condition, gets ModuleNotFoundError, so that no code is compiled in another way than with torch.
"""

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

NAME = "torch"


class StandIn(ModuleType):
    """A module, or anything that comes from one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return StandIn(f"{self.__name__}()")

    def __getitem__(self, key: Any) -> Any:
        return StandIn(f"{self.__name__}[]")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        """End a block."""

    def _unknown(self, *_: Any) -> NoReturn:
        raise ModuleNotFoundError(f"No module named '{NAME}', and {self.__name__} is needed", name=NAME)

    __hash__ = ModuleType.__hash__  # types are keys of tables
    __eq__ = __ne__ = _unknown
    __bool__ = __int__ = __float__ = __index__ = __len__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown
    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = __floordiv__ = __mod__ = _unknown

    def __iter__(self) -> Iterator[Any]:
        self._unknown()


class Finder(MetaPathFinder, Loader):
    """Finds torch and its modules, last of all."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module, if it is of torch."""
        return importlib.util.spec_from_loader(name, self) if name.partition(".")[0] == NAME else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = StandIn(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing."""


def install() -> None:
    """Let torch be found in this process, which must lack it."""
    sys.meta_path.append(Finder())
