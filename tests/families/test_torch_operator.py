"""`tuner.torch.operator`: the schema that follows from a space file, and the operator on the processor."""

from __future__ import annotations

import gc
import importlib.util
import weakref
from pathlib import Path
from typing import Any

import pytest

import tuner
from tuner.catalog import catalog
from tuner.errors import ArgumentError, RequestError
from tuner.torch.signature import Signature

SPACE = """\
title: of a test
operation:
  sizes: {sizes}
  options: {{by: 2.0}}
  types: {{real: [float32, float64]}}
  arguments:
{arrays}
    - {{name: n, dtype: int32}}
    - {{name: by, dtype: float32}}
  reference: {reference}
kernel: k
source: k.c
languages: [c]
parameters: {{mode: [0, 1]}}
"""
KERNELS = {  # sizes, reference, arrays, and what a call does
    "scale": ("{n: }", "by * x", "y out [n], x in [n]", "while (n--) y[n] = by * x[n];"),
    "add": ("{n: }", "y + by * x", "y inout [n], x in [n]", "while (n--) y[n] += by * x[n];"),
    "steps": (
        "{n: }",
        "{d: 'x[1:] - x[:-1]', s: by * x}",
        "d out [n], x in [n + 1], s out [n + 1]",
        "s[n] = by * x[n]; while (n--) { s[n] = by * x[n]; d[n] = x[n + 1] - x[n]; }",
    ),
    "fill": ("{m: , n: 8}", "by * x[0]", "y out [n], x in [m]", "while (n--) y[n] = by * x[0];"),
    "repeat": (
        "{n: }",
        "x[arange(n * int(by)) % n]",
        "y out [n * by], x in [n]",
        "for (int i = 0; i < n * (int)by; i++) y[i] = x[i % n];",
    ),
    "halves": (
        "{n: }",
        "by * x",
        "y out [(n + 1) // 2], x in [(n + 1) // 2]",
        "for (n = (n + 1) / 2; n--;) y[n] = by * x[n];",
    ),
}
SCHEMAS = {
    "scale": ("(Tensor x, *, float by=2.0) -> Tensor", "(Tensor(a!) y, Tensor x, *, float by=2.0) -> ()"),
    "add": ("(Tensor y, Tensor x, *, float by=2.0) -> Tensor", "(Tensor(a!) y, Tensor x, *, float by=2.0) -> ()"),
    "steps": (
        "(Tensor x, *, float by=2.0) -> (Tensor, Tensor)",
        "(Tensor(a!) d, Tensor x, Tensor(c!) s, *, float by=2.0) -> ()",
    ),
    "fill": ("(Tensor x, *, SymInt n=8, float by=2.0) -> Tensor", "(Tensor(a!) y, Tensor x, *, float by=2.0) -> ()"),
    "repeat": ("(Tensor x, *, float by=2.0) -> Tensor", "(Tensor(a!) y, Tensor x, *, float by=2.0) -> ()"),
    "halves": (
        "(Tensor x, *, SymInt n, float by=2.0) -> Tensor",
        "(Tensor(a!) y, Tensor x, *, SymInt n, float by=2.0) -> ()",
    ),
}


def written(folder: Path, name: str) -> Path:
    """The space file of a kernel of a test's own."""
    sizes, reference, arrays, body = KERNELS[name]
    parts = [array.split(maxsplit=2) for array in arrays.split(", ")]
    passed = "".join(f"{'const ' if role == 'in' else ''}real *{array}, " for array, role, _ in parts)
    (folder / "k.c").write_text(f"void k({passed}int n, float by) {{ {body} }}")
    file = folder / f"{name}.yaml"
    listed = "\n".join(
        f"    - {{name: {array}, dtype: real, shape: {shape}, role: {role}}}" for array, role, shape in parts
    )
    file.write_text(SPACE.format(sizes=sizes, arrays=listed, reference=reference))
    return file


