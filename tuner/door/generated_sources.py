"""The sources that a script's functions make, one for each configuration: its own text, or macros."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuner.door.calls import geometry, script_functions
from tuner.door.calls.call import Call
from tuner.errors import RequestError
from tuner.languages import LANGUAGES
from tuner.search import listing
from tuner.space.expressions import braces
from tuner.space.model import Space
from tuner.space.scope import Limits

MOST = 20_000  # configurations: each has a file
Completed = Callable[[Call, str, Mapping[str, Any]], Path | str]


def written(call: Call, space: Space, completed: Completed, folder: Path) -> Path:
    """Write the text of each valid configuration into `folder`. Returns the path of these files, with names in braces.

    completed: adds to the text of a configuration what Kernel Tuner adds.

    Raises RequestError if the function raises anything or returns no text, and if there are too many configurations.
    """
    op = space.operation
    scope = op.scope({n: v or 1 for n, v in op.sizes.items()}, op.options, space.languages[0], Limits(), {})
    pool = listing.listed(space, scope)
    if len(pool) > MOST or pool.is_sample:
        raise RequestError(
            f"{'kernel_source' if call.generator else 'defines'}: each of {pool.words} configurations would have a "
            f"source of its own; at most {MOST:,} are possible; restrict more, or write one text whose macros are the "
            "parameters"
        )
    names = "/".join(f"{{{name}}}" for name in call.parameters)  # in one name they could be too long
    pattern = folder / "sources" / names / f"kernel{LANGUAGES[call.language].suffix}"
    for config in pool.configs():
        own = geometry.own(config, call)
        text = call.text if call.generator is None else script_functions.source(call.generator, own)
        file = Path(braces.filled(str(pattern), config))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(completed(call, text, own)), encoding="utf-8")
    return pattern
