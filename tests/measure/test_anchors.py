"""The vendor's library beside a kernel: its default, the best of its algorithms, and both run after run."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.operations import array, written
from helpers.processes import Tune
from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.devices.base import Library, RoutineCall
from tuner.devices.host.device import HostDevice
from tuner.measure.benchmark import Bench
from tuner.measure.results import Finals
from tuner.space.values import bit_classes

SLEEP_MS = 50.0  # far more than a product takes on a busy machine


class Product:
    """C = A B on the host, in one of several ways."""

    def __init__(self, name: str, how: str, arguments: Mapping[str, Any]) -> None:
        self.name, self._how = name, how
        rows, columns, inner = (arguments[size] for size in ("M", "N", "K"))
        shapes = {"A": (rows, inner), "B": (inner, columns), "C": (rows, columns)}
        self._matrices = {
            name: np.ctypeslib.as_array((ctypes.c_float * (m * n)).from_address(arguments[name])).reshape(m, n)
            for name, (m, n) in shapes.items()
        }

    def __call__(self) -> None:
        match self._how:
            case "fails":
                raise RuntimeError("no such algorithm on this device")
            case "slow":
                time.sleep(SLEEP_MS / 1e3)
        # By one thread, and in doubles: the bits differ from those of a kernel.
        product = np.einsum("ik,kj", self._matrices["A"], self._matrices["B"], dtype=np.float64)
        self._matrices["C"][:] = 0.99 * product if self._how == "wrong" else product


class Vendor(HostDevice):
    """The host, with a library whose best algorithm is neither its default nor the first that it offers."""

    ways: tuple[str, ...] = ("fails", "wrong", "slow", "slow", "slow", "plain")

    def library(self, call: RoutineCall) -> Library | None:
        return Product("BLAS 1", "slow", call.arguments)

    def library_algorithms(self, call: RoutineCall) -> Sequence[Library]:
        return [Product(f"BLAS 1, {way}", way, call.arguments) for way in self.ways]


def finals(device: HostDevice, sustained: float | None = None) -> Finals:
    space = catalog.load("sgemm/01_host_blocked")
    found = Bench(device, space, scope_of(space, device, "160")).finals([space.default], 0.1, sustained=sustained)
    return Finals.from_json(found.to_json())  # as from a worker


@pytest.mark.slow
def test_the_fastest_algorithm_that_is_right_stands_beside_the_default() -> None:
    found = finals(Vendor(0))
    assert found.library is not None
    assert found.best_library is not None
    assert (found.library.library, found.best_library.library) == ("BLAS 1", "BLAS 1, plain")
    assert len(found.best_library.times) == len(found.candidates[0].times), "in the same rounds"
    assert not bit_classes.do_vary(found.candidates[0].bits), "the libraries' bits are not the kernel's"


@pytest.mark.slow
def test_a_library_without_algorithms_has_its_default_alone(host: HostDevice) -> None:
    only = Vendor(0)
    only.ways = ("fails", "wrong")
    assert (finals(only).library is not None, finals(only).best_library) == (True, None)
    assert (finals(host).library, finals(host).best_library) == (None, None)


@pytest.mark.slow
def test_a_launch_without_work_stands_beside_what_is_short(host: HostDevice, opencl: Device) -> None:
    for device, kernel in ((host, "sgemm/01_host_blocked"), (opencl, "sgemm/03_naive")):
        space = catalog.load(kernel)
        found = Bench(device, space, scope_of(space, device, "8")).finals([space.default], 0.1)
        assert found.launch_ms is not None
        assert found.launch_ms > 0


@pytest.mark.slow
def test_the_best_and_both_libraries_are_sustained_in_turns() -> None:
    found = finals(Vendor(0), sustained=0.05)
    for final in (found.candidates[0], found.library, found.best_library):
        assert final is not None
        assert final.sustained is not None
        assert final.sustained.time_ms > 0
        assert (final.sustained.clock_mhz, final.sustained.power_w) == (None, None), "the host has no sensors"
    assert finals(Vendor(0)).candidates[0].sustained is None


# Right on arrays that hold something else; with a = 1 it takes what is right already for an order to spoil it.
SPOILS = """
void f(float *y, const float *x, int n) {
    if (a == 1 && y[1] == 2 * x[1]) { y[0] = 0; return; }
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
#if a == 2
    for (volatile int i = 0; i < 20000000; i++) ;
#endif
}
"""


@pytest.mark.slow
def test_what_is_wrong_run_after_run_fails_and_the_next_is_the_best(host: HostDevice, tmp_path: Path) -> None:
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    space = catalog.load(str(written(tmp_path, SPOILS, arguments, "2 * x", parameters={"a": [1, 2]})))
    bench = Bench(host, space, scope_of(space, host, "1000000"))
    spoilt, right = bench.finals([{"a": 1}, {"a": 2}], 0.1, sustained=0.02).candidates
    assert "back to back: right in its first run" in (spoilt.failure or "")
    assert (right.failure, right.sustained is not None) == (None, True)
    assert [final.failure for final in bench.finals([{"a": 1}, {"a": 2}], 0.1).candidates] == [None, None]


SCALE = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"


@pytest.mark.slow
def test_a_sustained_time_is_stored_and_shown_and_told_where_it_is_left_out(tmp_path: Path, tune: Tune) -> None:
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])]
    file = written(tmp_path, SCALE, arguments, "2 * x")
    done = tune(file, "2000000", "--repeats", "1", "--sustained", "--json")
    run = done.json["best"]["sustained"]["kernel"]
    assert run["time_ms"] > 0
    assert f"sustained: {run['time_ms']:.4g} ms\n" in tune("best", file, "2000000").out
    assert " --sustained " in tune("report", file, "2000000", "--json").json["command"]
    short = tune(file, "10", "--repeats", "1", "--sustained", "--json")
    assert short.json["best"]["sustained"] == {}
    assert "--sustained: left out: the best takes" in short.err


@pytest.mark.parametrize(
    ("shapes", "found"),
    [
        ({}, set()),
        ({"B": ["batch", "N", "K"]}, {"B"}),
        ({"A": ["batch", "K", "M"], "B": ["batch", "N", "K"]}, {"A", "B"}),
        ({"A": ["batch * M", "K"]}, set()),
    ],
)
def test_an_operation_says_by_its_shapes_what_it_stores_transposed(
    shapes: dict[str, list[int | str]], found: set[str], tmp_path: Path
) -> None:
    plain: dict[str, list[int | str]] = {"C": ["M", "N"], "A": ["M", "K"], "B": ["K", "N"]}
    arguments = [array(name, "float32", shape) for name, shape in (plain | shapes).items()]
    arguments[0]["role"] = "out"
    sizes = {**dict.fromkeys("MNK"), "n": 1, "batch": 1}
    file = written(tmp_path, "void f() {}", arguments, "C", sizes=sizes, extent=["M"], library="gemm")
    assert catalog.load(str(file)).operation.transposed == found
