"""`tune pull`: take records and logs from a shared store, as imported ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuner import devices
from tuner.catalog import catalog, kernel_lists, kernel_names
from tuner.catalog.folders import SUFFIXES
from tuner.catalog.matching import matching
from tuner.errors import DeviceError, RequestError
from tuner.exchange.sharing import claims, index
from tuner.exchange.sharing.claims import KnownKernel
from tuner.exchange.sharing.files import Damaged, SharedFiles, checked
from tuner.exchange.sharing.folder import SharedFolder
from tuner.exchange.sharing.index import DeviceIndex, KernelFiles, SharedDevice, SharedFile, SharedStore
from tuner.exchange.sharing.memory import TakenFiles
from tuner.quoting import quoted, shown
from tuner.space.model import Space
from tuner.space.sources.rendering import Version
from tuner.store.board_names import chip
from tuner.store.store import Store

OTHERS = 4  # devices like those of this machine whose files are pulled, too: as many as a search uses
MOST_BYTES = 64 << 20  # that a pull reads, unless the user allows more
MOST_PROBLEMS = 5  # messages about files

_Taker = Callable[[SharedDevice, KernelFiles, bytes], None]


@dataclass
class Pull:
    """What a pull did.

    `files` and `bytes` count what was read, indexes included; `unchanged` the files that an earlier pull has read, and
    `left` those that more than the allowed bytes would have taken. `unknown` counts the kernels of these devices whose
    code no kernel that was asked for has. `records` are the new or faster records by kernel,
    `logs` the logs with new results. `devices` are the names of the devices whose files were taken. `problems` are
    messages about what was passed over.
    """

    source: str
    devices: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    unchanged: int = 0
    left: int = 0
    records: dict[str, int] = field(default_factory=dict)
    logs: int = 0
    problems: list[str] = field(default_factory=list)
    passed_over: int = 0
    unknown: int = 0


def pull(
    text: str,
    kernels: Sequence[str],
    device: str | None,
    results: Path | None,
    most: int = MOST_BYTES,
    again: bool = False,
) -> Pull:
    """Take the files of these kernels (names, families, patterns, space files), or of all that are known here, from the
    shared store at `text`, a folder or an https:// address.

    They are those of the `device`: one of this machine, or part of the name of one in the shared store. Without it,
    they are those of the devices of this machine, and of up to OTHERS devices like them. At most `most` bytes are read.
    Files that an earlier pull has taken are not read, except `again`. A kernel's files are those of its code, whatever
    its name is.

    Records become imported ones in `results`, by default the user's own, and replace only slower imported ones. Logs
    become unverified ones. Raises RequestError if the shared store, a kernel or the device is not there.
    """
    shared = _opened(text)
    done = Pull(str(shared))
    try:
        by_code = _kernels(kernels, done.problems)
        try:
            content = shared.read(index.FILE, min(most, index.MOST_BYTES[index.INDEX]))
        except Damaged as error:
            raise RequestError(f"{error}; name the folder, or its public address, that holds {index.FILE}") from None
        chosen = _chosen(SharedStore.parse(content, f"{shared}/{index.FILE}").devices, device, shared)
        done.files += 1
        _Puller(shared, done, by_code, results, most, TakenFiles(results, is_empty=again)).take(chosen)
        return done
    finally:
        done.bytes = shared.bytes_read
        shared.close()


def _opened(text: str) -> SharedFiles:
    """The shared store that a user names: a URL that begins with https://, or a folder. Raises RequestError."""
    scheme, separator, _ = text.partition("://")
    if not separator:
        return SharedFolder(Path(text))
    if scheme.lower() != "https":
        raise RequestError(f"{shown(scheme)}://: only https:// is read; name such an address, or a folder")
    from tuner.exchange.sharing.web import Web  # which imports ssl

    return Web(text)


def _kernels(texts: Sequence[str], problems: list[str]) -> dict[str, list[KnownKernel]]:
    """The kernels that are asked for, by what may identify their code."""
    entries, unread = kernel_lists.every()
    names = [entry.name for entry in entries]
    spaces: list[Space] = []
    chosen: set[str] = set() if texts else set(names)
    for text in texts:
        if Path(text).suffix in SUFFIXES:
            spaces.append(catalog.load(text))
            continue
        try:
            chosen |= set(matching(text, names))
        except RequestError:
            raise RequestError(f"kernel {quoted(text)}: there is no such kernel; `tune list` shows all") from None
    if not texts:
        problems += unread
    found = catalog.loaded((entry for entry in entries if entry.name in chosen), problems)
    spaces += [space for _, space in found]
    by_code: dict[str, list[KnownKernel]] = {}
    for space in spaces:
        try:
            kernel = KnownKernel(space, Version.of(space))
        except RequestError as error:
            problems.append(str(error))
            continue
        for code in (kernel.version.code, kernel.version.signature):
            by_code.setdefault(code, []).append(kernel)
    return by_code


