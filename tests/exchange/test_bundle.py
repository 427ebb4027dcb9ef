"""An exported bundle of cubins says how to launch it, and its example does."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.bundles import bundle, compiled_example, run_on_stand_in
from helpers.kernels import Stage
from helpers.processes import Tune
from helpers.records import A100, H200, KERNEL, SIGNATURE, at, stored
from tuner import devices
from tuner.store.store import Store

no_driver = pytest.mark.skipif(devices.count("cuda") > 0, reason="there is a driver; -m gpu runs it")


@pytest.mark.slow
def test_a_bundle_holds_a_cubin_for_each_architecture_and_says_how_to_launch_it(tune: Tune, tmp_path: Path) -> None:
    results = stored(tmp_path / "r", at(1024, tile=1), at(1024, A100, 2))
    arguments = [KERNEL, "1024", "--results", str(results), "--architecture", "sm_80,sm_90a"]
    made = bundle(tune, tmp_path / "b", *arguments)
    assert made["signature"] == SIGNATURE
    assert [(b["architecture"], b["match"], b["config"]["tile_size_y"]) for b in made["builds"]] == [
        ("sm_80", "exact", 2),
        ("sm_90a", "exact", 1),
    ]
    for build in made["builds"]:
        (cubin,), (step,) = build["cubins"], build["steps"]
        assert (tmp_path / "b" / cubin["file"]).read_bytes().startswith(b"\x7fELF")
        assert (step["file"], step["entry"]) == (cubin["file"], "sgemm_tiled_1xn")
        assert step["block"] == [32, 32 // build["config"]["tile_size_y"], 1]
        assert (step["grid"], step["cluster"], step["cooperative"]) == ([8, 32, 1], [1, 1, 1], False)
        assert step["registers"] > 0
        assert step["arguments"] == [a["name"] for a in build["arguments"]]
        assert step["arguments"] == ["C", "A", "B", "M", "N", "K", "batch", "alpha", "beta"]
        assert {a["name"]: a["value"] for a in build["arguments"][3:]} == {
            "M": 1024, "N": 1024, "K": 1024, "batch": 1, "alpha": 1.0, "beta": 0.0
        }  # fmt: skip


def test_a_configuration_that_does_not_compile_gives_way_to_the_next(tune: Tune, stage: Stage) -> None:
    text = """
    #if mode == 1
    #error "not for this architecture"
    #endif
    extern "C" __global__ void picky(float *C, const float *A, const float *B, int M, int N, int K, int batch,
                                     float alpha, float beta) { C[threadIdx.x] = mode; }
    """
    more = "extent: [M]\ngrid_divisors: {x: [64]}\nblock: [64]\ndefault: {mode: 2}"
    file = stage(text, "picky", "{mode: [1, 2]}", "cuda", more)
    name = f"{file.parent.name}/picky"
    folder = file.parent / "r"
    first = replace(at(64), config={"mode": 1}, signature="an earlier one")
    Store(name, folder).add(first)
    made = bundle(tune, file.parent / "b", str(file), "64", "--results", str(folder), "--architecture", "sm_90a")
    assert (made["builds"][0]["config"], made["builds"][0]["match"]) == ({"mode": 2}, "default")


@pytest.mark.slow
def test_a_bundle_holds_the_arrays_that_a_kernel_is_always_given(tune: Tune, tmp_path: Path) -> None:
    made = bundle(tune, tmp_path, "sgemm/04_strided", "64x128x256", "--architecture", "sm_90a")
    given = {a["name"]: a["value"] for a in made["builds"][0]["arguments"] if "value" in a}
    assert (given["C_strides"], given["C_shape"], given["dimensions"]) == ([64 * 128, 128, 1], [1, 64, 128], 3)
    assert "sgemm_04_strided_sm_90a_C_shape[] = {0x01, 0x00, 0x00, 0x00, 0x40," in (tmp_path / "launch.h").read_text()
    compiled_example(tmp_path)


@pytest.mark.slow
@no_driver
def test_without_a_driver_the_example_says_so(tune: Tune, tmp_path: Path) -> None:
    (build,) = bundle(tune, tmp_path, "sgemm/03_naive", "64x128x256")["builds"]
    assert (build["architecture"], build["device"]) == ("sm_90a", H200), "that of the store"
    done = subprocess.run([compiled_example(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("no NVIDIA driver: libcuda.so.1")


PRODUCT = """
    float *C = *(float **)p[0], *A = *(float **)p[1];
    int M = *(int *)p[3], N = *(int *)p[4], K = *(int *)p[5];
    printf("with %d %d %d %g %g\\n", M, N, K, *(float *)p[7], *(float *)p[8]);
    C[0] = K * A[0] * A[M * K - 1];
    C[M * N - 1] = -C[0];
