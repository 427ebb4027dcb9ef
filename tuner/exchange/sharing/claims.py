"""What the files of a shared store claim, checked against a kernel of this machine: records without their claim to be
verified, and results of logs."""

from __future__ import annotations

import math
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tuner import paths
from tuner.classes import dataclass
from tuner.errors import RequestError, TunerError
from tuner.exchange.sharing import index
from tuner.exchange.sharing.files import Damaged
from tuner.exchange.sharing.index import SharedDevice
from tuner.quoting import plain, shown
from tuner.space import operation
from tuner.space.config import Config
from tuner.space.model import Space
from tuner.space.sources.rendering import Version
from tuner.store import record_file
from tuner.store.merge import widest
from tuner.store.record import RUNNERS_UP, UNVERIFIED, Record
from tuner.store.record_rules import FIELDS
from tuner.tuning.recordings import logs
from tuner.tuning.recordings.logs import LoggedProblem
from tuner.tuning.recordings.recording import Entry, Recording

STRATEGY = "pulled"  # of the records
MOST_DECOMPRESSED = 1 << 24  # bytes of a log
# What is kept of a record.
_KEPT = (
    "device", "kind", "architecture", "sizes", "types", "options", "conditions", "objective", "caches", "config",
    "time_ms", "spread", "energy_mj", "energy_spread", "rounds", "toolchain", "configurations", "evaluated", "failed",
    "date", "version",
)  # fmt: skip


@dataclass(frozen=True)
class KnownKernel:
    """A kernel of this machine, as it is now."""

    space: Space
    version: Version


def records(data: bytes) -> list[Record]:
    """The records in a file. Raises Damaged if a line holds none, or the file is of a newer version."""
    try:
        found, unread = record_file.parsed(data.decode("utf-8", "surrogateescape").split("\n"), "records")
    except RequestError as error:
        raise Damaged(str(error)) from None
    if unread:
        raise Damaged(unread[0])
    return found


def imported(found: Sequence[Record], device: SharedDevice, kernel: KnownKernel) -> list[Record]:
    """Those of the records that are of this device and kernel and may be valid, as imported ones.

    They keep the problem, the configurations and their times, and nothing that only verification can tell.
    """
    fitting = (each for each in found if _is_of(each, device, kernel))
    return [own for each in fitting if (own := _imported(each, kernel)) is not None]


def _is_of(record: Record, device: SharedDevice, kernel: KnownKernel) -> bool:
    is_here = (record.kind, record.device) == (device.kind, device.device) and record.is_of(kernel.version)
    return is_here and not record.same_bits_as and record.options.keys() <= kernel.space.operation.options.keys()


def _imported(record: Record, kernel: KnownKernel) -> Record | None:
    """The record without what it claims of its verification; None if its best configuration is not valid."""
    space = kernel.space
    try:
        scope = widest(space, record.kind, record.architecture, record.sizes, record.options, record.types)
        if scope is None or not space.valid(record.config, scope):
            return None
        others = [each for each in record.timed[1:] if space.valid(each[0], scope)][:RUNNERS_UP]
        gflops, gbytes = (rate(space.operation, scope, record.time_ms) for rate in (operation.gflops, operation.gbytes))
    except (TunerError, ArithmeticError):  # of sizes for which nothing can be computed
        return None
    return Record(
        **{name: getattr(record, name) for name in _KEPT},
        **UNVERIFIED,
        gflops=gflops,
        gbytes=gbytes,
        signature=kernel.version.signature,
        code=kernel.version.code,
        strategy=STRATEGY,
        next=[{"config": config, "time_ms": time_ms} for config, time_ms in others],
    )


def log(data: bytes, device: SharedDevice, code: str) -> tuple[LoggedProblem, Recording]:
    """The log in a file, and its problem. Raises Damaged if it is none, or not of this device and code."""
    _check_decompressed(data)
    with tempfile.TemporaryDirectory(dir=paths.temporary()) as name:
        path = Path(name) / f"file{index.LOG}"
        path.write_bytes(data)
        try:
            problem, found = logs.read(path)
        except RequestError as error:
            raise Damaged(str(error).removeprefix(shown(path)).lstrip(": ")) from None
    if (problem.kind, problem.device, problem.code) != (device.kind, device.device, code):
        raise Damaged("the log is of another device or code than the index says")
    return problem, found


def supplied(problem: LoggedProblem, found: Recording, kernel: KnownKernel, results: Path | None) -> bool:
    """Add the results of a log to the store, as unverified ones, and return whether any is new.

    Raises Damaged if the log is of a problem or parameters that the kernel does not have.
    """
    space = kernel.space
    if found.parameters.keys() != space.parameters.keys() or not _is_problem_of(problem, space):
        raise Damaged(f"the log has sizes, options, types or parameters that {space.name} has not")
    own = replace(problem, kernel=space.name, code=kernel.version.code)
    return logs.supply(own, space, _declared(found, space), results)


def _is_problem_of(problem: LoggedProblem, space: Space) -> bool:
    texts = {"sizes": problem.sizes, "architecture": problem.architecture, "conditions": problem.conditions.values}
    are_options = problem.options.keys() <= space.operation.options.keys()
    if not are_options or not all(FIELDS[name].accepts(value) for name, value in texts.items()):
        return False
    about = problem.sizes, problem.options, problem.types
    return (
        all(map(math.isfinite, problem.options.values()))
        and widest(space, problem.kind, problem.architecture, *about) is not None
    )


def _declared(found: Recording, space: Space) -> Iterator[tuple[Config, Entry]]:
    """The results of configurations whose values the space declares."""
    for config, entry in found.configs():
        if all(config[name] in values for name, values in space.parameters.items()):
            yield config, entry if entry.failure is None else replace(entry, failure=plain(entry.failure, keep=""))


def _check_decompressed(data: bytes) -> None:
    """Raise Damaged unless a log is one gzip stream that is not too large."""
    archive = zlib.decompressobj(wbits=31)
    try:
        size = len(archive.decompress(data, MOST_DECOMPRESSED))
    except zlib.error as error:
        raise Damaged(f"cannot be decompressed: {error}") from None
    if archive.unconsumed_tail or not archive.eof or archive.unused_data:
        reason = f"has more than {size} bytes decompressed" if archive.unconsumed_tail else "is no whole gzip file"
        raise Damaged(reason)
