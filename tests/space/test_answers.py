"""What may say which answers are right besides an expression: a kernel, a configuration, a function, nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import tuner
from helpers.processes import Tune
from helpers.references import DEVICES, KERNEL, PYTHON, REFERENCES, WRONG, space

SAID = {
    "kernel": "; outputs compared with the kernel naive",
    "config": "; outputs compared with one of its configurations: ",
}


@pytest.mark.slow
@pytest.mark.usefixtures("untuned")
@pytest.mark.parametrize(
    ("kind", "language"), [("expression", "c"), ("python", "opencl"), ("kernel", "opencl"), ("config", "c")]
)
def test_a_right_kernel_is_stored_with_what_verified_it_and_a_wrong_one_refused(
    kind: str, language: str, tmp_path: Path, tune: Tune
) -> None:
    file = space(tmp_path / "mine", REFERENCES[kind], language, "a * x[i] + (i % 64 == 63 ? step : 1)")
    file.write_text(file.read_text().replace("  step:\n  - 1\n", "  step:\n  - 1\n  - 2\n"))
    assert tune("validate", file).status == 0
    done = tune(file, "100", "--device", DEVICES[language])
    assert done.status == 0, done.err
    assert ("runs check.py:expected of" in done.err) == (kind == "python")
    assert " failed: wrong result, " in done.err
    assert "y[63] = " in done.err
    assert "unverified" not in done.out + done.err
    best = tune("best", file, "100", "--device", DEVICES[language], "--json").json
    assert (best["match"], best["record"]["verified"], best["config"]["step"]) == ("exact", kind, 1)
    assert best["record"]["input_sets"] in {2, 3}  # two if the machine was so busy that drawing one took over a second
    again = tune("run", file, "100", "--device", DEVICES[language])
    assert again.status == 0, again.err
    assert "; verified, largest error" in again.out
    assert ("runs check.py:expected of" in again.err) == (kind == "python")
    best_text = tune("best", file, "100", "--device", DEVICES[language]).out
    for out in (done.out, again.out, best_text):
        assert ("compared with" in out, SAID.get(kind, "") in out) == (kind in SAID, True)
    assert tune("report").out.count(", outputs compared with ") == (2 if kind in SAID else 0)  # results and gains


@pytest.mark.slow
def test_the_reference_may_be_a_configuration_that_is_named(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", {"config": {"threads": 64, "step": 1}}, "opencl")
    done = tune(file, "100", "--device", "opencl")
    assert done.status == 0, done.err
    assert "; outputs compared with one of its configurations: step=1 threads=64\n" in done.out


@pytest.mark.slow
def test_a_record_of_another_reference_says_its_kind_alone(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", KERNEL)
    assert tune(file, "100", "--device", "host").status == 0
    space(tmp_path / "mine", {"config": "default"})
    assert "; outputs compared with a kernel\n" in tune("best", file, "100", "--device", "host").out


@pytest.mark.slow
@pytest.mark.usefixtures("untuned")
def test_without_a_reference_everything_says_unverified(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "none", "c", WRONG)
    assert "its results are unverified" in tune("validate", file).out
    assert tune("validate", file, "--json").json["reference"] == "none"
    done = tune(file, "100", "--device", "host")
    assert done.status == 0, done.err
    assert "the results are not verified" in done.err
    assert "; unverified" in done.out
    best = tune("best", file, "100", "--device", "host")
    assert "; unverified" in best.out
    assert "the record is unverified" in best.err
    record = tune("best", file, "100", "--device", "host", "--json").json["record"]
    assert (record["verified"], record["error"], record["bound"]) == ("none", None, None)
    ran = tune("run", file, "100", "--device", "host")
    assert ran.status == 0
    assert "; unverified" in ran.out
    assert "unverified" in tune("show", file, "100", "--device", "host").out
    assert tune("report").out.count(", unverified") == 2  # in the results and in the gains
    (tmp_path / "other").mkdir()
    assert "1 of them unverified" in tune("merge", tmp_path / "results", "--results", tmp_path / "other").out
    for form, word in {"header": "unverified", "cu": "unverified", "kernel-tuner": '"verified": "none"'}.items():
        out = tmp_path / "exported" / form
        assert tune("export", file, "100", "--to", form, "--device", "host", "--output", out).status == 0
        assert word in out.read_text()
    with pytest.warns(UserWarning, match="unverified"):
        assert tuner.load(file, 100, device="host").match == "exact"
    assert (
        tune("best", space(tmp_path / "mine", "a * x + 1"), "100", "--device", "host", "--json").json["match"]
        == "exact"
    )


@pytest.mark.slow
def test_trials_that_nothing_verified_say_so_wherever_they_go(tmp_path: Path, tune: Tune) -> None:
    file, recording = space(tmp_path / "mine", "none", "c", WRONG), tmp_path / "f.json"
    assert ", 0 failed; unverified" in tune("record", file, "100", "--device", "host", "--output", recording).out
    assert tune("record", file, "100", "--output", recording, "--json").json["verified"] == "none"
    assert "configurations; unverified" in tune("replay", recording).out
    assert tune("replay", recording, "--json").json["verified"] == "none"
    for form in ("csv", "kernel-tuner", "t4"):
        done = tune("export", file, "100", "--to", form, "--output", tmp_path / form)
        assert "the trials are unverified" in done.err
    space(tmp_path / "mine", "a * x + 1", "c", WRONG)  # the record is of this code, and no ledger is of this reference
    assert "the trials are unverified" in tune("export", file, "100", "--to", "csv", "--output", tmp_path / "csv").err


STRAY = {
    "writes outside": ("x[i]; y[n] = 1", "writes outside"),
    "writes into its input": ("x[i]; ((float *)x)[0] = 1", "writes to an input"),
    "crashes": ("x[i]; if (i == 3) *(volatile int *)8 = 1", "crash"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", STRAY)
def test_without_a_reference_stray_writes_and_crashes_are_seen(what: str, tmp_path: Path, tune: Tune) -> None:
    body, reason = STRAY[what]
    file = space(tmp_path / "mine", "none", "c", "x[i]")
    code = (tmp_path / "mine" / "f.c").read_text()
    (tmp_path / "mine" / "f.c").write_text(code.replace("y[i] = x[i];", f"{{ y[i] = {body}; }}"))
    done = tune(file, "100", "--device", "host")
    assert done.status == 1
    assert f"failed: {reason}" in done.err


@pytest.mark.slow
def test_a_kernel_of_the_same_file_may_take_other_arguments(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "none")
    data = yaml.safe_load(file.read_text())
    data["operation"]["reference"] = {"kernel": "slow", "arguments": ["n", "x", "y"]}
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    slow = "void slow(int n, const float *x, float *y) { for (int i = 0; i < n; i++) y[i] = 2 * x[i] + 1; }\n"
    code = (tmp_path / "mine" / "f.c").read_text()
    (tmp_path / "mine" / "f.c").write_text(f"#ifndef step\n#define step 1\n#endif\n{code}{slow}")
    assert tune(file, "100", "--device", "host").status == 0


# what is wrong: (reference, what `tune validate` says and where)
BAD_FILES: dict[str, tuple[Any, str]] = {
    "no file": ({"python": "none.py:expected"}, "operation.reference: {}/none.py: cannot be read"),
    "no function named": ({"python": "check.py"}, "operation.reference.python: 'check.py' does not name a function"),
    "a function that is not there": ({"python": "check.py:exp"}, "there is no function exp; it defines expected"),
    "a function of inputs": (
        {"python": "data.py:drawn"},
        "operation.reference: {}/data.py:1: drawn() asks for rng; it may ask for y, x, n, a",
    ),
    "a key too much": ({**PYTHON, "name": "x"}, "operation.reference.name: unknown key; a `python` reference allows"),
    "no kernel": ({"kernel": "none", "source": "naive.c"}, "operation.reference.kernel: {}/naive.c has no kernel none"),
    "no source": ({"kernel": "naive", "source": "none.c"}, "the kernel file cannot be read"),
    "fewer arguments": ({"kernel": "naive", "source": "naive.c", "arguments": ["y"]}, "naive in naive.c takes 4"),
    "an argument that is not there": (
        {"kernel": "naive", "arguments": ["z"]},
        "'z' is not an argument; allowed: y, x, n",
    ),
    "without its output": ({"kernel": "naive", "arguments": ["x", "n"]}, "the output y is missing"),
    "a grid without a value": (
        {"kernel": "naive", "source": "naive.c", "grid": "n // 0"},
        "operation.reference.grid.0: ",
    ),
    "a grid of parameters": ({"kernel": "naive", "grid": "step"}, "operation.reference.grid.0: "),
    "a value that is not declared": ({"config": {"step": 5}}, "operation.reference.config.step: 5 is not a declared"),
    "a parameter that is not there": ({"config": {"stop": 1}}, "operation.reference.config.stop: "),
    "no configuration": ({"config": {}}, "operation.reference.config: no value for step"),
    "a word": ({"config": "best"}, "operation.reference.config: 'best': write `default`"),
    "nothing": (None, "operation.reference: "),
    "another output": ({"z": "x"}, "operation.reference: write an expression for each output: y"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_what_is_wrong_with_a_reference_is_said_without_a_device(what: str, tmp_path: Path, tune: Tune) -> None:
    reference, message = BAD_FILES[what]
    file = space(tmp_path / "mine", "none")
    data = yaml.safe_load(file.read_text())
    data["operation"]["reference"] = reference
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert message.format(tmp_path / "mine") in done.err
    assert done.err.startswith(f"error: {file}:")


def test_without_an_output_nothing_is_called_verified(tmp_path: Path, tune: Tune) -> None:
    for reference in ({"config": "default"}, PYTHON, KERNEL, "a * x", "none"):
        file = space(tmp_path / "mine", reference)
        text = file.read_text()
        for role, message in [
            ("role: in", "no array has the role out or inout"),
            ("role: out\n    compared: false", "all outputs have `compared: false`"),
        ]:
            file.write_text(text.replace("role: out", role))
            refused = f"operation.reference: {message}, so nothing would" in tune("validate", file).err
            assert refused == (reference != "none"), (reference, role)


def test_a_kernel_of_blocks_needs_a_grid(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", {"kernel": "naive", "source": "naive.cu", "block": 16}, "opencl")
    assert "operation.reference.grid: write one to three numbers or expressions" in tune("validate", file).err


BAD_KERNELS = {
    "does not compile": ("void naive(float *y, const float *x, int n, float a) { y[0] = none; }", "compile: "),
    "writes outside": (
        "void naive(float *y, const float *x, int n, float a) { NAIVE y[n] = 0; }",
        "writes after the end of y",
    ),
    "leaves an element": (
        "void naive(float *y, const float *x, int n, float a) { NAIVE y[7] = was; }",
        "y[7] is not written",
    ),
    "crashes": (
        "void naive(float *y, const float *x, int n, float a) { *(volatile int *)8 = 1; }",
        "cannot be computed",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD_KERNELS)
def test_a_reference_kernel_that_cannot_serve_is_one_message(what: str, tmp_path: Path, tune: Tune) -> None:
    code, message = BAD_KERNELS[what]
    file = space(tmp_path / "mine", KERNEL)
    loop = "float was = y[7]; for (int i = 0; i < n; i++) y[i] = a * x[i] + 1;"
    (tmp_path / "mine" / "naive.c").write_text(code.replace("NAIVE", loop))
    done = tune(file, "100", "--device", "host")
    assert (done.status, done.out) == (2, ""), done.err
    assert message in done.err
    assert " failed: " not in done.err
    assert str(file) in done.err
