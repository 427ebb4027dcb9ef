"""Rivals: configurations of another source of the same kernel, which take part in a final round on the same arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.space import launch_form

if TYPE_CHECKING:
    from tuner.space.config import Config
    from tuner.space.model import Space


@dataclass(frozen=True)
class Rivals:
    """Configurations of `space`, whose operation differs from that of the task in scratch arrays at most."""

    space: Space
    configs: tuple[Config, ...]

    def to_json(self) -> dict[str, Any]:
        """The rivals as JSON for a worker, which has their files since its task."""
        return {"space": launch_form.to_json(self.space), "configs": [*map(self.space.completed, self.configs)]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Rivals:
        return Rivals(launch_form.from_json(data["space"]), tuple(data["configs"]))
