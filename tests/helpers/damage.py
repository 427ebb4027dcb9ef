"""Files that are damaged or hostile, by a seed: data with odd values in it, and bytes that are torn."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

LONG = "x1" * 5500
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 2**70, 10**300, 10**400, 1.5, -0.0, 1e-320, 1e-7, 1e308,
    float("nan"), float("inf"), -float("inf"), "", "a", "\x1b[31m", "1" * 4000, LONG, "a b " * 2750, [], [1], [[]], {},
    {"a": 1}, [None], "é" * 50, "a\0b", "../../x", "/dev/zero", [1] * 50, [float("nan")], {LONG: 1}, list(range(3000)),
]  # fmt: skip
FORMULAS: list[Any] = [
    "x % 0", "'abc' < 3", "[1] < (1,)", "n @ [1]", "x @ (1, 2)", "x + [1]", "1 if", "(((", "n // 0", "n - 10**6", "-1",
    "0.5", "'a'", "max()", "min(1)", "len(5)", "gcd(1.5, 2)", "log2(-1)", "sqrt(-1)", "int('x')", "abs('x')", "0**-1",
    "2**63*2", "n in 3", "not (1,)", "n < 'x'", "is_power_of_two('x')", "is_power_of_two(0.5)", "ceil_div(1, 0)",
    "9**9**9", "__import__('os')", "range(10**9)", "[1] * 10**9", "n+" * 400 + "n", "-" * 90 + "n", "n" * 900,
]  # fmt: skip
_TORN = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\\",
    b"\0",
    b"9" * 5000,
    b'{"a":' * 50,
    b"\xff\xfe",
    b"NaN",
    b"\n",
    b": ",
]


def _places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in `data`."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*place, key)
        yield from _places(value, (*place, key))


def damaged(data: Any, draw: random.Random, odd: list[Any]) -> Any:
    """A copy of `data` in which values are replaced by odd ones, or are missing, or are too many."""
    data = copy.deepcopy(data)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        *path, last = draw.choice(list(_places(data)) or [("x",)])
        inner = data
        for key in path:
            inner = inner[key]
        what = draw.random()
        if what < 0.75 or not isinstance(inner, dict):
            inner[last] = copy.deepcopy(draw.choice(odd))
        elif what < 0.85:
            del inner[last]
        else:
            inner[draw.choice([*inner, "x", "", LONG])] = copy.deepcopy(draw.choice(odd))
    return data


def torn(data: bytes, draw: random.Random) -> bytes:
    """`data` with bytes that are changed, missing, too many, or cut off."""
    text = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        place, what = draw.randrange(len(text) + 1), draw.random()
        if what < 0.3:
            text[place : place + 1] = bytes([draw.randrange(256)])
        elif what < 0.6:
            text[place:place] = draw.choice(_TORN)
        elif what < 0.9:
            del text[place : place + draw.choice([1, 5, 100])]
        else:
            del text[place:]
    return bytes(text)
