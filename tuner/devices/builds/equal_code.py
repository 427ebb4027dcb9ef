"""Find parameters whose values give the same code: their binaries are equal without names and compiler options.

Values that do not compile are found on the way.
"""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tuner.devices.builds.build import Build
from tuner.devices.builds.compiler import Compiler
from tuner.errors import BuildError, DeviceError, EnvironmentTrouble, SpaceError, TrialError
from tuner.paths import digest
from tuner.quoting import plain, shown
from tuner.space.config import Config, ConfigKey, Value, config_key
from tuner.space.file import sample
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.sources import same_code
from tuner.space.sources.rendering import render
from tuner.space.sources.source import Source
from tuner.space.texts import problem_text, size_text

MOST_BUILDS = 32  # that a check compiles
MOST_SECONDS = 20.0  # of compiling, after which a check knows nothing more
LARGER = 16  # times as large is the size that a message advises to try
MOST_GROUPS = 8  # configurations around which a check varies a parameter
_ELF, _NOBITS, _NOTE, _LINKING = b"\x7fELF\x02\x01", 8, 7, (2, 3, 11)  # of 64 bits; section types
_SIZED, _MAXREG_COUNT = 4, 0x1B  # a format and a number of attributes in .nv.info
_NO_CODE = (b".debug", b".comment", b".gnu.hash", b".gnu.version", b".nv_debug")

Builds = Callable[[Source], "Build | None"]  # None if a build is unknown
Groups = Mapping[str, Sequence[Sequence[Instance]]]  # by parameter: instances that differ in it alone


