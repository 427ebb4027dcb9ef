"""A script's own `verify` function, as a derived value that must be true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernel_tuner.util import normalize_verify_function

from tuner.door import sending
from tuner.door.calls.arguments import VERIFIED, ScriptArgument, content, is_fortran
from tuner.door.calls.call import Call
from tuner.space.expressions.function_names import origin
from tuner.space.values import function_identity

RAISED = "verify: "  # begins the message of an error in `verify`, behind that of the file below

# The file that a worker runs. What `verify` gets are the arrays with an answer, or all arrays if there is none, in the
# types and shapes of the script: FORMS has these, by name. It unpickles only what the script's own process wrote.
FILE = """\
# {identity}
import pathlib
import pickle
import sys

FOLDERS, PICKLED = pickle.loads(pathlib.Path(__file__).with_suffix(".pickle").read_bytes())
sys.path += [folder for folder in FOLDERS if folder not in sys.path]
FUNCTION, ANSWER, FORMS = pickle.loads(PICKLED)
NAMES = {names!r}


def _as_passed(array, dtype, shape, order):
    return array.reshape(-1).view(dtype).reshape(shape, order=order)


def _judged(arrays):
    results = [None if name is None else _as_passed(arrays[name], *FORMS[name]) for name in NAMES]
    try:
        return bool(FUNCTION(ANSWER, results, atol={atol!r}))
    except Exception as error:
        raise RuntimeError({raised!r} + f"{{type(error).__name__}}: {{error}}") from None


def is_right({parameters}):  # no other array is copied from the device
    return _judged(locals())
"""


def derive(
    verify: Callable[..., Any],
    answer: Sequence[Any] | None,
    atol: float,
    call: Call,
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
    passed = {
        name: content(argument) for name, argument in zip(names, call.arguments, strict=False) if name is not None
    }
    forms = {name: (each.dtype, each.shape, "F" if is_fortran(each) else "C") for name, each in passed.items()}
    pickled = sending.by_value((normalize_verify_function(verify), plain, forms), "verify: the function")
    file.with_suffix(".pickle").write_bytes(pickled)
    text = FILE.format(
        # Without what it captures: a `verify` often has numbers that the script draws anew, and no run would resume.
        identity=function_identity.of_code(verify),
        names=names,
        atol=float(atol),
        parameters=", ".join(passed),
        raised=f"{RAISED}{origin(verify)} raises ",
    )
    file.write_text(text, encoding="utf-8")
    return {VERIFIED: {"python": f"{file.name}:is_right"}}
