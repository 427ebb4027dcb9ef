"""The child process that does work beside another one: see `beside`. Its request is JSON on standard input, and why it
failed goes to standard output."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.catalog import catalog, kernel_names
from tuner.devices import Device
from tuner.devices.built import build
from tuner.errors import TunerError
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope


def building(instance: Instance, device: Device) -> dict[str, Any]:
    """The request to build an instance, whose builds go to the build cache."""
    scope = instance.problem
    return {
        "do": "build",
        "kernel": kernel_names.address(instance.space),
        "config": dict(instance.config),
        "sizes": dict(scope.sizes),
        **_about(scope, device),
    }


def training(spaces: list[Space], scope: Scope, device: Device, results: Path | None) -> dict[str, Any]:
    """The request to train the time model of a family, which goes to the cache."""
    return {
        "do": "train",
        "kernels": [kernel_names.address(space) for space in spaces],
        "results": None if results is None else str(results),
        **_about(scope, device),
    }


def _about(scope: Scope, device: Device) -> dict[str, Any]:
    return {
        "device": device.id,
        "kind": device.kind,
        "architecture": device.architecture,
        "limits": asdict(scope.limits),
        "options": dict(scope.options),
        "types": dict(scope.types),
    }


def main() -> None:
    """Do what standard input asks for."""
    warnings.simplefilter("ignore")
    request = json.load(sys.stdin)
    try:
        (_build if request["do"] == "build" else _train)(request)
    except TunerError as error:
        lines = str(error).splitlines()
        print(next((line.strip() for line in lines if "error" in line), lines[0] if lines else type(error).__name__))


def _build(request: Mapping[str, Any]) -> None:
    space = catalog.load(request["kernel"])
    compiles_alone = devices.BACKENDS[request["kind"]].compiler is not None
    compiler = (
        devices.compiler_for(request["kind"], request["architecture"])
        if compiles_alone
        else devices.shared(request["device"]).compiler
    )
    build(compiler, Instance(space, request["config"], _scope(space, request, request["sizes"])))


def _train(request: Mapping[str, Any]) -> None:
    from tuner.families.choice import FamilyTable  # a program that asks for a build does not need it from here

    spaces, device = [catalog.load(kernel) for kernel in request["kernels"]], devices.shared(request["device"])
    scope = _scope(spaces[0], request, dict.fromkeys(spaces[0].operation.sizes, 1))
    results = None if request["results"] is None else Path(request["results"])
    FamilyTable(spaces, device, scope, True, results).train()


def _scope(space: Space, request: Mapping[str, Any], sizes: Mapping[str, int]) -> Scope:
    language, limits = devices.BACKENDS[request["kind"]].language, Limits.from_json(request["limits"])
    return space.operation.scope(sizes, request["options"], language, limits, request["types"])
