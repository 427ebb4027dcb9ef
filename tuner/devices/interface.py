"""What a binary takes at a launch, as its compiler laid it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Interface:
    """`parameters` are the bytes of each parameter of the kernels, by their names in the source; `variables` those of
    the variables of constant memory. `dynamic` are the kernels that use dynamic shared memory."""

    parameters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    variables: Mapping[str, int] = field(default_factory=dict)
    dynamic: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"parameters": self.parameters, "variables": self.variables, "dynamic": self.dynamic}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Interface:
        parameters = {str(kernel): tuple(map(int, sizes)) for kernel, sizes in data["parameters"].items()}
        return Interface(parameters, dict(data["variables"]), tuple(data["dynamic"]))
