"""The provenance of an imported recording: its kernel, device and problem, from the file and from the user.

If the file and the user both name something, they must agree: otherwise times would be stored under a device or size
with which they were not measured.
"""

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.catalog import catalog, kernel_lists
from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.space import chosen_types, parsing
from tuner.space.model import Space
from tuner.space.scope import Limits
from tuner.space.texts import size_text
from tuner.tuning.recordings.recording import Recording

LONGEST = 200  # characters in a device's or architecture's name


@dataclass(frozen=True)
class Statements:
    """The user's options for `tune import`: kernel, size, types, the device's name and kind. `output` is the space file
    to write, `results` the store's folder."""

    kernel: str | None = None
    size: str | None = None
    device: str | None = None
    kind: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    output: Path | None = None
    results: Path | None = None


@dataclass(frozen=True)
class Provenance:
    """The kernel, device, sizes, types and options with which times were measured."""

    space: Space
    device: str
    kind: str
    sizes: dict[str, int]
    types: dict[str, str]
    options: dict[str, float]


def of(where: str, recording: Recording, statements: Statements) -> Provenance:
    """The provenance of a recording. `where` names its file in messages.

    Raises RequestError if the file and the user leave something open, or contradict each other.
    """
    space = _space(where, recording, statements)
    device = _device(where, recording, statements)
    kind = _kind(where, recording, space, statements)
    types = _types(where, recording, space, statements)
    try:
        options = parsing.parse_options(recording.options, space.operation, types)
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None
    sizes = _sizes(where, recording, space, types, options, statements)
    return Provenance(space, device, kind, sizes, types, options)


def _contradiction(where: str, what: str, file_value: object, user_value: str) -> RequestError:
    values = f"its {what} is {str(file_value)[:60]!r}, but --{what} is {user_value[:60]!r}"
    return RequestError(f"{where}: {values}; leave --{what} out, or give another file")


def _space(where: str, recording: Recording, statements: Statements) -> Space:
    """The kernel that the user names, else the one that the file names: by tuner's name, or by a kernel function and
    parameters that exactly one known kernel has."""
    if statements.kernel is not None:
        space = catalog.load(statements.kernel)
        same_entry = space.kernels == recording.kernel and "kernel" not in recording.about
        if not same_entry and (names := _kernels(recording)) and space.name not in names:
            raise _contradiction(where, "kernel", " or ".join(names), statements.kernel)
    else:
        spaces = [catalog.load(name) for name in _kernels(recording)]
        if len(spaces) > 1:
            spaces = [space for space in spaces if _same_parameters(space, recording)]
        if len(spaces) != 1:
            name = shown(recording.kernel[:60]) or "no name"
            raise RequestError(f"{where}: no known kernel has the function {name!r}; name the kernel with --kernel")
        space = spaces[0]
    if not _same_parameters(space, recording):
        theirs, ours = (", ".join(parameters) for parameters in (recording.parameters, space.parameters))
        raise RequestError(
            f"{where}: its parameters are {shown(theirs[:200])}, but those of {space.name} are {ours}; name another "
            "kernel with --kernel"
        )
    return space


def _same_parameters(space: Space, recording: Recording) -> bool:
    """Whether both have the same parameters, ignoring those of a single value. Kernel Tuner's users often declare a
    constant as a parameter, or leave out a parameter of a single value."""
    ours, theirs = space.parameters, recording.parameters
    unshared = [values for name, values in (*ours.items(), *theirs.items()) if (name in ours) != (name in theirs)]
    return bool(ours.keys() & theirs.keys()) and all(len(values) == 1 for values in unshared)


def _kernels(recording: Recording) -> list[str]:
    """The names of the known kernels that the file may mean."""
    for name in (recording.about.get("kernel"), recording.kernel):
        if isinstance(name, str) and catalog.known(name):
            return [name]
    entries = [*kernel_lists.shipped(), *kernel_lists.own()[0]] if recording.kernel else []
    return [entry.name for entry, space in catalog.loaded(entries, []) if space.kernels == recording.kernel]


def _device(where: str, recording: Recording, statements: Statements) -> str:
    """The device's name, in the user's spelling if given: some files retain only letters and digits."""
    file_device, user_device = recording.device, statements.device
    for source, name in ((f"{where}: its device", file_device), ("--device", user_device)):
        if name and not _is_name(name) and (user_device is None or name is user_device):
            raise RequestError(
                f"{source} is {name[:60]!r}; a device's name has at most {LONGEST} characters, all printable; write "
                "--device NAME"
            )
    if user_device is None:
        if not file_device:
            raise RequestError(f"{where}: does not name the device; write --device NAME")
        return file_device
    if not user_device:
        raise RequestError("--device '': write the device's name as its vendor does")
    if file_device and _is_name(file_device) and _letters(file_device) != _letters(user_device):
        raise _contradiction(where, "device", file_device, user_device)
    return user_device


def _is_name(text: str) -> bool:
    return text.isprintable() and len(text) <= LONGEST


def _letters(device: str) -> str:
    """The letters and digits of a name, case-folded."""
    return re.sub(r"\W|_", "", device).casefold()


