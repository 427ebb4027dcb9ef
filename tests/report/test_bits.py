"""Which configurations have equal bits, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tuner.report import bits
from tuner.report.subject import Subject


def said(*classes: int | None, best: int = 0, default: int | None = None) -> str:
    """What is said of right configurations in these classes; -1 varies. `best` and `default` are positions."""
    entries = [SimpleNamespace(extra={} if number is None else {"bit_class": number}) for number in classes]
    times = dict.fromkeys(range(len(classes)), 1.0)
    subject = SimpleNamespace(times=times, entry=entries.__getitem__, best=best, default=default)
    return " ".join(bits.sentences(cast(Subject, subject)))


@pytest.mark.parametrize(
    ("classes", "best", "default", "words"),
    [
        ((None, None), 0, 1, ""),
        ((0,), 0, 0, ""),
        ((0, 0), 0, 1, "2 right configurations give the same output, bit for bit, on the same inputs."),
        (
            (0, -1, -1, -1),
            0,
            1,
            "1 right configuration gives the same output, bit for bit, on the same inputs; 3 more give other bits from "
            "run to run.",
        ),
        (
            (-1, 0, 1),
            0,
            1,
            "2 right configurations give 2 different outputs, bit for bit, on the same inputs; 1 more gives other bits "
            "from run to run, the best among them.",
        ),
        (
            (0, 0, 1),
            2,
            0,
            "3 right configurations give 2 different outputs, bit for bit, on the same inputs; no other has the best's "
            "bits; the default has others.",
        ),
        (
            (0, 0, 1),
            0,
            1,
            "3 right configurations give 2 different outputs, bit for bit, on the same inputs; 2 have the best's bits; "
            "so has the default.",
        ),
        ((-1, -1), 0, 1, "The bits of all 2 right configurations differ from run to run."),
    ],
)
def test_classes_are_counted_without_those_that_vary(
    classes: tuple[int | None, ...], best: int, default: int, words: str
) -> None:
    assert said(*classes, best=best, default=default) == words
