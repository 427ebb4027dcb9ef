"""`tuner.Space`: what it accepts, what it refuses, and the space file that says the same."""

from __future__ import annotations

import functools
import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.python_spaces import OPERATION, SOURCE, scale
from helpers.spaces import WIDEST, on
from tuner.catalog import catalog
from tuner.errors import ExpressionError, NoConfiguration, SpaceError
from tuner.search.listing import listed
from tuner.space import identity, launch_form
from tuner.space.file.schema import SpaceModel
from tuner.space.sources.rendering import Version

PORTABLE = "GLOBAL float *y, GLOBAL const float *x, int n, float a"


def valid(space: tuner.Space, n: int = 1000) -> list[tuple[Any, ...]]:
    """The values of the valid configurations, sorted."""
    pool = listed(space.model, on(space.model, {"n": n}, WIDEST))
    return sorted(tuple(config.values()) for config in pool.configs())


def test_a_space_of_python_is_that_of_the_file_with_the_same_words(tmp_path: Path) -> None:
    space = scale(
        title="Multiply",
        name="mine/scale",
        parameters={"unroll": (1, np.int64(2)), "width": range(1, 5), "wide": [False, True]},
        restrictions=["unroll * width <= n", {"that": "width != 3", "because": "it is odd"}],
        derived={"both": "unroll * width"},
        default={"unroll": 1, "width": 2, "wide": True},
    )
    text = space.to_yaml(tmp_path / "sub" / "scale.yaml")
    read = catalog.load(str(tmp_path / "sub" / "scale.yaml"))
    assert (tmp_path / "sub" / "scale.yaml").read_text() == text
    assert (tmp_path / "sub" / "scale.c").read_text() == SOURCE
    assert read.parameters == space.model.parameters == {"unroll": (1, 2), "width": (1, 2, 3, 4), "wide": (False, True)}
    assert read.restrictions == space.model.restrictions
    assert (read.operation, read.derived, read.default) == (
        space.model.operation,
        space.model.derived,
        space.model.default,
    )
    assert Version.of(read) == Version.of(space.model)
    assert identity.of(read) == identity.of(space.model)
    assert repr(space) == "<Space mine/scale: unroll, width, wide; 16 combinations>"


def test_paths_are_relative_to_the_folder_and_in_a_space_file_to_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "scale.c").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    here, there = scale(source="kernels/scale.c"), scale(source=Path("scale.c"), folder="kernels")
    assert here.model.sources == there.model.sources == (tmp_path / "kernels" / "scale.c",)
    assert here.name == f"{tmp_path.name}/scale"
    assert there.name == "kernels/scale"
    assert "source: kernels/scale.c\n" in here.to_yaml()
    assert "source: ../kernels/scale.c\n" in here.to_yaml(tmp_path / "spaces" / "scale.yaml")
    (source,) = catalog.load(str(tmp_path / "spaces" / "scale.yaml")).sources
    assert source.samefile(tmp_path / "kernels" / "scale.c")


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    for name in ("a;b", "{c}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scale.c").write_text(SOURCE)
        assert scale(source=tmp_path / name / "scale.c").model.sources == (tmp_path / name / "scale.c",)


def test_each_step_and_the_reference_may_have_a_text_of_its_own(tmp_path: Path) -> None:
    texts = [SOURCE.replace("scale", name).replace("unroll * width", "1") for name in ("first", "second", "naive")]
    space = scale(
        kernel=None,
        source=None,
        steps=[{"kernel": "first", "source": texts[0]}, {"kernel": "second", "source": texts[1]}],
        reference={"kernel": "naive", "source": texts[2]},
        parameters={"unroll": [1]},
    )
    assert [source.read_text() for source in space.model.sources] == texts[:2]
    space.to_yaml(tmp_path / "both.yaml")
    assert [(tmp_path / name).read_text() for name in ("both.c", "both1.c", "both2.c")] == texts
    assert identity.of(catalog.load(str(tmp_path / "both.yaml"))) != identity.of(scale().model)


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("__global__ void scale(float *y, const float *x, int n, float a) {}", ("cuda",)),
        ("__kernel void scale(__global float *y, __global const float *x, int n, float a) {}", ("opencl",)),
        (f'#include "portable.h"\nKERNEL void scale({PORTABLE}) {{}}', ("cuda", "opencl")),
        (SOURCE, ("c",)),
    ],
)  # fmt: skip
def test_the_language_of_a_text_is_that_which_it_looks_like(text: str, languages: tuple[str, ...]) -> None:
    assert scale(source=text, block=[1], grid=[1]).model.languages == languages


