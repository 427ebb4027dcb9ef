"""The interface of a compiled binary: the sizes of its kernels' parameters and of its constant-memory variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Interface:
    """The interface of a binary.

    `parameters` maps each kernel's name in the source to the sizes of its parameters in bytes, 0 if unknown.
    `variables` maps each constant-memory variable to its size in bytes. `dynamic` names the kernels that use dynamic
    shared memory. `clusters` maps each kernel that declares its clusters to the blocks of one in x, y, z. `objects`
    maps each kernel that takes images or samplers to the type of each parameter, empty for any other type.
    """

    parameters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    variables: Mapping[str, int] = field(default_factory=dict)
    dynamic: tuple[str, ...] = ()
    clusters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    objects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        optional = {"clusters": self.clusters, "objects": self.objects}
        given = {name: value for name, value in optional.items() if value}
        return {"parameters": self.parameters, "variables": self.variables, "dynamic": self.dynamic, **given}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Interface:
        parameters = {str(kernel): tuple(map(int, sizes)) for kernel, sizes in data["parameters"].items()}
        clusters = {str(kernel): tuple(map(int, extents)) for kernel, extents in data.get("clusters", {}).items()}
        objects = {str(kernel): tuple(map(str, types)) for kernel, types in data.get("objects", {}).items()}
        return Interface(parameters, dict(data["variables"]), tuple(data["dynamic"]), clusters, objects)
