"""Drafts of space files for kernels in Triton, from the text of their files alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from helpers.processes import Tune
from tuner.drafting.python.config_lists import ConfigLists
from tuner.drafting.python.definitions import PythonDefinitions
from tuner.drafting.python.draft import PythonDraft
from tuner.errors import RequestError
from tuner.space.file import reader

SOFTMAX = """\
import torch
import triton
import triton.language as tl

WARPS = (4, 8)


def configs():
    return [triton.Config({"ROWS": r}, num_warps=w, num_stages=2) for r in [1, 2, 4] for w in WARPS if r * w < 32]


@triton.autotune(configs=configs(), key=["columns"], reset_to_zero=["count"], prune_configs_by={"top_k": 3})
@triton.heuristics({"EVEN": lambda args: args["columns"] % args["ROWS"] == 0})
@triton.jit
def softmax(y_ptr, x_ptr, count, y_stride, x_stride, rows, columns, scale, bias=None, ROWS: tl.constexpr = 1,
            BLOCK: tl.constexpr = 128, EVEN: tl.constexpr = False):
    first = tl.program_id(0) * ROWS
    columns_of = tl.arange(0, BLOCK)
    for row in tl.range(first, min(first + ROWS, rows)):
        begin = x_ptr + row * x_stride
        x = tl.load(begin + columns_of, mask=columns_of < columns, other=-float("inf"))
        e = tl.exp((x - tl.max(x, axis=0)) * scale)
        tl.store(y_ptr + row * y_stride + columns_of, e / tl.sum(e, axis=0), mask=columns_of < columns)
    tl.atomic_add(count, 1)


def run(x, scale=5e-5):
    rows, columns = x.shape
    y = torch.empty_like(x)
    grid = lambda META: (triton.cdiv(rows, META["ROWS"]),)
    softmax[grid](y, x, count, y.stride(0), x.stride(0), rows, columns, scale)
    return y
"""
PAIR = """\
import triton
import triton.language as tl


@triton.jit
def inner(x):
    return x + 1


