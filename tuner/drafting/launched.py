"""What the host code around a kernel says: sizes of arrays, grids, and block sizes, in the kernel's terms."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field

from tuner.classes import dataclass
from tuner.drafting.fields import StructField, StructPointer
from tuner.drafting.host.kernel_names import KernelNames
from tuner.drafting.host.program import HostProgram
from tuner.drafting.host.sites import Site, sites
from tuner.drafting.host.terms import Terms
from tuner.drafting.polynomials import Polynomial, added, atom, written
from tuner.space.sources.prototype import Parameter, Prototype

MOST_SITES = 24  # launches of a step that are read


@dataclass(frozen=True)
class Said:
    """What host code says of the kernels with certain block sizes.

    counts: the numbers of elements of arrays, over names of the draft.
    grids: for each step, the extents of its grid; None where they are unknown.
    new: sizes that no kernel takes, with their numbers on the host.
    values: scalars that follow from other sizes.
    local: the numbers of elements of arrays in OpenCL's local memory, the largest that a launch needs.
    across: scalars of one step that follow from those of others, as `count` of one from `w` and `h` of another.
    """

    counts: Mapping[str, Polynomial] = field(default_factory=dict)
    grids: Sequence[Sequence[str | None]] = ()
    new: Mapping[str, int | None] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    local: Mapping[str, Polynomial] = field(default_factory=dict)
    across: Mapping[str, str] = field(default_factory=dict)


class HostLaunches:
    """The launches of `steps` in a program. numbers: the macros and constants of the kernels; fields, pointers: those
    of structs by value that the draft has names for."""

    def __init__(
        self,
        program: HostProgram | None,
        steps: Sequence[Prototype],
        numbers: Collection[str],
        item_bytes: Callable[[Parameter], int | None],
        fields: Mapping[str, StructField],
        pointers: Sequence[StructPointer] = (),
    ) -> None:
        self._numbers = numbers
        self._program, self._steps, self._item_bytes, self._fields = program, steps, item_bytes, fields
        self._pointers = pointers
        self._sites = [self._at(step, with_callers=True) for step in steps]

    def _at(self, step: Prototype, with_callers: bool) -> list[Site]:
        """The launches of a step, over the names of the launching functions or of those that call them."""
        if self._program is None:
            return []
        every = sites(self._program, step, self._item_bytes, self._fields, self._pointers, with_callers)
        return [*itertools.islice(every, MOST_SITES)]

    def fixed(self, scratch: Collection[str]) -> set[str]:
        """The macros and constants of the kernels that are extents of arrays other than `scratch`, no part of a block
        size, and no scalar that the kernels get."""
        every = [site for found in self._sites for site in found]
        own = {f":{name}#0": name for name in self._numbers}
        blocks = {name for site in every for each in site.block or () for name in _names(each)}
        kept = (count for site in every for name, count in site.arrays.items() if name not in scratch)
        found = {name for each in kept for name in _names(each)}
        passed = {name for site in every for value in site.scalars.values() for name in _names(value)}
        return {own[name] for name in found - blocks - passed if name in own}

    @property
    def configured(self) -> set[str]:
        """The macros and constants of the kernels in the grids and blocks of launches."""
        every = [each for found in self._sites for site in found for each in (*(site.block or ()), *(site.grid or ()))]
        names = {name for each in every for name in _names(each)}
        return {name for name in self._numbers if any(re.search(rf":{name}#0\b", each) for each in names)}

    def is_block(self, name: str) -> bool:
        """Whether a launch's block size has a macro or constant of this name."""
        every = (each for found in self._sites for site in found for each in site.block or ())
        return any(f":{name}#0" in _names(each) for each in every)

    def block(self, step: int) -> list[int | None]:
        """The numbers of threads in x, y, z that all launches of a step have; None if unknown."""
        found = [[site.threads(each) for each in site.block] for site in self._sites[step] if site.block]
        return found[0] if found and all(each == found[0] for each in found) else []

    def block_by_macros(self, step: int, axis: int) -> str:
        """The threads that all launches of a step have on an axis, over macros and constants of the kernels, such as
        `2 * TILE`; empty if they are anything else."""
        every = [(site, each) for site in self._sites[step] for each in (site.block or ())[axis : axis + 1]]
        found = {self._by_macros(*each) for each in every}
        return found.pop() if len(found) == 1 else ""

    def block_is_of_sizes(self, step: int, axis: int) -> bool:
        """Whether a launch's threads on an axis follow from what it passes for scalars."""
        for site in self._sites[step]:
            passed = {name for value in site.scalars.values() for name in _names(value) if site.number(name) is None}
            extents = (site.block or ())[axis : axis + 1]
            if any(name in atom for each in extents for atom in _names(each) for name in passed):
                return True
        return False

    def is_whole(self, step: int, axis: int) -> bool:
        """Whether a launch of a step has whole blocks on an axis, whose number the host does not round up."""
        return any(axis in site.whole for site in self._sites[step])

    def block_is_of_arrays(self, step: int, axis: int) -> bool:
        """Whether a launch's threads on an axis, whose number is unknown, are a factor of a number of elements."""
        for site in self._sites[step]:
            names = {name for each in (site.block or ())[axis : axis + 1] for name in _names(each)}
            counts = {name for count in site.arrays.values() for name in _names(count)}
            if any(site.number(name) is None and not name.startswith("any block") for name in names & counts):
                return True
        return False

    def passes_parts_of_threads(self, step: int) -> bool:
        """Whether a launch passes how often the threads of its blocks fit into a number, as a scalar."""
        for site in self._sites[step]:
            threads = math.prod(site.threads(each) or 0 for each in site.block or ())
            for table in (site.scope.notes.ceilings, site.scope.quotients):
                parts = [table[name] for value in site.scalars.values() for name in _names(value) if name in table]
                divisors = [site.number_of(divisor) or 0 for _, divisor in parts]
                if threads > 1 and any(each and each % threads == 0 for each in divisors):
                    return True
        return False

    def clears(self, name: str) -> bool:
        """Whether all launches of the first step that takes an array set it to zero before."""
        for step, found in zip(self._steps, self._sites, strict=True):
            if any(parameter.name == name for parameter in step.parameters or ()):
                return bool(found) and all(name in site.cleared for site in found)
        return False

    @property
    def temporary(self) -> set[str]:
        """The arrays that all launches of the only step get cleared, and that only the kernel reads."""
        found = [{*site.temporary} for site in self._sites[0]] if len(self._sites) == 1 else []
        return set[str].intersection(*found) if found else set()

    def truth(self, name: str) -> bool | None:
        """Whether all launches pass true for a template parameter; None if they differ, or have no such value."""
        every = [site.scalars[name] for found in self._sites for site in found if name in site.scalars]
        values = {(each == atom(":true#0"), each == atom(":false#0")) for each in every}
        return {(True, False): True, (False, True): False}.get(values.pop()) if len(values) == 1 else None

    def has_unclear_block(self, step: int, axis: int) -> bool:
        """Whether a launch has threads on an axis that are neither names nor numbers."""
        every = [(site, each) for site in self._sites[step] for each in (site.block or ())[axis : axis + 1]]
        unclear = (each for site, each in every if not site.scope.notes.is_clear(each))
        return not all(written(each).startswith("any block") for each in unclear)

    def same_as_block(self, step: int, axis: int) -> set[str]:
        """The scalars for which each launch of a step passes the variable that is its threads on an axis."""
        found = list[set[str]]()
        for site in self._sites[step]:
            extents = (site.block or ())[axis : axis + 1]
            found.append({name for name, value in site.scalars.items() if value in extents and set(value) != {()}})
        return set[str].intersection(*found) if found else set()

    def multiples_of_block(self, step: int, axis: int) -> set[str]:
        """The scalars for which a launch passes a multiple of its threads on an axis, which have a name."""
        found = set[str]()
        for site in self._sites[step]:
            for extent in (site.block or ())[axis : axis + 1]:
                (only, *more) = [*extent] or [()]
                if only and not more:
                    same = {name: value[only] for name, value in site.scalars.items() if [*value] == [only]}
                    threads = extent[only]
                    found |= {name for name, factor in same.items() if factor > threads > 0 == factor % threads}
        return found

    def passed_macros(self) -> dict[str, str]:
        """The template parameters for which all launches pass a macro or constant of the kernels, by their names."""
        own, found = {f":{name}#0": name for name in self._numbers}, dict[str, set[str]]()
        for site in (site for each in self._sites for site in each):
            for name in {name for step in self._steps for name in step.template or {}} & site.scalars.keys():
                (only, *more) = [*site.scalars[name]] or [()]
                is_single = len(only) == 1 and not more and site.scalars[name][only] == 1
                found.setdefault(name, set()).add(own.get(only[0], "") if is_single else "")
        return {name: each.pop() for name, each in found.items() if len(each) == 1 and "" not in each}

    @property
    def of_constants(self) -> dict[str, str]:
        """A scalar for which all launches pass a constant of the host, by the name of each such constant."""
        every = [item for found in self._sites for site in found for item in site.scalars.items()]
        texts = {name: {written(value) for each, value in every if each == name} for name, _ in every}
        constants = ((re.fullmatch(r":(\w+)#0", each.pop()), name) for name, each in texts.items() if len(each) == 1)
        return {match[1]: name for match, name in constants if match}

    def _by_macros(self, site: Site, extent: Polynomial) -> str:
        (only, *more), quotients = [*extent] or [()], site.scope.quotients
        if len(only) == 1 and not more and extent[only] == 1 and only[0] in quotients:
            above, below = (self._by_macros(site, part) for part in quotients[only[0]])
            is_plain = above and below and not re.search(r"[-+/]", above + below)
            return f"{_bracketed(above)} // {_bracketed(below)}" if is_plain and not above.isdecimal() else ""
        own = self._of_templates(site) | {f":{name}#0": name for name in self._numbers}
        named = {tuple(own.get(each, "") for each in product): factor for product, factor in extent.items()}
        is_known = len(named) == len(extent) and all(map(all, named))
        return written(named) if is_known and (any(named) or more == []) else ""

    def _of_templates(self, site: Site) -> dict[str, str]:
        """The template parameters for which a launch passes a variable of its own, by that variable."""
        names = {name for step in self._steps for name in step.template or {}} & site.scalars.keys()
        given = {name: [*site.scalars[name]] for name in names if set(site.scalars[name].values()) == {1}}
        single = [(products[0][0], name) for name, products in given.items() if [*map(len, products)] == [1]]
        return {atom: name for atom, name in single if [each for each, _ in single].count(atom) == 1}

    def has_one_block(self, step: int, axis: int) -> bool:
        """Whether all launches of a step have a single block along an axis."""
        grids = [site.grid for site in self._sites[step]]
        return bool(grids) and all(
            grid is not None and (axis >= len(grid) or site.number_of(grid[axis]) == 1)
            for site, grid in zip(self._sites[step], grids, strict=True)
        )

    def number(self, name: str) -> int | None:
        """The number that all launches pass for a scalar or a template parameter."""
        every = [site for found in self._sites for site in found if name in site.scalars]
        numbers = {site.number_of(site.scalars[name]) for site in every}
        return numbers.pop() if len(numbers) == 1 else None

    @property
    def literals(self) -> set[str]:
        """The scalars for which a launch passes a number that has no name."""
        every = [site for found in self._sites for site in found]
        return {name for site in every for name, value in site.scalars.items() if set(value) <= {()}}

    def said(self, names: KernelNames, blocks: Sequence[Sequence[str]]) -> Said:
        """What the launches say in the terms of the kernels, whose block sizes are `blocks`."""
        counts, new, grids = dict[str, list[Polynomial | None]](), dict[str, int | None](), list[list[str | None]]()
        values, local = dict[str, set[str]](), dict[str, list[Polynomial | None]]()
        for step, block in enumerate(blocks):
            terms = [(site, Terms(site, names, block)) for site in self._sites[step]]
            arrays, extents = _arrays(terms), [*_grid(terms)]
            if None in arrays.values() or any(len(each) > 1 for each in extents):
                # Callers of one function disagree. Over its own names they may not.
                within = [(site, Terms(site, names, block)) for site in self._at(self._steps[step], with_callers=False)]
                arrays = {**_arrays(within), **{name: count for name, count in arrays.items() if count is not None}}
                own = itertools.zip_longest(extents, _grid(within), fillvalue=set[str]())
                extents = [other if len(each) > 1 else each for each, other in own]
                for _, term in within:
                    new |= term.new
            for name, count in arrays.items():
                counts.setdefault(name, []).append(count)
            grids.append([each.copy().pop() or None if len(each) == 1 else None for each in extents])
            for site, term in terms:
                new |= term.new
                for name in names.sizes:
                    if name in site.scalars:
                        values.setdefault(name, set()).add(_written(term.value(name)))
                for name, elements in site.local.items():
                    local.setdefault(name, []).append(term.said(elements))
        across = self._across(names.sizes)
        certain = {name: each.pop() for name, each in values.items() if len(each) == 1} | across
        largest = {name: most for name, each in local.items() if (most := _largest(each)) is not None}
        named = {name: value for name, value in certain.items() if value not in ("", name)}
        known = {name: same for name, each in counts.items() if (same := _same(each, named)) is not None}
        return Said(known, grids, new, named, largest, across)

    def _across(self, sizes: Collection[str]) -> dict[str, str]:
        """The scalars that follow from those of other steps alone, with their values over these."""
        every, passed = [site for found in self._sites for site in found], dict[str, list[Polynomial]]()
        for name, value in (each for site in every for each in site.scalars.items() if each[0] in sizes):
            passed.setdefault(name, []).append(value)
        same = {name: values[0] for name, values in passed.items() if all(each == values[0] for each in values)}
        own = {
            products[0][0]: name
            for name, value in same.items()
            if len(products := [*value]) == 1 == len(products[0]) and value[products[0]] == 1
        }
        found = dict[str, str]()
        for name, value in same.items():
            words = {*_names(value)}
            others = {own.get(word, "") for word in words} - {name}
            is_given = any(name in site.scalars and others & site.scalars.keys() for site in every)
            if words and name not in own.values() and "" not in others and not is_given:
                found[name] = written({tuple(sorted(own[w] for w in product)): f for product, f in value.items()})
        return found


