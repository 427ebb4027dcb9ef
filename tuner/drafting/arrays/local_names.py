"""Finds the values of a kernel's local names: what each is assigned, and the starts and steps of loop variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tuner.drafting.arrays import loops
from tuner.space.sources.tokens import matching

_NAME = re.compile(r"[A-Za-z_]\w*")
_OF_GRID = {"gridDim", "get_global_size", "get_num_groups"}
_CHANGE = re.compile(r"[-+*/%&|^]=|--|\+\+|<<=|>>=")


class LocalNames:
    """The values of the local names in the body of a kernel, as tokens.

    values: what each name is assigned that has one value
    loops: for each loop variable, its start and its steps
    down: for each variable that loops count down, its start
    unsteady: names with several values
    """

    def __init__(self, body: Sequence[str]) -> None:
        self._body = body
        self.loops = dict[str, tuple[Sequence[str], list[Sequence[str]]]]()
        self.down = dict[str, Sequence[str]]()
        self.unsteady = set[str]()
        self.values = dict(self._values())

    def _values(self) -> Iterator[tuple[str, Sequence[str]]]:
        body, found, changed, down = self._body, dict[str, list[Sequence[str]]](), set[str](), set[str]()
        steps, repeated, places = dict[str, list[Sequence[str]]](), loops.repeated(body), dict[str, int]()
        for position, word in enumerate(body):
            if not _NAME.fullmatch(word) or is_member(body, position) or self._is_store(position):
                continue
            before, after = "".join(body[max(0, position - 2) : position]), "".join(body[position + 1 : position + 3])
            if after[:1] == "=" and after != "==":
                found.setdefault(word, []).append(self._assigned(position + 2))
            elif (after in ("+=", "++") or before == "++") and repeated[position]:
                steps.setdefault(word, []).append(self._assigned(position + 3) if after == "+=" else ("1",))
                places.setdefault(word, position)
            elif _CHANGE.fullmatch(after + "=" * self._is_shifted(position)) or before in ("--", "++"):
                changed.add(word)
                down |= {word} if "--" in (before, after) and repeated[position] else set()
                if "+" in after[:1] + before[:1]:
                    self.unsteady.add(word)  # once, in a block
        for name, (words, *more) in found.items():
            if name in down and not more and name not in steps:
                self.down[name] = words
            if name in changed or any(each != words for each in more):
                if any((each[0], each[1:2]) != (name, ("+",)) for each in more):
                    self.unsteady.add(name)
                continue
            if name in steps and (pass_ := self._pass(name, steps[name], places[name], found)):
                yield name, ("(", *words, ")", "+", pass_, "*", "(", *steps[name][0], ")")
            elif name in steps:
                self.loops[name] = words, list(dict.fromkeys(map(tuple, steps[name])))
            elif not more and name not in words[:1]:
                yield name, words

    def _pass(
        self, name: str, steps: Sequence[Sequence[str]], at: int, found: Mapping[str, list[Sequence[str]]]
    ) -> str:
        """What counts the passes of the loop in which a name steps over the grid, if not the name itself ends it."""
        words = steps[0] if len(steps) == 1 else ()
        words = found.get(words[0], [words])[0] if len(words) == 1 else words
        counter = "" if _OF_GRID.isdisjoint(words) else loops.counter(self._body, at)
        return counter if counter != name else ""

    def is_defined_again(self, name: str) -> bool:
        """Whether a name is declared and assigned several times."""
        body = self._body
        places = [at for at, word in enumerate(body) if word == name and body[at + 1 : at + 2] == ("=",) and at]
        return sum(_NAME.fullmatch(body[at - 1]) is not None for at in places) > 1

    def _assigned(self, start: int) -> Sequence[str]:
        """The tokens of an assigned expression that begins at `start`."""
        body, end = self._body, start
        while end < len(body) and body[end] not in (",", ";", ")"):
            end = (matching(body, end) if body[end] in "([{" else end) + 1
        return body[start:end]

    def _is_shifted(self, position: int) -> bool:
        """Whether `<<=` or `>>=` follows the name at `position`."""
        return self._body[position + 1 : position + 4] in (("<", "<", "="), (">", ">", "="))

    def _is_store(self, position: int) -> bool:
        """Whether the name at `position` is that of a pointer through which a value is stored, as in `*sum = 0;`."""
        return self._body[position - 1 : position] == ("*",) and (
            position == 1 or self._body[position - 2] in (";", "{", "}", ")", "else")
        )


def is_member(body: Sequence[str], position: int) -> bool:
    """Whether the name at `position` is that of a member, as in `.x`."""
    return position > 0 and body[position - 1] == "."
