"""The public names, and the errors that a caller may catch."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import tuner
from tuner import errors
from tuner.errors import TunerError

ERRORS = {
    name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__
}


def tree(kind: type[TunerError], depth: int = 0) -> list[tuple[int, str]]:
    """A class and those below it, each with its depth, as they are defined in `tuner.errors`."""
    below = [each for each in kind.__subclasses__() if each in ERRORS.values()]
    return [(depth, kind.__name__), *(entry for each in below for entry in tree(each, depth + 1))]


def test_all_lists_the_public_names_in_order() -> None:
    assert tuner.__all__ == [name for name in dir(tuner) if not name.startswith("_")] == sorted(tuner.__all__)
    for name in tuner.__all__:
        assert getattr(tuner, name).__name__ == name


def test_every_error_is_public() -> None:
    assert len(ERRORS) == len(tree(TunerError)), "each is a TunerError"
    for name, kind in ERRORS.items():
        assert name in tuner.__all__
        assert getattr(tuner, name) is kind


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    drawn = re.findall(r"^    ((?:  )*)(\w+)  +\w", errors.__doc__ or "", re.MULTILINE)
    assert [(len(indent) // 2, name) for indent, name in drawn] == tree(TunerError)


def test_windows_is_told_to_use_wsl() -> None:
    code = "import sys; sys.platform = 'win32'; import tuner"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ImportError: tuner needs Linux; on Windows, install it in WSL 2"
