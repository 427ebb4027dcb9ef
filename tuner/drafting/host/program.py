"""The functions of host code, as tokens, with what they assign and which functions call them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from tuner.classes import cached_property, dataclass
from tuner.drafting.expansion import expanded, split_arguments
from tuner.drafting.host.texts import as_built
from tuner.drafting.knobs import proposals, singly
from tuner.space.sources.preprocessor import without
from tuner.space.sources.prototype import is_type_word
from tuner.space.sources.tokens import definitions, matching, split, words

_NAME = re.compile(r"[A-Za-z_]\w*")
_REAL = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d*\.\d*(?:[eE][-+]?\d+)?[fF]?)\)?[ \t]*$", re.MULTILINE)
_SUM = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\([\w \t()*+<>/-]+\)|[\w \t()]+[*+</-][\w \t()*+<>/-]+)$", re.MULTILINE
)
_FLAG = re.compile(r"^[ \t]*#[ \t]*(?:ifdef[ \t]+|(?:el)?if[ \t]+defined[ \t(]*)([A-Za-z]\w*)", re.MULTILINE)
_COMPUTED = re.compile(  # a size that is written as a product or shift, which is known by its name
    r"^[ \t]*(?:(?:static|inline|const|constexpr)\s+)+(?:unsigned\s+)?(?:int|unsigned|size_t|auto)\s+\w+"
    r"\s*=(?:[^;{}=\nA-Za-z_]|(?<=\d)[uUlL])+;",
    re.MULTILINE,
)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_OF_DEVICES = {"__global__", "__device__", "__kernel", "kernel"}
_CHANGES = re.compile(r"[-+*/%&|^]=|\+\+|--|<<=|>>=")
_IN_HEADER = ("(", ")", "else")  # tokens before an assignment that belongs to a loop or a condition
_BEFORE_A_TYPE = (";", "{", "}", "const", "static", "struct", "unsigned", "volatile", "extern")
_NOT_WHOLE = {"*", "&", "auto", "float", "double", "half", "char", "string", "vector"}
EXTENT_TYPES = ("dim3", "NDRange")
_READERS = re.compile(
    r"clSetKernelArg\w*|clEnqueue(?:NDRangeKernel|Write\w+)|setArg|(?:cuda|hip)MemcpyToSymbol\w*|printf"
)
_NO_TYPE = {"return", "else", "case", "goto", "new", "delete", "throw", "in"}


@dataclass(frozen=True)
class HostAssignment:
    """An assignment in a function: where it is, and the assigned tokens (empty if they depend on the old value)."""

    position: int
    words: tuple[str, ...]
    is_conditional: bool = False


@dataclass(frozen=True, eq=False)
class HostFunction:
    """A function of host code: its parameters with their tokens, and the tokens of its body. The one without a name is
    the file. `is_device`: it is marked for the device, perhaps also for the host, or belongs to a kernel in C."""

    name: str
    parameters: Mapping[str, tuple[str, ...]]
    body: tuple[str, ...]
    depths: tuple[int, ...] = field(repr=False, default=())
    is_device: bool = False

    @cached_property
    def assignments(self) -> dict[str, list[HostAssignment]]:
        """The assignments to each name or member, such as `n` and `p.n`, in order."""
        found = defaultdict[str, list[HostAssignment]](list)
        for at, word in enumerate(self.body):
            after = self.body[at + 1 : at + 4]
            if not _NAME.fullmatch(word) or not after or after[:1] == (".",):
                continue
            if after[0] == "[":
                self._note_element(found, at)
            elif after[0] == "=" and after[1:2] != ("=",) and at in self._steps:
                found[self.path(at)].append(HostAssignment(at, ()))
            elif after[0] == "=" and after[1:2] != ("=",):
                conditional = self._start(at) in _IN_HEADER and not self._is_declared(at)
                found[self.path(at)].append(HostAssignment(at, self._assigned(at + 2), conditional))
            elif _CHANGES.match("".join(after)) or self.body[max(0, at - 2) : at] in (("+", "+"), ("-", "-")):
                found[self.path(at)].append(HostAssignment(at, ()))
            elif after[0] in "({" and (
                self._is_declared(at) or (self.body[at - 1] == "," and self.is_dim3(word))
            ):  # dim3 grid(n / 256);
                found[word].append(HostAssignment(at, self.body[at + 1 : matching(self.body, at + 1) + 1]))
        return found

    @cached_property
    def _steps(self) -> frozenset[int]:
        """The positions in what loops do after each pass: `i = 2 * i` in `for (int i = 1; i < n; i = 2 * i)`."""
        found = set[int]()
        for at in self._positions.get("for", ()):
            end = matching(self.body, at + 1) if self.body[at + 1 : at + 2] == ("(",) else at
            ends = [i for i in range(at, end) if self.body[i] == ";"]
            found |= {*range(ends[1], end)} if len(ends) == 2 else set()
        return frozenset(found)

    def _note_element(self, found: dict[str, list[HostAssignment]], at: int) -> None:
        """Note `size_t g[2] = {n, m}` as an assignment to g, and `g[0] = n` as one to g[0]."""
        end = matching(self.body, at + 1)
        if self.body[end + 1 : end + 2] == ("=",) and self.body[end + 2 : end + 3] != ("=",):
            index = "".join(self.body[at + 1 : end + 1])
            is_all = self.body[end + 2 : end + 3] == ("{",)
            found[self.path(at) + index * (not is_all)].append(HostAssignment(at, self._assigned(end + 2)))

    def is_passed(self, array: str, first: int, end: int) -> bool:
        """Whether the tokens between two positions pass an array on: name it without an index."""
        pairs = zip(self.body[first:end], self.body[first + 1 : end + 1], strict=False)
        return any(word == array and after in (",", ")") for word, after in pairs)

    def path(self, at: int) -> str:
        """The name at a position with the objects whose member it is: `p.n`."""
        start = at
        while start > 1 and self.body[start - 1] == "." and _NAME.fullmatch(self.body[start - 2]):
            start -= 2
        return "".join(self.body[start : at + 1])

    def last(self, name: str, position: int) -> tuple[HostAssignment | None, int]:
        """The last assignment to a name before a position, and how many there are."""
        found = [each for each in self.assignments.get(name, ()) if each.position < position]
        return (found[-1] if found else None), len(found)

    def is_certain(self, assignment: HostAssignment, position: int) -> bool:
        """Whether an assignment reaches a later position on every path: it is in no condition and no closed block."""
        inner = self.depths[assignment.position : position]
        return not assignment.is_conditional and min(inner, default=0) >= self.depths[assignment.position]

    def declares(self, name: str) -> bool:
        """Whether the function has a variable of this name."""
        return name in self._declared

    def declared(self, name: str) -> tuple[str, ...]:
        """The tokens before a variable in its declaration; empty if the function declares none of this name."""
        return self._declared.get(name, ())

    def count_declared(self, name: str) -> int:
        """How many variables of this name the function declares."""
        return sum(map(self._is_declared, self._positions.get(name, ())))

    def is_passed_by_address(self, name: str, start: int = 0, end: int | None = None) -> bool:
        """Whether a call between two positions may get the address of a variable of this name, and write it."""
        places = self._positions.get(name, ())[bisect_left(self._positions.get(name, ()), start) :]
        within = (at for at in places if end is None or at < end)
        given = (at for at in within if self.body[at - 2 : at] in (("(", "&"), (",", "&")))
        return any(not _READERS.fullmatch(self._caller_of(at)) for at in given)

    def is_handed_on(self, name: str, start: int, end: int) -> bool:
        """Whether a call between two positions gets a variable of this name as it is, perhaps by reference, or its
        address. Launches get copies."""
        places = (at for at in self._positions.get(name, ()) if start < at < end)
        whole = (at for at in places if self.body[at - 1] in "(," and self.body[at + 1 : at + 2] in ((")",), (",",)))
        callers = {each for each in map(self._caller_of, whole) if _NAME.fullmatch(each) and each != "sizeof"}
        is_changed = any(not _READERS.fullmatch(each) for each in callers)
        return is_changed or self.is_passed_by_address(name, start, end)

    def _caller_of(self, at: int) -> str:
        """The function whose call has the argument at a position; empty if it is in none."""
        depth = 0
        while at > 0 and depth >= 0 and self.body[at] not in (";", "{", "}"):
            at -= 1
            depth += (self.body[at] in ")]") - (self.body[at] in "([")
        return self.body[at - 1] if depth < 0 and at > 0 else ""

    def is_whole(self, name: str) -> bool:
        """Whether a variable may be a whole number: its declaration names no other type."""
        return _NOT_WHOLE.isdisjoint(self._declared.get(name, self.parameters.get(name, ())))

    @cached_property
    def _declared(self) -> dict[str, tuple[str, ...]]:
        """The tokens of the statement before each declared name."""
        found = dict[str, tuple[str, ...]]()
        for at, word in enumerate(self.body):
            if _NAME.fullmatch(word) and word not in found and self._is_declared(at):
                start = at
                while start > 0 and at - start < 6 and self.body[start - 1] not in (";", "{", "}", "(", ","):
                    start -= 1
                found[word] = self.body[start:at]
                for other, stars in self._further(at + 1):
                    found.setdefault(other, (*(each for each in found[word] if each != "*"), *stars))
        return found

    def _further(self, at: int) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The names that the declaration of a name before `at` also declares, as in `int n = 1, *x;`, with stars."""
        while at < len(self.body) and self.body[at] not in (";", ")", "}", "{"):
            if self.body[at] == ",":
                start = at + 1
                while self.body[start : start + 1] in (("*",), ("&",)):
                    start += 1
                if not _NAME.fullmatch("".join(self.body[start : start + 1])):
                    return
                yield self.body[start], self.body[at + 1 : start]
            at = (matching(self.body, at) if self.body[at] in "([" or self.body[at - 1] == "=" else at) + 1

    def type_of(self, name: str) -> str:
        """The type of what a pointer that the function declares points to; empty if it declares none."""
        declared = self._declared.get(name, self.parameters.get(name, ())[:-1])
        return " ".join(word for word in declared if word not in ("*", "&", "const"))

    def is_dim3(self, name: str) -> bool:
        """Whether a variable is a dim3 or an NDRange."""
        return self.is_of_type(name, *EXTENT_TYPES)

    def is_of_type(self, name: str, *types: str) -> bool:
        """Whether a variable has one of these types: its declaration says so, which may declare several."""
        every = (at + 1 for word in types for at in self._positions.get(word, ()))
        return any(name in self._named_after(at) for at in every if self.body[at : at + 1] not in (("(",), ("{",)))

    def _named_after(self, at: int) -> Iterator[str]:
        """The tokens of the statement from a position on, without those in brackets."""
        while at < len(self.body) and self.body[at] != ";":
            yield self.body[at]
            at = matching(self.body, at) + 1

    @cached_property
    def _positions(self) -> dict[str, list[int]]:
        """The positions of each token."""
        found = dict[str, list[int]]()
        for at, word in enumerate(self.body):
            found.setdefault(word, []).append(at)
        return found

    def calls(self, name: str) -> Iterator[tuple[int, list[list[str]]]]:
        """The position and the arguments of each call of a function."""
        for at in self._positions.get(name, ()):
            if (opening := self._after_template(at + 1)) and not self._is_declared(at):
                yield at, split_arguments(self.body[opening + 1 : matching(self.body, opening)])

    def _after_template(self, at: int) -> int:
        """The position of the parenthesis of a call whose name ends before `at`; 0 if there is none."""
        if self.body[at : at + 1] == ("<",) and self.body[at + 1 : at + 2] != ("<",):
            end = next((i for i in range(at, min(at + 40, len(self.body))) if self.body[i] in ">;({"), 0)
            at = end + 1 if end and self.body[end] == ">" else len(self.body)
        return at if self.body[at : at + 1] == ("(",) else 0

    def _is_declared(self, at: int) -> bool:
        """Whether a type is before the name at a position."""
        before = at - 1
        if before > 0 and self.body[before] in "*&":
            while before > 0 and self.body[before] in "*&":
                before -= 1
            is_typed = self._is_typed(before)
            while before > 0 and is_type_word(self.body[before]) and is_type_word(self.body[before - 1]):
                before -= 1  # unsigned long long *x
            return is_typed and (before == 0 or self.body[before - 1] in _BEFORE_A_TYPE)
        return self._is_typed(before)

    def _is_typed(self, at: int) -> bool:
        """Whether a type may end at a position: a name, or the arguments of a template."""
        if at < 0 or self.body[at] != ">":
            return at >= 0 and _NAME.fullmatch(self.body[at]) is not None and self.body[at] not in _NO_TYPE
        while at > 0 and (self.body[at] in (">", ",", "*") or _NAME.fullmatch(self.body[at])):
            at -= 1
        return self.body[at] == "<" and self._is_typed(at - 1)

    def _start(self, at: int) -> str:
        """The token before the statement that assigns to the name at a position."""
        before = at - 1
        while before > 0 and self.body[before] == "." and _NAME.fullmatch(self.body[before - 1]):
            before -= 2
        return self.body[before] if before >= 0 else ";"

    def _assigned(self, start: int) -> tuple[str, ...]:
        end = start
        while end < len(self.body) and self.body[end] not in (",", ";", ")"):
            end = (matching(self.body, end) if self.body[end] in "([{" else end) + 1
        return self.body[start:end]


