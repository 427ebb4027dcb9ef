"""`tune evaluate` on honest kernels and on requests that are wrong."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.operations import array, written
from helpers.processes import Tune
from tuner.errors import RequestError
from tuner.judging.comparison import ComparedRuns
from tuner.judging.rounds import TimedLook, result
from tuner.judging.verdict import Refusal
from tuner.measure.bound import Bound
from tuner.space import dtypes
from tuner.space.values.elements import Held

FOLDER = Path(__file__).parent / "cheats"
SPACE = FOLDER / "blend_host.yaml"
OWN = FOLDER / "blend_host.c"
FEW = ("--rounds", "5", "--hidden", "2", "--verify", "10")


@pytest.mark.slow
def test_a_receipt_has_all_that_its_verdicts_rest_on_and_they_are_found_again(tmp_path: Path, tune: Tune) -> None:
    names = ("same", "wrong", "broken", "other", "fewer", "wide")
    same, wrong, broken, other, fewer, wide = (tmp_path / f"{name}.c" for name in names)
    same.write_text(OWN.read_text())
    wrong.write_text(OWN.read_text().replace("0.25f", "0.26f"))
    broken.write_text(OWN.read_text().replace("0.25f", ""))
    other.write_text("void other(float *z) { z[0] = 0; }")
    fewer.write_text("void blend(float *z, const float *x) { z[0] = x[0]; }")
    wide.write_text(OWN.read_text().replace("int n", "long n", 1))
    receipt = tmp_path / "receipt.json"
    files = (same, wrong, broken, other, fewer, wide)
    asked = ("--against", SPACE, "--sizes", "300", "--sizes", "700", *FEW, "--device", "host")
    done = tune("evaluate", *files, *asked, "--json", "--receipt", receipt)
    assert done.status == 1
    found = done.json
    assert found == json.loads(receipt.read_text())
    own, *refused = found["verdicts"]
    assert (own["verdict"], own["reasons"], own["right"], own["bits_repeat"]) == ("accepted", [], True, True)
    assert [times["size"] for times in own["times"]] == [{"n": 300}, {"n": 700}]
    for times in own["times"]:
        assert times["rounds"] == 5
        assert 0 < times["interval"][0] <= times["time_ms"] <= times["interval"][1]
        assert times["speedup"] == sorted(times["speedup"])
    assert own["errors"]["wrong"] == 0 < own["errors"]["elements"]
    assert re.fullmatch(r"z\[\d+\]", own["errors"]["where"])
    codes = [reason["code"] for each in refused for reason in each["reasons"]]
    assert codes == ["wrong", "compile", "signature", "signature", "signature"]
    assert refused[-1]["reasons"][0]["message"].endswith("not int32; take what the space's kernel takes")
    assert not refused[-1]["trusted_code_only"]  # it has had no process
    assert [each["compiles"] for each in refused] == [True, False, True, False, False]
    assert refused[0]["errors"]["wrong"] > 0
    hidden = [each["size"] for each in found["judged_on"][0]["hidden"]]
    assert len(hidden) == 2
    assert hidden[0]["n"] % 2 == 1
    assert not [size for size in hidden if size in ({"n": 300}, {"n": 700})]
    assert found["judged_on"][0]["hidden"][-1]["options"] != {"alpha": 1.0}

    again = tune("evaluate", "--verify-receipt", receipt, "--json")
    assert not [text for text in again.json["differences"] if " x as fast " not in text]  # speeds, on a busy machine
    assert [each["reasons"] for each in again.json["now"]["verdicts"]] == [
        each["reasons"] for each in found["verdicts"]
    ]
    wrong.write_text(OWN.read_text())
    changed = tune("evaluate", "--verify-receipt", receipt)
    assert changed.status == 1
    assert "wrong.c: another text: its hash differs" in changed.out
    assert "reasons: wrong then, none now" in changed.out


@pytest.mark.slow
def test_the_fastest_of_several_configurations_is_judged(tmp_path: Path) -> None:
    file = tmp_path / "slow.c"
    file.write_text(
        "#include <unistd.h>\n" + OWN.read_text().replace("    for", "    if (chunk == 16) usleep(90000);\n    for", 1)
    )
    [verdict] = tuner.evaluate(file, SPACE, 300, device="host", rounds=5, hidden=1, verify=5, tune=2).verdicts
    assert (verdict.codes, verdict.config) == ([], {"chunk": 64})


@pytest.mark.slow
def test_rounds_are_added_while_noise_decides(tmp_path: Path) -> None:
    copy, slower = tmp_path / "copy.c", tmp_path / "slower.c"
    copy.write_text(OWN.read_text())
    slower.write_text("#include <unistd.h>\n" + OWN.read_text().replace("    for", "    usleep(20000);\n    for", 1))
    judged = tuner.evaluate([copy, slower], SPACE, 300, device="host", rounds=8, hidden=0, verify=1)
    (same,), (other,) = (verdict.times for verdict in judged.verdicts)
    assert 8 < same.rounds <= 2 * 8 * 16 or (same.rounds, same.decision) == (8, "as fast")
    assert other.decision == "slower"


@pytest.mark.slow
def test_options_that_are_too_small_to_be_seen_are_larger_at_a_hidden_size(tmp_path: Path) -> None:
    code = "void f(float *y, const float *x, float s, int n) { for (int i = 0; i < n; i++) y[i] = x[i] + s * x[i]; }"
    arguments = [array("y", "float32", ["n"], "out"), array("x", "float32", ["n"]), {"name": "s", "dtype": "float32"}]
    space = written(tmp_path, code, arguments, "x + s * x", options={"s": 1e-9})
    candidate = tmp_path / "without.c"
    candidate.write_text(code.replace(" + s * x[i]", ""))
    judged = tuner.evaluate(candidate, space, 300, device="host", rounds=5, hidden=1, verify=1)
    assert [verdict.codes for verdict in judged.verdicts] == [["wrong_hidden_size"]]


def test_a_decision_needs_two_looks_that_say_the_same() -> None:
    one, two = [1 + 1e-4 * each for each in range(11)], [2 + 1e-4 * each for each in range(11)]
    faster, slower, same = TimedLook(one, two), TimedLook(two, one), TimedLook(one, one)
    problem: Any = SimpleNamespace(size={"n": 1})

    def decision(*looks: TimedLook) -> str:
        return result(problem, looks, 0.0, None, None).decision

    assert [decision(look) for look in (faster, slower, same)] == ["faster", "slower", "as fast"]
    assert [decision(look, look) for look in (faster, slower)] == ["faster", "slower"]
    assert {decision(faster, slower), decision(faster, same), decision(same, slower)} == {"undecided"}
    assert result(problem, [faster, faster], 0.0, None, None).rounds == 22
    noisy = TimedLook(one, [each * (1.1 if place % 2 else 0.9) for place, each in enumerate(one)])
    assert decision(noisy) == decision(TimedLook(one[:5], two[:5])) == "undecided"


TWO_STEPS = """
title: Twice, then one more
operation:
  sizes: {n: }
  extent: [n]
  arguments:
    - {name: z, dtype: float32, shape: [n], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: y, dtype: float32, shape: [n], role: scratch}
    - {name: n, dtype: int32}
  reference: 2 * x + 1
