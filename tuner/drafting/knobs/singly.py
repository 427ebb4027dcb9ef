"""The text of C source as drafts read it: without comments, and with a statement for each constant."""

import re

from tuner.space.sources.includes import without_comments

_SEVERAL = re.compile(  # const int BM = 64, BN = 64;
    r"^([ \t]*(?=[^;=]*\bconst)(?:[A-Za-z_]\w*\s+)+)((?:\w+\s*=[^;{}()=,]+,\s*)+\w+\s*=[^;{}()=,]+);", re.MULTILINE
)
_ENUMERATORS = re.compile(  # enum { BM = 64, BN = 64 };
    r"^([ \t]*enum)\s*\{\s*((?:\w+\s*=[^;{}()=,]+,\s*)+\w+\s*=[^;{}()=,]+),?\s*\}\s*;", re.MULTILINE
)


def declared(text: str) -> str:
    """C source without comments, blank lines and #line directives, in which a statement declares one constant."""
    single = _SEVERAL.sub(lambda match: _each(match[2], f"{match[1]}{{}};"), without_comments(text))
    return _ENUMERATORS.sub(lambda match: _each(match[2], f"{match[1]} {{{{ {{}} }}}};"), single)


def _each(declarators: str, statement: str) -> str:
    return "\n".join(statement.format(declarator.strip()) for declarator in declarators.split(","))
