"""Files of time tables: measured times of configurations at many sizes, on which the time model is trained.

`results/FAMILY/STAGE.times` has one table per machine and problem of a kernel: the sizes, the times of each
configuration, and the vendor library's times. `tune cover` writes it. A record, in contrast, describes a single size in
detail. Earlier versions wrote `STAGE.times.json`, a text with the same content, which is still read; `tune export --to
times` writes it.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.errors import RequestError
from tuner.prediction import array_file
from tuner.prediction.array_file import ArrayFile
from tuner.quoting import shown
from tuner.space.dtypes import DTYPES
from tuner.store import locks
from tuner.store.time_table import StoredTable, TimeTable, head_of

if TYPE_CHECKING:
    from tuner.store.lookup import Query

__all__ = ["StoredTable", "TimeTable"]

FORMAT, VERSION, TEXT_VERSION = "tuner times", 2, 1
SUFFIX, TEXT_SUFFIX = SUFFIXES = ".times", ".times.json"  # of the file, and of the text of earlier versions
MOST = 1 << 26  # characters of a text, bytes of a file
CHIP = "cuda"  # the kind of device whose architecture and number of multiprocessors identify a chip


def path(kernel: str, root: Path) -> Path:
    """The file of a kernel's time tables in a folder of results."""
    return beside(root / f"{kernel.lstrip('/')}.jsonl")


def beside(records: Path) -> Path:
    """The file of the time tables of the kernel whose records are in this file."""
    return records.with_suffix(SUFFIX)


def files_beside(records: Path) -> list[Path]:
    """The file of the time tables of the kernel whose records are in this file, and the text of earlier versions."""
    return [records.with_suffix(suffix) for suffix in SUFFIXES]


def stored(records: Iterable[Path]) -> tuple[list[StoredTable], list[str]]:
    """The tables beside these files of records (`Store.files`), in their order, and messages about unreadable files."""
    tables: list[StoredTable] = []
    problems: list[str] = []
    for file in records:
        own: dict[str, StoredTable] = {}
        for each in files_beside(file):
            try:
                own = {**{table.head.key: table for table in _stored(each)}, **own}
            except RequestError as error:
                problems.append(str(error))
        tables += own.values()
    return tables, problems


def read(records: Iterable[Path]) -> tuple[list[TimeTable], list[str]]:
    """As `stored`, with the times."""
    found, problems = stored(records)
    return [each.table for each in found], problems


def read_file(file: Path) -> tuple[list[TimeTable], list[str]]:
    """The tables of a file, none if it does not exist, and a message if it cannot be read."""
    try:
        return _tables(file), []
    except RequestError as error:
        return [], [str(error)]


def kernel_of(file: Path) -> object:
    """The kernel named by a file from which tables were read."""
    data = file.read_bytes()
    return (array_file.read(data, FORMAT, VERSION).header if _is_packed(data) else json.loads(data)).get("kernel")


def sibling_of(queries: Sequence[Query], tables: Sequence[Sequence[StoredTable]], units: int) -> str | None:
    """The name of the sibling device with the most times; None if there is none, or the device itself has as many.

    `queries` are of kernels on the device, `tables` the time tables of each kernel, `units` the device's number of
    multiprocessors. NVIDIA GPUs of one architecture with the same number of multiprocessors are siblings: the same
    chip, perhaps with different memory, such as an H100 and an H200. Their times differ, but rarely which configuration
    is fastest. For CPUs and OpenCL devices, the architecture does not identify the chip.
    """
    counts: dict[str, int] = {}
    for query, measured in zip(queries, tables, strict=True):
        for table in measured:
            head = table.head
            is_own = head.device == query.device
            is_sibling = query.kind == CHIP and (head.architecture, head.units) == (query.architecture, units)
            if (is_own or is_sibling) and head.serves(replace(query, device=head.device)):
                counts[head.device] = counts.get(head.device, 0) + table.count
    own = counts.pop(queries[0].device, 0) if queries else 0
    most = max(sorted(counts), key=lambda name: counts[name], default=None)
    return most if most is not None and counts[most] > own else None


def types_alike(
    queries: Sequence[Query], tables: Sequence[Sequence[StoredTable]], units: int
) -> Mapping[str, str] | None:
    """The types whose times stand for those of the queries' types; None if these have tables of their own, or if there
    are none. They take as many bytes, as bfloat16 and float16 do, so that the same work takes about the same time.

    `queries`, `tables` and `units` are as in `sibling_of`.
    """
    counts, found = Counter[str](), dict[str, Mapping[str, str]]()
    for query, measured in zip(queries, tables, strict=True):
        for head, count in ((table.head, table.count) for table in measured):
            asked = replace(query, device=head.device, scope=replace(query.scope, types=head.types))
            is_chip = head.device == query.device or (head.architecture, head.units) == (query.architecture, units)
            if is_chip and head.kind == query.kind == CHIP and head.serves(asked):
                if head.types == query.scope.types:
                    return None
                if _nature(head.types) == _nature(query.scope.types):
                    counts[str(sorted(head.types.items()))] += count
                    found[str(sorted(head.types.items()))] = head.types
    return found[counts.most_common(1)[0][0]] if counts else None


