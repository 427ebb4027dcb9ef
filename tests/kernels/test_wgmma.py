"""The stages that the TMA feeds: where no size of the other tests fits it, what does not compile, and broken twins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.kernels import broken, outcome_of
from helpers.spaces import on, scope_of, spread_out
from tuner.catalog import catalog, kernel_lists
from tuner.devices import Device
from tuner.devices.built import build
from tuner.devices.cuda import compiler
from tuner.devices.program import Program
from tuner.errors import BuildError
from tuner.measure.workbench import Workbench
from tuner.search.enumeration import enumerated
from tuner.space.config import Config, Value
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope
from tuner.space.sources import rendering
from tuner.space.sources.source import Source

STAGES = [
    catalog.load(name) for name in kernel_lists.names() if "wgmma" in name and name.startswith(("hgemm/", "gemm16"))
]
PERSISTENT, PROMPT, SUMMED = "hgemm/11_wgmma_persistent", "gemm16/wgmma_prompt", "gemm16/wgmma_summed"
H200 = Limits(compute_capability=9.0, max_shared_memory=227 * 1024)
RAGGED = "M=267,N=328,K=200,batch=2"  # the TMA takes rows of multiples of 16 bytes
LONG_SUMS = "M=2083,N=1992,K=1544"  # so long that slots are filled again and again
DEEP = "M=150,N=216,K=32768"  # so deep, of so few tiles that the second step has room before the first one has sums
MANY_TILES = "M=2083,N=1992,K=136,batch=2"  # so many that each block computes several

# Of gemm16/wgmma_prompt: what rarely comes together in a few configurations of a large space.
TOGETHER: Config = {"stages": 3, "gap": 1, "zigzag": 1, "keep": 1, "stream_c": 1, "fixed_sizes": 1}

IMPOSSIBLE: dict[str, tuple[dict[str, Value], str]] = {
    "rows that no warp group has": ({"block_m": 192}, "a warp group has a multiple of 64 rows"),
    "three warp groups that take turns": ({"pingpong": 1, "consumers": 3, "block_m": 64}, "two warp groups take turns"),
    "no slot to free": ({"stages": 1, "in_flight": 1}, "a slot is freed only when later products have begun"),
    "more registers than there are": ({"consumer_registers": 240}, "registers that the block was launched with"),
    "slots that do not take turns": ({"store_slots": 3}, "the slots take turns"),
    "a share of four rows": ({"cluster_m": 16}, "a share is swizzled as the whole is"),
    "a width that wgmma lacks": ({"block_n": 72}, "tiles are made of wgmma's"),
}


def with_type(scope: Scope, real: str) -> Scope:
    return replace(scope, types={"real": real} if real else {})


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_what_cannot_be_right_does_not_compile(what: str) -> None:
    macros, message = IMPOSSIBLE[what]
    space = catalog.load(PERSISTENT)
    scope = on(space, {"M": 64, "N": 64, "K": 64, "batch": 1}, H200)
    (step,) = rendering.render(Instance(space, dict(space.default), scope))
    text = step.source.text
    for name, value in macros.items():
        line = next(line for line in text.splitlines() if line.startswith(f"#define {name} "))
        text = text.replace(f"{line}\n", f"#define {name} {value}\n", 1)
    with pytest.raises(BuildError, match=message):
        compiler.compile_cubin(Source(text, step.source.kernels, step.source.options), "sm_90a")


@pytest.mark.slow
def test_bfloat16_and_a_width_of_no_multiple_of_32_compile() -> None:
    space = catalog.load("gemm16_nt/wgmma_persistent")
    scope = on(space, {"M": 4096, "N": 4096, "K": 4096, "batch": 1}, H200)
    scope = with_type(scope, "bfloat16")
    config = {**space.default, "block_n": 208, "pingpong": 0, "cluster_m": 1}
    assert space.valid(config, scope)
    (step,) = rendering.render(Instance(space, config, scope))
    built = compiler.compile_cubin(step.source, "sm_90a")
    assert built.figures["wgmma_persistent"].spills == 0


@pytest.mark.slow
def test_the_prompt_stage_compiles_with_its_sizes() -> None:
    space = catalog.load("gemm16_nt/wgmma_prompt")
    scope = with_type(on(space, {"M": 4096, "N": 4096, "K": 4096, "batch": 1}, H200), "bfloat16")
    new = {"gap": 3, "zigzag": 1, "keep": 1, "stream_c": 1, "hilbert": 1, "fixed_sizes": 1}
    config = {**space.default, **new, "in_flight": 1, "band": 8, "blocks": 128}
    assert space.valid(config, scope)
    (step,) = rendering.render(Instance(space, config, scope))
    built = compiler.compile_cubin(step.source, "sm_90a")
    assert built.figures["wgmma_prompt"].spills == 0


@pytest.mark.slow
def test_the_space_of_the_persistent_stage_is_large() -> None:
    space = catalog.load(PERSISTENT)
    scope = on(space, {"M": 1024, "N": 1024, "K": 1024, "batch": 1}, H200)
    assert len(enumerated(space, scope)) >= 5000


@pytest.mark.gpu
@pytest.mark.parametrize("size", [RAGGED, MANY_TILES], ids=["ragged", "many tiles"])
@pytest.mark.parametrize(
    ("space", "real"),
    [(space, real) for space in STAGES for real in space.operation.types.get("real", ("",))],
    ids=lambda value: value.name if isinstance(value, Space) else value,
)
def test_configurations_are_right_where_tiles_reach_over_the_border(
    space: Space, real: str, size: str, cuda: Device
) -> None:
    """Neither option is 0 or 1, so that a kernel which ignores one is wrong. Types share the configurations."""
    scope = with_type(scope_of(space, cuda, size, alpha=1.5, beta=-0.75), real)
    bench = Workbench(cuda, space, scope)
    types = space.operation.types.get("real", ("",))
    tried = [dict(space.default), {**space.default, **TOGETHER}]
    tried += spread_out(space, scope, 12)[types.index(real) :: len(types)]
    for config in (config for config in tried if space.valid(config, scope)):
        bench.verify(bench.bind(Program(cuda, build(cuda.compiler, Instance(space, config, scope)))))


# Each lacks what a hazard of the TMA needs: the stage, the file of its folder, its text, the text instead, and a size.
BROKEN = {
    "sums are not shown to the TMA": (PERSISTENT, "wgmma.h", "            fence_shared();\n", "", MANY_TILES),
    "a box of C is written over while the TMA reads it":
        (PERSISTENT, "wgmma.h", "wait_for_reads(); // the TMA", "// the TMA", MANY_TILES),
    "a slot is freed before it is read":
        (PERSISTENT, "11_wgmma_persistent.cu", "wait_for_products<in_flight>();", "", LONG_SUMS),
    "prompt: sums are not shown to the TMA": (PROMPT, "prompt.h", "            fence_shared();\n", "", MANY_TILES),
    "prompt: a box of C is written over while the TMA reads it":
        (PROMPT, "prompt.h", "wait_for_reads(); // the TMA", "// the TMA", MANY_TILES),
    "prompt: a slot is freed before it is read":
        (PROMPT, "wgmma_prompt.cu", "wait_for_products<in_flight>();", "", LONG_SUMS),
    "summed: parts are added up before they are there":
        (SUMMED, "wgmma_summed.cu", "wait_for_steps(); // all parts", "// all parts", DEEP),
}  # fmt: skip
HURRIED: dict[str, Config] = {
    PERSISTENT: {"cluster_m": 2, "in_flight": 0},
    PROMPT: {"late_store": 0, "in_flight": 0},
    SUMMED: {"early": 1},
}
# Others of the warp may wait at barriers before they are there.
EARLY = PROMPT, "wgmma_prompt.cu", "        __syncwarp(); // the others of this warp wait at them, too\n", "", RAGGED


def outcome_of_twin(
    stage: str, file: str, text: str, becomes: str, size: str, device: Device, folder: Path, **values: Value
) -> str | None:
    space = broken(stage, text, becomes, folder, file)
    return outcome_of(space, device, size, {**space.default, **HURRIED[stage], **values})


@pytest.mark.gpu
@pytest.mark.parametrize("hazard", BROKEN)
def test_a_twin_without_what_a_hazard_needs_is_wrong(hazard: str, cuda: Device, tmp_path: Path) -> None:
    outcome = outcome_of_twin(*BROKEN[hazard], cuda, tmp_path, stages=3)
    assert outcome in ("wrong result", "not a number")  # parts that are not there yet are the poison of scratch


@pytest.mark.gpu
def test_a_twin_whose_barriers_are_not_there_yet_runs(cuda: Device, tmp_path: Path) -> None:
    """Its answer is right by luck; the sanitizer finds it out, see test_sanitizer.py."""
    outcome_of_twin(*EARLY, cuda, tmp_path)