def of_default(space: Space, default: Instance, compiler: Compiler) -> list[str]:
    """Messages about the parameters whose values give the same code, around the default and other configurations, and
    about values that do not compile with the default's other values.

    At most MOST_BUILDS configurations are compiled, within MOST_SECONDS. Of a parameter's values beside the default's
    others, the last is compiled, and the rest if a build with one of them failed.
    """
    tried = list(itertools.islice(sample.instances(space, default.problem, 2 * MOST_GROUPS), sample.SIZE))
    bases = [default.config, *(tried[position].config for position in (len(tried) // 2, -1) if tried)]
    groups: dict[str, list[list[Instance]]] = {}
    for name in space.parameters:
        others = {_without(base, name): base for base in bases}
        varied = (list(_varied(space, default.problem, base, name)) for base in others.values())
        groups[name] = [group for group in varied if len(group) > 1]
    builds = _Bounded(compiler)
    return [*_messages(groups, builds), *_uncompiled(default, groups, builds)]


def of_trials(space: Space, scope: Scope, configs: Iterable[Config], builds: Builds) -> list[str]:
    """Messages about the parameters whose values gave the same code in all of `configs` whose builds are known."""
    measured = list(configs)
    groups: dict[str, list[list[Instance]]] = {}
    for name in space.parameters:
        alike: dict[ConfigKey, list[Instance]] = {}
        for config in measured:
            alike.setdefault(_without(config, name), []).append(Instance(space, config, scope))
        groups[name] = [group for group in alike.values() if len(group) > 1][:MOST_GROUPS]
    return _messages(groups, builds)


def _without(config: Mapping[str, Value], name: str) -> ConfigKey:
    """The values of all parameters but one."""
    return config_key({other: value for other, value in config.items() if other != name})


def _varied(space: Space, scope: Scope, base: Mapping[str, Value], name: str) -> Iterator[Instance]:
    """The valid instances that differ from `base` in one parameter alone."""
    for value in space.parameters[name]:
        config = {**base, name: value}
        if space.valid(config, scope):
            yield Instance(space, config, scope)


class _Bounded:
    """Builds, until there were too many or they took too long. `errors` are those of sources that do not compile."""

    def __init__(self, compiler: Compiler) -> None:
        self.errors: dict[Source, BuildError] = {}
        self._compiler = compiler
        self._found: dict[Source, Build | None] = {}
        self._end = time.monotonic() + MOST_SECONDS

    def __call__(self, source: Source) -> Build | None:
        if source not in self._found:
            self._found[source] = self._build(source)
        return self._found[source]

    def _build(self, source: Source) -> Build | None:
        is_other = any(build is not None and not build.binary.startswith(_ELF) for build in self._found.values())
        if len(self._found) >= MOST_BUILDS or time.monotonic() > self._end or is_other:
            return None
        try:
            return self._compiler.build(source)
        except BuildError as error:
            self.errors[source] = error
        except (DeviceError, EnvironmentTrouble, TrialError):
            pass  # the run itself reports them
        return None


def _messages(groups: Groups, builds: Builds) -> list[str]:
    return [
        _message(name, alike)
        for name, alike in groups.items()
        if alike and all(is_same(group[0], other, builds) for group in alike for other in reversed(group[1:]))
    ]


def _message(name: str, groups: Sequence[Sequence[Instance]]) -> str:
    values = dict.fromkeys(str(instance.config[name]) for group in groups for instance in group)
    others = "one choice" if len(groups) == 1 else f"{len(groups)} choices"
    problem = groups[0][0].problem
    larger = size_text({size: number * LARGER for size, number in problem.sizes.items()})
    return (
        f"parameters.{name}: {shown(', '.join(values))} give the same code and the same launch with {others} of the "
        f"other parameters at {problem_text(problem.sizes, problem.types)}, so they make no difference there; try a "
        f"larger size, such as {larger}; if nothing changes, remove it, or find out why the compiler ignores it"
    )


def _uncompiled(default: Instance, groups: Groups, builds: _Bounded) -> Iterator[str]:
    """Messages about the values that do not compile with the default's other values."""
    for name, alike in groups.items():
        others = _without(default.config, name)
        group = next((group for group in alike if _without(group[0].config, name) == others), ())
        is_known = any(source in builds.errors for each in group for source in _sources(each))
        if not is_known and (not group or _error(group[-1], builds) is None):
            continue
        errors = {each.config[name]: error for each in group if (error := _error(each, builds))}
        lines = plain(next(iter(errors.values()))).splitlines()
        fault = next((line for line in lines if "error" in line), "".join(lines[:1]))
        yield (
            f"parameters.{name}: with the default's other values, {shown(', '.join(map(str, errors)))} cannot be "
            f"compiled: {shown(fault.strip())}; remove what never compiles, or exclude it by `restrictions:`"
        )


def _error(instance: Instance, builds: _Bounded) -> BuildError | None:
    for source in _sources(instance):
        if builds(source) is None and (error := builds.errors.get(source)):
            return error
    return None


def _sources(instance: Instance) -> list[Source]:
    try:
        return [step.source for step in render(instance)]
    except (SpaceError, TrialError):
        return []


def is_same(one: Instance, other: Instance, builds: Builds) -> bool:
    """Whether two instances certainly have the same code, launch and arguments. Errors are for the run to report.

    Machine code is compared if `builds` knows both builds, else the preprocessed sources.
    """
    try:
        return _is_same(one, other, builds)
    except (DeviceError, EnvironmentTrouble, SpaceError, TrialError):
        return False


def _is_same(one: Instance, other: Instance, builds: Builds) -> bool:
    if not same_code.have_same_arguments(one, other):
        return False
    steps = list(zip(render(one), render(other), strict=True))
    if any((a.geometry, a.arguments) != (b.geometry, b.arguments) for a, b in steps):
        return False
    codes = [[code(builds(each.source), each.kernel) for each in pair] for pair in steps]
    if any(None in pair for pair in codes):
        return same_code.is_same_code(one, other)
    return all(first == second for first, second in codes)


def code(build: Build | None, kernel: str) -> str | None:
    """A hash of a binary without the name of its kernel, the compiler's options and debug information.

    None if it is unknown, or no ELF file of 64 bits, as cubins and shared libraries are.
    """
    if build is None or not build.binary.startswith(_ELF):
        return None
    entry = build.entry(kernel).encode()
    try:
        sections = sorted(_sections(build.binary, entry))
    except (struct.error, IndexError, ValueError):
        return None
    return digest(*(f"{name!r} {size} {content.hex()}" for name, size, content in sections))


def _sections(binary: bytes, entry: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """The sections of an ELF file that hold code or data: name without that of the kernel, size, and content."""
    (table,) = struct.unpack_from("<Q", binary, 0x28)
    size, count, of_names = struct.unpack_from("<HHH", binary, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", binary, table + number * size) for number in range(count)]
    names = binary[headers[of_names][4] :]
    for name, kind, _, _, offset, length, *_ in headers:
        title = names[name : names.index(b"\0", name)]
        if kind not in (_NOTE, *_LINKING) and not title.startswith(_NO_CODE):
            content = b"" if kind == _NOBITS else binary[offset : offset + length]
            content = _without_register_limit(content) if title.startswith(b".nv.info") else content
            yield title.replace(entry, b""), length, content


def _without_register_limit(attributes: bytes) -> bytes:
    """The attributes of a cubin's kernel without `-maxrregcount`, which it records although the code may not reach it.

    An attribute is a format, a number, and 16 bits: its value, or the length of what follows. NVIDIA documents no
    format; `cuobjdump -elf` shows it as EIATTR_MAXREG_COUNT.
    """
    kept, offset = b"", 0
    while offset < len(attributes):
        form, number, value = struct.unpack_from("<BBH", attributes, offset)
        end = offset + 4 + (value if form == _SIZED else 0)
        if number != _MAXREG_COUNT:
            kept += attributes[offset:end]
        offset = end
    return kept
