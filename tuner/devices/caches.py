"""The last-level caches of this machine's processors."""

import functools
from pathlib import Path

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def last_level() -> int | None:
    """The bytes of all caches of the last level together, as Linux lists them; None where it does not."""
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
