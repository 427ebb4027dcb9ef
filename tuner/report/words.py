"""Numbers and sentences as text for people."""

from __future__ import annotations


def number(value: float | None) -> str:
    """A number with four significant digits, or whole from 1,000 on: 0.04567, 51,158; empty for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent(value: float | None) -> str:
    """0.5132 as 51.3%; empty for None."""
    return "" if value is None else f"{value:.1%}"


def times(value: float | None, digits: int = 2) -> str:
    """A ratio as `1.10 x` or `233 x`; empty for None."""
    if value is None:
        return ""
    return f"{value:,.0f} x" if value >= 100 else f"{value:.3g} x" if value < 0.1 else f"{value:.{digits}f} x"


def spread(value: float | None) -> str:
    """The spread of a time, to be appended to it: ` (spread 4.8%)`; empty for None."""
    return "" if value is None else f" (spread {value:.1%})"


def sentence(text: str) -> str:
    """`text` with a capital, and with a full stop if it is a single line."""
    return text[:1].upper() + text[1:] + ("" if "\n" in text else ".")