def _chosen(there: Sequence[SharedDevice], device: str | None, shared: SharedFiles) -> list[SharedDevice]:
    """The devices whose files are taken, those of this machine first."""
    if device is not None and not devices.is_name(device):
        found = [each for each in there if device.casefold() in each.device.casefold()]
        if not found:
            names = ", ".join(sorted({shown(each.device)[:60] for each in there})[:8]) or "none"
            raise RequestError(f"--device {quoted(device)}: {shared} has no such device; it has {names}")
        return found
    own: dict[tuple[str, str], str] = {}
    for name in [device] if device is not None else devices.available():
        try:
            device_here = devices.open_device(name)
        except DeviceError:
            if device is not None:
                raise
            continue
        own[device_here.kind, device_here.name] = device_here.architecture
        device_here.close()
    if not own:
        raise RequestError("no device is here; name one of the shared store with --device, such as --device H200")

    def nearness(each: SharedDevice) -> tuple[bool, bool]:
        alike = [(name, where) for (kind, name), where in own.items() if kind == each.kind]
        is_chip = any(chip(name) == chip(each.device) for name, _ in alike)
        return not is_chip, all(where != each.architecture for _, where in alike)

    first = [each for each in there if (each.kind, each.device) in own]
    if device is not None:
        return first
    kinds = {kind for kind, _ in own}
    others = [each for each in there if each not in first and each.kind in kinds]
    return [*first, *sorted(others, key=nearness)[:OTHERS]]


@dataclass
class _Puller:
    """Reads the files of devices, and adds what they hold to the store."""

    shared: SharedFiles
    done: Pull
    by_code: Mapping[str, Sequence[KnownKernel]]
    results: Path | None
    most: int
    taken: TakenFiles
    unknown: set[str] = field(default_factory=set)

    def take(self, chosen: Sequence[SharedDevice]) -> None:
        """Take the files of these devices, of each device the records first."""
        try:
            for device in chosen:
                self._take_device(device)
        finally:
            self.taken.write()

    def _take_device(self, device: SharedDevice) -> None:
        data = self._read(device, device.index)
        if data is None:
            return
        kernels = self._kernels_of(device, data)
        if kernels:
            self.done.devices.append(device.device)
        for files in kernels:
            self._take(device, [files.records] if files.records is not None else [], files, self._take_records)
        for files in kernels:
            self._take(device, files.logs, files, self._take_log)

    def _kernels_of(self, device: SharedDevice, data: bytes) -> list[KernelFiles]:
        """The kernels of this machine that a device has files of."""
        try:
            listed = DeviceIndex.parse(data, f"{self.shared}/{device.path(device.index)}").kernels
        except RequestError as error:
            self._pass_over(str(error))
            return []
        known = [each for each in listed if each.code in self.by_code]
        self.unknown |= {each.kernel for each in listed} - {each.kernel for each in known}
        self.done.unknown = len(self.unknown)
        return known

    def _take(self, device: SharedDevice, wanted: Sequence[SharedFile], files: KernelFiles, take: _Taker) -> None:
        for file in wanted:
            if file.sha256 in self.taken:
                self.done.unchanged += 1
                continue
            data = self._read(device, file)
            if data is None:
                continue
            try:
                take(device, files, data)
            except Damaged as error:
                self._pass_over(f"{self.shared}/{device.path(file)}: {error}")
                continue
            self.taken.add([file.sha256])

    def _read(self, device: SharedDevice, file: SharedFile) -> bytes | None:
        """The content of a file; None if it is passed over, or takes more than the bytes that are left."""
        if self.shared.bytes_read + file.bytes > self.most:
            self.done.left += 1
            return None
        try:
            data = checked(self.shared, device.path(file), file)
        except Damaged as error:
            self._pass_over(str(error))
            return None
        self.done.files += 1
        return data

    def _pass_over(self, message: str) -> None:
        self.done.passed_over += 1
        if self.done.passed_over <= MOST_PROBLEMS:
            self.done.problems.append(f"{message}; passed over")

    def _take_records(self, device: SharedDevice, files: KernelFiles, data: bytes) -> None:
        found = claims.records(data)
        for kernel in self.by_code[files.code]:
            own = claims.imported(found, device, kernel)
            name = kernel.space.name
            if len(own) < len(found):
                self.done.problems.append(
                    f"{self.shared}: {len(found) - len(own)} of {len(found)} records of {name} on "
                    f"{shown(device.device)} are of another device or code, or not valid; passed over"
                )
            store = Store.of(kernel.space, self.results)
            here = {r.problem for r in store.records if r.is_of(kernel.version) and not r.is_imported}
            if written := store.supply([record for record in own if record.problem not in here]):
                self.done.records[name] = self.done.records.get(name, 0) + len(written)
                kernel_names.remember(kernel.space)  # for `tune verify`

    def _take_log(self, device: SharedDevice, files: KernelFiles, data: bytes) -> None:
        problem, log = claims.log(data, device, files.code)
        for kernel in self.by_code[files.code]:
            self.done.logs += claims.supplied(problem, log, kernel, self.results)
