"""Which configurations of a search gave outputs with equal bits, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.exchange.recording import VARYING

if TYPE_CHECKING:
    from tuner.exchange.recording import Row
    from tuner.report.subject import Subject


def sentences(subject: Subject) -> list[str]:
    """How many different outputs the right configurations gave, and whether the best has the bits of the default.

    Nothing if the trials have no digests: those of earlier versions do not.
    """
    numbers = {row: number for row in subject.times if (number := _number(subject, row)) is not None}
    if not numbers:
        return []
    varying = sum(number == VARYING for number in numbers.values())
    classes = len({number for number in numbers.values() if number != VARYING})
    outputs = "the same output" if classes == 1 else f"{classes} different outputs" if classes else "no lasting output"
    found = f"{len(numbers):,} right configurations give {outputs}, bit for bit, on the same inputs"
    if varying:
        found += f"; {varying:,} of them give other bits from run to run"
    if classes < 2 and not varying:
        return [f"{found}."]
    best, default = numbers.get(subject.best), numbers.get(subject.default) if subject.default is not None else None
    same = sum(number == best for number in numbers.values())
    if best == VARYING:
        return [f"{found}, the best among them."]
    texts = [found]
    if best is not None:
        texts.append(f"{same:,} have the best's bits")
    if best is not None and default is not None and subject.best != subject.default:
        texts.append("so has the default" if default == best else "the default has others")
    return [f"{'; '.join(texts)}."]


def _number(subject: Subject, row: Row) -> int | None:
    entry = subject.entry(row)
    number = entry.extra.get("bit_class") if entry is not None else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None
