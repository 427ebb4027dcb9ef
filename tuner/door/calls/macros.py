"""The macros of `defines=`, which stand in the place of those of the parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kernel_tuner import util

from tuner.door.calls.call import Call, braced
from tuner.errors import RequestError
from tuner.quoting import quoted, shown

_PLAIN = re.compile(r"[\w.()*+/-]*")  # a text that every compiler's option can hold


def are_options(call: Call) -> bool:
    """Whether options of the compiler can define the macros: they are texts and numbers, and none gives another value
    to the name of a parameter."""
    return all(_is_option(name, value, call) for name, value in _given(call).items())


def options(call: Call) -> list[str]:
    """The options that define the macros; none if the source of each configuration does. Raises RequestError."""
    for name in _given(call):
        if not name.isidentifier():
            raise RequestError(f"defines: {quoted(name)} is no name of a macro; use letters, digits and _")
    if not are_options(call):
        return []
    texts = {name: str(value) for name, value in _given(call).items() if name not in call.parameters}
    return [f"-D{name}={braced(text, call.parameters)}" for name, text in texts.items()]


def heading(call: Call, config: Mapping[str, Any] | None) -> str:
    """What a source begins with, so that the parameters are macros only if `defines` names them.

    config: the configuration whose source it is, if each has its own.

    Raises RequestError if a function of the script raises anything.
    """
    if call.defines is None:
        return ""
    is_own = config is not None and not are_options(call)
    kept = () if is_own else call.defines.keys()
    lines = [f"#undef {name}\n" for name in call.parameters if name not in kept]
    if config is not None and is_own:
        # As defaults: a definition of the file's own would get the value of the configuration.
        texts = {name: _text(name, value, config) for name, value in call.defines.items()}
        lines += [f"#ifndef {name}\n#define {name} {text}\n#endif\n" for name, text in texts.items()]
    return "".join([*lines, "#line 1\n"])


def _given(call: Call) -> Mapping[str, Any]:
    return call.defines or {}


def _is_option(name: str, value: Any, call: Call) -> bool:
    if name in call.parameters:
        return bool(value == name)
    return not callable(value) and _PLAIN.fullmatch(str(value)) is not None


def _text(name: str, value: Any, config: Mapping[str, Any]) -> str:
    """The text of a macro in a configuration, as Kernel Tuner makes it."""
    if callable(value):
        try:
            value = value(dict(config))
        except Exception as error:
            raise RequestError(
                f"defines: {name} raises {type(error).__name__}: {shown(error)} for {dict(config)}"
            ) from None
    elif isinstance(value, str):
        value = util.replace_param_occurrences(value, dict(config))
    return str(value).replace("\n", "\\\n")
