"""The bits of outputs as digests, one for each set of inputs, and the classes of configurations with equal bits.

A digest says nothing of the bits on other inputs, on another device, or of another toolchain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

Bits = Mapping[str, str]  # digests of a configuration's outputs, by the name of the input set
Key = TypeVar("Key", bound=Hashable)
DEFAULT, RECORD = "default", "record"  # whose bits can be asked for, besides those of a named configuration
VARIES = "varies"  # in place of a digest: runs on the same inputs gave different bits
DIGITS = 12  # hexadecimal ones of a digest: 48 bits
MOST_SETS = 64  # of a record, which is untrusted input


def digest(outputs: Iterable[tuple[str, int, int]]) -> str:
    """The digest of a run from the name, the size in bytes and the 64-bit digest of each output."""
    return hashlib.blake2b(repr(sorted(outputs)).encode(), digest_size=DIGITS // 2).hexdigest()


def joined(parts: Iterable[Bits]) -> dict[str, str]:
    """The digests of several measurements of one configuration. Where they contradict each other, its bits vary."""
    whole: dict[str, str] = {}
    for part in parts:
        for name, found in part.items():
            whole[name] = found if whole.get(name, found) == found else VARIES
    return whole


def do_vary(bits: Bits) -> bool:
    """Whether two runs of the configuration on the same inputs gave different bits."""
    return VARIES in bits.values()


def are_same(one: Bits, other: Bits) -> bool | None:
    """Whether two configurations gave equal bits on all sets of inputs that both have; None if they share no set."""
    shared = one.keys() & other.keys()
    if not shared:
        return None
    return not (do_vary(one) or do_vary(other)) and all(one[name] == other[name] for name in shared)


def classes(bits: Mapping[Key, Bits]) -> list[list[Key]]:
    """The classes of configurations with equal bits, the largest first, each in the order of `bits`.

    A configuration whose bits vary, or are unknown, is in no class. One that was verified on fewer sets than others is
    in the largest class that it does not contradict.
    """
    by_bits: dict[frozenset[tuple[str, str]], list[Key]] = {}
    for key, known in bits.items():
        if known and not do_vary(known):
            by_bits.setdefault(frozenset(known.items()), []).append(key)
    found: list[tuple[dict[str, str], list[Key]]] = []
    having: dict[tuple[str, str], set[int]] = {}  # positions in `found`, by a set's name and its digest
    for known_bits in sorted(by_bits, key=lambda each: (-len(each), -len(by_bits[each]), sorted(each))):
        own, keys = dict(known_bits), by_bits[known_bits]
        sharing = sorted({position for pair in known_bits for position in having.get(pair, ())})
        fitting = [position for position in sharing if are_same(found[position][0], own)]
        chosen = max(fitting, key=lambda position: len(found[position][1]), default=len(found))
        if chosen == len(found):
            found.append(({}, []))
        found[chosen][0].update(own)
        found[chosen][1].extend(keys)
        for pair in known_bits:
            having.setdefault(pair, set()).add(chosen)
    order = {key: position for position, key in enumerate(bits)}
    whole = [sorted(keys, key=order.__getitem__) for _, keys in found]
    return sorted(whole, key=lambda keys: (-len(keys), order[keys[0]]))


def numbers(bits: Sequence[Bits]) -> list[int | None]:
    """The number of each configuration's class, from 0 on in the order of `bits`; None if it varies or is unknown."""
    of_position = {position: keys[0] for keys in classes(dict(enumerate(bits))) for position in keys}
    firsts = sorted(set(of_position.values()))
    return [firsts.index(of_position[i]) if i in of_position else None for i in range(len(bits))]


def is_valid(value: Any) -> bool:
    """Whether `value`, from a file, is a Bits."""
    return (
        isinstance(value, dict)
        and len(value) <= MOST_SETS
        and all(isinstance(name, str) and isinstance(each, str) and _is_digest(each) for name, each in value.items())
    )


def _is_digest(text: str) -> bool:
    return text == VARIES or (len(text) == DIGITS and all(letter in "0123456789abcdef" for letter in text))
