"""Proposes flags: names that a source tests by `#ifdef`, and names without which it stops with `#error`."""

import re
from collections.abc import Iterator

from tuner.drafting.knobs.known import is_known
from tuner.drafting.knobs.proposals import Knob, guessed
from tuner.space.sources import flags
from tuner.space.sources.preprocessor import remainder

_OF_OTHERS = re.compile(
    r"_.*|N?DEBUG|WIN(?:32|64)|cl(?:es)?_\w+|FP_FAST_\w+"
)  # of compilers, drivers and build systems
_OFF_AND_ON = (False, True)


def names(code: str) -> Iterator[str]:
    """The names whose existence `code` tests and that it does not define: a build may define them."""
    return (name for name in flags.untold(code) if not is_known(name))


def of_code(code: str, text: str) -> Iterator[tuple[str, Knob]]:
    """Knobs for the names whose existence `code` tests. `text` is `code` with its headers inlined.

    A name that the source defines itself is a flag only if its value is not used.
    """
    for name in sorted(flags.tested(code)):
        if _OF_OTHERS.fullmatch(name) or is_known(name) or _is_include_guard(text, name):
            continue
        without, is_defined = remainder(text, name, None), re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", text, re.M)
        if not is_defined and without is not None and without.refuses:
            yield name, guessed(name, "the source stops with #error without it")
        elif not flags.differs_from_zero((text,), name):
            continue
        elif not is_defined and flags.is_flag((text,), name):
            ask = "the source tests it by #ifdef, and false leaves it undefined: may it vary?"
            yield name, Knob(_OFF_AND_ON, False, ask)
        elif is_defined and flags.is_constant((text,), name):
            cure = f"write #if {name} in place of #ifdef {name}" if _has_guard(text, name) else f"remove #define {name}"
            why = "the source defines it, and tests only whether it is defined"
            yield name, Knob((True,), True, remark=f"{why}: to vary it, {cure}")


def _has_guard(text: str, name: str) -> bool:
    """Whether a text defines a macro only if it is undefined."""
    return (
        re.search(rf"^[ \t]*#[ \t]*ifndef[ \t]+{name}[ \t]*\n[ \t]*#[ \t]*define[ \t]+{name}\b", text, re.M) is not None
    )


def _is_include_guard(text: str, name: str) -> bool:
    """Whether all that a text says of a macro is to define it unless it is defined."""
    return len(re.findall(rf"\b{name}\b", text)) == 2 and _has_guard(text, name)
