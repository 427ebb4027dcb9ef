"""Bundles of configurations with several steps, scratch, and kinds of arguments."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from helpers import ROOT
from helpers.bundles import bundle, compiled_example, run_on_stand_in
from helpers.processes import Tune
from helpers.records import H200, record
from tuner import devices
from tuner.catalog import catalog
from tuner.devices.builds import build_cache, bundles
from tuner.errors import RequestError
from tuner.exchange.exports.request import ExportRequest
from tuner.exchange.exports.target import Problem
from tuner.exchange.formats import export
from tuner.space.argument import Argument, Arguments, Exported, Kind
from tuner.space.instance import Instance
from tuner.space.scope import Scope
from tuner.space.sources import rendering
from tuner.store.store import Store

pytestmark = pytest.mark.usefixtures("untuned")

no_driver = pytest.mark.skipif(devices.count("cuda") > 0, reason="there is a driver; -m gpu runs it")

SUM = """
    float *of_blocks = *(float **)p[0], *x = *(float **)p[1];
    if (!strcmp(name, "sum_blocks")) {
        for (unsigned block = 0; block < config->grid[0]; block++) of_blocks[block] = 0;
        for (int i = 0; i < *(int *)p[2]; i++) of_blocks[i % config->grid[0]] += x[i];
    } else {
        for (*of_blocks = 0; x < *(float **)p[1] + 528; x++) *of_blocks += *x;
    }
