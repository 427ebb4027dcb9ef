"""Builds of kernels in Triton: in a process of their own, without a GPU, with what their launches need."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices.builds.allowance import Allowance
from tuner.devices.builds.build import Build
from tuner.devices.built import build
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.devices.cuda.triton import compiler as triton
from tuner.devices.cuda.triton.service import SERVICE
from tuner.errors import BuildError, DeviceError, EnvironmentTrouble, ResourceError
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Limits

HAS_TRITON = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed: pip install '.[triton]'")
KERNEL = """\
import triton
import triton.language as tl
from helper import twice

FACTOR = tl.constexpr(3)


@triton.jit
def scale(x, n, factor, stride, BLOCK: tl.constexpr, BAD: tl.constexpr = 0, KIND: tl.constexpr = tl.float32):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i * stride, mask=i < n).to(KIND)
    tl.static_assert(BAD != 1, "a bad configuration")
    if BAD == 2:
        v = tl.undefined(v)
    if BAD == 3:
        print_to_nobody(v)
    tl.store(x + i * stride, twice(v) * factor * (FACTOR - 2), mask=i < n)


@triton.jit
def product(a, b, c, n, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in tl.range(0, n, BLOCK, num_stages=num_stages):
        x = tl.load(a + i[:, None] * n + k + i[None, :])
        y = tl.load(b + (k + i[:, None]) * n + i[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + i[:, None] * n + i[None, :], total.to(tl.float16))
"""
HELPER = "import triton\n\n\n@triton.jit\ndef twice(v):\n    return v + v\n"
SPACE: dict[str, Any] = {
    "title": "scale in place",
    "operation": {
        "sizes": {"n": 1024},
        "options": {"factor": 3.0},
        "arguments": [
            {"name": "x", "dtype": "float32", "shape": ["n"], "role": "inout"},
            {"name": "n", "dtype": "int32"},
            {"name": "factor", "dtype": "float32"},
            {"name": "stride", "dtype": "int32", "value": 1},
        ],
        "reference": "2 * x * factor",
    },
    "kernel": "scale",
    "source": "kernel.py",
    "parameters": {"BLOCK": [128, 256], "num_warps": [1, 2], "BAD": [0, 1, 2, 3]},
    "grid": ["ceil_div(n, BLOCK)"],
}
PRODUCT = {
    **SPACE,
    "title": "product",
    "operation": {
        "sizes": {"n": 256},
        "arguments": [
            *({"name": name, "dtype": "float16", "shape": ["n", "n"], "role": "in"} for name in "ab"),
            {"name": "c", "dtype": "float16", "shape": ["n", "n"], "role": "out"},
            {"name": "n", "dtype": "int32"},
        ],
        "reference": "a @ b",
    },
    "kernel": "product",
    "parameters": {"BLOCK": [64], "num_warps": [4], "num_stages": [2, 4]},
    "grid": ["1"],
}
GOOD = {"BLOCK": 128, "num_warps": 1, "BAD": 0}


def written(folder: Path, data: dict[str, Any] = SPACE) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "helper.py").write_text(HELPER)
    (folder / "kernel.yaml").write_text(yaml.safe_dump(data))
    return folder / "kernel.yaml"


def instance(space: Space, n: int = 1024, **config: Any) -> Instance:
    limits = Limits(compute_capability=9.0, max_shared_memory=227 << 10)
    return Instance(space, {**GOOD, **config}, space.operation.scope({"n": n}, {"factor": 3.0}, "cuda", limits, {}))


def compiler(allowance: Allowance | None = None) -> NvrtcCompiler:
    made = NvrtcCompiler("sm_90a")
    made.allowance = allowance
    return made


def built(space: Space, **config: Any) -> Build:
    (made,) = build(compiler(), instance(space, **config)).builds.values()
    return made


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Space:
    return catalog.load(str(written(tmp_path_factory.mktemp("space"))))


@needs_triton
def test_a_build_says_what_its_launch_needs(space: Space, tmp_path: Path) -> None:
    plain = build(compiler(), instance(space, num_warps=2))
    (made,) = plain.builds.values()
    assert made.fresh
    assert made.binary.startswith(b"\x7fELF")
    (step,) = plain.steps
    assert (step.geometry.block, step.geometry.shared_memory, step.arguments) == ((64, 1, 1), 0, ("x", "n", "factor"))
    assert made.pointers("scale") == 2
    assert made.interface is not None
    assert made.interface.parameters == {"scale": (8, 4, 4)}
    figures = made.figures_of("scale")
    assert figures.registers
    assert figures.spills == 0
    cached = built(space, num_warps=2)
    assert (cached.fresh, cached.needs, cached.figures) == (False, made.needs, made.figures)
    # A product keeps its tiles in shared memory that only the compiler knows: more stages need more of it.
    product = catalog.load(str(written(tmp_path, PRODUCT)))
    scope = product.operation.scope({"n": 256}, {}, "cuda", instance(space).problem.limits, {})
    shared = []
    for stages in (2, 4):
        found = build(compiler(), Instance(product, {"BLOCK": 64, "num_warps": 4, "num_stages": stages}, scope))
        shared.append(found.steps[0].geometry.shared_memory)
        assert found.figures.shared_memory == shared[-1]
    assert 0 < shared[0] < shared[1]


@needs_triton
def test_a_type_of_the_space_is_a_constant_of_the_kernel(space: Space, tmp_path: Path) -> None:
    narrow = {**SPACE, "operation": {**SPACE["operation"], "types": {"KIND": ["float16", "float32"]}}}
    typed = catalog.load(str(written(tmp_path, narrow)))
    limits = instance(space).problem.limits

    def binary(kind: str) -> bytes:
        scope = typed.operation.scope({"n": 1024}, {"factor": 3.0}, "cuda", limits, {"KIND": kind})
        (made,) = build(compiler(), Instance(typed, GOOD, scope)).builds.values()
        return made.binary

    assert binary("float16") != binary("float32")


@needs_triton
def test_a_build_is_not_of_another_class(space: Space) -> None:
    wide = build(compiler(), instance(space, n=1024))
    odd = build(compiler(), instance(space, n=1001))
    view = build(compiler(), replace(instance(space), unaligned=frozenset({"x"})))
    binaries = [next(iter(each.builds.values())).binary for each in (wide, odd, view)]
    assert len({*binaries}) == 3
    same = build(compiler(), instance(space, n=2048))
    assert [*same.builds] == [*wide.builds]


@needs_triton
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (1, r"kernel.py: CompileTimeAssertionFailure: at (.|\n)*a bad configuration"),
        (2, r"kernel.py: CompilationError: at [\d:]+ .*undefined.*\n(.*\n)*"),  # the reason comes first
        (3, r"print_to_nobody is not defined"),
    ],
)
def test_an_error_of_the_kernel_fails_one_configuration(space: Space, bad: int, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        built(space, BAD=bad)
    assert built(space)  # the process goes on


@needs_triton
def test_too_much_shared_memory_is_told_before_the_long_part_of_a_compilation(tmp_path: Path) -> None:
    """This kernel takes half a minute to compile in full."""
    space = catalog.load(str(written(tmp_path, {**PRODUCT, "parameters": {**PRODUCT["parameters"], "BLOCK": [512]}})))
    scope = space.operation.scope({"n": 512}, {}, "cuda", Limits(), {})
    with pytest.raises(ResourceError, match="bytes of shared memory per block; sm_90a has at most 232448") as raised:
        build(compiler(Allowance(5, 8 << 30)), Instance(space, {"BLOCK": 512, "num_warps": 4, "num_stages": 2}, scope))
    assert raised.value.reason == "shared memory"


@needs_triton
def test_a_fork_of_a_process_that_may_fork_builds_the_same(space: Space, tmp_path: Path) -> None:
    """Compile workers have Triton imported, and start no further process."""
    file = written(tmp_path)
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from devices import test_triton as own
from tuner.catalog import catalog
from tuner.devices.built import build
compiler = own.compiler()
compiler.forks = True
for bad in (1, 0):
    try:
        (made,) = build(compiler, own.instance(catalog.load({str(file)!r}), BAD=bad, n=48)).builds.values()
    except own.BuildError as error:
        print("a bad configuration" in str(error))
print(own.SERVICE._process, made.binary[:4], made.needs, made.figures, made.interface)
"""
    environment = {**os.environ, "TUNER_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    (made,) = build(compiler(), instance(space, n=48)).builds.values()
    what = f"{made.binary[:4]} {made.needs} {made.figures} {made.interface}"  # a binary has the name of its folder
    assert done.stdout.splitlines() == ["True", f"None {what}"]


@needs_triton
def test_a_changed_helper_is_built_anew(tmp_path: Path) -> None:
    space = catalog.load(str(written(tmp_path)))
    first = built(space)
    (tmp_path / "helper.py").write_text(HELPER.replace("v + v", "v * v"))
    assert built(space).binary != first.binary


@needs_triton
def test_a_kernel_is_compiled_without_running_the_packages_around_it(tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path / "library", {**SPACE, "default": GOOD})
    text = file.with_name("kernel.py").read_text().replace("from helper import", "from .helper import")
    file.with_name("kernel.py").write_text(text)
    file.with_name("helper.py").write_text("from library import VERSION\n" + HELPER)
    file.with_name("__init__.py").write_text("VERSION = 3\nimport something_that_is_not_installed\n")
    done = tune("validate", str(file), "--compile")
    assert done.status == 0, done.err
    assert "cuda: the default compiles for sm_" in done.out


@needs_triton
@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_files_beside_the_kernel_may_name_torch_which_is_not_installed(space: Space, tmp_path: Path) -> None:
    """What depends on a value of torch's does not compile, as it might be other code."""
    file = written(tmp_path)
    beside = """\
import torch
from torch import Tensor
import torch.nn.functional as F

TYPES = {torch.float16: "half"}
library = torch.library.Library("own", "FRAGMENT")


class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor | None) -> Tensor:
        return F.silu(x)


@torch.library.custom_op("own::op", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x


"""
    (tmp_path / "helper.py").write_text(beside + HELPER)
    assert built(catalog.load(str(file)), BLOCK=256).needs == built(space, BLOCK=256).needs
    (tmp_path / "helper.py").write_text("import torch\nWIDE = torch.cuda.is_available() == 1\n" + HELPER)
    with pytest.raises(BuildError, match="ModuleNotFoundError: No module named 'torch'"):
        built(catalog.load(str(file)), BLOCK=256)


@needs_triton
def test_a_build_takes_no_more_than_it_may(space: Space, tmp_path: Path) -> None:
    limited, product = compiler(Allowance(seconds=60, memory=4096)), catalog.load(str(written(tmp_path, PRODUCT)))
    scope = product.operation.scope({"n": 384}, {}, "cuda", instance(space).problem.limits, {})
    with pytest.raises((BuildError, EnvironmentTrouble), match="memory"):
        build(limited, Instance(product, {"BLOCK": 128, "num_warps": 4, "num_stages": 4}, scope))
    long = HELPER.replace("    return", "    for _ in tl.static_range(1000000):\n        v += 1\n    return")
    file = written(tmp_path)
    (tmp_path / "helper.py").write_text(f"import triton.language as tl\n{long}")
    endless = compiler(Allowance(seconds=1, memory=1 << 33))
    with pytest.raises(BuildError, match="takes more than 1 s of CPU time") as raised:
        build(endless, instance(catalog.load(str(file))))
    assert raised.value.reason == "compile timeout"  # which a longer --timeout tries again


@needs_triton
def test_a_module_beside_the_kernel_may_reserve_more_addresses_than_a_build_may(tmp_path: Path) -> None:
    """As a GPU's driver does when such a module asks it for the GPU's name."""
    file = written(tmp_path)
    (tmp_path / "helper.py").write_text(
        f"import mmap\nRESERVED = mmap.mmap(-1, 8 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 0)\n{HELPER}"
    )
    (made,) = build(compiler(Allowance(seconds=60, memory=2 << 30)), instance(catalog.load(str(file)))).builds.values()
    assert made.needs


@needs_triton
def test_a_process_that_was_killed_is_started_again(space: Space) -> None:
    built(space, n=33, BLOCK=256, num_warps=2)
    process = SERVICE._process
    assert process is not None
    process.kill()
    process.wait()
    assert built(space, n=35, BLOCK=256)


@needs_triton
def test_validate_compiles_without_a_gpu(tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path, {**SPACE, "default": GOOD})
    done = tune("validate", str(file), "--compile")
    assert done.status == 0, done.err
    assert "cuda: the default compiles for sm_" in done.out


def test_nothing_is_imported_for_what_is_cached(tmp_path: Path) -> None:
    """A build from the cache imports neither Triton nor torch, nor starts a process."""
    if not HAS_TRITON:
        pytest.skip("Triton is not installed: pip install '.[triton]'")
    file = written(tmp_path)
    built(catalog.load(str(file)))
    script = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from tuner.catalog import catalog
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.devices.built import build
from tuner.space.instance import Instance
from tuner.space.scope import Limits
space = catalog.load({str(file)!r})
limits = Limits(compute_capability=9.0, max_shared_memory=227 << 10)
scope = space.operation.scope({{"n": 1024}}, {{"factor": 3.0}}, "cuda", limits, {{}})
(made,) = build(NvrtcCompiler("sm_90a"), Instance(space, {GOOD!r}, scope)).builds.values()
print(json.dumps([made.fresh, [name for name in ("triton", "torch", "subprocess") if name in sys.modules]]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert json.loads(done.stdout) == [False, []]


def test_without_triton_one_message_says_what_to_install(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "_version", lambda: None)
    triton.version.cache_clear()
    with pytest.raises(DeviceError, match=r"needs Triton; pip install -e '.\[triton\]' in the checkout"):
        built(space, BLOCK=256, num_warps=2)
    triton.version.cache_clear()


def test_a_version_that_was_not_tested_is_refused(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "_version", lambda: "3.1.0")
    triton.version.cache_clear()
    with pytest.raises(DeviceError, match=r"Triton 3.1.0 is installed.*of 3.6.0 alone; pip install triton==3.6.0"):
        built(space, BLOCK=256, num_warps=2)
    triton.version.cache_clear()


def test_where_kernels_are_interpreted_one_message_says_what_to_unset(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton, "version", lambda: "3.6.0")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(DeviceError, match=r"TRITON_INTERPRET is set: Triton interprets all kernels.*unset it"):
        built(space, BLOCK=256, num_warps=2)
