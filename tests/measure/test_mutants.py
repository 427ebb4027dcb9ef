"""The check is checked: before a run begins it must reject wrong outputs that are made from the right one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import problems, scope_of, sized
from tuner.catalog import catalog, kernel_lists
from tuner.devices import Device
from tuner.errors import SpaceError
from tuner.measure.answers.referee import Referee
from tuner.measure.verify import input_sets, mutants
from tuner.space import chosen_types, parsing
from tuner.space.answers.cache import ReferenceCache
from tuner.space.computation import Operation
from tuner.space.instance import nominal
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope

# A reference that is a kernel in CUDA or OpenCL C needs their device, whose runs check the mutants.
STAGES = [space for name in kernel_lists.names() if (space := catalog.load(name)).operation.reference.kind != "kernel"]
TYPES = {"float32": "float", "int32": "int", "uint8": "unsigned char"}


def kernel(folder: Path, dtype: str, value: str, reference: str, fill: Any = None, **more: Any) -> Path:
    """Writes a C function that sets each `y[i]` to `value`, and its space; `before` and `after` are its other code."""
    real = TYPES[dtype]
    loop = f"for (int i = 0; i < n; i++) y[i] = {value};"
    code = f"#include <math.h>\nvoid f({real} *y, const {real} *x, int n) {{ {loop} }}\n"
    arguments = [array("y", dtype, ["n"], "out"), array("x", dtype, ["n"], **({"fill": fill} if fill else {}))]
    return written(folder, code, arguments, reference, **more)


def check(file: Path, device: Device, size: str = "1000") -> list[str]:
    """The mutants that are skipped. Raises SpaceError where one is accepted."""
    space = catalog.load(str(file))
    scope = scope_of(space, device, size)
    return mutants.check(space.operation, scope, input_sets.draw(Referee(device, space, ReferenceCache()), scope, 0))


# what a lax tolerance lets through: (type, value, reference, fill, tolerance, what the message says of it)
LAX: dict[str, tuple[str, str, str, Any, Any, str]] = {
    "zeros": ("float32", "0", "x", {"uniform": [1e-9, 1e-8]}, None, "zeros would be accepted"),
    "shift": ("float32", "x[i]", "x", {"uniform": [100, 101]}, 2, "shifted by one element would be accepted"),
    "replaced": ("float32", "pow(x[i], 50)", "x ** 50", None, None, "in which element number"),
    "replaced, and zeros too": ("int32", "x[i]", "x", None, 100, "zeros would be accepted"),
    "poison": ("uint8", "x[i]", "x", {"integers": [0, 255]}, 255, "an output that no kernel has written"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", LAX)
def test_a_tolerance_that_accepts_a_wrong_output_is_refused_before_the_first_trial(
    what: str, tune: Tune, tmp_path: Path
) -> None:
    dtype, value, reference, fill, tolerance, message = LAX[what]
    file = kernel(tmp_path, dtype, value, reference, fill, **({} if tolerance is None else {"tolerance": tolerance}))
    done = tune(file, "1000", "--device", "host")
    assert (done.status, done.out) == (2, "")
    line = done.err.splitlines()[-1]
    assert line.startswith(f"error: {file}: operation.tolerance: y: ")
    assert message in line
    assert "the largest difference is" in line
    assert (
        "; write a smaller one, such as `tolerance: {ulp: 4}`" if tolerance is None else "and the tolerance is"
    ) in line
    assert "which is unverified" in tune("best", file, "1000", "--device", "host").out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "accept"), [("zeros", ["zeros", "shift", "replaced"]), ("shift", ["shift", "replaced"])]
)
def test_what_is_meant_is_accepted(what: str, accept: list[str], host: Device, tune: Tune, tmp_path: Path) -> None:
    dtype, value, reference, fill, tolerance, _ = LAX[what]
    more = {} if tolerance is None else {"tolerance": tolerance}
    for number, missing in enumerate(accept):  # each of them is needed
        file = kernel(tmp_path, dtype, value, reference, fill, accept=accept[:number], **more)
        with pytest.raises(SpaceError, match=f"or write `accept: \\[{missing}\\]` if that is intended"):
            check(file, host)
    file = kernel(tmp_path, dtype, value, reference, fill, accept=accept, **more)
    done = tune(file, "1000", "--device", "host")
    assert done.status == 0, done.err


def test_a_fraction_that_may_be_wrong_says_that_one_element_may(host: Device, tmp_path: Path) -> None:
    file = kernel(tmp_path, "float32", "x[i]", "x", tolerance={"wrong": 0.01})
    assert check(file, host) == ["replaced of y"]
    assert check(file, host, "99") == []  # none may, and none is


@pytest.mark.slow
def test_mutants_that_equal_the_answer_are_skipped_and_the_record_says_so(
    host: Device, tune: Tune, tmp_path: Path
) -> None:
    for value, reference, skipped in (
        ("7", "0 * x + 7", ["shift of y", "replaced of y"]),
        ("x[i]", "x", []),
        ("0", "0 * x", ["zeros of y", "shift of y", "replaced of y"]),
    ):
        file = kernel(tmp_path, "int32", value, reference)
        assert check(file, host) == skipped
    assert tune(file, "1000", "--device", "host").status == 0
    assert tune("best", file, "1000", "--device", "host", "--json").json["record"]["skipped_mutants"] == [
        *skipped,
        "change of argument x",
    ]


@pytest.mark.slow
def test_a_kernel_that_does_nothing_is_a_mutant_of_one_that_updates_its_output(tune: Tune, tmp_path: Path) -> None:
    code = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] += STEP * x[i]; }"
    arguments = [array("y", "float32", ["n"], "inout"), array("x", "float32", ["n"])]
    for step, status in ((0.5, 0), (1e-6, 2)):
        file = written(tmp_path, code.replace("STEP", str(step)), arguments, f"y + {step} * x", tolerance="1e-4")
        done = tune(file, "1000", "--device", "host")
        assert done.status == status, done.err
        assert ("an output that no kernel has written would be accepted" in done.err) == (status == 2)


def test_a_derived_value_that_hides_what_was_not_written_is_refused(tune: Tune, tmp_path: Path) -> None:
    hides = {"derive": {"total": "sum(where(y == y, y, 0))"}, "tolerance": 1e6, "accept": ["zeros"]}
    done = tune(kernel(tmp_path, "float32", "x[i]", "sum(x)", **hides), "1000", "--device", "host")
    assert done.status == 2
    assert "total: an output that no kernel has written would be accepted" in done.err


@pytest.mark.slow
def test_a_kernel_that_does_nothing_is_a_mutant_where_a_value_is_derived_from_what_it_updates(
    tune: Tune, tmp_path: Path
) -> None:
    code = "void f(float *y, int n) { (void)y, (void)n; }"
    derived: dict[str, Any] = {"derive": {"total": "sum(y)"}, "accept": ["zeros"], "tolerance": 1}
    done = tune(written(tmp_path, code, [array("y", "float32", ["n"], "inout")], "sum(y) + 1e-5 * n", **derived), "99")
    assert done.status == 2
    assert "total: an output that no kernel has written would be accepted" in done.err
    file = written(tmp_path, code, [array("y", "float32", ["n"], "inout")], "sum(y)", **derived | {"tolerance": 1e-3})
    assert tune(file, "99", "--device", "host").status == 0
    skipped = tune("best", file, "99", "--device", "host", "--json").json["record"]["skipped_mutants"]
    assert skipped[0] == "poison of total"


def test_a_derived_value_that_is_right_where_nobody_has_written_is_refused(tune: Tune, tmp_path: Path) -> None:
    code = "void f(_Bool *y, const float *x, int n) { (void)y, (void)x, (void)n; }"
    arguments = [array("y", "bool", ["n"], "out"), array("x", "float32", ["n"])]
    done = tune(written(tmp_path, code, arguments, "any(x > 0)", derive={"some": "any(y)"}), "99", "--device", "host")
    assert done.status == 2
    assert "some: an output that no kernel has written would be accepted" in done.err


def equal(inputs: input_sets.InputSet) -> list[str]:
    """The mutants that are no other than the answers: zeros of what is 0, and the order of what is constant."""
    found = []
    for name, elements in inputs.answers.items():
        answer = elements.array()
        if not answer.any():
            found.append(f"zeros of {name}")
        if np.all(answer == answer.reshape(-1)[0]):
            found += [f"shift of {name}", f"replaced of {name}"]
    return found


def of_operations(cases: list[ParameterSet]) -> list[ParameterSet]:
    """Each operation at each size once: stages that share it have the same tolerance and the same answers."""
    operations, kept = list[Operation](), dict[tuple[int, object], ParameterSet]()
    for case in cases:
        space, size = case.values
        if space.operation not in operations:
            operations.append(space.operation)
        kept.setdefault((operations.index(space.operation), size), case)
    return [*kept.values()]


@pytest.mark.slow
@pytest.mark.parametrize(("space", "size"), of_operations(problems(STAGES, [(1,), (2,), (5,), (31,), (100,)])))
def test_the_tolerance_of_every_stage_rejects_all_mutants(space: Space, size: tuple[int, ...], host: Device) -> None:
    op = space.operation
    for options in (op.options, dict(zip(op.options, itertools.cycle((1.5, -0.75))))):
        sizes = parsing.parse_size(sized(space, size), op)
        scope = nominal(space, Scope(sizes, options, space.languages[0], Limits(), chosen_types.defaults(op)))
        inputs = input_sets.draw(Referee(host, space, ReferenceCache()), scope, 0)
        skipped = mutants.check(op, scope, inputs)
        assert skipped == equal(inputs)
        assert not skipped or size <= (2,) or max(answer.size for answer in inputs.answers.values()) == 1