"""


def test_a_bundle_of_two_steps_says_what_each_takes_and_which_scratch_lies_between(tune: Tune, tmp_path: Path) -> None:
    (build,) = bundle(tune, tmp_path, "gallery/sum", "1000000", "--architecture", "sm_90a")["builds"]
    assert [cubin["file"] for cubin in build["cubins"]] == ["sm_90a.cubin"]
    assert [(s["entry"], s["arguments"], s["grid"], s["block"]) for s in build["steps"]] == [
        ("sum_blocks", ["partials", "x", "n"], [528, 1, 1], [256, 1, 1]),
        ("sum_last", ["total", "partials"], [1, 1, 1], [256, 1, 1]),
    ]
    assert build["arguments"] == [
        {"name": "total", "dtype": "float32", "shape": [1], "bytes": 4, "role": "out"},
        {"name": "x", "dtype": "float32", "shape": [1000000], "bytes": 4000000, "role": "in"},
        {
            "name": "partials", "dtype": "float32", "shape": [528], "bytes": 2112,
            "role": "scratch", "zeroed": "never",
        },
        {"name": "n", "dtype": "int32", "value": 1000000},
    ]  # fmt: skip


@pytest.mark.slow
@no_driver
def test_the_example_launches_the_steps_in_order(tune: Tune, tmp_path: Path) -> None:
    bundle(tune, tmp_path, "gallery/sum", "1000000", "--architecture", "sm_90a")
    done = run_on_stand_in(tmp_path, SUM)
    lines = done.stdout.splitlines()
    loaded = [f"load {tmp_path}/sm_90a.cubin", "get sum_blocks of sm_90a.cubin", "get sum_last of sm_90a.cubin"]
    assert lines[:3] == loaded, done.stderr
    assert lines[3:-2] == ["launch sum_blocks: 528 1 1, 256 1 1, 0", "launch sum_last: 1 1 1, 256 1 1, 0"] * 11
    assert lines[-2:] == ["sum_blocks, sum_last on a test's own, sm_90a: 1 ms per launch", "total: 1e+06 1e+06"]


FIRST = """
namespace mine { __constant__ float filter[4]; }
template <typename T> __device__ T twice(T x) { return x + x; }
template <typename T> __global__ void start(T *between, int *once, int *each, const float *x, int n) {
    if (threadIdx.x < blocks) between[threadIdx.x] = twice(x[threadIdx.x]) * mine::filter[0] + once[0] + each[0];
}
"""
SECOND = """
namespace mine { __constant__ float filter[4]; }
extern "C" __global__ void finish(float *parts, const word *between) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    parts[blockIdx.x] = between[blockIdx.x] + mine::filter[1];
}
"""
SPACE = {
    "title": "Everything at once",
    "operation": {
        "sizes": {"n": None},
        "arguments": [
            {"name": "parts", "dtype": "float32", "shape": ["blocks"], "role": "out"},
            {"name": "x", "dtype": "float32", "shape": ["n"], "role": "in"},
            {"name": "filter", "kind": "constant", "dtype": "float32", "shape": [2], "role": "in"},
            {"name": "between", "dtype": "word", "shape": ["blocks", 2], "role": "scratch"},
            {"name": "once", "dtype": "int32", "shape": ["blocks"], "role": "scratch", "zeroed": "once"},
            {"name": "each", "dtype": "int32", "shape": [3], "role": "scratch", "zeroed": "each"},
            {"name": "n", "dtype": "int32"},
        ],
        "derive": {"all": "sum(parts)"},
        "reference": {"all": "sum(x)"},
    },
    "languages": ["cuda"],
    "steps": [
        {
            "kernel": "start<word>", "source": "first.cu", "arguments": ["between", "once", "each", "x", "n"],
            "grid": ["blocks"], "block": [64], "cooperative": True, "shared_memory": 1024,
        },
        {
            "kernel": "finish", "source": "second.cu", "arguments": ["parts", "between"],
            "grid": ["blocks"], "block": [1], "cluster": [16], "programmatic": True,
        },
    ],
    "parameters": {"blocks": [16, 32], "word": ["float32", "float64"]},
    "default": {"blocks": 16, "word": "float64"},
}  # fmt: skip


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    folder = tmp_path / "kernel"
    folder.mkdir()
    (folder / "first.cu").write_text(FIRST)
    (folder / "second.cu").write_text(SECOND)
    (folder / "everything.yaml").write_text(yaml.safe_dump(SPACE, sort_keys=False))
    return folder / "everything.yaml"


def test_each_source_has_a_cubin_and_shapes_are_those_of_the_configuration(
    tune: Tune, tmp_path: Path, everything: Path
) -> None:
    made = bundle(tune, tmp_path / "b", str(everything), "50", "--architecture", "sm_90a")
    (build,) = made["builds"]
    assert [cubin["file"] for cubin in build["cubins"]] == ["sm_90a_first.cubin", "sm_90a_second.cubin"]
    assert [
        (s["file"], s["entry"], s["cluster"], s["cooperative"], s["programmatic"], s["shared_memory"])
        for s in build["steps"]
    ] == [
        ("sm_90a_first.cubin", "_Z5startIdEvPT_PiS2_PKfi", [1, 1, 1], True, False, 1024),
        ("sm_90a_second.cubin", "finish", [16, 1, 1], False, True, 0),
    ]  # fmt: skip
    seen = {a["name"]: (a["dtype"], a.get("shape"), a.get("zeroed"), a.get("symbol")) for a in build["arguments"]}
    assert seen == {
        "parts": ("float32", [16], None, None),
        "x": ("float32", [50], None, None),
        "filter": ("float32", [2], None, "_ZN4mine6filterE"),
        "between": ("float64", [16, 2], "never", None),
        "once": ("int32", [16], "once", None),
        "each": ("int32", [3], "each", None),
        "n": ("int32", None, None, None),
    }
    (read,) = bundles.read(tmp_path / "b", "everything")
    space = catalog.load(str(everything))
    target = devices.BACKENDS["cuda"].limits_of("sm_90a")
    steps = rendering.render(Instance(space, read.config, Scope({"n": 50}, {}, "cuda", target)))
    assert [cubin.source for cubin in read.binaries] == [step.source.digest for step in steps]
    (tmp_path / "b" / "sm_90a_second.cubin").unlink()
    with pytest.raises(RequestError, match=r"sm_90a_second.cubin: No such file or directory; export it again"):
        bundles.read(tmp_path / "b", "everything")


EVERYTHING = """
    if (strcmp(name, "finish")) {
        double *between = *(double **)p[0];
        int *once = *(int **)p[1], *each = *(int **)p[2];
        printf("with %d %d\\n", once[0] + once[15], each[0] + each[2]);
        for (int i = 0; i < 16; i++) between[i] = (*(float **)p[3])[49] * symbol[0] + *(int *)p[4];
        once[0] += 1;
        each[2] += 1;
    } else {
        for (int i = 0; i < 16; i++) (*(float **)p[0])[i] = (*(double **)p[1])[i] + symbol[1] + i;
    }
