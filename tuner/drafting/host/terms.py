"""Says a host's polynomials in the terms of a kernel: its scalars, its knobs, and new sizes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tuner.drafting.host.kernel_names import KernelNames
from tuner.drafting.host.scope import HostScope
from tuner.drafting.host.sites import Site
from tuner.drafting.polynomials import Monomial, Polynomial, added, bare, times, written
from tuner.space.dtypes import DTYPES
from tuner.space.sources.prototype import Parameter

_NAME = re.compile(r"\w*:([\w.]+)#\d+")
_QUOTIENT = re.compile(r"ceil_div\(([^(),]*), [^(),]*\)|(?<!\w)\(([^(),]*?)(?: // [^(),]*)?\)")
_ONE: Polynomial = {(): 1}
_PITCHES = ("cudaMallocPitch", "hipMallocPitch")
LEAST_BLOCK = 32  # threads; a smaller number that divides an array's size may be that of a block by chance
MOST_NEW = 3  # sizes that no kernel takes


class Terms:
    """The terms of a kernel at one launch.

    names: the names of the kernels.
    block: the block size of the draft in x, y, z.
    new: the new sizes, with their numbers on the host; None if unknown.
    """

    def __init__(self, site: Site, names: KernelNames, block: Sequence[str]) -> None:
        self._site, self._names = site, names
        self._quotients, self._ceilings = site.scope.notes.quotients, site.scope.notes.ceilings
        self.new = dict[str, int | None]()
        self._new_atoms = dict[str, str]()
        self._known, self._products = dict[str, Polynomial](), list[tuple[Monomial, str]]()
        self._shared = dict[str, list[str]]()  # names of the host that are passed as several sizes
        self._block = [*zip(site.block or (), block, strict=False)]
        self._of_draft = block
        self._axis, self._is_grid, self._is_doubtful = 0, False, False
        self._of_axes = dict[str, dict[int, Polynomial]]()  # block sizes by names of the host, for each axis
        self._sums = dict[str, Polynomial]()  # scalars that are sums of names
        self._multiples = dict[Monomial, list[tuple[str, int]]]()  # scalars that are a multiple of a product
        self._passed = dict[str, str]()  # the variables that are passed as sizes, by their bare names
        self._parts = dict[str, list[tuple[str, Polynomial]]]()  # scalars that are a quotient of a name, by that name
        for name, value in site.scalars.items():
            if name in names.sizes:
                self._add(name, value)
            elif name in names.templates and len(value) == 1:
                ((only, factor),) = value.items()
                if factor == len(only) == 1:
                    self._known.setdefault(only[0], {(name,): 1})
        for axis, (extent, name) in enumerate(self._block):
            self._add_block(name, extent, axis)

    def _add(self, name: str, value: Polynomial) -> None:
        terms, number = bare(value), value.get((), 0)
        (only, *more) = [*terms] or [()]
        if len(only) == 1 and value == {only: 1} and only[0] in self._quotients:
            dividend, divisor = self._quotients[only[0]]
            for product in dividend if len(dividend) == 1 else ():
                if dividend[product] == len(product) == 1:
                    self._parts.setdefault(product[0], []).append((name, divisor))
        if more and self._site.scope.notes.is_clear(value):
            self._sums[name] = value
        if only and not more and all(map(self._is_own, only)):
            return  # the kernel's own macros say it for all their values
        if only and not more and not number and terms[only] > 1:
            self._multiples.setdefault(only, []).append((name, terms[only]))
        if not only or more or terms[only] != 1:
            return
        if len(only) == 1:
            if match := _NAME.fullmatch(only[0]):
                self._passed.setdefault(match[1].rpartition(".")[2], only[0])
            self._shared.setdefault(only[0], []).append(name)
            self._known.setdefault(only[0], {(name,): 1, **({(): -number} if number else {})})
        elif not number:
            self._products.append((only, name))

    def _is_own(self, atom: str) -> bool:
        """Whether a name of the host is a macro or constant that the kernel reads."""
        match = _NAME.fullmatch(atom)
        is_number = match is not None and atom.startswith(":") and match[1] in self._names.numbers
        return match is not None and is_number and match[1] in self._names.read

    def _add_block(self, name: str, extent: Polynomial, axis: int) -> None:
        """Note the name of the host that is the block size along an axis, or along several."""
        (only, *more) = [*extent] or [()]
        if len(only) == 1 and not more and extent[only] == 1:
            threads: Polynomial = {(): int(name)} if name.isdecimal() else {(name,): 1}
            if only[0] not in self._known or only[0] in self._of_axes:
                self._of_axes.setdefault(only[0], {})[axis] = threads
            self._known.setdefault(only[0], threads)

    def blocks(self, value: Polynomial, axis: int) -> Polynomial | None:
        """The extent of a grid over the kernel's names; None if it cannot be said, or is right for one block only."""
        host, draft = next(iter(self._block[axis : axis + 1]), (None, "".join(self._of_draft[axis : axis + 1])))
        number = self._site.number_of(value)
        if draft and not draft.isdecimal():
            is_clear = host is not None and self._site.scope.notes.is_clear(host)
            is_known = self._site.number_of(host) is not None if host is not None else number == 1
            if (number is not None and not is_known) or (self._site.number_of(host or {}) == 1 != number):
                return None  # of a block of one thread, blocks and threads are the same
            for name in self._names.sizes if host is not None and is_clear and value != _ONE else ():
                if self._site.scalars.get(name) == times(value, host or {}):
                    return {(f"ceil_div({name}, {draft})",): 1}
        if self._is_one_item(value):
            return None  # a block of the draft may have more than the only one
        self._is_grid, self._is_doubtful = True, False
        found = self.said(value, axis)
        self._is_grid = False
        if found is None:
            return None
        threads = set(re.findall(r"[A-Za-z_]\w*", " ".join(self._of_draft)))
        is_of_block = not threads.isdisjoint(re.findall(r"\w+", written(found)))
        is_block = not threads.isdisjoint(re.findall(r"\w+", _dividends(written(found))))
        return None if is_block or (self._is_doubtful and not is_of_block) else found

    def _is_one_item(self, value: Polynomial) -> bool:
        """Whether a grid has one work-item along an axis, in a block of the driver's choice."""
        (only, *more) = [*value] or [()]
        items, threads = self._ceilings.get("".join(only), ({}, {})) if not more else ({}, {})
        return self._site.number_of(items) == 1 and written(threads).startswith("any block")

    def said(self, value: Polynomial, axis: int = 0) -> Polynomial | None:
        """A polynomial of the host over the kernel's names; None if it cannot be said. `axis` is that of a grid."""
        same = [name for name, given in self._sums.items() if given == value]
        if same:
            return {(same[0],): 1}
        total: Polynomial = {}
        self._axis = axis
        for product, factor in value.items():
            same_product = self._multiples.get(product, [])
            if len(same_product) == 1 and factor % same_product[0][1] == 0:
                total = added(total, {(same_product[0][0],): factor // same_product[0][1]})
                continue
            part = self._product(product)
            if part is None:
                return None
            total = added(total, times(part, {(): factor}))
        return total

    def value(self, name: str) -> Polynomial | None:
        """The value of one of the kernel's scalars over the others; None if it cannot be said."""
        given = self._site.scalars[name]
        for table, is_up in ((self._ceilings, True), (self._quotients, False)):
            (only, *more) = [*given] or [()]
            if len(only) == 1 and not more and given[only] == 1 and only[0] in table:
                return self._quotient(*table[only[0]], is_up)
        return self.said(given)

    def _product(self, product: Monomial) -> Polynomial | None:
        left, found = Counter(product), _ONE
        for names, name in self._products:
            if not Counter(names) - left and any(each not in self._known for each in names):
                left, found = left - Counter(names), times(found, {(name,): 1})
        for name, count in left.items():
            part = self._power(name, count)
            if part is None:
                return None
            found = times(found, part)
        return found

    def _power(self, name: str, count: int) -> Polynomial | None:
        """A power of a name. A name that is passed as several sizes is ambiguous, except as their product."""
        if len(same := self._shared.get(name, [])) > 1:
            return {tuple(sorted(same)): 1} if len(same) == count else None
        part, found = self._atom(name), _ONE
        for _ in range(count):
            found = times(found, part) if part is not None else found
        return found if part is not None else None

    def _atom(self, name: str) -> Polynomial | None:
        if name in self._known:
            return self._of_axes.get(name, {}).get(self._axis, self._known[name])
        for table, is_up in ((self._ceilings, True), (self._quotients, False)):
            if name in table:
                return self._quotient(*table[name], is_up)
        if name.startswith("sizeof ("):
            item = Parameter("", name.removeprefix("sizeof (").removesuffix(")").strip(), False, False)
            return {(): DTYPES[item.dtype].itemsize * item.width} if item.dtype else None
        match = _NAME.fullmatch(name)
        if match is None or not self._site.scope.notes.is_clear({(name,): 1}):
            return None
        if name.startswith(":") and match[1] in self._names.numbers:
            return {(match[1],): 1}
        if (whole := self._whole(name)) is not None:
            return whole
        number = self._site.number(name)
        is_hidden = match[1] in self._names.taken  # an argument of the kernel has its name
        if name.startswith(":") and match[1] in self._names.read and not is_hidden:
            return {(): number} if number is not None else None  # another number would be another kernel
        return self._new(name, match[1].rpartition(".")[2])

    def _whole(self, name: str) -> Polynomial | None:
        """A name of the host of which a scalar is passed as a part: their product, as with `width / heads` for width.
        None if no scalar is, or if anything but sizes divides it."""
        parts = [each for each in self._parts.get(name, ()) if (name,) not in each[1]]
        (scalar, by) = (parts[0][0], self.said(parts[0][1])) if len(parts) == 1 else ("", None)
        is_of_sizes = by is not None and set(by.values()) == {1} and all(set(p) <= {*self._names.sizes} for p in by)
        return times({(scalar,): 1}, by) if by and is_of_sizes and set(by) != {()} else None

    def _new(self, atom: str, name: str) -> Polynomial | None:
        """A new size for a name of the host; None if the name is taken, or if there are too many.

        A variable of another function with the name of one that is passed may have the same value.
        """
        if self._passed.get(name, atom) != atom or self._follows(atom, name):
            return None
        if self._new_atoms.get(name, atom) != atom or name in self._names.taken or len(self._new_atoms) >= MOST_NEW:
            return {(name,): 1} if self._new_atoms.get(name) == atom else None
        self._new_atoms[name] = atom
        self.new[name] = self._site.number(atom)
        return {(name,): 1}

    def _follows(self, atom: str, name: str) -> bool:
        """Whether a variable is no size of its own: an assignment computes it from one that the launch passes, or it is
        the pitch of an allocation, which the device chooses."""
        of_name = {function.name: function for function in self._site.scope.program.functions}
        function = of_name.get(atom.partition(":")[0])
        if function is None or atom.startswith(":"):
            return False
        pitches = (given[1] for call in _PITCHES for _, given in function.calls(call) if len(given) > 1)
        scope: HostScope | None = self._site.scope
        while scope is not None and scope.function is not function:
            scope = scope.caller
        words = {word for each in function.assignments.get(name, ()) for word in each.words if word.isidentifier()}
        values = [scope.polynomial([word]) for word in words - {name}] if scope is not None else []
        passed = [value for each, value in self._site.scalars.items() if each in self._names.sizes and bare(value)]
        return any(value in passed for value in values) or any(["&", name] == [*each] for each in pitches)

    def _quotient(self, dividend: Polynomial, divisor: Polynomial, is_up: bool) -> Polynomial | None:
        above, below = self.said(dividend, self._axis), self._divisor(divisor)
        if above is None or below is None:
            return None
        if set(above) <= {()} and set(below) == {()} and below[()] > 0:
            number = above.get((), 0)
            return {(): -(-number // below[()]) if is_up else number // below[()]}
        one, other = written(above), written(below)
        threads = {word for _, name in self._block for word in re.findall(r"[A-Za-z_]\w*", name)}
        own = next(iter(self._block[self._axis : self._axis + 1]), ({}, "1"))
        if (
            self._is_grid
            and not own[1].isdecimal()
            and above.get((), 0) > 1
            and above[()] == self._site.number_of(own[0])
        ):
            return None  # a block more, in the host's number
        if self._is_grid and threads.intersection(re.findall(r"\w+", _dividends(one))):
            return None  # the size would follow from the block
        if not is_up and own[1] == other and above.get((), 0) + 1 == self._site.number_of(own[0]):
            is_up, one = True, written(bare(above))  # n + 15 threads in blocks of the host's 16
        if is_up:
            return {(f"ceil_div({one}, {other})",): 1}
        return {(f"({_bracketed(one)} // {_bracketed(other)})",): 1}

    def _divisor(self, divisor: Polynomial) -> Polynomial | None:
        """A divisor: the block size of the axis, of another axis, or another expression."""
        own = self._block[self._axis : self._axis + 1]
        same = [name for extent, name in [*own, *self._block] if extent == divisor and set(extent) != {()}]
        number, least = self._site.number_of(divisor) or 0, 2 if self._is_grid else LEAST_BLOCK
        macros = {name.strip(":").partition("#")[0] for name in _atoms(divisor) if self._is_own(name)}
        same += [
            name
            for extent, name in own
            if least <= number == self._site.number_of(extent)
            and macros <= {*re.findall(r"\w+", name)}
            and (self._is_grid or not _atoms(extent))  # a block that has a name is not written as a number
        ]
        found = next(iter(same), "")
        if found:
            return {(): int(found)} if found.isdecimal() else {(found,): 1}
        is_grid, self._is_grid = self._is_grid, False
        said = self.said(divisor, self._axis)
        self._is_grid = is_grid
        known = {*self._names.sizes, *self._names.numbers, *self._names.templates}
        is_own = said is not None and any(name in known for product in said for name in product)
        if said is not None and (self._is_of_other_block(divisor) or (not is_own and self._may_be_of_block(divisor))):
            self._is_doubtful = True
        return said

    def _may_be_of_block(self, divisor: Polynomial) -> bool:
        """Whether a number that divides a size may follow from the block, which the draft varies."""
        host, draft = next(iter(self._block[self._axis : self._axis + 1]), ({}, "1"))
        number, threads = self._site.number_of(divisor), self._site.number_of(host)
        if draft.isdecimal() or not threads or number in (None, 0, 1):
            return False
        return threads % number == 0 or number % threads == 0

    def _is_of_other_block(self, divisor: Polynomial) -> bool:
        """Whether a divisor has a macro of the host's block, such as BY / 2, but another one than the draft's."""
        host, draft = next(iter(self._block[self._axis : self._axis + 1]), ({}, "1"))
        names = {match[1] for name in _atoms(divisor) & _atoms(host) if (match := _NAME.fullmatch(name))}
        return not draft.isdecimal() and bool(names - {*re.findall(r"\w+", draft)})


def _atoms(value: Polynomial) -> set[str]:
    """The names in a polynomial, also those in its quotients."""
    return set(re.findall(r"[\w.]*:[\w.]+#\d+", " ".join(name for product in value for name in product)))


def _dividends(text: str) -> str:
    """An expression without the divisors of its quotients."""
    count = 1
    while count:
        text, count = _QUOTIENT.subn(lambda match: match[1] or match[2] or "", text)
    return text


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"\w+|\w+\([^()]*\)", text) else f"({text})"
