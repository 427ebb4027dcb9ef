"""Files of a space that are saved while a run lasts: the run goes on with what it read at its start, says so, and the
next run uses the new ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from helpers.experiments import EXPERIMENT
from helpers.processes import Done, Tune
from tuner import paths
from tuner.catalog import catalog
from tuner.space.sources import rendering
from tuner.store.record_file import read

SIZES = (1000, 2000)
SAVED = "changed on disk during this run: "
CODE = """\
#include <stdlib.h>
#include "factor.h"
void affine(float *y, const float *x, const float *w, int n) {
    if (crash) abort();
    for (int i = 0; i < n; i += unroll)
        for (int j = i; j < i + unroll && j < n; j++) y[j] = factor() * x[j] + w[j] + OFFSET;
}
"""
SPACE = """\
title: An affine map
operation:
  sizes: {{n: 1000}}
  extent: [n]
  arguments:
    - {{name: y, dtype: float32, shape: [n], role: out}}
    - {{name: x, dtype: float32, shape: [n], role: in, fill: {{python: "check.py:make"}}}}
    - {{name: w, dtype: float32, shape: [n], role: in, fill: {{file: w.npy, fit: tile}}}}
    - {{name: n, dtype: int32}}
  reference: {reference}
kernel: affine
source: affine.c
include: [headers]
parameters: {{crash: [0, 1], unroll: [1, 2]}}
default: {{crash: 0, unroll: 1}}
"""
SAVING = """\
        (HERE / "armed").unlink()
        for file in (HERE / "new").rglob("*.*"):
            (HERE / file.relative_to(HERE / "new")).write_bytes(file.read_bytes())
"""
CHECK = f"""\
import importlib
from pathlib import Path
import numpy as np
from parts import numbers

HERE = Path(__file__).parent

def make(n, rng):
    if (HERE / "armed").exists():
{SAVING}    return rng.random(n, dtype=np.float32)

def expected(x, w):
    import late
    called = importlib.import_module("called")
    return (numbers.FACTOR + called.FACTOR) / 2 * x + w + late.OFFSET
