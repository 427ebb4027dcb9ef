"""Space files of several steps, scratch and kinds of arguments: each fault is one message, and what is valid is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.processes import Tune
from helpers.steps import LAST, PARTS, SUM, written
from tuner.catalog import catalog
from tuner.space import kinds, launch_form
from tuner.space.answers.reference import as_space
from tuner.space.sources.rendering import Version
from tuner.space.values.forms import KernelReference

GPU = SUM.replace("[cuda, opencl, c]", "[cuda, opencl]")
CUDA, OPENCL = GPU.replace("[cuda, opencl]", "[cuda]"), GPU.replace("[cuda, opencl]", "[opencl]")
STEPS = SUM[SUM.index("steps:") : SUM.index("parameters:")]
FIRST, SECOND = STEPS.splitlines(keepends=True)[1:]
X, N = "{name: x, dtype: float32, shape: [n], role: in}", "{name: n, dtype: int32}"
SCRATCH = "{name: partials, dtype: float32, shape: [blocks], role: scratch}"


def having(text: str, becomes: str, file: str = GPU) -> str:
    """The file with one place changed."""
    assert file.count(text) == 1
    return file.replace(text, becomes)


def local(more: str = "shape: [32]", file: str = OPENCL) -> str:
    """A file with local memory in its first step."""
    argument = f"{N}\n    - {{name: tile, kind: local, dtype: float32, {more}}}"
    return having("[partials, x, n]", "[partials, x, n, tile]", having(N, argument, file))


def mapped(more: str, file: str = CUDA) -> str:
    """A file with a tensor map of x in its first step."""
    argument = f"{N}\n    - {{name: map, kind: tensor_map, of: x, {more}}}"
    return having("[partials, x, n]", "[partials, x, n, map]", having(N, argument, file))


def of_type(real: str, argument: str = SCRATCH) -> str:
    """A file in which the type of an argument is the parameter `real`."""
    typed = having(argument, argument.replace("float32", "real"))
    return having("parameters: {", f"parameters: {{real: [{real}], ", typed)


CONSTANT = having("[partials, x, n]", "[partials, n]", having(X, X[:-1] + ", kind: constant}", CUDA))


def second(text: str, file: str = GPU) -> str:
    """A file whose second step has this in place of its grid."""
    return having("grid: [1], block: [32]", text, file)


# name of the fault: (file, what the message says after the file's name and `:`)
FAULTS = {
    "a kernel and steps": (GPU + "kernel: sum_parts\n", "19: kernel: not allowed beside `steps:`; write it in each"),
    "a grid and steps": (GPU + "grid: [1]\n", "19: grid: not allowed beside `steps:`; write it in each step"),
    "a block and steps": (GPU + "block: [1]\n", "19: block: not allowed beside `steps:`"),
    "shared memory and steps": (GPU + "shared_memory: 4\n", "19: shared_memory: not allowed beside `steps:`"),
    "a cluster and steps": (CUDA + "cluster: [2]\n", "19: cluster: not allowed beside `steps:`"),
    "cooperative and steps": (CUDA + "cooperative: true\n", "19: cooperative: not allowed beside `steps:`"),
    "neither": (having(STEPS, ""), "1: kernel: this key is missing; add it, or `steps:` of several kernels"),
    "no steps": (having(STEPS, "steps: []\n"), "15: steps: 0 steps; at least 1 is needed"),
    "33 steps": (having(SECOND, SECOND * 32), "15: steps: 33 steps; at most 32 are allowed"),
    "a step that is a word": (having(STEPS, "steps: [sum]\n"), "15: steps.0: 'sum': a mapping is needed, as in"),
    "a step without kernel": (having("kernel: sum_last, ", ""), "17: steps.1.kernel: this key is missing; add it"),
    "a misspelt key": (second("blok: [1]"), "17: steps.1.blok: unknown key; did you mean `block`?"),
    "an unknown argument": (
        having("[partials, total,", "[parts, total,"), "17: steps.1.arguments.0: unknown name 'parts'; did you mean"
    ),
    "an argument twice": (
        having("total, scale]", "total, total]"), "17: steps.1.arguments.2: total appears twice; keep one"
    ),
    "an argument that no step takes": (
        having(N, f"{N}\n    - {{name: m, dtype: int32, value: n}}"),
        "16: steps: no step takes the argument m; name it in one, or remove it",
    ),
    "too few arguments": (
        having("[partials, x, n]", "[partials, n]", having("[partials, total, scale]", "[partials, total, scale, x]")),
        "16: steps.0.arguments: 2 arguments (partials, n); sum_parts in sum.cu takes 3",
    ),
    "arguments in another order than the kernel's": (
        having("[partials, total, scale]", "[partials, scale, total]"),
        "17: steps.1.arguments.1: scale: sum_last in sum.cu takes `float *total` here, an array; list the arguments "
        "in the kernel's order",
    ),
    "a kernel that is not there": (
        having("kernel: sum_last", "kernel: sum_all"), "has no entry point 'sum_all'; it defines sum_last, sum_parts"
    ),
    "a source that is not there": (
        having("kernel: sum_last,", "kernel: sum_last, source: last.cu,"), "17: steps.1.source: the kernel file is miss"
    ),
    "a source of another language": (
        having("kernel: sum_last,", "kernel: sum_last, source: last.c,", having("languages: [cuda, opencl]\n", "")),
        "16: steps.1.source: last.c is c, and the first step cuda and opencl; write `languages:`",
    ),
    "a template in OpenCL": (
        having("kernel: sum_last,", "kernel: 'sum_last<3>',"), "17: steps.1.kernel: 'sum_last<3>': templates and name"
    ),
    "braces of nothing": (
        having("kernel: sum_last,", "kernel: 'sum_{last}',"), "17: steps.1.kernel: 'sum_{last}': {last} names no param"
    ),
    "one kernel without a grid": (
        having(STEPS, "kernel: sum_parts\nblock: [32]\n"), "1: grid: the number of blocks is missing; write `grid:`, or"
    ),
    "one kernel with a cluster in OpenCL": (
        having(STEPS, "kernel: sum_parts\ngrid: [2]\ncluster: [2]\n"), "17: cluster: clusters are for cuda only; write"
    ),
    "no grid": (second("block: [1]"), "17: steps.1.grid: the number of blocks is missing; write `grid:`, or"),
    "two grids": (second("grid: [1], grid_divisors: {x: [1]}"), "17: steps.1.grid: both `grid` and `grid_divisors`"),
    "divisors of no extent": (second("grid_divisors: {x: [1]}"), "17: steps.1.grid_divisors.x: the result has no ext"),
    "a grid of 0": (second("grid: [blocks - 8]"), "17: steps.1.grid.0: `blocks - 8` is 0; at least 1 is needed"),
    "a grid of an unknown name": (second("grid: [block]"), "17: steps.1.grid.0: `block`: unknown name 'block'"),
    "a cluster in OpenCL": (second("grid: [2], cluster: [2]"), "17: steps.1.cluster: clusters are for cuda only"),
    "a cluster of four axes": (second("grid: [1], cluster: [1, 1, 1, 1]", CUDA), "17: steps.1.cluster: 4 entries; at"),
    "a cluster of 0": (second("grid: [2], cluster: [0]", CUDA), "17: steps.1.cluster.0: `0` is 0; at least 1 is need"),
    "a cooperative launch in OpenCL": (
        second("grid: [1], cooperative: true"), "17: steps.1.cooperative: cooperative launches are for cuda only"
    ),
    "a programmatic launch in OpenCL": (
        second("grid: [1], programmatic: true"), "17: steps.1.programmatic: programmatic launches are for cuda only"
    ),
    "a programmatic launch that is cooperative": (
        second("grid: [1], cooperative: true, programmatic: true", CUDA),
        "17: steps.1.programmatic: not allowed beside `cooperative`",
    ),
    "a first step that is programmatic": (
        having("block: [threads]}", "block: [threads], programmatic: true}", CUDA),
        "16: steps.0.programmatic: the first step has none before it; remove this key",
    ),
    "one kernel that is programmatic": (CUDA + "programmatic: true\n", "19: programmatic: unknown key"),
    "scratch with a fill": (
        having(SCRATCH, SCRATCH[:-1] + ", fill: zeros}"), "8: operation.arguments.2.fill: partials: only an array of ro"
    ),
    "scratch with a value": (
        having(SCRATCH, SCRATCH[:-1] + ", value: [1]}"), "8: operation.arguments.2.role: 'scratch': partials has a `val"
    ),
    "scratch of a kind": (
        having(SCRATCH, SCRATCH[:-1] + ", kind: constant}"),
        "8: operation.arguments.2.role: partials: `kind: constant` allows `role: in`; write that",
    ),
    "scratch in the reference": (
        having("scale * sum(x)", "sum(partials)"),
        "11: operation.reference: `sum(partials)`: partials is scratch, whose contents are unknown; use arrays",
    ),
    "scratch in a derived value": (
        having("reference: scale * sum(x)", "derive: {t: sum(partials)}\n  reference: {t: sum(x)}"),
        "11: operation.derive.t: `sum(partials)`: partials is scratch, whose contents are unknown; use arrays",
    ),
    "scratch of a configuration in a reference kernel": (
        having("scale * sum(x)", "{kernel: sum_last, grid: [1], block: [1]}"),
        "reference.arguments: partials depends on blocks, but a reference kernel has no configuration; write",
    ),
    "scratch without a shape": (
        having("shape: [blocks], role: scratch", "role: scratch"), "8: operation.arguments.2: partials: an array has bo"
    ),
    "scratch of no elements": (
        having("[blocks], role", "[blocks - 8], role"), "8: operation.arguments.2.shape: `blocks - 8` is 0; at least 1"
    ),
    "scratch of a fraction": (
        having("[blocks], role", "[blocks / 3], role"), "8: operation.arguments.2.shape: `blocks / 3` is 2.6666"
    ),
    "scratch of an unknown name": (
        having("[blocks], role", "[blks], role"), "8: operation.arguments.2.shape: `blks`: unknown name 'blks'; did you"
    ),
    "an array that is zeroed": (
        having(X, X[:-1] + ", zeroed: once}"), "7: operation.arguments.1.zeroed: x: only an array of role scratch is ze"
    ),
    "zeroed always": (
        having(SCRATCH, SCRATCH[:-1] + ", zeroed: always}"), "8: operation.arguments.2.zeroed: 'always': input should b"
    ),
    "an input whose shape a parameter decides": (
        having(X, X.replace("[n]", "[blocks]")),
        "7: operation.arguments.1.shape: `blocks` depends on blocks, which may differ by configuration; only "
        "scratch, and outputs that `derive:` reads, may",
    ),
    "an output whose shape a parameter decides": (
        having("[1], role: out", "[blocks], role: out"),
        "6: operation.arguments.0.shape: `blocks` depends on blocks, which may differ by configuration; read the "
        "output in `derive:`",
    ),
    "a parameter with a value that is no type": (
        of_type("float32, wide"), "8: operation.arguments.2.dtype: the parameter real has the value 'wide', which is"
    ),
    "a parameter of numbers as a type": (
        of_type("1, 2"), "8: operation.arguments.2.dtype: the parameter real has the value 1, which is not a dtype"
    ),
    "an input whose type is a parameter": (
        of_type("float32, float64", X), "real is a parameter; only scratch may take its dtype from one"
    ),
    "a parameter named as an argument": (
        SUM.replace("blocks", "total"), "parameters.total: sum_last in sum.cu takes an argument of this name, which the"
    ),
    "an unknown kind": (
        having(X, X[:-1] + ", kind: surface}"), "7: operation.arguments.1.kind: 'surface': input should be 'array', 'co"
    ),
    "a constant that is written": (
        having("role: out}", "role: out, kind: constant}"), "6: operation.arguments.0.role: total: `kind: constant` all"
    ),
    "a constant with a value": (
        having(X, "{name: x, kind: constant, dtype: float32, shape: [1], role: in, value: [1]}"),
        "7: operation.arguments.1.value: x: `kind: constant` allows no `value`; let the caller pass it",
    ),
    "a constant without a type": (
        having(X, "{name: x, kind: constant, shape: [n], role: in}"), "7: operation.arguments.1.dtype: this key is miss"
    ),
    "a constant that a CUDA kernel takes": (
        having(X, X[:-1] + ", kind: constant}", CUDA),
        "16: steps.0.arguments.1: x is constant, which is not a kernel parameter in cuda; remove it",
    ),
    "a constant that the source does not declare": (
        CONSTANT.replace("name: x,", "name: weights,").replace("sum(x)", "sum(weights)"),
        "7: operation.arguments.1.name: sum.cu has no variable weights, which `kind: constant` needs in cuda; declare",
    ),
    "a parameter named as a constant": (
        CONSTANT.replace("threads", "x"), "18: parameters.x: the variable of this name in sum.cu is an argument, which"
    ),
    "a derived value named as scratch": (
        having("reference: scale * sum(x)", "derive: {partials: sum(total)}\n  reference: {partials: sum(x)}"),
        "11: operation.derive.partials: this name is taken; choose another",
    ),
    "local memory in CUDA": (local(file=GPU), "kind: local is for opencl only, and the languages are cuda, opencl"),
    "local memory with a role": (
        local("shape: [32], role: in"), "operation.arguments.4.role: tile: `kind: local` allows no `role`; remove it"
    ),
    "local memory without a shape": (
        local("value: 3"), "operation.arguments.4.shape: tile: `kind: local` needs a `shape`; add it"
    ),
    "local memory in the reference": (
        having("scale * sum(x)", "sum(tile)", local()), "12: operation.reference: `sum(tile)`: tile is local, whose c"
    ),
    "a key of another kind": (
        having(X, X[:-1] + ", box: [3]}"), "7: operation.arguments.1.box: only `kind: tensor_map` has this key"
    ),
    "a texture without an axis": (
        having(X, X.replace("[n]", "[]").replace("}", ", kind: texture}"), CUDA),
        "7: operation.arguments.1.shape: a texture has one axis, rows and columns, or these and",
    ),
    "a tensor map of one element": (
        mapped("box: []", having(X, X.replace("[n]", "[]"), CUDA)), "of: x has 0 axes; the TMA takes 1 to 5"
    ),
    "a tensor map with a type": (
        mapped("box: [4], dtype: float32"), "dtype: map: `kind: tensor_map` has no `dtype`; remove this key"
    ),
}  # fmt: skip
# What no configuration satisfies: (file, the reason)
EXCLUDED = {
    "a cluster of 32": (second("grid: [32], cluster: [32]", CUDA), "(a cluster has at most 16 blocks)"),
    "a cluster that parts": (second("grid: [3], cluster: [2]", CUDA), "(the grid is whole clusters in x)"),
    "a block too large": (second("grid: [1], block: [2048]"), "(the device's threads per block)"),
    "shared memory too large": (second("grid: [1], shared_memory: 2**20"), "(the device's shared memory per block)"),
    "shared memory in OpenCL": (second("grid: [1], shared_memory: 4", OPENCL), "(no dynamic shared memory in opencl"),
    "constants too large": (
        CONSTANT.replace("shape: [n], role: in", "shape: [17 * n], role: in"),
        "(constant memory has 64 KiB)",
    ),
    "a box of no element": (mapped("box: [0]"), "(the TMA copies 1 to 256 elements along an axis)"),
    "local memory too large": (local("shape: [blocks * 2**20]"), "(the device's local memory per work-group)"),
}  # fmt: skip


def code(text: str) -> str:
    """The kernels that a file is for."""
    if "kind: local" in text:
        return PARTS.replace("int n)", "int n, __local float *tile)") + LAST
    if "kind: tensor_map" in text:
        return PARTS.replace("int n)", "int n, const __grid_constant__ CUtensorMap map)") + LAST
    if "kind: constant" in text:
        return "__constant__ float x[1];\n" + PARTS.replace("GLOBAL const float *x, ", "") + LAST
    return PARTS + LAST


def answered(tune: Tune, *arguments: str | Path) -> str:
    """The one line of a command that fails."""
    done = tune(*arguments)
    assert (done.status, done.out) == (2, ""), done.err
    assert len(done.err.splitlines()) == 1
    return done.err


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_message_with_file_line_key_and_what_is_allowed(fault: str, tmp_path: Path, tune: Tune) -> None:
    text, expected = FAULTS[fault]
    (tmp_path / "last.c").write_text("void sum_last() {}\n")
    file = written(tmp_path, "sum", code(text), text)
    message = answered(tune, "validate", file)
    assert expected in message
    assert message.startswith(f"error: {file}:")


@pytest.mark.parametrize("fault", EXCLUDED)
def test_what_no_device_can_launch_is_a_restriction_with_its_reason(fault: str, tmp_path: Path, tune: Tune) -> None:
    text, reason = EXCLUDED[fault]
    message = answered(tune, "validate", written(tmp_path, "sum", code(text), text))
    assert "no configuration is valid at n=1024: " in message
    assert reason in message


@pytest.mark.parametrize("fault", ["scratch of a kind", "no grid", "an argument that no step takes"])
def test_every_verb_gives_the_same_message(fault: str, tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path, "sum", PARTS + LAST, FAULTS[fault][0])
    exports = [["export", file, "1000", "--to", to, "--output", tmp_path / "out"] for to in ("header", "cu", "cubin")]
    messages = {answered(tune, *words) for words in (["validate", file], ["show", file], [file, "1000"], *exports)}
    assert len(messages) == 1


@pytest.mark.slow
def test_scratch_that_some_configurations_cannot_have_fails_these_alone(tmp_path: Path, tune: Tune) -> None:
    text = having("shape: [blocks]", "shape: [blocks if blocks == 8 else 2**60 if threads == 32 else 0]", SUM)
    done = tune(written(tmp_path, "sum", PARTS + LAST, text), 1000, "--device", "host", "--repeats", "3", "--json")
    assert (done.status, done.json["failed"]) == (0, {"geometry": 1, "out of memory": 1}), done.err
    assert done.json["best"]["config"]["blocks"] == 8


COPY = """\
title: A copy
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - MORE
    - {name: n, dtype: int32}
  reference: x
