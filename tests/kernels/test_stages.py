"""Every shipped stage computes what it says, at every size, on every kind of device that speaks its language."""

from __future__ import annotations

import importlib.util
import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from helpers.spaces import admitted, name, on, problems, scope_of, sized, spread_out
from tuner.catalog import catalog, kernel_lists
from tuner.devices import Device
from tuner.devices.built import build
from tuner.devices.cuda import compiler
from tuner.devices.program import Program
from tuner.errors import TunerError
from tuner.measure.workbench import Workbench
from tuner.space.config import Config, config_key
from tuner.space.default import excluding_all, first_valid, is_any_valid
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope
from tuner.space.sources import rendering
from tuner.space.sources.source import Source
from tuner.store.store import Store

BATCHED = (37, 100, 1, 3)
LESS_THAN_A_TILE = (100, 37, 53)
SIZES = [(1,), LESS_THAN_A_TILE, BATCHED, (1000,), (1024,)]  # one for all, or one each
PLAIN = (1000,)  # its build is optimized on OpenCL, like those of users
# For several dimensions on a processor. A matrix has several tiles of 128 each way.
SMALLER = {(1000,): (300, 260, 150), (1024,): (256, 256, 128)}
FAST = "--Ofast-compile=mid"  # of NVRTC
RAGGED, LARGER = (67, 53, 45, 2), (267, 153, 145, 2)
HAS_TRITON = importlib.util.find_spec("triton") is not None
STAGES = [
    space
    for name in kernel_lists.names()
    if (space := catalog.load(name)).python_language is None or HAS_TRITON
    if not space.is_of_library  # whose code is not ours
]
GPU = [space for space in STAGES if "cuda" in space.languages]
OPENCL = [space for space in STAGES if "opencl" in space.languages]
HOST = [space for space in STAGES if "c" in space.languages]

ARCHITECTURES = {
    "sm_80": Limits(compute_capability=8.0, max_shared_memory=163 * 1024),
    "sm_90a": Limits(compute_capability=9.0, max_shared_memory=227 * 1024),
}


def right(space: Space, device: Device, size: tuple[int, ...], configs: Sequence[Config] = ()) -> None:
    """Neither option is 0 or 1, so a kernel that ignores one of them is wrong. Without `configs`, the default is
    verified, or what replaces it on this device."""
    scope = problem(space, device, size)
    if excluding_all(space, scope):
        pytest.skip("the device lacks what the space requires")
    bench = Workbench(device, space, scope)
    for config in configs or [first_valid(space, scope)]:
        try:
            program = Program(device, build(device.compiler, Instance(space, config, scope)))
            bench.verify(bench.bind(program))
            if space.operation.leading:
                bench.verify_padded(program)
        except TunerError as error:
            error.add_note(f"{space.name} at {name(size)} with {config}")
            raise


def problem(space: Space, device: Device, size: tuple[int, ...]) -> Scope:
    options = dict(zip(space.operation.options, itertools.cycle((1.5, -0.75))))
    return scope_of(space, device, sized(space, size), **options)


def sources(space: Space, device: Device, size: tuple[int, ...]) -> set[Source]:
    """What the default is built from."""
    scope = problem(space, device, size)
    if excluding_all(space, scope):
        return set()
    return {step.source for step in rendering.render(Instance(space, first_valid(space, scope), scope))}


def meets_requirements(space: Space, scope: Scope) -> bool:
    of_device = [r for r in space.restrictions if r.that.names == {"language", "compute_capability"}]
    return all(r.that.evaluate(scope.names) for r in of_device)


def drawn(space: Space, scope: Scope) -> Config:
    """A valid configuration. Drawing takes milliseconds where listing the space takes seconds."""
    draw = random.Random(0)
    for _ in range(100_000):
        config = {parameter: draw.choice(values) for parameter, values in space.parameters.items()}
        if space.valid(config, scope):
            return config
    raise AssertionError(f"{space.name}: no draw is valid")


