"""A time table: the times of a kernel's configurations at many sizes on one machine, and its forms in files."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.classes import cached_property, dataclass
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.space.config import Config, ConfigKey, config_key
from tuner.space.deployments import CACHES, GRAPH, ISOLATED, Deployment

if TYPE_CHECKING:
    from tuner.prediction.array_file import Arrays
    from tuner.prediction.grids import Sizes
    from tuner.store.lookup import Query

DIGITS = 4  # significant digits of a time, so that it is at most 0.05 % off
DECADE = 9 * 10 ** (DIGITS - 1)  # mantissas of DIGITS digits
LEAST_EXPONENT, MOST_EXPONENT = -12, 12  # of a time in ms


@dataclass(frozen=True)
class TableHead:
    """The machine and the problem of a table.

    `code` identifies the kernel's code when it was measured (`Version`). `names` is the order of the sizes. `units` is
    the device's number of multiprocessors, `launch_ms` the launch overhead of the machine in ms; both are 0 if unknown.
    `deployment` is how the kernel was launched; the launch overhead is that of a kernel launched in the same way.
    """

    kind: str
    device: str
    code: str
    names: tuple[str, ...]
    options: Mapping[str, float]
    types: Mapping[str, str]
    architecture: str = ""
    units: int = 0
    launch_ms: float = 0.0
    conditions: Conditions = DEFAULT
    deployment: Deployment = ISOLATED

    @property
    def key(self) -> str:
        """Identifies the device, conditions, code, options, types, launch overhead and deployment; a file has one table
        per key."""
        options, types = sorted(self.options.items()), sorted(self.types.items())
        about = [self.kind, self.device, self.code, self.names, options, types, float(self.launch_ms)]
        about += [self.deployment] if self.deployment != ISOLATED else []
        return json.dumps([*about, sorted(self.conditions.values.items())])

    def serves(self, query: Query) -> bool:
        """Whether it is of the query's device and conditions, of its kernel's current version, of its options and
        types, and of launches alone or in graphs."""
        options, names = query.scope.options, tuple(query.space.operation.sizes)
        asked = query.kind, query.device, query.conditions, query.version.code
        is_current = (self.kind, self.device, self.conditions, self.code) == asked
        is_problem = self.names == names and self.types == query.scope.types and self.deployment in (ISOLATED, GRAPH)
        return is_current and is_problem and all(self.options.get(o) == options[o] for o in query.space.fixed_options)

    def about(self) -> dict[str, Any]:
        """The head in a file's form."""
        return {
            "kind": self.kind,
            "device": self.device,
            "architecture": self.architecture,
            "units": self.units,
            "launch_ms": self.launch_ms,
            "code": self.code,
            "names": list(self.names),
            "options": dict(self.options),
            "types": dict(self.types),
            **({"conditions": dict(self.conditions.values)} if self.conditions else {}),
            **({"deployment": self.deployment} if self.deployment != ISOLATED else {}),
        }


