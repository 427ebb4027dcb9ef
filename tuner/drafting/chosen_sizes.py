"""Decides which numbers of a kernel are sizes or fixed, and finds the names that its source does not declare."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

from tuner.classes import cached_property
from tuner.drafting.arrays.indices import Indices
from tuner.drafting.expansion import expanded
from tuner.drafting.facts import Facts
from tuner.drafting.knobs import proposals
from tuner.drafting.knobs.undeclared import undeclared
from tuner.drafting.polynomials import names_in
from tuner.drafting.reached import extents_of_members
from tuner.drafting.roles import uses
from tuner.space.sources.preprocessor import without

_WORD_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+([A-Za-z_]\w*)[ \t]*$", re.MULTILINE)
OF_INDICES = "it is an offset in indices"
OF_A_WINDOW = "it is the radius over which the kernel's loops run"


class ChosenSizes(Facts):
    """The facts about kernels, with the numbers that are no knobs: sizes that the source defines, and fixed ones."""

    @property
    def fixed(self) -> dict[str, int]:
        """The macros and constants that are no knobs, because another value changes the operation."""
        return self.shapes.fixed | {name: self.numbers[name] for name in self.reasons}

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why macros and constants are no knobs: they are extents, the host reads them, they bound a window,
        or they only enter what is computed.

        Host code was written for the number of the source, except where it chooses a grid or a block by it.
        """
        found = dict[str, str]()
        tokens = [re.findall(r"\w+|\S", extent) for _, extents in self.constants.values() for extent in extents]
        extents = {word for each in tokens for word in (*each, *expanded(each, self.code))}
        extents |= self._fixed_extents | self.shapes.fixed.keys()
        extents |= {word for p in self.parameters for word in self.structs.extents(p.type)}
        extents |= {word for p in self.parameters for word in names_in(" ".join(p.extents))}
        for name in self.numbers.keys() - self.size_macros.keys():
            if name in extents:
                found[name] = "an extent of an argument"
            elif name in self.tested_by_parameters:
                found[name] = "the kernel's arguments depend on it"
            elif name in self.tested_around_types:
                found[name] = "the types of arguments depend on it"
            elif name in self._read_by_host:
                found[name] = f"host code reads it: {self._read_by_host[name]}"
            elif self._bounds_a_window(name):
                found[name] = OF_A_WINDOW
            elif self._is_offset(name):
                found[name] = OF_INDICES
            elif last := uses.last_by_number(name, self.numbers[name], self.body):
                found[name] = f"the source names the last element by its number: {last}"
            elif uses.divides_bounds(name, " ; ".join([self.body, *self._of_functions]), self.sizes):
                found[name] = "it is the width of accesses: bounds are divided by it"
            elif self.is_quantity(name):
                found[name] = "it only enters what is computed"
        return {name: found[name] for name in self.numbers if name in found}

    @property
    def _fixed_extents(self) -> set[str]:
        """The macros and constants that are extents of arrays which callers pass, as the host allocates them."""
        return self.launched.fixed({p.name for p in self.parameters if p.is_pointer and self.is_handed_on(p.name)})

    def _is_offset(self, name: str) -> bool:
        if proposals.axis_of(name) or not uses.is_offset(name, self.body, self.numbers):
            return False
        return name in self._factors_of_indices

    @cached_property
    def _factors_of_indices(self) -> set[str]:
        """The factors in the indices of arrays, with the names of constants."""
        every = [
            Indices(step.body, [p.name for p in self.taken(step) if p.is_pointer], self.sizes) for step in self.steps
        ]
        found = (index for each in every for indices in each.accesses.values() for index in indices)
        return {factor for index in found for product in index for factor in product}

    @cached_property
    def settled(self) -> dict[str, int]:
        """The small constants that the kernels' text alone tells to be neither knobs nor sizes, with their numbers."""
        small = {n: v for n, v in self.numbers.items() if not (proposals.is_size(n, v) or proposals.is_large(n, v))}
        return {n: v for n, v in small.items() if self._bounds_a_window(n) or self._is_offset(n)}

    def _bounds_a_window(self, name: str) -> bool:
        """Whether a loop runs from -name to name, or over as many numbers from 0 on, as loops over a padded tile do."""
        double = rf"(?:2 \* {name}|{name} \* 2)"
        ends = rf"(?:< = \(? ?{double}|< \(? ?(?:{double} \+ 1|1 \+ {double}))(?: \))* ;"
        from_zero = rf"(\w+) = 0 ; \1 {ends}"
        return re.search(rf"= - {name} ; \w+ < = {name} |{from_zero}", self.body) is not None

    @cached_property
    def _read_by_host(self) -> dict[str, str]:
        from tuner.drafting.host.uses import elsewhere

        found = elsewhere(self.program) if self.program else {}
        return {name: text for name, text in found.items() if name not in self.launched.configured}

    @cached_property
    def size_macros(self) -> dict[str, int]:
        """The macros and constants that are probably sizes: no extents of the kernel's own arrays, by their names or
        values, and part of an index or a bound."""
        arrays = "|".join(re.escape(p.name) for p in self.parameters if p.is_pointer) or "-"
        own = " ".join(re.findall(rf"\b(?!(?:{arrays}) )\w+ ((?:\[ [^\[\]]* \] )+)", self.body + " "))
        extents = set(re.findall(r"[A-Za-z_]\w*", own))
        read = set(re.findall(r"(?:\* |< |<= )([A-Za-z_]\w*)", self.body.replace("< =", "<=")))
        # What blocks or threads are apart by is a tile.
        tiles = re.findall(r"(?:(?:blockIdx|threadIdx) \. [xyz]|get_(?:group|local)_id \( \d \)) \* (\w+)", self.body)
        extents.update(tiles)
        # A row of one element is rare: where the position of a thread has such a factor, a thread has more elements.
        factors = re.findall(r"(?:threadIdx \. [xyz] \)|get_(?:local|global)_id \( \d \)(?: \))?) \* (\w+)", self.body)
        extents.update(name for name in factors if self.numbers.get(name) == 1)
        extents.update(self.shapes.fixed)
        found = {name for name, value in self.numbers.items() if name in read and proposals.is_size(name, value)}
        # Extents of arrays, as indices or the host's allocations tell them.
        known = self._fixed_extents.union(self.shapes.sizes)
        found |= {name for name, value in self.numbers.items() if name in known and proposals.is_large(name, value)}
        return {name: value for name, value in self.numbers.items() if name in found - extents}

    @property
    def given_by_build(self) -> Collection[str]:
        return self.of_program

    @cached_property
    def of_program(self) -> dict[str, int]:
        """The undeclared names that are numbers in another file of the program."""
        if self.program is None or not self._undeclared:
            return {}
        from tuner.drafting.host.scope import number_of

        found = {name: number_of(self.program, name) for name in (*self.undeclared, *self.undeclared_in_others)}
        return {name: number for name, number in found.items() if number is not None}

    @cached_property
    def undeclared(self) -> dict[str, bool]:
        """The undeclared names that the kernels read, each with whether it is only used as a condition."""
        return {name: is_truth for name, is_truth in self._undeclared.items() if name in self.reached}

    @property
    def undeclared_in_others(self) -> list[str]:
        """The undeclared names that only other kernels of the file read, with which it is compiled."""
        return [name for name in self._undeclared if name not in self.reached and not self.is_cuda]

    @cached_property
    def _undeclared(self) -> dict[str, bool]:
        names, bounds = {step.name for step in self.steps}, " ".join(e for step in self.steps for e in step.block)
        if self.missing:  # a missing header may declare them
            return {}

        def runs(name: str, prefix: Collection[str]) -> bool:
            return name in names or "__device__" in prefix or (not self.is_cuda and name != "main")

        code = self.text
        found = undeclared(self.code, code, runs, " ".join([bounds, *extents_of_members(code, self.reached)]))
        if self.flags_of_parameters:  # what only their branches read
            left = {*re.findall(r"\w+", without(self.text, self.flags_of_parameters))}
            found = {name: is_truth for name, is_truth in found.items() if name in left}
        return found

    @property
    def words(self) -> dict[str, str]:
        """The macros whose default is a word, and that the source uses for the kernels."""
        every = Counter(name for name, _ in _WORD_MACRO.findall(self.code))
        uses = {name: len(re.findall(rf"\b{name}\b", self.code)) for name in every if every[name] == 1}
        guarded = {name for name in uses if re.search(rf"#[ \t]*if.*\b{name}\b", self.code)}
        found = {name: word for name, word in _WORD_MACRO.findall(self.code) if not word.startswith("__")}
        used = [name for name in found if uses.get(name, 0) > (2 if name in guarded else 1)]
        return {name: found[name] for name in used if re.search(rf"\b{name}\b", self.own)}