def smaller(space: Space, size: tuple[int, ...]) -> tuple[int, ...]:
    """A billion products, a hundred million terms, or a million pixels take a processor seconds, and show no more than
    fewer."""
    if "K" in space.operation.sizes:
        return SMALLER[size]
    if [*space.operation.sizes] == ["h", "w", "n"]:
        return (*SMALLER[size][:2], SMALLER[size][2] // 8)  # each pixel adds up n square roots
    required = [default for default in space.operation.sizes.values() if default is None]
    return SMALLER[size][:2] if len(required) == 2 else size


def on_processor(spaces: list[Space]) -> list[ParameterSet]:
    """Each space with most of SIZES: RAGGED has batches, too. Where the default is verified at RAGGED, that is the size
    of less than a tile."""

    def sizes(space: Space) -> list[tuple[int, ...]]:
        left_out = {BATCHED} | ({LESS_THAN_A_TILE} if has_default_at_ragged(space) else set())
        return [smaller(space, size) if size in SMALLER else size for size in SIZES if size not in left_out]

    return [case for space in spaces for case in problems([space], sizes(space))]


def has_default_at_ragged(space: Space) -> bool:
    """Whether the default is verified at the size RAGGED, which is less than a tile."""
    return "batch" in space.operation.sizes or "c" in space.languages


@pytest.mark.slow
@pytest.mark.parametrize(("space", "size"), on_processor(HOST))
def test_a_host_stage_is_right(space: Space, size: tuple[int, ...], host: Device) -> None:
    right(space, host, size)


@pytest.mark.slow
@pytest.mark.parametrize("space", HOST, ids=name)
def test_configurations_of_a_host_stage_are_right_at_a_ragged_size(space: Space, host: Device) -> None:
    scope = problem(space, host, RAGGED)
    right(space, host, RAGGED, [first_valid(space, scope), *spread_out(space, scope, 16)])


@pytest.mark.slow
@pytest.mark.parametrize(("space", "size"), on_processor(OPENCL))
def test_a_gpu_stage_is_right_on_opencl(
    space: Space, size: tuple[int, ...], opencl: Device, request: pytest.FixtureRequest
) -> None:
    """One build of each stage is optimized; the optimizer would take most of the time of the others."""
    if sources(space, opencl, size) == sources(space, opencl, smaller(space, PLAIN)):
        request.getfixturevalue("optimized")
    right(space, opencl, size)


@pytest.mark.slow
@pytest.mark.parametrize("space", OPENCL, ids=name)
def test_configurations_of_a_gpu_stage_are_right_on_opencl_at_a_ragged_size(space: Space, opencl: Device) -> None:
    """The default only if there are batches: without, LESS_THAN_A_TILE is one more size of the default."""
    scope = problem(space, opencl, RAGGED)
    default = [first_valid(space, scope)] if has_default_at_ragged(space) else []
    right(space, opencl, RAGGED, [*default, *spread_out(space, scope, 2)])


@pytest.mark.gpu
@pytest.mark.parametrize(("space", "size"), problems(GPU, [*SIZES, (4096,)]))
def test_a_gpu_stage_is_right_on_cuda(space: Space, size: tuple[int, ...], cuda: Device) -> None:
    if size == (4096,) and not is_any_valid(space, problem(space, cuda, size)):
        pytest.skip("the stage is for products of few tiles")
    right(space, cuda, size)


@pytest.mark.gpu
@pytest.mark.parametrize(("space", "size"), problems(GPU, [LARGER]))
def test_configurations_of_a_gpu_stage_are_right_on_cuda_at_a_ragged_size(
    space: Space, size: tuple[int, ...], cuda: Device
) -> None:
    right(space, cuda, size, spread_out(space, problem(space, cuda, size), 16))


@pytest.mark.gpu
@pytest.mark.parametrize(("space", "size"), problems(GPU, [LARGER]))
def test_the_bests_of_a_gpu_stage_are_right_on_cuda_at_a_ragged_size(
    space: Space, size: tuple[int, ...], cuda: Device, tmp_path: Path
) -> None:
    scope = problem(space, cuda, size)
    bests = {config_key(record.config): record.config for record in Store(space.name, tmp_path).records}
    if valid := [dict(config) for config in (space.default, *bests.values()) if space.valid(config, scope)]:
        right(space, cuda, size, valid)


@pytest.mark.slow
@pytest.mark.parametrize("space", GPU, ids=name)
def test_a_gpu_stage_compiles_for_nvidia(space: Space) -> None:
    """The default compiles for the oldest architecture that the stage is for, and another configuration for the newest.
    The optimizer takes most of the time and decides nothing here, so there is less of it; on a GPU, tests run the
    builds that users get."""
    scopes = {architecture: compiled_scope(space, limits) for architecture, limits in ARCHITECTURES.items()}
    oldest = next(architecture for architecture, scope in scopes.items() if meets_requirements(space, scope))
    newest = [*scopes][-1]
    for architecture, config in ((oldest, dict(space.default)), (newest, drawn(space, scopes[newest]))):
        instance = Instance(space, config, scopes[architecture])
        for source in {step.source for step in rendering.render(instance)}:
            if space.python_language is not None:
                chosen = compiler.NvrtcCompiler(architecture).chosen(source.compiler)
                assert chosen.compile(source).binary.startswith(b"\x7fELF")
                continue
            text = replace(source, options=(*source.options, FAST))
            assert compiler.compile_cubin(text, architecture).binary.startswith(b"\x7fELF")


def compiled_scope(space: Space, limits: Limits) -> Scope:
    """A problem on a GPU with these limits: a large one unless the stage is for few rows."""
    large, small = (
        on(space, {size: default or number for size, default in space.operation.sizes.items()}, limits)
        for number in (1024, 4)
    )
    return large if admitted(space, large) or not admitted(space, small) else small


@pytest.mark.parametrize("space", STAGES, ids=name)
def test_the_default_of_a_stage_is_valid_at_any_size(space: Space) -> None:
    for size in (1, 31, 1000, 1024, 8192):
        sizes = dict.fromkeys(space.operation.sizes, size)
        scope = on(space, sizes, ARCHITECTURES["sm_90a"])
        assert space.valid(space.default, scope) or not admitted(space, scope)