def fits(unroll: int, width: int, n: int, limit: int = 4) -> bool:
    return unroll * width <= min(limit, n)


class Fits:
    def __call__(self, unroll: int, width: int) -> Any:
        return np.bool_(unroll * width <= 4)


ALL_FITTING = [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)]


@pytest.mark.parametrize(
    "function",
    [
        fits,
        lambda unroll, width: unroll * width <= 4,
        lambda width, /, *, unroll: unroll * width <= 4,
        lambda p: p["unroll"] * p["width"] <= 4,
        lambda **p: p["unroll"] * p["width"] <= 4,
        functools.partial(lambda most, unroll, width: unroll * width <= most, 4),
        Fits(),
        lambda product: product <= 4,
        [fits],
    ],
    ids=["def", "lambda", "kinds", "dictionary", "keywords", "partial", "object", "derived", "list"],
)
def test_a_function_restricts_by_names_or_by_the_configuration(function: Any) -> None:
    assert valid(scale(restrictions=function, derived={"product": "unroll * width"})) == ALL_FITTING


def test_a_function_reads_sizes_and_decides_anew_at_each() -> None:
    space = scale(restrictions=[fits, "unroll > 1"])
    assert valid(space) == [(2, 1), (2, 2), (4, 1)]
    assert valid(space, 2) == [(2, 1)]
    with pytest.raises(NoConfiguration, match=r"at n=0: `fits\(\) of test_python_spaces\.py:\d+`"):
        valid(scale(restrictions=[fits]), 0)
    most = [4]
    captured = scale(restrictions=[lambda unroll, width: unroll * width <= most[0]])
    assert valid(captured) == ALL_FITTING
    most[0] = 1
    assert valid(captured) == [(1, 1)]


def test_options_that_a_function_reads_are_fixed_also_for_workers() -> None:
    space = scale(restrictions=[lambda unroll, a, n: unroll < a * n]).model
    in_worker = launch_form.from_json(json.loads(json.dumps(launch_form.to_json(space))))
    assert space.fixed_options == in_worker.fixed_options == {"a"}
    assert len(in_worker.restrictions_of_sizes) == len(space.restrictions_of_sizes) == 1


def test_a_function_that_raises_is_named_with_the_configuration_unless_another_restriction_excludes_it() -> None:
    def divides(unroll: int, width: int) -> bool:
        return 1 // (unroll * width - 2) >= -1

    where = r"`divides\(\) of test_python_spaces\.py:\d+`: it raises ZeroDivisionError: .* at unroll=1 width=2"
    with pytest.raises(ExpressionError, match=f"restriction {where}"):
        valid(scale(restrictions=[divides]))
    assert valid(scale(restrictions=[divides, "unroll * width != 2"])) == [(1, 1), (2, 2), (4, 1), (4, 2)]
    with pytest.raises(ExpressionError, match=r"it raises TypeError: .*; its parameter is a dictionary at unroll="):
        valid(scale(restrictions=[lambda unrol: unrol > 1]))
    with pytest.raises(ExpressionError, match="it returns None; return true or false at unroll="):
        valid(scale(restrictions=[lambda unroll: None]))


def test_a_single_restriction_needs_no_list() -> None:
    for single in ("unroll > 1", {"that": "unroll > 1", "because": "it is odd"}, lambda unroll: unroll > 1):
        assert len(scale(restrictions=single).model.restrictions) == 1


def test_the_keywords_are_the_keys_of_a_space_file() -> None:
    keywords = inspect.signature(tuner.Space).parameters.keys() - {"name", "folder", "unknown"}
    assert keywords == SpaceModel.model_fields.keys()


