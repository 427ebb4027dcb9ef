"""JSON files of other programs: plain or compressed, whole or cut short, or not JSON at all."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tuner.errors import RequestError
from tuner.quoting import shown

MOST_BYTES = 1 << 27  # of a file, decompressed
MAX_VALUES = 5_000_000  # of its JSON; each takes up to 240 bytes of memory, however short its text is
_MOST_SCANS = 4  # of a text, for its torn entries
_PIECE = 1 << 20  # bytes that are read at a time
_MOST_TORN = 100  # braces in a row at which no whole entry begins; each may cost a scan of the rest


def text(path: Path) -> str:
    """The text of a .json or .json.gz file, as far as it goes. Raises RequestError for anything but a file of at most
    MOST_BYTES and MAX_VALUES, and reads no further."""
    where = shown(path)
    data = bytearray()
    values = 0
    try:
        if path.exists() and not path.is_file():
            raise RequestError(f"{where}: not a file; give a recording, .json or .json.gz")
        with path.open("rb") as file:
            for piece in _pieces(file):
                data += piece
                values += sum(map(piece.count, (b",", b"[", b"{")))
                if len(data) > MOST_BYTES or values > MAX_VALUES:
                    raise RequestError(
                        f"{where}: longer than {MOST_BYTES:,} bytes, decompressed, or {MAX_VALUES:,} JSON values, the "
                        "most that are read; give a part of it"
                    )
    except OSError as error:
        raise RequestError(f"{where}: cannot be read: {error.strerror}; give a recording, .json or .json.gz") from None
    except zlib.error as error:
        raise RequestError(f"{where}: cannot be decompressed: {error}; record it again") from None
    return data.decode("utf-8-sig", errors="replace")


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """The file's bytes, decompressed, in pieces. The beginning of a compressed file that was cut is one too."""
    piece = file.read(_PIECE)
    if not piece.startswith(b"\x1f\x8b"):
        while piece:
            yield piece
            piece = file.read(_PIECE)
        return
    archive = zlib.decompressobj(wbits=31)
    while piece and not archive.eof:
        yield archive.decompress(piece, _PIECE)
        piece = archive.unconsumed_tail or file.read(_PIECE)


def parts(text: str) -> tuple[dict[str, Any], str | None, list[Any]]:
    """The header, the member that holds the entries (`cache`, `results` or None), and the entries. None stands for
    entries that are torn."""
    try:
        data = json.loads(text)
        for member in ("cache", "results"):
            if isinstance(data, dict) and isinstance(data.get(member), dict | list):
                inner = data.pop(member)
                return data, member, list(inner.values() if isinstance(inner, dict) else inner)
        return {}, None, []
    except (ValueError, RecursionError):
        pass
    for member in ("cache", "results"):
        before, quotation, after = text.partition(f'"{member}"')
        if quotation:
            try:
                header = json.loads(before.rstrip().rstrip(",") + "}")
            except (ValueError, RecursionError):
                header = {}
            return header, member, list(_whole_objects(after))
    return {}, None, []


def _whole_objects(text: str) -> Iterator[Any]:
    """The outermost objects in `text` that are whole, and None where some are torn. Ends after _MOST_TORN braces in a
    row, or when torn objects have cost _MOST_SCANS scans of the text: each brace may cost one of the rest."""
    decoder = json.JSONDecoder()
    position = text.find("{") + 1 if text.lstrip(": \n\t").startswith("{") else 0
    torn = scanned = 0
    while torn < _MOST_TORN and scanned <= _MOST_SCANS * len(text) and (position := text.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, position)
            torn = 0
            yield value
        except ValueError as error:  # one without a position is of a number that is too long
            scanned += getattr(error, "pos", len(text)) - position
            if not torn:
                yield None
            position += 1
            torn += 1
        except RecursionError:
            return


def why_no_time(content: str, member: str | None, entries: list[Any]) -> str:
    """Why no time was read from a file with this content, and what to give instead."""
    remedy = "give a Kernel Tuner cache (.json, .json.gz) or a T4 file"
    count = sum(entry is not None for entry in entries)
    if not content.strip():
        return f"empty, or cut short before anything; {remedy}"
    try:
        first = json.loads(content.strip().partition("\n")[0])
        if isinstance(first, dict) and first.get("format") == "tuner results":
            return "a store of results, which `tune merge` reads"
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
        return f"has neither `cache`, `results` nor, as a T1 file has, `KernelSpecification`; {remedy}"
    return f"no configuration with a time in it: none of {count} in `{member}` has one; {remedy}"
