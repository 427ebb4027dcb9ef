"""A kernel that is right when it is verified and cheats when it is timed is caught, on every kind of device."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from helpers import cheats
from helpers.cheats import CHEATS, TYPES
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.cuda import compiler
from tuner.measure.benchmark import Bench
from tuner.measure.results import Outcome
from tuner.measure.workbench import Workbench
from tuner.space.instance import Instance
from tuner.space.scope import Limits, Scope
from tuner.space.sources import rendering

ON_OPENCL = (1, 5, 7)  # those that need no variable that outlives a launch
SIZE = "5001"  # an odd number of bytes for int8


def outcomes(folder: Path, device: Device, dtype: str, numbers: Iterable[int]) -> dict[int, Outcome]:
    """What comes of these cheats, and of the honest kernel."""
    space = cheats.loaded(folder, device.language, dtype)
    bench = Bench(device, space, scope_of(space, device, SIZE))
    return {number: bench.measure({"cheat": number}) for number in (0, *numbers)}


def caught(failed: dict[str, int]) -> int:
    """How many cheats were found: where something delays the search, one may run so seldom that the finals find it."""
    assert failed.keys() <= {"wrong in a later run", "finals"}
    return sum(failed.values())


@pytest.mark.slow
def test_no_cheat_of_a_host_kernel_is_stored(tune: Tune, tmp_path: Path) -> None:
    done = tune(cheats.written(tmp_path, "c"), SIZE, "--device", "host", "--json")
    assert done.status == 0, done.err
    assert caught(done.json["failed"]) == len(CHEATS)
    assert done.json["best"]["config"] == {"cheat": 0}
    record = tune("best", tmp_path / "twice.yaml", SIZE, "--device", "host", "--json").json["record"]
    assert record["input_sets"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "int8", "uint16", "float16", "complex64"])
def test_every_cheat_is_caught_for_every_kind_of_number(dtype: str, host: Device, tmp_path: Path) -> None:
    found = outcomes(tmp_path, host, dtype, CHEATS.values())
    assert found.pop(0).failure is None
    assert {outcome.failure for outcome in found.values()} <= {"wrong in a later run", "wrong result"}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16"])
def test_what_a_cheat_leaves_is_seen_on_opencl(dtype: str, opencl: Device, tmp_path: Path) -> None:
    found = outcomes(tmp_path, opencl, dtype, ON_OPENCL)
    assert found.pop(0).failure is None
    assert {outcome.failure for outcome in found.values()} <= {"wrong in a later run", "wrong result"}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TYPES)
def test_every_cheat_is_caught_on_cuda(dtype: str, cuda: Device, tmp_path: Path) -> None:
    found = outcomes(tmp_path, cuda, dtype, CHEATS.values())
    assert found.pop(0).failure is None
    assert {outcome.failure for outcome in found.values()} <= {"wrong in a later run", "wrong result"}


@pytest.mark.gpu
def test_no_cheat_of_a_cuda_kernel_is_stored(tune: Tune, tmp_path: Path) -> None:
    done = tune(cheats.written(tmp_path, "cuda"), SIZE, "--device", "cuda", "--json")
    assert done.status == 0, done.err
    assert caught(done.json["failed"]) == len(CHEATS)
    assert done.json["best"]["config"] == {"cheat": 0}


@pytest.mark.slow
def test_the_cheats_compile_for_nvidia(tmp_path: Path) -> None:
    space = cheats.loaded(tmp_path, "cuda", "float32")
    scope = Scope({"n": 100}, {}, "cuda", Limits())
    for cheat in (0, *CHEATS.values()):
        (step,) = rendering.render(Instance(space, {"cheat": cheat}, scope))
        assert compiler.compile_cubin(step.source, "sm_90a").binary


OWN = """
title: t
kernel: own
languages: [c]
parameters: {{a: [1]}}
operation:
  sizes: {{n: }}
  extent: [n]
  reference: {reference}
  arguments:
    - {{name: y, dtype: {dtype}, shape: [n], role: {role}}}
    - {{name: x, dtype: {dtype}, shape: [n], role: in}}
    - {{name: n, dtype: int32}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "role", "reference", "body", "failure"),
    [
        ("float", "inout", "y + x", "y[i] += x[i]", None),
        ("int", "inout", "y + x", "y[i] += x[i]", None),
        ("int", "out", "x - 3", "y[i] = x[i] - 3", None),
        ("int", "out", "x / 2", "y[i] = x[i] / 2", "wrong result"),
        ("float", "inout", "y + x", "static int calls; if (i || ++calls < 4) y[i] += x[i]", "wrong in a later run"),
        ("float", "out", "(x - x) / (x - x)", "y[i] = (x[i] - x[i]) / (x[i] - x[i])", None),
        ("float", "out", "(x - x) / (x - x)", "if (i) y[i] = (x[i] - x[i]) / (x[i] - x[i])", "not a number"),
        ("float", "out", "x / (x - x)", "y[i] = x[i] / (x[i] - x[i])", None),
        ("float", "out", "x / (x - x)", "y[i] = -x[i] / (x[i] - x[i])", "wrong result"),
    ],
)
def test_each_kind_of_output_is_right_or_wrong_as_it_is(
    dtype: str, role: str, reference: str, body: str, failure: str | None, host: Device, tmp_path: Path
) -> None:
    loop = f"for (int i = 0; i < n; i++) {{ {body}; }}"
    (tmp_path / "own.c").write_text(f"void own({dtype} *y, const {dtype} *x, int n) {{ {loop} }}")
    element = {"float": "float32", "int": "int32"}[dtype]
    (tmp_path / "own.yaml").write_text(OWN.format(reference=reference, dtype=element, role=role))
    space = catalog.load(str(tmp_path / "own.yaml"))
    outcome = Bench(host, space, scope_of(space, host, "1000")).measure({"a": 1})
    assert outcome.failure == failure, outcome.log


def test_a_kernel_that_needs_no_inputs_has_one_set(host: Device, tmp_path: Path) -> None:
    (tmp_path / "own.c").write_text("void own(int *y, const int *x, int n) { for (int i = 0; i < 4; i++) y[i] = 7; }")
    (tmp_path / "own.yaml").write_text(
        "title: t\nkernel: own\nlanguages: [c]\nparameters: {a: [1]}\noperation:\n  sizes: {n: }\n  extent: [n]\n"
        "  reference: 7 * s\n  arguments:\n    - {name: y, dtype: int32, shape: [4], role: out}\n"
        "    - {name: s, dtype: int32, shape: [4], role: in, value: [1, 1, 1, 1]}\n    - {name: n, dtype: int32}\n"
    )
    space = catalog.load(str(tmp_path / "own.yaml"))
    bench = Workbench(host, space, scope_of(space, host, "1"))
    bench.renew_inputs()
    assert bench.set_count == 1
