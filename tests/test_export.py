"""What is exported works elsewhere: with a C compiler, NVRTC, an OpenCL driver, Kernel Tuner, a T4 schema."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Done
from test_lookup import A100, H200, KERNEL, SPACE, at, config, imported, stale
from test_lookup import SIGNATURE as CURRENT
from test_store import record, sizes

from tuner import devices
from tuner.devices import Device
from tuner.devices.cuda.compiler import compile_cubin
from tuner.exchange import recording
from tuner.space import source
from tuner.space.model import Geometry, Limits, Scope
from tuner.space.source import Source
from tuner.store.store import Record, Store

Tune = Callable[..., Done]


def run(*command: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=text)
    assert done.returncode == 0, done.stderr
    return done


def stored(folder: Path, *records: Record) -> Path:
    for one in records:
        Store(KERNEL, folder).add(one)
    return folder


def macros(header: Path, *defined: str) -> dict[str, str]:
    """What the header defines, as a C compiler sees it."""
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", *(f"-D{name}" for name in defined)]
    seen = run("cc", *flags, "-E", "-dM", "-include", header, "-x", "c", "/dev/null").stdout
    return {words[1]: " ".join(words[2:]) for words in map(str.split, seen.splitlines())}


PCIE = "NVIDIA A100 80GB PCIe"
EVIL = '*/ #error \\ "x" 8000'


def test_a_header_has_a_section_for_each_device_and_a_default(tune: Tune, tmp_path: Path) -> None:
    known = [at(1024, tile=1), at(4096, A100, 16), at(4096, "nvidia a100 sxm4 80gb", 2), at(4096, EVIL, 8)]
    folder, header = stored(tmp_path / "r", *known), tmp_path / "tuned.h"
    done = tune("export", KERNEL, "1024", "--to", "header", "--output", header, "--results", folder, "--json")
    assert (done.status, done.json["files"]) == (0, [str(header)]), done.err
    tiles = {"": 4, "NVIDIA_H200": 1, "NVIDIA_A100_SXM4_80GB": 16, "NVIDIA_A100_SXM4_80GB_2": 2, "ERROR_X_8000": 8}
    assert len(done.json["devices"]) == len(tiles) - 1
    for device, tile in tiles.items():
        seen = macros(header, *([f"TUNED_FOR_CUDA_{device}"] if device else []))
        assert {name: seen[name] for name in SPACE.parameters} == {k: str(v) for k, v in config(tile).items()}, device
        assert seen["SGEMM_07_TILED_1XN_BLOCK_Y"] == str(32 // tile)
        assert seen["SGEMM_07_TILED_1XN_GRID_Y"] == "32"
    only = tmp_path / "only.h"
    assert tune("export", KERNEL, "1024", "--to", "header", "--output", only, "--device", "H200").status == 0
    assert only.read_text().count("defined(") == 1


def test_a_kernel_compiles_under_its_header(tune: Tune, tmp_path: Path) -> None:
    kernel, header, folder = "sgemm/01_host_blocked", tmp_path / "tuned.h", tmp_path / "r"
    Store(kernel, folder).add(record(sizes=sizes(64), config={"block_size": 16, "openmp": 0}))
    assert tune("export", kernel, "64", "--to", "header", "--output", header, "--results", folder).status == 0
    flags = ["-std=c11", "-Wall", "-Werror", "-include", header, "-DTUNED_FOR_HOST_HERE"]
    made = run("cc", *flags, "-E", "-dM", ROOT / "kernels/sgemm/01_host_blocked.c").stdout
    assert "#define block_size 16\n" in made
    run("cc", *flags, "-c", "-o", tmp_path / "kernel.o", ROOT / "kernels/sgemm/01_host_blocked.c")


@pytest.mark.parametrize(
    ("kernel", "device", "suffix"),
    [
        ("sgemm/01_host_blocked", "host", "c"),
        ("sgemm/12_warptiled", "opencl", "cl"),
        ("sgemm/12_warptiled", "H200", "cu"),
    ],
)
def test_an_exported_source_compiles_alone(
    kernel: str, device: str, suffix: str, tune: Tune, tmp_path: Path, opencl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = tune("export", kernel, "1024", "--to", "cu", "--device", device, "--json")
    assert done.json["files"] == [f"{kernel.partition('/')[2]}-1024.{suffix}"], done.err
    text = Path(done.json["files"][0]).read_text()
    assert '#include "' not in text
    if suffix == "c":
        run("cc", "-std=c11", "-fopenmp", "-Wall", "-Werror", "-c", "-o", "kernel.o", done.json["files"][0])
        return
    made = Source(text, "sgemm_warptiled", (), Geometry((1, 1, 1), (1, 1, 1), 0))
    assert opencl.compiler.compile(made).binary if suffix == "cl" else compile_cubin(made, "sm_90a").binary


def test_an_exported_source_is_what_is_launched(tune: Tune, tmp_path: Path) -> None:
    folder, file = stored(tmp_path / "r", at(1024, tile=16)), tmp_path / "tuned.cu"
    assert tune("export", KERNEL, "1024", "--to", "cu", "--results", folder, "--output", file).status == 0
    scope = Scope(sizes(1024), SPACE.operation.options, "cuda", Limits(compute_capability=9.0))
    assert file.read_text().partition("*/\n")[2] == source.render(SPACE, config(16), scope).text


def bundle(tune: Tune, folder: Path, *arguments: str) -> dict[str, Any]:
    done = tune("export", *arguments, "--to", "cubin", "--output", folder, "--json")
    assert done.status == 0, done.err
    read: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    return read


def example(folder: Path) -> Path:
    """The bundle's example, compiled as its first lines say, but with every warning an error."""
    program = folder / "example"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    run("cc", *flags, "-o", program, folder / "example.c", "-ldl")
    return program