class Graphs(list[Any]):
    """A backend of torch.compile that runs graphs as they are, and keeps them."""

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.append(graph)
        return graph.forward


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def operator(torch: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """The operator of the kernel that the test names."""
    return tuner.torch.operator(f"tuner_test::{request.param}_{tmp_path.name}", written(tmp_path, request.param))


@pytest.mark.parametrize("name", KERNELS)
def test_the_schema_follows_from_the_space_file(name: str, tmp_path: Path) -> None:
    signature = Signature.of(catalog.load(str(written(tmp_path, name))).operation)
    assert (signature.functional, signature.out) == SCHEMAS[name]


@pytest.mark.parametrize(
    ("name", "like"), [("scale", 0), ("halves", 0), ("steps", None), ("fill", None), ("repeat", None)]
)
def test_a_result_that_is_always_like_an_input_is_known(name: str, like: int | None, tmp_path: Path) -> None:
    assert Signature.of(catalog.load(str(written(tmp_path, name))).operation).like == like


def test_shapes_and_types_of_results_follow_from_those_of_the_inputs(tmp_path: Path) -> None:
    signature = Signature.of(catalog.load(str(written(tmp_path, "steps"))).operation)
    assert signature.result_shapes([(6,)], {}) == [(5,), (6,)]
    assert signature.types(["float64"]) == ["float64", "float64"]


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_one_message_says_so() -> None:
    with pytest.raises(RequestError, match="needs torch, which is not installed; pip install torch"):
        _ = tuner.torch.operator


def expected(torch: Any, name: str, by: float, *inputs: Any) -> tuple[Any, ...]:
    match name:
        case "scale":
            return (by * inputs[0],)
        case "add":
            return (inputs[0] + by * inputs[1],)
        case "steps":
            return inputs[0].diff(), by * inputs[0]
    return (by * inputs[0][:1].expand(8),)


@pytest.mark.parametrize("operator", ["scale", "add", "steps", "fill"], indirect=True)
def test_both_variants_compute_what_the_kernel_does_and_pass_the_checks_of_torch(
    operator: Any, torch: Any, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["operator"]
    for dtype in (torch.float32, torch.float64):
        inputs = [torch.randn(50, dtype=dtype) for _ in range(2 if name == "add" else 1)]
        kept = [x.clone() for x in inputs]
        given = operator(*inputs, by=3.0)
        wanted = expected(torch, name, 3.0, *inputs)
        torch.testing.assert_close(given if isinstance(given, tuple) else (given,), wanted)
        torch.testing.assert_close(inputs, kept, rtol=0, atol=0)
    results = [x.clone() if name == "add" else torch.empty_like(x) for x in wanted]
    if name == "add":
        results = [inputs[0].clone()]
    arrays = [results[0], inputs[-1], *results[1:]]
    assert operator.out(*arrays, by=3.0) is None
    torch.testing.assert_close(tuple(results), wanted)
    for overload, tensors in ((operator.default, inputs), (operator.out, arrays)):
        told = torch.library.opcheck(overload, tensors, {"by": 3.0})
        assert set(told.values()) == {"SUCCESS"}, told


@pytest.mark.parametrize("operator", ["scale"], indirect=True)
def test_it_is_compiled_once_for_all_sizes(operator: Any, torch: Any) -> None:
    compiled = Graphs()

    @torch.compile(dynamic=True, fullgraph=True, backend=compiled)
    def function(x: Any) -> Any:
        y = operator(x + 1, by=3.0)
        operator.out(x, y)
        return y

    for n in (10, 11, 500):
        x = torch.randn(n)
        before = x.clone()
        torch.testing.assert_close(function(x), 3 * (before + 1))
        torch.testing.assert_close(x, 6 * (before + 1))
    assert len(compiled) == 1


@pytest.mark.parametrize("operator", ["add"], indirect=True)
def test_tensors_that_are_not_contiguous_are_taken(operator: Any, torch: Any) -> None:
    y, x = torch.randn(20)[::2], torch.randn(30)[::3]
    torch.testing.assert_close(operator(y, x), y + 2 * x)
    wanted = y + 2 * x
    operator.out(y, x)
    torch.testing.assert_close(y, wanted)


@pytest.mark.parametrize("operator", ["fill"], indirect=True)
def test_a_size_that_no_shape_tells_is_passed_by_name(operator: Any, torch: Any) -> None:
    x = torch.randn(3)
    assert [tuple(operator(x, n=n).shape) for n in (5, 8)] == [(5,), (8,)]
    torch.testing.assert_close(operator(x, n=5), 2 * x[:1].expand(5))


@pytest.mark.parametrize("operator", ["fill"], indirect=True)
def test_kernels_of_a_few_sets_of_sizes_are_kept(operator: Any, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tuner.families.dispatcher import Dispatcher
    from tuner.torch import operators

    monkeypatch.setattr(operators, "MOST_CACHED", 4)
    alive = weakref.WeakSet[Dispatcher]()
    with_sizes = Dispatcher.with_sizes

    def counted(self: Dispatcher, sizes: dict[str, int]) -> Dispatcher:
        alive.add(made := with_sizes(self, sizes))
        return made

    monkeypatch.setattr(Dispatcher, "with_sizes", counted)
    x = torch.randn(3)
    for n in range(1, 20):
        operator(x, n=n)
    gc.collect()
    assert 1 <= len(alive) <= 4


@pytest.mark.parametrize("operator", ["scale"], indirect=True)
def test_parameters_are_taken_where_nothing_tracks_them(operator: Any, torch: Any) -> None:
    x = torch.nn.Parameter(torch.randn(5))
    with torch.no_grad():
        torch.testing.assert_close(operator(x), 2 * x)
        operator.out(x, torch.ones(5))
    torch.testing.assert_close(x.detach(), torch.full((5,), 2.0))


@pytest.mark.parametrize("operator", ["scale"], indirect=True)
def test_what_would_need_a_gradient_is_refused_until_one_is_registered(operator: Any, torch: Any) -> None:
    x = torch.nn.Parameter(torch.randn(5))

    def new(x: Any) -> Any:
        return operator(x)

    def into(x: Any) -> Any:
        operator.out(y := torch.empty(5), 2 * x)
        return (y * x).sum()

    for call in (new, into):
        with pytest.raises(
            ArgumentError, match=r"requires grad, which a kernel does not track; call it under torch\.no_"
        ):
            call(x)
        with pytest.raises(RuntimeError, match="requires grad, which a kernel does not track"):
            torch.compile(call, backend="aot_eager", fullgraph=True)(x)
        with torch.no_grad():
            call(x)


@pytest.mark.parametrize("operator", ["scale"], indirect=True)
def test_torch_compiles_nothing_of_what_runs_in_it(operator: Any, torch: Any) -> None:
    compiled = Graphs()

    @torch.compile(backend=compiled)
    def function(x: Any) -> Any:
        for _ in range(2):  # a break here makes torch run the rest as it is
            torch._dynamo.graph_break()
            y = operator(x)
        return y

    x = torch.randn(5)
    torch.testing.assert_close(function(x), 2 * x)
    assert not compiled


@pytest.mark.parametrize("operator", ["scale"], indirect=True)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_gradient_can_be_registered(operator: Any, torch: Any, is_compiled: bool) -> None:
    def keep(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        ctx.by = keyword_only_inputs["by"]

    torch.library.register_autograd(operator.default, lambda ctx, grad: grad * ctx.by, setup_context=keep)
    x = torch.nn.Parameter(torch.randn(5))
    function = torch.compile(operator, backend="aot_eager", fullgraph=True) if is_compiled else operator
    function(x, by=3.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((5,), 3.0))
    assert set(torch.library.opcheck(operator.default, (x,), {"by": 3.0}).values()) == {"SUCCESS"}


@pytest.mark.parametrize("operator", ["scale"], indirect=True)
def test_torch_hears_of_what_is_written(operator: Any, torch: Any) -> None:
    x, y = torch.nn.Parameter(torch.ones(5)), torch.randn(5)
    product = x * y  # whose gradient needs y
    operator.out(y, torch.ones(5))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():
        z = torch.empty(5)
        operator.out(z, torch.ones(5))
    assert z.tolist() == [2.0] * 5


@pytest.mark.parametrize("operator", ["repeat"], indirect=True)
def test_a_shape_may_depend_on_an_option(operator: Any, torch: Any) -> None:
    x = torch.randn(3)
    torch.testing.assert_close(operator(x), x.repeat(2))
    assert set(torch.library.opcheck(operator.default, (x,)).values()) == {"SUCCESS"}
    with pytest.raises(RequestError, match="the shape of an array depends on it, so it is fixed"):
        operator(x, by=3.0)


@pytest.mark.parametrize("operator", ["halves"], indirect=True)
def test_a_size_that_a_shape_tells_not_for_sure_is_passed_by_name(operator: Any, torch: Any) -> None:
    x = torch.randn(4)
    for n in (7, 8):
        torch.testing.assert_close(operator(x, n=n), 2 * x)
        operator.out(y := torch.zeros(4), x, n=n)
        torch.testing.assert_close(y, 2 * x)


def test_an_extent_that_is_no_whole_number_is_one_message(tmp_path: Path) -> None:
    signature = Signature.of(catalog.load(str(written(tmp_path, "repeat"))).operation)
    with pytest.raises(ArgumentError, match=r"y: its extent n \* by is 7.5; a whole number is needed"):
        signature.result_shapes([(3,)], {"by": 2.5})


def test_bfloat16_is_taken_on_the_processor(torch: Any, tmp_path: Path) -> None:
    (tmp_path / "flip.c").write_text(
        "void flip(real *y, const real *x, int n) { for (int i = 0; i < n; i++) y[i] = x[i] ^ 0x8000; }"
    )
    (tmp_path / "flip.yaml").write_text(
        "title: the other sign\noperation:\n  sizes: {n: }\n  types: {real: [bfloat16]}\n  arguments:\n"
        "    - {name: y, dtype: real, shape: [n], role: out}\n    - {name: x, dtype: real, shape: [n], role: in}\n"
        "    - {name: n, dtype: int32}\n  reference: -x\nkernel: flip\nlanguages: [c]\nparameters: {unused: [0]}\n"
    )
    flip = tuner.torch.operator(f"tuner_test::flip_{tmp_path.name}", tmp_path / "flip.yaml")
    x = torch.randn(6, dtype=torch.bfloat16)
    torch.testing.assert_close(flip(x), -x)
    y = torch.zeros(12, dtype=torch.bfloat16)[::2]
    flip.out(y, x)
    torch.testing.assert_close(y, -x)


def test_a_wrong_type_is_refused_whatever_was_called_before(torch: Any, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "void k(real *z, const real *x, const real *y, int n, int m) {"
        " for (int i = 0; i < n * m; i++) z[i] = x[i / m] * y[i % m]; }"
    )
    arrays = "".join(
        f"    - {{name: {name}, dtype: real, shape: {shape}, role: {role}}}\n"
        for name, shape, role in (("z", "[n, m]", "out"), ("x", "[n]", "in"), ("y", "[m]", "in"))
    )
    (tmp_path / "outer.yaml").write_text(
        "title: an outer product\noperation:\n  sizes: {n: , m: }\n  types: {real: [float32, float64]}\n  arguments:\n"
        f"{arrays}    - {{name: n, dtype: int32}}\n    - {{name: m, dtype: int32}}\n"
        "  reference: reshape(x, (n, 1)) * y\nkernel: k\nsource: k.c\nlanguages: [c]\nparameters: {unused: [0]}\n"
    )
    outer = tuner.torch.operator(f"tuner_test::outer_{tmp_path.name}", tmp_path / "outer.yaml")
    x, y = torch.randn(4), torch.randn(5)
    for _ in range(2):
        for wrong in ((x, y.double()), (x.double(), y)):
            with pytest.raises(ArgumentError, match=r"[xy]: has .*float"):
                outer(*wrong)
        torch.testing.assert_close(outer(x, y), torch.outer(x, y))


@pytest.mark.parametrize("operator", ["scale"], indirect=True)
def test_what_does_not_fit_is_one_message(operator: Any, torch: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"x: has shape \(2, 2\); required: \(n\)"):
        operator(torch.randn(2, 2))
    with pytest.raises(ArgumentError, match="has dtype 'int64'; required: float32 or float64"):
        operator(torch.arange(3))
    name = f"tuner_test::scale_{tmp_path.name}"
    with pytest.raises(RequestError, match="this name is registered already"):
        tuner.torch.operator(name, tmp_path / "scale.yaml")
    with pytest.raises(RequestError, match="write namespace and name, as mylib::scale"):
        tuner.torch.operator("scale", tmp_path / "scale.yaml")
