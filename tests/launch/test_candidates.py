"""What is taken where the best that is known does not run, and what is told of it."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.kernels import CHOOSY, Stage
from helpers.processes import Tune
from helpers.records import choosy
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import BuildError, RequestError
from tuner.store.store import Store

# An edited kernel makes the shipped records stale until it is tuned again; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*earlier version")


@pytest.mark.slow
@pytest.mark.parametrize(("modes", "taken"), [([3, 4, 1, 0], 1), ([3, 4], 0), ([2, 1], 1)])
def test_the_next_best_is_taken_with_a_warning_where_the_best_does_not_run(
    modes: list[int], taken: int, stage: Stage, host: Device, tmp_path: Path
) -> None:
    file = stage(CHOOSY, "choosy", "{mode: [0, 1, 2, 3, 4]}", more="default: {mode: 0}")
    space = catalog.load(str(file))
    assert Store(space.name, tmp_path / "store").add(choosy(host, space, modes))
    with pytest.warns(UserWarning, match=f"mode={taken}>: used because a better configuration does not run here: "):
        kernel = tuner.load(file, 16, device=host, results=tmp_path / "store")
    C, A, B = (np.full((1, 16, 16), 9, np.float32) for _ in "CAB")
    kernel(C, A, B)
    assert (kernel.config, C[0, 0, 0]) == ({"mode": taken}, taken)
    assert kernel.match == ("default" if taken == 0 else "exact")
    if modes == [3, 4]:
        with pytest.raises(BuildError, match="this does not compile"):
            tuner.load(file, 16, device=host, results=tmp_path / "store", strict=True)
    else:
        better = f"/choosy, mode={modes[0]}, on host:0: "
        with pytest.warns(UserWarning, match=f"mode={taken}>: used because .* here: .*{better}"):
            tuner.dispatch(file, device=host, results=tmp_path / "store")(C, A, B)
        assert C[0, 0, 0] == taken


@pytest.mark.slow
def test_what_is_told_of_a_record_is_told_of_the_one_that_is_taken(stage: Stage, host: Device, tmp_path: Path) -> None:
    space = catalog.load(str(stage(CHOOSY, "choosy", "{mode: [0, 1, 2, 3, 4]}", more="default: {mode: 0}")))
    store = Store(space.name, tmp_path / "store")
    fresh, stale = choosy(host, space, [3]), replace(choosy(host, space, [1]), signature="another")
    assert store.add(fresh)
    assert store.add(stale)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kernel = tuner.load(tmp_path / "choosy.yaml", 16, device=host, results=tmp_path / "store")
    assert (kernel.config, kernel.candidate.stale) == ({"mode": 1}, True)
    assert [bool(re.search("earlier version", str(w.message))) for w in told] == [True, False]
    assert store.add(replace(choosy(host, space, [3]), signature="another"))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*earlier version")
        warnings.filterwarnings("ignore", ".*used because")
        assert tuner.load(tmp_path / "choosy.yaml", 16, device=host, results=tmp_path / "store").match == "default"


def test_a_configuration_in_which_a_derived_value_has_none_is_passed_over(
    stage: Stage, host: Device, tmp_path: Path
) -> None:
    more = "default: {mode: 0}\nderived: {inverse: 16 // (mode - 2)}"
    file = stage(CHOOSY, "choosy", "{mode: [0, 1, 2]}", more=more)
    space = catalog.load(str(file))
    assert Store(space.name, tmp_path / "store").add(choosy(host, space, [2, 1]))
    with pytest.warns(UserWarning, match=r"mode=1>: used because .*division"):
        tuner.load(file, 16, device=host, results=tmp_path / "store")


@pytest.mark.slow
def test_a_bundle_that_is_of_no_use_here_is_told_of(tune: Tune, opencl: Device, tmp_path: Path) -> None:
    asked = ("export", "sgemm/03_naive", "64", "--to", "cubin", "--architecture", "sm_80", "--output", tmp_path)
    assert tune(*asked).status == 0
    with pytest.warns(UserWarning, match="has builds for sm_80; opencl:0 is "):
        tuner.load("sgemm/03_naive", 64, device=opencl, binaries=tmp_path)
    with pytest.raises(RequestError, match="was exported for sgemm/03_naive, not for sgemm/06_tiled"):
        tuner.load("sgemm/06_tiled", 64, device=opencl, binaries=tmp_path)
    with pytest.raises(RequestError, match=r"not a folder that .* wrote: launch.json: No such file"):
        tuner.load("sgemm/06_tiled", 64, device=opencl, binaries=tmp_path / "nowhere")