def test_a_bundle_holds_a_cubin_for_each_architecture_and_says_how_to_launch_it(tune: Tune, tmp_path: Path) -> None:
    results = stored(tmp_path / "r", at(1024, tile=1), at(1024, A100, 2))
    arguments = [KERNEL, "1024", "--results", str(results), "--architecture", "sm_80,sm_90a"]
    made = bundle(tune, tmp_path / "b", *arguments)
    assert made["signature"] == CURRENT
    assert [(b["architecture"], b["match"], b["config"]["tile_size_y"]) for b in made["builds"]] == [
        ("sm_80", "exact", 2),
        ("sm_90a", "exact", 1),
    ]
    for build in made["builds"]:
        assert (tmp_path / "b" / build["file"]).read_bytes().startswith(b"\x7fELF")
        assert build["block"] == [32, 32 // build["config"]["tile_size_y"], 1]
        assert build["grid"] == [8, 32, 1]
        assert build["registers"] > 0
    assert [a["name"] for a in made["arguments"]] == ["C", "A", "B", "M", "N", "K", "batch", "alpha", "beta"]
    assert {a["name"]: a["value"] for a in made["arguments"][3:]} == {
        "M": 1024, "N": 1024, "K": 1024, "batch": 1, "alpha": 1.0, "beta": 0.0
    }  # fmt: skip


def test_a_configuration_that_does_not_compile_gives_way_to_the_next(tune: Tune, stage: Callable[..., Path]) -> None:
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


def test_a_bundle_holds_the_arrays_that_a_kernel_is_always_given(tune: Tune, tmp_path: Path) -> None:
    made = bundle(tune, tmp_path, "sgemm/04_strided", "64x128x256", "--architecture", "sm_90a")
    given = {a["name"]: a["value"] for a in made["arguments"] if "value" in a}
    assert (given["C_strides"], given["C_shape"], given["dimensions"]) == ([64 * 128, 128, 1], [1, 64, 128], 3)
    assert "sgemm_04_strided_C_shape[] = {0x01, 0x00, 0x00, 0x00, 0x40," in (tmp_path / "launch.h").read_text()
    example(tmp_path)


@pytest.mark.skipif(devices.count("cuda") > 0, reason="there is a driver; -m gpu runs it")
def test_without_a_driver_the_example_says_so(tune: Tune, tmp_path: Path) -> None:
    (build,) = bundle(tune, tmp_path, "sgemm/03_naive", "64x128x256")["builds"]
    assert (build["architecture"], build["device"]) == ("sm_90a", H200), "that of the store"
    done = subprocess.run([example(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("no NVIDIA driver: libcuda.so.1")


DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned long long address;
int cuGetErrorName(int e, const char **n) { (void)e; *n = "REFUSED"; return 0; }
int cuInit(unsigned f) { return f; }
int cuDeviceGet(int *d, int n) { *d = n; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? MAJOR : MINOR; return d; }
int cuDeviceGetName(char *n, int l, int d) { snprintf(n, l, "a test's own"); return d; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = c; return d; }
int cuCtxSetCurrent(void *c) { return c == NULL; }
int cuCtxSynchronize(void) { return 0; }
int cuModuleLoad(void **m, const char *p) { *m = fopen(p, "rb"); printf("load %s\\n", p); return *m == NULL; }
int cuModuleGetFunction(void **f, void *m, const char *n) { *f = m; printf("get %s\\n", n); return 0; }
int cuFuncSetAttribute(void *f, int a, int v) { printf("attribute %d %d\\n", a, v); return f == NULL; }
int cuMemAlloc_v2(address *a, size_t n) { *a = (address)calloc(1, n); return *a == 0; }
int cuMemcpyHtoD_v2(address d, const void *s, size_t n) { memcpy((void *)d, s, n); return 0; }
int cuMemcpyDtoH_v2(void *d, address s, size_t n) { memcpy(d, (void *)s, n); return 0; }
int cuEventCreate(void **e, unsigned f) { *e = e; return f; }
int cuEventRecord(void *e, void *s) { return e == NULL || s != NULL; }
int cuEventElapsedTime(float *t, void *a, void *b) { *t = 10; return a == b; }
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned i, unsigned j, unsigned k, unsigned shared,
                   void *stream, void **p, void **extra) {
    float *C = *(float **)p[0], *A = *(float **)p[1];
    int M = *(int *)p[3], N = *(int *)p[4], K = *(int *)p[5];
    printf("launch %u %u %u, %u %u %u, %u: %d %d %d %g %g\\n", x, y, z, i, j, k, shared, M, N, K, *(float *)p[7],
           *(float *)p[8]);
    C[0] = K * A[0] * A[M * K - 1];
    C[M * N - 1] = -C[0];
    return f == NULL || stream != NULL || extra != NULL;
}
"""


@pytest.mark.skipif(devices.count("cuda") > 0, reason="there is a driver; -m gpu runs it")
@pytest.mark.parametrize(
    ("capability", "file"), [((9, 0), "sm_90a"), ((8, 6), "sm_80"), ((10, 0), None), ((7, 5), None)]
)
def test_the_example_asks_the_driver_for_the_right_launch(
    capability: tuple[int, int], file: str | None, tune: Tune, tmp_path: Path
) -> None:
    """What stands in for a driver here checks what it is asked; on a GPU the kernel itself runs (-m gpu)."""
    made = bundle(tune, tmp_path, "sgemm/03_naive", "64x128x256", "--architecture", "sm_80,sm_90a")
    flags = [f"-DMAJOR={capability[0]}", f"-DMINOR={capability[1]}", "-shared", "-fPIC", "-x", "c"]
    run("cc", *flags, "-o", tmp_path / "libcuda.so.1", "-", text=DRIVER)
    done = subprocess.run(
        [example(tmp_path), str(tmp_path)],
        capture_output=True, text=True, check=False, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
    )  # fmt: skip
    if file is None:
        assert (done.returncode, done.stdout) == (1, "")
        assert "no build for its compute capability" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (build,) = [b for b in made["builds"] if b["architecture"] == file]
    grid, block = (" ".join(map(str, build[name])) for name in ("grid", "block"))
    assert lines[:2] == [f"load {tmp_path}/{file}.cubin", "get sgemm_naive"]
    assert lines[2:-2] == [f"launch {grid}, {block}, 0: 64 128 256 1 0"] * 11
    assert lines[-2:] == [f"sgemm_naive on a test's own, {file}.cubin: 1 ms per launch", "C: 256 -256"]


FLAWED = """
void flawed(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta) {
#if mode == 1
    this does not compile
#elif mode == 2
    *(volatile int *)0 = 0;
#endif
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        C[i] = mode == 3 ? sum + 1 : beta == 0 ? alpha * sum : alpha * sum + beta * C[i];
    }
}
"""


def test_all_trials_are_exported_failures_too_but_none_of_an_edited_kernel(
    tune: Tune, stage: Callable[..., Path], tmp_path: Path, host: Device
) -> None:
    import jsonschema
    from kernel_tuner.file_utils import output_file_schema

    file = stage(FLAWED, "flawed", "{mode: [0, 1, 2, 3]}")
    assert tune(file, "32", "--json").json["evaluated"] == 4

    done = tune("export", file, "32", "--to", "t4", "--output", tmp_path / "t4.json", "--json")
    assert (done.json["from"], done.json["trials"]) == ("ledger", 4), done.err
    results, metadata = (json.loads(Path(file).read_text()) for file in done.json["files"])
    jsonschema.validate(results, output_file_schema("results")[1])
    jsonschema.validate(metadata, output_file_schema("metadata")[1])
    said = {r["configuration"]["mode"]: (r["invalidity"], r["correctness"]) for r in results["results"]}
    assert said == {0: ("correct", 1), 1: ("compile", 0), 2: ("runtime", 0), 3: ("correctness", 0)}
    (right,) = [r for r in results["results"] if r["correctness"]]
    assert {m["name"] for m in right["measurements"]} >= {"time", "error", "bound"}
    assert len(right["times"]["runtimes"]) >= 7
    assert tune("replay", tmp_path / "t4.json").status == 0

    table = tmp_path / "trials.csv"
    assert tune("export", file, "32", "--to", "csv", "--output", table).status == 0
    rows = sorted(csv.DictReader(table.open()), key=lambda row: row["mode"])
    failures = {row["mode"]: row["failure"] for row in rows}
    assert failures == {"0": "", "1": "compile", "2": "crash", "3": "wrong result"}
    assert {row["device"] for row in rows} == {host.name}
    assert sum(float(row["time_ms"] or 0) > 0 for row in rows) == 1

    file.with_suffix(".c").write_text(FLAWED.replace("sum = 0", "sum = 0.0f"))
    done = tune("export", file, "32", "--to", "csv", "--output", table)
    assert (done.status, "nothing has been measured; tune it first" in done.err) == (2, True)


@pytest.mark.filterwarnings("ignore:The metaschema")  # of Kernel Tuner's own results
def test_kernel_tuner_replays_an_exported_cache_and_reads_the_results(tune: Tune, tmp_path: Path) -> None:
    from kernel_tuner import tune_kernel
    from kernel_tuner.integration import TuneResults

    done = tune("export", KERNEL, "4096", "--to", "kernel-tuner", "--output", tmp_path / "cache.json", "--json")
    assert (done.json["device"], done.json["from"], done.json["trials"]) == (H200, "recording", 92), done.err
    cache, results = map(Path, done.json["files"])
    known = recording.read(ROOT / "results/recordings/07_tiled_1xn-4096.json.gz")
    best = min(known.entries, key=lambda key: known.entries[key].time_ms or 1e9)
    replayed, _ = tune_kernel(
        "sgemm_tiled_1xn", "", (4096, 4096), [], {name: list(values) for name, values in SPACE.parameters.items()},
        restrictions=[
            "block_size_x == block_size_y * tile_size_y",
            "block_size_x * block_size_x * (1 + tile_size_x) <= 12288",
            "block_size_x * block_size_y <= 1024",
        ],
        simulation_mode=True, cache=str(cache), quiet=True, lang="C",
    )  # fmt: skip
    assert len(replayed) == 92
    first = min(replayed, key=lambda result: result["time"])
    assert tuple(first[name] for name in SPACE.parameters) == best
    found = TuneResults(str(results)).get_best_config("NVIDIA H200", (4096, 4096))
    assert tuple(found["tunable_parameters"].values()) == best


def test_a_storage_that_is_named_holds_the_trials_or_is_refused(tune: Tune, tmp_path: Path, opencl: Device) -> None:
    file = tmp_path / "study.db"
    asked = ["export", "sgemm/03_naive", "16", "--to", "csv", "--output", tmp_path / "x.csv"]
    storage = ["--storage", f"sqlite:///{file}"]
    assert tune("sgemm/03_naive", "16", "--device", "opencl", "--budget", "3").status == 0, "a record is there"
    assert "there is no such file" in tune(*asked, *storage).err
    assert not file.exists()
    file.touch()
    assert "holds no trials; name a database that tuning has written" in tune(*asked, *storage).err
    assert file.read_bytes() == b""
    assert tune("sgemm/03_naive", "8", "--device", "opencl", "--budget", "3", *storage).status == 0
    assert "nothing of sgemm/03_naive at M=16, N=16, K=16, batch=1 in it" in tune(*asked, *storage).err
    assert not (tmp_path / "x.csv").exists()
    assert tune("export", "sgemm/03_naive", "8", *asked[3:], *storage).status == 0


def test_what_comes_from_a_file_is_no_formula(tune: Tune, tmp_path: Path) -> None:
    folder, file = stored(tmp_path / "r", at(2000, "=cmd|' /C calc'!A0")), tmp_path / "trials.csv"
    assert tune("export", KERNEL, "2000", "--to", "csv", "--results", folder, "--output", file).status == 0
    assert ",'=cmd|" in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((KERNEL, "1024", "--to", "header", "--architecture", "sm_80"), "--architecture is for --to cubin"),
        ((KERNEL, "1024", "--to", "cu", "--storage", "sqlite:///x"), "--storage is for --to kernel-tuner, t4 and csv"),
        ((KERNEL, "1024", "--to", "cubin", "--architecture", "sm_80;x"), "write names such as sm_80"),
        ((KERNEL, "1024", "--to", "cubin", "--architecture", "sm_20"), "nothing compiles for sm_20: "),
        (("sgemm/00_host_simple", "64", "--to", "cubin"), "it has no cubins"),
        ((KERNEL, "1024", "--to", "cu", "--device", "Voodoo"), "those are: NVIDIA H200"),
        ((KERNEL, "1024", "--to", "csv", "--device", "Voodoo"), "nothing has been measured"),
        ((KERNEL, "1024", "--to", "header", "--output", "/proc/no/where.h"), "cannot be written"),
        ((KERNEL, "1024", "--to", "header", "--output", ""), "--output '': names no file"),
        ((KERNEL, "1024", "--to", "header", "--output", "-"), "--output '-': names no file"),
        ((KERNEL, "1024", "--to", "header", "--output", "/tmp"), "/tmp: cannot be written: Is a directory"),
        ((KERNEL, "4096", "--to", "kernel-tuner", "--output", "/tmp"), "/tmp: cannot be written: Is a directory"),
        ((KERNEL, "1024", "--to", "header", "--output", "/dev/null"), "/dev/null: cannot be written: not a regular"),
        ((KERNEL, "1024", "--to", "pdf"), "--to"),
        ((KERNEL, "1024"), "Missing option '--to'. Choose from: header, cubin"),
        ((KERNEL, "1024", "--to", "csv", "--storage", "sqlite:////no/where.db"), "there is no such file"),
        ((KERNEL, "1024", "--to", "csv", "--storage", "sqlite:////bin/sh"), "the ledger cannot be read"),
        (
            (KERNEL, "1024", "--to", "cubin", "--device", "opencl"),
            "--device opencl: --to cubin is for CUDA devices; name",
        ),
        (
            (KERNEL, "1024", "--to", "cubin", "--device", "opencl", "--architecture", "sm_80"),
            "--device opencl: --to cubin is for CUDA devices; name",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_message(arguments: tuple[str, ...], message: str, tune: Tune) -> None:
    done = tune("export", *arguments)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert message in done.err


@pytest.mark.parametrize("to", ["header", "kernel-tuner"])
def test_what_is_written_goes_through_a_link(to: str, tune: Tune, tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "elsewhere" / "target"
    link.symlink_to(target)
    for _ in range(2):
        assert tune("export", KERNEL, "4096", "--to", to, "--output", link).status == 0
        assert link.is_symlink()
        assert target.stat().st_size > 0
        target.write_text("")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link", "loop"])
def test_what_another_has_open_is_not_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "loop").symlink_to("loop")
    asked = [sys.executable, "-m", "tuner", "export", KERNEL, "4096", "--to", "header", "--output", name]
    with (tmp_path / "out").open("w") as out:
        out.write("before\n")
        out.flush()
        done = subprocess.run(asked, stdout=out, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"{name}: cannot be written: " in done.stderr
    assert (tmp_path / "out").read_text() == "before\n"


def test_a_stale_or_imported_record_is_told(tune: Tune, tmp_path: Path) -> None:
    folder, header = tmp_path / "r", tmp_path / "tuned.h"
    stored(folder, stale(at(64, "Old", architecture="sm_70")), imported(at(64, "Theirs", architecture="sm_70")))
    done = tune("export", KERNEL, "64", "--to", "header", "--output", header, "--results", folder)
    assert "has not been verified" in done.err
    assert "has not been verified" in header.read_text()