def _kind(where: str, recording: Recording, space: Space, statements: Statements) -> str:
    """The kind of device that the file or the user names, else the kind of the kernel's first language."""
    kinds = sorted(devices.kinds_of(space), key=lambda k: space.languages.index(devices.BACKENDS[k].language))
    file_kind, user_kind = recording.about.get("kind"), statements.kind
    for source, kind in ((f"{where}: its kind", file_kind), ("--kind", user_kind)):
        if kind is not None and kind not in kinds:
            raise RequestError(f"{source} is {str(kind)[:60]!r}; {space.name} runs on {' and '.join(kinds)}")
    if None not in (file_kind, user_kind) and file_kind != user_kind:
        raise _contradiction(where, "kind", file_kind, str(user_kind))
    return file_kind or user_kind or kinds[0]


def _types(where: str, recording: Recording, space: Space, statements: Statements) -> dict[str, str]:
    """The types by name: the user's, else the file's, else the defaults."""
    given = recording.about.get("types") or {}
    try:
        of_file = chosen_types.parse(given, space.operation)
    except RequestError as error:
        raise RequestError(f"{where}: {error}") from None
    types = chosen_types.parse({**given, **statements.types}, space.operation)
    if any(types[name] != of_file[name] for name in given):
        raise _contradiction(where, "type", _text(of_file), _text(types))
    return types


def _text(types: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in types.items())


def _sizes(
    where: str,
    recording: Recording,
    space: Space,
    types: Mapping[str, str],
    options: Mapping[str, float],
    statements: Statements,
) -> dict[str, int]:
    """The sizes by name: the user's, else the file's."""
    op, file_sizes = space.operation, _file_sizes(recording, space)
    if statements.size is not None:
        sizes = parsing.parse_size(statements.size, op, types)
        if any(isinstance(size, int) and sizes.get(name, size) != size for name, size in file_sizes.items()):
            raise _contradiction(where, "size", size_text(file_sizes), size_text(sizes))
        if _fits(recording, space, sizes, types, options) is False:
            error = _contradiction(where, "size", "x".join(map(str, _numbers(recording))), size_text(sizes))
            raise RequestError(f"{error}; if the file's is another extent, write it as `extent:` of the operation")
        return sizes
    missing = [name for name, default in op.sizes.items() if default is None and name not in file_sizes]
    if not missing:
        try:
            sizes = parsing.parse_size(file_sizes, op, types)
        except RequestError as error:
            raise RequestError(f"{where}: {error}") from None
        if _fits(recording, space, sizes, types, options) is not False:
            return sizes
        missing = [name for name in op.sizes if name not in file_sizes] or [*op.sizes]
    size = shown(str(recording.size)[:60])
    gap = f"its size {size} does not determine" if recording.size else "does not name"
    raise RequestError(f"{where}: {gap} the sizes {', '.join(missing)} of {space.name}; write --size")


def says_size(recording: Recording, origin: Provenance) -> bool:
    """Whether the file itself says `origin.sizes`, or an extent that follows from them."""
    space = origin.space
    fits = _fits(recording, space, origin.sizes, origin.types, origin.options)
    return bool(fits) or bool(_file_sizes(recording, space))


def _fits(
    recording: Recording,
    space: Space,
    sizes: Mapping[str, int],
    types: Mapping[str, str],
    options: Mapping[str, float],
) -> bool | None:
    """Whether Kernel Tuner's problem_size is the extent of the result at `sizes`; None if the two cannot be compared.

    Without an `extent:`, problem_size has the sizes in their order. Its trailing numbers 1 do not count. Neither do
    extents that it leaves out, if these have defaults.
    """
    numbers, op = _numbers(recording), space.operation
    if isinstance(recording.about.get("sizes"), dict):
        return None  # the file names all sizes
    if op.extent:
        scope = op.scope(sizes, options, space.languages[0], Limits(), types)
        expected = [extent.integer(scope.names) for extent in op.extent]
        required = sum(op.sizes.get(extent.text, 1) is None for extent in op.extent)
    else:
        expected, required = list(sizes.values()), sum(default is None for default in op.sizes.values())
    while len(numbers) > max(required, 1) and numbers[-1] == 1:
        numbers.pop()
    if not max(required, 1) <= len(numbers) <= len(expected):
        return None
    return numbers == expected[: len(numbers)]


def _numbers(recording: Recording) -> list[int]:
    """Kernel Tuner's problem_size; empty if it is anything but whole numbers."""
    size = recording.size
    numbers = size if isinstance(size, list) else [size]
    return [*numbers] if all(isinstance(n, int) and not isinstance(n, bool) for n in numbers) else []


def _file_sizes(recording: Recording, space: Space) -> dict[str, Any]:
    """The file's sizes by name. Kernel Tuner's problem_size determines only the sizes in the result's extent."""
    op = space.operation
    sizes = recording.about.get("sizes")
    sizes = sizes if isinstance(sizes, dict) else recording.size
    if isinstance(sizes, int | list) and not isinstance(sizes, bool):
        numbers = sizes if isinstance(sizes, list) else [sizes]
        required = [extent for extent in op.extent if op.sizes.get(extent.text, 1) is None]
        if not len(required) <= len(numbers) <= len(op.extent):
            return {}
        sizes = {e.text: number for e, number in zip(op.extent, numbers, strict=False) if e.text in op.sizes}
    return {str(name): size for name, size in sizes.items()} if isinstance(sizes, dict) else {}
