"""Outputs without an answer, inputs that were drawn, and functions in C that return their own time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import SpaceError
from tuner.measure.benchmark import Bench
from tuner.measure.results import Outcome
from tuner.space import identity
from tuner.space.model import Space

SOURCE = """
float twice(float *y, float *log, const float *x, int n) {{
    for (int i = 0; i < n; i++) {{ y[i] = 2 * x[i]; {body} }}
    return {time};
}}
"""

FILE = """
title: twice, with a log of calls
operation:
  sizes: {{n: 100}}
  arguments:
    - {{name: y, dtype: float32, shape: [n], role: out}}
    - {{name: log, dtype: float32, shape: [n], role: inout{log}}}
    - {{name: x, dtype: float32, shape: [n], role: in, fill: {{file: x.npy{drawn}}}}}
    - {{name: n, dtype: int32}}
  reference: {reference}
kernel: twice
languages: [c]
{timing}
parameters: {{scale: [1, 2]}}
"""


def space(
    folder: Path,
    body: str = "log[i] += 1;",
    time: str = "scale * 0.25f",
    log: str = ", compared: false",
    drawn: str = "",
    reference: str = "2 * x",
    timing: str = "timing: returned",
    seed: int = 0,
) -> Space:
    np.save(folder / "x.npy", np.random.default_rng(seed).random(100, dtype=np.float32))
    (folder / "twice.c").write_text(SOURCE.format(body=body, time=time))
    (folder / "twice.yaml").write_text(FILE.format(log=log, drawn=drawn, reference=reference, timing=timing))
    return catalog.load(str(folder / "twice.yaml"))


def outcome_of(space: Space, host: Device, scale: int) -> Outcome:
    return Bench(host, space, scope_of(space, host, "100")).measure({"scale": scale})


def test_an_output_that_is_not_compared_may_hold_anything_but_nothing_beside_it_is_written(
    tmp_path: Path, host: Device
) -> None:
    assert outcome_of(space(tmp_path), host, scale=1).failure is None
    outside = space(tmp_path, body="log[i + (i == n - 1)] = 1;")
    assert outcome_of(outside, host, scale=1).failure == "writes outside"


def test_an_output_has_an_answer_unless_the_file_says_that_it_has_none(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="an expression for each output: y, log"):
        space(tmp_path, log="")
    with pytest.raises(SpaceError, match="an expression for each output: y;"):
        space(tmp_path, reference="{y: 2 * x, log: log + 1}")


def test_a_function_that_returns_its_time_returns_a_float(tmp_path: Path) -> None:
    space(tmp_path)
    source = tmp_path / "twice.c"
    source.write_text(source.read_text().replace("float twice", "double twice"))
    with pytest.raises(SpaceError, match="timing: twice returns double; let it return its time in ms as a float"):
        catalog.load(str(tmp_path / "twice.yaml"))


def test_the_time_that_a_function_returns_is_its_time(tmp_path: Path, host: Device) -> None:
    outcome = outcome_of(space(tmp_path), host, scale=2)
    assert set(outcome.times) == {0.5}


def test_the_clock_times_a_function_that_returns_something_else(tmp_path: Path, host: Device) -> None:
    outcome = outcome_of(space(tmp_path, timing=""), host, scale=2)
    assert outcome.failure is None
    assert 0.5 not in outcome.times


@pytest.mark.parametrize("time", ["0", "-1", "0.0f / 0.0f", "1.0f / 0.0f"])
def test_what_is_no_time_fails_the_configuration(time: str, tmp_path: Path, host: Device) -> None:
    outcome = outcome_of(space(tmp_path, time=time), host, scale=1)
    assert "as its time in ms" in outcome.log


def test_only_a_function_returns_its_time(tmp_path: Path) -> None:
    file = tmp_path / "twice.yaml"
    space(tmp_path)
    (tmp_path / "twice.c").rename(tmp_path / "twice.cu")
    file.write_text(file.read_text().replace("languages: [c]", "languages: [cuda]\ngrid: [1]\nblock: [32]"))
    with pytest.raises(SpaceError, match="timing: only a function in C"):
        catalog.load(str(file))


def test_what_a_drawn_file_holds_is_no_part_of_the_identity_of_a_study(tmp_path: Path) -> None:
    ids = {
        drawn: [identity.of(space(tmp_path, drawn=drawn, seed=seed)) for seed in (1, 2)]
        for drawn in ("", ", drawn: true")
    }
    (first, second), (drawn, again) = ids.values()
    assert first != second
    assert drawn == again


def test_the_inputs_from_a_drawn_file_are_those_of_the_file(tmp_path: Path, host: Device) -> None:
    drawn = space(tmp_path, drawn=", drawn: true")
    bench = Bench(host, drawn, scope_of(drawn, host, "100"))
    assert bench.workbench.inputs.contents["x"].array() == pytest.approx(np.load(tmp_path / "x.npy"))
