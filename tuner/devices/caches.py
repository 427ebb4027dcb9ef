"""The caches of this machine's processors, as Linux's sysfs lists them."""

import functools
from collections.abc import Collection, Sequence
from pathlib import Path

from tuner.classes import dataclass

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_PROCESSORS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Cache:
    """A cache of `nbytes` bytes, and the numbers of the processors that share it."""

    level: int
    nbytes: int
    processors: frozenset[int]

    def share(self, processors: Collection[int]) -> int:
        """The part in bytes of each of these processors."""
        return -(-self.nbytes // max(1, len(self.processors.intersection(processors))))


@functools.cache
def of(processor: int) -> Sequence[Cache]:
    """The caches of a processor that hold data; none if they are not listed."""
    found = list[Cache]()
    for folder in (_PROCESSORS / f"cpu{processor}" / "cache").glob("index*"):
        try:
            if _text(folder / "type") == "Instruction":
                continue
            size = _text(folder / "size")
            nbytes = int(size[:-1]) * _UNITS[size[-1]]
            found.append(Cache(int(_text(folder / "level")), nbytes, _numbers(_text(folder / "shared_cpu_list"))))
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return found


@functools.cache
def last_level() -> int | None:
    """The total size of all last-level caches, in bytes; None if the system does not list them."""
    found = {cache for folder in _PROCESSORS.glob("cpu[0-9]*") for cache in of(int(folder.name[3:]))}
    last = max((cache.level for cache in found), default=0)
    return sum(cache.nbytes for cache in found if cache.level == last) or None


def _numbers(text: str) -> frozenset[int]:
    """`0-2,5` as numbers."""
    ends = [part.partition("-") for part in text.split(",")]
    return frozenset(number for first, _, last in ends for number in range(int(first), int(last or first) + 1))


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