languages: [c]
parameters: {unused: [1, 2]}
steps:
  - {kernel: first, source: first.c, arguments: [y, x, n]}
  - {kernel: last, source: last.c, arguments: [z, y, n]}
"""
FIRST = "void first(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }\n"
LAST = "void last(float *z, const float *y, int n) { for (int i = 0; i < n; i++) z[i] = y[i] + 1; }\n"


@pytest.mark.slow
def test_one_text_takes_the_place_of_several_sources(tmp_path: Path) -> None:
    space, whole, part = (tmp_path / name for name in ("two.yaml", "whole.c", "part.c"))
    space.write_text(TWO_STEPS)
    (tmp_path / "first.c").write_text(FIRST)
    (tmp_path / "last.c").write_text(LAST)
    whole.write_text(FIRST + LAST)
    part.write_text(FIRST)
    done = tuner.evaluate([whole, part, whole], space, 300, device="host", rounds=5, hidden=1, verify=2)
    assert [verdict.codes for verdict in done.verdicts] == [[], ["signature"], []], done.verdicts
    assert set(done.receipt["kernel"]) == {"first.c", "last.c"}


PARTS = """
title: The sums of parts
operation:
  sizes: {n: }
  arguments:
    - {name: sums, dtype: float32, shape: ["ceil_div(n, part)"], role: out}
    - {name: x, dtype: float32, shape: [n], role: in}
    - {name: n, dtype: int32}
  derive: {total: sum(sums)}
  reference: {total: sum(x)}
  tolerance: {total: epsilon * n}
