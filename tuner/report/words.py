"""Numbers in words, for people."""

from __future__ import annotations


def number(value: float | None) -> str:
    """A number for people: 0.04567, 51,158; empty for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent(value: float | None) -> str:
    """0.5132 as 51.3%; empty for None."""
    return "" if value is None else f"{value:.1%}"


def times(value: float | None, digits: int = 2) -> str:
    """A ratio: 1.10 x, 233 x; empty for None."""
    if value is None:
        return ""
    return f"{value:,.0f} x" if value >= 100 else f"{value:.3g} x" if value < 0.1 else f"{value:.{digits}f} x"


def spread(value: float | None) -> str:
    """What stands behind a time: ` (spread 4.8%)`; empty for None."""
    return "" if value is None else f" (spread {value:.1%})"


def sentence(text: str) -> str:
    """A text of one or several lines with a capital and, where it ends in no list, a full stop."""
    return text[:1].upper() + text[1:] + ("" if "\n" in text else ".")
