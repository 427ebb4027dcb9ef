"""`tune push`: write what this store has verified into a shared store."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner import devices, paths
from tuner.catalog.matching import matching
from tuner.errors import RequestError
from tuner.exchange.sharing import claims, index, writer
from tuner.exchange.sharing.files import Damaged, checked
from tuner.exchange.sharing.folder import SharedFolder
from tuner.exchange.sharing.index import DeviceIndex, KernelFiles, SharedDevice, SharedFile, SharedStore
from tuner.quoting import shown
from tuner.store import locks, record_file
from tuner.store.record import Record, better_first
from tuner.tuning.recordings import logs
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.recordings.logs import LoggedProblem


@dataclass(frozen=True)
class Push:
    """What a push did.

    `records` counts those that are new to the shared store, or better than its own. `logs` counts those with results
    that are new to it. `left_out` counts the records that were not pushed, by reason. `files` and `bytes` are of the
    whole shared store afterwards. `problems` are messages about what could not be read.
    """

    folder: Path
    devices: int
    records: int
    logs: int
    left_out: Mapping[str, int]
    files: int
    bytes: int
    problems: list[str]


@dataclass
class _Pushed:
    """What is pushed of one version of a kernel on a device."""

    kernel: str
    records: list[Record] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)


_Key = tuple[str, str]  # the kind and the name of a device


def push(folder: Path, kernels: Sequence[str] = (), results: Path | None = None) -> Push:
    """Add the verified records of these kernels (names, families, patterns), or of all, to the shared store `folder`,
    with the logs of their searches.

    `results` is the store; by default, the user's own. Of two records of a problem, the shared store keeps the better
    one, as `tune merge` does. Indexes are written after the files that they name, so a reader finds either the old
    state or the new one. Raises RequestError if there is nothing to push, or the folder is no shared store, is not
    empty, or cannot be written.
    """
    own = results or paths.user_results()
    if not own.is_dir():
        raise RequestError(f"{shown(own)}: there is no such folder of results; name one with --results")
    problems: list[str] = []
    left_out: dict[str, int] = {}
    pushed = _gathered(own, kernels, problems, left_out)
    if not pushed:
        reasons = f" ({', '.join(f'{count} {why}' for why, count in left_out.items())})" if left_out else ""
        raise RequestError(f"{shown(own)}: no verified record to push{reasons}; tune, or run `tune verify`")
    try:
        paths.make(folder, shared=True)
        writer.check_before_lock(folder)
        with locks.held(folder / index.FILE):
            return _written(folder, pushed, problems, left_out)
    except OSError as error:
        where = shown(error.filename or folder)
        raise RequestError(f"{where}: cannot be written: {error.strerror}; name another folder") from None


def _gathered(
    own: Path, kernels: Sequence[str], problems: list[str], left_out: dict[str, int]
) -> dict[SharedDevice, dict[str, _Pushed]]:
    """What there is to push, by device and then by code. The `index` of each device is a placeholder."""
    gathered: dict[_Key, tuple[str, dict[str, _Pushed]]] = {}

    def place(kernel: str, kind: str, device: str, architecture: str, code: str) -> _Pushed:
        _, versions = gathered.setdefault((kind, device), (architecture, {}))
        return versions.setdefault(code, _Pushed(kernel))

    files = (file.relative_to(own).with_suffix("").as_posix() for file in own.rglob("*.jsonl"))
    names = sorted(name for name in files if name.isprintable())
    chosen = set(names) if not kernels else {name for text in kernels for name in matching(text, names)}
    problems_of_records: set[str] = set()  # a log without such a record is one of an import
    for name in sorted(chosen):
        records, unread = record_file.read_or_pass(own / f"{name}.jsonl", name)
        problems += unread
        for record in records:
            if reason := _why_not(record):
                left_out[reason] = left_out.get(reason, 0) + 1
                continue
            code = record.code or record.signature
            place(name, record.kind, record.device, record.architecture, code).records.append(record)
            problems_of_records.add(LoggedProblem.of(name, record).key)
    for path in recordings.files(own / logs.FOLDER):
        try:
            problem, log = logs.read(path)
        except RequestError:
            continue  # a recording, or damaged: whoever uses it says so
        is_whole = problem.file == path.name and problem.kind in devices.KINDS and index.CODE.fullmatch(problem.code)
        if problem.key in problems_of_records and is_whole and not log.is_unverified:
            about = problem.kernel, problem.kind, problem.device, problem.architecture, problem.code
            place(*about).logs.append(path)
    none = SharedFile("", 0, index.INDEX)
    return {SharedDevice(*key, where, none): versions for key, (where, versions) in sorted(gathered.items())}


def _why_not(record: Record) -> str:
    """Why a record is not pushed; empty if it is."""
    if record.doubt:
        return record.doubt
    if record.kind not in devices.KINDS or not index.CODE.fullmatch(record.code or record.signature):
        return "of an unknown kind of device or version of a kernel"
    return f"tuned for equal bits ({shown(record.same_bits_as)[:40]})" if record.same_bits_as else ""


def _written(
    folder: Path,
    pushed: Mapping[SharedDevice, Mapping[str, _Pushed]],
    problems: list[str],
    left_out: Mapping[str, int],
) -> Push:
    source = SharedFolder(folder)
    shared = {(each.kind, each.device): each for each in writer.present(folder, source)}
    counts = [0, 0]
    for device, versions in pushed.items():
        writer.check_no_link(folder / device.folder)
        key = (device.kind, device.device)
        present: list[KernelFiles] = []
        if key in shared:
            try:
                data = checked(source, device.path(shared[key].index), shared[key].index)
                present = [*DeviceIndex.parse(data, f"{source}/{device.folder}").kernels]
            except RequestError as error:
                problems.append(f"{error}; it is written again")
        kernels = {each.code: each for each in present}
        for code, what in versions.items():
            old = kernels.get(code, KernelFiles(code, what.kernel))
            records, more = _merged_records(source, device, old, what, problems)
            counts[0] += more
            found, more = _merged_logs(source, device, old, what, problems)
            counts[1] += more
            if len(found) > index.MOST_LOGS:
                kept_logs = f"{len(found)} logs on {shown(device.device)}, of which {index.MOST_LOGS} are kept"
                problems.append(f"{shown(what.kernel)}: {kept_logs}")
            stored = [writer.put(folder, device, data, index.LOG) for data in found[: index.MOST_LOGS]]
            kept = writer.put(folder, device, records, index.RECORDS) if records else None
            kernels[code] = replace(old, records=kept, logs=tuple(stored))
        ordered = sorted(kernels.values(), key=lambda each: (each.kernel, each.code))
        shared[key] = replace(device, index=writer.put(folder, device, DeviceIndex(ordered).packed(), index.INDEX))
    store = SharedStore(tuple(device for _, device in sorted(shared.items())))
    content = store.packed()
    if len(content) > index.MOST_BYTES[index.INDEX]:
        raise RequestError(f"{shown(folder)}: its index would have {len(content)} bytes; push to another folder")
    paths.replace(folder / index.FILE, content)
    number, size = writer.swept(folder, source, store)
    return Push(folder, len(pushed), counts[0], counts[1], left_out, number, size, problems)


def _old(source: SharedFolder, device: SharedDevice, file: SharedFile, problems: list[str]) -> bytes:
    """The content of a file of the shared store; empty, with a message, if it is damaged."""
    try:
        return checked(source, device.path(file), file)
    except Damaged as error:
        problems.append(f"{error}; it is left out")
        return b""


def _merged_records(
    source: SharedFolder, device: SharedDevice, old: KernelFiles, what: _Pushed, problems: list[str]
) -> tuple[bytes, int]:
    """The file of the better records, empty if there are none, and how many of them are new."""
    data = b"" if old.records is None else _old(source, device, old.records, problems)
    stored = [record_file.header(old.kernel), *data.decode("utf-8", "replace").splitlines()[1:]]
    present = record_file.parsed(stored, "")[0]
    best = {record.key: record for record in reversed(better_first([*present, *what.records]))}
    before = {record.key: record for record in present}
    count = sum(before.get(key) != record for key, record in best.items())
    ordered = [best[key] for key in sorted(best)]
    text = [record_file.header(old.kernel), *(record.to_line() for record in ordered), ""]
    return ("\n".join(text).encode() if best else b""), count


def _merged_logs(
    source: SharedFolder, device: SharedDevice, old: KernelFiles, what: _Pushed, problems: list[str]
) -> tuple[list[bytes], int]:
    """The contents of the logs, each of its own problem, and how many of them have new results."""
    with tempfile.TemporaryDirectory(dir=paths.temporary()) as name:
        place = Path(name)
        for file in old.logs:
            data = _old(source, device, file, problems)
            if not data:
                continue
            try:
                problem, log = claims.log(data, device, old.code)
                if not problem.kernel.isprintable():
                    raise Damaged("its kernel has no name")
                logs.add(problem, log, place)
            except RequestError as error:
                problems.append(f"{source}/{device.path(file)}: {error}; it is left out")
        count = sum(logs.add(*logs.read(path), place) for path in what.logs)
        return [path.read_bytes() for path in recordings.files(place / logs.FOLDER)], count
