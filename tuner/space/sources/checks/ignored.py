"""Check for settings that a compiler ignores without an error: pragmas unknown to GCC, loops that NVRTC is to unroll 0
times, and limits of registers."""

import re
from collections.abc import Iterator, Sequence

from tuner.space.model import Space
from tuner.space.sources.checks.uses import MacroFault, key
from tuner.space.sources.preprocessor import remainder
from tuner.space.sources.prototype import Prototype
from tuner.space.sources.source_text import macro_names

UNROLL_BY = "#define PRAGMA(text) _Pragma(#text) and #define UNROLL_BY(n) PRAGMA(GCC unroll n)"
_REGISTERS = re.compile(r"--?maxrregcount\b=?(?:\{(\w+)\})?")
_PRAGMA = re.compile(r"\s*#\s*pragma\s+(\w+)(.*)")
_PRAGMA_LINE = re.compile(r"#[ \t]*pragma\b((?:[^\n]*\\\n)*[^\n]*)")
_DEFINED = re.compile(r"#[ \t]*define[ \t]+(\w+)")
_KNOWN_TO_GCC = {"omp", "GCC", "acc", "STDC", "pack", "push_macro", "pop_macro", "redefine_extname", "weak", "message"}


def registers(space: Space, position: int, prototype: Prototype) -> Iterator[MacroFault]:
    """The fault of an option that limits registers, where the kernel of a step has launch bounds or the limit is 0."""
    for number, option in enumerate(space.compile_options.get("cuda", ())):
        if (limit := _REGISTERS.match(option)) is None:
            continue
        step = space.steps[position]
        if prototype.has_launch_bounds:
            message = (
                f"{option} has no effect on {step.kernel} in {step.source.name}, which has __launch_bounds__; give "
                "these a second argument, the least number of blocks per multiprocessor, or remove one of the two"
            )
            yield ("compile_options", "cuda", number), message
        elif 0 in space.parameters.get(limit[1], ()):
            least = "the fewest registers that it can use, such as 24 on an H100"
            message = f'0 in {option} is not "no limit": NVRTC limits to {least}; write 255, which limits nothing'
            yield ("parameters", limit[1]), message


def pragmas(space: Space, codes: Sequence[str]) -> Iterator[MacroFault]:
    """Macros in pragmas that GCC does not know. `codes` are the sources without comments."""
    if "c" not in space.languages:
        return
    for name in macro_names(space):
        for word, rest in filter(None, (_certain_pragma(code, name) for code in codes)):
            cure = f"UNROLL_BY({name}), with {UNROLL_BY}" if word == "unroll" else "a pragma that GCC knows"
            yield (key(space, name), name), f"GCC ignores `#pragma {word}{rest}`; write {cure}"


def unrolled(space: Space, codes: Sequence[str]) -> Iterator[MacroFault]:
    """Parameters whose value NVRTC ignores in `#pragma unroll`. `codes` are the sources without comments."""
    if "cuda" not in space.languages:
        return
    for name in set(macro_names(space)).intersection(space.parameters):
        ignored = [value for value in space.parameters[name] if type(value) is int and value < 1]
        pragmas = (_certain_pragma(code, name) for code in codes if ignored)
        if any(found and found[0] == "unroll" and found[1].strip(" ()") == name for found in pragmas):
            message = (
                f"{ignored[0]}: NVRTC ignores `#pragma unroll {ignored[0]}` and may unroll the whole loop; 1 keeps the "
                f"loop as it is; remove {ignored[0]}, or write the pragma under `#if {name} > 0`"
            )
            yield (key(space, name), name), message


def _certain_pragma(code: str, name: str) -> tuple[str, str] | None:
    """The first word and the rest of a pragma with macro `name` that GCC ignores; None if none is certain to be
    reached."""
    words = {word for line in _PRAGMA_LINE.findall(code) for word in re.findall(r"\w+", line)}
    if words.isdisjoint({name, *_DEFINED.findall(code)}):
        return None
    rest, depth = remainder(code, name, name), 0
    for line in rest.lines if rest is not None else ():
        depth += line.startswith("#if ") - (line == "#endif")
        pragma = _PRAGMA.fullmatch(line)
        if depth == 0 and pragma and pragma[1] not in _KNOWN_TO_GCC and re.search(rf"\b{name}\b", pragma[2]):
            return pragma[1], pragma[2]
    return None
