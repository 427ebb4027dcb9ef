"""The files that a compiler reads besides the source, such as system headers, and whether they have changed since a
build.

They lie in folders that the compiler searches, so neither the source nor the compiler's name covers them.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from tuner.classes import dataclass

# A younger file may change again without a new time stamp, because some file systems count in 2 s.
SETTLED_NS = 2_000_000_000
CLOCK_NS = 20_000_000  # a time stamp may be this much older than the change: the system's clock ticks
_READ = re.compile(
    r"(?:#|%:|\?\?=)(?:\s|\\\n|/\*.*?\*/)*(?:include|import|embed)|incbin|__has_(?:include|embed)", re.DOTALL
)


@dataclass(frozen=True)
class ReadFile:
    """A file that a compiler read, with its size in bytes, its times of modification and of change in ns, and the
    SHA-256 of its content.

    `later` are the places where the compiler would have found another file of its name if this one had been missing.
    """

    path: str
    size: int
    modified: int
    changed: int
    digest: str
    later: tuple[str, ...] = ()

    @staticmethod
    def of(path: str, later: Iterable[str] = ()) -> ReadFile:
        """The file as it is now. Raises OSError."""
        status = os.stat(path)
        times = status.st_mtime_ns, status.st_ctime_ns
        if max(times) > time.time_ns() - SETTLED_NS:
            times = 0, 0  # so the content is compared next time
        return ReadFile(path, status.st_size, *times, _digest(path), tuple(later))

    def now(self) -> ReadFile | None:
        """The same file with its present times; None if its content has changed.

        A missing file is unchanged, because builds are carried to machines without the headers, unless the compiler
        would find another one now.
        """
        try:
            status = os.stat(self.path)
            if (status.st_size, status.st_mtime_ns, status.st_ctime_ns) == (self.size, self.modified, self.changed):
                return self
            same = status.st_size == self.size and _digest(self.path) == self.digest
            return ReadFile.of(self.path, self.later) if same else None
        except OSError:
            return None if any(map(os.path.exists, self.later)) else self


@dataclass(frozen=True)
class Headers:
    """The files that a compiler read. `absent` are places where it looked in vain: a file there would be read now."""

    read: tuple[ReadFile, ...] = ()
    absent: tuple[str, ...] = ()

    @staticmethod
    def of(read: Mapping[str, Iterable[str]], absent: Iterable[str] = ()) -> Headers:
        """The files `read`, each with its later places, as they are now. Raises OSError."""
        files = tuple(ReadFile.of(path, later) for path, later in read.items())
        return Headers(files, tuple(sorted(set(absent))))

    def now(self) -> Headers | None:
        """The same headers with their present times; None if the compiler would read anything else now."""
        files = []
        for file in self.read:
            if (current := file.now()) is None:
                return None
            files.append(current)
        if any(map(os.path.exists, self.absent)):
            return None
        return Headers(tuple(files), self.absent)

    def is_older_than(self, began: int) -> bool:
        """Whether no file has changed since `began`, a time in ns."""
        for file in self.read:
            status = os.stat(file.path)
            if max(status.st_mtime_ns, status.st_ctime_ns) > began - CLOCK_NS:
                return False
        return True

    def to_json(self) -> dict[str, Any]:
        """The headers as JSON."""
        read = [[f.path, f.size, f.modified, f.changed, f.digest, list(f.later)] for f in self.read]
        return {"read": read, "absent": list(self.absent)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Headers:
        """The headers that `to_json` wrote. Raises LookupError, TypeError or ValueError for anything else."""
        read = tuple(ReadFile(p, s, m, c, d, tuple(later)) for p, s, m, c, d, later in data["read"])
        return Headers(read, tuple(data["absent"]))


def may_read(text: str, options: Iterable[str]) -> bool:
    """Whether a compiler may read other files for a source with this text and these options."""
    if any(_names_a_file(option) for option in options):
        return True
    suspect = "include" in text or "import" in text or "embed" in text or "incbin" in text
    return suspect and _READ.search(text) is not None


def _names_a_file(option: str) -> bool:
    return "include" in option or "/" in option or option[:2] in ("-i", "-I", "-x", "-l", "-L") or option[:1] in "@"


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
