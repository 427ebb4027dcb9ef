"""OpenCL through PoCL."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tuner
from helpers.operations import array, written
from helpers.processes import Tune, run
from tuner import devices
from tuner.catalog import catalog
from tuner.devices import Device, backend
from tuner.devices.base import GUARD
from tuner.errors import DeviceError, LaunchError
from tuner.space import parsing
from tuner.space.instance import Instance
from tuner.space.scope import Scope
from tuner.space.sources import rendering
from tuner.space.sources.source import Source

MEASURES = """
from tuner import devices
from tuner.catalog import catalog
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.space import parsing
from tuner.space.scope import Scope

space, device = catalog.load("sgemm/03_naive"), devices.open_device("opencl")
scope = Scope(parsing.parse_size(64, space.operation), space.operation.options, "opencl", device.limits)
bench = Bench(device, space, scope, Method(repeats=1))
configs = [{"block_size_x": x, "block_size_y": 8, "fixed_sizes": 0} for x in (8, 16)]
for config in configs:
    print(bench.measure(config).failure)
for final in bench.finals(configs, 0.05).candidates:
    print(final.failure)
"""


def test_without_its_package_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_is_module", lambda name: False)
    remedy = r"pyopencl is not installed; pip install -e '.\[opencl\]' in the checkout, or pip install pyopencl$"
    with pytest.raises(DeviceError, match=remedy):
        devices.open_device("opencl")


@pytest.mark.slow
def test_pocl_compiles_each_kernel_once_for_the_block_that_it_is_launched_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    (tmp_path / "pocl").mkdir()
    assert run(sys.executable, "-c", MEASURES).stdout == "None\n" * 4
    programs: dict[Path, list[str]] = {}
    for compiled in (tmp_path / "pocl").glob("**/sgemm_naive/*/sgemm_naive.so"):
        programs.setdefault(compiled.parents[1], []).append(compiled.parent.name)
    assert len(programs) == 2
    assert all(len(shapes) == 1 for shapes in programs.values())
    assert "0-0-0" not in {shape for shapes in programs.values() for shape in shapes}, "for any block"


@pytest.mark.slow
def test_what_is_compiled_ahead_for_pocl_is_what_runs_on_large_grids(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PoCL compiles one code for grids up to 65,534 work-items on an axis, and another for larger ones."""
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    (tmp_path / "pocl").mkdir()
    assert tune("gallery/vector_add", "131072", "--device", "opencl", "--budget", "2").status == 0
    compiled = [code.parents[1] for code in (tmp_path / "pocl").glob("**/vector_add/*/vector_add.so")]
    assert len(compiled) == len(set(compiled)) == 2, "each program is compiled once"


def test_a_build_of_pocl_that_is_no_source_is_refused(opencl: Device) -> None:
    space = catalog.load("sgemm/03_naive")
    sizes = parsing.parse_size(64, space.operation)
    scope = Scope(sizes, space.operation.options, "opencl", opencl.limits)
    (step,) = rendering.render(Instance(space, dict(space.default), scope))
    build = opencl.build(step.source)
    assert build.binary.decode() == step.source.text
    with pytest.raises(LaunchError, match="loading sgemm_naive: its build was exported by an earlier version"):
        opencl.load(replace(build, binary=b"poclbin\xff\xfe"), step.source)


def test_what_pocl_has_compiled_is_loaded_without_compiling_it_again(opencl: Device) -> None:
    """Unless kernels may have global variables, whose values a program would keep between the runs that load it."""
    is_kept = opencl.context.devices[0].max_global_variable_size == 0
    first, second = (Source(f"__kernel void f(__global int *y) {{ y[0] = {v}; }}", ("f",), ()) for v in (1, 2))
    builds = {source: opencl.build(source) for source in (first, second)}
    programs = {source: opencl.load(build, source) for source, build in builds.items()}
    assert programs[first] is not programs[second]
    assert all((opencl.load(builds[source], source) is program) == is_kept for source, program in programs.items())


STRUCTS = """
typedef struct { float x, y, z, w; } four;
typedef float real;
#define THREE float3
struct two { float x; int k; };
#define TWO struct two
#define FOUR four
__kernel void f(__global real *y, __global const float *x, FOUR p, TWO q, real r, THREE v, int n) {
    int i = get_global_id(0);
    if (i < n) y[i] = x[i] + 0 * (p.x + q.k + r + v.x);
}
"""


def of_structs(folder: Path, code: str, dtypes: dict[str, str]) -> Path:
    arguments: list[dict[str, Any]] = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    arguments += [{"name": name, "dtype": dtype, "value": 1} for name, dtype in dtypes.items()]
    return written(folder, code, arguments, "x", "opencl", block=[64], grid=["ceil_div(n, 64)"])


DTYPES = {"p": "complex128", "q": "int64", "r": "float32", "v": "complex128"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype", "told"),
    [
        ("p", "float32", "float32 has 4 bytes, but f takes 16 here; write the type that f declares, or the `fields:`"),
        ("q", "float32", "float32 has 4 bytes, but f takes 8 here"),
        ("v", "complex64", "complex64 has 8 bytes, but f takes 16 here"),
        ("", "", ""),
    ],
)
def test_a_struct_by_value_is_compared_before_a_launch(
    name: str, dtype: str, told: str, tmp_path: Path, tune: Tune
) -> None:
    file = of_structs(tmp_path, STRUCTS, {**DTYPES, name: dtype} if name else DTYPES)
    done = tune("validate", file, "--compile")
    assert (done.status, f"operation.arguments.{name}.dtype: {told}" in done.err) == ((2, True) if told else (0, False))
    if told:
        assert "1 failed: arguments" in tune(file, "1000").err
        with pytest.raises(tuner.TrialError, match=told):
            tuner.load(file, 1000, device="opencl")
    else:
        assert tune(file, "1000").status in (0, 1)  # whatever the values mean
        tuner.load(file, 1000, device="opencl")


def test_a_type_that_no_argument_of_a_kernel_may_have_is_explained(tmp_path: Path, tune: Tune) -> None:
    code = STRUCTS.replace("struct two { float x; int k; }", "struct two { bool k; }").replace("q.k", "(float)q.k")
    done = tune("validate", of_structs(tmp_path, code, DTYPES), "--compile")
    assert done.status == 2
    assert "OpenCL C forbids bool, size_t" in done.err
    assert "also within a struct; write unsigned char" in done.err


def test_arrays_of_measurements_ask_for_huge_pages_so_that_times_depend_less_on_where_they_lie(opencl: Device) -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip("this system has no huge pages")
    nbytes, before = 3 << 20, _advised()
    buffer = opencl.allocate(nbytes)
    opencl.fill(buffer.handle, 1, nbytes)
    assert _advised() - before >= nbytes + 2 * GUARD


def _advised() -> int:
    """The bytes of this process for which huge pages were asked for."""
    nbytes = size = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        size = int(rest.split()[0]) * 1024 if name == "Size" else size
        nbytes += size if name == "VmFlags" and "hg" in rest.split() else 0
    return nbytes
