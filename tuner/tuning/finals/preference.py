"""What else than times decides the finals: the record that is there, and whose bits are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.space.default import declared_or_first
from tuner.space.deployments import CACHES
from tuner.store import rejected
from tuner.tuning.finals.same_bits import SameBits

if TYPE_CHECKING:
    from tuner.measure.method import Method
    from tuner.space.config import Config
    from tuner.store.lookup import Query
    from tuner.store.store import Store


@dataclass(frozen=True)
class Preference:
    """The configuration of the record that is there, and whose bits are asked for."""

    record: Config | None = None
    same_bits: SameBits | None = None

    @property
    def first(self) -> list[Config]:
        """The configurations that a search must measure."""
        return [] if self.same_bits is None else [self.same_bits.config]

    @staticmethod
    def of(
        store: Store, query: Query, signature: str, toolchain: str, method: Method, asked: str | None, is_fresh: bool
    ) -> Preference:
        """The preference for a problem. `asked` is the value of `--same-bits-as`. A fresh run knows no record.

        Raises RequestError if nothing has the bits that are asked for.
        """
        rejections = rejected.Rejections(query)
        present = [
            record
            for record in store.records
            if query.is_of(record)
            and (record.objective, record.caches) == (method.objectives[0], CACHES[method.deployment])
            and record.signature == signature
            and query.space.valid(record.config, query.scope)
            and rejections.reason(record.config) is None
        ]
        same_bits = None
        if asked is not None:
            default = declared_or_first(query.space, query.scope)
            plain = [record for record in present if not record.same_bits_as and record.toolchain == toolchain]
            same_bits = SameBits.of(asked, query.space, query.scope, default, next(iter(plain), None))
        name = "" if same_bits is None else same_bits.name
        alike = [] if is_fresh else [record for record in present if record.same_bits_as == name]
        return Preference(alike[0].config if alike else None, same_bits)


NO_PREFERENCE = Preference()