def _largest(every: Sequence[Polynomial | None]) -> Polynomial | None:
    """The value that is at least each of the others, whatever their names stand for; None if there is none."""
    known = [each for each in every if each is not None]
    if len(known) < len(every):
        return None
    least = (each for each in known if all(min(added(each, other, -1).values(), default=0) >= 0 for other in known))
    return next(least, None)


def _same(every: Sequence[Polynomial | None], values: Mapping[str, str]) -> Polynomial | None:
    """The value that all steps tell, some of them by a scalar that has this value; None if they differ."""
    known = {_written(each): each for each in every if each is not None}
    texts = {values.get(each, each) for each in known}
    if None in every or len(texts) != 1:
        return None
    return known.get(texts.pop()) or next(iter(known.values()))


def _written(value: Polynomial | None) -> str:
    return "" if value is None else written(value)


def _arrays(terms: Sequence[tuple[Site, Terms]]) -> dict[str, Polynomial | None]:
    """The numbers of elements of arrays; None where launches disagree."""
    found = dict[str, Polynomial | None]()
    for name in dict.fromkeys(name for site, _ in terms for name in site.arrays):
        every = [(site, term.said(site.arrays[name])) for site, term in terms if name in site.arrays]
        each = [said for _, said in every if said]
        if each:
            is_open = len(each) < len(every) and any(_has_others(*one) for one in every)
            found[name] = each[0] if all(other == each[0] for other in each) and not is_open else None
    return found


def _has_others(site: Site, said: Polynomial | None) -> bool:
    """Whether an amount is a number, or has names that the launch does not pass: another launch may have others."""
    return said is not None and (set(said) <= {()} or any(n not in site.scalars for product in said for n in product))


def _grid(terms: Sequence[tuple[Site, Terms]]) -> Iterator[set[str]]:
    """What launches say of each extent of a grid; an empty text where one is unclear."""
    every = [(site.grid, term) for site, term in terms if site.grid]
    for axis in range(max((len(grid) for grid, _ in every), default=0)):
        yield {_written(term.blocks(grid[axis], axis)) if axis < len(grid) else "1" for grid, term in every}


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"\w+", text) else f"({text})"


def _names(value: Polynomial) -> Iterator[str]:
    return (name for product in value for name in product)
