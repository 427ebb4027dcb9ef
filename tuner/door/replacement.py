"""Runs a script in which `kernel_tuner` is Kernel Tuner with our `tune_kernel` and `run_kernel`."""

from __future__ import annotations

import ast
import contextlib
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tuner.errors import RequestError
from tuner.quoting import quoted, shown

USAGE = "usage: python -m tuner.door SCRIPT.py [ARGUMENT]..."


def run(words: Sequence[str]) -> None:
    """Run the script `words[0]` with the others as its arguments, as Python would.

    Raises RequestError if there is none, or if it is not Python.

    Its `kernel_tuner` is whatever `replace` has made of it.
    """
    if not words or not os.path.isfile(words[0]):
        raise RequestError(f"{quoted(words[0])}: there is no such script; {USAGE}" if words else USAGE)
    script = Path(words[0])
    text = script.read_bytes()
    try:
        ast.parse(b"" if b"\0" in text else text, words[0])  # an archive or byte code runs as it is
    except (SyntaxError, ValueError) as error:
        raise RequestError(f"{shown(script)}: not Python 3: {error}; name a script that calls tune_kernel") from None
    sys.argv[:] = list(words)
    sys.path[0:1] = [str(script.resolve().parent)]
    runpy.run_path(words[0], run_name="__main__")


@contextlib.contextmanager
def replaced(tune: Callable[..., Any]) -> Iterator[None]:
    """A block in which `tune` and our `run_kernel` are in the place of Kernel Tuner's.

    Afterwards, the arguments and the path of this process are what they were.
    """
    import kernel_tuner

    from tuner import door

    own = kernel_tuner.tune_kernel, kernel_tuner.run_kernel
    words, folders = list(sys.argv), list(sys.path)
    replace(tune)
    vars(door)["tune_kernel"] = tune  # of a script that imports ours
    try:
        yield
    finally:
        replace(*own)
        sys.argv[:], sys.path[:] = words, folders
        del vars(door)["tune_kernel"]


def replace(tune: Callable[..., Any] | None = None, run_once: Callable[..., Any] | None = None) -> None:
    """Put these functions, by default ours, in the place of Kernel Tuner's, for every later import of them."""
    import kernel_tuner
    from kernel_tuner import interface

    from tuner.door.single_run import run_kernel
    from tuner.door.tuning import tune_kernel

    for module in (kernel_tuner, interface):
        module.tune_kernel, module.run_kernel = tune or tune_kernel, run_once or run_kernel
