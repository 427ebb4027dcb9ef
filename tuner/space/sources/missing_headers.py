"""Tells which missing headers a build would look for."""

from collections.abc import Collection

from tuner.space.sources import flags, includes, preprocessor
from tuner.space.sources.includes import Parts, SystemInclude, without_comments


def missing(parts: Parts, told: Collection[str] = ()) -> list[SystemInclude]:
    """The headers that should have been found.

    Without those that are included only if a build defines a macro that is not in `told`.
    """
    found = [part for part in parts if isinstance(part, SystemInclude) and part.fault]
    if not found:
        return []
    code = without_comments(includes.joined(parts))
    untold = {name for name in flags.untold(code) if not name.startswith("_")}.difference(told)
    remaining = {line.strip() for line in preprocessor.without(code, untold).splitlines()}
    return [part for part in found if without_comments(part.include).strip() in remaining]


def faults(parts: Parts, told: Collection[str] = ()) -> list[str]:
    """The messages about the missing headers."""
    return [part.fault for part in missing(parts, told)]
