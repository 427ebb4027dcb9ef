"""JSON files as others leave them: plain or compressed, whole or cut short, or something else altogether."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import RequestError

MOST_BYTES = 1 << 29  # of a file, decompressed
_MOST_TORN = 100  # places in a row where no whole entry begins: each may cost a look at all that follows


def text(path: Path) -> str:
    """The text of a .json or .json.gz file, as far as it goes. Raises RequestError for what is no file, or too long."""
    where = paths.shown(path)
    try:
        if path.exists() and not path.is_file():
            raise RequestError(f"{where}: not a file; give a recording, .json or .json.gz")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RequestError(f"{where}: cannot be read: {error.strerror}; give a recording, .json or .json.gz") from None
    if data[:2] == b"\x1f\x8b":
        try:
            # Unlike gzip, this gives what there is of a file that was cut.
            data = zlib.decompressobj(wbits=31).decompress(data, MOST_BYTES + 1)
        except zlib.error as error:
            raise RequestError(f"{where}: cannot be decompressed: {error}; record it again") from None
    if len(data) > MOST_BYTES:
        raise RequestError(f"{where}: longer than {MOST_BYTES} bytes, the most that is read")
    return data.decode("utf-8-sig", errors="replace")


def parts(text: str) -> tuple[dict[str, Any], str | None, list[Any]]:
    """The members before the entries, which kind of file it is, and the entries; None for each torn one."""
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
        before, quoted, after = text.partition(f'"{member}"')
        if quoted:
            try:
                header = json.loads(before.rstrip().rstrip(",") + "}")
            except (ValueError, RecursionError):
                header = {}
            return header, member, list(_whole(after))
    return {}, None, []


def _whole(text: str) -> Iterator[Any]:
    """The objects in `text` that are whole, of those that are not within another, and None where any are torn, up to
    where no more are to be expected: what is nested without end would be looked through again from each brace."""
    decoder = json.JSONDecoder()
    position = text.find("{") + 1 if text.lstrip(": \n\t").startswith("{") else 0
    torn = 0
    while torn < _MOST_TORN and (position := text.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, position)
            torn = 0
            yield value
        except ValueError:
            if not torn:
                yield None
            position += 1
            torn += 1
        except RecursionError:
            return


def nothing_in(content: str, member: str | None, entries: list[Any]) -> str:
    """Why a file gave no time, and what would."""
    wanted = "give a Kernel Tuner cache (.json, .json.gz) or a T4 file"
    entries = [entry for entry in entries if entry is not None]
    if not content.strip():
        return f"empty, or cut short before anything; {wanted}"
    try:
        first = json.loads(content.strip().partition("\n")[0])
        if isinstance(first, dict) and first.get("format") == "tuner results":
            return "a store of results, which `tune merge` reads"
    except (ValueError, RecursionError):
        pass
    try:
        json.loads(content)
    except RecursionError:
        return f"nested too deeply; {wanted}"
    except ValueError as error:
        if not entries:
            return f"not JSON: {error}; {wanted}"
    if member is None:
        return f"has neither `cache`, `results` nor, as a T1 file has, `KernelSpecification`; {wanted}"
    return f"no configuration with a time in it: none of {len(entries)} in `{member}` has one; {wanted}"
