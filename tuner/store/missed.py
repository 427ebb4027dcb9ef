"""Misses: problems for which a look-up had no exact record. They are appended to a file, so that the user can tune them
later.

Each process appends at most one line per problem, so the count of a problem is the number of processes that missed it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.classes import dataclass, setting
from tuner.devices.conditions import Conditions

if TYPE_CHECKING:
    from tuner.devices import Device

NAME = "missed.jsonl"
SWITCH = "TUNER_MISSED"  # 0: nothing is written
MOST_BYTES = 1 << 18  # of the file; beyond it, the least missed problems are dropped
LONGEST = 1 << 12  # bytes of a line
MOST_NOTED = 4096  # problems per process
PATIENCE_SECONDS = 0.02  # to wait for the file's lock; after that, the miss is not written


@dataclass(frozen=True)
class Miss:
    """A problem for which a look-up had no exact record.

    `kernel` is a name or path with which `tuner.load` finds the kernel in another process, or the name of a family.
    `device` is a name such as NVIDIA H200, of a `kind` such as cuda. `results` is the folder of the store, None for the
    user's own. `count` is the number of processes that missed it, under these `conditions` (`devices.conditions`).
    """

    kernel: str
    sizes: Mapping[str, int]
    device: str
    kind: str
    options: Mapping[str, float]
    types: Mapping[str, str]
    results: str | None = None
    count: int = 1
    conditions: Mapping[str, int | float | str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Identifies the problem, whatever the count."""
        mappings = [sorted(each.items()) for each in (self.sizes, self.options, self.types, self.conditions)]
        return json.dumps([self.kernel, self.device, self.kind, self.results, *mappings])

    @property
    def place(self) -> tuple[str, str, str]:
        """Identifies where it can be tuned: the device's kind and name, and the conditions."""
        return self.kind, self.device, Conditions(self.conditions).identity

    def to_line(self) -> bytes:
        """The line of the file."""
        return f"{json.dumps(vars(self))}\n".encode()

    @staticmethod
    def from_line(line: bytes) -> Miss:
        """Parse a line. Raises ValueError if it holds no miss."""
        try:
            miss = Miss(**json.loads(line))
            texts = [miss.kernel, miss.device, miss.kind, *miss.types.values(), miss.results or ""]
            conditions = miss.conditions.values()
            texts += [value for value in conditions if isinstance(value, str)]
            numbers = [*miss.sizes.values(), miss.count, *miss.options.values()]
            numbers += [value for value in conditions if not isinstance(value, str)]
            is_right = all(isinstance(text, str) and text.isprintable() for text in [*texts, *_names(miss)])
            is_right &= all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)
            is_right &= all(isinstance(n, int) and n > 0 for n in [*miss.sizes.values(), miss.count])
        except (TypeError, AttributeError, RecursionError):
            is_right = False
        if not is_right:
            raise ValueError("not a miss")
        return miss


def _names(miss: Miss) -> list[str]:
    return [*miss.sizes, *miss.options, *miss.types, *miss.conditions]


Handler = Callable[[Miss, str], bool]
_handler: ContextVar[Handler | None] = ContextVar("handler", default=None)
_noted: set[str] = set()  # the keys that this process has written or tried to write


def note(
    kernel: str,
    sizes: Mapping[str, int],
    device: Device,
    options: Mapping[str, float],
    types: Mapping[str, str] | None = None,
    results: str | Path | None = None,
) -> bool:
    """Note that a look-up had no exact record. Returns True if the caller should look up again (see `handled`).

    For the arguments, see `Miss`; `kernel` is from `kernel_names.address`, or a family's name. Never raises. Waits at
    most PATIENCE_SECONDS, and only the first time for each problem.
    """
    folder = None if results is None else os.path.abspath(results)
    problem = dict(options), dict(types or {})
    conditions = dict(device.conditions.values)
    miss = Miss(kernel, dict(sizes), device.name, device.kind, *problem, folder, conditions=conditions)
    handler = _handler.get()
    return keep(miss) if handler is None else handler(miss, device.id)