kernel: copy
source: copy.cl
languages: [opencl]
grid: [4]
block: [32]
parameters: {p: [1, 2]}
"""
DECIDED = {
    "a scalar too large": ("{name: last, dtype: int16, value: 20000 * p}", "short last"),
    "local memory of no element": ("{name: last, kind: local, dtype: float32, shape: [2 - p]}", "__local float *last"),
}


@pytest.mark.slow
@pytest.mark.parametrize("argument", DECIDED)
def test_what_a_configuration_makes_of_an_argument_fails_it_alone(argument: str, tmp_path: Path, tune: Tune) -> None:
    text, parameter = DECIDED[argument]
    (tmp_path / "copy.cl").write_text(
        f"__kernel void copy(__global float *y, __global const float *x, {parameter}, int n) {{\n"
        "    for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = x[i];\n}\n"
    )
    (tmp_path / "copy.yaml").write_text(COPY.replace("MORE", text))
    done = tune(tmp_path / "copy.yaml", 1000, "--device", "opencl", "--repeats", "3", "--json")
    assert (done.status, done.json["failed"]) == (0, {"geometry": 1}), done.err


@pytest.mark.slow
def test_a_step_that_needs_more_than_the_device_has_is_named(tmp_path: Path, tune: Tune) -> None:
    much = "__shared__ float much[1 << 22]; much[THREAD] = scale; __syncthreads(); scale = much[THREAD ^ 1];"
    code = (PARTS + LAST).replace("if (THREAD == 0) {", f"{much} if (THREAD == 0) {{")
    done = tune(written(tmp_path, "sum", code, OPENCL), 1000, "--repeats", "3")
    assert (done.status, "Traceback" in done.err) == (1, False)
    assert "4 failed: shared memory, " in done.err
    assert ": sum_last: 16777216 bytes of shared memory per block; the device has at most " in done.err


@pytest.mark.parametrize(
    "text",
    [
        SUM,
        GPU,
        local(),
        local("shape: []"),
        second("grid: [2], cluster: [2], cooperative: true", CUDA),
        second("grid: [2], programmatic: true", CUDA),
    ],
)
def test_what_is_valid_survives_its_launch_form(text: str, tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path, "sum", code(text), text)
    assert tune("validate", file).status == 0
    space = catalog.load(str(file))
    assert launch_form.from_json(json.loads(json.dumps(launch_form.to_json(space)))) == space


def test_show_lists_steps_and_scratch(tmp_path: Path, tune: Tune) -> None:
    text = second("grid: [blocks, 2], block: [32], cluster: [2], cooperative: true, shared_memory: 4 * blocks", CUDA)
    file = written(tmp_path, "sum", PARTS + LAST, having("role: scratch", "role: scratch, zeroed: each", text))
    lines = tune("show", file).out.splitlines()
    assert [line for line in lines if line.startswith(("step", "scratch"))] == [
        "step 1 sum_parts(partials, x, n): grid [ceil_div(blocks, threads)], block [threads]",
        "step 2 sum_last(partials, total, scale): grid [blocks, 2], block [32], cluster [2], shared memory 4 * blocks, "
        "cooperative",
        "scratch partials: float32 [blocks], zeroed each",
    ]
    early = written(tmp_path, "early", PARTS + LAST, second("grid: [1], programmatic: true", CUDA))
    assert "step 2 sum_last(partials, total, scale): grid [1], block [1], programmatic" in tune("show", early).out
    shown = tune("show", file, "--json").json
    assert [(s["kernel"], s["grid"], s["cluster"]) for s in shown["steps"]] == [
        ("sum_parts", ["ceil_div(blocks, threads)"], None),
        ("sum_last", ["blocks", "2"], ["2"]),
    ]
    assert shown["scratch"] == [{"name": "partials", "dtype": "float32", "shape": ["blocks"], "zeroed": "each"}]


ONE_STEP = """\
title: Twice
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  reference: 2 * x
source: twice.cu
languages: [cuda, opencl]
"""
TWICE = "kernel: twice\ngrid: [ceil_div(n, threads)]\nblock: [threads]\nparameters: {threads: [32, 64]}\n"
TWICE_AS_STEPS = (
    "steps:\n  - {kernel: twice, grid: ['ceil_div(n, threads)'], block: [threads]}\nparameters: {threads: [32, 64]}\n"
)


def test_a_file_of_one_step_keeps_the_names_that_its_records_have(tmp_path: Path) -> None:
    """They are those of the time when no file had steps: another name would make every record an earlier version's."""
    versions = set()
    for text in (TWICE, TWICE_AS_STEPS):
        file = tmp_path / "twice.yaml"
        (tmp_path / "twice.cu").write_text("__kernel void twice(__global float *y, __global float *x, int n) {}\n")
        file.write_text(ONE_STEP + text)
        versions.add(Version.of(catalog.load(str(file))))
    assert versions == {Version(code="530ece270ca7fbab1e7217c6eb7e0c7d", signature="8c4a2c33097c327aaa6967801e704ff6")}


