from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from jsonschema.protocols import Validator

from helpers import ROOT
from helpers.processes import Tune
from tuner.catalog import catalog, kernel_lists
from tuner.errors import SpaceError
from tuner.space import launch_form
from tuner.space.file import reader

SPACE = f"""\
title: t
operation: {ROOT}/spaces/sgemm/operation.yaml
kernel: sgemm_naive
source: {ROOT}/kernels/sgemm/03_naive.cu
languages: [cuda, opencl]
parameters:
  block_size_x: [16, 32]
  block_size_y: [1, 2, 0]
"""

# name of the file's fault: (text, what the message must say besides the file)
FAULTS = {
    "empty": ("", ":1: holds nothing"),
    "list": ("- a\n", ":1: holds a list"),
    "duplicate": (SPACE + "title: again\n", ":9: the key 'title' appears twice"),
    "tabs": ("title: t\n\tkernel: x\n", ":2: not YAML"),
    "cyclic": ("a: &x\n  b: *x\n", ":1: anchors and aliases"),
    "deep": ("[" * 100_000, ":1: nested more than"),
    "long": (SPACE + f"grid: [{'(, ' * 200_000}]\n", ":9: `(, (, (, (, (, (, (, (, (, (, (, (, (, (...` has more than"),
    "tag": ("title: !!python/object/apply:os.system [id]\n", ":1: tags such as"),
    "two documents": (SPACE + "---\ntitle: u\n", "a second document"),
    "a colon in a text": (
        "title: t: u\n",
        ":1: not YAML: mapping values are not allowed here; put a text that contains",
    ),
    "no colon": (
        "title t\nkernel: k\n",
        "in quotes, or mend the line before, which may lack its `:` or be indented less\n",
    ),
    "indentation": ("parameters:\n  a: [1]\n   b: [1]\n", "; indent the keys of a mapping by the same number"),
    "bytes": ("title: \x00\n", "not YAML"),
    "misspelt": (SPACE + "restrictons: []\n", ":9: restrictons: unknown key; did you mean `restrictions`?"),
    "misspelt and so missing": (SPACE.replace("parameters:", "paramters:"), ":6: paramters: unknown key; did you mean"),
    "missing key": (SPACE.replace("title: t\n", ""), "title: this key is missing"),
    "code": (SPACE + "restrictions: [\"__import__('os').system('id')\"]\n", ":9: restrictions.0: "),
    "attribute": (SPACE + "restrictions: ['().__class__']\n", ":9: restrictions.0: "),
    "huge": (SPACE + "restrictions: [9**9**9]\n", ":9: restrictions.0: `9 ** 9 ** 9`: ** with an exponent beyond 64"),
    "unknown name": (SPACE + "restrictions: [block_size_z > 1]\n", "did you mean block_size"),
    "no entry point": (SPACE.replace("kernel: sgemm_naive", "kernel: nope"), ":3: kernel: "),
    "no source": (SPACE.replace("03_naive.cu", "99.cu"), ":4: source: the kernel file is missing"),
    "language": (SPACE.replace("opencl]", "opencll]"), ":5: languages.1: 'opencll'"),
    "no values": (SPACE.replace("[16, 32]", "[]"), ":7: parameters.block_size_x: "),
    "a word for a list": (
        SPACE.replace("[16, 32]", "16, 32"),
        ":7: parameters.block_size_x: '16, 32': a list is needed; write [",
    ),
    "a list for a mapping": (SPACE + "derived: [a]\n", ":9: derived: a list: a mapping is needed, as in `name: value`"),
    "nothing for a list": (SPACE + "restrictions:\n", ":9: restrictions: None: a list is needed\n"),
    "a mapping for a list": (SPACE + "grid: {x: 1}\n", ":9: grid: a mapping: a list is needed"),
    "a number for a comparison": (
        SPACE + "requires: {compute_capability: '= 8.0'}\n",
        ":9: requires.compute_capability: '= 8.0' is not a comparison; write one such as '>=8.0'",
    ),
    "value is code": (SPACE.replace("[16, 32]", "['1;x']"), ":7: parameters.block_size_x.0: "),
    "one and true": (SPACE.replace("[16, 32]", "[1, true]"), ":7: parameters.block_size_x.1: True appears twice"),
    "matrices": (
        SPACE + "restrictions: [block_size_x @ 2 > 1]\n",
        ":9: restrictions.0: `block_size_x @ 2 > 1`: @ is allowed only",
    ),
    "unary": (SPACE + f"restrictions: ['{'-' * 900}1 > 0']\n", ":9: restrictions.0: "),
    "escape": (SPACE + 'source_note: "\\UFFFFFFFF"\n', "not YAML"),
    "header path": (SPACE + "compile_options: {cuda: [-Iinclude]}\n", ":9: compile_options.cuda.0: '-Iinclude'"),
    "leading zeros": (
        SPACE.replace("[16, 32]", "[016, 032]"),
        ":7: 016 is not a decimal number; remove the leading zeros",
    ),
    "a range as in Python": (
        SPACE.replace("[16, 32]", "[1:32]"),
        ":7: 1:32 is not a decimal number; write a range as {from: 1, to: 32}, or",
    ),
    "value twice": (SPACE.replace("[16, 32]", "[16, 16]"), ":7: parameters.block_size_x.1: 16 appears twice"),
    "taken name": (SPACE + "derived: {M: 3}\n", ":9: derived.M: this name is taken"),
    "default": (SPACE + "default: {block_size_x: 5, block_size_y: 1}\n", ":9: default.block_size_x: 5 is not"),
    "half a default": (SPACE + "default: {block_size_x: 16}\n", ":9: default: no value for block_size_y"),
    "four dimensions": (SPACE + "block: [1, 1, 1, 1]\n", ":9: block: "),
    "grid twice": (SPACE + "grid: [1]\ngrid_divisors: {x: [1]}\n", ":9: grid: both"),
    "scalar": (SPACE + "arguments: [{name: x, dtype: int32}]\n", ":9: arguments.0: x: a scalar has either the name"),
    "two values": (
        SPACE + "arguments: [{name: M, dtype: int32, value: N}]\n",
        ":9: arguments.0: M: a scalar has either the name of a size, option or loop variable, or a `value`",
    ),
    "too few values": (
        SPACE + "arguments: [{name: s, dtype: int32, shape: [3], role: in, value: [M, N]}]\n",
        ":9: arguments.0.value: 2 values; s is of shape [3]: write one for each element",
    ),
    "values of a shape that varies": (
        SPACE + "arguments: [{name: s, dtype: int32, shape: [M], role: in, value: [M, N]}]\n",
        ":9: arguments.0.value: 2 values; s is of shape [M]: write one for each element, and the shape as numbers",
    ),
    "too many values": (
        SPACE + "arguments: [{name: x, dtype: int32, value: [M, N]}]\n",
        ":9: arguments.0.value: 2 values; x is a scalar",
    ),
    "value is no expression": (
        SPACE + "arguments: [{name: s, dtype: int32, shape: [2], role: in, value: [M, 'N;']}]\n",
        ":9: arguments.0.value: `N;` is not an expression",
    ),
    "value of an unknown name": (
        SPACE + "arguments: [{name: x, dtype: int32, value: blocks}]\n",
        ":9: arguments.0.value: `blocks`: unknown name 'blocks'",
    ),
    "array of options": (
        SPACE + "arguments: [{name: s, dtype: float32, shape: [1], role: in, value: [alpha]}]\n",
        ":9: arguments.0.value: `alpha`: unknown name 'alpha'",
    ),
    "values of an output": (
        SPACE + "arguments: [{name: s, dtype: int32, shape: [1], role: out, value: [M]}]\n",
        ":9: arguments.0.role: 'out': s has a `value`; write `in`",
    ),
    "no operation": (
        SPACE.replace("operation.yaml", "nothing.yaml"),
        "nothing.yaml: there is no such file; name a YAML file",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_file_is_one_message_with_file_line_and_key(fault: str, tmp_path: Path, tune: Tune) -> None:
    text, expected = FAULTS[fault]
    path = tmp_path / "space.yaml"
    path.write_text(text)
    done = tune("validate", path)
    assert (done.status, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert expected in done.err
    assert "Traceback" not in done.err
    assert (str(path) in done.err) or "nothing.yaml" in done.err


def test_a_source_in_the_folder_of_kernels_is_named(tmp_path: Path) -> None:
    for folder in ("kernels/filters", "spaces/filters"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "kernels/filters/edges.cu").write_text("")
    (tmp_path / "spaces/filters/edges.yaml").write_text(SPACE.replace(f"{ROOT}/kernels/sgemm/03_naive.cu", "edges.cu"))
    with pytest.raises(SpaceError, match=r"create it, or name another, such as \.\./\.\./kernels/filters/edges\.cu$"):
        reader.read(tmp_path / "spaces/filters/edges.yaml")


def test_a_file_of_50_mb_is_not_read(tmp_path: Path, tune: Tune) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    done = tune("validate", path)
    assert done.status == 2
    assert "50000000 bytes" in done.err


def test_a_folder_or_device_is_not_read(tmp_path: Path, tune: Tune) -> None:
    for path in (tmp_path, "/dev/zero"):
        done = tune("validate", path)
        assert done.status == 2
        assert "not a file" in done.err


def test_an_edited_operation_in_another_folder_is_seen(tmp_path: Path) -> None:
    operation = (ROOT / "spaces/sgemm/operation.yaml").read_text()
    (tmp_path / "common.yaml").write_text(operation)
    (tmp_path / "own").mkdir()
    (tmp_path / "own/space.yaml").write_text(SPACE.replace(f"{ROOT}/spaces/sgemm/operation.yaml", "../common.yaml"))
    assert catalog.load(str(tmp_path / "own/space.yaml")).operation.options["alpha"] == 1.0
    (tmp_path / "common.yaml").write_text(operation.replace("alpha: 1.0", "alpha: 3.0"))
    assert catalog.load(str(tmp_path / "own/space.yaml")).operation.options["alpha"] == 3.0


def test_a_number_with_an_exponent_needs_no_point(tmp_path: Path) -> None:
    operation = (ROOT / "spaces/sgemm/operation.yaml").read_text().replace("alpha: 1.0", "alpha: -1e-12")
    operation = operation.replace("role: in}", "role: in, fill: {choice: [-1.5e30]}}", 1)
    (tmp_path / "operation.yaml").write_text(operation)
    text = SPACE.replace(f"{ROOT}/spaces/sgemm/operation.yaml", "operation.yaml").replace("[1, 2, 0]", "[1, 2e+0]")
    (tmp_path / "space.yaml").write_text(text)
    space = catalog.load(str(tmp_path / "space.yaml"))
    assert (space.operation.options["alpha"], space.parameters["block_size_y"]) == (-1e-12, (1, 2.0))
    (filled,) = [each for each in space.operation.arguments if each.fill is not None]
    assert "-1.5e+30" in repr(filled.fill)


def test_a_fault_in_the_operation_names_the_operations_own_file(tmp_path: Path) -> None:
    operation = (ROOT / "spaces/sgemm/operation.yaml").read_text().replace("role: inout", "role: output")
    (tmp_path / "operation.yaml").write_text(operation)
    (tmp_path / "space.yaml").write_text(SPACE.replace(f"{ROOT}/spaces/sgemm/operation.yaml", "operation.yaml"))
    with pytest.raises(SpaceError, match=r"operation\.yaml:6: arguments\.0\.role: 'output'"):
        reader.read(tmp_path / "space.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("name", kernel_lists.names())
def test_every_shipped_file_is_valid_and_survives_its_launch_form(name: str) -> None:
    path, _ = catalog.find(name)
    space = reader.read(path, name)
    assert launch_form.from_json(json.loads(json.dumps(launch_form.to_json(space)))) == space
    assert space.default, "every stage runs untuned"


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "spaces").rglob("[0-9]*.yaml")), ids=lambda p: p.stem)
def test_the_published_schema_accepts_every_shipped_file(path: Path, published: Validator) -> None:
    published.validate(yaml.safe_load(path.read_text()))


def test_the_published_schema_refuses_what_the_reader_refuses(tune: Tune, published: Validator) -> None:
    assert tune("schema").json == published.schema
    with pytest.raises(jsonschema.ValidationError):
        published.validate(yaml.safe_load(SPACE + "restrictons: []\n"))


def test_a_call_in_brackets_stays_whole_though_yaml_parts_it_at_commas(tmp_path: Path, tune: Tune) -> None:
    file = tmp_path / "own.yaml"
    calls = "grid: [ceil_div(M, block_size_x), max(1, min(2, 1), 3), 1]\n"
    mapping = "restrictions: [{that: max(block_size_x, 1) < 64, because: we (you, I) say so}, min(M, N) > 0]\n"
    file.write_text(SPACE.replace("2, 0]", "2]") + calls + mapping)
    space = reader.read(file)
    assert [e.text for e in space.steps[0].grid] == ["ceil_div(M, block_size_x)", "max(1, min(2, 1), 3)", "1"]
    assert [str(r) for r in space.restrictions[:2]] == [
        "`max(block_size_x, 1) < 64` (we (you, I) say so)", "`min(M, N) > 0`"
    ]  # fmt: skip
    file.write_text(SPACE + "grid: [ceil_div(M, 2, 1]\n")
    assert "'(' was never closed" in tune("validate", file).err