class HostProgram:
    """The functions of host code in these texts.

    numbers: the macros and constants that are whole numbers.
    reals: the tokens of the macros that are other numbers.
    sums: the tokens of the macros that are sums, products or shifts, perhaps with casts.
    plain: the names that kernels in C read, such as those of their functions; empty for any other language.
    """

    def __init__(self, texts: Sequence[str], plain: Collection[str] = ()) -> None:
        code = as_built("\n".join(map(singly.declared, texts)))
        self.reals = {name: (text,) for name, text in _REAL.findall(code)}
        self.sums = {name: tuple(words(text)) for name, text in _SUM.findall(code)}
        self.numbers = {name: int(knob.default) for name, knob in proposals.of_code(code, ())}
        self.is_plain = bool(plain)
        every, macros = [word for word in words(code) if word != "#"], _COMPUTED.sub("", _as_built(code))
        self.functions = [
            _function(name, parameters, _plain(expanded(body, macros, parameters)), name in plain or _is_device(prefix))
            for prefix, name, inner, _, body in definitions(every)
            for parameters in ({_parameter(part): tuple(part) for part in split(inner)},)
        ]
        self.file = _function("", {}, _plain(_without_bodies(every)))
        self._calls = dict[str, list[tuple[HostFunction, int, list[list[str]]]]]()
        self._assigned = dict[str, bool]()
        self._assigner = dict[str, HostFunction | None]()

    def called(self, name: str, count: int) -> HostFunction | None:
        """The only function of this name with `count` parameters; None if there are none, or several."""
        found = [each for each in self.functions if each.name == name and len(each.parameters) == count]
        return found[0] if len(found) == 1 else None

    def is_assigned(self, name: str) -> bool:
        """Whether a function assigns to a variable of the file: then the number in its definition may be another."""
        if name not in self._assigned:
            own = (f for f in self.functions if name in f.body and name not in f.parameters and not f.declares(name))
            self._assigned[name] = any(name in function.assignments for function in own)
        return self._assigned[name]

    def only_assigner(self, name: str) -> HostFunction | None:
        """The only function that assigns to a variable of the file, or to a member of the only class that has one of
        this name; None if others may do so."""
        if name not in self._assigner:
            self._assigner[name] = self._find_assigner(name)
        return self._assigner[name]

    def _find_assigner(self, name: str) -> HostFunction | None:
        if self.file.count_declared(name) > 1:
            return None  # members of several classes
        own = [f for f in self.functions if name in f.body and name not in f.parameters and not f.declares(name)]
        found = [function for function in own if name in function.assignments]
        is_open = len(found) != 1 or any(function.is_passed_by_address(name) for function in own)
        return None if is_open else found[0]

    def callers(self, function: HostFunction) -> Iterator[tuple[HostFunction, int, list[list[str]]]]:
        """Each call of a function: the calling function, the position, and the arguments."""
        for other, at, given in self._calls_of(function.name):
            is_whole = len(given) == len(function.parameters) > 0 or not function.parameters
            if is_whole and other is not function:
                yield other, at, given

    def _calls_of(self, name: str) -> list[tuple[HostFunction, int, list[list[str]]]]:
        """Each call of a function of this name, cached."""
        if name not in self._calls:
            self._calls[name] = [(other, at, given) for other in self.functions for at, given in other.calls(name)]
        return self._calls[name]


