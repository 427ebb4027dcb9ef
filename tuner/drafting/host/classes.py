"""The type parameters of templates that are classes, such as functors, and those that host code passes for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from tuner.drafting.host.launch_site import LaunchSite
from tuner.drafting.host.launches import launches
from tuner.drafting.host.program import HostFunction, HostProgram
from tuner.drafting.knobs.templates import is_type
from tuner.space.sources.prototype import Prototype
from tuner.space.sources.tokens import matching

MOST_NAMES = 8  # between a launch and the object that it passes
_SCOPE = re.compile(r"\b(?:(namespace)|struct|class)\b\s*([\w:]*)(?:\s+final)?\s*(?::[^;{}()]*)?\{|\{|\}")


def classes(
    steps: Sequence[Prototype], program: HostProgram | None, defined: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """The type parameters of `steps` that are classes, each with the classes that launches pass: those that the source
    defines, which `defined` names."""
    found = dict[str, tuple[str, ...]]()
    for step in steps:
        sites = list(launches(program, step.name, len(step.parameters or ()))) if program else []
        for name, kind in (step.template or {}).items():
            if is_type(kind):
                given = tuple(dict.fromkeys(each for site in sites for each in _passed(step, name, site, defined)))
                if given or _is_class(step, name):
                    found[name] = given
    return found


def functors(text: str) -> list[str]:
    """The classes in a text that can be called."""
    parts = re.split(r"\b(?:struct|class)\b", text)
    heads = [re.match(r"\s*(\w+)\s*(?::[^{};]*)?\{", p) for p in parts if re.search(r"\boperator\s*\(\s*\)", p)]
    return [head[1] for head in heads if head is not None]


def qualified(kind: str, texts: Sequence[str], defined: Collection[str]) -> str:
    """A type with the namespaces and classes in which the first of `texts` that does defines each class of `defined`:
    the name of a kernel is read outside of all of them."""
    return re.sub(
        r"(?<![\w:])[A-Za-z_]\w*\b(?!\s*::)",
        lambda name: f"{_scope(name[0], texts)}{name[0]}" if name[0] in defined else name[0],
        kind,
    )


def _scope(name: str, texts: Sequence[str]) -> str:
    """The prefix of a class, such as `ours::`; empty outside of namespaces, and for a class of a function."""
    for text in texts:
        around = list[str | None]()  # None within braces of anything else
        for each in _SCOPE.finditer(text):
            if each[0] == "}":
                around[-1:] = []
                continue
            is_scope = each[2] is not None
            if is_scope and not each[1] and each[2] == name:
                return "" if None in around else "".join(f"{scope}::" for scope in around if scope)
            around.append(each[2] if is_scope else None)
    return ""


def _is_class(step: Prototype, name: str) -> bool:
    """Whether a kernel uses a type parameter as no number can be used: it calls a value, or names a member."""
    body = " ".join(step.body)
    values = {parameter.name for parameter in step.parameters or () if parameter.type == name and not parameter.stars}
    values |= set(re.findall(rf"\b{name} (?:const )?(?:& )?(\w+) [;=({{]", body))
    used = "|".join(map(re.escape, sorted(values))) or "-"
    member, called = rf"\b(?:{used}) \. [A-Za-z]", rf"(?<!\b{name} )(?<![.:] )\b(?:{used}) [(\[]"
    return re.search(rf"\b{name} (?::: |\( \) \(|\{{ \}} [.(])|{member}|{called}", body) is not None


def _passed(step: Prototype, name: str, site: LaunchSite, defined: Collection[str]) -> Iterator[str]:
    """The class that a launch passes for a type parameter, if it tells."""
    place = [*(step.template or {})].index(name)
    if place < len(site.template):
        found = _written(site.template[place], defined)
    else:
        pairs = zip(step.parameters or (), site.arguments, strict=False)
        given = next((words for parameter, words in pairs if parameter.type == name), ())
        found = _class_of(site.function, given, defined)
    if found:
        yield found


def _class_of(function: HostFunction, words: Sequence[str], defined: Collection[str], depth: int = 0) -> str:
    """The class of an object in host code: `Call()`, `Put{1}`, or a variable."""
    if len(words) != 1 or depth >= MOST_NAMES:
        return _written(words, defined)
    assigned = function.assignments.get(words[0], [])
    declared = (*function.declared(words[0]), *function.parameters.get(words[0], ()))
    if found := _written(declared, defined):
        return found
    return _class_of(function, assigned[-1].words, defined, depth + 1) if assigned else ""


def _written(words: Sequence[str], defined: Collection[str]) -> str:
    """The first class in these tokens, with the arguments of a template."""
    at = next((at for at, word in enumerate(words) if word in defined), None)
    if at is None or (words[:1] and words[0] == "["):
        return ""
    if tuple(words[at + 1 : at + 2]) != ("<",):
        return words[at]
    depth, end = 0, at + 1
    while end < len(words):
        depth += (words[end] == "<") - (words[end] == ">")
        end = (matching(words, end) if words[end] in "([{" else end) + 1
        if depth == 0:
            break
    return "".join(words[at:end]).replace(",", ", ")