@dataclass(frozen=True)
class TimeTable(TableHead):
    """The times in ms of a kernel's configurations and of the library, by sizes in the order of `names`."""

    configs: dict[ConfigKey, Config] = field(default_factory=dict)
    times: dict[ConfigKey, dict[Sizes, float]] = field(default_factory=dict)
    library: dict[Sizes, float] = field(default_factory=dict)

    @property
    def sizes(self) -> list[Sizes]:
        """All sizes with a time, sorted."""
        return sorted({*self.library, *(sizes for times in self.times.values() for sizes in times)})

    @property
    def count(self) -> int:
        """The number of times, without the library's."""
        return sum(map(len, self.times.values()))

    def add(self, config: Config, sizes: Sizes, time_ms: float) -> None:
        """Add a time in ms, replacing an earlier one of the same configuration and sizes."""
        key = config_key(config)
        self.configs.setdefault(key, dict(config))
        self.times.setdefault(key, {})[sizes] = time_ms

    def take(self, other: TimeTable) -> None:
        """Add the times of another table with the same key that this one lacks."""
        for key, config in other.configs.items():
            self.configs.setdefault(key, config)
            self.times[key] = {**other.times[key], **self.times.get(key, {})}
        self.library.update({**other.library, **self.library})

    def to_json(self) -> dict[str, Any]:
        """The table as text for people: the sizes once, and a row of times for each configuration."""
        sizes = self.sizes
        return {
            **self.about(),
            "sizes": [list(each) for each in sizes],
            "library_ms": _row(self.library, sizes),
            "configs": [
                {"config": config, "times_ms": _row(self.times[key], sizes)} for key, config in self.configs.items()
            ],
        }

    @staticmethod
    def from_json(data: Any) -> TimeTable:
        """The table of this text. Raises ValueError if it is invalid."""
        head = head_of(data)
        try:
            sizes = _checked([tuple(each) for each in data["sizes"]], head)
            table = TimeTable(**_fields(head))
            for row in data["configs"]:
                key = config_key(row["config"])
                table.configs[key], table.times[key] = row["config"], _timed(sizes, row["times_ms"])
            table.library.update(_timed(sizes, data["library_ms"]))
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        return table

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The times in a file's form: the differences of consecutive sizes, which of them each configuration has, and
        its times there; the library is the last. A time is a number of steps from the least one: DECADE steps of equal
        length to each power of ten."""
        sizes, rows = self.sizes, [*(self.times[key] for key in self.configs), self.library]
        numbers = np.array(sizes, np.int64).reshape(len(sizes), len(self.names))
        known = np.array([[each in row for each in sizes] for row in rows], bool).reshape(len(rows), len(sizes))
        times = [row[each] for row in rows for each in sizes if each in row]
        steps = np.array([_steps(time_ms) for time_ms in times], np.int64)
        base = int(steps.min(initial=0) if len(steps) else 0)
        narrow = np.uint16 if steps.max(initial=base) - base <= np.iinfo(np.uint16).max else np.uint32
        return {
            "sizes": np.diff(numbers, axis=0, prepend=0),
            "known": np.packbits(known, axis=1),
            "times": (steps - base).astype(narrow),
            "base": np.array([base], np.int64),
        }

    @staticmethod
    def from_arrays(head: TableHead, configs: Sequence[Config], arrays: Arrays) -> TimeTable:
        """The table of a file's form. Raises ValueError if it is invalid."""
        try:
            sizes = _checked([*map(tuple, arrays["sizes"].cumsum(axis=0).tolist())], head)
            known = np.unpackbits(arrays["known"], axis=1, count=len(sizes)).astype(bool)
            times = _times(arrays["times"].astype(np.int64) + int(arrays["base"][0]))
            if len(known) != len(configs) + 1 or known.sum() != len(times):
                raise ValueError("there are other numbers of configurations and times")
            table, values = TimeTable(**_fields(head)), iter(times)
            for config, row in zip((*configs, None), known, strict=True):
                timed = {sizes[place]: next(values) for place in np.flatnonzero(row).tolist()}
                if config is None:
                    table.library.update(timed)
                else:
                    key = config_key(config)
                    table.configs[key], table.times[key] = config, timed
        except (LookupError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        return table


class StoredTable:
    """A table in a file: its head and the number of its times, without the times. `digest` identifies its content."""

    def __init__(self, head: TableHead, count: int, digest: str, load: Callable[[], TimeTable]) -> None:
        self.head, self.count, self.digest, self._load = head, count, digest, load

    @staticmethod
    def of(table: TimeTable) -> StoredTable:
        """A table that is in no file."""
        return StoredTable(table, table.count, "", lambda: table)

    @cached_property
    def table(self) -> TimeTable:
        """The table with its times. Raises ValueError if they are damaged."""
        return self._load()


def head_of(data: Any) -> TableHead:
    """The head of a file's form. Raises ValueError if it is invalid."""
    try:
        names = tuple(data["names"])
        kind, device, code = texts = [data[name] for name in ("kind", "device", "code")]
        architecture, units, launch_ms = data.get("architecture", ""), data.get("units", 0), data.get("launch_ms", 0.0)
        head = TableHead(
            kind, device, code, names, dict(data["options"]), dict(data["types"]), architecture, units, launch_ms,
            Conditions(dict(data.get("conditions", {}))), data.get("deployment", ISOLATED),
        )  # fmt: skip
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    if not all(isinstance(text, str) for text in (*texts, architecture, *names)) or type(units) is not int or units < 0:
        raise ValueError("kind, device, architecture, code and names are texts, units is a whole number")
    if head.deployment not in CACHES:
        raise ValueError(f"deployment is one of {', '.join(CACHES)}")
    if type(launch_ms) not in (int, float) or not 0 <= launch_ms < math.inf:
        raise ValueError("launch_ms is a number from 0 on")
    return head


def _fields(head: TableHead) -> dict[str, Any]:
    return {each.name: getattr(head, each.name) for each in fields(TableHead)}


def _checked(sizes: list[Sizes], head: TableHead) -> list[Sizes]:
    """The sizes. Raises ValueError if they do not fit the head."""
    numbers = [*itertools.chain.from_iterable(sizes)]
    if not ({*map(len, sizes)} <= {len(head.names)} and {*map(type, numbers)} <= {int} and min(numbers, default=1) > 0):
        raise ValueError("sizes are whole numbers from 1 on, as many as names")
    return sizes


def _row(times: Mapping[Sizes, float], sizes: Sequence[Sizes]) -> list[float | None]:
    return [float(f"{times[each]:.{DIGITS}g}") if each in times else None for each in sizes]


def _timed(sizes: Sequence[Sizes], times: Sequence[float | None]) -> dict[Sizes, float]:
    """The known times of a row, by sizes. Raises ValueError if a time is invalid or the lengths differ."""
    known = {each: time for each, time in zip(sizes, times, strict=True) if time is not None}
    values = known.values()
    if not {*map(type, values)} <= {int, float} or not math.isfinite(sum(values)) or min(values, default=1) <= 0:
        raise ValueError("a time is a positive number, or null")
    return known


def _steps(time_ms: float) -> int:
    """The steps from 10^LEAST_EXPONENT ms to this time; from or to the nearest time in range."""
    mantissa, exponent = f"{time_ms:.{DIGITS - 1}e}".split("e")
    if not LEAST_EXPONENT <= int(exponent) < MOST_EXPONENT:
        return 0 if int(exponent) < 0 else DECADE * (MOST_EXPONENT - LEAST_EXPONENT) - 1
    digits = int(mantissa.replace(".", ""))
    return int((int(exponent) - LEAST_EXPONENT) * DECADE + digits - DECADE // 9)


def _times(steps: np.ndarray[Any, Any]) -> list[float]:
    """The times of these steps. Raises ValueError if one is out of range."""
    exponents, digits = np.divmod(steps, DECADE)
    if len(steps) and (steps.min() < 0 or exponents.max() >= MOST_EXPONENT - LEAST_EXPONENT):
        raise ValueError("a time is out of range")
    # A quotient or a product of two whole numbers that are powers of ten is the float nearest to the decimal number.
    powers = exponents + LEAST_EXPONENT - (DIGITS - 1)
    numbers = (digits + DECADE // 9).astype(float)
    scale = 10.0 ** np.abs(powers)
    times: list[float] = np.where(powers < 0, numbers / scale, numbers * scale).tolist()
    return times
