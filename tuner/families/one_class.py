"""`tuner.dispatch(..., one_class=True)`: at each problem only configurations whose outputs have the default's bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.errors import NoConfiguration
from tuner.space.values.bit_classes import DEFAULT
from tuner.store import same_bits

if TYPE_CHECKING:
    from tuner.devices import Device
    from tuner.space.scope import Scope
    from tuner.store.lookup import Candidate, Query
    from tuner.store.store import Store


def candidates(
    kernels: Iterable[tuple[Query, Store]], scope: Scope, device: Device
) -> Iterator[tuple[Query, Candidate]]:
    """The candidates of the first kernel that has a valid configuration, best first; the last is its default.

    All have the bits of its default, as far as records of this problem tell. So whatever was tuned, in this process and
    in others, outputs of the same inputs are equal. Raises NoConfiguration if no kernel has a valid configuration.
    """
    failure = NoConfiguration(f"no kernel of the family runs on {device.id}")
    for query, store in kernels:
        asked = replace(query, scope=scope, conditions=device.conditions)
        toolchain = device.toolchain_of(asked.space.compiler_of(device.language))
        try:
            found = same_bits.candidates(store.records, asked, toolchain, DEFAULT)
        except NoConfiguration as error:
            failure = error
            continue
        yield from ((asked, candidate) for candidate in found)
        return
    raise failure
