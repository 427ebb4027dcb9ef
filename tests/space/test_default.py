from __future__ import annotations

from pathlib import Path

import pytest

from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope, space
from tuner.space.config import Value
from tuner.space.default import first_valid


def test_the_first_valid_configuration_is_found_however_late_it_comes() -> None:
    parameters: dict[str, tuple[Value, ...]] = dict.fromkeys("abcdefgh", tuple(range(10)))
    made = space(parameters, ["a == 9", "h == 9", "total > 15", "c == 3 or b % (a - 9) == 0"], total="a + h")
    assert first_valid(made, scope()) == {**dict.fromkeys("abcdefgh", 0), "a": 9, "c": 3, "h": 9}


@pytest.mark.slow
def test_a_search_says_that_the_default_is_not_valid(tmp_path: Path, tune: Tune) -> None:
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"], "in")]
    code = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = x[i]; }"
    more = {"parameters": {"a": [1, 2]}, "restrictions": ["a > 1"], "default": {"a": 1}}
    file = written(tmp_path, code, arguments, "x", **more)
    done = tune(file, "64", "--device", "host", "--repeats", "3", "--json")
    reason = "it is not valid at n=64: `a > 1`; so nothing is compared with it; write values that are valid"
    said = f"{file}: default: {reason}"
    assert (done.status, done.json["warnings"]) == (0, [said])
    assert f"warning: {said}\n" in done.err