"""


@pytest.mark.slow
@no_driver
@pytest.mark.parametrize(
    ("capability", "architecture"), [((9, 0), "sm_90a"), ((8, 6), "sm_80"), ((10, 0), None), ((7, 5), None)]
)
def test_the_example_asks_the_driver_for_the_right_launch(
    capability: tuple[int, int], architecture: str | None, tune: Tune, tmp_path: Path
) -> None:
    """What stands in for a driver here checks what it is asked; on a GPU the kernel itself runs (-m gpu)."""
    made = bundle(tune, tmp_path, "sgemm/03_naive", "64x128x256", "--architecture", "sm_80,sm_90a")
    done = run_on_stand_in(tmp_path, PRODUCT, capability)
    if architecture is None:
        assert (done.returncode, done.stdout) == (1, "")
        assert "no build for its compute capability" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (build,) = [b for b in made["builds"] if b["architecture"] == architecture]
    (step,) = build["steps"]
    grid, block = (" ".join(map(str, step[name])) for name in ("grid", "block"))
    assert lines[:2] == [f"load {tmp_path}/{architecture}.cubin", f"get sgemm_naive of {architecture}.cubin"]
    assert lines[2:-2] == [f"launch sgemm_naive: {grid}, {block}, 0", "with 64 128 256 1 0"] * 11
    assert lines[-2:] == [f"sgemm_naive on a test's own, {architecture}: 1 ms per launch", "C: 256 -256"]


TEMPLATE = """
namespace ns {
template <int threads>
__global__ void product(float *C, const float *A, const float *B, int M, int N, int K, int batch, float a, float b) {
    C[blockIdx.x * threads + threadIdx.x] = a;
}
}
"""


@pytest.mark.slow
@no_driver
def test_the_example_asks_for_a_template_by_its_name_in_the_binary(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    more = "grid: [1]\nblock: [threads]"
    file = stage(TEMPLATE, "f", "{threads: [32]}", "cuda", more)
    file.write_text(file.read_text().replace("kernel: f", 'kernel: "ns::product<{threads}>"'))
    bundle(tune, tmp_path, str(file), "64x128x256", "--architecture", "sm_90a")
    done = run_on_stand_in(tmp_path, "")
    assert done.stdout.splitlines()[1] == "get _ZN2ns7productILi32EEEvPfPKfS3_iiiiff of sm_90a.cubin", done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["sgemm/04_strided", "sgemm/07_tiled_1xn", "hgemm/08_mma_pipelined"])
def test_an_exported_bundle_runs_without_us(kernel: str, tune: Tune, tmp_path: Path) -> None:
    done = tune("export", kernel, "512x256x1024", "--to", "cubin", "--output", tmp_path, "--device", "cuda")
    assert done.status == 0, done.err
    compiler = ["cc", "-std=c11", "-Wall", "-Werror", "-o", "example", "example.c", "-ldl"]
    subprocess.run(compiler, cwd=tmp_path, check=True)
    ran = subprocess.run([tmp_path / "example", tmp_path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "C: 1024 1024"
