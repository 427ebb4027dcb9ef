"""What the files of a shared store claim, checked against a kernel of this machine: records without their claim to be
verified, and results of logs."""

from __future__ import annotations

import contextlib
import math
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tuner import devices, paths
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
from tuner.store.merge import possible
from tuner.store.record import RUNNERS_UP, Record
from tuner.store.record_rules import FIELDS
from tuner.tuning.recordings import logs
from tuner.tuning.recordings.logs import LoggedProblem
from tuner.tuning.recordings.recording import Entry, Recording

STRATEGY = "pulled"  # of the records
MOST_DECOMPRESSED = 1 << 24  # bytes of a log


@dataclass(frozen=True)
class KnownKernel:
    """A kernel of this machine, as it is now."""

    space: Space
    version: Version


def records(data: bytes) -> list[Record]:
    """The records in a file. Raises Damaged if a line holds none, or the file is of a newer version."""
    with _stored(data, index.RECORDS) as path:
        try:
            found, unread = record_file.read(path)
        except RequestError as error:
            raise Damaged(_without(str(error), path)) from None
        if unread:
            raise Damaged(_without(unread[0], path))
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
    space, op = kernel.space, kernel.space.operation
    try:
        if not possible(space, record):
            return None
        backend = devices.BACKENDS[record.kind]
        options = {**op.options, **record.options}
        limits = backend.widest(record.architecture)
        scope = op.scope(record.sizes, options, backend.language, limits, record.types)
        others = [each for each in record.timed[1:] if space.valid(each[0], scope)][:RUNNERS_UP]
        rates = operation.gflops(op, scope, record.time_ms), operation.gbytes(op, scope, record.time_ms)
    except (TunerError, ArithmeticError):  # of sizes for which nothing can be computed
        return None
    return Record(
        device=record.device,
        kind=record.kind,
        architecture=record.architecture,
        sizes=record.sizes,
        types=record.types,
        options=record.options,
        conditions=record.conditions,
        objective=record.objective,
        caches=record.caches,
        config=record.config,
        time_ms=record.time_ms,
        spread=record.spread,
        energy_mj=record.energy_mj,
        energy_spread=record.energy_spread,
        rounds=record.rounds,
        gflops=rates[0],
        gbytes=rates[1],
        library=None,
        library_ms=None,
        vs_library=None,
        error=None,
        bound=None,
        signature=kernel.version.signature,
        code=kernel.version.code,
        toolchain=record.toolchain,
        configurations=record.configurations,
        evaluated=record.evaluated,
        failed=record.failed,
        strategy=STRATEGY,
        date=record.date,
        version=record.version,
        next=[{"config": config, "time_ms": time_ms} for config, time_ms in others],
    )


def log(data: bytes, device: SharedDevice, code: str) -> tuple[LoggedProblem, Recording]:
    """The log in a file, and its problem. Raises Damaged if it is none, or not of this device and code."""
    _check_decompressed(data)
    with _stored(data, index.LOG) as path:
        try:
            problem, found = logs.read(path)
        except RequestError as error:
            raise Damaged(_without(str(error), path)) from None
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
    op, backend = space.operation, devices.BACKENDS.get(problem.kind)
    is_run = backend is not None and backend.language in space.languages
    are_sizes = problem.sizes.keys() == op.sizes.keys() and FIELDS["sizes"].accepts(problem.sizes)
    are_types = problem.types.keys() == op.types.keys() and all(
        dtype in op.types[name] for name, dtype in problem.types.items()
    )
    are_options = problem.options.keys() <= op.options.keys() and all(map(math.isfinite, problem.options.values()))
    others = FIELDS["architecture"].accepts(problem.architecture)
    return (
        is_run
        and are_sizes
        and are_types
        and are_options
        and others
        and (FIELDS["conditions"].accepts(problem.conditions.values))
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


@contextlib.contextmanager
def _stored(data: bytes, suffix: str) -> Iterator[Path]:
    """A temporary file with this content, for the readers of stores."""
    with tempfile.TemporaryDirectory(dir=paths.temporary()) as name:
        path = Path(name) / f"file{suffix}"
        path.write_bytes(data)
        yield path


def _without(message: str, path: Path) -> str:
    """A message about a temporary file, without its name."""
    return message.removeprefix(shown(path)).lstrip(": ")
