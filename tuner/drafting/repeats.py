"""Drafts what the host launches in loops: a question, and the lines of `steps:` with `repeat:` or `while:`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.drafting.host.launch_site import LaunchSite
from tuner.drafting.host.loops import HostLoop, loops, named
from tuner.drafting.host.passed import constant
from tuner.drafting.yaml_text import name_of
from tuner.errors import ExpressionError
from tuner.space.expressions import arithmetic, parse
from tuner.space.sources.prototype import Parameter

if TYPE_CHECKING:
    from tuner.drafting.chosen_knobs import ChosenKnobs

Item = tuple[int, tuple[HostLoop, ...]]  # a step, and the loops around it
Exchanged = Callable[[str, str], list[str]]  # the argument lines of two arrays
StepLines = Callable[[int], list[str]]
MOST_PASSES = 1000
_MAKES_A_BLOCK = {"NDRange", "dim3", "cl"}
_MEASURES = re.compile(r"(?i)repeat|^n?_?rep(?:s|etitions?)?$|warm_?up|trials?$|_?runs?$|bench")
_OF_BLOCKS = re.compile(r"(?i)(?:block|threads?|work_?group)_?(?:per_?block_?)?(?:size|dim|count)s$")


class Repeats:
    """The loops around the launches of the steps. `known` are the names of sizes and options of the draft, `values` the
    scalars that follow from these, with their values."""

    def __init__(self, facts: ChosenKnobs, known: Sequence[str], values: Mapping[str, str]) -> None:
        self._values = values
        self._facts, self._known, self._sites = facts, {*known, *arithmetic.FUNCTIONS}, facts.launches
        self._given = dict[str, str]()  # names of the kernels' arguments, by those of the host
        for site, step in zip(self._sites, facts.steps, strict=False):
            for words, parameter in zip(site.arguments, step.parameters or (), strict=False):
                if (len(words) == 1 and words[0].isidentifier()) or words[1:2] == ("[",):
                    self._given.setdefault("".join(words), parameter.name)
                    of_struct = (each for each in facts.pointers if each.parameter == parameter.name)
                    self._given |= {".".join((words[0], *each.path)): each.array.name for each in of_struct}
            threads = {word for word in site.block if word.isidentifier()} - _MAKES_A_BLOCK
            (block, *others) = facts.block_of(step) if facts.has_grid else [""]
            if len(threads) == 1 and not others and block in facts.knobs:
                self._given.setdefault(threads.pop(), block)
        self._given = {**facts.launched.of_constants, **self._given}
        every_array = [*facts.parameters, *(pointer.array for pointer in facts.pointers)]
        self._drafted = {array.name: name_of(array) for array in every_array}  # `in` is `in_` there
        self._measuring: HostLoop | None = None
        self._of_problems: HostLoop | None = None  # each pass has memory of its own
        every = [(number, tuple(self._loops(number))) for number in range(len(self._sites))]
        self._items: list[Item] = every if any(found for _, found in every) else []

    def _loops(self, number: int) -> Iterator[HostLoop]:
        program, site = self._facts.program, self._sites[number]
        assert program is not None
        every = loops(program, site.function, site.position)
        for at, loop in enumerate(every):
            is_read = loop.variable in _read(site, loop) | {word for other in every[at + 1 :] for word in other.header}
            is_named = any(_MEASURES.search(word) for word in loop.header)
            is_trial = any(_OF_BLOCKS.search(word) for word in loop.header)  # of one block size after another
            if loop.word == "for" and (is_trial or (is_named and not is_read)) and not any(loop.swaps()):
                self._measuring = self._measuring or loop
            elif self._is_of_problems(number, loop):
                self._of_problems = self._of_problems or loop
            else:
                yield loop

    def _is_of_problems(self, number: int, loop: HostLoop) -> bool:
        """Whether all arrays that a step may write are allocated anew in each pass of a loop."""
        step, site = self._facts.steps[number], self._sites[number]
        roles, own = self._facts.roles_in(step), loop.allocated() if loop.function is site.function else set[str]()
        passed = zip(step.parameters or (), site.arguments, strict=False)
        written = [words for parameter, words in passed if roles.get(parameter.name, "in") != "in"]
        return bool(written) and all(len(words) == 1 and words[0] in own for words in written)

    @property
    def question(self) -> str:
        """The question about the outermost loop; empty if there is none, or it only repeats what it did."""
        if not self._items or self._is_same():
            return ""
        outer = next(found[0] for _, found in self._items if found)
        return f"{self._launches} in a loop, `{outer}`: is the whole loop the operation? its lines are at the end"

    @property
    def _launches(self) -> str:
        return f"the host {'launches' if self._facts.has_grid else 'calls'} {'it' if len(self._sites) == 1 else 'them'}"

    @property
    def remark(self) -> str:
        """A remark about a loop that only repeats what it did, or that measures; empty if there is none."""
        outer = next((found[0] for _, found in self._items if found), None) if self._is_same() else None
        loop = outer or self._measuring or self._of_problems
        if loop is None or self.question:
            return ""
        why = "which measures by its names" if self._feeds_back() else "which repeats the same"
        why = "whose passes have memory of their own" if loop is self._of_problems else why
        return f"  # {self._launches} in `{loop}`, {why}: one pass is the operation"

    def _is_same(self) -> bool:
        """Whether passes differ in nothing: no argument varies, and no pass reads what an earlier one wrote."""
        pairs = [(site, loop) for site, (_, found) in zip(self._sites, self._items, strict=False) for loop in found]
        varies = any(loop.variable in _read(site, loop) or _sets_arguments(site, loop) for site, loop in pairs)
        swaps = any(any(loop.swaps()) for _, found in self._items for loop in found)
        flags = any(loop.word == "while" for _, found in self._items for loop in found)
        return not (swaps or flags or varies or self._feeds_back())

    @cached_property
    def _roles(self) -> list[dict[str, str]]:
        return [self._facts.roles_in(step) for step in self._facts.steps]

    def _feeds_back(self) -> bool:
        """Whether a pass reads what an earlier one wrote: an array that is not cleared or copied anew in each."""
        around = [*(loop for _, found in self._items for loop in found), self._measuring, self._of_problems]
        restored = {self._given.get(name, name) for loop in around if loop for name in loop.restored()}
        anew = set[str]()  # what an earlier step of the same pass has written
        for number, of in enumerate(self._roles):
            restored = restored | anew
            anew |= {name for name, role in of.items() if role == "out"}
            later = [other for each in self._roles[number:] for other in each.items()]
            read = {name: role for name, role in of.items() if role != "out" and name not in restored}
            if any((name, "out") in later or role == "inout" for name, role in read.items()):
                return True
        return False

    def lines(self, step_lines: StepLines, exchanged: Exchanged) -> list[str]:
        """The comment with the lines of the whole loop; none without a question. `exchanged` gives those of arrays."""
        if not self.question:
            return []
        instead = "`kernel:`, `grid:` and `block:`" if len(self._items) == 1 else "these `steps:`"
        body = ["steps:", *self._nested(self._items, step_lines, "  ", self._names)]
        notes = [f"#   {note}" for note in self._notes("\n".join(body), exchanged)]
        head = [f"# The whole loop, in the place of {instead}; a loop variable is no size and no option:"]
        return [*head, *notes, *(f"# {line.partition('  # ? ')[0]}" for line in body)]

    @property
    def _names(self) -> dict[str, str]:
        """The names of the draft, or values of scalars, by the names of the host."""
        values = {name: f"({value})" if re.search(r"[-+*/]", value) else value for name, value in self._values.items()}
        return {name: values.get(given) or self._drafted.get(given, given) for name, given in self._given.items()}

    def _nested(
        self, items: Sequence[Item], step_lines: StepLines, indent: str, names: Mapping[str, str]
    ) -> Iterator[str]:
        for loop, group in itertools.groupby(items, key=lambda item: item[1][0] if item[1] else None):
            inner = [*group]
            if loop is None:
                for number, _ in inner:
                    yield from (f"{indent}{line}" for line in step_lines(number))
                continue
            own = {**names}
            own.setdefault(loop.variable, loop.variable)
            yield from (f"{indent}{line}" for line in self._head(loop, own))
            yield f"{indent}  steps:"
            yield from self._nested([(number, rest[1:]) for number, rest in inner], step_lines, f"{indent}    ", own)
            swaps = (pair for pair in loop.swaps() if names.keys() >= {*pair})  # other steps have the others
            pairs = [f"[{names[one]}, {names[other]}]" for one, other in swaps]
            if pairs:
                yield f"{indent}  swap: {pairs[0]}" if len(pairs) == 1 else f"{indent}  swap: [{', '.join(pairs)}]"

    def _head(self, loop: HostLoop, names: Mapping[str, str]) -> Iterator[str]:
        """The keys `repeat` or `while` of a loop."""
        if loop.word == "while":
            flag = names.get(loop.flag()) or next((names[word] for word in loop.header if word in names), "FLAG")
            yield f"- while: {flag}    # set to 0 before each pass"
            yield f"  most: {MOST_PASSES}    # passes"
            return
        count, values = self._by_sizes(loop).values()
        if self._varies(loop) or not count:
            yield f"- repeat: {{{names[loop.variable]}: {named(values, names) or '...'}}}    # {loop}"
        else:
            yield f"- repeat: {named(count, names)}    # {loop}"

    def _by_sizes(self, loop: HostLoop) -> HostLoop:
        """A loop with what its function computes from sizes in the place of variables: `(n + 31) / 32` for `tiles`."""
        change = max((at for at, word in enumerate(loop.header) if word == ";"), default=0)
        found = list[str]()
        for at, word in enumerate(loop.header):
            is_variable = at < change and loop.function.declares(word) and loop.header[at - 1 : at] != (".",)
            found += (is_variable and self._value(loop, word, loop.first)) or [word]
        return replace(loop, header=tuple(found))

    def _value(self, loop: HostLoop, name: str, end: int) -> list[str]:
        """The tokens of what a name means at a loop, if nothing changes it after the position `end`: a name of the
        draft, a number, or what a variable is computed from these. Empty if it is anything else, or only a number."""
        function, every = loop.function, loop.function.assignments.get(name, ())
        if name not in self._given and name in self._given.values():
            return []  # the host passes another variable for what the kernel calls so
        if name in self._known or name in self._given:
            return [name] if function.last(name, end)[1] == function.last(name, loop.first)[1] else []
        if name in self._facts.numbers:
            return [str(self._facts.numbers[name])]
        only = every[0] if len(every) == 1 and function.declares(name) else None
        if only is None or only.position >= end or not function.is_certain(only, loop.first):
            return []
        if function.is_passed_by_address(name, only.position, loop.first):
            return []
        is_plain = [word.isdecimal() or word in "+-*/()," for word in only.words]
        parts = [
            [w] if plain else self._value(loop, w, only.position) for w, plain in zip(only.words, is_plain, strict=True)
        ]
        found = [word for part in parts for word in part]
        if not all(parts) or not any(map(str.isidentifier, found)):
            return []
        return ["(", *found, ")"] if len(parts) > 1 else found

    def _varies(self, loop: HostLoop) -> bool:
        """Whether arguments or inner loops read the variable of a loop."""
        words = {word for site in self._sites for word in _read(site, loop)}
        words |= {w for _, found in self._items for other in found if other is not loop for w in other.header}
        return loop.variable in words

    def _notes(self, text: str, exchanged: Exchanged) -> Iterator[str]:
        """What the lines need elsewhere: sizes that only the host has, and scalars that follow from loop variables."""
        variables = {loop.variable for _, found in self._items for loop in found} - {""}
        heads = " ".join(re.findall(r"- repeat: ([^#\n]*)", text))
        keys = {*re.findall(r"(\w+):", heads), "from", "to", "step", "powers_of_two", "halving"}
        known = self._known | keys | {self._given.get(name, name) for name in variables} | set(self._given.values())
        functions = [site.function for site in self._sites]
        functions += [loop.function for _, found in self._items for loop in found]
        for name in dict.fromkeys(re.findall(r"(?<![.\w])[A-Za-z_]\w*", heads)):
            if name not in known:
                program = self._facts.program
                numbers = (constant(program, function, name) for function in functions if program)
                yield f"in `sizes:`, {name}: {next(filter(str.isdecimal, numbers), '')}".rstrip()
        for flag in dict.fromkeys(self._names.get(loop.flag(), "") for _, found in self._items for loop in found):
            if flag:
                cleared = " and without its fill" * self._facts.launched.clears(flag)
                yield f"in `arguments:`, {flag} with role: scratch{cleared}"
        for pair in {pair: None for _, found in self._items for loop in found for pair in loop.swaps()}:
            arrays = [self._given.get(name, name) for name in pair]
            read = [name for name in arrays if any(of.get(name) == "in" for of in self._roles)]
            if len(read) == 1 and self._given.keys() >= {*pair}:
                other = arrays[1 - arrays.index(read[0])]
                names = " and ".join(self._drafted.get(name, name) for name in (read[0], other))
                yield f"in `arguments:`, in the place of the lines of {names}:"
                yield from exchanged(read[0], other)
        for site, step in zip(self._sites, self._facts.steps, strict=False):
            for words, parameter in zip(site.arguments, step.parameters or (), strict=False):
                is_element = parameter.is_pointer and "".join(words) in self._given  # which passes may exchange
                if len(words) > 1 and variables & {*words} and not is_element:
                    yield self._note_on(parameter, " ".join(words))

    def _note_on(self, parameter: Parameter, passed: str) -> str:
        """What an argument needs for which the host passes something else in each pass."""
        name, text = self._drafted.get(parameter.name, parameter.name), named(passed, self._given)
        if not parameter.is_pointer and _is_expression(text):
            return f"in `arguments:`, {name} with value: {text}"
        which = "begins elsewhere" if parameter.is_pointer else "has another value"
        cure = "kernel take the whole array" if parameter.is_pointer else "kernel compute it, or read it from an array"
        return f"{name} {which} in each pass, as the host passes `{passed}`: let the {cure}"


def _is_expression(text: str) -> bool:
    """Whether a space file can have a text as a value."""
    try:
        parse(text)
    except ExpressionError:
        return False
    return True


def _sets_arguments(site: LaunchSite, loop: HostLoop) -> bool:
    """Whether a loop assigns to a member of a struct that a launch in it passes."""
    return any(len(words) == 1 and words[0].isidentifier() and loop.sets_members(words[0]) for words in site.arguments)


def _read(site: LaunchSite, loop: HostLoop) -> set[str]:
    """The names that a launch in a loop reads; all of the loop's body if the launch is in a function that it calls."""
    if loop.function is not site.function:
        return {*loop.body}
    swapped = {element for pair in loop.swaps() for element in pair}
    return {word for each in (*site.arguments, site.grid) if "".join(each) not in swapped for word in each}
