"""Classes of configurations whose outputs have equal bits: found, stored, asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.kernels import Stage, c_kernel
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.errors import RequestError
from tuner.space.values import bit_classes
from tuner.store.store import Store

# Orders 0 and 1 add from the front, 2 from the back, and 3 in every third run from the back. Two would not show if they
# alternated as sets of inputs do.
SUM = """
    static int runs;
    const int backwards = order == 2 || (order == 3 && runs++ % 3 == 0);
    for (int i = 0; i < batch * M; i++) for (int j = 0; j < N; j++) {
        float s = 0;
        for (int l = 0; l < K; l++) {
            const int k = backwards ? K - 1 - l : l;
            s += A[i * K + k] * B[(i / M) * K * N + k * N + j];
        }
        C[i * N + j] = beta == 0 ? alpha * s : alpha * s + beta * C[i * N + j];
    }
"""
NEWS = ("bits", "class_size", "interval", "decided_by")
ORDERS = "{order: [0, 1, 2, 3]}"

BLIND = """
title: Scale without a reference
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  reference: none
kernel: blind
source: blind.c
languages: [c]
parameters: {order: [0, 1, 2], pad: [1]}
default: {order: 0, pad: 1}
"""
BLIND_SOURCE = """
void blind(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = x[i] * (order == 2 ? 3 : 2); }
"""


def summing(stage: Stage) -> Path:
    return stage(c_kernel("summing", SUM), "summing", ORDERS, more="default: {order: 0}")


@pytest.mark.slow
def test_configurations_with_equal_bits_are_told_and_can_be_asked_for(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    file = summing(stage)
    done = tune(file, "16", "--json")
    assert done.status == 0, done.err
    shown = done.json["best"]
    record = tune("best", file, "16", "--json").json["record"]
    best, classes = record["config"]["order"], {each["config"]["order"]: each.get("class") for each in record["next"]}
    assert (record["classes"], record["varying"]) == (2, 1), "0 and 1, and 2; the bits of 3 vary"
    classes[best] = 0 if best != 3 else None
    assert classes[3] is None
    assert classes[0] == classes[1] == record["default_class"] is not None
    assert classes[2] not in (None, classes[0])
    assert record["class_size"] == {0: 2, 1: 2, 2: 1, 3: 0}[best]
    assert bit_classes.do_vary(record["bits"]) == (best == 3)
    assert {key: shown[key] for key in NEWS} == {key: record[key] for key in NEWS}
    assert record["interval"][0] <= record["time_ms"] <= record["interval"][1]

    alike = tuner.load(file, 16, same_bits_as="default")
    assert (alike.config["order"] in (0, 1), alike.match) == (True, "exact")
    assert tuner.load(file, 16, same_bits_as={"order": 2}).config == {"order": 2}
    arrays, bits = [np.random.default_rng(1).random(shape, np.float32) for shape in alike.shapes.values()], []
    for order in (0, 1, 2):
        tuner.load(file, 16, config={"order": order})(*arrays)
        bits.append(arrays[0].tobytes())
    assert bits[0] == bits[1] != bits[2]

    only = tune(file, "16", "--json", "--same-bits-as", "default").json
    assert (only["best"]["config"]["order"] in (0, 1), only["stored"]) == (True, True)
    assert tune("best", file, "16", "--json").json["config"]["order"] == best, "it is a record beside the other"
    own = tuner.load(file, 16, same_bits_as="default").record
    assert own is not None
    assert own.same_bits_as in ("default", "")
    named = tune(file, "16", "--json", "--same-bits-as", "order=2").json
    assert named["best"]["config"] == {"order": 2}
    stored = [*Store.of(catalog.load(str(file))).records]
    assert {each.same_bits_as for each in stored} == {"", "default", "order=2"}
    by_name = {each.same_bits_as: each for each in stored}
    Store.of(catalog.load(str(file))).put(
        [
            replace(by_name["order=2"], same_bits_as=""),
            replace(by_name["default"], same_bits_as="record", time_ms=by_name["default"].time_ms / 1000),
        ]
    )
    of_record = tune(file, "16", "--json", "--same-bits-as", "record").json
    assert (of_record["best"]["config"], of_record["stored"]) == ({"order": 2}, True), "the record has other bits now"

    exported = tmp_path / "trials.json"
    assert tune("export", file, "16", "--to", "t4", "--output", exported).status == 0
    values = {
        result["configuration"]["order"]: each["value"]
        for result in json.loads(exported.read_text())["results"]
        for each in result["measurements"]
        if each["name"] == "bit_class"
    }
    assert values == {0: 0, 1: 0, 2: 1, 3: -1}
    said = tune("explain", file, "16", "--no-measure").out
    assert "3 right configurations give 2 different outputs, bit for bit" in said
    assert "1 more gives other bits from run to run" in said


@pytest.mark.slow
def test_whose_bits_vary_or_are_unknown_cannot_be_asked_for(tune: Tune, stage: Stage) -> None:
    file = summing(stage)
    missing = tune(file, "16", "--same-bits-as", "record", "--budget", "1")
    assert missing.status == 2
    assert "--same-bits-as record: the store has no record of " in missing.err
    varying = tune(file, "16", "--same-bits-as", "order=3")
    assert varying.status == 2
    assert "--same-bits-as order=3: the bits of order=3 differ from run to run" in varying.err
    wrong = tune(file, "16", "--same-bits-as", "order=9")
    assert wrong.status == 2
    assert "'order=9': order=9; write default, record, or a value for each parameter, as in 'order=0'" in wrong.err
    with pytest.raises(RequestError, match='same_bits_as="record": no record of this problem'):
        tuner.load(file, 16, same_bits_as="record")
    with pytest.raises(RequestError, match='write "default", "record", or a configuration'):
        tuner.load(file, 16, same_bits_as="best")
    assert tuner.load(file, 16, same_bits_as={"order": 3}).config == {"order": 3}
    with pytest.raises(RequestError, match=r"^same_bits_as='order=9': order=9; write default, record, or a value"):
        tuner.tune(file, 16, same_bits_as={"order": 9}, progress=False)
    with pytest.raises(RequestError, match=r'^same_bits_as=9: write "default", "record", or a configuration'):
        tuner.tune(file, 16, same_bits_as=9, progress=False)  # type: ignore[arg-type]  # a wrong type is what this tests


@pytest.mark.slow
def test_without_a_reference_no_bits_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_STATE", str(tmp_path / "state"))
    file = tmp_path / "blind.yaml"
    file.write_text(BLIND)
    (tmp_path / "blind.c").write_text(BLIND_SOURCE)
    with pytest.raises(RequestError, match=r"^same_bits_as=order=2: the space has `reference: none`, and only outputs"):
        tuner.tune(file, 16, device="host", results=tmp_path / "store", progress=False, same_bits_as={"order": 2})
    with pytest.raises(RequestError, match=r'same_bits_as="record": the space has `reference: none`, and only outputs'):
        tuner.load(file, 16, device="host", results=tmp_path / "store", same_bits_as="record")
    alone = tuner.load(file, 16, device="host", results=tmp_path / "store", same_bits_as={"order": 2})
    assert alone.config == {"order": 2, "pad": 1}, "a single value may be left out"


HALF = """\
void half_written(float *out, const float *x, int n) {
    for (int i = 0; i < n; i++) out[i] = order ? x[n - 1 - i] : x[n - 1 - i] * 2 - x[n - 1 - i];
}
"""
HALF_WRITTEN = """\
title: The numbers in reverse order, in the first half of an array
operation:
  sizes: {n: }
  arguments:
    - {name: out, dtype: float32, shape: [2 * n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  derive: {used: "out[:n]"}
  reference: {used: "x[::-1]"}
  tolerance: {used: {rtol: 1.0e-5}}
kernel: half_written
source: half_written.c
languages: [c]
parameters: {order: [0, 1]}
"""


@pytest.mark.slow
def test_elements_that_nothing_compares_do_not_make_bits_vary(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "half_written.c").write_text(HALF)
    file = tmp_path / "half_written.yaml"
    file.write_text(HALF_WRITTEN)
    assert tune(file, "64").status == 0
    record = tune("best", file, "64", "--json").json["record"]
    assert not bit_classes.do_vary(record["bits"])
    assert (record["classes"], record["class_size"], record["varying"]) == (1, 2, 0)
