"""Hide from Kernel Tuner packages that it imports without need: torch alone takes longer to import than a short run."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType
from typing import Any

_HIDDEN = ("torch", "cupy")  # Kernel Tuner knows what to do without them
_USER = "kernel_tuner"


class Hidden(MetaPathFinder):
    """Finds no module, and says that these are missing if Kernel Tuner asks for them: in a block, or after `hide`."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname in _HIDDEN and _importer(sys._getframe(1)).partition(".")[0] == _USER:
            raise ModuleNotFoundError(f"{fullname} is hidden from {_USER}", name=fullname)
        return None

    def __enter__(self) -> None:
        self.hide()

    def __exit__(self, *exception: object) -> None:
        sys.meta_path.remove(self)

    def hide(self) -> None:
        """For the life of this process, if nobody hands their arrays to Kernel Tuner in it."""
        sys.meta_path.insert(0, self)


def _importer(frame: FrameType | None) -> str:
    """The name of the module that imports."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib"):
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))
