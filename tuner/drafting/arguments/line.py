"""An argument's line of a draft while it is written."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.drafting.yaml_text import asked, remark, word


@dataclass
class ArgumentLine:
    """The keys of an argument, with questions and remarks about it. `keys` come after its name and its dtype."""

    name: str
    dtype: str
    asks: list[str]
    keys: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        keys = [f"name: {word(self.name)}", f"dtype: {self.dtype}", *self.keys]
        return f"    - {{{', '.join(keys)}}}{remark('; '.join(self.notes))}{asked('; '.join(self.asks))}"
