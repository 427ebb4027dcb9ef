"""The interface of a compiled binary: the sizes of its kernels' parameters and of its constant-memory variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from tuner.classes import dataclass


@dataclass(frozen=True)
class Interface:
    """The interface of a binary.

    `parameters` maps each kernel's name in the source to the sizes of its parameters in bytes, 0 if unknown.
    `variables` maps each constant-memory variable, by its name in the binary, to its size in bytes. `dynamic` names the
    kernels that use dynamic shared memory. `clusters` maps each kernel that declares its clusters to the blocks of one
    in x, y, z. `objects` maps each kernel that takes images or samplers to the type of each parameter, empty for any
    other type.
    """

    parameters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    variables: Mapping[str, int] = field(default_factory=dict)
    dynamic: tuple[str, ...] = ()
    clusters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    objects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def variable(self, name: str) -> str:
        """The name in the binary of the constant-memory variable that the source calls `name`: the mangled one if it is
        in a namespace, also one without a name. `name` itself if there is none, or more than one."""
        if name in self.variables:
            return name
        own = [each for each in self.variables if _in_namespaces(each)[-1:] == [name]]
        return own[0] if len(own) == 1 else name

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


def _in_namespaces(mangled: str) -> list[str]:
    """The namespaces and the name of a mangled variable: of `_ZN4mine5scaleE`, mine and scale; else empty."""
    found, at = list[str](), len("_ZN")
    while mangled.startswith("_ZN") and (length := re.match(r"\d+", mangled[at:])):
        first = at + length.end()
        at = first + int(length[0])
        found.append(mangled[first:at])
    return found if mangled[at:] == "E" else []
