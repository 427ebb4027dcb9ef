"""The bits of a record: the digests of its best's outputs, and the classes of equal bits in its search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.space.config import config_key
from tuner.space.values import bit_classes

if TYPE_CHECKING:
    from tuner.space.values.bit_classes import Bits
    from tuner.tuning.finals.selection import Selection
    from tuner.tuning.ledger.ledger import Ledger
    from tuner.tuning.ledger.trial import Trial


def of(selection: Selection, ledger: Ledger, default: Trial | None) -> dict[str, Any]:
    """The fields of a record that say which configurations have the same bits as the winner of the finals."""
    best, known = selection.finalists[0].trial, _known(selection, ledger)
    if not any(known.values()):
        return {"bits": {}}
    classes = bit_classes.classes(known)
    own = next((keys for keys in classes if config_key(best.config) in keys), [])
    bits = known.get(config_key(best.config), {})
    numbers = _numbers(selection, [] if default is None else [default.config])
    varying = sum(map(bit_classes.do_vary, known.values()))
    return {
        "bits": dict(bits),
        "classes": len(classes),
        "class_size": len(own),
        "varying": varying,
        "default_class": None if default is None else numbers[-1],
    }


def numbered(selection: Selection) -> list[dict[str, Any]]:
    """The runners-up as a record stores them, each with the number of its class, if it has one."""
    runners_up = selection.next_best
    numbers = _numbers(selection, [each["config"] for each in runners_up])[1:]
    return [
        each if number is None else {**each, "class": number} for each, number in zip(runners_up, numbers, strict=True)
    ]


def _known(selection: Selection, ledger: Ledger) -> dict[Any, Bits]:
    """The digests of all right configurations: those of the search, and for some those of the finals."""
    right = (trial for trial in ledger.trials if trial.value is not None)
    return {(key := config_key(trial.config)): selection.bits.get(key, trial.outcome.bits) for trial in right}


def _numbers(selection: Selection, configs: list[Any]) -> list[int | None]:
    """The numbers of the classes of the best and then of `configs`, of which the best has 0."""
    best = selection.finalists[0].trial.config
    stored = [each["config"] for each in selection.next_best]
    keys = [config_key(config) for config in (best, *stored, *configs)]
    found = bit_classes.numbers([selection.bits.get(key, {}) for key in keys])
    if found[0] is None:  # no other has the bits of one that varies, so nobody has the number 0
        found = [None if number is None else number + 1 for number in found]
    return [found[0], *found[len(stored) + 1 :]]
