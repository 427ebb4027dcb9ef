"""What a draft asks."""

from __future__ import annotations

import re


def guessed(text: str) -> list[str]:
    """The arrays of a draft whose shapes are guesses, about which it asks in one question."""
    match = re.search(r"# \? the shapes? of (?:these are guesses|this is a guess): ([\w, ]+);", text)
    return match[1].split(", ") if match else []
