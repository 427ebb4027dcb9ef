"""Names of companion files, and C identifiers and comments made safely from arbitrary text."""

import json
import re
from collections.abc import Container
from pathlib import Path


def beside(path: Path, what: str) -> Path:
    """The companion file of `path` for `what`: a-results.json for a.json or a.json.gz."""
    return path.with_name(re.sub(r"(\.json)?(\.gz)?$", f"-{what}.json", path.name, count=1))


def identifier(text: str, others: Container[str] = ()) -> str:
    """`text` as a C identifier, with a number appended if `others` already contains it."""
    stem = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "unnamed"
    stem = f"_{stem}" if stem[0].isdigit() else stem
    number, name = 1, stem
    while name in others:
        number += 1
        name = f"{stem}_{number}"
    return name


def literal(text: str) -> str:
    """`text` as a string of C; unprintable characters become `?`."""
    return json.dumps("".join(c if c.isprintable() else "?" for c in text), ensure_ascii=False)


def comment(*lines: str) -> str:
    """`lines` as a C comment; `*/` and unprintable characters in them are made harmless."""
    plain = ("".join(c if c.isprintable() else "?" for c in line).replace("*/", "* /") for line in lines)
    return "/* " + "\n * ".join(plain) + " */\n"