def test_arrays_are_inputs_whose_contents_identify_a_space_unless_they_are_drawn_anew() -> None:
    ones, twos = np.ones(1000, np.float32), np.full(1000, 2, np.float32)
    one, same, other = (scale(**fill(array)).model for array in (ones, ones.copy(), twos))
    assert identity.of(one) == identity.of(same) != identity.of(other)
    drawn, anew = (scale(**fill({"file": array, "drawn": True})).model for array in (ones, twos))
    assert identity.of(drawn) == identity.of(anew)
    assert identity.of(scale(**fill({"uniform": np.array([0, 2])})).model) == identity.of(
        scale(**fill({"uniform": [0, 2]})).model
    )


def fill(value: Any) -> dict[str, Any]:
    return {
        "arguments": [{**each, **({"fill": value} if each["name"] == "x" else {})} for each in OPERATION["arguments"]]
    }


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"restriction": []}, "Space .*/scale: restriction: unknown key; did you mean `restrictions`"),
        ({"parameters": {"unroll": []}}, r"Space .*/scale: parameters.unroll: 0 entries; at least 1 is needed"),
        ({"parameters": {"unroll": {1, 2}}}, "parameters.unroll: a set; write a number, a word, a list"),
        ({"parameters": {1: [2]}}, "parameters: the key 1 is a int; write a word"),
        ({"parameters": {"unroll": [1]}, "restrictions": ["unrol > 1"]}, "restrictions.0: .*did you mean unroll"),
        ({"restrictions": [lambda unrol, width: True]}, "restrictions.0: .*unknown name 'unrol'; did you mean unroll"),
        ({"restrictions": [lambda a, b: True]}, "restrictions.0: .*unknown name 'b'"),
        ({"restrictions": [max]}, "restrictions.0: .*"),
        (
            {"derived": {"both": lambda unroll: 1}},
            "derived.both: <lambda> of .*: only restrictions, .* may be functions",
        ),
        ({"source": "scale.c"}, "source: the kernel file is missing: .*scale.c"),
        ({"source": "void other() {}"}, "kernel: .*has no entry point 'scale'; it defines other"),
        ({"parameters": None}, "parameters: this key is missing; add it"),
        ({"compile_options": ["-O2"]}, r"compile_options: a list; write the language .*, as in {cuda: \[-O2\]}$"),
        ({"restrictions": [3.5]}, "restrictions.0: 3.5: a mapping is needed, as in `name: value`$"),
        ({"folder": 3}, "Space: folder: 3: write the path of a folder"),
        ({"name": "../up"}, "name: '../up': write words"),
        ({"name": "sgemm/03_naive"}, "a kernel of tuner has this name"),
        (
            {"reference": lambda x, y, b: x},
            r"operation.reference: test_.*: <lambda> asks for b; it may ask for y, x, n, a",
        ),
        ({"reference": max}, "operation.reference: max.*: its parameters are unknown"),
        (fill(lambda x: 1), "operation.arguments.1.fill: x: test_.*: <lambda> asks for x; it may ask for rng, n, a"),
        (fill(np.array([None])), "operation.arguments.1.fill: an array of object; write one of numbers"),
    ],
)
def test_a_mistake_gives_one_message_with_its_key(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message) as caught:
        scale(**keys)
    assert "\n" not in str(caught.value)


def test_a_space_file_holds_no_python() -> None:
    for keys, message in [
        ({"restrictions": ["unroll > 1", fits]}, r"restrictions\.1: 'fits\(\) of .*' is Python, not YAML; write it as"),
        (
            {"reference": lambda x: 2 * x},
            r"operation\.reference: '<lambda> of .*' is Python, not YAML; write it as an exp",
        ),
        (fill(lambda n: 1), r"operation\.arguments\.1\.fill: .* is Python, not YAML; write it into a file and"),
        (fill(np.ones(1000, np.float32)), r"operation\.arguments\.1\.fill: an array; save it as a \.npy file"),
    ]:
        with pytest.raises(SpaceError, match=message):
            scale(**keys).to_yaml()
