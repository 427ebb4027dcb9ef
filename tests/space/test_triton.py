"""Space files of kernels in Triton: what the text of a Python file says, without Triton."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner import devices
from tuner.catalog import catalog
from tuner.errors import DeviceError, RequestError, SpaceError
from tuner.families.code import SizedCode
from tuner.space import identity
from tuner.space.file import reader
from tuner.space.instance import Instance
from tuner.space.jit import part
from tuner.space.model import Space
from tuner.space.scope import COMMON_GPU, Limits
from tuner.space.sources import same_code
from tuner.space.sources.checks import agreement
from tuner.space.sources.rendering import Version, render
from tuner.space.sources.source import StepSource

# A script around a kernel, which needs a GPU: none of it is needed for the kernel.
SCRIPT = '''\
"""A script."""

import torch
import triton
import triton.language as tl
from helper import twice, unused  # beside this file

DEVICE = triton.runtime.driver.active.get_active_torch_device()
LIMIT = tl.constexpr(4)
x = torch.rand(1000, device=DEVICE)


@triton.jit
def own(v):
    return v + LIMIT


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def scale(y_ptr, x_ptr, n, factor, stride, bias=None, BLOCK: tl.constexpr = 128, KIND: tl.constexpr = "plain"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # a comment
    x = tl.load(x_ptr + i * stride, mask=i < n)
    tl.store(y_ptr + i, twice(own(x)) * factor, mask=i < n)


def plain(y_ptr):
    pass


scale[(1,)](x, x, 1000, 2.0, 1)
print(unused)
'''
HELPER = """\
import triton
from deeper import DEEP


@triton.jit
def twice(v):
    return DEEP * v


