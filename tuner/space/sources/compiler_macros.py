"""The macros by which a source tells the compilers of several languages apart, and what one of them reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.space.sources.includes import blanked

_OF_CUDA = frozenset({"__CUDACC__", "__CUDA_ARCH__", "__CUDACC_RTC__", "__NVCC__", "__HIPCC__", "__HIP__", "__NVRTC__"})
_OF_OPENCL = frozenset({"__OPENCL_VERSION__", "__OPENCL_C_VERSION__"})
# Which of them the compiler of a language defines, and which it does not.
_KNOWN = {
    "opencl": {**dict.fromkeys(_OF_OPENCL, True), **dict.fromkeys({*_OF_CUDA, "__cplusplus"}, False)},
    "cuda": {"__CUDACC__": True, "__cplusplus": True, **dict.fromkeys(_OF_OPENCL, False)},
}
_DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b\s*(.*)")
_DEFINED = re.compile(r"(!?)\s*defined\s*(?:\(\s*(\w+)\s*\)|(\w+))\s*")


def read_by(language: str, text: str) -> str:
    """`text` without the branches that the compiler of this language does not read, as far as conditions on these
    macros alone tell. Every line keeps its number."""
    known = _KNOWN.get(language, {})
    if not any(name in text for name in known):
        return text
    found, regions = list[str](), [_Region(is_kept=True)]
    plain, lines = blanked(text).split("\n"), text.split("\n")
    start = 0
    while start < len(lines):
        end = start + 1
        while end < len(lines) and plain[end - 1].endswith("\\"):
            end += 1
        own, is_cut = lines[start:end], not regions[-1].is_kept
        if match := _DIRECTIVE.fullmatch(" ".join(line.rstrip("\\") for line in plain[start:end])):
            own[0], is_cut = _directive(regions, match, own[0], known)
        found += [""] * len(own) if is_cut else own
        start = end
    return "\n".join(found)


class _Region:
    """A condition with its branches.

    is_kept: the compiler may read the current branch.
    is_open: no earlier branch is certainly read.
    is_settled: all of its conditions so far are known, so that its directives go.
    """

    def __init__(self, is_kept: bool, is_open: bool = False, is_settled: bool = False) -> None:
        self.is_kept, self.is_open, self.is_settled = is_kept, is_open, is_settled


def _directive(regions: list[_Region], match: re.Match[str], line: str, known: Mapping[str, bool]) -> tuple[str, bool]:
    """The line of a directive, and whether it goes. Opens, continues or ends the last region."""
    name, rest = match.groups()
    if name.startswith("if"):
        outer = regions[-1]
        value = _value(rest if name == "if" else f"{'!' * (name == 'ifndef')}defined({rest.strip()})", known)
        is_settled = not outer.is_kept or value is not None
        regions.append(_Region(outer.is_kept and value is not False, outer.is_kept and value is not True, is_settled))
        return line, is_settled
    if len(regions) == 1:
        return line, False  # no condition is open
    region = regions[-1]
    if name == "endif":
        regions.pop()
        return line, region.is_settled
    if not region.is_settled:
        return line, False  # an unknown condition keeps all its branches
    value = True if name == "else" else _value(rest, known)
    region.is_kept = region.is_open and value is not False
    if region.is_open and value is None:  # the first branch that remains
        region.is_settled = False
        return line.replace("elif", "if", 1), False
    region.is_open = region.is_open and value is not True
    return line, True


def _value(condition: str, known: Mapping[str, bool]) -> bool | None:
    """Whether a condition on known macros is true; None if other things decide, or if it has parentheses."""
    if "(" in _DEFINED.sub("", condition):
        return None
    for operator, decisive in (("||", True), ("&&", False)):
        if operator in condition:
            values = [_value(part, known) for part in condition.split(operator)]
            return decisive if decisive in values else None if None in values else not decisive
    match = _DEFINED.fullmatch(condition.strip())
    value = known.get(match[2] or match[3]) if match else None
    return None if match is None or value is None else value != bool(match[1])
