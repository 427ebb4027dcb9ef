"""The size of the last-level caches of this machine's CPUs."""

import functools
from pathlib import Path

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def last_level() -> int | None:
    """The total size of all last-level caches, in bytes, from Linux's sysfs; None if it does not list them."""
    try:
        caches = [
            (int(_text(cache / "level")), _text(cache / "shared_cpu_list"), _text(cache / "size"))
            for cache in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index*")
        ]
        last = max(level for level, _, _ in caches)
        sizes = {processors: size for level, processors, size in caches if level == last}
        return sum(int(size[:-1]) * _UNITS[size[-1]] for size in sizes.values())
    except (OSError, ValueError, KeyError, IndexError):
        return None


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