kernel: parts
source: parts.c
languages: [c]
parameters: {part: [32, 8]}
default: {part: 8}
"""
SUMS = """
void parts(float *sums, const float *x, int n) {
    for (int begin = 0; begin < n; begin += part) {
        sums[begin / part] = 0;
        for (int i = begin; i < n && i < begin + part; i++) sums[begin / part] += x[i];
    }
}
"""


@pytest.mark.slow
def test_shapes_may_depend_on_the_configuration_unless_it_is_searched(tmp_path: Path) -> None:
    space, right, short = tmp_path / "parts.yaml", tmp_path / "parts.c", tmp_path / "short.c"
    space.write_text(PARTS)
    right.write_text(SUMS)
    short.write_text(SUMS.replace("i < n &&", "i + 1 < n &&"))
    done = tuner.evaluate([right, short], space, 300, device="host", rounds=5, hidden=1, verify=2)
    assert [(verdict.codes, verdict.config) for verdict in done.verdicts] == [
        ([], {"part": 8}),
        (["wrong"], {"part": 8}),
    ]
    with pytest.raises(RequestError, match="parts depends on the configuration"):
        tuner.evaluate(right, space, 300, device="host", tune=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent.c", "--against", str(SPACE), "--sizes", "9"), "absent.c: cannot be read"),
        (("pipe.c", "--against", str(SPACE), "--sizes", "9"), "pipe.c: cannot be read: not a regular file"),
        (("mine.cl", "--against", str(SPACE), "--sizes", "9"), "in a file that ends in .c"),
        (("mine.c", "--sizes", "9"), "--against: name a space"),
        (("--against", str(SPACE)), "CANDIDATES: name a file"),
        (("mine.c", "--against", str(SPACE)), "SIZE is missing"),
        (("mine.c", "--against", str(SPACE), "--sizes", "0"), "size"),
        (("mine.c", "--against", "gallery/texture", "--sizes", "9"), "no candidate can be evaluated|takes the text"),
        (("mine.c", "--against", str(SPACE), "--sizes", "9", "--timeout", "0"), "--timeout .0.: write a number"),
        (("mine.c", "--against", str(SPACE), "--sizes", "9", "--rounds", "1"), "--rounds"),
        (("--verify-receipt", "mine.c"), "mine.c: is no receipt"),
        (("--verify-receipt", "absent.json"), "absent.json: cannot be read"),
        (("mine.c", "--verify-receipt", "absent.json"), "leave them out"),
        (("mine.c", "--against", str(SPACE), "--sizes", "9", "--receipt", "no/folder.json"), "there is no folder"),
    ],
)
def test_a_wrong_request_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tune: Tune, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine.c", "mine.cl"):
        Path(name).write_text(OWN.read_text())
    os.mkfifo("pipe.c")
    done = tune("evaluate", *arguments)
    assert (done.status, done.out) == (2, "")
    assert re.search(message, done.err), done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_an_output_is_unwritten_only_if_all_its_wrong_elements_hold_what_was_there(dtype: type[np.generic]) -> None:
    answer = np.arange(200).astype(dtype)
    before = answer[::-1].copy()  # of other inputs: what a kernel writes may equal some of it
    half, other = answer.copy(), (answer + np.ones(200, dtype)).astype(dtype)
    half[100:] = before[100:]
    other[7] = before[7]
    bound = Bound(dtypes.of(np.dtype(dtype)), atol=1e-7)
    for output, code in ((half, "unwritten"), (other, "wrong")):
        with pytest.raises(Refusal) as refused:
            ComparedRuns().compare("y", Held(output), Held(answer), bound, before.view(np.uint8), "wrong")
        assert refused.value.reason.code == code
