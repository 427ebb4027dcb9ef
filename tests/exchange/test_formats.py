"""What is exported works elsewhere: with a C compiler, NVRTC, an OpenCL driver, Kernel Tuner, a T4 schema."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from helpers.kernels import Stage
from helpers.operations import array, written
from helpers.processes import Tune, run
from helpers.records import A100, H200, KERNEL, SPACE, at, config, imported, record, sizes, stale, stored
from tuner.devices import Device
from tuner.devices.cuda.compiler import compile_cubin
from tuner.space.instance import Instance
from tuner.space.scope import Limits, Scope
from tuner.space.sources import rendering
from tuner.space.sources.source import Source
from tuner.store.store import Store
from tuner.tuning.recordings import recording


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
        assert seen["SGEMM_07_TILED_1XN_ARCHITECTURE"] == {"": '""', "NVIDIA_A100_SXM4_80GB": '"sm_80"'}.get(
            device, '"sm_90a"'
        )
    assert [line for line in header.read_text().splitlines() if "_DEVICE " in line][-2:] == [
        '#define SGEMM_07_TILED_1XN_DEVICE "*/ #error \\\\ \\"x\\" 8000"', '#define SGEMM_07_TILED_1XN_DEVICE ""'
    ]  # fmt: skip
    only = tmp_path / "only.h"
    assert tune("export", KERNEL, "1024", "--to", "header", "--output", only, "--device", "H200").status == 0
    assert only.read_text().count("defined(") == 1


def test_a_header_takes_no_name_from_a_program_in_cpp(tune: Tune, tmp_path: Path) -> None:
    """Its launch and values have names of their own there; kernels, in C and under nvcc, read theirs as before."""
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    code = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = blocks * GRID_X * x[i]; }"
    file = written(tmp_path, code, arguments, "128 * x", parameters={"blocks": [64], "GRID_X": [2]})
    header, program = tmp_path / "tuned.h", tmp_path / "program.cpp"
    assert tune("export", file, "64", "--to", "header", "--device", "host", "--output", header).status == 0
    prefix = next(line.split()[1] for line in header.read_text().splitlines() if line.startswith("#ifndef"))[:-2]
    program.write_text(
        f'#include "tuned.h"\n#include <vector>\nint main() {{ std::vector<int> blocks(2), GRID_X; '
        f'static_assert({prefix}_GRID_X > 0, ""); return {prefix}_VALUE_blocks + {prefix}_VALUE_GRID_X - 66; }}\n'
    )
    run("g++", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "program", program)
    run(tmp_path / "program")
    assert macros(header)["blocks"] == "64"
    assert "blocks" not in macros(header, f"{prefix}_MACROS=0")
    for defined in ("__CUDACC__", f"{prefix}_MACROS=1"):
        seen = run("g++", "-E", "-dM", "-x", "c++", f"-D{defined}", header).stdout
        assert "#define blocks 64" in seen


def test_a_kernel_compiles_under_its_header(tune: Tune, tmp_path: Path) -> None:
    kernel, header, folder = "sgemm/01_host_blocked", tmp_path / "tuned.h", tmp_path / "r"
    words = ("export", kernel, "64", "--to", "header", "--output", header)
    assert f"warning: {kernel} has no records in the store: the header has the default" in tune(*words).err
    assert "Include it before the kernel's source.\n" in header.read_text()
    Store(kernel, folder).add(record(sizes=sizes(64), config={"block_size": 16, "openmp": 0}))
    assert (tune(*words, "--results", folder).err, header.read_text().count("defined(")) == ("", 1)
    flags = ["-std=c11", "-Wall", "-Werror", "-include", header, "-DTUNED_FOR_HOST_HERE"]
    made = run("cc", *flags, "-E", "-dM", ROOT / "kernels/sgemm/01_host_blocked.c").stdout
    assert "#define block_size 16\n" in made
    run("cc", *flags, "-c", "-o", tmp_path / "kernel.o", ROOT / "kernels/sgemm/01_host_blocked.c")


@pytest.mark.usefixtures("untuned")
def test_an_export_of_what_was_not_tuned_says_whose_configuration_it_is(tune: Tune, tmp_path: Path) -> None:
    folder = stored(tmp_path, at(520))
    where = ("--to", "header", "--device", "H200", "--results", folder, "--output", tmp_path / "x.h")
    exact = tune("export", KERNEL, "520", *where)
    assert (exact.status, exact.err) == (0, "")
    other = tune("export", KERNEL, "5555", *where)
    assert other.status == 0
    assert f"{KERNEL} at M=5555, N=5555, K=5555, batch=1 on {H200}: not tuned; exported the configuration" in other.err
    assert "run `tune sgemm/07_tiled_1xn 5555` on that device" in other.err


def test_an_export_says_the_types_and_options_that_its_code_depends_on(tune: Tune, tmp_path: Path) -> None:
    """An option is a float, and the name of a kernel takes it as the integer that it is."""
    names = [f"void add_{2 * radius}(real *y, const real *x, int n) {{ y[0] = x[0]; }}" for radius in (1, 3)]
    arguments = [array("y", "real", ["n"], "out"), array("x", "real", ["n"])]
    file = written(
        tmp_path, "\n".join(names), arguments, "x", "c", kernel="add_{width}", types={"real": ["float32", "float64"]},
        options={"radius": 1, "shift": 0}, derived={"width": "2 * radius"},
    )  # fmt: skip
    for to in ("header", "cu"):
        out = tmp_path / to
        where = ("--to", to, "--device", "host", "--output", out)
        done = tune("export", file, "64", *where)
        assert (done.status, f"run `tune {file} 64` on that device" in done.err) == (0, True), "it was never tuned"
        assert " at n=64, real=float32, radius=1" in out.read_text().splitlines()[0]
        assert tune("export", file, "64", *where, "--set", "radius=3", "--type", "real=float64").status == 0
        assert " at n=64, real=float64, radius=3" in out.read_text().splitlines()[0]
        assert "add_6" in out.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "device", "suffix"),
    [
        ("sgemm/01_host_blocked", "host", "c"),
        ("sgemm/12_warptiled", "opencl", "cl"),
        ("sgemm/12_warptiled", "--architecture", "cu"),  # of which no device is needed
    ],
)
def test_an_exported_source_compiles_alone(
    kernel: str, device: str, suffix: str, tune: Tune, tmp_path: Path, opencl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    where = (device, "sm_90a") if suffix == "cu" else ("--device", device)
    done = tune("export", kernel, "1024", "--to", "cu", *where, "--json")
    assert done.json["files"] == [f"{kernel.partition('/')[2]}-1024.{suffix}"], done.err
    text = Path(done.json["files"][0]).read_text()
    assert '#include "' not in text
    if suffix == "c":
        command = text.partition("Compile with: ")[2].partition("; link with: -fopenmp -lm\n")[0].split()
        assert {"-O3", "-march=native", "-fopenmp"} <= {*command}
        run(*command, "-Wall", "-Werror", "-c", "-o", "kernel.o", done.json["files"][0])
        return
    made = Source(text, ("sgemm_warptiled",), ())
    assert opencl.compiler.compile(made).binary if suffix == "cl" else compile_cubin(made, "sm_90a").binary


def test_an_exported_source_is_what_is_launched(tune: Tune, tmp_path: Path) -> None:
    folder, file = stored(tmp_path / "r", at(1024, tile=16)), tmp_path / "tuned.cu"
    assert tune("export", KERNEL, "1024", "--to", "cu", "--results", folder, "--output", file).status == 0
    scope = Scope(sizes(1024), SPACE.operation.options, "cuda", Limits(compute_capability=9.0))
    assert file.read_text().partition("*/\n")[2] == rendering.render(Instance(SPACE, config(16), scope))[0].source.text


FLAWED = """
void flawed(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta) {
#if mode == 1
    this does not compile
#elif mode == 2
    *(volatile int *)0 = 0;
#elif mode == 4
    return;
#elif mode == 5
    if (alpha != 1) alpha = 0; /* only the finals have such options */
#endif
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        C[i] = mode == 3 ? sum + 1 : beta == 0 ? alpha * sum : alpha * sum + beta * C[i];
    }
}
"""


@pytest.mark.slow
def test_all_trials_are_exported_failures_too_but_none_of_an_edited_kernel(
    tune: Tune, stage: Stage, tmp_path: Path, host: Device
) -> None:
    import jsonschema
    from kernel_tuner.file_utils import output_file_schema

    file = stage(FLAWED, "flawed", "{mode: [0, 1, 2, 3, 4, 5]}")
    assert tune(file, "32", "--json").json["evaluated"] == 6

    done = tune("export", file, "32", "--to", "t4", "--output", tmp_path / "t4.json", "--json")
    assert (done.json["from"], done.json["trials"]) == ("ledger", 6), done.err
    results, metadata = (json.loads(Path(file).read_text()) for file in done.json["files"])
    jsonschema.validate(results, output_file_schema("results")[1])
    jsonschema.validate(metadata, output_file_schema("metadata")[1])
    said = {r["configuration"]["mode"]: (r["invalidity"], r["correctness"]) for r in results["results"]}
    wrong = dict.fromkeys((3, 4, 5), ("correctness", 0))
    assert said == {0: ("correct", 1), 1: ("compile", 0), 2: ("runtime", 0), **wrong}
    (right,) = [r for r in results["results"] if r["correctness"]]
    assert {m["name"] for m in right["measurements"]} >= {"time", "error", "bound"}
    assert len(right["times"]["runtimes"]) >= 7
    assert tune("replay", tmp_path / "t4.json").status == 0

    table = tmp_path / "trials.csv"
    assert tune("export", file, "32", "--to", "csv", "--output", table).status == 0
    rows = sorted(csv.DictReader(table.open()), key=lambda row: row["mode"])
    failures = {row["mode"]: row["failure"] for row in rows}
    wrongs = {"3": "wrong result", "4": "not a number", "5": "wrong result"}
    assert failures == {"0": "", "1": "compile", "2": "crash", **wrongs}
    assert {row["device"] for row in rows} == {host.name}
    assert sum(float(row["time_ms"] or 0) > 0 for row in rows) == 1

    file.with_suffix(".c").write_text(FLAWED.replace("sum = 0", "sum = 0.0f"))
    done = tune("export", file, "32", "--to", "csv", "--output", table)
    assert (done.status, "nothing has been measured; tune it first" in done.err) == (2, True)


def test_a_table_of_a_record_names_its_types(tune: Tune, tmp_path: Path) -> None:
    table = tmp_path / "record.csv"
    done = tune("export", "gallery/axpy", "134217728", "--to", "csv", "--output", table)
    assert "from a record" in done.out, done.err
    assert {row["real"] for row in csv.DictReader(table.open())} == {"float32"}


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


@pytest.mark.slow
def test_a_storage_that_is_named_holds_the_trials_or_is_refused(tune: Tune, tmp_path: Path) -> None:
    file = tmp_path / "study.db"
    asked = ["export", "sgemm/01_host_blocked", "16", "--to", "csv", "--output", tmp_path / "x.csv"]
    storage = ["--storage", f"sqlite:///{file}"]
    assert tune("sgemm/01_host_blocked", "16", "--device", "host", "--budget", "2").status == 0, "a record is there"
    assert "there is no such file" in tune(*asked, *storage).err
    assert not file.exists()
    file.touch()
    assert "holds no trials; name a database that tuning has written" in tune(*asked, *storage).err
    assert file.read_bytes() == b""
    assert tune("sgemm/01_host_blocked", "8", "--device", "host", "--budget", "2", *storage).status == 0
    assert "has no trials of sgemm/01_host_blocked at M=16, N=16, K=16, batch=1" in tune(*asked, *storage).err
    assert not (tmp_path / "x.csv").exists()
    assert tune("export", "sgemm/01_host_blocked", "8", *asked[3:], *storage).status == 0


def test_what_comes_from_a_file_is_no_formula(tune: Tune, tmp_path: Path) -> None:
    folder, file = stored(tmp_path / "r", at(2000, "=cmd|' /C calc'!A0")), tmp_path / "trials.csv"
    assert tune("export", KERNEL, "2000", "--to", "csv", "--results", folder, "--output", file).status == 0
    assert ",'=cmd|" in file.read_text()


def test_a_stale_or_imported_record_is_told(tune: Tune, tmp_path: Path) -> None:
    folder, header = tmp_path / "r", tmp_path / "tuned.h"
    stored(folder, stale(at(64, "Old", architecture="sm_70")), imported(at(64, "Theirs", architecture="sm_70")))
    done = tune("export", KERNEL, "64", "--to", "header", "--output", header, "--results", folder)
    assert "has not been verified" in done.err
    assert "has not been verified" in header.read_text()
