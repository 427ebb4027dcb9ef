from __future__ import annotations

from helpers.spaces import scope, space
from tuner.space.config import Value
from tuner.space.default import first_valid


def test_the_first_valid_configuration_is_found_however_late_it_comes() -> None:
    parameters: dict[str, tuple[Value, ...]] = dict.fromkeys("abcdefgh", tuple(range(10)))
    made = space(parameters, ["a == 9", "h == 9", "total > 15", "c == 3 or b % (a - 9) == 0"], total="a + h")
    assert first_valid(made, scope()) == {**dict.fromkeys("abcdefgh", 0), "a": 9, "c": 3, "h": 9}
