"""The sources that a script's function makes, one for each configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tuner.door import geometry, script_functions
from tuner.door.call import Call
from tuner.errors import RequestError
from tuner.languages import LANGUAGES
from tuner.search import listing
from tuner.space.expressions import braces
from tuner.space.model import Space
from tuner.space.scope import Limits

MOST = 20_000  # configurations: each has a file


def written(call: Call, space: Space, completed: Callable[[Call, str], Path | str], folder: Path) -> Path:
    """Write the text of each valid configuration into `folder`. Returns the path of these files, with names in braces.

    completed: adds to a text what Kernel Tuner adds.

    Raises RequestError if the function raises anything or returns no text, and if there are too many configurations.
    """
    assert call.generator is not None
    op = space.operation
    scope = op.scope({n: v or 1 for n, v in op.sizes.items()}, op.options, space.languages[0], Limits(), {})
    pool = listing.listed(space, scope)
    if len(pool) > MOST or pool.is_sample:
        raise RequestError(
            f"kernel_source: a function would make the source of {pool.words} configurations; at most {MOST:,} are "
            "possible; restrict more, or write one text whose macros are the parameters"
        )
    names = "/".join(f"{{{name}}}" for name in call.parameters)  # in one name they could be too long
    pattern = folder / "sources" / names / f"kernel{LANGUAGES[call.language].suffix}"
    for row in range(len(pool)):
        config = pool.config(row)
        text = script_functions.source(call.generator, geometry.own(config, call))
        file = Path(braces.filled(str(pattern), config))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(completed(call, text)), encoding="utf-8")
    return pattern
