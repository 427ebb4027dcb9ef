"""Whatever a space file says, listing its configurations ends: with them, or with one message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import SpaceError
from tuner.search.listing import listed
from tuner.space.default import first_valid
from tuner.space.file import reader
from tuner.space.scope import Limits, Scope

FILE = """\
title: a test's own
operation:
  sizes: {n: }
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: n, dtype: int32}
  reference: 1.0 + n * 0
kernel: f
languages: [c]
"""
SCOPE = Scope({"n": 8}, {}, "c", Limits())


def counted(folder: Path, more: str) -> int:
    (folder / "f.c").write_text("void f(float *y, int n) {}")
    (folder / "f.yaml").write_text(FILE + more)
    space = reader.read(folder / "f.yaml")
    valid = listed(space, SCOPE).valid
    assert space.valid(first_valid(space, SCOPE), SCOPE)
    return valid


def chain(length: int, link: str) -> str:
    lines = "".join(f"  d{i}: {link.format(f'd{i - 1}')}\n" for i in range(1, length))
    return f"parameters: {{v: [1, 2, 3, 4]}}\nderived:\n  d0: v\n{lines}"


def test_derived_values_that_name_one_another_twice_are_computed_once(tmp_path: Path) -> None:
    assert counted(tmp_path, chain(40, "{0} * 0.5 + {0} * 0.5") + "restrictions: ['d39 < 3']\n") == 2


def test_a_long_chain_of_derived_values_is_refused_where_it_gets_too_long(tmp_path: Path) -> None:
    assert counted(tmp_path, chain(90, "{0} + 1") + "restrictions: ['d89 < 92']\n") == 2
    with pytest.raises(SpaceError, match=r"f.yaml:113: derived.d100: `d99 \+ 1`: nested 101 levels deep.* at most 100"):
        counted(tmp_path, chain(900, "{0} + 1"))


def test_configurations_that_fit_in_memory_are_all_listed_whatever_the_combinations(tmp_path: Path) -> None:
    values = "".join(f"  p{i}: {list(range(10))}\n" for i in range(8))
    few = "restrictions: ['p0 + p1 + p2 + p3 == 3', 'p4 < 2', 'p5 == p6']\n"
    assert counted(tmp_path, f"parameters:\n{values}{few}") == 20 * 2 * 10 * 10


def test_a_file_has_a_thousand_restrictions_at_most(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="1001 restrictions; at most 1000 are allowed"):
        counted(tmp_path, f"parameters: {{v: [1, 2]}}\nrestrictions: [{', '.join(['v < 3'] * 1001)}]\n")