@triton.jit
def add(x, n, eps, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(x + i, inner(v) + eps, mask=i < n)


@triton.autotune([triton.Config({"BLOCK": 64, "FOR_AMD": 1}), triton.Config({"BLOCK": 128}, num_warps=2)], ["n"],
                 restore_value=["x"])
@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    pass
"""

VARIABLE = """\
import triton
import triton.language as tl


@triton.heuristics({
    "HAS_SCALE": lambda args: args["scale"] is not None,
    "IS_VARLEN": lambda args: args["starts"] is not None,
})
@project_autotune(configs=[triton.Config({"BD": b}) for b in [16, 32]], key=["T"])
@triton.jit
def total(y, x, scale, starts, places, T, D: tl.constexpr, BD: tl.constexpr, WIDTH: tl.constexpr, eps: tl.constexpr,
          row_stride: tl.constexpr, REVERSE: tl.constexpr, HAS_SCALE: tl.constexpr, IS_VARLEN: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BD)
    if IS_VARLEN:
        row = tl.load(starts + tl.load(places + row))
    v = tl.load(x + row * row_stride + columns, mask=(columns < D) & (row < T), other=0.0) + eps
    if REVERSE:
        v = -v
    if HAS_SCALE:
        v *= scale
    tl.store(y + row * row_stride + columns, v, mask=columns < D)


def run(x, y):
    T, D = x.shape
    WIDTH = triton.next_power_of_2(D)
    total[(T,)](y, x, None, None, None, T, D=D, WIDTH=WIDTH)
"""


def drafted(folder: Path, text: str, entry: str | None = None) -> str:
    (folder / "kernel.py").write_text(text)
    return PythonDraft(folder / "kernel.py", entry, folder / "kernel.yaml").text()


def test_decorators_and_launches_answer_most_questions(tmp_path: Path) -> None:
    text = drafted(tmp_path, SOFTMAX)
    data = yaml.safe_load(text)
    operation = data["operation"]
    assert operation["sizes"] == {"rows": None, "columns": None}
    assert operation["options"] == {"scale": 5e-5}  # a number, not the text that YAML reads in 5e-05
    assert "usual values?" not in text
    arguments = {each["name"]: each for each in operation["arguments"]}
    assert [*arguments] == ["y_ptr", "x_ptr", "count", "y_stride", "x_stride", "rows", "columns", "scale"]
    roles = {name: each.get("role") for name, each in arguments.items() if "role" in each}
    assert roles == {"y_ptr": "out", "x_ptr": "in", "count": "inout"}
    assert arguments["count"]["fill"] == "zeros"
    assert data["grid"] == ["ceil_div(rows, ROWS)"]
    assert data["parameters"] == {"ROWS": [1, 2, 4], "num_warps": [4, 8], "num_stages": [2]}
    assert data["default"] == {"ROWS": 1, "num_warps": 4, "num_stages": 2}
    assert data["derived"] == {"EVEN": "columns % ROWS == 0"}
    assert "# @triton.autotune lists 5 of these 6 combinations." in text
    assert "# @triton.autotune times only those that a model ranks first" in text


@pytest.mark.parametrize("given", ["BY", '{"early_config_prune": keep, "top_k": 3}'])
def test_what_leaves_out_configurations_stands_beside_the_question(given: str, tmp_path: Path) -> None:
    pruned = SOFTMAX.replace('{"top_k": 3}', given).replace(
        "@triton.autotune",
        "def keep(configs, args, **more):\n    return [c for c in configs if c.num_warps < 8]\n\n\n"
        "BY = {'early_config_prune': keep}\n\n\n@triton.autotune",
    )
    text = drafted(tmp_path, pruned)
    assert "(prune_configs_by): say which under `restrictions:`" in text
    assert "\n#     def keep(configs, args, **more):\n" in text
    assert "\n#         return [c for c in configs if c.num_warps < 8]\n" in text
    assert ("a model ranks first" in text) == ("top_k" in given)
    assert yaml.safe_load(text)["kernel"] == "softmax"


def test_an_answered_draft_is_a_space_file(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "kernel.py").write_text(SOFTMAX)
    done = tune("new", str(tmp_path / "kernel.py"), "--json")
    assert done.json["questions"] == len(re.findall(r"# \? ", (tmp_path / "kernel.yaml").read_text()))
    text = re.sub(r"\n?(  )?# \?[^\n]*", "", (tmp_path / "kernel.yaml").read_text())
    text = text.replace("shape: [rows]", "shape: [rows, columns]")
    (tmp_path / "kernel.yaml").write_text(text)
    space = reader.read(tmp_path / "kernel.yaml")
    assert (space.written_in, space.kernels) == (("triton",), "softmax")


def test_a_kernel_without_decorators_gets_questions_and_usual_options(tmp_path: Path) -> None:
    text = drafted(tmp_path, PAIR, "add")
    data = yaml.safe_load(text)
    assert data["parameters"]["num_warps"] == [2, 4, 8]
    assert "BLOCK: [64, 128, 256]  # ? which values may BLOCK have?" in text
    assert 'grid: ["ceil_div(n, BLOCK)"]  # ? how many programs' in text
    assert data["operation"]["options"] == {"eps": 0.00001}
    assert data["operation"]["arguments"][0]["role"] == "inout"
    taken = PAIR.replace("eps, BLOCK: tl.constexpr", "eps, BLOCK: tl.constexpr, num_warps: tl.constexpr")
    data = yaml.safe_load(drafted(tmp_path, taken, "add"))
    assert (data["operation"]["options"], data["parameters"]["num_warps"]) == ({"eps": 0.00001}, [2, 4, 8])


def test_configurations_of_other_gpus_are_left_out(tmp_path: Path) -> None:
    data = yaml.safe_load(drafted(tmp_path, PAIR, "scale"))
    assert data["parameters"] == {"BLOCK": [128], "num_warps": [2]}


def test_a_file_with_several_kernels_asks_for_one_that_no_other_calls(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="its kernels are add, scale; name one with --entry"):
        drafted(tmp_path, PAIR)
    with pytest.raises(RequestError, match="there is no kernel 'other'; its kernels are add, scale"):
        drafted(tmp_path, PAIR, "other")
    with pytest.raises(RequestError, match=r"its kernels are none; decorate one with @triton.jit"):
        drafted(tmp_path, "x = 1\n")
    with pytest.raises(RequestError, match=r"it has a kernel in a string; .*, then run `tune new kernel.cl`"):
        drafted(tmp_path, 'TEXT = "__kernel void f(__global float *y) { y[0] = 1; }"\n')
    with pytest.raises(RequestError, match=r"kernel.py: not Python"):
        drafted(tmp_path, "x = = 1\n")


@pytest.mark.parametrize(
    ("head", "entry", "compiler"),
    [
        ("from numba import cuda\n\n\n@cuda.jit", None, "Numba"),
        ("import numba.cuda as nc\n\n\n@nc.jit('void(float32[:])')", "add", "Numba"),
        ("from cupyx import jit\n\n\n@jit.rawkernel()", None, "CuPy"),
    ],
)
def test_a_kernel_of_another_compiler_is_no_kernel_in_triton(
    head: str, entry: str | None, compiler: str, tmp_path: Path
) -> None:
    text = f"{head}\ndef add(y):\n    y[0] += 1\n"
    with pytest.raises(RequestError, match=rf"kernel.py: add \(line \d\) is a kernel of {compiler}, .* in Triton"):
        drafted(tmp_path, text, entry)
    assert drafted(tmp_path, f"{PAIR}\n\n{text}", "scale").startswith("# Written by")


def test_what_may_be_absent_is_left_out_and_constants_are_what_they_are_used_for(tmp_path: Path) -> None:
    text = drafted(tmp_path, VARIABLE)
    data = yaml.safe_load(text)
    operation = data["operation"]
    assert [each["name"] for each in operation["arguments"]] == ["y", "x", "T"]
    assert (operation["sizes"], operation["options"]) == ({"T": None, "D": None}, {"eps": 0.00001})
    assert data["parameters"] == {"BD": [16, 32], "REVERSE": [False]}
    assert data["derived"] == {"HAS_SCALE": 0, "IS_VARLEN": 0, "WIDTH": "next_power_of_2(D)", "row_stride": 1}
    assert "HAS_SCALE: 0  # scale is left out; with it under `arguments:`, 1" in text
    answered = re.sub(r"\n?(  )?# \?[^\n]*", "", text)
    (tmp_path / "kernel.yaml").write_text(answered)
    assert reader.read(tmp_path / "kernel.yaml").kernels == "total"


HOST = """\
import torch
import triton
import triton.language as tl


@triton.jit
def turned(OUT, X, COS, INDEX, seqlen, groups, stride_ob, stride_ol, stride_xb, stride_xl, stride_i, stride_xg,
           KIND: tl.constexpr, MODE: tl.constexpr, HAS_INDEX: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    group = tl.program_id(1) % groups
    x = tl.load(X + at * stride_xl + group * stride_xg, mask=at < seqlen).to(KIND)
    if HAS_INDEX:
        x += tl.load(INDEX + at * stride_i)
    if MODE == "half":
        x *= tl.load(COS + at)
    rows = OUT + at * stride_ol
    tl.store(rows, x, mask=at < seqlen)
    rows += stride_ob
    tl.store(rows, x, mask=at < seqlen)


def run(x, cos, index=None, grouped=False):
    batch, seqlen = x.shape
    wide, = cos.shape
    wide *= 2
    x = x.contiguous()
    out = torch.empty_like(x)
    torch.library.wrap_triton(turned)[(triton.cdiv(seqlen, 64), 4)](
        out, x, cos, index, seqlen, x.shape[1] // 2, out.stride(0), out.stride(-1), x.stride(0),
        x.stride(1) if not grouped else 0, 0, 0 if not grouped else x.stride(2), x.dtype, "half", index is not None,
    )
"""


def test_the_host_tells_shapes_and_strides(tmp_path: Path) -> None:
    """A kernel gets them under other names; what the host changes before the launch is asked for. An address that is
    moved by a stride is no address of the stride."""
    (tmp_path / "host.py").write_text(HOST)
    text = PythonDraft(tmp_path / "host.py", None, tmp_path / "host.yaml").text()
    (tmp_path / "host.yaml").write_text(text)
    lines = dict(re.findall(r"- \{name: (\w+), dtype: \w+, (.*)$", text, re.MULTILINE))
    assert lines["OUT"] == "shape: [batch, seqlen], role: out}"
    assert lines["X"] == "shape: [batch, seqlen], role: in}"
    assert re.fullmatch(r"shape: \[seqlen\], role: in}  # \? the extents of COS\?.*", lines["COS"])
    assert "INDEX" not in lines
    strides = {name: line for name, line in lines.items() if name.startswith("stride")}
    assert strides == {
        "stride_ob": 'value: "stride(OUT, 0)"}',
        "stride_ol": 'value: "stride(OUT, -1)"}',
        "stride_xb": 'value: "stride(X, 0)"}',
        "stride_xl": 'value: "stride(X, 1)"}',
        "stride_xg": "value: 0}",
    }
    assert "types: {real: [float32, float16], KIND: [float32, float16]}" in text
    assert "  MODE: [half]" in text
    assert "where it is true, `arguments:` have INDEX, stride_i" in text
    assert re.search(r"sizes:.*\n    seqlen:\n    batch:\n", text)
    assert lines["groups"] == 'value: "seqlen // 2"}'  # the half of x.shape[1]
    (tmp_path / "host.py").write_text(HOST.replace("index is not None,\n    )", "index is not None, BLOCK=64,\n    )"))
    text = PythonDraft(tmp_path / "host.py", None, tmp_path / "host.yaml").text()
    assert "# ? the launch passes the same number: is 64 BLOCK? then write the name" in text


def test_a_likely_grid_is_what_the_kernel_does_with_its_numbers(tmp_path: Path) -> None:
    text = (
        HOST.partition("def run")[0]
        .replace("% groups", "* BLOCK + tl.arange(0, BLOCK)")
        .replace("+ group * stride_xg", "")
    )
    text = text.replace("    if HAS_INDEX", "    more = group[:, None] < groups\n    if HAS_INDEX")
    (tmp_path / "alone.py").write_text(text)
    draft = PythonDraft(tmp_path / "alone.py", None, tmp_path / "alone.yaml").text()
    assert 'grid: ["ceil_div(seqlen, BLOCK)", "ceil_div(groups, BLOCK)"]  # ? how many programs' in draft
    named = text.replace("group[:, None] < groups", "long < groups").replace(
        "    more =", "    long = group[:, None]\n    more ="
    )
    (tmp_path / "alone.py").write_text(named.replace("tl.program_id(0)", "tl.program_id(0).to(tl.int64)"))
    assert PythonDraft(tmp_path / "alone.py", None, tmp_path / "alone.yaml").text() == draft
    (tmp_path / "alone.py").write_text(text.replace("group[:, None] < groups", "group < 4"))
    assert "grid: [1]  # ?" in PythonDraft(tmp_path / "alone.py", None, tmp_path / "alone.yaml").text()


LOOPS = """\
def doubled():
    found = []
    block = 32
    for warps in (2, 4, 8):
        found.append(triton.Config({"BLOCK": block}, num_warps=warps))
        block *= 2
    return found


def counted():
    found, block = [], 0
    block = 16
    while block <= 64:
        found.append(triton.Config({"BLOCK": block}))
        block = block * 2
    return found


def ended():
    found = []
    for block in (32, 64, 128):
        if block > 64:
            break
        found.append(triton.Config({"BLOCK": block}))
    return found


def returned():
    for block in (32, 64, 128):
        if block > 32:
            return [triton.Config({"BLOCK": block})]


def appended():
    sizes = [32]
    sizes.append(64)
    return [triton.Config({"BLOCK": block}) for block in sizes]


def either():
    found = []
    for block in (32, 64):
        if is_small():
            break
        found.append(triton.Config({"BLOCK": block}))
    return found


SIZES = [16]
SIZES.append(32)
above = [triton.Config({"BLOCK": block}) for block in SIZES]


def unknown():
    found = []
    block = 32
    while is_small(block):
        found.append(triton.Config({"BLOCK": block}))
        block *= 2
    return found
"""


APPLIED = """
import triton
import triton.language as tl

configs = [triton.Config({"BLOCK": 64}, num_warps=2)]


@triton.jit
def scale(y, x, n, LIMIT: tl.constexpr = None, BLOCK: tl.constexpr = 128):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def run(y, x, n):
    configs = [triton.Config({"BLOCK": 512}, num_warps=4)]
    tuned = triton.autotune(configs=configs, key=["n"])(scale)
    tuned[lambda m: (triton.cdiv(n, m["BLOCK"]),)](y, x, n, LIMIT=None)
"""


def test_a_decorator_may_be_applied_by_a_call_with_a_list_of_the_function_around_it(tmp_path: Path) -> None:
    """The list hides that of the file. LIMIT is None wherever the kernel is launched, and no parameter."""
    (tmp_path / "applied.py").write_text(APPLIED)
    text = PythonDraft(tmp_path / "applied.py", None, tmp_path / "applied.yaml").text()
    assert 'grid: ["ceil_div(n, BLOCK)"]\nparameters:\n  BLOCK: [512]\n  num_warps: [4]\ndefault:' in text
    appended = (
        "    configs = []\n    for block in (256, 1024):\n        configs.append(triton.Config({'BLOCK': block}))\n"
    )
    (tmp_path / "applied.py").write_text(APPLIED.replace(APPLIED.splitlines(True)[-3], appended))
    text = PythonDraft(tmp_path / "applied.py", None, tmp_path / "applied.yaml").text()
    assert "parameters:\n  BLOCK: [256, 1024]\n" in text
    assert "can be told by Python alone" in text


def test_an_option_that_only_some_configurations_name_also_has_the_default_of_triton(tmp_path: Path) -> None:
    given = '{"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_stages=2), triton.Config({"BLOCK": 64}, maxnreg=32)'
    text = drafted(
        tmp_path,
        PAIR.replace('{"BLOCK": 64, "FOR_AMD": 1}), triton.Config({"BLOCK": 128}, num_warps=2)', given),
        "scale",
    )
    data = yaml.safe_load(text)
    assert data["parameters"] == {"BLOCK": [64, 128], "num_stages": [3, 2], "maxnreg": [0, 32]}
    assert data["default"] == {"BLOCK": 64, "num_stages": 3, "maxnreg": 0}


def test_configurations_are_read_from_rows_of_numbers(tmp_path: Path) -> None:
    """The list of configurations replaces the list of numbers from which it is made."""
    rows = """\
configs = [(64, 2, 4), (128, 3, 8)]
configs = [triton.Config(dict(BLOCK=block), num_stages=stages, num_warps=warps) for block, stages, warps in configs]


@triton.autotune(configs=configs, key=["n"])
@triton.jit
def add("""
    (tmp_path / "rows.py").write_text(PAIR.replace("@triton.jit\ndef add(", rows).partition("@triton.autotune([")[0])
    text = PythonDraft(tmp_path / "rows.py", None, tmp_path / "rows.yaml").text()
    assert "  BLOCK: [64, 128]\n  num_stages: [2, 3]\n  num_warps: [4, 8]\ndefault: {BLOCK: 64, num_stages: 2," in text
    assert "@triton.autotune lists 2 of these 8 combinations" in text
    read = ConfigLists(PythonDefinitions(ast.parse(LOOPS), tmp_path / "loops.py"), {"BLOCK"})
    for name, blocks in {
        "doubled": [32, 64, 128],
        "counted": [16, 32, 64],
        "ended": [32, 64],
        "returned": [64],
    }.items():
        assert [config["BLOCK"] for config in read.read(ast.Name(name))] == blocks, name
        assert read.is_complete, name
    for name, blocks in {"appended": [32], "either": [32, 64], "unknown": [32], "above": [16]}.items():
        read = ConfigLists(PythonDefinitions(ast.parse(LOOPS), tmp_path / "loops.py"), {"BLOCK"})
        assert [config["BLOCK"] for config in read.read(ast.Name(name))] == blocks, name
        assert not read.is_complete, name
    shapes = LOOPS + "SHAPES = [[64, 64]] if HAS_TMA else [[32, 64], [64, 64]]\n"
    shapes += "configs = [triton.Config({'BLOCK': a}) for a, b in SHAPES]\n"
    read = ConfigLists(PythonDefinitions(ast.parse(shapes), tmp_path / "loops.py"), {"BLOCK"})
    assert [*read.read(ast.Name("configs"))] == [{"BLOCK": 64}, {"BLOCK": 32}]


COMPUTED = """\
import torch
import triton
import triton.language as tl


@triton.jit
def gathered(OUT, X, AT, WEIGHT, LEVEL, rows, part, stride_xr, stride_xc, stride_or: tl.constexpr, C: tl.constexpr,
             smooth: tl.constexpr, STAGES: tl.constexpr, WEIGHTED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.load(AT + tl.program_id(0)) % part
    for begin in tl.range(0, C, BN, num_stages=STAGES):
        columns = begin + tl.arange(0, BN)
        x = tl.load(X + row * stride_xr + columns * stride_xc) * (1 - smooth)
        x = x * (tl.load(WEIGHT + columns) if WEIGHTED else 1)
        tl.store(OUT + tl.program_id(0) * stride_or + columns, x, mask=tl.arange(0, BM) < rows)
    tl.store(LEVEL + tl.program_id(0), 1.0)


def run(x, at, weight, starts=None, split=4, layout="rows", block=64, smooth=0.5):
    n_rows = at.shape[0]
    rows, columns = x.shape
    if layout == "rows":
        stride_r, stride_c = x.stride(0), x.stride(1)
    else:
        stride_r, stride_c = x.stride(1), x.stride(0)
    out = torch.empty(x.shape, dtype=torch.int8)
    level = torch.empty(n_rows, dtype=torch.float)
    wide = triton.next_power_of_2(columns)
    wide = max(16, min(128, wide))
    parts = triton.cdiv(rows, split) if starts is None else len(starts)

    def grid(META):
        \"\"\"The grid.\"\"\"
        return n_rows, triton.cdiv(parts, META["BN"])

    gathered[grid](out, x, at, weight, level, rows, rows // 8, stride_r, stride_c, out.stride(0), columns, smooth + 0,
                   STAGES=2 * split, WEIGHTED=weight is not None, BM=wide, BN=block)
    grid = (1,)
    gathered[grid](out)
"""


def test_what_the_host_computes_is_followed_to_the_launch(tmp_path: Path) -> None:
    """Through assignments, branches that the defaults decide, and functions; a name that follows changes nothing."""
    text = drafted(tmp_path, COMPUTED.replace("triton.cdiv(rows, split)", "triton.cdiv(rows, 4)"))
    data = yaml.safe_load(text)
    arguments = {each["name"]: each for each in data["operation"]["arguments"]}
    assert data["grid"] == ["n_rows", "ceil_div(ceil_div(rows, 4), BN)"]
    assert data["derived"] == {"BM": "max(16, min(128, next_power_of_2(C)))", "stride_or": "C"}
    assert {n: arguments[n]["value"] for n in ("part", "stride_xr", "stride_xc")} == {
        "part": "rows // 8",
        "stride_xr": "stride(X, 0)",
        "stride_xc": "stride(X, 1)",
    }
    assert (arguments["OUT"]["shape"], arguments["OUT"]["dtype"]) == (["rows", "C"], "int8")
    assert (arguments["LEVEL"]["shape"], arguments["LEVEL"]["dtype"]) == (["n_rows"], "float32")
    assert "{name: AT, dtype: int32, shape: [n_rows], role: in}  # ? the extents of AT? int32 or int64? what do" in text
    assert "WEIGHT" not in arguments
    assert (data["operation"]["sizes"], data["operation"]["options"]) == (
        {"rows": None, "C": None, "n_rows": None},
        {"smooth": 1.0},
    )
    assert data["parameters"]["BN"] == [64]
    assert data["parameters"]["STAGES"] == [2, 3, 4]
    assert "grid: [1]  # ?" in drafted(tmp_path, COMPUTED)  # the kernel gets no `split`
    blocks = yaml.safe_load(drafted(tmp_path, COMPUTED.replace("torch.empty(n_rows,", "torch.empty((n_rows, block),")))
    assert "BN" in blocks["operation"]["sizes"]  # a shape depends on it, so it cannot be tuned
    assert "BN" not in blocks["parameters"]


MOVED = """\
import torch
import triton
import triton.language as tl


@triton.jit
def turned(OUT, X, S, s0, s1, t0, t1, t2, kept, wide, scale, B: tl.constexpr, LONG: tl.constexpr, BM: tl.constexpr):
    rows = wide - (tl.program_id(0) + 1) * BM + tl.arange(0, BM)
    x = tl.load(X + rows[:, None] * s0 + tl.arange(0, BM)[None, :] * s1)
    block = tl.make_block_ptr(base=S + tl.program_id(1) * t0, shape=(LONG, 16), strides=(t1, t2), offsets=(0, 0),
                              block_shape=(BM, 16), order=(1, 0))
    y = tl.exp(tl.dot(x * scale, tl.load(block)))
    tl.store(OUT + rows[:, None] * 16 + tl.arange(0, 16)[None, :], y.to(tl.int8))


def run(x, s):
    rows, _ = x.shape
    out = torch.empty(rows, 16, dtype=torch.int8)
    turned[unknown(x)](out, x, s, *strides(x, s), scale=0.5)
"""


def test_numbers_in_addresses_are_whole_and_likely_strides_and_tolerances_are_named(tmp_path: Path) -> None:
    text = drafted(tmp_path, MOVED)
    data = yaml.safe_load(text)
    arguments = {each["name"]: each for each in data["operation"]["arguments"]}
    assert {name: arguments[name].get("value") for name in ("s0", "s1", "t0", "t1", "t2", "kept", "wide")} == {
        "s0": "stride(X, 0)",
        "s1": "stride(X, 1)",
        "t0": "stride(S, 0)",
        "t1": "stride(S, 1)",
        "t2": "stride(S, 2)",
        "kept": 1,
        "wide": None,
    }
    assert 'value: "stride(X, 0)"}  # ? of which axis of X?' in text
    assert "kept, dtype: int32, value: 1}  # the kernel does not read it" in text
    assert {name: each["dtype"] for name, each in arguments.items() if each["dtype"] != "int32"} == {
        "OUT": "int8", "X": "real", "S": "real", "scale": "float32",
    }  # fmt: skip
    assert (arguments["X"]["shape"], len(arguments["S"]["shape"])) == (["rows", "x_1"], 3)
    assert set(data["operation"]["sizes"]) == {"wide", "LONG", "rows", "x_1"}
    assert (data["operation"]["options"], data["derived"]) == ({"scale": 0.5}, {"B": 1})
    tolerances = re.findall(r"^  # tolerance: (.*?)    # if ", text, re.MULTILINE)
    assert tolerances == ["1e-3 * TERMS", "{rtol: 64 * epsilon}", "{OUT: 1}"]
    assert "TF32" not in drafted(tmp_path, MOVED.replace("load(block))", "load(block), input_precision='ieee')"))
    looped = MOVED.replace("    y = ", "    for _ in range(0, tl.cdiv(wide, BM)):\n        y = ")
    assert "# tolerance: 1e-3 * wide    # if tl.dot" in drafted(tmp_path, looped)


TILES = """\
import itertools

import triton

if triton.__version__:
    STAGES = [2] + ([] if triton.runtime.driver.active else [3])


def tiles(name="BLOCK", most=64):
    found = []
    for block in [32, 64, 128]:
        if block > most:
            continue
        for stages, warps in itertools.product(STAGES, (4, 8)):
            found.append(triton.Config({name: block}, num_stages=stages, num_warps=warps))
    return found


def activated(x, kind):
    return x if kind == "none" else 2 * x if kind == "twice" else triton.language.maximum(x, 0)
"""
TILED = """\
import triton
import triton.language as tl

from .tiles import activated
from .tiles import tiles as configs


def parts(args):
    'The width of a part.'
    most = triton.next_power_of_2(args["n"])
    return min(most, 16)


@triton.autotune(configs=configs(most=128), key=["n"])
@triton.heuristics({"part": parts})
@triton.jit
def scaled(y_ptr, x_ptr, n: int, limit: float, kind: tl.constexpr, part: tl.constexpr, wide: tl.constexpr,
           BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(y_ptr + i, activated(tl.where(x > limit, x, 0) + tl.sum(tl.zeros((part, wide), tl.float32)), kind),
             mask=i < n)
"""
LAUNCHED = """\
import triton
from .scaled import scaled


def run(y, x, n, limit):
    width = 16
    scaled[lambda META: (triton.cdiv(n, META["BLOCK"]),)](y, x, n, limit, kind, wide=width)
"""


def test_a_draft_reads_loops_of_configurations_in_another_file_and_what_the_launch_and_annotations_say(
    tmp_path: Path,
) -> None:
    (tmp_path / "tiles.py").write_text(TILES)
    (tmp_path / "scaled.py").write_text(TILED)
    (tmp_path / "layers.py").write_text(LAUNCHED)
    text = PythonDraft(tmp_path / "scaled.py", None, tmp_path / "scaled.yaml").text()
    drafted = yaml.safe_load(text)
    assert "which values may kind have? it is also compared with twice, which may compute something else" in text
    (tmp_path / "layers.py").write_text(LAUNCHED.replace("kind,", "'twice',"))
    (tmp_path / "scaled.py").write_text(
        TILED.replace("    most =", "    if args['n'] > 128:\n        return 8\n    most =")
    )
    other = PythonDraft(tmp_path / "scaled.py", None, tmp_path / "scaled.yaml").text()
    assert "kind: [twice]  # ? which values may kind have? it is also compared with none, which may" in other
    assert "part: 0  # ? its value" in other, "two results"
    expected = {"BLOCK": [32, 64, 128], "num_stages": [2, 3], "num_warps": [4, 8], "kind": ["none"], "wide": [16]}
    assert drafted["derived"] == {"part": "min(next_power_of_2(n), 16)"}
    assert (drafted["parameters"], drafted["grid"]) == (expected, ["ceil_div(n, BLOCK)"])
    assert drafted["operation"]["sizes"].keys() == {"n"}
    assert drafted["operation"]["options"].keys() == {"limit"}


CALLED = """\
import torch
import triton
import triton.language as tl

WIDTHS = [2**n for n in range(5, 8)] if is_cuda() and torch.version.hip is None else [999]

if torch.version.hip:
    WIDTHS = [7]


@triton.jit
def rows(acc, keys, ends, first, width, CASE: tl.constexpr, BLOCK: tl.constexpr):
    at = first + tl.arange(0, BLOCK)
    end = tl.load(ends)
    if CASE == 2:
        keys += width
    part = tl.load(keys + at[:, None] * width, mask=at[:, None] < end, other=0.0)
    return acc + tl.exp(tl.sum(part, axis=0)), end


@triton.autotune(configs=[triton.Config({"BLOCK": w}) for w in WIDTHS], key=["n"])
@triton.jit
def total(out, bias, keys, ends, starts, n, width, SCALED: tl.constexpr, CASE: tl.constexpr, HEAD: tl.constexpr,
          BLOCK: tl.constexpr):
    columns = tl.arange(0, HEAD)
    acc = tl.zeros((HEAD,), dtype=tl.float32)
    for first in range(0, n, BLOCK):
        acc, end = rows(acc, keys + columns[None, :], ends, first, width, CASE, BLOCK)
    tl.store(out + tl.program_id(0) * width + columns, acc * (2 if SCALED else 1), mask=columns < width)
    first = keys + tl.load(starts) * width
    acc += tl.sum(tl.load(tl.make_block_ptr(first, (n, width), (width, 1), (0, 0), (BLOCK, HEAD), (1, 0))), axis=0)
    i = tl.arange(0, BLOCK)
    tl.store(bias + (i % n)[:, None] * width + columns[None, :], 0.0, mask=columns[None, :] < width)


def run(q, keys, ends, starts, causal=False):
    batch, dim = q.shape
    head = dim
    out = torch.empty_like(q)
    case = 2 if causal else 1
    total[(len(ends) * 2,)](out, bias, keys, ends, starts, n, width, SCALED=True, CASE=case, HEAD=head)
"""

SWAPPED = """\
import triton
import triton.language as tl


@triton.jit
def span(first, size):
    return first * size + tl.arange(0, size)


@triton.jit
def copy(out, x, n):
    i = span(tl.program_id(0), 64)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


def run(out, x, n):
    out, x = x, out
    copy[(blocks_of(n),)](out, x, n)
"""


PACKED = """\
import torch, triton
import triton.language as tl


@triton.jit
def unpacked(X, B, OUT, cols, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    packed = tl.load(B + at)
    tl.store(OUT + at, tl.load(X + at) * ((packed & 12) >> 2))


def run(x, b):
    cols = x.size(-1)
    rows = x.numel() // cols
    flat, bits = x.view(rows, cols), b.view(torch.uint8)
    out = torch.empty_like(flat)
    unpacked[(rows,)](flat, bits, out, cols, flat.stride(0), BLOCK=64)
"""


def test_views_have_their_extents_and_elements_whose_bits_are_shifted_are_integers(tmp_path: Path) -> None:
    data = yaml.safe_load(text := drafted(tmp_path, PACKED))
    assert {each["name"]: (each["dtype"], each["shape"]) for each in data["operation"]["arguments"][:3]} == {
        "X": ("real", ["rows", "cols"]), "B": ("uint8", ["cols", "cols"]), "OUT": ("real", ["rows", "cols"]),
    }  # fmt: skip
    assert "the extents of B? its bits are shifted: which integers are they" in text
    assert data["grid"] == ["rows"]


def test_what_called_functions_do_counts_as_the_kernel_itself(tmp_path: Path) -> None:
    draft = drafted(tmp_path, CALLED, "total")
    space = yaml.safe_load(draft)
    arguments = {each["name"]: each for each in space["operation"]["arguments"]}
    assert arguments["keys"]["role"] == "in"
    assert arguments["keys"]["dtype"] == "real"
    assert arguments["ends"]["dtype"] == "int32"
    assert "indices are compared with it" in draft
    assert arguments["starts"]["dtype"] == "int32"  # where a block begins
    assert "tl.exp is approximate" in draft
    # HEAD is an extent of an array under another name of the host, CASE a number of a case and no real option.
    assert arguments["out"]["shape"] == ["batch", "HEAD"]
    assert "HEAD" in space["operation"]["sizes"]
    assert space["parameters"]["CASE"] == [1]
    assert "it is also compared with 2" in draft
    assert space["parameters"]["BLOCK"] == [32, 64, 128]
    assert "options" not in space["operation"]
    # Addresses tell likely extents, and the question about the grid has the host's.
    assert arguments["bias"]["shape"] == ["n", "width"]
    assert "the extents of bias?" in draft
    assert "the host has (len(ends) * 2,)" in draft
    # Names of what is called are not the kernel's.
    assert "grid: [1]  # ? how many programs in x, y, z? the host has (blocks_of(n),)" in drafted(
        tmp_path, SWAPPED, "copy"
    )
