"""Finds tiles that the threads of a block cover in several steps, as in `for (j = 0; j < TILE; j += ROWS)`."""

import re
from collections.abc import Iterator, Sequence

_LOOP = re.compile(r"\bfor \( (?:[\w ]+ )?(?P<at>\w+) = 0 ; (?P=at) < (?P<tile>\w+) ; (?P=at) \+ = (?P<step>\w+) \)")


def covered(body: Sequence[str], block: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The names of a tile's extent and of the step, for each loop in which all threads of an axis take part.

    body: a kernel's tokens. block: its block size. Such a loop adds its variable to the thread's index, and its step is
    the block's extent. If the tile is no multiple of the step, the last threads reach beyond the tile, unless something
    compares with its extent: then the loop is left out.
    """
    text = " ".join(body)
    for loop in _LOOP.finditer(text):
        at, tile, step = loop["at"], loop["tile"], loop["step"]
        is_guarded = re.search(rf"< {tile}\b", _LOOP.sub("", text))
        for axis, extent in enumerate(block):
            thread = rf"(?:threadIdx \. {'xyz'[axis]}|get_local_id \( {axis} \))"
            adds = re.search(rf"{thread} \+ {at}\b|\b{at} \+ {thread}", text)
            if extent == step and adds and not is_guarded:
                yield tile, step