def keep(miss: Miss) -> bool:
    """Write a miss to the file, unless this process already has or SWITCH forbids it. Returns False."""
    with contextlib.suppress(Exception):
        if os.environ.get(SWITCH) != "0":
            _append_once(miss)
    return False


def handled(handler: Handler) -> contextlib.AbstractContextManager[None]:
    """A context in which `handler` is called with each miss and its device's ID, instead of writing to the file.

    The handler returns True if the problem has an exact record now.
    """
    return setting(_handler, handler)


def path() -> Path:
    """The file. Raises RequestError if its folder cannot be created or could be written by other users."""
    return paths.state() / NAME


@functools.lru_cache(maxsize=8)
def _checked_once(folder: Path) -> Path:
    """The state folder, checked once per process, because the check takes longer than appending a line."""
    return paths.private(folder)


def read() -> list[Miss]:
    """The misses of all processes, most missed first.

    Raises RequestError if other users could have written the file, because tuning a miss runs the kernel that it names.
    """
    try:
        return _summed(paths.read_trusted(path()))
    except OSError:
        return []


def forget(keys: Iterable[str]) -> None:
    """Remove the misses with these keys. Does nothing if the file cannot be written."""
    removed = set(keys)
    with contextlib.suppress(OSError), _locked(os.O_RDONLY, fcntl.LOCK_EX, patience=1.0) as descriptor:
        _rewrite([miss for miss in _summed(_content(descriptor)) if miss.key not in removed])


def _append_once(miss: Miss) -> None:
    key = miss.key
    if key in _noted or len(_noted) >= MOST_NOTED:
        return
    _noted.add(key)
    line = miss.to_line()
    if len(line) > LONGEST:
        return
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    # Appends of whole lines are atomic; the lock only excludes a process that replaces the file.
    with _locked(flags, fcntl.LOCK_SH, PATIENCE_SECONDS) as descriptor:
        if os.fstat(descriptor).st_size + len(line) <= MOST_BYTES:
            os.write(descriptor, line)
            return
    with _locked(flags, fcntl.LOCK_EX, PATIENCE_SECONDS) as descriptor:
        _rewrite(_most_missed([*_summed(_content(descriptor)), miss]))


@contextlib.contextmanager
def _locked(flags: int, lock: int, patience: float) -> Iterator[int]:
    """Open the file, and hold its lock, shared or exclusive.

    Raises OSError if another process holds it for `patience` s.
    """
    deadline = time.monotonic() + patience
    while True:
        file = _checked_once(paths.state_folder()) / NAME
        descriptor = os.open(file, flags | os.O_CLOEXEC, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.001)
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):  # not replaced by another process meanwhile
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, 2 * MOST_BYTES, 0)


def _summed(content: bytes) -> list[Miss]:
    """The misses in `content`, with their counts added up, most missed first. Invalid lines are skipped."""
    by_key: dict[str, Miss] = {}
    for line in content.splitlines():
        with contextlib.suppress(ValueError):
            miss = Miss.from_line(line)
            earlier = by_key.get(miss.key)
            by_key[miss.key] = miss if earlier is None else replace(earlier, count=earlier.count + miss.count)
    return sorted(by_key.values(), key=lambda miss: -miss.count)


def _most_missed(misses: list[Miss]) -> list[Miss]:
    """The last of these misses, then the others from the first on, as many as fit into half of MOST_BYTES."""
    kept: list[Miss] = []
    room = MOST_BYTES // 2
    for miss in [misses[-1], *misses[:-1]]:
        room -= len(miss.to_line())
        if room >= 0:
            kept.append(miss)
    return kept


def _rewrite(misses: Iterable[Miss]) -> None:
    paths.replace(path(), b"".join(miss.to_line() for miss in misses))
