"""A script's own `verify` function, as a derived value that must be true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernel_tuner.util import normalize_verify_function

from tuner.door import sending
from tuner.door.arguments import ScriptArgument, content

VERIFIED = "verified"  # the derived value

# The file that a worker runs. What `verify` gets are the arrays with an answer, or all arrays if there is none.
FILE = """\
# {identity}
import pathlib
import pickle
import sys

FOLDERS, PICKLED = pickle.loads(pathlib.Path(__file__).with_suffix(".pickle").read_bytes())
sys.path += [folder for folder in FOLDERS if folder not in sys.path]
FUNCTION, ANSWER = pickle.loads(PICKLED)
NAMES = {names!r}


def _judged(arrays):
    arrays |= {{name: arrays[name].T for name in {transposed!r}}}
    results = [None if name is None else arrays[name] for name in NAMES]
    return bool(FUNCTION(ANSWER, results, atol={atol!r}))


def is_right({parameters}):  # no other array is copied from the device
    return _judged(locals())
"""


def derive(
    verify: Callable[..., Any],
    answer: Sequence[Any] | None,
    atol: float,
    arguments: Sequence[ScriptArgument],
    folder: Path,
) -> dict[str, Any]:
    """The entry of `derive` that calls `verify`; its files are written into `folder`.

    Raises RequestError if the function cannot be sent to the process that verifies.
    """
    wanted = [answer is None or each is not None for each in answer or arguments]
    names = [
        each.name if each.is_array and is_wanted else None for each, is_wanted in zip(arguments, wanted, strict=False)
    ]
    file = folder / "verify.py"
    plain = None if answer is None else [content(each) for each in answer]
    pickled = sending.by_value((normalize_verify_function(verify), plain), "verify: the function")
    file.with_suffix(".pickle").write_bytes(pickled)
    given = [name for name in names if name is not None]
    transposed = [each.name for each in arguments if each.is_transposed and each.name in given]
    text = FILE.format(
        identity=sending.identity(verify),
        names=names,
        transposed=transposed,
        atol=float(atol),
        parameters=", ".join(given),
    )
    file.write_text(text, encoding="utf-8")
    return {VERIFIED: {"python": f"{file.name}:is_right"}}