"""
REFERENCE_KERNEL = """\
#include "factor.h"
void plainly(float *y, const float *x, const float *w, int n) {
    for (int i = 0; i < n; i++) y[i] = factor() * x[i] + w[i] + OFFSET;
}
"""
GRIDS = {
    "opencl": (
        "affine.cl",
        "__kernel void affine(__global float *y, __global const float *x, __global const float *w, int n)",
        "get_global_id(0)",
    ),
    "cuda": (
        "affine.cu",
        'extern "C" __global__ void affine(float *y, const float *x, const float *w, int n)',
        "blockIdx.x * blockDim.x + threadIdx.x",
    ),
}
PYTHON = '{python: "check.py:expected"}'
KERNEL = "{kernel: plainly, source: plainly.c, arguments: [y, x, w, n], grid: [1], block: [1]}"


def affine(folder: Path, reference: str = PYTHON, factor: int = 2) -> Path:
    """A kernel with a header beside it, one in another folder, inputs from a file and from a function, and a reference
    by a function that imports a package at once and modules when it is called. Gives its space file."""
    (folder / "headers").mkdir(parents=True)
    (folder / "parts").mkdir()
    files = {
        "affine.c": CODE,
        "factor.h": f"#include <offset.h>\n#define factor() {factor}.0f\n",
        "headers/offset.h": f"#define OFFSET {factor}.5f\n",
        "affine.yaml": SPACE.format(reference=reference),
        "check.py": CHECK,
        "parts/__init__.py": "",
        "parts/numbers.py": f"FACTOR = {factor}\n",
        "late.py": f"OFFSET = {factor}.5\n",
        "called.py": f"FACTOR = {factor}\n",
        "plainly.c": REFERENCE_KERNEL,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    np.save(folder / "w.npy", np.arange(7, dtype=np.float32) + factor)
    return folder / "affine.yaml"


def armed(folder: Path, reference: str = PYTHON) -> tuple[Path, str]:
    """The kernel, of which every file is saved again, with other numbers, as soon as a run computes its inputs; and the
    hash of its code before."""
    space = affine(folder, reference)
    code = rendering.code(catalog.load(str(space)))
    affine(folder / "new", reference, 3)
    (folder / "armed").touch()
    return space, code


def codes(name: str = "mine/affine") -> dict[int, str]:
    """The hash of the code that each record of a kernel was measured with, by size."""
    return {record.sizes["n"]: record.code for record in read(paths.user_results() / f"{name}.jsonl")[0]}


def is_said_once(done: Done) -> bool:
    return done.err.count(SAVED) == 1 and "uses what it read at its start" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("reference", [PYTHON, KERNEL])
def test_a_run_uses_what_it_read_at_its_start_and_the_next_what_was_saved(
    tune: Tune, tmp_path: Path, reference: str
) -> None:
    space, before = armed(tmp_path / "mine", reference)
    done = tune(space, "--device", "host", "--json")
    assert done.status == 0, done.err
    assert is_said_once(done)
    assert "factor.h" in done.err
    assert set(done.json["failed"]) == {"crash"}
    assert codes() == {1000: before}
    after = rendering.code(catalog.load(str(space)))
    assert after != before
    again = tune(space, "--device", "host", "--json")
    assert again.status == 0, again.err
    assert SAVED not in again.err
    assert "measured before" not in again.err
    assert codes() == {1000: after}


@pytest.mark.slow
def test_the_record_of_a_run_belongs_to_the_source_that_it_measured(tune: Tune, tmp_path: Path) -> None:
    space, _ = armed(tmp_path / "mine")
    shutil.copytree(tmp_path / "mine", tmp_path / "kept", ignore=shutil.ignore_patterns("new"))
    assert tune(space, "--device", "host").status == 0
    assert tune("best", space, "--device", "host", "--json").json["stale"]
    for file in (tmp_path / "kept").rglob("*.*"):
        shutil.copy(file, tmp_path / "mine" / file.relative_to(tmp_path / "kept"))
    best = tune("best", space, "--device", "host", "--json")
    assert (best.json["match"], best.json["stale"]) == ("exact", False), best.out
    again = tune(space, "--device", "host")
    assert "4 measured before" in again.err, again.err


@pytest.mark.slow
def test_all_sizes_of_a_run_use_what_it_read_at_its_start(tune: Tune, tmp_path: Path) -> None:
    space, before = armed(tmp_path / "mine")
    done = tune(space, *map(str, SIZES), "--device", "host", "--json")
    assert done.status == 0, done.err
    assert is_said_once(done)
    assert codes() == dict.fromkeys(SIZES, before)


@pytest.mark.slow
def test_what_is_deleted_while_a_run_lasts_is_still_used(tune: Tune, tmp_path: Path) -> None:
    space, before = armed(tmp_path / "mine")
    check = space.with_name("check.py")
    check.write_text(check.read_text().replace(SAVING, "        import shutil\n        shutil.rmtree(HERE)\n"))
    done = tune(space, *map(str, SIZES), "--device", "host", "--json")
    assert done.status == 0, done.err
    assert is_said_once(done)
    assert codes() == dict.fromkeys(SIZES, before)


@pytest.mark.slow
def test_run_verifies_what_it_read_at_its_start(tune: Tune, tmp_path: Path) -> None:
    space, _ = armed(tmp_path / "mine")
    (tmp_path / "mine" / "armed").unlink()
    assert tune(space, "--device", "host").status == 0
    (tmp_path / "mine" / "armed").touch()
    done = tune("run", space, "--device", "host", "--json")
    assert done.status == 0, done.err
    assert done.json["verified"]
    assert is_said_once(done)


@pytest.mark.slow
def test_record_and_explain_measure_what_they_read_at_their_start(tune: Tune, tmp_path: Path) -> None:
    space, _ = armed(tmp_path / "mine")
    recorded = tune("record", space, "--device", "host", "--output", tmp_path / "r.json", "--json")
    assert recorded.status == 0, recorded.err
    assert is_said_once(recorded)
    other, _ = armed(tmp_path / "other")
    (tmp_path / "other" / "armed").unlink()
    assert tune(other, "--device", "host", "--budget", "2").status == 0
    (tmp_path / "other" / "armed").touch()
    explained = tune("explain", other, "--device", "host", "--json")
    assert explained.status == 0, explained.err


@pytest.mark.slow
def test_who_joins_with_other_files_joins_another_study(tune: Tune, tmp_path: Path) -> None:
    space, _ = armed(tmp_path / "mine")
    storage = f"sqlite:///{tmp_path}/shared.db"
    assert tune(space, "--device", "host", "--storage", storage).status == 0
    other = affine(tmp_path / "elsewhere" / "mine", factor=3)
    joined = tune(other, "--device", "host", "--storage", storage)
    assert joined.status == 0, joined.err
    assert "measured before" not in joined.err


@pytest.mark.slow
def test_reproduce_measures_what_it_read_at_its_start(tune: Tune, tmp_path: Path) -> None:
    armed(tmp_path / "mine")
    rows = [
        f"      - {{name: by {unroll}, stage: ./affine.yaml, config: {{crash: 0, unroll: {unroll}}}}}\n"
        for unroll in (1, 2)
    ]
    file = tmp_path / "mine" / "own.yaml"
    file.write_text(EXPERIMENT + "".join(rows))
    done = tune("reproduce", file, "--no-tune", "--output", tmp_path / "out", "--json")
    assert done.status == 0, done.err
    assert is_said_once(done)
    assert all(row["constants"]["time_ms"] for row in done.json["tables"][0]["rows"])


@pytest.mark.slow
@pytest.mark.parametrize("device", ["opencl", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_on_other_devices_a_run_uses_what_it_read_at_its_start(tune: Tune, tmp_path: Path, device: str) -> None:
    folder = tmp_path / "mine"
    affine(folder)
    affine(folder / "new", factor=3)
    name, head, index = GRIDS[device]
    for each in (folder, folder / "new"):
        code = (
            f'#include "factor.h"\n{head} {{ int i = {index}; if (i < n) y[i] = factor() * x[i] + w[i] + OFFSET; }}\n'
        )
        (each / name).write_text(code)
        text, _, _ = (each / "affine.yaml").read_text().replace("affine.c\n", f"{name}\n").partition("parameters:")
        (each / "affine.yaml").write_text(f"{text}parameters: {{size: [64, 128]}}\nblock: [size]\n")
    before = rendering.code(catalog.load(str(folder / "affine.yaml")))
    (folder / "armed").touch()
    done = tune(folder / "affine.yaml", *map(str, SIZES), "--device", device)
    assert done.status == 0, done.err
    assert is_said_once(done)
    assert codes() == dict.fromkeys(SIZES, before)
