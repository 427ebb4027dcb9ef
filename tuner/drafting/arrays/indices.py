"""Reads the array indices in a kernel's tokens, and what these are compared with, each as a polynomial.

Local variables that are assigned once are replaced by their values. An expression that is no sum or product, such as
`idx % cols`, is an atom. OpenCL functions are named as in CUDA: get_local_id(0) is `threadIdx.x`. There is no C parser.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from tuner.drafting.arrays import pitches, remainders, scopes, straight
from tuner.drafting.arrays.byte_offsets import is_dereference
from tuner.drafting.arrays.comparisons import BOUNDS, OPERAND_ENDS, Comparisons, end_of_statement, with_extremes
from tuner.drafting.arrays.local_names import LocalNames, is_member
from tuner.drafting.expansion import split_arguments
from tuner.drafting.polynomials import Polynomial, added, atom, is_short, text, times, written
from tuner.drafting.reader import Reader
from tuner.space.sources.tokens import matching

AXES = "xyz"
_PRODUCTS = ("__mul24", "__umul24", "mul24")  # of two small numbers
_CLAMPS = {"min": 2, "max": 2, "clamp": 3, "fmin": 2, "fmax": 2}  # with their numbers of arguments
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPENCL = {
    "get_local_id": "threadIdx",
    "get_group_id": "blockIdx",
    "get_local_size": "blockDim",
    "get_num_groups": "gridDim",
    "get_global_id": "globalIdx",
    "get_global_size": "blockDim gridDim",
}
MOST_DEPTH = 30  # nested brackets and names; an expression beyond is one atom


class Indices:
    """The indices in the body of a kernel.

    accesses: the indices of each array
    bounds: pairs of an index and the tokens of its limit, from `i < n` and `i >= n`
    guards: the tokens of the limits in `i >= n`, after which a thread returns
    limited: what is less or more than something, except where that only chooses a value
    compared: the other comparisons, as operator, left side and tokens of the right side
    others: arrays that are also used other than by an index
    aliases: for each array, its name and the local pointers into it
    loops: for each loop variable, its start and its steps
    offsets: offsets of pointers that are passed on, and whose accesses are unknown
    ambiguous: values of local names that are declared in several blocks and have another bound in each
    unsteady: local names with several values; a comparison of one need not bound the next
    remainders: dividend and divisor of each atom that is a remainder
    quotients: dividend and divisor of each atom that is a quotient
    lasts: the last values of loop variables that count from 0 by 1
    alternatives: the values between which each atom chooses that is a conditional expression
    clamped: the limits of each atom that is a minimum or is clamped, each one more than the largest value
    pitches: the sums by which rows are apart, as `width + 2`, by the atoms that stand for them in indices
    """

    def __init__(self, body: Sequence[str], arrays: Sequence[str], scalars: Sequence[str] = ()) -> None:
        names = {*arrays, *scalars}
        self._body, self._arrays = straight.renamed(scopes.renamed(with_extremes(body), names), names), set(arrays)
        local = LocalNames(self._body)
        self._defined, self.unsteady = local.values, local.unsteady
        self._known = dict[str, Polynomial]()  # values of local names
        self.remainders = dict[str, tuple[Polynomial, Polynomial]]()  # by atom
        self.quotients = dict[str, tuple[Polynomial, Polynomial]]()
        self.alternatives = dict[str, tuple[Polynomial, Polynomial]]()
        self.clamped = dict[str, list[Polynomial]]()
        self.accesses: dict[str, list[Polynomial]] = {name: [] for name in arrays}
        self.others = set[str]()
        self.offsets = list[Polynomial]()
        self._find_accesses()
        self.pitches = {
            written(sum_): sum_ for sum_ in pitches.sums(self._body, self._defined, scalars, self.polynomial)
        }
        self.accesses = {name: [*map(self._by_rows, each)] for name, each in self.accesses.items()}
        comparisons = Comparisons(self._body, self._arrays, self.polynomial)
        every = list(comparisons.found())
        self.limited = list(comparisons.limited())
        several = comparisons.names_of_several()
        self.ambiguous = [self.named(name, 0) for name in several if local.is_defined_again(name)]
        every = [(sign, self._by_rows(left), right) for sign, left, right in every]
        self.bounds = [(left, right) for sign, left, right in every if sign in BOUNDS]
        self.guards = {tuple(right) for sign, _, right in every if sign == ">="}
        self.compared = [each for each in every if each[0] not in BOUNDS]
        self.compared += [("<=", atom(name), start) for name, start in local.down.items()]
        self._join_remainders()
        self.loops = {
            name: (self.polynomial(start), [self.polynomial(step) for step in steps])
            for name, (start, steps) in local.loops.items()
        }
        self.lasts = dict(self._last_values())

    def _last_values(self) -> Iterator[tuple[str, Polynomial]]:
        whole = {name for name, (start, steps) in self.loops.items() if not any(start.values()) and steps == [{(): 1}]}
        for name in whole:
            lasts = [added(self.polynomial(right), {(): -1}) for left, right in self.bounds if left == {(name,): 1}]
            through = [right for sign, left, right in self.compared if sign == "<=" and left == {(name,): 1}]
            if len(lasts := [*lasts, *map(self.polynomial, through)]) == 1:
                yield name, lasts[0]

    def polynomial(self, words: Sequence[str], depth: int = 0) -> Polynomial:
        """The polynomial of an expression in tokens."""
        if depth < MOST_DEPTH:
            reader = Reader(self, words, depth)
            found = reader.shifted()
            if found is not None and reader.at == len(words) and is_short(found):
                return {product: factor for product, factor in found.items() if factor or not product}
            if parts := _alternatives(words):
                one, other = (self.polynomial(part, depth + 1) for part in parts)
                for index, instead in ((one, other), (other, one)):
                    if not any(instead.values()) and _is_of_threads(index):
                        return index  # threads outside take the first element
                name = f"({text(one)} or {text(other)})"
                self.alternatives[name] = one, other
                return atom(name)
        return atom(" ".join(words))

    def atoms(self) -> set[str]:
        """The thread and block indices that the body reads."""
        words = " ".join(self._body)
        found = {"".join(each) for each in re.findall(r"(threadIdx|blockIdx)( \. )([xyz])", words)}
        calls = re.findall(r"(get_\w+) \( ([012]) \)", words)
        found |= {f"{each} . {AXES[int(axis)]}" for name, axis in calls for each in _OPENCL.get(name, "").split()}
        return {name.replace(" ", "") for name in found}

    def named(self, name: str, depth: int) -> Polynomial:
        """The value of a local name that is assigned once; any other name is an atom."""
        if name not in self._defined:
            return atom(name)
        if name not in self._known:
            self._known[name] = atom(name)  # for uses within its own definition
            self._known[name] = self.polynomial(self._defined[name], depth)
        return self._known[name]

    def indexed(self, name: str, depth: int) -> Polynomial:
        """An element of an array, which is an atom."""
        return atom(name)

    def called(self, function: str, arguments: Sequence[str], depth: int) -> Polynomial | None:
        """The thread or block index that a function of OpenCL returns, a product, or what is clamped; None for any
        other call."""
        if function in _PRODUCTS:
            parts = [self.polynomial(each, depth) for each in split_arguments(arguments)]
            return times(*parts) if len(parts) == 2 and is_short(times(*parts)) else None
        if function.rpartition("::")[2] in _CLAMPS:
            parts = [self.polynomial(each, depth) for each in split_arguments(arguments)]
            return self._clamped(function.rpartition("::")[2], parts)
        names = _OPENCL.get(function, "").split()
        if not names or len(arguments) != 1 or arguments[0] not in "012":
            return None
        return {tuple(f"{name}.{AXES[int(arguments[0])]}" for name in names): 1}

    def _clamped(self, function: str, parts: Sequence[Polynomial]) -> Polynomial | None:
        """An atom for a minimum, a maximum or a clamped number, whose limits it notes."""
        if len(parts) != _CLAMPS[function]:
            return None
        first, *others = [[added(each, {(): 1}), *self.clamped.get(text(each), ())] for each in parts]
        if function.endswith("max"):  # with a number, usually 0, which every array reaches
            numbers = [set(each) <= {()} for each in parts]
            found = others[0] if numbers[0] else first if numbers[1] else []
        else:
            found = [*first, *others[-1]]
        name = f"{function}({', '.join(map(text, parts))})"
        self.clamped[name] = found
        return atom(name)

    @property
    def halves(self) -> Iterator[str]:
        """Each condition with a second half that uses arrays, too, as tokens and blanks: it bounds no threads."""
        names, body = {name for every in self.aliases.values() for name in every}, self._body
        for at in (at for at, word in enumerate(body) if word == "if" and body[at + 1 : at + 2] == ("(",)):
            opening = matching(body, at + 1) + 1
            end = end_of_statement(body, opening)
            if body[end : end + 1] == ("else",):
                other = body[end + 1 : end_of_statement(body, end + 1)]
                if any(word in names and after == "[" for word, after in itertools.pairwise(other)):
                    yield " ".join(body[at + 2 : opening])

    def is_atomic(self, name: str) -> bool:
        """Whether an atomic function changes an array."""
        names = "|".join(map(re.escape, sorted(self.aliases[name])))
        return re.search(rf"\batomic\w* \( (?:& )?(?:{names})\b", " ".join(self._body)) is not None

    def _join_remainders(self) -> None:
        """Write `i / n * n + i % n` as i in the indices of arrays, unless the kernel compares the quotient, alone or in
        a sum."""
        every = (*(left for left, _ in self.bounds), *(left for _, left, _ in self.compared))
        compared = {name for left in every for product in left if len(product) == 1 for name in product}
        whole = {name: parts for name, parts in self.quotients.items() if name not in compared}
        for name, polynomials in self.accesses.items():
            self.accesses[name] = [remainders.joined(each, self.remainders, whole) for each in polynomials]

    def is_flat(self, axis: str) -> bool:
        """Whether block indices along an axis only continue the numbers of those along x: `blockIdx.y * gridDim.x`."""
        words = " ".join(self._body)
        whole = re.findall(rf"\bblockIdx \. {axis} \* gridDim \. x\b|\bgridDim \. x \* blockIdx \. {axis}\b", words)
        return len(whole) == len(re.findall(rf"\bblockIdx \. {axis}\b", words)) > 0

    def locals(self) -> Iterator[Polynomial]:
        """The values of local names that are assigned once."""
        return (self._by_rows(self.named(name, 0)) for name in self._defined)

    def _by_rows(self, index: Polynomial) -> Polynomial:
        """An index with atoms for the sums by which rows are apart."""
        return pitches.factored(index, self.pitches)

    def _find_accesses(self) -> None:
        aliases = self._aliases()
        self.aliases: dict[str, set[str]] = {array: {array} for array in self._arrays}
        for name, (array, _) in aliases.items():
            self.aliases[array].add(scopes.plain(name))
        for position, word in enumerate(self._body):
            if is_member(self._body, position) or (word not in self._arrays and word not in aliases):
                continue
            array, offset = aliases.get(word, (word, {}))
            if self._body[position + 1 : position + 2] == ("[",):
                end = matching(self._body, position + 1)
                self.accesses[array].append(added(offset, self.polynomial(self._body[position + 2 : end])))
                is_moved = self._body[max(0, position - 2) : position] == ("=", "&")
                if self._body[end + 1 : end + 2] == ("[",) or (is_moved and not self._is_in_alias(position, aliases)):
                    self.others.add(array)
            elif self._is_first(position):
                self.accesses[array].append(offset)
            elif self._is_tested(position):
                continue
            elif self._body[position + 1 : position + 2] != ("=",) and not self._is_in_alias(position, aliases):
                self.others.add(array)
                self.offsets += self._pointer_offset(position, array)

    def _is_first(self, position: int) -> bool:
        """Whether the name at `position` means the first element, as in `*sum = 0` and `atomicAdd(sum, 1)`."""
        before, after = self._body[max(0, position - 2) : position], self._body[position + 1 : position + 2]
        is_atomic = before[1:] == ("(",) and before[0].startswith("atomic") and after == (",",)
        is_read = before[1:] == ("*",) and is_dereference(self._body, position - 1, position + 1)
        return is_atomic or (is_read and after not in (("+",), ("-",), ("[",), ("(",)))

    def _is_tested(self, position: int) -> bool:
        """Whether the name at `position` is only compared with null, as in `if (sums && i < n)`."""
        before, after = self._body[max(0, position - 2) : position], self._body[position + 1 : position + 4]
        is_whole = after[:1] == (")",) or after[:2] in (("&", "&"), ("|", "|"))
        is_null = after[:2] in (("=", "="), ("!", "=")) and after[2:] in (("NULL",), ("nullptr",), ("0",))
        starts = before[1:] == ("!",) or before in (("if", "("), ("&", "&"), ("|", "|"))
        return (is_whole and starts) or is_null

    def _pointer_offset(self, position: int, array: str) -> list[Polynomial]:
        """The offset of the pointer computed at `position`, as a list of at most one."""
        body, start, end = self._body, position, position
        while start > 0 and body[start - 1] not in (*OPERAND_ENDS, "("):
            start -= 1
        while end < len(body) and body[end] not in (*OPERAND_ENDS, ")"):
            end = (matching(body, end) if body[end] in "([" else end) + 1
        found = dict(self.polynomial(body[start:end]))
        return [found] if found.pop((array,), 0) == 1 and found else []

    def _aliases(self) -> dict[str, tuple[str, Polynomial]]:
        """The array that each local pointer points into, and its offset in elements; without unknown ones."""
        found = dict[str, tuple[str, Polynomial]]()
        while more := {n: a for n in self._defined if n not in found and (a := self._alias(n, found)) is not None}:
            found |= more
        return found

    def _alias(self, name: str, known: Mapping[str, tuple[str, Polynomial]]) -> tuple[str, Polynomial] | None:
        """The array that a local pointer points into, directly or by way of `known` ones, and its offset in elements;
        None if unknown."""
        words = self._defined[name]
        pointers = [word for word in words if word in self._arrays or word in known]
        if not pointers or re.search(r"\* \)|_cast < [^<>()]*\* >", " ".join(words)):
            return None  # a pointer cast changes the element type
        if words[0] == "&" and len(words) > 3 and words[2] == "[" and matching(words, 2) == len(words) - 1:
            array, offset = known.get(words[1], (words[1], dict[tuple[str, ...], int]()))
            return (array, added(offset, self.polynomial(words[3:-1]))) if words[1] == pointers[0] else None
        found = dict(self.polynomial(words))
        arrays = [array for array in self._arrays if found.get((array,)) == 1]
        if len(arrays) != 1:
            return None
        del found[(arrays[0],)]
        return arrays[0], found

    def _is_in_alias(self, position: int, aliases: Mapping[str, object]) -> bool:
        """Whether the array at `position` is used in the definition of a local pointer."""
        start = position
        while start > 0 and self._body[start - 1] not in (";", "{", "}", "="):
            start -= 1
        return start > 1 and self._body[start - 1] == "=" and self._body[start - 2] in aliases


def _is_of_threads(index: Polynomial) -> bool:
    """Whether an index depends on a thread or a block."""
    return any(name.startswith(tuple(_OPENCL.values())) for product in index for name in product)


def _alternatives(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]] | None:
    """The two values of an expression that is conditional as a whole, `a ? b : c`; None for any other."""
    at, depth, marks = 0, 0, list[tuple[int, str]]()
    while at < len(words):
        marks += [(at, words[at])] if words[at] in ("?", ":") else []
        at = (matching(words, at) if words[at] in "([{" else at) + 1
    first = next((at for at, mark in marks if mark == "?"), None)
    for at, mark in marks:
        depth += (mark == "?") - (mark == ":")
        if first is not None and mark == ":" and depth == 0:
            return words[first + 1 : at], words[at + 1 :]
    return None
