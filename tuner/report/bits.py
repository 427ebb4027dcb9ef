"""Which configurations of a search gave outputs with equal bits, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.tuning.recordings.recording import VARYING

if TYPE_CHECKING:
    from tuner.report.subject import Subject
    from tuner.tuning.recordings.recording import Row


def sentences(subject: Subject) -> list[str]:
    """How many different outputs the right configurations gave, and whether the best has the bits of the default.

    Nothing if the trials have no digests: those of earlier versions do not.
    """
    numbers = {row: number for row in subject.times if (number := _number(subject, row)) is not None}
    if not numbers:
        return []
    steady = [number for number in numbers.values() if number != VARYING]
    varying, best = len(numbers) - len(steady), numbers.get(subject.best)
    if not steady:
        return [f"The bits of all {_right(varying)} differ from run to run."]
    if len(numbers) == 1:
        return []
    classes = len(set(steady))
    outputs = "the same output" if classes == 1 else f"{classes:,} different outputs"
    texts = [f"{_right(len(steady))} {_give(len(steady))} {outputs}, bit for bit, on the same inputs"]
    if varying:
        besides = ", the best among them" if best == VARYING else ""
        texts.append(f"{varying:,} more {_give(varying)} other bits from run to run{besides}")
    if classes > 1 and best not in (None, VARYING):
        texts += _of_best(subject, numbers)
    return [f"{'; '.join(texts)}."]


def _of_best(subject: Subject, numbers: dict[Row, int]) -> list[str]:
    """How many configurations have the best's bits, and whether the default has them."""
    best, default = numbers[subject.best], numbers.get(subject.default) if subject.default is not None else None
    same = sum(number == best for number in numbers.values())
    texts = [f"{same:,} have the best's bits" if same > 1 else "no other has the best's bits"]
    if default is not None and subject.best != subject.default:
        texts.append("so has the default" if default == best else "the default has others")
    return texts


def _right(count: int) -> str:
    return f"{count:,} right configuration{'s' * (count != 1)}"


def _give(count: int) -> str:
    return "gives" if count == 1 else "give"


def _number(subject: Subject, row: Row) -> int | None:
    entry = subject.entry(row)
    number = entry.extra.get("bit_class") if entry is not None else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None
