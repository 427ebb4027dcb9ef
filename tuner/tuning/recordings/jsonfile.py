"""Reader of other programs' JSON files: plain or gzip-compressed, complete, truncated, or not JSON at all."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tuner.errors import RequestError
from tuner.quoting import shown

MOST_BYTES = 1 << 27  # size limit of a file, decompressed
MAX_VALUES = 5_000_000  # JSON values per file; each takes up to 240 bytes of memory, however short its text
MEMBERS = ("cache", "results", "Results")  # with the entries: of Kernel Tuner, of T4, and of KTT
_MOST_SCANS = 4  # passes over the text that torn entries may cost
_CHUNK = 1 << 20  # bytes per read
_MOST_TORN = 100  # consecutive braces at which no whole entry begins; each may cost a scan of the rest


def text(path: Path) -> str:
    """The text of a .json or .json.gz file; of a truncated .gz file, the part that can be decompressed.

    Raises RequestError if `path` is not a readable file. Stops reading, and raises it, beyond MOST_BYTES or MAX_VALUES.
    """
    where = shown(path)
    data = bytearray()
    values = 0
    try:
        if path.exists() and not path.is_file():
            raise RequestError(f"{where}: not a file; give a recording, .json or .json.gz")
        with path.open("rb") as file:
            for chunk in _chunks(file):
                data += chunk
                values += sum(map(chunk.count, (b",", b"[", b"{")))
                if len(data) > MOST_BYTES or values > MAX_VALUES:
                    raise RequestError(
                        f"{where}: more than {MOST_BYTES:,} bytes (decompressed) or {MAX_VALUES:,} JSON values, the "
                        "most that tuner reads; give a part of the file"
                    )
    except OSError as error:
        raise RequestError(f"{where}: cannot be read: {error.strerror}; give a recording, .json or .json.gz") from None
    except zlib.error as error:
        raise RequestError(f"{where}: cannot be decompressed: {error}; record it again") from None
    return data.decode("utf-8-sig", errors="replace")


def header(path: Path) -> dict[str, Any] | None:
    """What stands before the entries of a file, at most _CHUNK bytes; None if that is no JSON object, or unreadable."""
    try:
        with path.open("rb") as file:
            begin = next(_chunks(file), b"").decode("utf-8-sig", errors="replace")
    except (OSError, zlib.error):
        return None
    found = _torn(begin)
    return None if found is None else found[0]


def _torn(text: str) -> tuple[dict[str, Any] | None, str, str] | None:
    """The header of a torn text, the name of the member with the entries, and the text behind that name.

    The header is None if it cannot be read. None if there is no such member.
    """
    for member in MEMBERS:
        before, quotation, after = text.partition(f'"{member}"')
        if quotation:
            try:
                found = json.loads(before.rstrip().rstrip(",") + "}")
            except (ValueError, RecursionError):
                found = None
            return found if isinstance(found, dict) else None, member, after
    return None


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """The file's bytes, decompressed if they are gzip, in chunks. A truncated gzip file yields what it still has."""
    chunk = file.read(_CHUNK)
    if not chunk.startswith(b"\x1f\x8b"):
        while chunk:
            yield chunk
            chunk = file.read(_CHUNK)
        return
    archive = zlib.decompressobj(wbits=31)
    while chunk and not archive.eof:
        yield archive.decompress(chunk, _CHUNK)
        chunk = archive.unconsumed_tail or file.read(_CHUNK)


def parts(text: str) -> tuple[dict[str, Any], str | None, list[Any]]:
    """Split `text` into its header, the name of the member with the entries (one of MEMBERS, or None), and entries.

    A run of torn entries is one None.
    """
    try:
        data = json.loads(text)
        for member in MEMBERS:
            if isinstance(data, dict) and isinstance(data.get(member), dict | list):
                inner = data.pop(member)
                return data, member, list(inner.values() if isinstance(inner, dict) else inner)
        return {}, None, []
    except (ValueError, RecursionError):
        pass
    if (found := _torn(text)) is not None:
        return found[0] or {}, found[1], list(_whole_objects(found[2]))
    return {}, None, []


def _whole_objects(text: str) -> Iterator[Any]:
    """The outermost complete JSON objects in `text`, with one None for each run of torn ones.

    Stops after _MOST_TORN consecutive braces without a complete object, or when torn objects have cost _MOST_SCANS
    passes over the text: each brace may cost a scan of the rest.
    """
    decoder = json.JSONDecoder()
    position = text.find("{") + 1 if text.lstrip(": \n\t").startswith("{") else 0
    torn = scanned = 0
    while torn < _MOST_TORN and scanned <= _MOST_SCANS * len(text) and (position := text.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, position)
            torn = 0
            yield value
        except ValueError as error:  # an overlong number raises one without `pos`
            scanned += getattr(error, "pos", len(text)) - position
            if not torn:
                yield None
            position += 1
            torn += 1
        except RecursionError:
            return


def why_no_time(content: str, member: str | None, entries: list[Any]) -> str:
    """Explain why a file with this content gave no times, and say which file to give instead."""
    remedy = "give a Kernel Tuner cache (.json, .json.gz), a T4 file, or results of KTT"
    count = sum(entry is not None for entry in entries)
    if not content.strip():
        return f"empty, or truncated at its beginning; {remedy}"
    try:
        first = json.loads(content.strip().partition("\n")[0])
        if isinstance(first, dict) and first.get("format") == "tuner results":
            return "a file of the store; import it with `tune merge`"
    except (ValueError, RecursionError):
        pass
    try:
        json.loads(content)
    except RecursionError:
        return f"nested too deeply; {remedy}"
    except ValueError as error:
        if not count:
            return f"not JSON: {error}; {remedy}"
    if member is None:
        return f"has none of `cache`, `results`, `Results` and (in a T1 file) `KernelSpecification`; {remedy}"
    others = {
        measurement["name"][:40]
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("measurements"), list)
        for measurement in entry["measurements"]
        if isinstance(measurement, dict) and isinstance(measurement.get("name"), str)
    }
    measured = (
        f" (a time is the measurement `time`; there are {shown(', '.join(sorted(others)[:8]))})" if others else ""
    )
    return f"no configuration with a time: none of the {count} in `{member}` has one{measured}; {remedy}"
