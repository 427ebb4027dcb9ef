"""Receipts: what a judgement rests on, so that anybody can make it again and see what differs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import paths
from tuner.errors import RequestError
from tuner.judging.evaluation import FORMAT, Request, evaluated
from tuner.judging.verdict import CandidateVerdict
from tuner.quoting import quoted, shown
from tuner.space.texts import size_text

if TYPE_CHECKING:
    from tuner.judging.evaluation import Verdicts

MOST_CHARACTERS = 50_000_000
DIFFERS = 1.25  # speed-ups that differ by more are told, if their intervals do not meet either
_FACTS = ("verdict", "compiles", "launches", "right", "bits_repeat", "trusted_code_only", "config")


def write(file: Path, judged: Verdicts) -> None:
    """Write the receipt of a judgement. Raises RequestError."""
    with paths.writing(f"--receipt {file}", "name another place"):
        file.write_text(json.dumps(judged.receipt, indent=1) + "\n", encoding="utf-8")


def read(file: Path) -> dict[str, Any]:
    """The receipt in a file, which is untrusted. Raises RequestError if it is none."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise RequestError(f"{shown(file)}: cannot be read: {reason}; name a file that --receipt wrote") from None
    try:
        data = json.loads(text) if len(text) <= MOST_CHARACTERS else None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        for verdict in data["verdicts"]:
            CandidateVerdict.from_json(verdict)
        if not {"against", "space", "request", "verdicts", "judged_on", "version"} <= data.keys():
            raise ValueError("a part is missing")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise RequestError(f"{shown(file)}: is no receipt: {error}; name a file that --receipt wrote") from None
    return data


def repeated(
    receipt: Mapping[str, Any], device: str | None, noted: Callable[[str], None]
) -> tuple[Verdicts, list[str]]:
    """Judge again what a receipt judged, with its seed, and return the verdicts and what differs, in words.

    The files and the space are those of its names, which may have changed since. Raises RequestError if the receipt
    names what is not there, and as `evaluated` does.
    """
    try:
        request = _request(receipt, device)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RequestError(f"the receipt's request is not valid: {error}; take one that --receipt wrote") from None
    judged = evaluated(request, noted)
    return judged, differences(receipt, judged.receipt)


def _request(receipt: Mapping[str, Any], device: str | None) -> Request:
    asked = receipt["request"]
    if not isinstance(receipt["against"], str):
        raise TypeError(f"against is {quoted(receipt['against'])}")
    return Request(
        [Path(each["candidate"]) for each in receipt["verdicts"]],
        receipt["path"] or receipt["against"],
        [dict(size) for size in asked["sizes"]],
        device=device or asked["device"],
        options={name: float(value) for name, value in asked["options"].items()},
        types={name: str(value) for name, value in asked["types"].items()},
        tune=int(asked["tune"]),
        hidden=int(asked["hidden"]),
        rounds=int(asked["rounds"]),
        verify=None if asked["verify"] is None else int(asked["verify"]),
        timeout=float(asked["timeout"]),
        sanitize=bool(asked["sanitize"]),
        seed=int(asked["seed"]),
    )


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two receipts, in words; speeds only if they certainly do.

    Speeds are over the space's own kernel in the same rounds: times alone also differ with the machine's load.
    """
    found = [
        f"{what}: {_short(then.get(name))} then, {_short(now.get(name))} now"
        for name, what in (("version", "tuner"), ("space", "the space"), ("kernel", "the space's own kernel"))
        if then.get(name) != now.get(name)
    ]
    for old, new in zip(then["judged_on"], now["judged_on"], strict=False):
        for name in ("device", "toolchain", "conditions", "hidden", "baseline"):
            if old.get(name) != new.get(name):
                found.append(f"{name}: {_short(old.get(name))} then, {_short(new.get(name))} now")
    for old, new in zip(then["verdicts"], now["verdicts"], strict=False):
        found += [f"{new['candidate']}: {text}" for text in _of_verdict(old, new)]
    return found


def _of_verdict(old: Mapping[str, Any], new: Mapping[str, Any]) -> Sequence[str]:
    found = list[str]()
    if old["sha256"] != new["sha256"]:
        found.append("another text: its hash differs")
    found += [f"{name}: {_short(old[name])} then, {_short(new[name])} now" for name in _FACTS if old[name] != new[name]]
    codes = [[reason["code"] for reason in each["reasons"]] for each in (old, new)]
    if codes[0] != codes[1]:
        found.append(f"reasons: {', '.join(codes[0]) or 'none'} then, {', '.join(codes[1]) or 'none'} now")
    if old["isolation"] != new["isolation"]:
        found.append(f"isolation: {', '.join(old['isolation'])} then, {', '.join(new['isolation'])} now")
    for before, after in zip(old["times"], new["times"], strict=False):
        (low, was, high), (least, now, most) = before["speedup"], after["speedup"]
        if max(now / was, was / now) > DIFFERS and (least > high or most < low):
            found.append(f"{size_text(after['size'])}: {was:.3g} x as fast as the baseline then, {now:.3g} x now")
    return found


def _short(value: Any) -> str:
    """A value in few characters; a long one by its hash."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return shown(text) if len(text) <= 200 else hashlib.sha256(text.encode()).hexdigest()[:12]
