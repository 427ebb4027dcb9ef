"""The compiler options of a call of Kernel Tuner."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from tuner.door.call import ELSEWHERE, Call, braced
from tuner.errors import RequestError

_INCLUDES = ("-I", "--include-path=")
# Options that tuner itself sets for the device and the run.
_OWN = re.compile(r"-arch=.*|--gpu-architecture=.*|-lineinfo|--generate-line-info")


def of(call: Call) -> tuple[list[str], list[str]]:
    """The options of a space, and the folders of headers that a call names. Raises RequestError."""
    given, options, folders = [str(each) for each in call.compiler_options or ()], list[str](), list[str]()
    position = 0
    while position < len(given):
        option, position = given[position], position + 1
        prefix = next((each for each in _INCLUDES if option.startswith(each)), None)
        if prefix is not None:
            folder = option[len(prefix) :].strip()
            if not folder and position < len(given):
                folder, position = given[position].strip(), position + 1
            folders.append(str(Path(folder).absolute()))
        elif not _OWN.fullmatch(option):
            options += option.split()
    if '#include "' in call.text or "# include" in call.text:  # relative to the source, or to the script's own folder
        folders += [str(call.file.parent)] if call.file is not None else []
        folders.append(str(Path.cwd()))
    defines = [f"-D{name}={_definition(name, value, call)}" for name, value in (call.defines or {}).items()]
    cpp = ["-xc++"] if call.language == "c" else []
    library, own = _of_cupy() if (call.lang or "").upper() == "CUPY" else ([], [])
    return [*cpp, *options, *defines], list(dict.fromkeys([*library, *folders, *own]))


def _of_cupy() -> tuple[list[str], list[str]]:
    """The folders of headers that CuPy gives to its compiler, as far as they exist: those of the C++ library that it
    comes with, which are searched first, and its own, which are searched last. CuPy is not imported: it may have no
    driver here."""
    try:
        found = importlib.util.find_spec("cupy")
    except (ImportError, ValueError):
        found = None
    if found is None or not found.submodule_search_locations:
        return [], []
    own = Path(found.submodule_search_locations[0]) / "_core" / "include"
    library = [own / "cupy" / "_cccl" / name for name in ("cub", "thrust", "libcudacxx")]
    return [str(each) for each in library if each.is_dir()], [str(own)] if own.is_dir() else []


def _definition(name: str, value: Any, call: Call) -> str:
    if callable(value):
        raise RequestError(f"defines: {name} is a function; write a text, or {ELSEWHERE}")
    return braced(value, call.parameters) if isinstance(value, str) else str(value)
