"""Store the measured ceilings of devices in `ceilings.json` of a folder of results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.devices.base import Device
from tuner.devices.ceilings import Ceilings
from tuner.devices.conditions import DEFAULT, Conditions
from tuner.devices.info import DeviceInfo
from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.store import locks

FILE, FORMAT, VERSION = "ceilings.json", "tuner ceilings", 1
MOST = 10_000_000  # characters of a file


class StoredCeilings:
    """The ceilings in the user's results and in those that ship with tuner.

    The user's take precedence, and only they are written. `problems` are messages about invalid entries.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` replaces the folder of the user's results."""
        self._paths = [root / FILE for root in (folder or paths.user_results(), paths.shipped("results"))]
        self.problems: list[str] = []
        self._all: list[Ceilings] = []
        for path in dict.fromkeys(path.resolve() for path in self._paths):
            ceilings, problems = read(path)
            self._all += ceilings
            self.problems += problems

    def of(self, device: Device | DeviceInfo) -> Ceilings | None:
        """The ceilings of a device, preferably measured with its toolchain; None if they were not measured under its
        conditions, or under the default ones."""
        return self.of_name(device.kind, device.name, device.toolchain, device.conditions)

    def of_name(self, kind: str, name: str, toolchain: str = "", conditions: Conditions = DEFAULT) -> Ceilings | None:
        """`of` for a device that need not be in this machine."""
        of_name = [c for c in self._all if (c.kind, c.device) == (kind, name)]
        alike = [c for c in of_name if c.conditions == conditions]
        of_device = alike or [c for c in of_name if not c.conditions]
        of_toolchain = [c for c in of_device if c.toolchain == toolchain]
        return next(iter(of_toolchain or of_device), None)

    def check_writable(self) -> None:
        """Raise RequestError if `save` could not write. Call this before measuring."""
        path = self._paths[0]
        _entries(path)
        with paths.writing(path):
            paths.check_writable(path.parent)

    def save(self, ceilings: Ceilings) -> Path:
        """Write `ceilings`, replacing those with the same key, and return the file.

        Raises RequestError if the file cannot be written, or is no file of ceilings.
        """
        return self._write([ceilings])

    def merge(self, ceilings: Iterable[Ceilings]) -> int:
        """Write those that are new, or later than the stored ones with the same key, and return how many.

        Raises as `save` does.
        """
        dates = {stored.key: stored.date for stored in read(self._paths[0])[0]}
        later: dict[tuple[str, str, str], Ceilings] = {}
        for one in ceilings:
            if one.date > dates.get(one.key, ""):
                later[one.key], dates[one.key] = one, one.date
        if later:
            self._write(list(later.values()))
        return len(later)

    def _write(self, ceilings: Sequence[Ceilings]) -> Path:
        path, keys = self._paths[0], {one.key for one in ceilings}
        with locks.updating(path):
            others = [entry for entry in _entries(path) if _key(entry) not in keys]
            entries = [*(one.to_json() for one in ceilings), *others]
            document = {"format": FORMAT, "version": VERSION, "devices": entries}
            paths.replace(path, (json.dumps(document, indent=1) + "\n").encode())
        return path


def read(path: Path) -> tuple[list[Ceilings], list[str]]:
    """The ceilings of a file, none if it does not exist, and messages about invalid entries."""
    try:
        entries = _entries(path)
    except RequestError as error:
        return [], [str(error)]
    ceilings, problems = [], []
    for position, entry in enumerate(entries):
        try:
            ceilings.append(Ceilings.from_json(entry))
        except ValueError as error:
            problems.append(f"{shown(path)}: devices: {position + 1}: {error}; it is ignored")
    return ceilings, problems


def _entries(path: Path) -> list[Any]:
    """The entries of a file, one per device; none if it does not exist.

    Raises RequestError if it has another format, or cannot be read.
    """
    where = shown(path)
    try:
        document = json.loads(paths.read_text(path, MOST))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RequestError(f"{where}: cannot be read: {error.strerror}; name another folder with --results") from None
    except (ValueError, RecursionError):
        raise RequestError(f"{where}: is not JSON; delete it, and run `tune devices --measure` again") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RequestError(f"{where}: format is not {FORMAT!r}; move it, and run `tune devices --measure` again")
    if document.get("version") != VERSION or not isinstance(document.get("devices"), list):
        version = quoted(document.get("version"))
        raise RequestError(f"{where}: version is {version}; this version of tuner reads {VERSION}; update tuner")
    return list(document["devices"])


def _key(entry: Any) -> tuple[str, str, str] | None:
    """The key of an entry; None if it is invalid."""
    try:
        return Ceilings.from_json(entry).key
    except ValueError:
        return None
