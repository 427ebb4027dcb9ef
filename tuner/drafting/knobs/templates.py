"""The template parameters of kernels: which types and values they may have, and how a kernel's name passes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tuner.classes import cached_property
from tuner.drafting.knobs import proposals
from tuner.drafting.knobs.proposals import Knob
from tuner.drafting.reached import enumerators
from tuner.space.sources.prototype import Parameter, Prototype


class Templates:
    """The template parameters of `steps`, whose function parameters are `parameters` and whose source is `text`.

    classes: the parameters that are classes, each with those that the host passes, the first of which is drafted.
    of_build: types that a build gives, as in `-DREAL=float`.
    """

    def __init__(
        self,
        steps: Sequence[Prototype],
        parameters: Sequence[Parameter],
        text: str,
        classes: Mapping[str, Sequence[str]],
        of_build: Sequence[str] = (),
    ) -> None:
        self._steps, self._parameters, self._text, self.classes = steps, parameters, text, classes
        self._of_build = of_build
        self._kinds = {name: kind for step in steps for name, kind in (step.template or {}).items()}

    @property
    def types(self) -> list[str]:
        """The parameters, and the macros of a build, that are types of numbers."""
        names = [name for name, kind in self._kinds.items() if is_type(kind) and name not in self.classes]
        return [*names, *self._of_build]

    @property
    def knobs(self) -> dict[str, Knob]:
        """Knobs for the parameters that are values."""
        values = {name: kind for name, kind in self._kinds.items() if not is_type(kind)}
        words = {name: enumerators(self._text, kind)[1] for name, kind in values.items()}
        defaults = {name: text for step in self._steps for name, text in step.defaults.items()}
        return proposals.of_template(values, defaults, words)

    def instantiated(self, name: str) -> int | None:
        """The number that all explicit instantiations of the kernels, as in `template void f<4>(float *);`, have for
        a parameter."""
        found = set[str]()
        for step in self._steps:
            names = [*(step.template or {})]
            every = re.findall(rf"\btemplate\s+[\w\s*&]*\b{step.name}\s*<([^<>;(){{}}]*)>\s*\(", self._text)
            given = [[each.strip() for each in one.split(",")] for one in every] if name in names else []
            found |= {one[names.index(name)] if len(one) == len(names) else "" for one in given}
        return int(found.pop()) if len(found) == 1 and all(map(str.isdecimal, found)) else None

    def entry(self, step: Prototype) -> str:
        """The `kernel` entry of a step: the qualified name, with `<{parameter}, ...>` for a template."""
        arguments = ", ".join(self._argument(name, kind) for name, kind in (step.template or {}).items())
        return step.qualified if step.template is None else f"{step.qualified}<{arguments}>"

    def _argument(self, name: str, kind: str) -> str:
        """A template argument. The compiler takes no number for an enumeration."""
        if self.classes.get(name):
            return self.classes[name][0]
        if is_type(kind) or kind in self._kinds or Parameter("", kind, False, False).dtype or kind == "bool":
            return f"{{{name}}}"
        prefix, words = enumerators(self._text, kind)
        return f"{prefix}{{{name}}}" if words else f"({kind}){{{name}}}"

    @cached_property
    def integer_types(self) -> list[str]:
        """The type parameters that must be integers: numbers of such a type are parts of indices or remainders."""
        body, found = " ".join(word for step in self._steps for word in step.body), list[str]()
        for name in self.types:
            if re.fullmatch(r"(?i).*(ind(ex|ices)|idx|offset|size|int(eger)?)(_?t(ype)?)?\d*", name):
                found.append(name)
                continue
            declared = set(re.findall(rf"\b{name} (?:const )?(\w+)\b(?! \()", body))
            declared |= {p.name for p in self._parameters if p.type == name and not p.is_pointer}
            words = "|".join(map(re.escape, sorted(declared)))
            index = rf"\[ (?:[^\[\]()]* )?(?:{words}) (?:[^\[\]()]* )?\]"
            if declared and re.search(rf"[%&] (?:{words})\b|\b(?:{words}) (?:%|<<|>>|& [^&])|{index}", body):
                found.append(name)
        return found


def is_type(kind: str) -> bool:
    """Whether a template parameter of this kind is a type."""
    return kind.partition(" ")[0] in ("typename", "class")