def _nature(types: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """What the time of a kernel with these types depends on."""
    return {name: (DTYPES[each].kind, DTYPES[each].itemsize) for name, each in types.items() if each in DTYPES}


def write(kernel: str, tables: Sequence[TimeTable], folder: Path | None = None) -> None:
    """Add `tables` to a kernel's file in `folder`, by default the user's own results.

    New times replace old ones, and their tables come first. A text of an earlier version goes into the file. Raises
    RequestError if one of the two cannot be read, which leaves both unchanged, or the file cannot be written.
    """
    if not tables:
        return
    file = path(kernel, folder or paths.user_results())
    with locks.updating(file):
        before = file.with_suffix(TEXT_SUFFIX)
        merged = {table.key: table for each in (before, file) for table in _tables(each)}
        for table in reversed(tables):
            if table.key in merged:
                table.take(merged.pop(table.key))
            merged = {table.key: table, **merged}
        paths.replace(file, _packed(kernel, [*merged.values()]))
        before.unlink(missing_ok=True)


def text(kernel: str, tables: Iterable[TimeTable]) -> str:
    """The tables as text for people, which earlier versions wrote: one line per configuration."""
    parts = []
    for table in tables:
        data = table.to_json()
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in data.pop("configs"))
        parts.append(f'{json.dumps(data, separators=(",", ":"))[:-1]},"configs":[\n{rows}\n]}}')
    head = json.dumps({"format": FORMAT, "version": TEXT_VERSION, "kernel": kernel})[:-1]
    body = ",\n".join(parts)
    return f'{head}, "tables": [\n{body}\n]}}\n'


def _packed(kernel: str, tables: Sequence[TimeTable]) -> bytes:
    heads = [{**t.about(), "count": t.count, "configs": [*t.configs.values()]} for t in tables]
    return array_file.packed(
        FORMAT, VERSION, {"kernel": kernel, "tables": heads}, [table.to_arrays() for table in tables], small=True
    )


def _tables(file: Path) -> list[TimeTable]:
    """The tables of a file; none if it does not exist. Raises RequestError if it is unreadable or of another format."""
    return [each.table for each in _stored(file)]


def _is_packed(data: bytes) -> bool:
    return array_file.is_of(data, FORMAT)


def _stored(file: Path) -> list[StoredTable]:
    """The tables of a file, without reading their times if it is no text; none if it does not exist.

    Raises RequestError if it is unreadable or of another format.
    """
    where = shown(file)
    try:
        if file.suffix == ".json":
            return _of_text(paths.read_text(file, MOST), where)
        with file.open("rb") as stream:
            data = stream.read(MOST + 1)
        if len(data) > MOST:
            raise RequestError(f"{where}: at most {MOST:,} bytes are allowed")
        packed = array_file.read(data, FORMAT, VERSION)
        heads = packed.header["tables"]
        return [_in(packed, number, heads[number], where) for number in range(len(packed.digests))]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RequestError(f"{where}: cannot be read: {error.strerror}; name another folder with --results") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise _damaged(where, error) from None


def _in(packed: ArrayFile, number: int, head: dict[str, object], where: str) -> StoredTable:
    """The table with this number."""
    described, configs, count = head_of(head), head["configs"], head["count"]
    if not isinstance(configs, list) or type(count) is not int:
        raise ValueError("configs is a list, count a whole number")

    def load() -> TimeTable:
        try:
            return TimeTable.from_arrays(described, configs, packed.arrays(number))
        except ValueError as error:
            raise _damaged(where, error) from None

    return StoredTable(described, count, packed.digests[number], load)


def _of_text(content: str, where: str) -> list[StoredTable]:
    """The tables of a text. Raises RequestError if it is of another format, and ValueError if it is damaged."""
    document = json.loads(content)
    if not isinstance(document, dict) or (document.get("format"), document.get("version")) != (FORMAT, TEXT_VERSION):
        raise RequestError(f"{where}: is not of format {FORMAT!r}, version {TEXT_VERSION}; move it away")
    digest = paths.digest(content)
    tables = [TimeTable.from_json(each) for each in document["tables"]]
    return [StoredTable(t, t.count, f"{digest} {n}", functools.partial(_same, t)) for n, t in enumerate(tables)]


def _same(table: TimeTable) -> TimeTable:
    return table


def _damaged(where: str, error: Exception) -> RequestError:
    return RequestError(f"{where}: holds no times: {error}; move it away, and run `tune cover` again")
