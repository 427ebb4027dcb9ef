"""Validation rules for each field of a record, because files are untrusted input."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from tuner.space.values import bit_classes

RUNNERS = ("kernel", "library", "best_library")  # the keys that `sustained` may have
LONGEST_TEXT = 1000  # a line of text has fewer characters
MOST = 2**64  # a number in a configuration is at most as large
SHORTEST_MS = 1e-6  # every launch takes at least a nanosecond


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) < LONGEST_TEXT


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e300


def _is_time(value: Any) -> bool:
    return _is_number(value) and value >= SHORTEST_MS


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _are_texts(values: Collection[Any]) -> bool:
    """Whether each is a line of text. They are looked at as one, because a first launch reads thousands of them."""
    try:
        whole = "".join(values)
    except TypeError:
        return False
    return whole.isprintable() and (len(whole) < LONGEST_TEXT or all(len(value) < LONGEST_TEXT for value in values))


def _is_config(value: Any) -> bool:
    if not (isinstance(value, dict) and _are_texts(value)):
        return False
    numbers = [each for each in value.values() if not isinstance(each, str)]
    try:
        of_all = sum(map(abs, numbers))  # NaN if one is NaN
        are_small = of_all <= MOST or all(abs(each) <= MOST for each in numbers)
    except TypeError:
        return False
    return are_small and _are_texts([each for each in value.values() if isinstance(each, str)])


def _maps_to(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(_is_text(k) and accepts(v) for k, v in value.items())


def _are_runners_up(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(v, dict)
        and _is_config(v.get("config"))
        and _is_time(v.get("time_ms"))
        and (v.get("class") is None or _is_count(v.get("class")))
        for v in value
    )


def _are_sustained(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() <= set(RUNNERS)
        and all(
            isinstance(v, dict)
            and _is_time(v.get("time_ms"))
            and all(v.get(name) is None or _is_number(v.get(name)) for name in ("clock_mhz", "power_w"))
            for v in value.values()
        )
    )


def _are_tied(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(v, dict) and _is_config(v.get("config")) and _is_number(v.get("low")) and _is_number(v.get("high"))
        for v in value
    )


def _are_finalists(value: Any) -> bool:
    return _are_runners_up(value) and all(
        _is_number(v.get("spread")) and isinstance(v.get("tied"), bool) for v in value
    )


def _are_paragraphs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) and all(map(_is_text, v.split("\n"))) for v in value)


class Rule(NamedTuple):
    """A test of a field's value, and what it allows, in words."""

    accepts: Callable[[Any], bool]
    allowed: str


_TEXT = Rule(_is_text, "a line of text")
_TEXTS = Rule(lambda value: isinstance(value, list) and all(_is_text(v) for v in value), "a list of text")
_PARAGRAPHS = Rule(_are_paragraphs, "a list of text, each perhaps of several lines")
_COUNT = Rule(_is_count, "a whole number from 0 on")
_NUMBER = Rule(_is_number, "a number from 0 on")
_TIME = Rule(_is_time, f"a number from {SHORTEST_MS:g} on")


def _optional(rule: Rule) -> Rule:
    return Rule(lambda value: value is None or rule.accepts(value), f"{rule.allowed}, or null")


FIELDS: Mapping[str, Rule] = {
    **dict.fromkeys(("device", "kind", "architecture", "signature", "toolchain", "strategy", "date", "version"), _TEXT),
    **dict.fromkeys(("objective", "caches"), _TEXT),
    "spread": _NUMBER,
    **dict.fromkeys(("rounds", "configurations", "evaluated", "protocol", "input_sets", "wrong"), _COUNT),
    **dict.fromkeys(("error", "bound", "gflops", "library_ms", "vs_library"), _optional(_NUMBER)),
    **dict.fromkeys(("best_library_ms", "vs_best_library"), _optional(_NUMBER)),
    **dict.fromkeys(("library", "best_library"), _optional(_TEXT)),
    "sustained": Rule(_are_sustained, f"objects with time_ms, clock_mhz and power_w for {', '.join(RUNNERS)}"),
    "time_ms": _TIME,
    "sizes": Rule(_maps_to(lambda value: _is_count(value) and value > 0), "whole numbers from 1 on, by name"),
    "options": Rule(_maps_to(lambda value: isinstance(value, int | float) and abs(value) < 1e300), "numbers by name"),
    "types": Rule(_maps_to(_is_text), "text by name"),
    "conditions": Rule(_is_config, "numbers and text by name"),
    "failed": Rule(_maps_to(_is_count), "whole numbers by reason"),
    "config": Rule(_is_config, "numbers and text by name"),
    "next": Rule(_are_runners_up, "a list of objects with config, time_ms, and perhaps class"),
    "bits": Rule(bit_classes.is_valid, f"digests of {bit_classes.DIGITS} hexadecimal digits by set of inputs"),
    **dict.fromkeys(("classes", "class_size", "varying", "default_class"), _optional(_COUNT)),
    **dict.fromkeys(("same_bits_as", "decided_by"), _TEXT),
    "interval": Rule(lambda value: isinstance(value, list) and all(map(_is_number, value)), "a list of numbers"),
    "tied": Rule(_are_tied, "a list of objects with config, low and high"),
    "finalists": Rule(_are_finalists, "a list of objects with config, time_ms, spread and tied"),
    **dict.fromkeys(("throttled", "skipped_mutants"), _TEXTS),
    "accepted_mutants": _optional(_TEXTS),
    **dict.fromkeys(("energy_mj", "clock_mhz", "occupancy", "gbytes", "vs_peak", "vs_memory"), _optional(_NUMBER)),
    **dict.fromkeys(("default_ms", "launch_ms"), _optional(_TIME)),
    **dict.fromkeys(("default_spread", "least_gain", "energy_spread", "fault_rate"), _optional(_NUMBER)),
    "conclusions": _PARAGRAPHS,
    "default_ties": Rule(lambda value: isinstance(value, bool), "true or false"),
    **dict.fromkeys(("registers", "spills", "local_memory", "compared_runs"), _optional(_COUNT)),
    **dict.fromkeys(("verified", "code", "peak", "memory"), _optional(_TEXT)),
}
