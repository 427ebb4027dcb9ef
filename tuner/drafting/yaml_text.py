"""Names and questions as the text of a draft has them."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Sequence

from tuner.space.sources.prototype import Parameter

_WORDS = {"yes", "no", "on", "off", "true", "false", "null"}  # YAML reads these as booleans or null


def asked(question: str) -> str:
    """The `# ?` comment with a question; empty if there is none."""
    return f"  # ? {question}" if question else ""


def remark(text: str) -> str:
    """The comment with a remark; empty if there is none."""
    return f"  # {text}" if text else ""


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def name_of(parameter: Parameter) -> str:
    """The name of an argument in the space file. Python keywords such as `in` get a trailing `_`."""
    return f"{parameter.name}_" if parameter.is_pointer and keyword.iskeyword(parameter.name) else parameter.name


def word(text: str) -> str:
    """`text` as a YAML scalar, quoted if necessary."""
    return text if re.fullmatch(r"[A-Za-z_./][\w./-]*|\d+", text) and text.lower() not in _WORDS else json.dumps(text)