def _as_built(code: str) -> str:
    """Code without the branches of flags that it does not define itself, if these have other definitions of macros."""
    defined = _DEFINED.findall(code)
    flags = {*_FLAG.findall(code)} - {*defined}
    return without(code, flags) if len({*defined}) < len(defined) and flags else code


def _function(
    name: str, parameters: Mapping[str, tuple[str, ...]], body: Sequence[str], is_device: bool = False
) -> HostFunction:
    depths, depth = list[int](), 0
    for word in body:
        depth += (word == "{") - (word == "}")
        depths.append(depth)
    return HostFunction(name, parameters, tuple(body), tuple(depths), is_device)


def _is_device(prefix: Collection[str]) -> bool:
    return not _OF_DEVICES.isdisjoint(prefix)


def _plain(tokens: Sequence[str]) -> list[str]:
    """Tokens without conditions, qualifiers and `this`, and with `.` for `->`."""
    found = list[str]()
    for word in tokens:
        if word == "::":
            del found[len(found) - (found[-1:] != [] and _NAME.fullmatch(found[-1]) is not None) :]
        elif word == ">" and found[-1:] == ["-"] and found[-2:-1] != ["-"]:
            found[-1] = "."
        elif word != "#":
            found.append(word)
        if found[-2:] == ["this", "."]:
            del found[-2:]
    return found


def _parameter(part: Sequence[str]) -> str:
    declared = part[: part.index("=")] if "=" in part else part
    declared = declared[: declared.index("[")] if "[" in declared else declared
    return declared[-1] if declared else ""


def _without_bodies(tokens: Sequence[str]) -> list[str]:
    """The tokens outside of functions."""
    found, at = list[str](), 0
    while at < len(tokens):
        is_body = tokens[at] == "{" and found[-1:] in ([")"], ["const"], ["noexcept"], ["override"], ["final"])
        at = (matching(tokens, at) if is_body else at) + 1
        found.append(tokens[at - 1] if not is_body else ";")
    return found
