"""Every shipped stage computes what it says, at every size, on every kind of device that speaks its language."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from helpers.spaces import admitted, name, on, problems, scope_of, sized
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.cuda import compiler
from tuner.devices.program import Program, build
from tuner.measure.verify import strided
from tuner.measure.workbench import Workbench
from tuner.search.enumeration import enumerate_space
from tuner.space.config import Config, config_key
from tuner.space.default import excluding_all, first_valid
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope
from tuner.space.sources import rendering
from tuner.store.store import Store

BATCHED = (37, 100, 1, 3)
SIZES = [(1,), (31,), (100, 37, 53), BATCHED, (1000,), (1024,)]  # one for all, or one each
SMALLER = {(1000,): (500, 300, 200), (1024,): (512, 256, 128)}  # for products: C has several tiles of 128 each way
FAST = "--Ofast-compile=mid"  # of NVRTC
RAGGED, LARGER = (67, 53, 45, 2), (267, 153, 145, 2)
STAGES = [catalog.load(name) for name in catalog.names()]
GPU = [space for space in STAGES if "cuda" in space.languages]
OPENCL = [space for space in STAGES if "opencl" in space.languages]
HOST = [space for space in STAGES if "c" in space.languages]

ARCHITECTURES = {
    "sm_80": Limits(compute_capability=8.0, max_shared_memory=163 * 1024),
    "sm_90a": Limits(compute_capability=9.0, max_shared_memory=227 * 1024),
}


def right(space: Space, device: Device, size: tuple[int, ...], config: Config | None = None) -> None:
    """Neither option is 0 or 1, so a kernel that ignores one of them is wrong."""
    options = dict(zip(space.operation.options, itertools.cycle((1.5, -0.75))))
    scope = scope_of(space, device, sized(space, size), **options)
    if excluding_all(space, scope):
        pytest.skip("the device lacks what the space requires")
    config = config or first_valid(space, scope)
    built = build(device.compiler, Instance(space, config, scope))
    bench = Workbench(device, space, scope)
    program = Program(device, built)
    bench.verify(bench.bind(program))
    if space.operation.leading:
        strided.verify(program, bench.inputs)


def meets_requirements(space: Space, scope: Scope) -> bool:
    of_device = [r for r in space.restrictions if r.that.names == {"language", "compute_capability"}]
    return all(r.that.evaluate(scope.names) for r in of_device)


def spread_out(space: Space, scope: Scope, count: int) -> list[Config]:
    """`count` valid configurations from all over the space."""
    configurations = sorted(enumerate_space(space, scope).list)
    count = min(count, len(configurations))
    chosen = [configurations[i * len(configurations) // count] for i in range(count)]
    return [dict(zip(space.parameters, c, strict=True)) for c in chosen]


def on_processor(spaces: list[Space]) -> list[ParameterSet]:
    """Each space with most of SIZES. A billion products take a processor seconds, and show no more than fewer."""
    sizes = [size for size in SIZES if size != (31,)]  # it shows little that 1 and 37 do not
    products = [space for space in spaces if "K" in space.operation.sizes]
    others = [space for space in spaces if space not in products]
    return problems(others, sizes) + problems(products, [SMALLER.get(size, size) for size in sizes])


@pytest.mark.slow
@pytest.mark.parametrize(("space", "size"), on_processor(HOST))
def test_a_host_stage_is_right(space: Space, size: tuple[int, ...], host: Device) -> None:
    right(space, host, size)


@pytest.mark.slow
@pytest.mark.parametrize("space", HOST, ids=name)
def test_configurations_of_a_host_stage_are_right_at_a_ragged_size(space: Space, host: Device) -> None:
    for config in spread_out(space, scope_of(space, host, sized(space, RAGGED)), 16):
        right(space, host, RAGGED, config)


@pytest.mark.slow
@pytest.mark.parametrize(("space", "size"), on_processor(OPENCL))
def test_a_gpu_stage_is_right_on_opencl(
    space: Space, size: tuple[int, ...], opencl: Device, request: pytest.FixtureRequest
) -> None:
    if size != BATCHED:  # its configuration is often that of 1000
        request.getfixturevalue("optimized")
    right(space, opencl, size)


@pytest.mark.slow
@pytest.mark.parametrize("space", OPENCL, ids=name)
def test_configurations_of_a_gpu_stage_are_right_on_opencl_at_a_ragged_size(space: Space, opencl: Device) -> None:
    for config in spread_out(space, scope_of(space, opencl, sized(space, RAGGED)), 2):
        right(space, opencl, RAGGED, config)


@pytest.mark.gpu
@pytest.mark.parametrize(("space", "size"), problems(GPU, [*SIZES, (4096,)]))
def test_a_gpu_stage_is_right_on_cuda(space: Space, size: tuple[int, ...], cuda: Device) -> None:
    right(space, cuda, size)


@pytest.mark.gpu
@pytest.mark.parametrize(("space", "size"), problems(GPU, [LARGER]))
def test_configurations_of_a_gpu_stage_are_right_on_cuda_at_a_ragged_size(
    space: Space, size: tuple[int, ...], cuda: Device
) -> None:
    for config in spread_out(space, scope_of(space, cuda, sized(space, size)), 40):
        right(space, cuda, size, config)


@pytest.mark.gpu
@pytest.mark.parametrize(("space", "size"), problems(GPU, [LARGER]))
def test_the_bests_of_a_gpu_stage_are_right_on_cuda_at_a_ragged_size(
    space: Space, size: tuple[int, ...], cuda: Device, tmp_path: Path
) -> None:
    scope = scope_of(space, cuda, sized(space, size))
    bests = {config_key(record.config): record.config for record in Store(space.name, tmp_path).records}
    for config in [space.default, *bests.values()]:
        if space.valid(config, scope):
            right(space, cuda, size, dict(config))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("space", GPU, ids=name)
def test_a_gpu_stage_compiles_for_nvidia(space: Space, architecture: str) -> None:
    """The default compiles, and for the newest another configuration, too. The optimizer takes most of the time and
    decides nothing here, so there is less of it; on a GPU, tests run the builds that users get."""
    sizes = {size: default or 1024 for size, default in space.operation.sizes.items()}
    scope = on(space, sizes, ARCHITECTURES[architecture])
    if not meets_requirements(space, scope):
        pytest.skip(f"not for {architecture}")
    is_newest = architecture == list(ARCHITECTURES)[-1]
    for config in [dict(space.default), *(spread_out(space, scope, 2)[1:] if is_newest else [])]:
        for step in rendering.render(Instance(space, config, scope)):
            text = replace(step.source, options=(*step.source.options, FAST))
            assert compiler.compile_cubin(text, architecture).binary.startswith(b"\x7fELF")


@pytest.mark.parametrize("space", STAGES, ids=name)
def test_the_default_of_a_stage_is_valid_at_any_size(space: Space) -> None:
    for size in (1, 31, 1000, 1024, 8192):
        sizes = dict.fromkeys(space.operation.sizes, size)
        scope = on(space, sizes, ARCHITECTURES["sm_90a"])
        assert space.valid(space.default, scope) or not admitted(space, scope)
