"""Frozen choices: what a process has looked up, in a file that makes other processes choose exactly that.

`tuner.freeze` writes the file, and TUNER_FROZEN names it.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.space.instance import Instance, checked
from tuner.space.sources.rendering import code
from tuner.space.texts import problem_text
from tuner.store.lookup import MATCHES, Candidate

if TYPE_CHECKING:
    from tuner.devices import Device
    from tuner.space.model import Space
    from tuner.space.scope import Scope

VARIABLE = "TUNER_FROZEN"
FORMAT, VERSION = "tuner frozen choices", 1
LIBRARY = "library"  # in place of a kernel's name: the vendor's library
MOST_CHARACTERS = 50_000_000  # of a file


@dataclass(frozen=True)
class LookUp:
    """What a call of `by` (load, dispatch) asks for: a kernel or a family by name, and a problem on a device. `more`
    are its other arguments that a choice depends on."""

    by: str
    name: str
    device: Device
    scope: Scope
    more: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Identifies it in a file, on each machine."""
        scope = self.scope
        problem = [sorted(each.items()) for each in (scope.sizes, scope.options, scope.types, self.more)]
        return json.dumps([self.by, self.name, self.device.kind, self.device.name, *problem])

    def __str__(self) -> str:
        more = "".join(f", {name}={value}" for name, value in self.more.items())
        at = problem_text(self.scope.sizes, self.scope.types)
        return f"{self.by} of {shown(self.name)} at {at}{shown(more)} on {self.device.name}"


@dataclass(frozen=True)
class FrozenChoice:
    """What a file says of a look-up: the kernel's name, or LIBRARY, its configuration, match and code."""

    file: Path
    look_up: LookUp
    kernel: str
    candidate: Candidate
    code: str

    def instance(self, space: Space) -> Instance:
        """The configuration of a kernel. Raises RequestError if the kernel's code is another now."""
        if code(space) != self.code:
            raise RequestError(
                f"{shown(self.file)}: {self.look_up}: {space.name} has changed since its choice was frozen; freeze "
                f"it again, or unset {VARIABLE}"
            )
        return checked(space, self.candidate.config, self.look_up.scope)

    def missing(self) -> RequestError:
        """The error if the kernel that was chosen is not there."""
        return RequestError(
            f"{shown(self.file)}: {self.look_up}: {shown(self.kernel)}, which was chosen, is not there; freeze it "
            f"again, or unset {VARIABLE}"
        )


_seen: dict[str, tuple[Space | None, Candidate]] = {}  # by the key of the look-up; None is the library


def note(look_up: LookUp, space: Space | None, candidate: Candidate) -> None:
    """Remember what a look-up has chosen; no space means the vendor's library."""
    _seen[look_up.key] = space, candidate


def freeze(path: str | Path) -> None:
    """Write what this process has looked up by `tuner.load`, `tuner.dispatch` and `tuner.matmul` so far to a file.

    In a process with the environment variable TUNER_FROZEN set to the path of this file, each look-up has the same
    result: the same kernel in the same configuration, or the vendor's library, whatever any store has by then. A
    look-up that the file does not have raises RequestError, and so does a kernel that has changed.

    Args:
        path: The file to write. It replaces one that is there.

    Raises RequestError if nothing was looked up, or if the file cannot be written.

    Example::

        import tuner

        kernel = tuner.load("sgemm/01_host_blocked", 64)
        tuner.freeze("choices.json")
    """
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise RequestError(f"freeze({quoted(path)}): write the path of a file")
    if not _seen:
        raise RequestError(
            f"freeze({quoted(str(path))}): this process has looked up nothing yet; call it after tuner.load, or "
            "after the first calls of what tuner.dispatch returned"
        )
    choices = {
        key: {
            "kernel": LIBRARY if space is None else space.name,
            "config": dict(candidate.config),
            "match": candidate.match,
            "code": "" if space is None else code(space),
        }
        for key, (space, candidate) in sorted(_seen.items())
    }
    text = json.dumps({"format": FORMAT, "version": VERSION, "choices": choices}, indent=1)
    with paths.writing(f"freeze({quoted(str(path))})", "name another file"):
        paths.replace(Path(path), f"{text}\n".encode())


def choice(look_up: LookUp) -> FrozenChoice | None:
    """What the file that TUNER_FROZEN names says of a look-up; None if the variable is not set.

    Raises RequestError if it does not say anything, or if the file cannot be read.
    """
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    file = Path(name)
    try:
        status = file.stat()
        choices = _read(file, (status.st_ino, status.st_mtime_ns, status.st_size))
    except OSError as error:
        raise RequestError(f"{VARIABLE}={shown(name)}: cannot be read: {error.strerror}; {_ADVICE}") from None
    found = choices.get(look_up.key)
    if found is None:
        raise RequestError(f"{VARIABLE}={shown(name)}: has no choice for {look_up}; {_ADVICE}")
    return FrozenChoice(file, look_up, found["kernel"], Candidate(found["config"], found["match"]), found["code"])


_ADVICE = "write it by tuner.freeze in a process that has looked up the same, or unset the variable"


@functools.lru_cache(maxsize=4)
def _read(file: Path, _version: tuple[int, ...]) -> Mapping[str, Any]:
    """The choices in a file, by key. Raises OSError, and RequestError if they are none."""
    try:
        data = json.loads(paths.read_text(file, MOST_CHARACTERS))
        if data["format"] != FORMAT:
            raise ValueError(data["format"])
        if data["version"] != VERSION:
            raise RequestError(f"{VARIABLE}={shown(file)}: was written by another version of tuner; {_ADVICE}")
        choices: dict[str, Any] = data["choices"]
        for each in choices.values():
            if not (
                isinstance(each["kernel"], str)
                and isinstance(each["config"], dict)
                and isinstance(each["code"], str)
                and each["match"] in MATCHES
            ):
                raise ValueError(each)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise RequestError(f"{VARIABLE}={shown(file)}: not a file that tuner.freeze wrote; {_ADVICE}") from None
    return choices
