"""Reads the array indices and the comparisons in a kernel's tokens, each as a polynomial.

Local variables that are assigned once are replaced by their values. An expression that is no sum or product, such as
`idx % cols`, is an atom. OpenCL functions are named as in CUDA: get_local_id(0) is `threadIdx.x`. There is no C parser.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from tuner.drafting.arrays import loops, remainders, scopes, straight
from tuner.drafting.expansion import split_arguments
from tuner.drafting.polynomials import Polynomial, added, atom, bare, is_short, text, times
from tuner.drafting.reader import Reader
from tuner.space.sources.tokens import matching

AXES = "xyz"
_PRODUCTS = ("__mul24", "__umul24", "mul24")  # of two small numbers
_CLAMPS = {"min": 2, "max": 2, "clamp": 3}  # with their numbers of arguments
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPENCL = {
    "get_local_id": "threadIdx",
    "get_group_id": "blockIdx",
    "get_local_size": "blockDim",
    "get_num_groups": "gridDim",
    "get_global_id": "globalIdx",
}
_ENDS = (";", "{", "}", ",", "?", ":", "&", "|", "=", "return")  # tokens that end an operand of a comparison
_BEFORE_A_STAR = tuple(";{}(=+-*/,&|?:<>")  # then the star is a dereference, not a product or a declaration
_BOUNDS = ("<", ">=")  # `i < n`, and `i >= n` before a return
_CHANGE = re.compile(r"[-+*/%&|^]=|--|\+\+|<<=|>>=")
_LEAVES = {"return", "continue", "break", "goto", "exit"}
MOST_DEPTH = 30  # nested brackets and names; an expression beyond is one atom


class Indices:
    """The indices in the body of a kernel.

    accesses: the indices of each array
    bounds: pairs of an index and the tokens of its limit, from `i < n` and `i >= n`
    guards: the tokens of the limits in `i >= n`, after which a thread returns
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
    """

    def __init__(self, body: Sequence[str], arrays: Sequence[str], scalars: Sequence[str] = ()) -> None:
        names = {*arrays, *scalars}
        self._body, self._arrays = straight.renamed(scopes.renamed(body, names), names), set(arrays)
        self._loops = dict[str, tuple[Sequence[str], list[Sequence[str]]]]()
        self.unsteady, self._repeated = set[str](), set[str]()
        self._defined = dict(self._definitions())
        self._known = dict[str, Polynomial]()  # values of local names
        self.remainders = dict[str, tuple[Polynomial, Polynomial]]()  # by atom
        self.quotients = dict[str, tuple[Polynomial, Polynomial]]()
        self.alternatives = dict[str, tuple[Polynomial, Polynomial]]()
        self.clamped = dict[str, list[Polynomial]]()
        self.accesses: dict[str, list[Polynomial]] = {name: [] for name in arrays}
        self.others = set[str]()
        self.offsets = list[Polynomial]()
        self._find_accesses()
        every = list(self._comparisons())
        self.ambiguous = self._compared_as_several()
        self.bounds = [(left, right) for sign, left, right in every if sign in _BOUNDS]
        self.guards = {tuple(right) for sign, _, right in every if sign == ">="}
        self.compared = [each for each in every if each[0] not in _BOUNDS]
        self._join_remainders()
        self.loops = {
            name: (self.polynomial(start), [self.polynomial(step) for step in steps])
            for name, (start, steps) in self._loops.items()
        }
        self.lasts = dict(self._last_values())

    def _last_values(self) -> Iterator[tuple[str, Polynomial]]:
        whole = {name for name, (start, steps) in self.loops.items() if not any(start.values()) and steps == [{(): 1}]}
        for name in whole:
            limits = [right for left, right in self.bounds if left == {(name,): 1}]
            if len(limits) == 1:
                yield name, added(self.polynomial(limits[0]), {(): -1})

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
        found |= {f"{_OPENCL[name]} . {AXES[int(axis)]}" for name, axis in calls if name in _OPENCL}
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
        if function not in _OPENCL or len(arguments) != 1 or arguments[0] not in "012":
            return None
        return atom(f"{_OPENCL[function]}.{AXES[int(arguments[0])]}")

    def _clamped(self, function: str, parts: Sequence[Polynomial]) -> Polynomial | None:
        """An atom for a minimum, a maximum or a clamped number, whose limits it notes."""
        if len(parts) != _CLAMPS[function]:
            return None
        first, *others = [[added(each, {(): 1}), *self.clamped.get(text(each), ())] for each in parts]
        if function == "max":  # with a number, usually 0, which every array reaches
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
            end = _end_of_statement(body, opening)
            if body[end : end + 1] == ("else",):
                other = body[end + 1 : _end_of_statement(body, end + 1)]
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
        return (self.named(name, 0) for name in self._defined)

    def _definitions(self) -> Iterator[tuple[str, Sequence[str]]]:
        body, found, changed = self._body, dict[str, list[Sequence[str]]](), set[str]()
        steps, repeated = dict[str, list[Sequence[str]]](), loops.repeated(body)
        for position, word in enumerate(body):
            if not _NAME.fullmatch(word) or self._is_member(position) or self._is_store(position):
                continue
            before, after = "".join(body[max(0, position - 2) : position]), "".join(body[position + 1 : position + 3])
            if after[:1] == "=" and after != "==":
                found.setdefault(word, []).append(self._assigned(position + 2))
            elif (after in ("+=", "++") or before == "++") and repeated[position]:
                steps.setdefault(word, []).append(self._assigned(position + 3) if after == "+=" else ("1",))
            elif _CHANGE.fullmatch(after + "=" * self._is_shifted(position)) or before in ("--", "++"):
                changed.add(word)
                if "+" in after[:1] + before[:1]:
                    self.unsteady.add(word)  # once, in a block
        for name, (words, *more) in found.items():
            if name in changed or any(each != words for each in more):
                if any((each[0], each[1:2]) != (name, ("+",)) for each in more):
                    self.unsteady.add(name)
                continue
            if name in steps:
                self._loops[name] = words, list(dict.fromkeys(map(tuple, steps[name])))
            elif not more and name not in words[:1]:
                yield name, words

    def _compared_as_several(self) -> list[Polynomial]:
        body, limits = self._body, dict[str, set[str]]()
        for position, word in enumerate(body):
            is_less = body[position + 1 : position + 2] == ("<",) and body[position + 2] not in "<="
            if _NAME.fullmatch(word) and is_less and not self._is_member(position):
                limit = self.polynomial(self._compared(position + 2, 1))
                limits.setdefault(word, set()).add(text(bare(limit)))
        several = [name for name, each in limits.items() if len(each) > 1]
        return [self.named(name, 0) for name in several if self._is_defined_again(name)]

    def _is_defined_again(self, name: str) -> bool:
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

    def _is_member(self, position: int) -> bool:
        return position > 0 and self._body[position - 1] == "."

    def _find_accesses(self) -> None:
        aliases = self._aliases()
        self.aliases: dict[str, set[str]] = {array: {array} for array in self._arrays}
        for name, (array, _) in aliases.items():
            self.aliases[array].add(scopes.plain(name))
        for position, word in enumerate(self._body):
            if self._is_member(position) or (word not in self._arrays and word not in aliases):
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
        is_read = before[1:] == ("*",) and (before[0] in _BEFORE_A_STAR or before[0] == "return")
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
        while start > 0 and body[start - 1] not in (*_ENDS, "("):
            start -= 1
        while end < len(body) and body[end] not in (*_ENDS, ")"):
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
        if not pointers or re.search(r"\* \)|_cast <", " ".join(words)):
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

    def _comparisons(self) -> Iterator[tuple[str, Polynomial, Sequence[str]]]:
        """The comparisons: operator, left side, and tokens of the right side."""
        body = self._body
        for position in range(1, len(body) - 1):
            if body[position : position + 2] == (">", ">") and (bits := self._shifted_out(position)):
                yield ">=", *bits
                continue
            sign = body[position] + ("=" if body[position + 1] == "=" else "")
            is_other = body[position + 1] in "<>" or body[position - 1] in "<>-=!+*/%&|^"  # a shift, an arrow, a store
            if sign in (*_BOUNDS, "<=", ">", "==", "!=") and not is_other:
                left, right = self._compared(position - 1, -1), self._compared(position + len(sign), 1)
                if self._chooses(left, right, position + len(sign) + len(right)):
                    continue
                if left and right and (sign != ">=" or self._leaves(position)):
                    smaller = self.polynomial(left)
                    if sign in _BOUNDS and self._is_of_part(sign, left, position):
                        continue
                    if sign == "<" and _is_of_blocks(smaller) and self._has_alternative(position):
                        continue  # blocks beyond do something else
                    yield from ((sign, smaller, each) for each in (_limits(right) if sign in _BOUNDS else [right]))

    def _shifted_out(self, position: int) -> tuple[Polynomial, Sequence[str]] | None:
        """The index and the limit of `if (i >> bits) return;`; None if the shift at a position is no such condition."""
        body = self._body
        left, right = self._compared(position - 1, -1), self._compared(position + 2, 1)
        first, last = position - len(left), position + 2 + len(right)
        is_whole = body[first - 2 : first] == ("if", "(") and body[last : last + 1] == (")",)
        if not is_whole or len(right) != 1 or not _NAME.fullmatch(right[0]) or not self._leaves(position):
            return None
        return self.polynomial(left), ("1", "<", "<", *right)

    def _chooses(self, left: Sequence[str], right: Sequence[str], at: int) -> bool:
        """Whether a comparison that ends at `at` chooses the larger or smaller one of its sides: `a > b ? a : b`."""
        while self._body[at : at + 1] == (")",):
            at += 1
        first = self._compared(at + 1, 1) if self._body[at : at + 1] == ("?",) else ()
        colon = at + 1 + len(first)
        second = self._compared(colon + 1, 1) if first and self._body[colon : colon + 1] == (":",) else ()
        return bool(second) and {*map(_bare, (first, second))} == {*map(_bare, (left, right))}

    def _leaves(self, position: int) -> bool:
        """Whether what a condition at a position guards leaves the kernel or a loop, or is an alternative."""
        after, end = self._guarded(position)
        is_if = end > 0  # else a loop's condition, or a value
        return not is_if or not _LEAVES.isdisjoint(self._body[after:end]) or self._has_alternative(position)

    def _has_alternative(self, position: int) -> bool:
        """Whether an `else` follows what a condition at a position guards."""
        _, end = self._guarded(position)
        return end > 0 and self._body[end + 1 : end + 2] == ("else",)

    def _is_of_part(self, sign: str, left: Sequence[str], position: int) -> bool:
        """Whether the comparison of an `if` bounds nothing: another part of its condition may decide, or arrays are
        indexed by what is compared, on the left, also where it is beyond."""
        body, (after, end) = self._body, self._guarded(position)
        if not end:
            return False
        other, at = ("|", "|") if sign == "<" else ("&", "&"), position
        while at > 0 and body[at] != "if":
            if body[at] == "(" and matching(body, at) > position and self._joins(at, other):
                return True
            at -= 1
        if sign == "<":  # then what is beyond is in the `else`
            after = end = end + 1
            while body[end : end + 1] == ("else",):
                end = _end_of_statement(body, end + 1)
        pairs = zip(("", *left), left, strict=False)
        names = {word for before, word in pairs if _NAME.fullmatch(word) and before != "."}
        opened = (at + 1 for at in range(after, end) if body[at] in self._arrays and body[at + 1 : at + 2] == ("[",))
        return any(not names.isdisjoint(body[at : matching(body, at)]) for at in opened)

    def _joins(self, opening: int, operator: tuple[str, str]) -> bool:
        """Whether the expression in brackets has an operator, outside of brackets in it."""
        at, end = opening + 1, matching(self._body, opening)
        while at < end:
            if self._body[at : at + 2] == operator:
                return True
            at = (matching(self._body, at) if self._body[at] in "([" else at) + 1
        return False

    def _guarded(self, position: int) -> tuple[int, int]:
        """Where the statements begin and end that the `if` around a position guards; zeros if there is no `if`."""
        body, start = self._body, position
        while start > 0 and body[start] not in (";", "{", "}") and body[start - 1 : start + 1] != ("if", "("):
            start -= 1
        if body[start - 1 : start + 1] != ("if", "("):
            return 0, 0
        after = matching(body, start) + 1
        end = matching(body, after) if body[after : after + 1] == ("{",) else after
        while end < len(body) and body[end] not in (";", "}"):
            end += 1
        return after, end

    def _compared(self, at: int, step: int) -> Sequence[str]:
        """The tokens on one side of a comparison; `step` is -1 for the left and 1 for the right."""
        body, depth, end = self._body, 0, at
        while 0 <= end < len(body):
            word = body[end]
            depth += (word in "([") - (word in ")]") if step > 0 else (word in ")]") - (word in "([")
            if depth < 0 or (depth == 0 and word in _ENDS):
                break
            end += step
        return body[at:end] if step > 0 else body[end + 1 : at + 1]


def _is_of_blocks(index: Polynomial) -> bool:
    """Whether an index is that of a block alone, without threads."""
    return bare(index).keys() <= {(f"blockIdx.{axis}",) for axis in AXES} and bool(bare(index))


def _bare(words: Sequence[str]) -> tuple[str, ...]:
    """An expression without brackets around it."""
    while len(words) > 2 and words[0] == "(" and matching(words, 0) == len(words) - 1:
        words = words[1:-1]
    return tuple(words)


def _limits(words: Sequence[str]) -> list[Sequence[str]]:
    """The upper limits that an expression implies: a and b for min(a, b), else the expression itself."""
    words = _bare(words)
    start = 2 if tuple(words[:2]) == ("std", "::") else 0
    if tuple(words[start : start + 2]) != ("min", "(") or matching(words, start + 1) != len(words) - 1:
        return [words]
    parts, depth = [list[str]()], 0
    for word in words[start + 2 : -1]:
        depth += (word in "([{") - (word in ")]}")
        parts.append([]) if word == "," and not depth else parts[-1].append(word)
    return [*parts]


def _end_of_statement(body: Sequence[str], at: int) -> int:
    """The position after a statement, which may be a block."""
    while at < len(body) and body[at] not in (";", "{"):
        at = matching(body, at) + 1
    return (matching(body, at) if body[at : at + 1] == ("{",) else at) + 1


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
