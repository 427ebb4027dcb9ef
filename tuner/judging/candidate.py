"""A candidate: one text, in place of the sources that a space names."""

from __future__ import annotations

import errno
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.errors import OptionError, RequestError
from tuner.languages import LANGUAGES
from tuner.quoting import shown
from tuner.space import snapshot

if TYPE_CHECKING:
    from tuner.space.model import Space

MOST_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class CandidateText:
    """A kernel's text: its file, the SHA-256 of its bytes, and the text itself."""

    path: Path
    sha256: str
    text: str

    @staticmethod
    def of(path: Path) -> CandidateText:
        """Read a candidate's file. Raises RequestError."""
        try:
            if path.exists() and not path.is_file():
                raise OSError(errno.EINVAL, "not a regular file")  # a pipe would wait for its writer
            text = snapshot.read_text(path, MOST_CHARACTERS)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "is no text"
            raise RequestError(f"{shown(path)}: cannot be read: {reason}; name the file of a kernel") from None
        return CandidateText(path, hashlib.sha256(snapshot.read(path)).hexdigest(), text)

    def space(self, space: Space) -> Space:
        """`space` with this text, which has the kernels of all steps, in place of its own. Raises RequestError if it is
        in another language."""
        common = [name for name in space.languages if self.path.suffix in LANGUAGES[name].suffixes]
        if not common:
            allowed = dict.fromkeys(suffix for name in space.languages for suffix in LANGUAGES[name].suffixes)
            raise RequestError(
                f"{shown(self.path)}: {space.name} takes the text of a kernel in a file that ends in "
                f"{' or '.join(allowed)}"
            )
        steps = tuple(replace(step, source=self.path.absolute()) for step in space.steps)
        return replace(space, steps=steps)


def check(space: Space, tune: int = 0) -> None:
    """Raise RequestError if a space has no place for a text, or none that a judge can time.

    The judge tries `tune` configurations of each candidate, all on the same arrays.
    """
    reasons = {
        "its kernel is a function in a Python file": space.python_language is not None,
        "a program generates its source": space.generated is not None,
        "its kernel returns its own time": space.returns_time,
        "it names no reference": space.operation.reference.kind == "none",
    }
    for reason, is_so in reasons.items():
        if is_so:
            raise RequestError(f"{space.name}: no candidate can be evaluated against it: {reason}")
    varying = [argument.name for argument in space.operation.arrays if argument.name in space.varying]
    if tune and varying:
        raise OptionError(
            f"{tune}: the shape or type of {', '.join(varying)} of {space.name} depends on the configuration; leave "
            "this option out, then candidates run with the space's default",
            "tune",
        )
