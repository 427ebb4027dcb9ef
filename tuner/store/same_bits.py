"""The look-up among configurations with equal bits: `tuner.load(..., same_bits_as=)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tuner.errors import RequestError
from tuner.quoting import quoted
from tuner.space.config import Config, config_key
from tuner.space.default import declared_or_first
from tuner.space.instance import checked
from tuner.space.values import bit_classes
from tuner.space.values.bit_classes import DEFAULT, RECORD
from tuner.store.lookup import Candidate
from tuner.store.rejected import Rejections

if TYPE_CHECKING:
    from tuner.space.config import ConfigKey, Value
    from tuner.store.lookup import Query
    from tuner.store.record import Record

FORM = 'write "default", "record", or a configuration such as {"block_size_x": 32}'


def candidates(
    records: Iterable[Record], query: Query, toolchain: str, asked: str | Mapping[str, Value]
) -> list[Candidate]:
    """The configurations with the bits that are asked for, best first; the last is the one whose bits they are.

    Only records of this problem, device, toolchain and kernel, verified on the same inputs, tell which bits are equal.
    Raises RequestError if `asked` names no configuration, or if there is no record to which it refers.
    """
    space, rejections = query.space, Rejections(query)
    of_problem = [record for record in records if _tells(record, query, toolchain)]
    plain = next((record for record in of_problem if record.is_plain), None)
    target = _target(query, asked, plain)
    found: dict[ConfigKey, tuple[float, Candidate]] = {}
    for record in of_problem:
        number = _number(record, target, plain if asked == RECORD else None, is_default=asked == DEFAULT)
        for rank, (config, time_ms, own) in enumerate(_numbered(record)):
            is_asked = config_key(config) == config_key(target)
            if (own is None or own != number) and not is_asked:
                continue
            candidate = Candidate(config, "exact", record, rank=rank)
            is_first = config_key(config) not in found or time_ms < found[config_key(config)][0]
            if is_first and space.valid(config, query.scope) and rejections.reason(config) is None:
                found[config_key(config)] = time_ms, candidate
    best_first = [candidate for _, candidate in sorted(found.values(), key=lambda each: each[0])]
    return best_first if config_key(target) in found else [*best_first, Candidate(target, "default")]


def _tells(record: Record, query: Query, toolchain: str) -> bool:
    """Whether a record tells of the bits of this problem."""
    is_same_code = (record.toolchain, record.signature) == (toolchain, query.version.signature)
    is_usual = (record.objective, record.caches) == ("time", "warm")
    return query.is_of(record) and is_same_code and is_usual and record.is_verified and bool(record.bits)


def _target(query: Query, asked: str | Mapping[str, Value], plain: Record | None) -> Config:
    """The configuration whose bits are asked for. Raises RequestError."""
    space, scope = query.space, query.scope
    if isinstance(asked, Mapping):
        only = {name: values[0] for name, values in space.parameters.items() if len(values) == 1}
        return checked(space, {**only, **asked}, scope).config
    if asked == DEFAULT:
        return declared_or_first(space, scope)
    if asked != RECORD:
        raise RequestError(f"same_bits_as={quoted(asked)}: {FORM}")
    if plain is None and space.operation.reference.kind == "none":
        raise RequestError(
            f'{space.name}: same_bits_as="record": the space has `reference: none`, and only outputs that are compared '
            'with a reference have digests; name a reference and tune again, or write "default"'
        )
    if plain is None:
        raise RequestError(
            f'{space.name}: same_bits_as="record": no record of this problem, device, toolchain and version of the '
            'kernel says which bits its outputs have; tune it, or write "default"'
        )
    if bit_classes.do_vary(plain.bits):
        raise RequestError(
            f'{space.name}: same_bits_as="record": the bits of the record\'s configuration differ from run to run; '
            "tune with --same-bits-as default"
        )
    return plain.config


def _numbered(record: Record) -> list[tuple[Config, float, int | None]]:
    """The configurations of a record, best first, each with its time in ms and the number of its class."""
    best = None if bit_classes.do_vary(record.bits) else 0
    others = [(each["config"], each["time_ms"], each.get("class")) for each in record.next]
    return [(record.config, record.time_ms, best), *others]


def _number(record: Record, target: Config, plain: Record | None, is_default: bool) -> int | None:
    """The number that the class of `target` has in a record; None if unknown. `plain` is the record with its bits."""
    if plain is not None and bit_classes.are_same(record.bits, plain.bits):
        return 0
    if is_default and record.default_class is not None:
        return record.default_class
    own = {config_key(config): number for config, _, number in _numbered(record)}
    return own.get(config_key(target))
