"""What host code passes to the steps of a draft: the same array under two names, and the numbers of scalars."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.drafting.expansion import split_arguments
from tuner.drafting.host.launch_site import LaunchSite
from tuner.drafting.host.launches import launches
from tuner.drafting.host.program import HostFunction, HostProgram
from tuner.space.sources.prototype import Parameter, Prototype, is_type_word
from tuner.space.sources.struct_text import Member
from tuner.space.sources.tokens import matching

MOST_NAMES = 8  # between a launch and the number that it passes
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fFlLuU]*")
_CASTS = ("static_cast", "reinterpret_cast", "const_cast")


def launched(steps: Sequence[Prototype], program: HostProgram) -> list[LaunchSite]:
    """The launches of the steps in one function, in their order; empty if no function launches all of them."""
    every = {step.name: list(launches(program, step.name, len(step.parameters or ()))) for step in steps}
    for function in dict.fromkeys(site.function for site in every[steps[0].name]):
        found, position = list[LaunchSite](), -1
        for step in steps:
            sites = [site for site in every[step.name] if site.function is function and _fits(step, site)]
            later = [site for site in sites if site.position > position]
            if not sites:
                break
            found.append((later or sites)[0])
            position = found[-1].position
        if len(found) == len(steps):
            return found
    return []


def _fits(step: Prototype, site: LaunchSite) -> bool:
    return step.parameters is not None and len(site.arguments) == len(step.parameters)


def by_host(steps: Sequence[Prototype], sites: Sequence[LaunchSite]) -> list[Prototype]:
    """The steps with one name for what one variable of the host is passed to, and two for what two are."""
    every = list[list[tuple[str, str]]]()
    for step, site in zip(steps, sites, strict=True):
        names = [parameter.name for parameter in step.parameters or ()]
        every.append([*zip(names, map(_variable, site.arguments), strict=True)])
    pairs = [*dict.fromkeys(pair for each in every for pair in each)]
    renamed = dict[tuple[str, str], str]()
    for name, text in pairs:
        same_text = [other for other, passed in pairs if passed == text and text]
        same_name = [passed for other, passed in pairs if other == name]
        if len(same_text) > 1 or len(same_name) > 1:
            renamed[name, text] = _name(text, name, {*(n for n, t in pairs if t != text)})
    return [_renamed(step, dict(each), renamed) for step, each in zip(steps, every, strict=True)]


def _name(text: str, name: str, taken: set[str]) -> str:
    """A name for a variable of the host: its own, without a mark of the device, where that is free."""
    plain = re.sub(r"^(?:d|dev|device|gpu|g)_(?=\w)|(?<=\w)_(?:d|dev|device|gpu)$", "", text)
    return next((each for each in (plain, text) if each.isidentifier() and each not in taken), name)


def _renamed(step: Prototype, given: Mapping[str, str], renamed: Mapping[tuple[str, str], str]) -> Prototype:
    names = {name: renamed.get((name, text), name) for name, text in given.items()}
    pairs = [*zip(("", *step.body), step.body, strict=False)]
    others = {word for ahead, word in pairs if ahead != "."} - {*names}
    if others & {*names.values()} - {*names} or len({*names.values()}) < len(names):
        return step  # the body has the name for something else, or the host passes one variable twice
    body = tuple(word if ahead == "." else names.get(word, word) for ahead, word in pairs)
    parameters = tuple(replace(parameter, name=names[parameter.name]) for parameter in step.parameters or ())
    return replace(step, body=body, parameters=parameters)


def _variable(words: Sequence[str]) -> str:
    """The variable that is passed: `x` for `&x[0]` and `(float *)x`; a member with its object; empty if unclear."""
    words = _without_casts(words)
    if tuple(words[:1]) == ("&",) and tuple(words[-3:]) == ("[", "0", "]"):
        words = words[1:-3]
    plain = "".join(words)
    return plain if re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", plain) else ""


def _without_casts(words: Sequence[str]) -> Sequence[str]:
    while words:
        if words[0] == "(" and len(words) > 1:
            end = matching(words, 0)
            words = words[1:end] if end == len(words) - 1 else words[end + 1 :]
        elif words[0] in _CASTS or (is_type_word(words[0]) and tuple(words[1:2]) == ("(",)):
            at = next((at for at, word in enumerate(words) if word == "("), len(words))
            words = words[at + 1 : matching(words, at)] if at < len(words) else ()
        else:
            return words
    return words


def constant(program: HostProgram, function: HostFunction, name: str) -> str:
    """The only number that a variable of a function has, as text; empty if there is none."""
    found = {*_numbers(program, function, (name,), 0)}
    return found.pop() if len(found) == 1 else ""


def of_members(
    program: HostProgram,
    steps: Sequence[Prototype],
    name: str,
    members: Sequence[Member],
    sizes: Mapping[str, int | None],
) -> dict[str, str]:
    """The numbers that all launches have for members of the struct `name` of the steps, as text, by member: a number,
    or a list of those of an array or vector. `members` are all of the struct. `sizes` are variables of the host that
    are sizes of the draft, with their numbers: the name stands for the number."""
    found = list[set[tuple[str, str]]]()
    for step in steps:
        names = [each.name for each in step.parameters or ()]
        for site in launches(program, step.name, len(names)) if name in names else ():
            words = site.arguments[names.index(name)] if names.index(name) < len(site.arguments) else ()
            assigned = _members(site, words[0]) if len(words) == 1 else {}
            found.append({*(assigned or _of_initialiser(program, site, words, members, sizes)).items()})
    return dict(set.intersection(*found)) if found else {}


def _of_initialiser(
    program: HostProgram,
    site: LaunchSite,
    words: Sequence[str],
    members: Sequence[Member],
    sizes: Mapping[str, int | None],
) -> dict[str, str]:
    """The numbers of members in `Params{n, 0.5f}` at a launch, or of a variable that begins so and is not changed."""
    values, found = _initialiser(site, words), dict[str, str]()
    if len(values) > len(members):
        return {}  # braces of an inner array are left out
    named = {each[1]: each[3:] for each in values if each[:1] == ["."] and each[2:3] == ["="]}  # {.dt = 0.5f}
    pairs = [(member, named[member.name]) for member in members if member.name in named]
    for member, value in pairs if named else zip(members, values, strict=False):
        is_list = bool(member.extents) or member.parameter.width > 1
        parts = _listed(value) if is_list else [value]
        if not parts:
            return {}
        numbers = [{*_numbers(program, site.function, part, 0)} for part in parts]
        texts = [each.pop() if len(each) == 1 else "" for each in numbers]
        names = [_size(site.function, part, sizes) for part in parts]
        texts = [name if name and text == str(sizes[name]) else text for name, text in zip(names, texts, strict=True)]
        if all(texts):
            found[member.name] = f"[{', '.join(texts)}]" if is_list else texts[0]
    return found


def _size(function: HostFunction, words: Sequence[str], sizes: Collection[str]) -> str:
    """The size of the draft that an expression of host code is, perhaps by other names; empty if it is none."""
    for _ in range(MOST_NAMES):
        name = "".join(_without_casts(words))
        assigned = function.assignments.get(name, ())
        if name in sizes or len(assigned) != 1:
            return name if name in sizes else ""
        words = assigned[0].words
    return ""


def _initialiser(site: LaunchSite, words: Sequence[str]) -> list[list[str]]:
    """The values between the braces of a struct that a launch passes; empty if that is not certain."""
    function = site.function
    if len(words) == 1:
        (first, *more) = function.assignments.get(words[0], ()) or (None,)
        has_members = any(path.startswith(f"{words[0]}.") for path in function.assignments)
        if first is None or more or has_members or not function.is_certain(first, site.position):
            return []
        if function.is_handed_on(words[0], first.position, site.position):
            return []
        words = first.words
    return _listed(words) if "{" in words[:2] else []


def _listed(words: Sequence[str]) -> list[list[str]]:
    """The values in `{1, 2}`, `float2{1, 2}` or `make_float2(1, 2)`; empty for anything else."""
    start = 0 if tuple(words[:1]) == ("{",) else 1
    is_made = tuple(words[1:2]) == ("(",) and words[0].startswith("make_")
    if not (is_made or tuple(words[start : start + 1]) == ("{",)) or matching(words, start) != len(words) - 1:
        return []
    return [each for each in split_arguments(words[start + 1 : -1]) if each]


def _members(site: LaunchSite, name: str) -> dict[str, str]:
    """The numbers that members of a variable have at a launch, as text, by member; without those to which its function
    assigns anything else, or which it may leave as they are."""
    found = dict[str, str]()
    for path, every in site.function.assignments.items():
        variable, _, member = path.partition(".")
        texts = {match[1] if (match := _NUMBER.fullmatch("".join(each.words))) else "" for each in every}
        earlier = [each for each in every if each.position < site.position]
        is_certain = any(site.function.is_certain(each, site.position) for each in earlier)
        if variable == name and member.isidentifier() and is_certain and len(texts) == 1 and "" not in texts:
            found[member] = texts.pop()
    return found


def _evaluated(words: Sequence[str]) -> str:
    """A number, or the quotient or product of two of which one is no integer, as text; empty for anything else."""
    if match := _NUMBER.fullmatch("".join(words)):
        return match[1]
    parts = [_NUMBER.fullmatch("".join(part)) for part in (words[:1], words[2:])]
    if len(words) != 3 or words[1] not in ("*", "/") or None in parts:
        return ""
    one, other = (part[1] for part in parts if part is not None)
    if (one + other).isdecimal() or not float(other):
        return ""
    return repr(float(one) / float(other) if words[1] == "/" else float(one) * float(other))


def number(program: HostProgram, step: Prototype, parameter: Parameter) -> str:
    """The number that all launches of a step pass for a scalar, as text; empty if there is none, or several."""
    place = [each.name for each in step.parameters or ()].index(parameter.name)
    sites = [site for site in launches(program, step.name, len(step.parameters or ())) if place < len(site.arguments)]
    found = {text for site in sites for text in _numbers(program, site.function, site.arguments[place], 0)}
    return found.pop() if len(found) == 1 else ""


def dtype(program: HostProgram, step: Prototype, name: str) -> str | None:
    """The dtype of the only type that launches of a step pass for a parameter of its template."""
    place, found = [*(step.template or ())].index(name), set[str | None]()
    for site in launches(program, step.name, len(step.parameters or ())):
        given = " ".join(site.template[place]) if place < len(site.template) else ""
        found |= {Parameter("", given, False, False).dtype} if given else set()
    return found.pop() if len(found) == 1 else None


def _numbers(program: HostProgram, function: HostFunction, words: Sequence[str], depth: int) -> Iterator[str]:
    """The numbers that an expression of host code may have; an empty text if it has others."""
    words = _without_casts(words)
    if text := _evaluated(words):
        yield text
        return
    name = "".join(words)
    if not name.isidentifier() or depth >= MOST_NAMES:
        yield ""
    elif name in function.parameters and not function.declares(name):
        place, calls = [*function.parameters].index(name), list(program.callers(function))
        for caller, _, given in calls:
            yield from _numbers(program, caller, given[place], depth + 1)
        if not calls:
            yield ""
    elif name in program.reals:
        yield from _numbers(program, function, program.reals[name], depth + 1)
    elif name in program.numbers:
        yield str(program.numbers[name])
    else:
        home = function if function.declares(name) else program.file
        assigned = home.assignments.get(name, [])
        for each in assigned:
            yield from _numbers(program, home, each.words, depth + 1)
        if not assigned:
            yield ""
