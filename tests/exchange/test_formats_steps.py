"""The other formats, of spaces with several steps, scratch, and kinds of arguments."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from helpers.processes import Tune, run
from helpers.records import H200, record
from helpers.steps import written_sum
from tuner.devices.cuda.compiler import compile_cubin
from tuner.space.sources.source import Source
from tuner.store.store import Store

pytestmark = pytest.mark.usefixtures("untuned")

SUM = {"threads": 256, "blocks": 264, "vector": 1, "items": 1, "partial": "float64", "shuffles": 1, "streaming": 0}
COPY = {"box_rows": 32, "box_columns": 64, "boxes": 2}


def known(folder: Path, kernel: str, config: dict[str, Any], **sizes: int) -> tuple[str, ...]:
    """A store with a record of an H200, and the options that name both."""
    plain = record(device=H200, kind="cuda", architecture="sm_90a", sizes=sizes, options={}, config=config)
    Store(kernel, folder).add(plain)
    return "--results", str(folder), "--device", H200


def test_a_header_numbers_the_steps_and_says_how_much_scratch_they_need(tune: Tune, tmp_path: Path) -> None:
    header, where = tmp_path / "sum.h", known(tmp_path / "r", "gallery/sum", SUM, n=999983)
    done = tune("export", "gallery/sum", "999983", "--to", "header", "--output", header, *where)
    assert done.status == 0, done.err
    section, _, default = header.read_text().partition("#else\n")
    for text, blocks, size, partial in ((section, "264", "2112", "double"), (default, "528", "2112", "float")):
        seen = dict(re.findall(r"^#define (\w+) (.*)$", text, re.MULTILINE))
        assert [seen[f"GALLERY_SUM_STEP_{n}_KERNEL"] for n in (1, 2)] == ["sum_blocks", "sum_last"]
        assert [seen[f"GALLERY_SUM_STEP_{n}_GRID_X"] for n in (1, 2)] == [blocks, "1"]
        assert (seen["GALLERY_SUM_BYTES_partials"], seen["partial"]) == (size, partial)
    run("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", header)


def test_a_header_of_a_kernel_for_special_devices_has_their_sections_and_no_default(tune: Tune, tmp_path: Path) -> None:
    header, where = tmp_path / "copy.h", known(tmp_path / "r", "gallery/tma_copy", COPY, h=65, w=68)
    done = tune("export", "gallery/tma_copy", "65x68", "--to", "header", "--output", header, *where)
    assert done.status == 0, done.err
    run("cc", "-DTUNED_FOR_CUDA_NVIDIA_H200", "-std=c99", "-fsyntax-only", "-x", "c", header)
    assert header.read_text().endswith('#else\n#error "define the macro of a device"\n\n#endif\n\n#endif\n')


def test_one_file_holds_all_steps_of_a_source_and_says_how_each_is_launched(tune: Tune, tmp_path: Path) -> None:
    file, where = tmp_path / "sum.cu", known(tmp_path / "r", "gallery/sum", SUM, n=999983)
    assert tune("export", "gallery/sum", "999983", "--to", "cu", "--output", file, *where).status == 0
    text = file.read_text()
    assert (
        " * Entry point: sum_blocks(float64 * partials (scratch of 2112 bytes), float32 * x, int32 n)\n"
        " * Launch: grid (264, 1, 1), block (256, 1, 1), 0 bytes of dynamic shared memory\n"
        " * Entry point: sum_last(float32 * total, float64 * partials (scratch of 2112 bytes))\n"
        " * Launch: grid (1, 1, 1), block (256, 1, 1), 0 bytes of dynamic shared memory\n"
    ) in text
    assert compile_cubin(Source(text, ("sum_blocks", "sum_last"), ()), "sm_90a").binary


@pytest.mark.parametrize(
    ("kernel", "size", "config", "told"),
    [
        (
            "gallery/tma_copy", {"h": 65, "w": 68}, COPY,
            "tma_copy(tensor_map map_y (of y, box [32, 64], swizzle 0, interleave 0, promotion 128, fill zeros), ",
        ),
        (
            "gallery/convolution_constant", {"h": 65, "w": 68, "fh": 3, "fw": 5},
            {"block_x": 32, "block_y": 8, "rows": 1, "columns": 1, "shared_image": 0, "unrolled": 0},
            "Before each launch, copy filter (float32 *) to the variable of this name",
        ),
        (
            "gallery/scan_lookback", {"n": 99991},
            {"threads": 64, "items": 1, "vector": 1, "lookers": 1, "pause": 0, "streaming": 0},
            "uint64 * words (scratch of 12504 bytes, zero before each launch), int32 n",
        ),
    ],
)  # fmt: skip
def test_one_file_says_how_arguments_of_each_kind_are_passed(
    kernel: str, size: dict[str, int], config: dict[str, Any], told: str, tune: Tune, tmp_path: Path
) -> None:
    file, where = tmp_path / "x.cu", known(tmp_path / "r", kernel, config, **size)
    sizes = ",".join(f"{name}={extent}" for name, extent in size.items())
    done = tune("export", kernel, sizes, "--to", "cu", "--output", file, *where)
    assert done.status == 0, done.err
    assert told in file.read_text().partition("*/\n")[0]


def test_steps_of_two_sources_are_no_one_file(tune: Tune, tmp_path: Path) -> None:
    operation = """
  sizes: {n: }
  arguments: [{name: y, dtype: float32, shape: [n], role: out}]
  reference: 0
"""
    for name in "ab":
        (tmp_path / f"{name}.cu").write_text(f'extern "C" __global__ void {name}(float *y) {{ y[0] = 0; }}')
    steps = ", ".join(f"{{kernel: {name}, source: {name}.cu, grid: [1], block: [1]}}" for name in "ab")
    file = tmp_path / "two.yaml"
    file.write_text(f"title: t\noperation: {operation}languages: [cuda]\nparameters: {{a: [1]}}\nsteps: [{steps}]\n")
    where = known(tmp_path / "r", f"{tmp_path.name}/two", {"a": 1}, n=8)
    done = tune("export", file, "8", "--to", "cu", "--output", tmp_path / "x.cu", *where)
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "its steps come from a.cu, b.cu; --to cu writes one file; use --to cubin" in done.err


@pytest.mark.slow
def test_trials_of_several_steps_are_exported_and_imported(tune: Tune, tmp_path: Path) -> None:
    file = written_sum(tmp_path)
    kernel = f"{tmp_path.name}/sum"
    assert tune(file, "5000", "--device", "host", "--budget", "2", "--repeats", "1").status == 0
    files = {to: tmp_path / to for to in ("csv", "t4", "kernel-tuner")}
    for to, output in files.items():
        done = tune("export", file, "5000", "--to", to, "--device", "host", "--output", output)
        assert done.status == 0, done.err
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert {(row["kernel"], row["n"]) for row in rows} == {(kernel, "5000")}
    cache = json.loads(files["kernel-tuner"].read_text())
    assert (cache["kernel_name"], cache["problem_size"]) == ("sum_parts, sum_last", [5000])
    fastest = min(rows, key=lambda row: float(row["time_ms"] or "inf"))
    for to in ("t4", "kernel-tuner"):
        done = tune("import", files[to], "--results", tmp_path / f"r-{to}", "--json")
        assert done.status == 0, done.err
        (stored,) = Store(kernel, tmp_path / f"r-{to}").records
        assert {name: str(value) for name, value in stored.config.items()} == {n: fastest[n] for n in stored.config}
