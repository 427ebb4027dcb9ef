"""What a recording of somebody else's is of: what its file says, and what the user says where that is not all.

Where both say something they must agree: a wrong word would file times under a device or size that they are not of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner import devices, paths
from tuner.errors import RequestError
from tuner.exchange.recording import Recording
from tuner.space import catalog, operation
from tuner.space.model import Space, size_text

LONGEST = 200  # characters of a name


@dataclass(frozen=True)
class Statements:
    """What a user says of a file, which may not say it: which kernel it is of, at which size, on which device (its
    name) of which kind."""

    kernel: str | None = None
    size: str | None = None
    device: str | None = None
    kind: str | None = None
    output: Path | None = None  # where a space goes
    results: Path | None = None


@dataclass(frozen=True)
class Provenance:
    """What times are of."""

    space: Space
    device: str
    kind: str
    sizes: dict[str, int]


def of(where: str, found: Recording, stated: Statements) -> Provenance:
    """`where` names the file in messages. Raises RequestError where file and statements leave something out, or
    contradict each other."""
    space = _space(where, found, stated)
    return Provenance(
        space, _device(where, found, stated), _kind(where, found, space, stated), _sizes(where, found, space, stated)
    )


def _contradiction(where: str, what: str, said: object, given: str) -> RequestError:
    told = f"its {what} is {str(said)[:60]!r}, --{what} is {given[:60]!r}"
    return RequestError(f"{where}: {told}; leave --{what} out, or give the file that you mean")


def _space(where: str, found: Recording, stated: Statements) -> Space:
    """The kernel that the file names, by our name, or by an entry point and parameters that one of ours has; else the
    one that the user named."""
    said = _kernels(found)
    if stated.kernel is not None:
        space = catalog.load(stated.kernel)
        if said and space.name not in said and not (space.kernel == found.kernel and "kernel" not in found.about):
            raise _contradiction(where, "kernel", " or ".join(said), stated.kernel)
    else:
        ours = [catalog.load(name) for name in said]
        same = ours if len(ours) == 1 else [s for s in ours if s.parameters.keys() == found.parameters.keys()]
        if len(same) != 1:
            name = paths.shown(found.kernel[:60]) or "no name"
            raise RequestError(f"{where}: of a kernel with {name!r}, which is none of ours; name one by --kernel")
        space = same[0]
    if space.parameters.keys() != found.parameters.keys():
        theirs, own = (", ".join(map(str, names)) for names in (found.parameters, space.parameters))
        raise RequestError(
            f"{where}: its parameters are {paths.shown(theirs[:200])}; those of {space.name} are {own}; name another "
            "kernel by --kernel"
        )
    return space


def _kernels(found: Recording) -> list[str]:
    """The kernels of ours that the file may mean."""
    names = catalog.names()
    for said in (found.about.get("kernel"), found.kernel):
        if said in names:
            return [said]
    return [name for name in names if catalog.load(name).kernel == found.kernel] if found.kernel else []


def _device(where: str, found: Recording, stated: Statements) -> str:
    """The device's name; the user's spelling of it where both have it, since some files keep only letters and
    digits."""
    said, given = found.device, stated.device
    for source, name in ((f"{where}: its device", said), ("--device", given)):
        if name and not _is_name(name) and (given is None or name is given):
            raise RequestError(
                f"{source} is {name[:60]!r}; a device's name has at most {LONGEST} printable characters; write "
                "--device NAME"
            )
    if given is None:
        if not said:
            raise RequestError(f"{where}: does not name the device it was measured on; write --device NAME")
        return said
    if not given:
        raise RequestError("--device '': write the device's name as its maker does")
    if said and _is_name(said) and _plain(said) != _plain(given):
        raise _contradiction(where, "device", said, given)
    return given


def _is_name(text: str) -> bool:
    return text.isprintable() and len(text) <= LONGEST


def _plain(device: str) -> str:
    return re.sub(r"\W|_", "", device).casefold()


def _kind(where: str, found: Recording, space: Space, stated: Statements) -> str:
    """Where neither says it, the one of the kernel's first language."""
    kinds = {backend.language: kind for kind, backend in devices.BACKENDS.items()}
    spoken = [kinds[language] for language in space.languages]
    said, given = found.about.get("kind"), stated.kind
    for source, kind in ((f"{where}: its kind", said), ("--kind", given)):
        if kind is not None and kind not in spoken:
            raise RequestError(f"{source} is {str(kind)[:60]!r}; {space.name} runs on {' and '.join(spoken)}")
    if None not in (said, given) and said != given:
        raise _contradiction(where, "kind", said, str(given))
    return said or given or spoken[0]


def _sizes(where: str, found: Recording, space: Space, stated: Statements) -> dict[str, int]:
    """Sizes by name: as the file says, or as told."""
    op, said = space.operation, _said_sizes(found, space)
    if stated.size is not None:
        given = operation.parse_size(stated.size, op)
        if any(isinstance(value, int) and given.get(name, value) != value for name, value in said.items()):
            raise _contradiction(where, "size", size_text(said), size_text(given))
        return given
    missing = [name for name, default in op.sizes.items() if default is None and name not in said]
    if missing:
        known = f"its size is {paths.shown(str(found.size)[:60])}, which leaves" if found.size else "does not say"
        raise RequestError(f"{where}: {known} {', '.join(missing)} of {space.name}; write --size")
    try:
        return operation.parse_size(said, op)
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None


def _said_sizes(found: Recording, space: Space) -> dict[str, Any]:
    """What the file says of sizes: by name, or as Kernel Tuner's problem_size, where that is the result's extent."""
    op = space.operation
    sizes = found.about.get("sizes")
    given = sizes if isinstance(sizes, dict) else found.size
    if isinstance(given, int | list) and not isinstance(given, bool):
        values = given if isinstance(given, list) else [given]
        needed = [e for e in op.extent if op.sizes.get(e.text, 1) is None]
        if not len(needed) <= len(values) <= len(op.extent):
            return {}
        given = {e.text: n for e, n in zip(op.extent, values, strict=False) if e.text in op.sizes}
    return {str(name): value for name, value in given.items()} if isinstance(given, dict) else {}