"""


@pytest.mark.slow
@no_driver
def test_the_example_zeroes_copies_and_launches_clusters_as_launch_json_says(
    tune: Tune, tmp_path: Path, everything: Path
) -> None:
    bundle(tune, tmp_path / "b", str(everything), "50", "--architecture", "sm_90a")
    done = run_on_stand_in(tmp_path / "b", EVERYTHING, symbol="_ZN4mine6filterE")
    lines = done.stdout.splitlines()
    assert lines[:7] == [
        "set 64 to 0",
        f"load {tmp_path}/b/sm_90a_first.cubin",
        "get _Z5startIdEvPT_PiS2_PKfi of sm_90a_first.cubin",
        "attribute 8 1024",
        f"load {tmp_path}/b/sm_90a_second.cubin",
        "get finish of sm_90a_second.cubin",
        "attribute 14 1",
    ], done.stderr
    launches = lines[7:-2]
    assert len(launches) == 11 * 6
    for number in range(11):
        assert launches[6 * number : 6 * number + 6] == [
            "set 12 to 0",
            "copy 8",
            "copy 8",
            "launch _Z5startIdEvPT_PiS2_PKfi: 16 1 1, 64 1 1, 1024, attribute 2: 1 0 0",
            f"with {number} 0",
            "launch finish: 16 1 1, 1 1 1, 0, attribute 4: 16 1 1, attribute 6: 1 0 0",
        ]
    assert lines[-1] == "parts: 52 67", "the first and the last element of what this configuration writes"


@pytest.mark.slow
@no_driver
def test_the_example_says_which_variable_no_cubin_has(tune: Tune, tmp_path: Path, everything: Path) -> None:
    bundle(tune, tmp_path / "b", str(everything), "50", "--architecture", "sm_90a")
    done = run_on_stand_in(tmp_path / "b", "", symbol="another")
    assert (done.returncode, done.stderr) == (1, "_ZN4mine6filterE: no cubin has a variable of this name\n")


@pytest.mark.slow
def test_each_architecture_has_the_shapes_of_its_own_configuration(
    tune: Tune, tmp_path: Path, everything: Path
) -> None:
    space, folder = catalog.load(str(everything)), tmp_path / "r"
    for device, architecture, blocks in (("NVIDIA B200", "sm_100a", 16), (H200, "sm_90a", 32)):
        config = {"blocks": blocks, "word": "float32"}
        known = record(device=device, kind="cuda", architecture=architecture, sizes={"n": 50}, options={})
        Store(space.name, folder).add(replace(known, config=config, signature=rendering.signature(space)))
    asked = [str(everything), "50", "--results", str(folder), "--architecture", "sm_100a,sm_90a"]
    made = bundle(tune, tmp_path / "b", *asked)
    assert [(b["architecture"], b["arguments"][0]["shape"]) for b in made["builds"]] == [
        ("sm_100a", [16]),
        ("sm_90a", [32]),
    ]
    compiled_example(tmp_path / "b")


TENSOR_MAP = """
    const unsigned char *target = p[0], *from = p[1];
    float *y, *x;
    memcpy(&y, target, sizeof y);
    memcpy(&x, from, sizeof x);
    y[0] = 3 * x[0];
    y[512 * 1024 - 1] = 4 * x[512 * 1024 - 1];
