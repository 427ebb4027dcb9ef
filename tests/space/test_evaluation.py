"""What `tune validate` finds by evaluating a file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers import ROOT
from helpers.damage import FORMULAS, ODD, damaged, torn
from helpers.operations import array
from helpers.processes import Tune

SPACE: dict[str, Any] = {
    "title": "t",
    "operation": {
        "sizes": {"n": None, "m": 3},
        "options": {"alpha": 1.0},
        "extent": ["n"],
        "arguments": [
            {"name": "y", "dtype": "float32", "shape": ["n"], "role": "out"},
            {"name": "x", "dtype": "float32", "shape": ["n"], "role": "in"},
            {"name": "s", "dtype": "int32", "shape": [2], "role": "in", "value": ["n", "m"]},
            {"name": "n", "dtype": "int32"},
        ],
        "reference": "alpha * x",
        "tolerance": "3 * epsilon",
        "flops": "n",
    },
    "kernel": "twice",
    "source": "twice.cu",
    "languages": ["cuda", "opencl"],
    "parameters": {"bx": [32, 64, 0], "tx": [1, 2]},
    "derived": {"d": "bx * tx", "e": "d + 1"},
    "restrictions": [{"that": "bx > 0", "because": "there are threads"}, "d <= 64"],
    "grid_divisors": {"x": ["bx"]},
    "block": ["bx", 1],
    "shared_memory": "4 * bx",
    "default": {"bx": 32, "tx": 1},
}


def write(folder: Path, **changes: Any) -> Path:
    operation = {**SPACE["operation"], **{key: changes.pop(key) for key in [*changes] if key in SPACE["operation"]}}
    (folder / "twice.cu").write_text("void twice() {}\n")
    file = folder / "twice.yaml"
    space = {**SPACE, "operation": operation, **changes}
    file.write_text(yaml.safe_dump({key: value for key, value in space.items() if value is not None}, sort_keys=False))
    return file


@pytest.mark.slow
def test_a_file_is_evaluated_for_its_configurations_at_a_size(tmp_path: Path, tune: Tune) -> None:
    done = tune("validate", write(tmp_path))
    assert (done.status, done.err) == (0, "")
    assert "valid, 2 parameters; evaluated for 3 configurations at n=1024, m=3" in done.out
    assert f"`tune new {tmp_path}/twice.cu` drafts the space file" in tune("validate", tmp_path / "twice.cu").err
    assert tune("validate", tmp_path / "twice.yaml", "8", "--json").json["size"] == {"n": 8, "m": 3}
    for stage in ("sgemm/00_host_simple", "sgemm/04_strided", "sgemm/13_double_buffered", "hgemm/08_mma_pipelined"):
        assert tune("validate", ROOT / f"spaces/{stage}.yaml").status == 0, stage


def test_where_no_configuration_is_valid_the_restriction_is_named(tmp_path: Path, tune: Tune) -> None:
    done = tune("validate", write(tmp_path, restrictions=[{"that": "n == 7", "because": "of seven"}, "bx > 0"]))
    assert (done.status, done.out) == (2, "")
    assert "no configuration is valid at n=1024, m=3: `n == 7` (of seven); try another size or device" in done.err
    assert "for 4 configurations" in tune("validate", tmp_path / "twice.yaml", "7").out
    many = {f"p{i}": list(range(1, 11)) for i in range(9)} | SPACE["parameters"]
    used = f"{' + '.join(many)} > 0"
    done = tune("validate", write(tmp_path, parameters=many, default={}, restrictions=["n == 7", "bx > 0", used]))
    assert (done.status, "`n == 7`; try another size" in done.err) == (2, True)


def test_a_file_is_evaluated_for_a_gpu_that_meets_its_requirements(tmp_path: Path, tune: Tune) -> None:
    file = write(tmp_path, requires={"compute_capability": ">=9.0"}, languages=["cuda"])
    done = tune("validate", file)
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("for 3 configurations at n=1024, m=3, on a GPU of compute capability 9.0\n")
    file = write(tmp_path, requires={"compute_capability": ">=9.0"}, languages=["cuda"], block=["bx / 5"])
    assert "block.0: `bx / 5` is 6.4" in tune("validate", file).err
    file = write(tmp_path, requires={"compute_capability": ">=99"}, languages=["cuda"])
    done = tune("validate", file)
    assert (done.status, "compute_capability >=99` (the stage requires it)" in done.err) == (2, True), done.err
    needs = ["4 * bx * 600 <= max_shared_memory", "4 * bx * 600 > 49152"]
    assert "capability 8.0" in tune("validate", write(tmp_path, languages=["cuda"], restrictions=needs)).out


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "remainder of nothing": ({"restrictions": ["bx % 0 == 0"]}, "restrictions.0: `bx % 0 == 0`: division by zero"),
    "text below a number": ({"restrictions": ["'abc' < 3"]}, "restrictions.0: `'abc' < 3`: '<' not supported"),
    "word below a number": (
        {"parameters": {"bx": [32], "tx": ["one"]}, "default": {}, "derived": {}, "restrictions": ["bx > 0", "tx < 3"]},
        "restrictions.1: `tx < 3`: '<' not supported",
    ),
    "text for a condition": ({"restrictions": ["'abc'"]}, "restrictions.0: `'abc'` is 'abc'; a number, true or"),
    "negative block": ({"block": [-1]}, "block.0: `-1` is -1; at least 1 is needed"),
    "half a block": ({"block": ["bx / 5"]}, "block.0: `bx / 5` is 6.4; a whole number is needed"),
    "no grid": ({"grid": ["n - n"], "grid_divisors": None}, "grid.0: `n - n` is 0; at least 1 is needed"),
    "grid of zero divisors": (
        {"restrictions": [], "block": [32]},
        "grid_divisors: `ceil_div(n, (bx))`: division by zero",
    ),
    "negative memory": ({"shared_memory": "-bx"}, "shared_memory: `-bx` is -32; at least 0 is needed"),
    "derived of zero": ({"derived": {"d": "bx", "e": "1 // (d - 64)"}}, "derived.e: `1 // (d - 64)`: division by zero"),
    "negative flops": ({"flops": "-n"}, "operation.flops: `-n` is -1024; at least 0 is needed"),
    "flops of text": ({"flops": "'many'"}, "operation.flops: `'many'` is 'many'; a number, true"),
    "shape of nothing": ({"extent": ["n - n"]}, "operation.extent.0: `n - n` is 0; at least 1"),
    "reference of lists": (
        {"reference": "x @ [1, 2]"},
        "operation.reference: reference `x @ [1, 2]`: @ needs numbers, not an array of shape (5,) and [1, 2]",
    ),
    "reference of an attribute": (
        {"reference": "x @ x.real"},
        "operation.reference: `x @ x.real`: `x.real` is not allowed here; allowed are numbers, arrays, slices, ",
    ),
    "reference in a module": (
        {"reference": "np.exp(x)"},
        "`np.exp(x)` is not allowed here; write exp(...), without what precedes it; `tune",
    ),
    "reference of what it cannot have": (
        {"reference": "[v for v in x]"},
        "is not allowed here; allowed are numbers, arrays, slices, arithmetic, comparisons, `& | ~` and functions; ",
    ),
    "reference that is null": ({"reference": "null"}, "operation.reference: not a reference; did you mean `none`"),
    "reference that is None": ({"reference": "None"}, "operation.reference: not a reference; did you mean `none`"),
    "reference to an output before the launch": (
        {"reference": "x + y"},
        "operation.arguments.0.role: y: the reference reads what it holds before the launch; write role: inout",
    ),
    "argument that is a word": (
        {"arguments": [array("y", "float32", ["n"], "out"), array("in", "float32", ["n"])], "reference": "2 * in"},
        "operation.arguments.1.name: `in` is a keyword of expressions, so the reference cannot use it; rename the",
    ),
    "reference of another shape": ({"reference": "alpha"}, "operation.reference: reference `alpha` has shape ()"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_has_no_value_is_one_message_with_file_and_key(fault: str, tmp_path: Path, tune: Tune) -> None:
    changes, message = FAULTS[fault]
    file = write(tmp_path, **changes)
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert done.err.startswith(f"error: {file}:")
    assert message in done.err
    assert "array(" not in done.err


def test_a_condition_without_a_value_that_others_exclude_is_no_fault(tmp_path: Path, tune: Tune) -> None:
    assert tune("validate", write(tmp_path, restrictions=["n % bx == 0", "bx > 0"])).status == 0


def test_a_rare_fault_of_a_large_space_is_found(tmp_path: Path, tune: Tune) -> None:
    many = {f"p{i}": list(range(1, 11)) for i in range(9)} | {"bx": [32], "tx": [*range(1, 200), 0]}
    file = write(tmp_path, parameters=many, default={}, restrictions=["64 % tx == 0", "p0 < p1"])
    assert "restrictions.0: `64 % tx == 0`: division by zero" in tune("validate", file).err


def test_a_fault_of_a_shared_operation_names_its_own_file(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "operation.yaml").write_text(yaml.safe_dump({**SPACE["operation"], "flops": "n // abs(n - 1024)"}))
    file = write(tmp_path)
    file.write_text(yaml.safe_dump({**SPACE, "operation": "operation.yaml"}))
    done = tune("validate", file)
    assert f"{tmp_path / 'operation.yaml'}:" in done.err
    assert "flops: `n // abs(n - 1024)`: division by zero, at m=3, n=1024" in done.err
    assert tune("validate", file, "64").status == 0, "it has a value there"


@pytest.mark.slow
def test_a_damaged_file_is_one_message(tmp_path: Path, tune: Tune) -> None:
    write(tmp_path)
    draw, file = random.Random(1), tmp_path / "damaged.yaml"
    for number in range(100):
        text = yaml.safe_dump(damaged(SPACE, draw, [*ODD, *FORMULAS]), width=10**6).encode()
        file.write_bytes(torn(text, draw) if draw.random() < 0.3 else text)
        for verb in ("validate", "show")[: 1 + (number % 4 == 0)]:
            done = tune(verb, file)
            assert done.status in (0, 2)
            assert len(done.err.splitlines()) == done.status // 2, (done.err, text)
            assert len(done.err) < 2000


def of(folder: Path, arguments: list[dict[str, Any]], reference: Any, sizes: list[str], **changes: Any) -> Path:
    return write(folder, **{
        "sizes": dict.fromkeys(sizes), "options": {}, "arguments": arguments, "reference": reference, "flops": None,
        "extent": [sizes[0]], **changes,
    })  # fmt: skip


A, BT = array("A", "float32", ["m", "k"]), array("Bt", "float32", ["n", "k"])
C = array("C", "float32", ["m", "n"], "out")
ROWS, LABELS = array("x", "float32", ["r", "c"]), array("labels", "int32", ["r"], fill={"integers": [0, 999]})
Y = array("y", "float32", ["r"], "out")
WRONG_SHAPES: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "a table for rows of it": (
        [array("y", "float32", ["n", "w"], "out"), array("table", "float32", ["v", "w"])], "table",
        "reference `table` has shape (7, 6); y has (5, 6), at n=5, w=6, v=7",
    ),
    "a product without its transpose": ([C, A, BT], "A @ Bt", "reference `A @ Bt`: "),
    "the other axis": ([Y, ROWS], "argmax(x, axis=0)", "has shape (6,); y has (5,)"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_SHAPES)
def test_a_reference_of_a_wrong_shape_is_found_whatever_the_sizes_are(what: str, tmp_path: Path, tune: Tune) -> None:
    arguments, reference, message = WRONG_SHAPES[what]
    sizes = [*dict.fromkeys(name for a in arguments for name in a["shape"])]
    done = tune("validate", of(tmp_path, arguments, reference, sizes), "64")
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert message in done.err


def test_a_reference_that_needs_alike_or_divisible_sizes_is_valid(tmp_path: Path, tune: Tune) -> None:
    square = [array("y", "float32", ["r", "c"], "out"), ROWS]
    alike = of(tmp_path, square, "x.T", ["r", "c"], restrictions=["r == c", "bx > 0"])
    assert tune("validate", alike, "64").status == 0
    assert "has shape (6, 5)" in tune("validate", of(tmp_path, square, "transpose(x)", ["r", "c"]), "64").err
    assert tune("validate", of(tmp_path, [Y, ROWS], "sum(reshape(x, (r, 4, c // 4)), axis=(1, 2))", ["r", "c"])).out
    smaller = [array("y", "float32", ["r - c + 1"], "out"), array("x", "float32", ["r"]), array("k", "float32", ["c"])]
    assert tune("validate", of(tmp_path, smaller, "correlate(x, k, mode='valid')", ["r", "c"]), "64x8").status == 0


def test_a_reference_that_names_no_argument_leaves_words_as_names(tmp_path: Path, tune: Tune) -> None:
    arguments = [array("y", "float32", ["n"], "out"), array("in", "float32", ["n"])]
    for reference in ("none", "ones(n)"):
        file = write(tmp_path, arguments=arguments, reference=reference)
        file.write_text(file.read_text().replace("  tolerance: 3 * epsilon\n", ""))
        assert tune("validate", file).status == 0


def test_an_index_that_small_arrays_have_no_place_for_is_no_fault(tmp_path: Path, tune: Tune) -> None:
    gathers = ("x[arange(r), labels]", "take(x, labels, axis=1)[:, 0]", "x[:, 999]")
    for reference in gathers:
        done = tune("validate", of(tmp_path, [Y, ROWS, LABELS], reference, ["r", "c"]), "64x1000")
        assert (done.status, done.err) == (0, ""), reference
    done = tune("validate", of(tmp_path, [Y, ROWS, LABELS], "x[arange(r), labels, 0]", ["r", "c"]), "64x1000")
    assert "too many indices" in done.err


def test_a_reference_that_is_too_large_to_be_tried_is_not_judged_before_a_run(tmp_path: Path, tune: Tune) -> None:
    large = write(tmp_path, reference="alpha * x + 0 * sum(ones(2**23))")
    assert tune("validate", large).status == 0
    done = tune("validate", write(tmp_path, reference="alpha * x + 0 * sum(ones(2**33))"))
    assert (done.status, "elements; at most 2147483648 are allowed" in done.err) == (2, True)
