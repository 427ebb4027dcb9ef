"""Names of files that belong together; names and comments that are safe in C, whatever a file or a driver says."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path


def beside(path: Path, what: str) -> Path:
    """a-results.json of a.json or a.json.gz."""
    return path.with_name(re.sub(r"(\.json)?(\.gz)?$", f"-{what}.json", path.name, count=1))


def identifier(text: str, taken: Container[str] = ()) -> str:
    """`text` as a C identifier; numbered where it is `taken`. The same text gives the same identifier."""
    made = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "unnamed"
    made = f"_{made}" if made[0].isdigit() else made
    number, first = 1, made
    while made in taken:
        number += 1
        made = f"{first}_{number}"
    return made


def comment(*lines: str) -> str:
    """A C comment that nothing in `lines` can end or continue."""
    plain = ("".join(c if c.isprintable() else "?" for c in line).replace("*/", "* /") for line in lines)
    return "/* " + "\n * ".join(plain) + " */\n"