OTHER_CODE = {
    "the source of a step": [("", "int b;\n", "a"), ("", "int b;\n", "b")],
    "the file in which a macro stands": [("#define N 1\n", "", "a"), ("", "#define N 1\n", "a")],
}


@pytest.mark.parametrize("difference", OTHER_CODE)
def test_steps_of_other_code_have_other_names(difference: str, tmp_path: Path) -> None:
    """Though the texts of all files together are the same, and the names of the kernels."""
    names = set()
    for end, beginning, third in OTHER_CODE[difference]:
        (tmp_path / "a.c").write_text(f"void k() {{}}\n{end}")
        (tmp_path / "b.c").write_text(f"{beginning}void k() {{}}\n")
        steps = "".join(f"  - {{kernel: k, source: {name}.c}}\n" for name in ("a", "b", third))
        text = ONE_STEP.replace("source: twice.cu\nlanguages: [cuda, opencl]", "source: a.c\nlanguages: [c]")
        (tmp_path / "steps.yaml").write_text(f"{text}steps:\n{steps}parameters: {{p: [1]}}\n")
        names.add(Version.of(catalog.load(str(tmp_path / "steps.yaml"))).code)
    assert len(names) == 2


FILTERED = """\
title: Twice, by constant memory
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: weights, kind: constant, dtype: float32, shape: [1], role: in}
    - {name: n, dtype: int32}
  reference: {kernel: right, source: right.cu, arguments: [y, x, n], grid: [1], block: [32]}
source: twice.cu
languages: [cuda]
steps:
  - {kernel: twice, arguments: [y, x, n], grid: [1], block: [32]}
parameters: {p: [1]}
"""


@pytest.mark.parametrize("mentioned", ["weights[0]", "2 /* weights */"])
def test_a_reference_kernel_gets_the_constants_of_its_source(mentioned: str, tmp_path: Path) -> None:
    """They stand in no `arguments:`, and without them it reads zeros."""
    for name, factor in (("twice", "weights[0]"), ("right", mentioned)):
        code = f"__global__ void {name}(float *y, const float *x, int n) {{ y[0] = x[0] * {factor}; }}\n"
        (tmp_path / f"{name}.cu").write_text(code)
    (tmp_path / "twice.yaml").write_text(FILTERED)
    space = catalog.load(str(tmp_path / "twice.yaml"))
    form = space.operation.reference
    assert isinstance(form, KernelReference)
    names = {argument.name for argument in as_space(space, form).operation.arguments}
    assert names == {"y", "x", "n", *(["weights"] if "[0]" in mentioned else [])}


def test_a_kind_whose_module_lacks_another_is_no_unknown_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module_of_a_kind\n")
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="no_such_module_of_a_kind"):
        kinds.made("broken", {})
    with pytest.raises(KeyError, match="unknown"):
        kinds.made("unknown", {})
