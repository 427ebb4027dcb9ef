"""The indexes of a shared store: which files there are for each device and version of a kernel, with checksums.

    index.json             the devices, each with the checksum and size of its own index
    DEVICE/SHA256.json     the index of a device: its kernels, each with its files
    DEVICE/SHA256.jsonl    the records of one version of a kernel on the device, as in a store
    DEVICE/SHA256.json.gz  the log of a search, as in a store

Each file but `index.json` is named by its SHA-256, so it never changes. An index names no paths: they follow from the
kind and name of the device, and from checksums. Indexes are untrusted input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

from tuner import paths
from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.quoting import quoted

FILE = "index.json"
FORMAT, DEVICE_FORMAT, VERSION = "tuner shared store", "tuner shared device", 1
INDEX, RECORDS, LOG = ".json", ".jsonl", ".json.gz"  # suffixes of the files of a device
MOST_BYTES: Mapping[str, int] = {INDEX: 1 << 23, RECORDS: 1 << 24, LOG: 1 << 20}  # of a file
MOST_LOGS = 256  # of one version of a kernel on a device
FOLDER = re.compile(r"[a-z]+-\w{0,40}-[0-9a-f]{8}", re.ASCII)
NAME = re.compile(r"[0-9a-f]{64}(\.json|\.jsonl|\.json\.gz)", re.ASCII)
CODE = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST = 1000  # characters of a name

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class SharedFile:
    """A file by its checksum, with its size in bytes."""

    sha256: str
    bytes: int
    suffix: str

    @property
    def name(self) -> str:
        return f"{self.sha256}{self.suffix}"

    def to_json(self) -> dict[str, Any]:
        return {"sha256": self.sha256, "bytes": self.bytes}


@dataclass(frozen=True)
class KernelFiles:
    """The files of one version of a kernel on a device.

    code: identifies the code, as in records (or the signature, of a record without it). kernel: its name where it was
    tuned, for people: another machine may call it otherwise.
    """

    code: str
    kernel: str
    records: SharedFile | None = None
    logs: tuple[SharedFile, ...] = ()

    def to_json(self) -> dict[str, Any]:
        records = {} if self.records is None else {"records": self.records.to_json()}
        return {"kernel": self.kernel, "code": self.code, **records, "logs": [log.to_json() for log in self.logs]}


@dataclass(frozen=True)
class SharedDevice:
    """A device of a shared store, with its index."""

    kind: str
    device: str
    architecture: str
    index: SharedFile

    @property
    def folder(self) -> str:
        """Its folder: the kind, the name for people, and what identifies both."""
        name = re.sub(r"[^A-Za-z0-9]+", "_", self.device)[:40].strip("_")
        return f"{self.kind}-{name}-{paths.digest(self.kind, self.device)[:8]}"

    def path(self, file: SharedFile) -> str:
        """The path of one of its files in the shared store."""
        return f"{self.folder}/{file.name}"

    def to_json(self) -> dict[str, Any]:
        about = {"kind": self.kind, "device": self.device, "architecture": self.architecture}
        return {**about, "index": self.index.to_json()}


@dataclass(frozen=True)
class SharedStore:
    """The content of `index.json`."""

    devices: tuple[SharedDevice, ...] = ()

    def packed(self) -> bytes:
        return _packed({"format": FORMAT, "version": VERSION}, "devices", [each.to_json() for each in self.devices])

    @staticmethod
    def parse(data: bytes, where: str) -> SharedStore:
        """The content of `index.json`. Raises RequestError, which begins with `where`, if it breaks a rule."""
        return SharedStore(tuple(_parsed(data, where, FORMAT, "devices", _device)))


@dataclass(frozen=True)
class DeviceIndex:
    """The content of a device's index."""

    kernels: Sequence[KernelFiles] = field(default_factory=tuple)

    def packed(self) -> bytes:
        about = {"format": DEVICE_FORMAT, "version": VERSION}
        return _packed(about, "kernels", [each.to_json() for each in self.kernels])

    @staticmethod
    def parse(data: bytes, where: str) -> DeviceIndex:
        """As `SharedStore.parse`, of a device's index."""
        return DeviceIndex(_parsed(data, where, DEVICE_FORMAT, "kernels", _kernel))


def _packed(about: Mapping[str, Any], member: str, entries: Sequence[Mapping[str, Any]]) -> bytes:
    """An index with a line for each entry, so that version control stores small changes."""
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    return f'{json.dumps(about)[:-1]}, "{member}": [\n{lines}\n]}}\n'.encode()


def _parsed(data: bytes, where: str, form: str, member: str, entry: Callable[[Any], Entry]) -> list[Entry]:
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("format") != form:
            raise RequestError(f"{where}: is no index of a shared store: its format is not {form!r}; name another")
        version = document.get("version")
        if type(version) is int and version > VERSION:
            raise RequestError(f"{where}: has format version {version}; this tuner reads {VERSION}; update tuner")
        return [entry(each) for each in document[member]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)[:200] or type(error).__name__
        raise RequestError(f"{where}: is damaged: {quoted(what)[1:-1]}; if it is yours, push to it again") from None


def _device(data: Any) -> SharedDevice:
    kind, device, architecture = (_text(data, name) for name in ("kind", "device", "architecture"))
    if not re.fullmatch("[a-z]{1,20}", kind):
        raise ValueError(f"kind is {kind[:40]!r}; allowed: at most 20 lower-case letters")
    return SharedDevice(kind, device, architecture, _file(data["index"], INDEX))


def _kernel(data: Any) -> KernelFiles:
    code = data["code"]
    if not isinstance(code, str) or not CODE.fullmatch(code):
        raise ValueError(f"code is {repr(code)[:40]}; allowed: 32 hexadecimal digits")
    records = _file(data["records"], RECORDS) if "records" in data else None
    logs = data.get("logs", [])
    if not isinstance(logs, list) or len(logs) > MOST_LOGS:
        raise ValueError(f"logs is {repr(logs)[:40]}; allowed: a list of at most {MOST_LOGS}")
    return KernelFiles(code, _text(data, "kernel"), records, tuple(_file(each, LOG) for each in logs))


def _file(data: Any, suffix: str) -> SharedFile:
    sha256, size, most = data["sha256"], data["bytes"], MOST_BYTES[suffix]
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise ValueError(f"sha256 is {repr(sha256)[:80]}; allowed: 64 hexadecimal digits")
    if type(size) is not int or not 0 < size <= most:
        raise ValueError(f"bytes is {repr(size)[:40]}; allowed for *{suffix}: a whole number up to {most}")
    return SharedFile(sha256, size, suffix)


def _text(data: Any, name: str) -> str:
    value = data[name]
    if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST:
        raise ValueError(f"{name} is {repr(value)[:40]}; allowed: a line of at most {_LONGEST} characters")
    return value
