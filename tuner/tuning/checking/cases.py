"""What a check examines: the records of kernels on the devices of this machine, each with its kernel as it is now."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import devices, paths
from tuner.catalog import catalog
from tuner.catalog.matching import matching
from tuner.devices.conditions import Conditions
from tuner.errors import DeviceError, RequestError, SpaceError
from tuner.quoting import shown
from tuner.space import deployments
from tuner.space.sources.rendering import Version
from tuner.store.record import Record
from tuner.store.store import Store

if TYPE_CHECKING:
    from tuner.devices import DeviceInfo
    from tuner.space.computation import Operation
    from tuner.space.model import Space


@dataclass(frozen=True)
class Case:
    """A problem that has records on a device of this machine. `records` are all of it, the one that counts first."""

    space: Space
    device: DeviceInfo
    records: tuple[Record, ...]

    @property
    def record(self) -> Record:
        return self.records[0]


@dataclass
class Gathered:
    """What there is to check. `unusable` are kernels with records whose file cannot be used, with the reason, which is
    an error of the file or that there is none. `elsewhere` counts the records of other devices by name, `odd` those
    that are not compared by time, by reason."""

    cases: list[Case] = field(default_factory=list)
    unusable: dict[str, RequestError] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)
    odd: dict[str, int] = field(default_factory=dict)

    @property
    def left_out(self) -> str:
        """The records that are no cases, as in `3 of NVIDIA H200, 1 tuned for energy`; empty if there are none."""
        others = [f"{count} of {shown(name)}" for name, count in self.elsewhere.items() if count]
        return ", ".join([*others, *(f"{count} {reason}" for reason, count in self.odd.items() if count)])


class Machine:
    """The devices of this machine, each opened once to learn what it is."""

    def __init__(self, chosen: str | None) -> None:
        """`chosen` is the only device to use, by name; None: all. Raises DeviceError for a name that is none."""
        if chosen is not None:
            devices.split(chosen)
        self._chosen, self._known = chosen, dict[str, "DeviceInfo | None"]()

    def find(self, record: Record) -> DeviceInfo | None:
        """The device that a record is of; None if it is not here."""
        if self._chosen is not None:
            kind, number = devices.split(self._chosen)
            names = [f"{kind}:{number}"] if kind == record.kind else []
        else:
            count = devices.count(record.kind) if record.kind in devices.BACKENDS else 0
            names = [f"{record.kind}:{number}" for number in range(count)]
        found = (self._info(name) for name in names)
        return next((info for info in found if info is not None and info.name == record.device), None)

    def _info(self, name: str) -> DeviceInfo | None:
        if name not in self._known:
            try:
                opened = devices.open_device(name)
                self._known[name] = opened.info
                opened.close()
            except DeviceError:
                if self._chosen is not None:
                    raise
                self._known[name] = None
        return self._known[name]


def found(
    kernels: Sequence[str],
    results: Path | None,
    chosen: str | None,
    noted: Callable[[str], None],
    wanted: Callable[[Record], bool] = lambda record: True,
) -> Gathered:
    """The cases of these kernels (names, parts of names, families, patterns, files), or of all in the user's store.

    Only problems with a `wanted` record are cases, and only these records are counted elsewhere. Raises RequestError if
    a kernel has no records, DeviceError if the chosen device is not there.
    """
    machine, result = Machine(chosen), Gathered()
    for name in _names(kernels, results):
        try:
            space = catalog.load(name)
        except RequestError as error:
            result.unusable[name] = error
            continue
        store = Store.of(space, results)
        for problem in store.problems:
            noted(problem)
        _add(result, space, store.records, machine, wanted)
    return result


def _names(kernels: Sequence[str], results: Path | None) -> list[str]:
    """The names or files of kernels that may have records."""
    own = results or paths.user_results()
    if results is not None and not results.is_dir():
        raise RequestError(f"--results {shown(results)}: there is no such folder; name one that holds records")
    known = _stored(own)
    if not kernels:
        return known
    known = list(dict.fromkeys([*known, *_stored(paths.shipped("results"))]))
    chosen = []
    for text in kernels:
        file, _ = _file(text)
        if file is not None:  # which need not be known by its name
            chosen.append(str(file))
        else:
            chosen += matching(text, known)
    return list(dict.fromkeys(chosen))


def _file(text: str) -> tuple[Path | None, str]:
    """The space file that a word names, and its name in the store; None for any other word."""
    from tuner.catalog.folders import SUFFIXES

    return catalog.find(text) if Path(text).suffix in SUFFIXES else (None, "")


def _stored(folder: Path) -> list[str]:
    """The names of the kernels with files of records in a folder."""
    return sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.jsonl"))


def _add(
    result: Gathered, space: Space, records: Sequence[Record], machine: Machine, wanted: Callable[[Record], bool]
) -> None:
    version = Version.of(space)
    kinds = devices.kinds_of(space)
    here: dict[str, list[Record]] = {}
    on: dict[str, DeviceInfo] = {}
    problems = {record.problem for record in records if wanted(record)}
    for record in (each for each in records if each.problem in problems):
        device = machine.find(record) if record.kind in kinds else None
        if device is None:
            result.elsewhere[record.device] = result.elsewhere.get(record.device, 0) + wanted(record)
        elif reason := _odd(record, device):
            result.odd[reason] = result.odd.get(reason, 0) + wanted(record)
        else:
            here.setdefault(record.problem, []).append(record)
            on[record.problem] = device
    for problem, group in here.items():
        group.sort(key=lambda record: record.date, reverse=True)
        group.sort(key=lambda record: (not record.is_of(version), not record.is_verified))
        result.cases.append(Case(space, on[problem], tuple(group)))


def _odd(record: Record, device: DeviceInfo) -> str:
    """Why a record of a device is not compared; empty if it is."""
    if record.objective != "time":
        return f"tuned for {record.objective}"
    if deployments.of_caches(record.caches) is None:
        return f"measured with caches {shown(record.caches)}, which this version does not know"
    if difference := Conditions(record.conditions).instead_of(device.conditions):
        return f"measured with {difference}"
    return ""


def of_problem(record: Record, kernel: str, files: Iterable[Path]) -> list[Record]:
    """The records of the same problem in these files, the best first."""
    from tuner.store import record_file

    read = (record_file.read_or_pass(file, kernel)[0] for file in files)
    same = [each for each in itertools.chain.from_iterable(read) if each.problem == record.problem]
    return sorted(same, key=lambda each: (each.is_verified, each.date), reverse=True)


def is_of_operation(record: Record, op: Operation) -> bool:
    """Whether an operation has the sizes and types of a record."""
    are_types = all(name in op.types and dtype in op.types[name] for name, dtype in record.types.items())
    return record.sizes.keys() == op.sizes.keys() and are_types


def is_broken(error: RequestError) -> bool:
    """Whether a kernel's file is there but wrong, rather than missing."""
    return isinstance(error, SpaceError)
