"""Observers of a script of Kernel Tuner, on their way to the process that measures."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel_tuner.core import instantiate_observer
from kernel_tuner.observers.observer import OutputObserver
from kernel_tuner.observers.register import RegisterObserver

from tuner.door import sending
from tuner.door.calls.call import ELSEWHERE, Call
from tuner.errors import RequestError


def _state(observers: Sequence[Any]) -> str:
    """A digest of the texts and numbers that observers hold, such as what they observe. Empty if they hold none."""
    held = [
        f"{name}={value!r}"
        for observer in observers
        for name, value in sorted(getattr(observer, "__dict__", {}).items())
        if value and _is_plain(value)
    ]
    return f"-{hashlib.sha256(repr(held).encode('utf-8', 'replace')).hexdigest()[:8]}" if held else ""


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if isinstance(value, list | tuple) else isinstance(value, str | int)


def written(observers: Sequence[Any] | None, call: Call, folder: Path) -> str:
    """Write the observers into a file in `folder`, whose name tells their classes, and return its path.

    Empty if there is nothing to observe: with CUDA, what RegisterObserver finds is in every row. Raises RequestError
    for an observer that sees outputs, for one of registers with another language, and for one that cannot be sent to
    another process.
    """
    given = {"device": call.device, "platform": call.platform, "compiler": call.compiler, "lang": call.language.upper()}
    try:
        each = [instantiate_observer(observer, given) for observer in observers or ()]
    except TypeError as error:
        raise RequestError(f"observers: {error}; write those of Kernel Tuner or classes derived from them") from None
    if call.language != "cuda" and any(isinstance(observer, RegisterObserver) for observer in each):
        raise RequestError("observers: RegisterObserver: only CUDA's compilers tell registers; leave it out")
    each = [observer for observer in each if not isinstance(observer, RegisterObserver)]
    if not each:
        return ""
    for observer in each:
        if isinstance(observer, OutputObserver):
            raise RequestError(
                f"observers: {type(observer).__name__} sees outputs, which is not supported; {ELSEWHERE}"
            )
    names = "-".join(type(observer).__name__ for observer in each)
    file = folder / f"{names}{_state(each)}.observers"
    # Code that is sent by value no longer says which file it is of.
    pairs = [(observer, sending.file_of(type(observer))) for observer in each]
    file.write_bytes(sending.by_value(pairs, f"observers: {names}"))
    return str(file)
