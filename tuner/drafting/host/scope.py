"""Reads expressions of host code at a position in a function, through its local variables and its callers.

A name that is assigned a number, or something that is no sum or product, stays a name: it may be a size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from tuner.drafting.expansion import split_arguments
from tuner.drafting.host.notes import Notes
from tuner.drafting.host.program import EXTENT_TYPES, HostFunction, HostProgram
from tuner.drafting.polynomials import Polynomial, atom, bare, is_short, times
from tuner.drafting.reader import Reader
from tuner.space.sources.prototype import is_type_word
from tuner.space.sources.tokens import matching

_CEIL_DIV = re.compile(r"(?i)\w*(?:ceil\w*div|div\w*ceil|div\w*up|up\w*div|cdiv)\w*")
_ROUND_UP = re.compile(r"(?i)\w*(?:round|multiple|align|pad)\w*")
_REMAINDER = re.compile(
    r"\(* ?(?P<dividend>[\w .]+?) % (?P<divisor>[\w .]+?)(?: (?:! =|= =|>) 0)?(?: \))*"
    r"(?: \? (?P<one>[^?:]+) : (?P<other>[^?:]+))?"
)
AXES = ("x", "y", "z")
MOST_DEPTH, MOST_CALLERS, MOST_CHAINS = 20, 4, 8
CHANGED = 1000  # added to the number of assignments, of variables whose addresses calls get after these


class HostScope:
    """A position in a function, which `caller` calls with the tokens `given`; None if that is unknown."""

    def __init__(
        self,
        program: HostProgram,
        notes: Notes,
        function: HostFunction,
        position: int,
        caller: HostScope | None = None,
        given: Sequence[Sequence[str]] = (),
    ) -> None:
        self.program, self.notes, self.function, self.position = program, notes, function, position
        self.caller = caller
        self.is_value = False  # whether the function only returns a value, which may differ from call to call
        self.given: Mapping[str, Sequence[str]] = dict(zip(function.parameters, given, strict=False))
        self.remainders, self.quotients = dict[str, tuple[Polynomial, Polynomial]](), notes.quotients

    def at(self, position: int) -> HostScope:
        """The same call of the function, at another position."""
        found = HostScope(self.program, self.notes, self.function, position, self.caller)
        found.given, found.is_value = self.given, self.is_value
        return found

    def polynomial(self, words: Sequence[str], depth: int = 0) -> Polynomial:
        """The polynomial of an expression in tokens."""
        if depth < MOST_DEPTH:
            reader = Reader(self, words, depth)
            found = reader.shifted()
            if found is not None and reader.at == len(words) and is_short(found):
                return self.notes.rounded({product: factor for product, factor in found.items() if factor})
            if (found := self._rounded_by_remainder(words, depth)) is not None:
                return found
        return atom(" ".join(words))

    def named(self, name: str, depth: int) -> Polynomial:
        """The value of a name at this position."""
        base, _, member = name.partition(".")
        is_local = self.function.declares(base)
        if base in self.given and not is_local and self.caller is not None:
            return self._of_caller(name, base, member, depth)
        if base not in self.function.parameters and not is_local and not self._is_dim3_of_file(base):
            return self._of_file(name, depth)
        is_dim3 = self.function.is_dim3(base) or "dim3" in self.function.parameters.get(base, ())
        if member in AXES and (is_dim3 or self._is_dim3_of_file(base)):
            if (extents := self.extents([base])) is None:
                return atom(f"{name} is unclear")
            padded: list[Polynomial] = [*extents, {(): 1}, {(): 1}]
            return padded[AXES.index(member)]
        assignment, count = self.function.last(name, self.position)
        if self.function is self.program.file and len(self.function.assignments.get(name, ())) == 1:
            count = 0  # as functions name it
        own = f"{self.function.name}:{name}#{count}" if member or self.function.is_whole(base) else f"{name} is no size"
        if assignment is None or not self.function.is_certain(assignment, self.position):
            return atom(own)
        if self.function.is_passed_by_address(name, assignment.position, self.position):
            return atom(f"{self.function.name}:{name}#{CHANGED + count}")  # a call may write it
        return self._expanded(own, assignment.words, self.at(assignment.position), depth)

    def indexed(self, name: str, depth: int) -> Polynomial:
        """The value of an element of an array that is assigned before this position."""
        assignment, _ = self.function.last(name, self.position)
        array, _, index = name.removesuffix("]").partition("[")
        if assignment is None:
            assignment, _ = self.function.last(array, self.position)
            every = split_arguments(assignment.words[1:-1]) if assignment and assignment.words[:1] == ("{",) else []
            words: Sequence[str] = every[int(index)] if index.isdecimal() and int(index) < len(every) else ()
        else:
            words = assignment.words
        if assignment is None or not words or not self.function.is_certain(assignment, self.position):
            return atom(name)
        if self.function.is_passed(array, assignment.position + 1, self.position):
            return atom(name)  # a call may write it
        found = self.at(assignment.position).polynomial(words, depth + 1)
        return found if self.notes.is_clear(found) else atom(name)

    def extents(self, words: Sequence[str]) -> list[Polynomial] | None:
        """The extents in x, y, z of a grid or block: a number or a dim3; None if they are unclear."""
        if len(words) > 1 and words[0] in EXTENT_TYPES:
            words = words[1:]
        if len(words) > 1 and words[0] in "({" and matching(words, 0) == len(words) - 1:
            return [self.polynomial(part) for part in split_arguments(words[1:-1]) if part]
        if len(words) != 1 or not words[0].isidentifier():
            return [self.polynomial(words)] if words else None
        (name,) = words
        if self.caller is not None and name in self.given and not self.function.declares(name):
            return self.caller.extents(self.given[name])
        if self._is_dim3_of_file(name):
            return self._dim3_of_file(name)
        return self._dim3(name) if self.function.is_dim3(name) else [self.polynomial(words)]

    @property
    def _outside(self) -> HostScope:
        """The end of the file, where all its variables are known."""
        return HostScope(self.program, self.notes, self.program.file, len(self.program.file.body))

    def _is_dim3_of_file(self, name: str) -> bool:
        """Whether a name is a dim3 that the file declares, and not this function."""
        is_local = self.function.declares(name) or name in self.function.parameters
        return not is_local and self.function is not self.program.file and self.program.file.is_dim3(name)

    def _dim3_of_file(self, name: str) -> list[Polynomial] | None:
        """The extents of a variable of the file of the type dim3."""
        if not self.program.is_assigned(name):
            return self._outside._dim3(name)
        scope, words = self._assigned_outside(name) or (self, ())
        return scope.extents(words) if words else None

    def _dim3(self, name: str) -> list[Polynomial] | None:
        """The extents of a variable of the type dim3, which may be assigned one by one."""
        assignment, _ = self.function.last(name, self.position)
        found = list[Polynomial]()
        if assignment is not None:
            if not self.function.is_certain(assignment, self.position) or not assignment.words:
                return None
            found = self.at(assignment.position).extents(assignment.words) or []
        for axis, letter in enumerate(AXES):
            member, _ = self.function.last(f"{name}.{letter}", self.position)
            if member is not None:
                if not member.words or not self.function.is_certain(member, self.position):
                    return None
                found += [{(): 1}] * (axis + 1 - len(found))
                found[axis] = self.at(member.position).polynomial(member.words)
        return found or None

    def called(self, function: str, arguments: Sequence[str], depth: int) -> Polynomial | None:
        """The value of a call that rounds up, converts, limits, or only returns an expression; None for any other."""
        given = split_arguments(arguments)
        if len(given) == 2 and _CEIL_DIV.fullmatch(function):
            return self.notes.ceiling(self.polynomial(given[0], depth), self.polynomial(given[1], depth))
        if len(given) == 2 and (rounded := self._multiple(function, given, depth)) is not None:
            return rounded
        if function == "sizeof" and len(arguments) == 1 and arguments[0].isidentifier():
            return self._bytes_of(arguments[0])
        if function == "sizeof" and (pointer := _dereferenced(arguments)) and self.function.declares(pointer):
            return atom(f"sizeof ( {self.function.type_of(pointer)} )")
        if function.endswith(".size") and given == [[]]:
            return self._length(function.removesuffix(".size"))
        if function.endswith((".size", ".numel")):
            return self._of_tensor(function, given)
        if function == "min" and (len(given) == 2 or arguments[:1] in (["{"], ("{",))):
            limits = given if len(given) == 2 else split_arguments(arguments[1:-1])
            parts = [self.polynomial(part, depth) for part in limits]
            known = [part for part in parts if bare(part) and self.notes.is_clear(part)]
            return known[0] if len(known) == 1 else None  # the other is a limit of the device
        if len(given) == 1 and (function in ("ceil", "ceilf") or is_type_word(function)):
            part = self.polynomial(given[0], depth)
            return part if is_type_word(function) else self._rounded_up(given[0], part)
        return self._returned(function, given, depth)

    def _rounded_up(self, words: Sequence[str], part: Polynomial) -> Polynomial | None:
        """The value of ceil() of an expression whose value is `part`; None if that is no quotient."""
        parts = self.notes.quotient(part)
        if parts is None or not any(map(self._is_real, words)):
            return part if parts is not None else None  # integers are divided before
        dividend, divisor = parts
        while (inner := self.notes.quotient(dividend)) is not None:
            if not self._is_real_throughout(words):
                return None
            dividend, divisor = inner[0], times(divisor, inner[1])
        return self.notes.ceiling(dividend, divisor)

    def _is_real(self, word: str) -> bool:
        is_real = word in ("float", "double") or re.fullmatch(r"\d*\.\d*[fF]?", word) is not None
        return is_real or (word.isidentifier() and not self.function.is_whole(word))

    def _is_real_throughout(self, words: Sequence[str]) -> bool:
        """Whether no two integers are divided: a real number is before or in each quotient in brackets."""
        groups = [words[at : matching(words, at)] for at, word in enumerate(words) if word == "("]
        first = words[: words.index("/") + 2] if "/" in words else ()
        return all(any(map(self._is_real, group)) for group in [*(g for g in groups if "/" in g), first])

    def _multiple(self, name: str, given: Sequence[Sequence[str]], depth: int) -> Polynomial | None:
        """The value of a function that rounds one argument up to a multiple of the other; None if it is none."""
        found = [each for each in self.program.functions if each.name == name and len(each.parameters) == len(given)]
        body = " ".join(found[0].body) if len(found) == 1 and _ROUND_UP.fullmatch(name) else ""
        of_name = dict(zip(found[0].parameters, given, strict=True)) if body else {}
        for dividend, divisor in re.findall(r"(\w+) % (\w+)", body):
            if {dividend, divisor} == {*of_name}:
                parts = [self.polynomial(of_name[each], depth) for each in (dividend, divisor)]
                return times(self.notes.ceiling(*parts), parts[1])
        return None

    def _bytes_of(self, name: str) -> Polynomial | None:
        """The bytes of an array of the host; None if there is no array of this name."""
        for function in (self.function, self.program.file):
            at = function.body.index(name) + 1 if function.declares(name) else 0
            if at and function.body[at : at + 1] == ("[",):
                total = atom(f"sizeof ( {function.type_of(name)} )")
                while function.body[at : at + 1] == ("[",):
                    end = matching(function.body, at)
                    total = times(total, self.polynomial(function.body[at + 1 : end]))
                    at = end + 1
                return total
        return None

    def _length(self, name: str) -> Polynomial | None:
        """The number of elements with which a vector is declared, also by a caller; None if it is unknown."""
        if self.caller is not None and name in self.given and not self.function.declares(name):
            given = self.given[name]
            return self.caller._length(given[0]) if len(given) == 1 else None
        declared, _ = self.function.last(name, self.position)
        if declared is None or declared.words[:1] != ("(",) or self.function.body[declared.position - 1] != ">":
            return None
        return self.at(declared.position).polynomial(split_arguments(declared.words[1:-1])[0])

    def _of_tensor(self, function: str, given: Sequence[Sequence[str]]) -> Polynomial | None:
        """What `x.size(1)` or `x.numel()` of a tensor stands for: the variable that it is assigned to, if there is one;
        None for any other call."""
        name, _, method = function.rpartition(".")
        words = [each for argument in given for each in argument]
        is_axis = method == "size" and len(words) == 1 and words[0].isdecimal()
        if not name.isidentifier() or not (is_axis or (method == "numel" and not words)):
            return None
        asked = " ".join([name, ".", method, "(", *words, ")"])
        for variable, assigned in self.function.assignments.items():
            whole = _without_conversion(assigned[0].words) if len(assigned) == 1 else ()
            if variable.isidentifier() and " ".join(whole) == asked:
                return atom(f"{self.function.name}:{variable}#1")
        return atom(f"{self.function.name}:{name}_{words[0] if words else 'elements'}#0")

    def _returned(self, name: str, given: Sequence[Sequence[str]], depth: int) -> Polynomial | None:
        """What a function returns whose body has one return; None if that is no expression of names."""
        found = [each for each in self.program.functions if each.name == name and len(each.parameters) == len(given)]
        if len(found) != 1 or found[0].body.count("return") != 1 or depth >= MOST_DEPTH:
            return None
        body, start = found[0].body, found[0].body.index("return")
        end = next((at for at in range(start, len(body)) if body[at] == ";"), len(body))
        inside = HostScope(self.program, self.notes, found[0], start, self, given)
        inside.is_value = True
        value = inside.polynomial(body[start + 1 : end], depth + 1)
        return value if self.notes.is_clear(value) and not inside.is_own(value) else None

    def is_own(self, value: Polynomial) -> bool:
        """Whether a value has variables of this function, which differ from call to call."""
        names = {name for product in value for name in product}
        parts = [part for name in names for part in (*self.notes.ceilings.get(name, ()), *self.quotients.get(name, ()))]
        own = {name for name in names if name.startswith(f"{self.function.name}:") and self.function.name}
        return bool(own - self.notes.numbers.keys()) or any(map(self.is_own, parts))

    def _of_caller(self, name: str, base: str, member: str, depth: int) -> Polynomial:
        """The value of a parameter, or of a member of one, in the calling function."""
        given, own = self.given[base], f"{self.function.name}:{name}#0"
        assert self.caller is not None
        if self.function.last(name, self.position)[1]:
            return atom(f"{self.function.name}:{name}#{self.function.last(name, self.position)[1]}")
        plain = [word for word in given if word not in "&*"] if member else given
        if self.is_value and set(value := self.caller.polynomial(plain, depth + 1)) <= {()}:
            return value
        return self._expanded(own, [*plain, *([".", member] if member else [])], self.caller, depth)

    def _of_file(self, name: str, depth: int) -> Polynomial:
        """The value of a macro, or of a variable outside the function."""
        own = f":{name}#0"
        if name in self.program.numbers:
            self.notes.numbers[own] = self.program.numbers[name]
            return atom(own)
        if name in self.program.sums:
            outside = HostScope(self.program, self.notes, self.program.file, 0)
            return self._expanded(own, self.program.sums[name], outside, depth)
        if (found := self._assigned_outside(name)) is not None:
            scope, assigned_words = found
            return self._expanded(own, assigned_words, scope, depth)
        base, _, member = name.partition(".")  # of a struct that is assigned as a whole: `config_ = config`
        if member and (whole := self._assigned_outside(base)) is not None and len(whole[1]) == 1:
            return self._expanded(own, [*whole[1], ".", member], whole[0], depth)
        assigned = self.program.file.assignments.get(name, [])
        if len(assigned) != 1 or self.function is self.program.file or self.program.is_assigned(name):
            return atom(own)
        scope = HostScope(self.program, self.notes, self.program.file, assigned[0].position)
        return self._expanded(own, assigned[0].words, scope, depth)

    def _assigned_outside(self, name: str) -> tuple[HostScope, Sequence[str]] | None:
        """What a variable outside of the function gets, where only one function assigns to it; None if that may be
        anything else."""
        function = self.program.only_assigner(name) if self.function is not self.program.file else None
        if function is None:
            return None
        is_own = function is self.function
        assignment, count = function.last(name, self.position if is_own else len(function.body))
        if assignment is None or not (is_own or count == 1):
            return None
        end = self.position if is_own else len(function.body)
        scope = (
            self.at(assignment.position)
            if is_own
            else HostScope(self.program, self.notes, function, assignment.position)
        )
        return (scope, assignment.words) if assignment.words and function.is_certain(assignment, end) else None

    def _expanded(self, own: str, words: Sequence[str], scope: HostScope, depth: int) -> Polynomial:
        """The value of a name by its definition, if that consists of other names; else the name."""
        if not words or depth >= MOST_DEPTH:
            return atom(own)
        found = scope.polynomial(words, depth + 1)
        if set(found) <= {()}:
            self.notes.numbers[own] = found.get((), 0)
            return atom(own)
        if not self.notes.is_clear(found):
            return atom(own)
        if len(found) == 1 and (number := self.notes.number(found)) is not None:
            self.notes.numbers.setdefault(own, number)
        return found

    def _rounded_by_remainder(self, words: Sequence[str], depth: int) -> Polynomial | None:
        """A quotient that a condition on its remainder rounds up: n % b ? n / b + 1 : n / b.

        Of n / b + (n % b != 0), the second part is an atom, which `rounded` sees.
        """
        match = _REMAINDER.fullmatch(" ".join(words))
        if match is None:
            return None
        dividend, divisor = (self.polynomial(match[name].split(), depth + 1) for name in ("dividend", "divisor"))
        one: Polynomial = {(): 1}
        other: Polynomial = {}
        if match["one"] is not None:
            one, other = (self.polynomial(match[name].split(), depth + 1) for name in ("one", "other"))
        return self.notes.rounded_by_choice(dividend, divisor, one, other)


def number_of(program: HostProgram, name: str) -> int | None:
    """The number of a macro or constant; None if it is none."""
    notes = Notes()
    found = HostScope(program, notes, program.file, len(program.file.body)).named(name, 0)
    numbers = [factor * math.prod(notes.numbers.get(each, 0) for each in product) for product, factor in found.items()]
    is_known = all(each in notes.numbers for product in found for each in product)
    return sum(numbers) if is_known else None


def _without_conversion(words: Sequence[str]) -> Sequence[str]:
    """An expression without a conversion around it: `x.size(0)` of `(int)x.size(0)`."""
    opening = words.index("(") if "(" in words else len(words)
    if words[:2] == ("static_cast", "<") and matching(words, opening) == len(words) - 1:
        return words[opening + 1 : -1]
    end = matching(words, 0) if opening == 0 else -1
    return words[end + 1 :] if end < len(words) - 1 else words


def chains(
    program: HostProgram, notes: Notes, function: HostFunction, position: int, depth: int = 0
) -> Iterator[HostScope]:
    """The scopes of a position: one for each chain of calls that leads to it, up to a limit."""
    count = 0
    for caller, at, given in program.callers(function) if depth < MOST_CALLERS else ():
        for outer in chains(program, notes, caller, at, depth + 1):
            if count == MOST_CHAINS:
                return  # a name such as `get` may have thousands
            count += 1
            yield HostScope(program, notes, function, position, outer, given)
    if not count:
        yield HostScope(program, notes, function, position)


def _dereferenced(words: Sequence[str]) -> str:
    """The pointer whose element an expression is, as in `*x` and `x[0]`; empty if it is anything else."""
    name = words[1] if len(words) == 2 and words[0] == "*" else words[0] if tuple(words[1:]) == ("[", "0", "]") else ""
    return name if name.isidentifier() else ""