def unused(): ...
"""
DEEPER = "import triton.language as tl\n\nDEEP = tl.constexpr(2)\nOTHER = 3\n"
SPACE: dict[str, Any] = {
    "title": "scale",
    "operation": {
        "sizes": {"n": None},
        "options": {"factor": 2.0},
        "arguments": [
            {"name": "y_ptr", "dtype": "float32", "shape": ["n"], "role": "out"},
            {"name": "x_ptr", "dtype": "float32", "shape": ["n"], "role": "in"},
            {"name": "n", "dtype": "int32"},
            {"name": "factor", "dtype": "float32"},
            {"name": "stride", "dtype": "int64", "value": 1},
        ],
        "reference": "2 * (x_ptr + 4) * factor",
    },
    "kernel": "scale",
    "source": "script.py",
    "parameters": {"BLOCK": [128, 256], "num_warps": [2, 4]},
    "grid": ["ceil_div(n, BLOCK)"],
}
BOTH = {"BLOCK": 128, "num_warps": 2}


def written(folder: Path, script: str = SCRIPT, **changes: Any) -> Path:
    """The space file of `script`, with these keys; None removes one."""
    folder.mkdir(exist_ok=True)
    for name, text in {"script.py": script, "helper.py": HELPER, "deeper.py": DEEPER}.items():
        (folder / name).write_text(text)
    data = {key: value for key, value in {**SPACE, **changes}.items() if value is not None}
    (folder / "script.yaml").write_text(yaml.safe_dump(data))
    return folder / "script.yaml"


def loaded(folder: Path, script: str = SCRIPT, **changes: Any) -> Space:
    return catalog.load(str(written(folder, script, **changes)))


def instance(space: Space, config: dict[str, Any] | None = None, n: int = 1024) -> Instance:
    limits = Limits(compute_capability=9.0)
    return Instance(space, config or BOTH, space.operation.scope({"n": n}, {"factor": 2.0}, "cuda", limits, {}))


def rendered(space: Space, config: dict[str, Any] | None = None, n: int = 1024) -> StepSource:
    (step,) = render(instance(space, config, n))
    return step


def head(step: StepSource) -> dict[str, Any]:
    """What the compiler gets besides the text of the kernel."""
    data: dict[str, Any] = json.loads(step.source.text.partition("\n")[0])
    return data


def said(folder: Path, script: str = SCRIPT, **changes: Any) -> str:
    """The message about a space file that is refused."""
    with pytest.raises(SpaceError) as error:
        reader.read(written(folder, script, **changes))
    return str(error.value)


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Space:
    return loaded(tmp_path_factory.mktemp("space"))


def test_a_python_file_is_a_kernel_of_cuda_devices(space: Space) -> None:
    assert (space.languages, space.written_in, space.compiler_of("cuda")) == (("cuda",), ("triton",), "triton")
    assert devices.kinds_of(space) == ["cuda"]
    assert devices.BACKENDS["cuda"].surrounding(space) == ""
    with pytest.raises(DeviceError, match=r"scale is written in triton: it runs on cuda, not on opencl; the source"):
        devices.for_space(replace(space, name="scale"), "opencl")


def test_the_compiler_gets_only_what_the_kernel_reaches_on_the_lines_of_the_file(space: Space) -> None:
    step = rendered(space)
    lines = step.source.text.splitlines()
    shown = {number: line for number, line in enumerate(lines) if number and line}
    original = dict(enumerate(SCRIPT.splitlines(), start=1))
    assert all(original[number] == line for number, line in shown.items())
    text = "\n".join(shown.values())
    for needed in ("from helper import twice", "LIMIT = tl.constexpr(4)", "def own(v):", "@triton.jit\ndef scale("):
        assert needed in text
    for left in ("import torch", "DEVICE", "autotune", "def plain", "print(", "1000"):
        assert left not in text
    assert "def twice" in head(step)["imports"]
    assert "DEEP = tl.constexpr(2)" in head(step)["imports"]
    assert "OTHER" not in head(step)["imports"]


def test_what_profilers_get_is_no_part_of_a_kernel() -> None:
    text = "import torch\nimport triton\nnamed = torch.named()\n\n"
    text += "@triton.jit(\n    repr=named,\n    noinline=True,\n)\ndef f(x):\n    pass\n"
    found = part.of(text, frozenset({"f"}), "f").text
    assert found.splitlines()[4:] == ["@triton.jit(noinline=True)", "", "", "", "def f(x):", "    pass"]
    assert "torch" not in found


def test_a_build_is_of_the_classes_of_its_arguments(space: Space) -> None:
    step = rendered(space)
    told = head(step)
    assert told["signature"] == {"y_ptr": "*fp32", "x_ptr": "*fp32", "n": "i32", "factor": "fp32", "stride": "i64"}
    assert told["constants"] == {"bias": None, "BLOCK": 128}
    assert (told["ones"], told["divisible"], told["options"]) == (["stride"], ["y_ptr", "x_ptr", "n"], {"num_warps": 2})
    assert step.arguments == ("y_ptr", "x_ptr", "n", "factor")  # the kernel takes no parameter for 1
    assert (step.geometry.grid, step.geometry.block) == ((8, 1, 1), (64, 1, 1))
    assert head(rendered(space, n=1000))["divisible"] == ["y_ptr", "x_ptr"]
    assert head(rendered(space, n=1))["ones"] == ["n", "stride"]
    of_view = replace(instance(space), unaligned=frozenset({"x_ptr"}))
    assert head(*render(of_view))["divisible"] == ["y_ptr", "n"]
    assert [of_view.alignment_of(name) for name in ("y_ptr", "x_ptr")] == [16, 1]


def test_equal_builds_serve_several_sizes(space: Space) -> None:
    code, scope = SizedCode(space), instance(space).problem
    values = {n: code.values_at(BOTH, scope, [n]) for n in (1024, 2048, 1000, 1001, 1)}
    assert values[1024] == values[2048]
    assert values[1000] == values[1001] != values[1024]
    assert values[1] not in (values[1000], values[1024])
    assert not code.is_for_one_size(BOTH, scope)


def test_a_size_may_be_a_constant_of_the_kernel(tmp_path: Path) -> None:
    script = SCRIPT.replace("n, factor", "factor").replace('KIND: tl.constexpr = "plain"', "n: tl.constexpr = 0")
    arguments = [a for a in SPACE["operation"]["arguments"] if a["name"] != "n"]
    space = loaded(tmp_path, script, operation={**SPACE["operation"], "arguments": arguments})
    assert head(rendered(space, n=1000))["constants"]["n"] == 1000
    assert SizedCode(space).is_for_one_size(BOTH, instance(space).problem)


def test_types_and_options_of_the_compiler(tmp_path: Path) -> None:
    script = SCRIPT.replace('KIND: tl.constexpr = "plain"', "real: tl.constexpr = None").replace(
        "@triton.jit\ndef scale",
        '@triton.jit(do_not_specialize=["n", 4], do_not_specialize_on_alignment=["x_ptr"])\ndef scale',
    )
    arguments = [{**a, **({"dtype": "real"} if "shape" in a else {})} for a in SPACE["operation"]["arguments"]]
    operation = {**SPACE["operation"], "arguments": arguments, "types": {"real": ["float16", "bfloat16"]}}
    parameters = {"BLOCK": [128], "num_ctas": [1, 2], "maxnreg": [0, 64], "num_stages": [3]}
    space = loaded(tmp_path, script, operation=operation, parameters=parameters)
    config = {"BLOCK": 128, "num_ctas": 2, "maxnreg": 0, "num_stages": 3}
    scope = replace(instance(space, config).problem, types={"real": "bfloat16"})
    (step,) = render(Instance(space, config, scope))
    told = head(step)
    assert told["constants"] == {"bias": None, "BLOCK": 128, "real": {"dtype": "bf16"}}
    assert told["signature"]["x_ptr"] == "*bf16"
    assert told["options"] == {"num_ctas": 2, "num_stages": 3}  # 0 is no limit of registers
    assert (told["ones"], told["divisible"]) == ([], ["y_ptr"])
    assert (step.geometry.grid, step.geometry.cluster) == ((16, 1, 1), (2, 1, 1))
    assert any("num_ctas" in restriction.that.text for restriction in space.restrictions)
    (limited,) = render(Instance(space, {**config, "maxnreg": 64}, scope))
    assert head(limited)["options"]["maxnreg"] == 64


def test_the_identity_is_the_code_that_the_kernel_reaches(tmp_path: Path, space: Space) -> None:
    def of(name: str, script: str, helper: str = HELPER, deeper: str = DEEPER) -> tuple[str, str]:
        folder = tmp_path / name
        changed = loaded(folder, script)
        (folder / "helper.py").write_text(helper)
        (folder / "deeper.py").write_text(deeper)
        return Version.of(changed).code, identity.of(changed)

    same = of("same", SCRIPT)
    assert same == (Version.of(space).code, identity.of(space))
    assert of("comment", SCRIPT.replace("a comment", "another").replace("1000", "2000")) == same
    assert of("around", "import os\n" + SCRIPT, HELPER + "\n\nunread = 5\n", DEEPER.replace("3", "4")) == same
    changes = [
        of("kernel", SCRIPT.replace("* factor", "/ factor")),
        of("constant", SCRIPT.replace("(4)", "(5)")),
        of("helper", SCRIPT, HELPER.replace("DEEP *", "DEEP +")),
        of("deeper", SCRIPT, deeper=DEEPER.replace("2", "7")),
    ]
    assert len({same, *changes}) == 5


def test_two_configurations_are_the_same_code_only_if_the_compiler_gets_the_same(space: Space) -> None:
    one = instance(space)
    assert same_code.is_same_code(one, instance(space))
    assert not same_code.is_same_code(one, instance(space, {**BOTH, "num_warps": 4}))


def test_a_loop_variable_has_no_class(tmp_path: Path) -> None:
    arguments = [*SPACE["operation"]["arguments"]]
    steps = [{"repeat": {"part": [0, 1]}, "steps": [{"kernel": "scale", "grid": ["ceil_div(n, BLOCK)"]}]}]
    arguments[4] = {**arguments[4], "value": "1 + 0 * part"}
    space = loaded(
        tmp_path, kernel=None, grid=None, steps=steps, operation={**SPACE["operation"], "arguments": arguments}
    )
    assert head(rendered(space))["ones"] == []
    assert "stride" in rendered(space).arguments


def test_a_module_of_a_package_is_read_with_its_relative_imports(tmp_path: Path) -> None:
    package = tmp_path / "mine" / "ops"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    (package.parent / "constants.py").write_text("import triton.language as tl\nDEEP = tl.constexpr(2)\n")
    script = SCRIPT.replace("from helper import", "from .helper import")
    space = loaded(package, script)
    (package / "helper.py").write_text(HELPER.replace("from deeper", "from ..constants"))
    step = rendered(space)
    assert "DEEP = tl.constexpr(2)" in head(step)["imports"]
    assert step.source.origin is not None
    assert (step.source.origin.root, step.source.origin.package) == (tmp_path, "mine.ops")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"kernel": "missing"},
            "kernel: script.py has no function 'missing' at its top level; its kernels are own, scale",
        ),
        ({"kernel": "plain"}, r"kernel: plain in script.py \(line 26\) is not decorated with @triton.jit; decorate it"),
        ({"block": [32]}, "block: the compiler decides it; .*num_warps"),
        ({"shared_memory": 4}, "shared_memory: the compiler decides it; remove this key"),
        ({"cluster": [2]}, "cluster: the compiler decides it; .*num_ctas"),
        ({"compiler": "nvcc"}, "compiler: Triton has one compiler; remove this key"),
        ({"compile_options": {"cuda": ["-O1"]}}, "compile_options: Triton's options are names of the space: num_warps"),
        ({"languages": ["triton", "cuda"]}, "languages: Triton stands alone"),
        (
            {"parameters": {"BLOCK": [128], "num_warps": [3]}},
            "parameters.num_warps.*3: a power of 2 up to 32 is needed",
        ),
        ({"parameters": {"BLOCK": [128], "num_stages": [0]}}, "0: a whole number from 1 on is needed"),
    ],
)
def test_what_a_space_file_may_not_say(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        reader.read(written(tmp_path, **changes))


def test_a_stride_is_what_the_shape_says(tmp_path: Path) -> None:
    arguments = [dict(each) for each in SPACE["operation"]["arguments"]]
    arguments[1]["shape"] = [1, "n", 4]
    operation = {**SPACE["operation"], "arguments": arguments, "reference": {"python": "check.py:expected"}}

    def of(value: str) -> dict[str, Any]:
        return {**operation, "arguments": [*arguments[:4], {"name": "stride", "dtype": "int64", "value": value}]}

    def passed(value: str) -> int:
        space = loaded(tmp_path, operation=of(value))
        stride = space.operation.arguments[-1].value[0]
        return int(stride.integer({"n": 10}))

    (tmp_path / "check.py").write_text("def expected(x_ptr):\n    return {}\n")
    assert [passed(f"stride(x_ptr, {axis})") for axis in (0, 1, 2, -1, -2)] == [40, 4, 1, 1, 4]
    assert passed("2 * stride(x_ptr, 0) + stride(y_ptr, 0)") == 81
    message = "operation.arguments: stride: `stride(z, 0)`: there is no array z; the arrays are y_ptr, x_ptr"
    assert message in said(tmp_path, operation=of("stride(z, 0)"))
    message = "stride: `stride(x_ptr, 3)`: x_ptr has 3 axes, which are 0 to 2"
    assert message in said(tmp_path, operation=of("stride(x_ptr, 3)"))


def test_an_argument_that_is_read_only_where_a_constant_is_true_may_be_left_out(tmp_path: Path) -> None:
    script = SCRIPT.replace("    x = tl.load(x_ptr", "    if KIND:\n        n += tl.load(more)\n    x = tl.load(x_ptr")
    script = script.replace("stride, bias=None", "stride, more, bias=None")
    assert loaded(tmp_path, script).steps[0].arguments == ("y_ptr", "x_ptr", "n", "factor", "stride")
    script = script.replace("    if KIND:", "    if not KIND:")
    assert "more" in said(tmp_path, script)


def test_what_arguments_may_not_be(tmp_path: Path) -> None:
    def of(position: int, **keys: Any) -> str:
        arguments = [*SPACE["operation"]["arguments"]]
        arguments[position] = {**arguments[position], **keys}
        return said(tmp_path, operation={**SPACE["operation"], "arguments": arguments})

    assert "scale takes y_ptr, x_ptr, n, factor, stride; write these names, in this order" in of(0, name="x")
    assert "y_ptr: Triton has no type complex64" in of(0, dtype="complex64")
    assert "x_ptr: a kernel in Triton takes no texture" in of(1, kind="texture")
    arguments = [*SPACE["operation"]["arguments"], {"name": "BLOCK", "dtype": "int32", "value": 1}]
    message = said(
        tmp_path, operation={**SPACE["operation"], "arguments": arguments}, parameters={"num_warps": [4]}, grid=[1]
    )
    assert "BLOCK is tl.constexpr in scale, so it is no argument of a launch" in message


def test_a_constant_needs_a_value(tmp_path: Path) -> None:
    script = SCRIPT.replace("bias=None, BLOCK: tl.constexpr = 128", "BLOCK: tl.constexpr")
    script = script.replace(' = "plain"', "")
    message = said(tmp_path, script, parameters={"BLOCKS": [128, 256]}, grid=["ceil_div(n, BLOCKS)"])
    assert "scale takes BLOCK: tl.constexpr, which has no value and no default; did you mean BLOCKS?" in message


def test_a_number_of_the_file_must_be_a_constant(tmp_path: Path) -> None:
    script = SCRIPT.replace("x = torch", "SPEED = 2\nx = torch").replace("* factor,", "* factor * SPEED,")
    message = said(tmp_path, script)
    assert "scale reads SPEED of line 10 of script.py, which Triton refuses of a plain variable" in message
    assert "write `SPEED = tl.constexpr(...)` there" in message


def test_a_file_that_is_no_python_has_its_line_in_the_message(tmp_path: Path) -> None:
    assert "script.py:21" in said(tmp_path, SCRIPT.replace("tl.arange(0, BLOCK)  #", "tl.arange(0 BLOCK) #"))


def test_a_parameter_that_nothing_reads_is_a_warning(tmp_path: Path) -> None:
    space = loaded(tmp_path, parameters={**SPACE["parameters"], "KINDS": ["a", "b"]})
    (warning,) = agreement.warnings(space)
    assert "no kernel takes it as tl.constexpr" in warning
    assert "did you mean KIND, which the kernel takes?" in warning


def test_a_python_file_beside_a_space_file_is_its_kernel_only_if_the_file_says_so(tmp_path: Path) -> None:
    assert "kernel file is missing" in said(tmp_path, source=None)
    assert loaded(tmp_path, source=None, languages=["triton"]).written_in == ("triton",)


def test_a_space_may_be_made_in_python(tmp_path: Path) -> None:
    import tuner

    written(tmp_path)
    keys = {key: value for key, value in SPACE.items() if key != "title"}
    made = tuner.Space(**keys, folder=tmp_path)
    assert rendered(made.model).source == rendered(loaded(tmp_path)).source
    with pytest.raises(RequestError, match=r"a kernel in Triton is in a .py file"):
        loaded(tmp_path, source="other.cu", languages=["triton"], kernel="scale") if (
            (tmp_path / "other.cu").write_text("__global__ void scale() {}")
        ) else None


def test_limits_of_a_common_gpu_leave_configurations(space: Space) -> None:
    assert space.valid(BOTH, space.operation.scope({"n": 64}, {"factor": 1.0}, "cuda", COMMON_GPU, {}))