"""


@pytest.mark.slow
@no_driver
def test_the_example_encodes_tensor_maps_over_its_arrays(tune: Tune, tmp_path: Path) -> None:
    (build,) = bundle(tune, tmp_path, "gallery/tma_copy", "512x1024", "--architecture", "sm_90a")["builds"]
    assert next(a for a in build["arguments"] if a["name"] == "map_y") == {
        "name": "map_y", "kind": "tensor_map", "of": "y", "box": [32, 64], "swizzle": 0, "interleave": 0,
        "promotion": 128, "fill": "zeros", "encoded": 128,
    }  # fmt: skip
    assert build["steps"][0]["arguments"] == ["map_y", "map_x", "h"]
    done = run_on_stand_in(tmp_path, TENSOR_MAP)
    lines = done.stdout.splitlines()
    # float32, no interleave, no swizzle, 128 bytes for L2, zeros; extent, stride, box and step of each axis
    assert lines[:2] == ["map 7 0 0 2 0, 1024 0 64 1, 512 4096 32 1"] * 2, done.stderr
    assert (lines[2:5].count("attribute 8 8320"), lines[-1]) == (1, "y: 3 4")


@pytest.mark.slow
@no_driver
def test_the_example_makes_textures_of_its_arrays(tune: Tune, tmp_path: Path) -> None:
    (build,) = bundle(tune, tmp_path, "gallery/texture", "64x32", "--architecture", "sm_90a")["builds"]
    image = next(a for a in build["arguments"] if a["name"] == "image")
    assert (image["kind"], image["shape"], image["filter"], image["encoded"]) == ("texture", [1080, 1920], "point", 8)
    done = run_on_stand_in(tmp_path, "(*(float **)p[0])[0] = (*(float **)p[1])[1080 * 1920 - 1] + 1;")
    # pitched; float32 of one channel; width, height, pitch; clamped, point filter, no flags
    assert done.stdout.splitlines()[0] == "texture 3 32 1, 1920 1080 7680, 1 0 0", done.stderr
    assert done.stdout.splitlines()[-1] == "out: 2 0"


class Second(Kind):
    """A pointer to the second element."""

    name = "second"
    languages = ("cuda",)

    def export(self, argument: Argument, arguments: Arguments) -> Exported:
        encode = "*(unsigned long long *)value = address + sizeof(float);\nreturn driver == NULL;\n"
        return Exported(of=argument.name, nbytes=8, encode=encode)


class Secret(Kind):
    """What only a device of ours can pass."""

    name = "secret"
    languages = ("cuda",)


def of_kind(kind: Kind) -> ExportRequest:
    """The bundle of a sum, whose x is of another kind."""
    problem = Problem.parse(catalog.load("gallery/sum"), "1000", {})
    op = problem.space.operation
    arguments = tuple(replace(a, kind=kind) if a.name == "x" else a for a in op.arguments)
    space = replace(problem.space, operation=replace(op, arguments=arguments))
    return ExportRequest(replace(problem, space=space), architectures="sm_90a")


@pytest.mark.slow
@no_driver
def test_another_kind_writes_its_own_c_and_nothing_else_knows_it(tmp_path: Path) -> None:
    export("cubin", replace(of_kind(Second()), output=tmp_path))
    code = 'static int rest; if (strcmp(name, "sum_last")) rest = *(size_t *)p[1] % 16; else **(float **)p[0] = rest;'
    done = run_on_stand_in(tmp_path, code)
    assert done.stdout.splitlines()[-1] == "total: 4 4", done.stderr
    assert json.loads((tmp_path / "launch.json").read_text())["builds"][0]["arguments"][1]["kind"] == "second"


def test_a_kind_that_no_program_in_c_can_pass_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="gallery/sum: x: a bundle cannot hold an argument of kind secret"):
        export("cubin", replace(of_kind(Secret()), output=tmp_path))
    assert not list(tmp_path.iterdir())


# Patterns of the last line: all inputs are ones, and so every element of both clouds lies in one place.
RIGHT = {
    "gallery/histogram_parts": ("1000000", "counts: 0 0"),
    "gallery/expdist": ("2048x1024", r"partials: [1-9]\S* [1-9]\S*"),
    "gallery/sum": ("1000000", r"total: 1e\+06 1e\+06"),
    "gallery/scan": ("100000", "y: 1 100000"),
    "gallery/scan_lookback": ("100000", "y: 1 100000"),
    "gallery/convolution_constant": ("512x384", "out: 225 225"),
    "gallery/separable_convolution": ("512x384", "out: 289 289"),
    "gallery/split_k": ("64x64x4096", "C: 4096 4096"),
    "gallery/texture": ("300x500", "out: 1 1"),
    "gallery/tma_copy": ("300x500", "y: 1 1"),
    "gallery/tma_wgmma": ("256x128x512", "C: 512 512"),
}


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", RIGHT)
def test_the_example_runs_steps_and_kinds_on_a_gpu(kernel: str, tune: Tune, tmp_path: Path) -> None:
    size, right = RIGHT[kernel]
    bundle(tune, tmp_path, kernel, size, "--device", "cuda")
    done = subprocess.run([compiled_example(tmp_path), tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(right, done.stdout.splitlines()[-1]), done.stdout


@pytest.mark.gpu
def test_the_example_runs_clusters_cooperative_launches_and_two_sources_on_a_gpu(
    tune: Tune, tmp_path: Path, everything: Path
) -> None:
    """All inputs are ones: a part is 2 * filter[0] + filter[1], and what is zeroed is no more than that."""
    bundle(tune, tmp_path / "b", str(everything), "50", "--device", "cuda")
    example = compiled_example(tmp_path / "b")
    done = subprocess.run([example, tmp_path / "b"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "parts: 3 3"


WITHOUT_A_COMPILER = """
import sys
sys.path.append(sys.argv[3])
sys.modules |= {"cuda.bindings.nvrtc": None, "nvidia": None}
import numpy as np, tuner
from helpers.gpu_arrays import Own
kernel = tuner.load(sys.argv[1], sys.argv[4], device="cuda", binaries=sys.argv[2])
arrays = [Own(kernel.device, np.full(s, i > 0, np.float32)) for i, s in enumerate(kernel.shapes.values())]
for _ in range(3):
    kernel(*arrays)
result = arrays[0].get().ravel()
print(f"{result[0]:g} {result[-1]:g}")
"""


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", sorted(RIGHT.keys() - {"gallery/tma_wgmma", "gallery/histogram_parts"}))
def test_a_bundle_of_steps_is_launched_where_there_is_no_compiler(
    kernel: str, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of kernels on float32 alone."""
    size, right = RIGHT[kernel]
    bundle(tune, tmp_path / "b", kernel, size, "--device", "cuda")
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "empty"))
    command = [sys.executable, "-c", WITHOUT_A_COMPILER, kernel, tmp_path / "b", ROOT / "tests", size]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(right.split(": ")[1], done.stdout.strip()), done.stdout
    assert not list(build_cache.folder().iterdir())
